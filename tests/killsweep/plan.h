/* What the three programs in one (prepare, act, recover) agree on. */
#ifndef PLAN_H
#define PLAN_H

#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../c-tests/check.h"

#define TTL 10.0
/* Longer than any TTL here. */
#define LATER 3600.0

/* One changing operation of the C interface. The paths are those of the current
 * directory: root/ is the campaign, state.bin what prepare hands to act. */
typedef struct plan {
  const char *name;
  void (*prepare)(void);
  void (*act)(symlease_campaign *);
  /* What a recovering process has to be able to do afterwards. */
  const char *work[4];
  uint64_t targets[4];
  int merges, commits;
} plan;

/* What prepare hands over: tokens live in the holder's memory alone. */
typedef struct handed {
  symlease_lease leases[4];
  symlease_group group;
} handed;

extern const plan plans[];
extern handed state;
extern double offset;

#define CANDIDATES 2
extern const symlease_sparse candidates[CANDIDATES];

symlease_campaign *open_at(double shift, double lock_timeout, int32_t session);
void say(const char *format, ...);
void name_lease(const char *name, symlease_lease *lease);
void stage_results(void);
size_t fill_results(symlease_result results[4]);
void recover(const plan *plan, double shift);
void take_over(const plan *plan);

#endif
