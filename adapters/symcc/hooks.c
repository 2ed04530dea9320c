/* hooks.c - the SymCC runtime's functions, met on their way; what is live is
 * said once, at start. Built twice: for LD_PRELOAD or linking before the
 * runtime, and with -DSYMLEASE_SYMCC_WRAP for ld's --wrap. */
#include "symcc.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BRANCH _ZN4qsym11AflTraceMap19isInterestingBranchEmb
#define HANDLER symcc_set_test_case_handler
#define CALL _sym_notify_call
#define BLOCK _sym_notify_basic_block
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
#define EXPORTED __attribute__((visibility("default")))

typedef void (*handler_fn)(const void *data, size_t len);
typedef bool (*branch_fn)(void *self, unsigned long site, bool taken);
typedef void (*set_fn)(handler_fn);
typedef void (*notify_fn)(uintptr_t site);

#ifdef SYMLEASE_SYMCC_WRAP
#define HOOK(name) JOIN(__wrap_, name)
/* Weak: NULL where --wrap does not name it. */
#define REAL(name) JOIN(__real_, name)
bool REAL(BRANCH)(void *, unsigned long, bool) __attribute__((weak));
void REAL(HANDLER)(handler_fn) __attribute__((weak));
void REAL(CALL)(uintptr_t) __attribute__((weak));
void REAL(BLOCK)(uintptr_t) __attribute__((weak));
#else
#define HOOK(name) name
#endif

EXPORTED bool HOOK(BRANCH)(void *self, unsigned long site, bool taken);
EXPORTED void HOOK(HANDLER)(handler_fn handler);
EXPORTED void HOOK(CALL)(uintptr_t site);
EXPORTED void HOOK(BLOCK)(uintptr_t site);

/* POSIX lets a function's address be one of an object; ISO C has no word for it. */
#define address(function) ((const void *)(uintptr_t)(function))

enum { UNTRIED = 0, OFF, LIVE };
static int state; /* changed by the first to come alone */
static bool busy; /* the runtime has one thread; another's events are as usual */
static handler_fn target_handler; /* what the target itself has set */
static bool branch_was_met;

static struct {
  branch_fn branch;
  set_fn set;
  notify_fn call, block;
} real;

static bool enter(void) { return !__atomic_test_and_set(&busy, __ATOMIC_ACQUIRE); }
static void leave(void) { __atomic_clear(&busy, __ATOMIC_RELEASE); }

/* ---- is it live? ---- */

#ifdef SYMLEASE_SYMCC_WRAP
static void find_real(void) {
  real.branch = REAL(BRANCH);
  real.set = REAL(HANDLER);
  real.call = REAL(CALL);
  real.block = REAL(BLOCK);
}
static const char *why_not(const char *name, const void *hook, const void *real_one) {
  (void)name;
  (void)hook;
  return real_one == NULL ? "the runtime has none, or -Wl,--wrap= does not name it" : NULL;
}
#else
/* The one behind the hook, else one before it that passes the hook by. */
static void *other_than(const void *hook, const char *name) {
  void *next = dlsym(RTLD_NEXT, name);
  void *first = next == NULL ? dlsym(RTLD_DEFAULT, name) : NULL;
  return first != NULL && first != hook ? first : next;
}
static void find_real(void) {
  *(void **)&real.branch = other_than(address(HOOK(BRANCH)), TEXT(BRANCH));
  *(void **)&real.set = other_than(address(HOOK(HANDLER)), TEXT(HANDLER));
  *(void **)&real.call = other_than(address(HOOK(CALL)), TEXT(CALL));
  *(void **)&real.block = other_than(address(HOOK(BLOCK)), TEXT(BLOCK));
}

/* Whether the module that holds `address` calls `name` through a slot that the
 * loader fills: bound within the module, its calls pass a hook by. */
static bool calls_by_slot(const void *address, const char *name) {
  const ElfW(Rela) * list[2] = {NULL, NULL};
  size_t bytes[2] = {0, 0};
  const ElfW(Sym) *symbols = NULL;
  const char *strings = NULL;
  struct link_map *module = NULL;
  Dl_info info;
  if (dladdr1(address, &info, (void **)&module, RTLD_DL_LINKMAP) == 0 || module == NULL)
    return true; /* nothing is known */
  for (const ElfW(Dyn) *at = module->l_ld; at->d_tag != DT_NULL; at++) {
    if (at->d_tag == DT_SYMTAB) symbols = (const void *)at->d_un.d_ptr;
    if (at->d_tag == DT_STRTAB) strings = (const void *)at->d_un.d_ptr;
    if (at->d_tag == DT_JMPREL) list[0] = (const void *)at->d_un.d_ptr;
    if (at->d_tag == DT_PLTRELSZ) bytes[0] = at->d_un.d_val;
    if (at->d_tag == DT_RELA) list[1] = (const void *)at->d_un.d_ptr;
    if (at->d_tag == DT_RELASZ) bytes[1] = at->d_un.d_val;
  }
  if (symbols == NULL || strings == NULL) return true;
  for (int i = 0; i < 2; i++)
    for (size_t n = 0; list[i] != NULL && n < bytes[i] / sizeof *list[i]; n++) {
      size_t symbol = ELF64_R_SYM(list[i][n].r_info);
      if (symbol != 0 && strcmp(strings + symbols[symbol].st_name, name) == 0) return true;
    }
  return false;
}

static const char *why_not(const char *name, const void *hook, const void *real_one) {
  if (real_one == NULL) return "no such function in the loaded runtime";
  if (dlsym(RTLD_DEFAULT, name) != hook) return "the runtime's own comes first: link this before it";
  if (strcmp(name, TEXT(BRANCH)) == 0 && !calls_by_slot(real_one, name))
    return "the runtime is bound to its own, as by -Bsymbolic";
  return NULL;
}
#endif

static bool live(const char *what, const char *name, const void *hook, const void *real_one,
                 char *line, size_t size) {
  const char *why = why_not(name, hook, real_one);
  size_t at = strlen(line);
  snprintf(line + at, size - at, "%s%s %s%s%s%s", at != 0 ? ", " : "", what,
           why == NULL ? "live" : "NOT live", why == NULL ? "" : " (", why == NULL ? "" : why,
           why == NULL ? "" : ")");
  return why == NULL;
}

/* ---- start ---- */

static void on_input(const void *data, size_t len);

static bool begin(char *line, size_t size) {
  bool any;
  line[0] = '\0';
  any = live("branches", TEXT(BRANCH), address(HOOK(BRANCH)), address(real.branch), line, size);
  any &= live("inputs", TEXT(HANDLER), address(HOOK(HANDLER)), address(real.set), line, size);
  any &= live("calls", TEXT(CALL), address(HOOK(CALL)), address(real.call), line, size);
  any &= live("blocks", TEXT(BLOCK), address(HOOK(BLOCK)), address(real.block), line, size);
  if (!any) return false;
  if (!symcc_(have_campaign)()) {
    symcc_(say)("%s; SYMLEASE_SYMCC_CAMPAIGN names no campaign: solving as usual", line);
    return false;
  }
  if (!symcc_(target_start)(address(real.branch)) || !symcc_(claim_start)() ||
      symcc_(settings).memory == NULL || !symcc_(solved_start)(symcc_(settings).memory))
    return false;
  if (!symcc_(staging_start)(symcc_(settings).staging)) {
    symcc_(say)("%s; no directory %s for inputs: solving as usual", line, symcc_(settings).staging);
    return false;
  }
  return true;
}

/* A target that is refused must be able to come back in another run: QSYM's map,
 * which is marked before we are asked, is this run's alone. */
static const char *private_map(void) {
  const char *map = getenv("SYMCC_AFL_COVERAGE_MAP");
  if (map == NULL || symcc_(settings).keep_map) return "";
  unsetenv("SYMCC_AFL_COVERAGE_MAP");
  return "; SYMCC_AFL_COVERAGE_MAP is left out";
}

static void start(void) {
  symcc_quiet quiet;
  char line[800];
  int untried = UNTRIED;
  if (!__atomic_compare_exchange_n(&state, &untried, OFF, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE))
    return;
  find_real();
  if (!symcc_(read_settings)()) return;
  symcc_(quiet_begin)(&quiet);
  if (real.branch == NULL && real.set == NULL && real.call == NULL && real.block == NULL) {
    symcc_(say)("hooks NOT live: no SymCC runtime in %s", program_invocation_short_name);
  } else if (begin(line, sizeof line)) {
    const char *map = private_map();
    real.set(on_input);
    __atomic_store_n(&state, LIVE, __ATOMIC_RELEASE);
    symcc_(say)("%s; inputs go to %s; %llu bits of solved targets%s", line,
                symcc_(settings).staging, (unsigned long long)symcc_(solved_bits)(), map);
  } else if (strstr(line, "NOT live") != NULL) {
    symcc_(say)("%s; solving as usual", line);
  } else if (symcc_(counts).errors != 0) {
    symcc_(say)("%s; solving as usual, as said before", line);
  }
  symcc_(quiet_end)(&quiet);
}

__attribute__((constructor)) static void at_load(void) { start(); }

__attribute__((destructor)) static void at_end(void) {
  const symcc_counters *c = &symcc_(counts);
  if (state != LIVE || !enter()) return;
  if (symcc_(solving)) symcc_(settle)();
  if (symcc_(settings).verbose) {
    symcc_quiet quiet;
    symcc_(quiet_begin)(&quiet);
    symcc_(say)("events %llu, asked %llu, known %llu, held %llu, claimed %llu, taken over %llu, "
                "remembered %llu, inputs %llu, staged %llu, stale %llu, errors %llu",
                (unsigned long long)c->events, (unsigned long long)c->asked,
                (unsigned long long)c->known, (unsigned long long)c->held,
                (unsigned long long)c->claimed, (unsigned long long)c->taken_over,
                (unsigned long long)c->remembered, (unsigned long long)c->inputs,
                (unsigned long long)c->staged, (unsigned long long)c->stale,
                (unsigned long long)c->errors);
    symcc_(quiet_end)(&quiet);
  }
  leave();
}

/* ---- the hooks ---- */

static bool is_live(void) {
  if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == UNTRIED) start();
  return __atomic_load_n(&state, __ATOMIC_ACQUIRE) == LIVE;
}

bool HOOK(BRANCH)(void *self, unsigned long site, bool taken) {
  const bool on = is_live();
  /* Without the real one nobody can have called; true: solved as usual. */
  bool solve = real.branch != NULL ? real.branch(self, site, taken) : true;
  if (!on || !enter()) return solve;
  branch_was_met = true;
  solve = symcc_(decide)(site, taken, solve);
  leave();
  return solve;
}

static void on_input(const void *data, size_t len) {
  const handler_fn next = target_handler;
  if (!branch_was_met) {
    branch_was_met = true;
    symcc_(say)("inputs come, but no branch was met: the branch hook is NOT live");
  }
  if (enter()) {
    symcc_(input)(data, len);
    leave();
  } else { /* another thread's: staged all the same, and nothing else */
    symcc_quiet quiet;
    symcc_(quiet_begin)(&quiet);
    symcc_(stage)(data, len);
    symcc_(quiet_end)(&quiet);
  }
  if (next != NULL) next(data, len);
}

void HOOK(HANDLER)(handler_fn handler) {
  if (is_live()) target_handler = handler;
  else if (real.set != NULL) real.set(handler);
}

/* What comes after a claimed branch's solving: the claim is over. */
static void moved_on(void) {
  if (!symcc_(solving) || !enter()) return;
  if (symcc_(solving)) symcc_(settle)();
  leave();
}

void HOOK(CALL)(uintptr_t site) {
  if (is_live()) {
    moved_on();
    symcc_(last_call) = site;
  }
  if (real.call != NULL) real.call(site);
}

void HOOK(BLOCK)(uintptr_t site) {
  if (is_live()) {
    moved_on();
    symcc_(last_block) = site;
    symcc_(ordinal) = 0;
  }
  if (real.block != NULL) real.block(site);
}
