/* symlease_sancov.c - SanitizerCoverage hooks. See README.md.
 * No constructor, thread, atexit, TLS or lock here: everything starts in the
 * init callbacks that the compiler's own module constructors call. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "symlease_sancov.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Should this file be compiled with the target's flags, do not count it. */
#if defined(__clang__) && __clang_major__ >= 13
#pragma clang attribute push(__attribute__((no_sanitize("coverage"))), apply_to = function)
#endif

#define PAGE 4096u
#define PRIVATE_CAPACITY (UINT64_C(8) << 20)
_Static_assert(sizeof(symlease_sancov_header) <= PAGE, "header fits its page");

/* Defined by symlease_sancov.ld only: whole pages that hold nothing but the
 * counters of the module this object is linked into. */
extern char symlease_sancov_page_begin[] __attribute__((weak, visibility("hidden")));
extern char symlease_sancov_page_end[] __attribute__((weak, visibility("hidden")));

typedef struct {
  void *start;
  int gone;
} place;

static symlease_sancov_header *head; /* the mapping; counts follow it */
static uint8_t *map;
static uint64_t capacity;
static uint64_t next_free;
static uint64_t edges;
static uint32_t live_bits;
static uint32_t module_count;
static symlease_sancov_module modules[SYMLEASE_SANCOV_MAX_MODULES];
static place places[SYMLEASE_SANCOV_MAX_MODULES];
static int is_shared;
static int tried;
static const char *why = "no SYMLEASE_SANCOV_FILE";

static void put(int fd, const char *line, size_t len) {
  while (len > 0) {
    ssize_t n = write(fd, line, len);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    line += n;
    len -= (size_t)n;
  }
}

static void complain(const char *text) {
  const char *v = secure_getenv("SYMLEASE_SANCOV_VERBOSE");
  char line[160];
  int n;
  if (v == NULL || strcmp(v, "1") != 0) return;
  n = snprintf(line, sizeof line, "symlease-sancov: %s\n", text);
  if (n > 0) put(2, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

/* NULL and *reason set if the file is not ours to use; it is then untouched. */
static symlease_sancov_header *map_file(const char *path, const char **reason) {
  symlease_sancov_header h, *m;
  struct stat st;
  uint32_t nobody = 0;
  int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    *reason = "file cannot be opened";
    return NULL;
  }
  *reason = NULL;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
    *reason = "not a regular file";
  else if (st.st_size < (off_t)PAGE || pread(fd, &h, sizeof h, 0) != (ssize_t)sizeof h)
    *reason = "file too small";
  else if (memcmp(h.magic, SYMLEASE_SANCOV_MAGIC, 8) != 0)
    *reason = "file of another magic";
  else if (h.version != SYMLEASE_SANCOV_VERSION || h.header_bytes != PAGE)
    *reason = "file of another version";
  else if (h.capacity == 0 || h.capacity % PAGE != 0 || h.capacity > SYMLEASE_SANCOV_MAX_CAPACITY)
    *reason = "file with a bad capacity";
  else if ((uint64_t)st.st_size < PAGE + h.capacity)
    *reason = "file too small";
  else if (h.owner != 0)
    *reason = "file in use by another process";
  if (*reason != NULL) {
    close(fd);
    return NULL;
  }
  m = mmap(NULL, PAGE + h.capacity, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (m == MAP_FAILED) {
    *reason = "file cannot be mapped";
    return NULL;
  }
  if (!__atomic_compare_exchange_n(&m->owner, &nobody, (uint32_t)getpid(), 0, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE)) {
    munmap(m, PAGE + h.capacity);
    *reason = "file in use by another process";
    return NULL;
  }
  /* the size that was checked, should the header have changed since */
  capacity = h.capacity;
  return m;
}

static void need_map(void) {
  const char *path;
  if (tried) return;
  tried = 1;
  path = secure_getenv("SYMLEASE_SANCOV_FILE");
  if (path != NULL && path[0] != '\0') {
    head = map_file(path, &why);
    if (head != NULL) {
      is_shared = 1;
      why = "";
      memset((uint8_t *)head + PAGE, 0, capacity);
    } else {
      complain(why);
    }
  }
  if (head == NULL) {
    void *m = mmap(NULL, PAGE + PRIVATE_CAPACITY, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED) {
      why = "no memory for a map";
      complain(why);
      return;
    }
    head = m;
    capacity = PRIVATE_CAPACITY;
  }
  map = (uint8_t *)head + PAGE;
}

static uint64_t round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

static void update_header(void) {
  if (head == NULL) return;
  memcpy(head->module, modules, sizeof modules[0] * module_count);
  head->live = live_bits;
  head->size = round_up(next_free, 64);
  __atomic_store_n(&head->modules, module_count, __ATOMIC_RELEASE);
}

/* The slot for n counters at start, or NULL if there is no room. A module
 * closed and opened again at the same place gets its old numbers back. */
static symlease_sancov_module *slot(void *start, uint64_t n, uint32_t kind, int paged) {
  symlease_sancov_module *m;
  uint64_t base, bytes;
  uint32_t i;
  uint64_t width = kind == SYMLEASE_SANCOV_GUARD ? sizeof(uint32_t) : 1;
  need_map();
  live_bits |= kind;
  for (i = 0; i < module_count; i++) {
    uint64_t w = modules[i].kind == SYMLEASE_SANCOV_GUARD ? sizeof(uint32_t) : 1;
    uintptr_t a = (uintptr_t)places[i].start, b = a + modules[i].edges * w;
    if (places[i].gone) continue;
    if (places[i].start == start && modules[i].edges == n && modules[i].kind == kind)
      return &modules[i];
    /* overlap: the older module was closed, its memory is another's now */
    if ((uintptr_t)start < b && a < (uintptr_t)start + n * width) places[i].gone = 1;
  }
  base = round_up(next_free, paged ? PAGE : 8);
  bytes = paged ? round_up(n, PAGE) : n;
  edges += n;
  if (map == NULL || module_count == SYMLEASE_SANCOV_MAX_MODULES || bytes > capacity ||
      base > capacity - bytes) {
    if (head != NULL) head->dropped += n;
    complain("a module does not fit the map; its edges are not counted");
    update_header();
    return NULL;
  }
  m = &modules[module_count];
  places[module_count].start = start;
  m->base = (uint32_t)base;
  m->edges = (uint32_t)n;
  m->kind = kind;
  m->direct = kind == SYMLEASE_SANCOV_GUARD;
  module_count++;
  next_free = base + bytes;
  return m;
}

void __sanitizer_cov_trace_pc_guard_init(uint32_t *start, uint32_t *stop);
void __sanitizer_cov_trace_pc_guard(uint32_t *guard);
void __sanitizer_cov_8bit_counters_init(char *start, char *stop);
void __sanitizer_cov_pcs_init(const uintptr_t *start, const uintptr_t *stop);

void __sanitizer_cov_trace_pc_guard_init(uint32_t *start, uint32_t *stop) {
  symlease_sancov_module *m;
  uint32_t i;
  if (start == stop || *start != 0) return;
  m = slot(start, (uint64_t)(stop - start), SYMLEASE_SANCOV_GUARD, 0);
  if (m == NULL) return; /* guards stay 0: not counted */
  for (i = 0; i < m->edges; i++) start[i] = m->base + i + 1;
  update_header();
}

void __sanitizer_cov_trace_pc_guard(uint32_t *guard) {
  uint32_t id = *guard;
  uint8_t c;
  if (id == 0) return;
  c = (uint8_t)(map[id - 1] + 1);
  map[id - 1] = (uint8_t)(c + (c == 0)); /* 255 -> 1: never zero again */
}

/* Put the file's pages under the compiler's counters. */
static int put_under(symlease_sancov_module *m, char *start) {
  size_t bytes = (size_t)round_up(m->edges, PAGE);
  void *dup;
  if (!is_shared || sysconf(_SC_PAGESIZE) != (long)PAGE) return 0;
  memcpy(map + m->base, start, m->edges);
  /* old size 0 doubles a shared mapping: no descriptor needed */
  dup = mremap(map + m->base, 0, bytes, MREMAP_MAYMOVE);
  if (dup == MAP_FAILED) return 0;
  if (mremap(dup, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, start) == MAP_FAILED) {
    munmap(dup, bytes);
    return 0;
  }
  return 1;
}

void __sanitizer_cov_8bit_counters_init(char *start, char *stop) {
  symlease_sancov_module *m;
  int paged;
  if (start == stop) return;
  paged = symlease_sancov_page_begin != NULL && start == symlease_sancov_page_begin &&
          (uintptr_t)start % PAGE == 0 &&
          symlease_sancov_page_end == start + round_up((uint64_t)(stop - start), PAGE);
  m = slot(start, (uint64_t)(stop - start), SYMLEASE_SANCOV_COUNTERS, paged);
  if (m == NULL) return;
  if (paged && !m->direct) m->direct = (uint32_t)put_under(m, start);
  update_header();
}

void __sanitizer_cov_pcs_init(const uintptr_t *start, const uintptr_t *stop) {
  (void)start; /* edges are numbered by the order above; the table is not needed */
  (void)stop;
}

/* Is [a, b) still inside a loaded module? A closed one must not be read. */
typedef struct {
  uintptr_t a, b;
} range;

static int holds(struct dl_phdr_info *info, size_t size, void *arg) {
  const range *r = arg;
  int i;
  (void)size;
  for (i = 0; i < info->dlpi_phnum; i++) {
    uintptr_t lo = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_W) != 0 &&
        r->a >= lo && r->b <= lo + info->dlpi_phdr[i].p_memsz)
      return 1;
  }
  return 0;
}

static int readable(uint32_t i) {
  range r;
  if (modules[i].direct || places[i].gone) return 0;
  r.a = (uintptr_t)places[i].start;
  r.b = r.a + modules[i].edges;
  return dl_iterate_phdr(holds, &r);
}

int symlease_sancov_live(void) { return (int)live_bits; }
size_t symlease_sancov_size(void) { return (size_t)round_up(next_free, 64); }
size_t symlease_sancov_edges(void) { return (size_t)edges; }
int symlease_sancov_shared(void) { return is_shared; }

size_t symlease_sancov_publish(void) {
  size_t copied = 0;
  uint32_t i;
  for (i = 0; i < module_count; i++) {
    if (!readable(i)) continue;
    memcpy(map + modules[i].base, places[i].start, modules[i].edges);
    copied++;
  }
  return copied;
}

size_t symlease_sancov_counts(uint8_t *out, size_t len) {
  size_t n = symlease_sancov_size();
  if (out == NULL || map == NULL) return 0;
  if (n > len) n = len;
  symlease_sancov_publish();
  memcpy(out, map, n);
  return n;
}

size_t symlease_sancov_classified(uint8_t *out, size_t len) {
  size_t i, n = symlease_sancov_counts(out, len);
  for (i = 0; i < n; i++) {
    uint8_t c = out[i];
    if (c == 0) continue;
    if (c >= 128) out[i] = 128;
    else if (c >= 32) out[i] = 64;
    else if (c >= 16) out[i] = 32;
    else if (c >= 8) out[i] = 16;
    else if (c >= 4) out[i] = 8;
    else if (c == 3) out[i] = 4;
  }
  return n;
}

void symlease_sancov_reset(void) {
  uint32_t i;
  if (map == NULL) return;
  memset(map, 0, symlease_sancov_size());
  for (i = 0; i < module_count; i++)
    if (readable(i)) memset(places[i].start, 0, modules[i].edges);
}

int symlease_sancov_say(int fd) {
  static const char *const names[4] = {"none", "guard", "counters", "guard+counters"};
  char line[320];
  uint32_t i, direct = 0;
  int n;
  for (i = 0; i < module_count; i++) direct += modules[i].direct != 0;
  if (live_bits == 0)
    n = snprintf(line, sizeof line,
                 "symlease-sancov: hooks NOT live: no instrumented module has called them\n");
  else
    n = snprintf(line, sizeof line,
                 "symlease-sancov: hooks live: %s, modules %u (%u counted in place), edges %llu, "
                 "size %zu, map %s%s%s\n",
                 names[live_bits & 3], module_count, direct, (unsigned long long)edges,
                 symlease_sancov_size(), is_shared ? "in the file" : "private (", why,
                 is_shared ? "" : ")");
  if (n > 0) {
    size_t len = (size_t)n < sizeof line ? (size_t)n : sizeof line - 1;
    put(fd, line, len);
    if (live_bits == 0 && fd != 2) put(2, line, len);
  }
  return (int)live_bits;
}

#if defined(__clang__) && __clang_major__ >= 13
#pragma clang attribute pop
#endif
