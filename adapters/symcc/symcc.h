/* symcc.h - what the parts of the SymCC adapter know of each other; nothing
 * here is for a target. See docs/symcc.md. */
#ifndef SYMLEASE_SYMCC_H
#define SYMLEASE_SYMCC_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "symlease.h"

/* In a static link these names meet the target's. */
#define symcc_(name) symlease_symcc_##name

typedef struct {
  uint8_t byte[32];
} symcc_digest;

/* What this process did; written to stderr at its end under
 * SYMLEASE_SYMCC_VERBOSE=1. */
typedef struct {
  uint64_t events;      /* branch events */
  uint64_t asked;       /* of them, those that the runtime itself would solve */
  uint64_t known;       /* refused: solved before */
  uint64_t held;        /* refused: another process solves it */
  uint64_t claimed;     /* claimed, and so solved */
  uint64_t taken_over;  /* of them, left by a process that is dead */
  uint64_t remembered;  /* claims whose input is staged, or that count as tried */
  uint64_t inputs;      /* inputs that the runtime generated */
  uint64_t staged;      /* of them, those that are new in the staging directory */
  uint64_t stale;       /* inputs made after the work lease was lost */
  uint64_t errors;
} symcc_counters;

typedef struct {
  char *campaign;  /* NULL: the roots that symlease_open_env reads */
  char *memory;    /* what was solved before */
  char *staging;   /* where generated inputs go */
  const char *work, *token; /* NULL: no work lease */
  const char *build;        /* NULL: the executable's own identity */
  int32_t durability;       /* of target leases that are made new: SYMLEASE_DURABLE_* */
  bool hits, tried, keep_map, verbose, quiet;
  uint32_t mode;   /* of files, 0600 */
} symcc_settings;

extern symcc_counters symcc_(counts);
extern symcc_settings symcc_(settings);

/* io.c: nothing here ends the host: no SIGPIPE, no SIGXFSZ, errno as before. */
typedef struct {
  sigset_t before;
  bool pending[2];
  int error;
} symcc_quiet;
void symcc_(quiet_begin)(symcc_quiet *q);
void symcc_(quiet_end)(symcc_quiet *q);
void symcc_(say)(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Counts; says the first. */
void symcc_(trouble)(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A descriptor that no host takes for one of its own; -1 and errno. */
int symcc_(open)(int directory, const char *path, int flags, mode_t mode);
bool symcc_(write)(int fd, const void *bytes, size_t len);
/* The directory and those above it, durably; false and errno. */
bool symcc_(make_directories)(const char *path);
bool symcc_(digest_of)(const void *bytes, size_t len, symcc_digest *out);
void symcc_(digest_text)(const symcc_digest *d, char text[65]);
bool symcc_(digest_parse)(const char *text, symcc_digest *out);

/* target.c: which branch is this? */
enum { SYMCC_OPEN = 0, SYMCC_SOLVED };
typedef struct {
  uint64_t site, call, block;
  uint32_t ordinal, count; /* count: of both sides together */
  uint8_t taken, used, state[2]; /* taken: now; state: of each side, of the count's present bucket */
} symcc_target;
extern uint64_t symcc_(last_call), symcc_(last_block);
extern uint32_t symcc_(ordinal);
/* Finds what makes ids stable; false: nothing does. `runtime`: a function in it. */
bool symcc_(target_start)(const void *runtime);
/* Counts one more event. */
symcc_target *symcc_(target_met)(uint64_t site, bool taken);
bool symcc_(target_digest)(const symcc_target *target, symcc_digest *out);

/* solved.c: what was solved before, by any process of any run. */
bool symcc_(solved_start)(const char *directory);
/* Maybe older than another process's last word, and then false. */
bool symcc_(solved_known)(const symcc_digest *target);
/* As it stands now: asked under the target's lease. */
bool symcc_(solved_now)(const symcc_digest *target);
void symcc_(solved_add)(const symcc_digest *target);
uint64_t symcc_(solved_bits)(void);

/* claim.c: what is being solved now. */
typedef enum { SYMCC_CLAIMED, SYMCC_HELD, SYMCC_TROUBLE } symcc_claim_answer;
extern bool symcc_(solving);        /* a target is claimed here */
extern symcc_digest symcc_(current); /* which */
bool symcc_(claim_start)(void);
symcc_claim_answer symcc_(claim)(const symcc_digest *target);
void symcc_(release)(void);
/* A forked child's copy of a claim is its parent's. */
bool symcc_(claim_is_mine)(void);
/* Without a work lease, or with one that is still current: yes. */
bool symcc_(work_is_mine)(void);

/* staging.c */
bool symcc_(staging_start)(const char *directory);
/* Whether the input now is in the staging directory, durably. */
bool symcc_(stage)(const void *bytes, size_t len);

/* decide.c */
bool symcc_(decide)(uint64_t site, bool taken, bool interesting);
void symcc_(settle)(void);
void symcc_(input)(const void *bytes, size_t len);

/* settings.c: false: SYMLEASE_DISABLE=1. */
bool symcc_(read_settings)(void);
/* Whether anything tells where the campaign is. */
bool symcc_(have_campaign)(void);

#endif
