/* symlease_i2s.c - a solver for where SymCC is not installed. See README.md.
 * The target's comparisons report both operands; where one operand's bytes
 * stand in the input, the other's are put in their place. Holds main().
 * -DSYMLEASE_I2S_NO_CAMPAIGN: without libsymlease (no claiming for itself). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifndef SYMLEASE_I2S_NO_CAMPAIGN
#include "symlease.h"
#endif

/* Should this file be compiled with the target's flags, do not record it. */
#if defined(__clang__) && __clang_major__ >= 13
#pragma clang attribute push(__attribute__((no_sanitize("coverage"))), apply_to = function)
#endif

#define SITES (1u << 16)   /* comparison sites of a run; a power of two */
#define RECORDS (1u << 16) /* comparisons kept of a run */
#define PER_SITE 32u       /* of them, of one site */
#define TEXT 64u           /* bytes kept of a compared string */
#define CASES 512u         /* of one switch */
#define PLACES 16u         /* places tried for one spelling */
#define LONGEST (UINT64_C(1) << 20)

enum { LT, EQ, GT, NE, SIDES };
enum { VARIABLE = 1, CONSTANT, CASE, STRING, BYTES }; /* STRING: ends in NUL */
enum { OK = 0, E_USAGE = 2, E_INPUT = 3, E_NOTHING = 4, E_CAMPAIGN = 5, E_OUTPUT = 6 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));

typedef struct {
  uint64_t key; /* 0: free */
  uint64_t pc;
  uint64_t aux; /* a case's value; case 1, default 2 in aux_kind */
  uint32_t aux_kind;
  uint32_t kind;
  uint32_t order;
  uint32_t stored;
  uint32_t count[SIDES];
  uint64_t last[2];
} site;

typedef struct {
  uint32_t ready; /* the site's index + 1, written last */
  uint16_t size;
  uint8_t kind;
  uint8_t side;
  uint8_t text_len[2];
  uint64_t v[2]; /* integers */
  uint8_t text[2][TEXT];
} record;

typedef struct {
  uint32_t records, sites, dropped_sites;
  site site[SITES];
  record record[RECORDS];
} table;

static table *live; /* not NULL: this process records */
static volatile int in_wrapper;

/* ---- recording: in the target's process; no allocation, no lock ---- */

static uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + UINT64_C(0x9e3779b97f4a7c15) + (h << 6) + (h >> 2);
  h ^= h >> 30;
  h *= UINT64_C(0xbf58476d1ce4e5b9);
  h ^= h >> 27;
  h *= UINT64_C(0x94d049bb133111eb);
  return h ^ (h >> 31);
}

static site *find_site(table *t, uint64_t pc, uint32_t kind, uint32_t aux_kind, uint64_t aux) {
  uint64_t key = mix(mix(mix(pc, kind), aux_kind), aux);
  uint32_t i, n;
  if (key == 0) key = 1;
  for (n = 0, i = (uint32_t)key; n < 64; n++, i++) {
    site *s = &t->site[i % SITES];
    uint64_t seen = __atomic_load_n(&s->key, __ATOMIC_ACQUIRE);
    if (seen == key) return s;
    if (seen != 0) continue;
    if (__atomic_compare_exchange_n(&s->key, &seen, key, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      s->pc = pc;
      s->kind = kind;
      s->aux_kind = aux_kind;
      s->aux = aux;
      s->order = __atomic_fetch_add(&t->sites, 1, __ATOMIC_RELAXED);
      return s;
    }
    if (seen == key) return s;
  }
  __atomic_fetch_add(&t->dropped_sites, 1, __ATOMIC_RELAXED);
  return NULL;
}

/* Counts the hit; the record to fill in, or NULL. */
static record *take(table *t, site *s, uint32_t side, uint64_t a, uint64_t b) {
  uint32_t had = __atomic_fetch_add(&s->count[side], 1, __ATOMIC_RELAXED), i;
  if (s->stored > 0 && had > 0 && s->last[0] == a && s->last[1] == b) return NULL;
  /* the first of each side always, else one side could fill the site's share */
  if (s->stored >= PER_SITE && had > 0) return NULL;
  i = __atomic_load_n(&t->records, __ATOMIC_RELAXED);
  if (i >= RECORDS) return NULL;
  i = __atomic_fetch_add(&t->records, 1, __ATOMIC_RELAXED);
  if (i >= RECORDS) return NULL;
  s->stored++;
  s->last[0] = a;
  s->last[1] = b;
  t->record[i].side = (uint8_t)side;
  return &t->record[i];
}

static void done(table *t, site *s, record *r) {
  __atomic_store_n(&r->ready, (uint32_t)(s - t->site) + 1, __ATOMIC_RELEASE);
}

static void keep(table *t, site *s, uint32_t kind, uint32_t side, uint32_t size, uint64_t a,
                 uint64_t b) {
  record *r = take(t, s, side, a, b);
  if (r == NULL) return;
  r->kind = (uint8_t)kind;
  r->size = (uint16_t)size;
  r->v[0] = a;
  r->v[1] = b;
  done(t, s, r);
}

static void integers(void *pc, uint32_t kind, uint32_t size, uint64_t a, uint64_t b) {
  table *t = live;
  site *s;
  if (t == NULL) return;
  s = find_site(t, (uintptr_t)pc, kind, 0, 0);
  if (s != NULL) keep(t, s, kind, a < b ? LT : a == b ? EQ : GT, size, a, b);
}

#define HOOK __attribute__((noinline, visibility("default")))
#define CMP(bits, bytes)                                                                       \
  HOOK void __sanitizer_cov_trace_cmp##bytes(uint##bits##_t a, uint##bits##_t b);              \
  HOOK void __sanitizer_cov_trace_const_cmp##bytes(uint##bits##_t c, uint##bits##_t v);        \
  void __sanitizer_cov_trace_cmp##bytes(uint##bits##_t a, uint##bits##_t b) {                  \
    integers(__builtin_return_address(0), VARIABLE, bytes, a, b);                              \
  }                                                                                            \
  void __sanitizer_cov_trace_const_cmp##bytes(uint##bits##_t c, uint##bits##_t v) {            \
    integers(__builtin_return_address(0), CONSTANT, bytes, v, c);                              \
  }
CMP(8, 1)
CMP(16, 2)
CMP(32, 4)
CMP(64, 8)

/* cases: how many, bits of the value, then the values. */
HOOK void __sanitizer_cov_trace_switch(uint64_t v, uint64_t *cases);
void __sanitizer_cov_trace_switch(uint64_t v, uint64_t *cases) {
  uint64_t pc = (uintptr_t)__builtin_return_address(0), i, n = cases[0], other = 0;
  uint32_t size = (uint32_t)((cases[1] + 7) / 8);
  uint64_t mask = size >= 8 ? UINT64_MAX : (UINT64_C(1) << (8 * size)) - 1;
  int matched = 0;
  table *t = live;
  site *s;
  if (t == NULL) return;
  if (n > CASES) n = CASES;
  for (i = 0; i < cases[0]; i++) matched |= cases[2 + i] == v;
  for (i = 0; i < n; i++) {
    s = find_site(t, pc, CASE, 1, cases[2 + i]);
    if (s != NULL) keep(t, s, CASE, cases[2 + i] == v ? EQ : NE, size, v, cases[2 + i]);
  }
  for (i = 0; i < cases[0]; i++) /* the cases are sorted: `other` is none of them */
    if (cases[2 + i] == other) other++;
  if (other > mask) return;
  s = find_site(t, pc, CASE, 2, 0);
  if (s != NULL) keep(t, s, CASE, matched ? NE : EQ, size, v, other);
}

static size_t length(const char *s, size_t most) {
  size_t n = 0;
  while (n < most && s[n] != '\0') n++;
  return n;
}

static void texts(void *pc, uint32_t kind, const void *a, size_t na, const void *b, size_t nb,
                  int equal) {
  table *t = live;
  uint64_t ha, hb;
  uint32_t i;
  site *s;
  record *r;
  if (t == NULL) return;
  if (na > TEXT) na = TEXT;
  if (nb > TEXT) nb = TEXT;
  for (ha = na, i = 0; i < na; i++) ha = mix(ha, ((const uint8_t *)a)[i]);
  for (hb = nb, i = 0; i < nb; i++) hb = mix(hb, ((const uint8_t *)b)[i]);
  s = find_site(t, (uintptr_t)pc, STRING, 0, 0);
  if (s == NULL) return;
  r = take(t, s, equal ? EQ : NE, ha, hb);
  if (r == NULL) return;
  r->kind = (uint8_t)kind;
  r->text_len[0] = (uint8_t)na;
  r->text_len[1] = (uint8_t)nb;
  for (i = 0; i < na; i++) r->text[0][i] = ((const uint8_t *)a)[i];
  for (i = 0; i < nb; i++) r->text[1][i] = ((const uint8_t *)b)[i];
  done(t, s, r);
}

static void strings(void *pc, const char *a, const char *b, size_t n, int result) {
  size_t most = n < TEXT ? n : TEXT, na, nb;
  if (live == NULL) return;
  na = length(a, most);
  nb = length(b, most);
  texts(pc, n > na || n > nb ? STRING : BYTES, a, na, b, nb, result == 0);
}

/* With ASan its interceptors call these. */
#define WEAK_HOOK(name, args)                                                                  \
  HOOK void __sanitizer_weak_hook_##name args;                                                 \
  void __sanitizer_weak_hook_##name args
WEAK_HOOK(memcmp, (void *pc, const void *a, const void *b, size_t n, int result)) {
  if (!in_wrapper) texts(pc, BYTES, a, n, b, n, result == 0);
}
WEAK_HOOK(strncmp, (void *pc, const char *a, const char *b, size_t n, int result)) {
  if (!in_wrapper) strings(pc, a, b, n, result);
}
WEAK_HOOK(strncasecmp, (void *pc, const char *a, const char *b, size_t n, int result)) {
  if (!in_wrapper) strings(pc, a, b, n, result);
}
WEAK_HOOK(strcmp, (void *pc, const char *a, const char *b, int result)) {
  if (!in_wrapper) strings(pc, a, b, SIZE_MAX, result);
}
WEAK_HOOK(strcasecmp, (void *pc, const char *a, const char *b, int result)) {
  if (!in_wrapper) strings(pc, a, b, SIZE_MAX, result);
}

/* With @symlease_i2s.wrap the linker sends the linked objects' calls here;
 * those of shared libraries are left alone. The real call comes first, so
 * that a bad pointer dies there as it would have. */
#define WRAP(name, proto, call, note)                                                    \
  int __real_##name proto __attribute__((weak));                                               \
  HOOK int __wrap_##name proto;                                                                \
  int __wrap_##name proto {                                                                    \
    int result;                                                                                \
    if (live == NULL) return __real_##name call;                                               \
    in_wrapper = 1;                                                                            \
    result = __real_##name call;                                                               \
    in_wrapper = 0;                                                                            \
    note;                                                                                      \
    return result;                                                                             \
  }
#define HERE __builtin_return_address(0)
WRAP(memcmp, (const void *a, const void *b, size_t n), (a, b, n),
     texts(HERE, BYTES, a, n, b, n, result == 0))
WRAP(bcmp, (const void *a, const void *b, size_t n), (a, b, n),
     texts(HERE, BYTES, a, n, b, n, result == 0))
WRAP(strcmp, (const char *a, const char *b), (a, b), strings(HERE, a, b, SIZE_MAX, result))
WRAP(strcasecmp, (const char *a, const char *b), (a, b),
     strings(HERE, a, b, SIZE_MAX, result))
WRAP(strncmp, (const char *a, const char *b, size_t n), (a, b, n),
     strings(HERE, a, b, n, result))
WRAP(strncasecmp, (const char *a, const char *b, size_t n), (a, b, n),
     strings(HERE, a, b, n, result))

/* ---- the solver ---- */

static struct {
  const char *targets, *campaign, *out;
  int list, solvable, all, check, verbose;
  uint32_t most, again;
  double timeout;
} opt = {.most = 64, .timeout = 5.0};

static uint8_t *input;
static size_t input_len;
static int argument_count;
static char **arguments;

__attribute__((format(printf, 1, 2))) static void say(const char *form, ...) {
  va_list v;
  fputs("symlease-i2s: ", stderr);
  va_start(v, form);
  vfprintf(stderr, form, v);
  va_end(v);
  fputc('\n', stderr);
}

__attribute__((noreturn, format(printf, 2, 3))) static void fail(int code, const char *form, ...) {
  va_list v;
  fputs("symlease-i2s: ", stderr);
  va_start(v, form);
  vfprintf(stderr, form, v);
  va_end(v);
  fputc('\n', stderr);
  exit(code);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *need(void *p) {
  if (p == NULL) fail(E_OUTPUT, "no memory");
  return p;
}

static void child(const uint8_t *data, size_t len, pid_t parent) {
  struct rlimit none = {0, 0};
  uint8_t *copy = malloc(len + (len == 0));
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (copy == NULL || null < 0) _exit(97);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(97);
  setpgid(0, 0);
  setrlimit(RLIMIT_CORE, &none);
  dup2(null, 0);
  if (!opt.verbose) dup2(null, 2);
  dup2(opt.verbose ? 2 : null, 1);
  memcpy(copy, data, len);
  if (LLVMFuzzerInitialize != NULL) LLVMFuzzerInitialize(&argument_count, &arguments);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  LLVMFuzzerTestOneInput(copy, len);
  if (opt.verbose) fflush(stdout);
  _exit(0);
}

/* Runs the target on data in a child. What it recorded outlives it. */
static table *run(const uint8_t *data, size_t len, int tell) {
  struct timespec nap = {0, 100000};
  pid_t parent = getpid(), pid;
  int status = 0, late = 0;
  double end;
  table *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (t == MAP_FAILED) fail(E_OUTPUT, "no memory for the comparisons: %s", strerror(errno));
  fflush(NULL);
  pid = fork();
  if (pid < 0) fail(E_OUTPUT, "cannot fork: %s", strerror(errno));
  if (pid == 0) {
    live = t;
    child(data, len, parent);
  }
  setpgid(pid, pid); /* in both, as shells do: nobody waits for the other */
  end = seconds() + opt.timeout;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (!late && seconds() >= end) {
      late = 1;
      kill(-pid, SIGKILL);
      kill(pid, SIGKILL);
    }
    nanosleep(&nap, NULL);
    if (nap.tv_nsec < 5000000) nap.tv_nsec *= 2;
  }
  kill(-pid, SIGKILL); /* what the target left behind */
  if (tell && late)
    say("the target hung: killed after %g s; what it compared until then is used", opt.timeout);
  else if (tell && WIFSIGNALED(status))
    say("the target died by signal %d; what it compared until then is used", WTERMSIG(status));
  else if (tell && WEXITSTATUS(status) != 0)
    say("the target left with exit code %d; what it compared until then is used",
        WEXITSTATUS(status));
  if (tell && t->dropped_sites > 0)
    say("%" PRIu32 " comparisons of sites beyond the table were not kept", t->dropped_sites);
  if (t->records > RECORDS) t->records = RECORDS;
  return t;
}

/* ---- ids: build identity, offset in the module, side ---- */

typedef struct {
  uintptr_t base, low, high;
  uint64_t build;
} module;

static module modules[256];
static size_t module_count;

static uint64_t digest(uint64_t h, const uint8_t *p, size_t n) {
  uint64_t v;
  for (; n >= 8; p += 8, n -= 8) {
    memcpy(&v, p, 8);
    h = mix(h, v);
  }
  for (; n > 0; p++, n--) h = mix(h, *p);
  return h;
}

static uint64_t build_note(const uint8_t *p, size_t n) {
  while (n >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) h;
    size_t name, desc;
    memcpy(&h, p, sizeof h);
    name = ((size_t)h.n_namesz + 3) & ~(size_t)3;
    desc = ((size_t)h.n_descsz + 3) & ~(size_t)3;
    if (name > n - sizeof h || desc > n - sizeof h - name) return 0;
    if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 && h.n_descsz > 0 &&
        memcmp(p + sizeof h, "GNU", 4) == 0)
      return digest(1, p + sizeof h + name, h.n_descsz);
    p += sizeof h + name + desc;
    n -= sizeof h + name + desc;
  }
  return 0;
}

static int see_module(struct dl_phdr_info *info, size_t size, void *arg) {
  uint64_t build = 0, text = 2;
  uintptr_t low = UINTPTR_MAX, high = 0;
  int i;
  (void)size;
  (void)arg;
  for (i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *h = &info->dlpi_phdr[i];
    const uint8_t *at = (const uint8_t *)(info->dlpi_addr + h->p_vaddr);
    if (h->p_type == PT_NOTE && build == 0) build = build_note(at, h->p_filesz);
    if (h->p_type != PT_LOAD || (h->p_flags & PF_X) == 0) continue;
    if ((uintptr_t)at < low) low = (uintptr_t)at;
    if ((uintptr_t)at + h->p_memsz > high) high = (uintptr_t)at + h->p_memsz;
  }
  if (low >= high || module_count == sizeof modules / sizeof modules[0]) return 0;
  for (i = 0; i < info->dlpi_phnum && build == 0; i++) {
    const ElfW(Phdr) *h = &info->dlpi_phdr[i];
    if (h->p_type == PT_LOAD && (h->p_flags & PF_X) != 0 && (h->p_flags & PF_R) != 0)
      text = digest(text, (const uint8_t *)(info->dlpi_addr + h->p_vaddr), h->p_filesz);
  }
  modules[module_count].base = info->dlpi_addr;
  modules[module_count].low = low;
  modules[module_count].high = high;
  modules[module_count].build = build != 0 ? build : text;
  module_count++;
  return 0;
}

static const module *module_of(uint64_t pc) {
  size_t i;
  for (i = 0; i < module_count; i++)
    if (pc >= modules[i].low && pc <= modules[i].high) return &modules[i];
  return NULL;
}

typedef struct {
  uint64_t id;
  uint32_t site, order, again;
  uint8_t side;
} target;

static target *targets;
static size_t target_count;

static void add_target(const table *t, const site *s, const module *m, uint32_t side) {
  target *x = &targets[target_count];
  uint64_t id = mix(UINT64_C(0x73796d6c65617365), m->build);
  x->again = s->count[side];
  id = mix(mix(mix(id, s->pc - m->base), s->kind == CASE ? s->aux_kind : 0), s->aux);
  id = mix(mix(id, side), x->again);
  x->id = id != 0 ? id : 1;
  x->site = (uint32_t)(s - t->site);
  x->order = s->order;
  x->side = (uint8_t)side;
  target_count++;
}

static int by_order(const void *a, const void *b) {
  const target *x = a, *y = b;
  if (x->order != y->order) return x->order < y->order ? -1 : 1;
  return (int)x->side - (int)y->side;
}

/* Constants that leave no number on that side. */
static int impossible(const table *t, const site *s, uint32_t side) {
  uint32_t i;
  if (s->kind != CONSTANT || side == EQ) return 0;
  for (i = 0; i < t->records; i++) {
    const record *r = &t->record[i];
    if (r->ready != (uint32_t)(s - t->site) + 1) continue;
    return side == LT ? r->v[1] == 0
                      : r->v[1] == (r->size >= 8 ? UINT64_MAX : (UINT64_C(1) << (8 * r->size)) - 1);
  }
  return 0;
}

static void find_targets(const table *t) {
  uint32_t i, side, foreign = 0;
  module_count = 0;
  dl_iterate_phdr(see_module, NULL);
  targets = need(calloc(3 * (size_t)SITES, sizeof *targets));
  for (i = 0; i < SITES; i++) {
    const site *s = &t->site[i];
    const module *m;
    if (s->key == 0 || s->pc == 0) continue;
    m = module_of(s->pc);
    if (m == NULL) {
      foreign++;
      continue;
    }
    for (side = LT; side < SIDES; side++) {
      int integer = s->kind == VARIABLE || s->kind == CONSTANT;
      if (integer ? side == NE : s->kind == CASE ? side != EQ : side != EQ && side != NE) continue;
      if (s->count[side] > (side == EQ ? opt.again : 0)) continue;
      if (!impossible(t, s, side)) add_target(t, s, m, side);
    }
  }
  qsort(targets, target_count, sizeof *targets, by_order);
  if (foreign > 0)
    say("%" PRIu32 " comparisons lie in modules loaded during the run: left out", foreign);
}

/* ---- output ---- */

typedef struct {
  uint64_t a, b;
} sum;

static sum *seen;
static size_t seen_size, seen_count;

static sum sum_of(const uint8_t *p, size_t n) {
  sum s;
  s.a = digest(mix(3, n), p, n) | 1;
  s.b = digest(mix(5, n), p, n);
  return s;
}

static int known(sum s) {
  size_t i;
  if (seen_size == 0) return 0;
  for (i = s.a & (seen_size - 1); seen[i].a != 0; i = (i + 1) & (seen_size - 1))
    if (seen[i].a == s.a && seen[i].b == s.b) return 1;
  return 0;
}

static void remember(sum s) {
  size_t i;
  if (2 * (seen_count + 1) > seen_size) {
    sum *old = seen;
    size_t n = seen_size;
    seen_size = n == 0 ? 1024 : 2 * n;
    seen = need(calloc(seen_size, sizeof *seen));
    seen_count = 0;
    for (i = 0; i < n; i++)
      if (old[i].a != 0) remember(old[i]);
    free(old);
  }
  for (i = s.a & (seen_size - 1); seen[i].a != 0; i = (i + 1) & (seen_size - 1)) {
  }
  seen[i] = s;
  seen_count++;
}

static uint8_t *read_all(int fd, size_t *len) {
  size_t size = 4096, n = 0;
  uint8_t *p = need(malloc(size));
  for (;;) {
    ssize_t got;
    if (n == size) p = need(realloc(p, size *= 2));
    got = read(fd, p + n, size - n);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || n > LONGEST) {
      if (n > LONGEST) errno = EFBIG;
      free(p);
      return NULL;
    }
    if (got == 0) break;
    n += (size_t)got;
  }
  *len = n;
  return p;
}

static int out_dir = -1;
static unsigned next_number;
static unsigned long written;

static void open_output(void) {
  DIR *d;
  struct dirent *e;
  if (opt.out == NULL || opt.out[0] == '\0')
    fail(E_USAGE, "no directory for the outputs: set SYMCC_OUTPUT_DIR or give --output");
  out_dir = open(opt.out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (out_dir < 0) fail(E_OUTPUT, "output directory %s: %s", opt.out, strerror(errno));
  d = opendir(opt.out);
  if (d == NULL) fail(E_OUTPUT, "output directory %s: %s", opt.out, strerror(errno));
  while ((e = readdir(d)) != NULL) {
    struct stat st;
    size_t n;
    uint8_t *p;
    int fd;
    if (e->d_name[0] == '.') continue;
    fd = openat(out_dir, e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (p = read_all(fd, &n)) != NULL) {
      sum s = sum_of(p, n);
      if (!known(s)) remember(s);
      free(p);
    }
    close(fd);
  }
  closedir(d);
}

/* Under the next free number: whole or not at all, over nobody's file. */
static void publish(const uint8_t *p, size_t len) {
  char temp[64], name[32];
  int fd, bad = 0;
  snprintf(temp, sizeof temp, ".symlease-i2s-%ld.tmp", (long)getpid());
  unlinkat(out_dir, temp, 0);
  fd = openat(out_dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) fail(E_OUTPUT, "%s/%s: %s", opt.out, temp, strerror(errno));
  while (len > 0 && !bad) {
    ssize_t n = write(fd, p, len);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) bad = n == 0 ? EIO : errno;
    else p += n, len -= (size_t)n;
  }
  if (close(fd) != 0 && !bad) bad = errno;
  while (!bad) {
    snprintf(name, sizeof name, "%06u", next_number++);
    if (renameat2(out_dir, temp, out_dir, name, RENAME_NOREPLACE) == 0) break;
    if (errno == EINVAL || errno == ENOSYS) { /* a file system without it */
      if (linkat(out_dir, temp, out_dir, name, 0) == 0) {
        unlinkat(out_dir, temp, 0);
        break;
      }
    }
    if (errno != EEXIST) bad = errno;
  }
  if (bad) {
    unlinkat(out_dir, temp, 0);
    fail(E_OUTPUT, "writing to %s: %s", opt.out, strerror(bad));
  }
  written++;
}

/* ---- candidates ---- */

enum { WRITE, COUNT, COUNT_CHECKED }; /* counting stops at the first */

typedef struct {
  const target *want;
  const site *site;
  uint32_t tried, limit; /* limit: of the record at hand */
  uint32_t made;
  int what, stop;
  int (*alive)(void); /* renews the lease; 0: it is lost */
} job;

static int takes_side(const job *j, const uint8_t *p, size_t len) {
  table *t = run(p, len, 0);
  const site *s = find_site(t, j->site->pc, j->site->kind, j->site->aux_kind, j->site->aux);
  int yes = s != NULL && s->count[j->want->side] > j->want->again;
  munmap(t, sizeof *t);
  return yes;
}

static int full(const job *j) { return j->stop || j->tried >= j->limit; }

static void emit(job *j, const uint8_t *p, size_t len) {
  sum s;
  if (full(j) || len > LONGEST) return;
  if (len == input_len && memcmp(p, input, len) == 0) return;
  j->tried++;
  if (j->what != WRITE) {
    if (j->what == COUNT_CHECKED && opt.check && !takes_side(j, p, len)) return;
    j->made++;
    j->stop = 1;
    return;
  }
  s = sum_of(p, len);
  if (known(s)) return;
  if (j->alive != NULL && !j->alive()) {
    j->stop = 1;
    return;
  }
  if (opt.check && !takes_side(j, p, len)) return;
  publish(p, len);
  remember(s);
  j->made++;
}

/* The input with `cut` bytes at `at` replaced by p; grows where needed. */
static void replace(job *j, size_t at, size_t cut, const uint8_t *p, size_t len) {
  size_t tail = at + cut < input_len ? input_len - at - cut : 0;
  uint8_t *x = need(malloc(at + len + tail + 1));
  memcpy(x, input, at);
  memcpy(x + at, p, len);
  if (tail > 0) memcpy(x + at + len, input + at + cut, tail);
  emit(j, x, at + len + tail);
  free(x);
}

static void substitute(job *j, const uint8_t *from, size_t n, const uint8_t *to, size_t m,
                       int in_place) {
  const uint8_t *at = input;
  unsigned places = 0;
  if (n == 0 || n > input_len) return;
  while (!full(j) && places < PLACES &&
         (at = memmem(at, input_len - (size_t)(at - input), from, n)) != NULL) {
    replace(j, (size_t)(at - input), in_place ? m : n, to, m);
    places++;
    at++;
  }
}

static uint64_t mask_of(unsigned n) { return n >= 8 ? UINT64_MAX : (UINT64_C(1) << (8 * n)) - 1; }

/* Can v, of `size` bytes, be what n bytes were widened to? */
static int fits(uint64_t v, unsigned n, unsigned size) {
  uint64_t m = mask_of(n), all = mask_of(size);
  return (v & m) == v || (((v >> (8 * n - 1)) & 1) != 0 && (v | m) == (all | m) && (v & ~m) == (all & ~m));
}

static void spell(uint8_t *out, uint64_t v, unsigned n, int big) {
  unsigned i;
  for (i = 0; i < n; i++) out[big ? n - 1 - i : i] = (uint8_t)(v >> (8 * i));
}

static void as_text(job *j, const char *form, uint64_t from, uint64_t to) {
  char a[32], b[32];
  int n = snprintf(a, sizeof a, form, from), m = snprintf(b, sizeof b, form, to);
  substitute(j, (const uint8_t *)a, (size_t)n, (const uint8_t *)b, (size_t)m, 0);
}

static int64_t widen(uint64_t v, unsigned size) {
  if (size < 8 && ((v >> (8 * size - 1)) & 1) != 0) v |= ~mask_of(size);
  return (int64_t)v;
}

/* Put `to` where the input says `from`, as numbers of up to size bytes. */
static void number(job *j, uint64_t from, uint64_t to, unsigned size) {
  static const unsigned widths[4] = {8, 4, 2, 1};
  uint8_t a[8], b[8];
  unsigned i, pass;
  if (from == to) return;
  if (size >= 4 && from == input_len && to <= LONGEST) { /* the input's length */
    uint8_t *x = need(calloc(1, (size_t)to + 1));
    memcpy(x, input, input_len < to ? input_len : (size_t)to);
    emit(j, x, (size_t)to);
    free(x);
  }
  for (pass = 0; pass < 2; pass++) { /* first full width, then what fits in less */
    for (i = 0; i < 4; i++) {
      unsigned n = widths[i];
      if (n > size || (pass == 0) != (n == size)) continue;
      if (!fits(from, n, size) || !fits(to, n, size)) continue;
      spell(a, from, n, 0);
      spell(b, to, n, 0);
      substitute(j, a, n, b, n, 1);
      if (n == 1) continue;
      spell(a, from, n, 1);
      spell(b, to, n, 1);
      substitute(j, a, n, b, n, 1);
    }
    if (pass == 1) break;
    as_text(j, "%" PRIu64, from, to);
    if (widen(from, size) < 0 || widen(to, size) < 0)
      as_text(j, "%" PRId64, (uint64_t)widen(from, size), (uint64_t)widen(to, size));
    if (from > 9 || to > 9) {
      as_text(j, "%" PRIx64, from, to);
      as_text(j, "%" PRIX64, from, to);
    }
  }
}

static void solve_numbers(job *j, const record *r, uint32_t side) {
  uint64_t a = r->v[0], b = r->v[1], max = mask_of(r->size);
  int both = r->kind == VARIABLE;
  if (side == EQ) {
    number(j, a, b, r->size);
    if (both) number(j, b, a, r->size);
  } else if (side == LT) {
    if (b > 0) number(j, a, b - 1, r->size);
    if (both && a < max) number(j, b, a + 1, r->size);
    if (b > 0) number(j, a, 0, r->size);
    if (both) number(j, b, max, r->size);
  } else if (side == GT) {
    if (b < max) number(j, a, b + 1, r->size);
    if (both && a > 0) number(j, b, a - 1, r->size);
    if (b < max) number(j, a, max, r->size);
    if (b < max >> 1) number(j, a, max >> 1, r->size);
    if (both && a > 0) number(j, b, 0, r->size);
  }
}

static void solve_texts(job *j, const record *r, uint32_t side) {
  unsigned i;
  for (i = 0; i < 2; i++) {
    const uint8_t *from = r->text[i], *to = r->text[1 - i];
    size_t n = r->text_len[i], m = r->text_len[1 - i];
    uint8_t x[TEXT + 1];
    if (n == 0) continue;
    if (side == NE) {
      memcpy(x, from, n);
      x[n - 1] ^= 1;
      substitute(j, from, n, x, n, 1);
      continue;
    }
    if (n == m && memcmp(from, to, n) == 0) continue;
    memcpy(x, to, m);
    x[m] = 0;
    if (n != m) substitute(j, from, n, x, m, 0); /* what follows moves */
    substitute(j, from, n, x, m, 1);             /* nothing moves */
    if (r->kind == STRING) substitute(j, from, n, x, m + 1, 1);
  }
}

static uint32_t solve(const table *t, const target *want, int what, int (*alive)(void)) {
  job j = {want, &t->site[want->site], 0, 0, 0, what, 0, alive};
  uint32_t i, records = 0, share;
  for (i = 0; i < t->records; i++)
    records += t->record[i].ready == want->site + 1 && t->record[i].side != want->side;
  if (records == 0) return 0;
  share = opt.most / records > 8 ? opt.most / records : 8;
  for (i = 0; i < t->records && !j.stop && j.tried < opt.most; i++) {
    const record *r = &t->record[i];
    if (r->ready != want->site + 1 || r->side == want->side) continue;
    j.limit = j.tried + share < opt.most ? j.tried + share : opt.most;
    if (r->kind == STRING || r->kind == BYTES) solve_texts(&j, r, want->side);
    else solve_numbers(&j, r, want->side);
  }
  return j.made;
}

/* ---- which targets ---- */

static int by_id(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static void solve_given(const table *t) {
  FILE *f = strcmp(opt.targets, "-") == 0 ? stdin : fopen(opt.targets, "re");
  uint64_t *ids = NULL;
  size_t n = 0, size = 0, i, met = 0;
  char line[64], *end;
  if (f == NULL) fail(E_USAGE, "list of targets %s: %s", opt.targets, strerror(errno));
  while (fgets(line, sizeof line, f) != NULL) {
    uint64_t id;
    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '\0') continue;
    errno = 0;
    id = strtoull(line, &end, 10);
    if (line[0] < '0' || line[0] > '9' || *end != '\0' || errno != 0 || id == 0)
      fail(E_USAGE, "list of targets %s: not an id: %s", opt.targets, line);
    if (n == size) ids = need(realloc(ids, (size = 2 * size + 64) * sizeof *ids));
    ids[n++] = id;
  }
  if (ferror(f)) fail(E_USAGE, "list of targets %s: %s", opt.targets, strerror(errno));
  if (f != stdin) fclose(f);
  if (n > 0) qsort(ids, n, sizeof *ids, by_id);
  for (i = 0; i < target_count && n > 0; i++)
    if (bsearch(&targets[i].id, ids, n, sizeof *ids, by_id) != NULL) {
      met++;
      solve(t, &targets[i], WRITE, NULL);
    }
  say("targets given %zu, met open %zu, inputs written %lu", n, met, written);
  free(ids);
}

#ifndef SYMLEASE_I2S_NO_CAMPAIGN
static symlease_campaign *campaign;
static symlease_group held;
static double renewed;

static int still_held(void) {
  symlease_status s;
  if (seconds() - renewed < held.ttl / 3) return 1;
  s = symlease_group_heartbeat(campaign, &held);
  renewed = seconds();
  if (s == SYMLEASE_OK) return 1;
  say("target %" PRIu64 ": the lease is lost (%s), left: %s", held.targets[0],
      symlease_status_name(s), symlease_last_error());
  return 0;
}

static int solve_alone(const table *t) {
  symlease_options o;
  symlease_status s;
  size_t i, claimed = 0, refused = 0;
  int code = OK;
  if (symlease_abi_version() != SYMLEASE_ABI_VERSION)
    fail(E_CAMPAIGN, "libsymlease has another ABI version than this program was built for");
  symlease_options_init(&o, sizeof o);
  s = opt.campaign != NULL ? symlease_open(opt.campaign, &o, &campaign)
                           : symlease_open_env(&o, &campaign);
  if (s != SYMLEASE_OK)
    fail(E_CAMPAIGN, "campaign: %s: %s", symlease_status_name(s), symlease_last_error());
  for (i = 0; i < target_count; i++) {
    if (solve(t, &targets[i], COUNT, NULL) == 0) continue; /* nothing to try: claim nothing */
    s = symlease_group_claim(campaign, &targets[i].id, 1, NULL, &held, NULL);
    if (s == SYMLEASE_HELD) {
      refused++;
      continue;
    }
    if (s != SYMLEASE_OK) {
      say("target %" PRIu64 ": %s: %s", targets[i].id, symlease_status_name(s),
          symlease_last_error());
      code = E_CAMPAIGN;
      if (s == SYMLEASE_E_CORRUPT) continue; /* this one alone */
      break;
    }
    claimed++;
    renewed = seconds();
    solve(t, &targets[i], WRITE, still_held);
    s = symlease_group_release(campaign, &held);
    if (s < 0) {
      say("target %" PRIu64 ": release: %s: %s", targets[i].id, symlease_status_name(s),
          symlease_last_error());
      code = E_CAMPAIGN;
    }
  }
  symlease_close(campaign);
  say("targets open %zu, claimed %zu, held by others %zu, inputs written %lu", target_count,
      claimed, refused, written);
  return code;
}
#endif

/* ---- main ---- */

static const char usage[] =
    "usage: %s [options] [INPUT]        (INPUT: else SYMCC_INPUT_FILE, else stdin)\n"
    "  --list           print the ids of the open targets of this input, one a line\n"
    "  --solvable       with --list: only those for which there is something to try\n"
    "  --targets FILE   solve these only (- : stdin; else SYMLEASE_I2S_TARGETS)\n"
    "  --all            solve all, without leases\n"
    "  --campaign DIR   claim, solve, release (else SYMCC_MULTI_MASTER_TARGET_LEASE_DIR)\n"
    "  --output DIR     else SYMCC_OUTPUT_DIR; must exist\n"
    "  --check          run each candidate; keep those that take the wanted side\n"
    "  --max N          candidates per target (64)\n"
    "  --again N        also: equal once more, up to N times (0); for loops and helpers\n"
    "  --timeout S      seconds for a run of the target (5)\n"
    "  --verbose        show what the target prints, on stderr\n"
    "exit: 0 done, 2 usage, 3 input, 4 nothing was compared, 5 campaign, 6 output or system\n";

__attribute__((noreturn)) static void bad_usage(const char *why, const char *what) {
  say("%s%s", why, what);
  fprintf(stderr, usage, arguments[0]);
  exit(E_USAGE);
}

static double value(const char *name, const char *text, double low, double high) {
  char *end;
  double v = strtod(text, &end);
  if (end == text || *end != '\0' || !(v >= low && v <= high)) bad_usage("not a number in range: ", name);
  return v;
}

static const char *parse(void) {
  const char *file = NULL;
  int i;
  for (i = 1; i < argument_count; i++) {
    const char *a = arguments[i], *next = i + 1 < argument_count ? arguments[i + 1] : NULL;
    if (a[0] != '-' || a[1] == '\0') {
      if (file != NULL) bad_usage("more than one input: ", a);
      file = a;
    } else if (strcmp(a, "--list") == 0) opt.list = 1;
    else if (strcmp(a, "--solvable") == 0) opt.solvable = 1;
    else if (strcmp(a, "--all") == 0) opt.all = 1;
    else if (strcmp(a, "--check") == 0) opt.check = 1;
    else if (strcmp(a, "--verbose") == 0) opt.verbose = 1;
    else if (strcmp(a, "--help") == 0) {
      printf(usage, arguments[0]);
      exit(OK);
    } else {
      i++;
      if (strcmp(a, "--targets") != 0 && strcmp(a, "--campaign") != 0 &&
          strcmp(a, "--output") != 0 && strcmp(a, "--max") != 0 && strcmp(a, "--again") != 0 &&
          strcmp(a, "--timeout") != 0)
        bad_usage("unknown option: ", a);
      if (next == NULL) bad_usage("a value is missing after ", a);
      if (a[2] == 't' && a[3] == 'a') opt.targets = next;
      else if (a[2] == 'c') opt.campaign = next;
      else if (a[2] == 'o') opt.out = next;
      else if (a[2] == 'm') opt.most = (uint32_t)value(a, next, 1, 65536);
      else if (a[2] == 'a') opt.again = (uint32_t)value(a, next, 0, 65536);
      else opt.timeout = value(a, next, 0.01, 86400);
    }
  }
  return file;
}

static const char *variable(const char *name) {
  const char *v = getenv(name);
  return v != NULL && v[0] != '\0' ? v : NULL;
}

int main(int argc, char **argv) {
  const char *file, *lease_dir = variable("SYMCC_MULTI_MASTER_TARGET_LEASE_DIR");
  int fd = 0, code = OK;
  size_t i;
  table *t;
  argument_count = argc;
  arguments = argv;
  file = parse();
  if (opt.out == NULL) opt.out = variable("SYMCC_OUTPUT_DIR");
  if (opt.targets == NULL && !opt.all && opt.campaign == NULL)
    opt.targets = variable("SYMLEASE_I2S_TARGETS");
  if (opt.list + opt.all + (opt.targets != NULL) + (opt.campaign != NULL) > 1 &&
      !(opt.list && !opt.all && opt.campaign == NULL))
    bad_usage("--list, --targets, --all and --campaign exclude each other", "");
  if (!opt.list && !opt.all && opt.targets == NULL && opt.campaign == NULL && lease_dir == NULL)
    bad_usage("which targets? give --targets, --campaign or --all, or only --list", "");
#ifdef SYMLEASE_I2S_NO_CAMPAIGN
  if (!opt.list && !opt.all && opt.targets == NULL)
    fail(E_CAMPAIGN, "built without libsymlease: give --targets or --all");
#endif
  if (file == NULL) file = variable("SYMCC_INPUT_FILE");
  if (file != NULL && strcmp(file, "-") != 0) {
    fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail(E_INPUT, "input %s: %s", file, strerror(errno));
  } else if (opt.targets != NULL && strcmp(opt.targets, "-") == 0 && !opt.list)
    bad_usage("stdin cannot be both the input and the list of targets", "");
  input = read_all(fd, &input_len);
  if (input == NULL) fail(E_INPUT, "input %s: %s", fd == 0 ? "stdin" : file, strerror(errno));
  if (fd != 0) close(fd);
  if (!opt.list) open_output();

  t = run(input, input_len, 1);
  find_targets(t);
  if (t->sites == 0) {
    say("the target compared nothing: built with -fsanitize-coverage=trace-cmp, and linked with "
        "symlease_i2s.o as an object file?");
    return E_NOTHING;
  }
  if (opt.list) {
    for (i = 0; i < target_count; i++)
      if (!opt.solvable || solve(t, &targets[i], COUNT_CHECKED, NULL) > 0) printf("%" PRIu64 "\n", targets[i].id);
    if (fflush(stdout) != 0) fail(E_OUTPUT, "stdout: %s", strerror(errno));
  } else if (opt.targets != NULL) {
    solve_given(t);
  } else if (opt.all) {
    for (i = 0; i < target_count; i++) solve(t, &targets[i], WRITE, NULL);
    say("targets open %zu, inputs written %lu", target_count, written);
  } else {
#ifndef SYMLEASE_I2S_NO_CAMPAIGN
    code = solve_alone(t);
#endif
  }
  free(targets);
  munmap(t, sizeof *t);
  return code;
}

#if defined(__clang__) && __clang_major__ >= 13
#pragma clang attribute pop
#endif
