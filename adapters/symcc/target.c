/* target.c - which branch is this? The ids of a compiler process mean nothing
 * by themselves; what makes a target is hashed with the build it belongs to. */
#include "symcc.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_TARGETS (UINT32_C(1) << 20)
#define FIRST_TARGETS (UINT32_C(1) << 10)

uint64_t symcc_(last_call), symcc_(last_block);
uint32_t symcc_(ordinal);

static symcc_digest build;
/* The runtime's code: sites in there are addresses of this process. */
static uintptr_t code_begin, code_end, code_base;

static symcc_target *table;
static uint32_t table_size, table_used; /* the size is a power of two */

/* ---- the build ---- */

static bool note_of(const struct dl_phdr_info *info, const ElfW(Phdr) * segment) {
  const uint8_t *at = (const uint8_t *)(info->dlpi_addr + segment->p_vaddr);
  const uint8_t *end = at + segment->p_memsz;
  while ((size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
    const ElfW(Nhdr) *note = (const void *)at;
    size_t name = (note->n_namesz + 3u) & ~(size_t)3, text = (note->n_descsz + 3u) & ~(size_t)3;
    if (name + text > (size_t)(end - at) - sizeof *note) return false;
    if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && note->n_descsz > 0 &&
        memcmp(note + 1, "GNU", 4) == 0)
      return symcc_(digest_of)(at + sizeof *note + name, note->n_descsz, &build);
    at += sizeof *note + name + text;
  }
  return false;
}

/* The first module is the executable. */
static int find_note(struct dl_phdr_info *info, size_t size, void *found) {
  (void)size;
  for (int i = 0; i < info->dlpi_phnum && !*(bool *)found; i++)
    if (info->dlpi_phdr[i].p_type == PT_NOTE)
      *(bool *)found = note_of(info, &info->dlpi_phdr[i]);
  return 1;
}

/* Linked without a build id: the file itself. */
static bool find_file(void) {
  struct stat about;
  bool made = false;
  int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  if (fstat(fd, &about) == 0 && about.st_size > 0) {
    void *bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes != MAP_FAILED) {
      made = symcc_(digest_of)(bytes, (size_t)about.st_size, &build);
      munmap(bytes, (size_t)about.st_size);
    }
  }
  close(fd);
  return made;
}

static int find_code(struct dl_phdr_info *info, size_t size, void *function) {
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    uintptr_t begin = info->dlpi_addr + segment->p_vaddr, end = begin + segment->p_memsz;
    if (segment->p_type != PT_LOAD || (segment->p_flags & PF_X) == 0) continue;
    if ((uintptr_t)function < begin || (uintptr_t)function >= end) continue;
    code_begin = begin;
    code_end = end;
    code_base = info->dlpi_addr;
    return 1;
  }
  return 0;
}

bool symcc_(target_start)(const void *runtime) {
  const char *named = symcc_(settings).build;
  bool found = false;
  if (runtime != NULL) dl_iterate_phdr(find_code, (void *)(uintptr_t)runtime);
  if (named != NULL) return symcc_(digest_of)(named, strlen(named), &build);
  dl_iterate_phdr(find_note, &found);
  return found || find_file();
}

/* ---- what was met in this run ---- */

static uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
  return h ^ (h >> 32);
}

static symcc_target *slot_of(symcc_target *in, uint32_t size, const symcc_target *key) {
  uint64_t h = mix(mix(mix(key->site, key->call), key->block), key->ordinal);
  for (uint32_t i = (uint32_t)h & (size - 1);; i = (i + 1) & (size - 1)) {
    symcc_target *at = &in[i];
    if (!at->used) return at;
    if (at->site == key->site && at->call == key->call && at->block == key->block &&
        at->ordinal == key->ordinal)
      return at;
  }
}

static bool grow(void) {
  uint32_t size = table_size == 0 ? FIRST_TARGETS : 2 * table_size;
  symcc_target *larger;
  if (table_size >= MOST_TARGETS) return false;
  larger = calloc(size, sizeof *larger);
  if (larger == NULL) return false;
  for (uint32_t i = 0; i < table_size; i++)
    if (table[i].used) *slot_of(larger, size, &table[i]) = table[i];
  free(table);
  table = larger;
  table_size = size;
  return true;
}

/* Which turn of a loop this is: one by one as far as keywords go, since there
 * each turn's mismatch needs an input of its own; then AFL's classes. */
static uint8_t bucket(uint32_t count) {
  if (count < 16) return (uint8_t)count;
  if (count < 32) return 16;
  return count < 128 ? 17 : 18;
}

symcc_target *symcc_(target_met)(uint64_t site, bool taken) {
  symcc_target key = {.site = site, .call = symcc_(last_call), .block = symcc_(last_block),
                      .ordinal = symcc_(ordinal)++, .used = 1};
  static symcc_target spare;
  symcc_target *at;
  if (4 * (uint64_t)table_used >= 3 * (uint64_t)table_size && !grow() &&
      (table == NULL || table_used + 1 >= table_size)) {
    /* No room to count: each is met for the first time. */
    spare = key;
    spare.taken = taken;
    spare.count = 1;
    return &spare;
  }
  at = slot_of(table, table_size, &key);
  if (!at->used) {
    *at = key;
    table_used++;
  }
  if (at->count < UINT32_MAX) at->count++;
  at->taken = taken;
  if (symcc_(settings).hits && bucket(at->count) != bucket(at->count - 1))
    memset(at->state, SYMCC_OPEN, sizeof at->state);
  return at;
}

/* ---- ids ---- */

static size_t put_number(uint8_t *out, uint64_t v) {
  for (int i = 0; i < 8; i++) out[i] = (uint8_t)(v >> (8 * i));
  return 8;
}

/* A site in the runtime is an address, another one at every run: there its
 * name stands for it. Others are the compiler's numbers, fixed in the build. */
static size_t put_site(uint8_t *out, uint64_t site) {
  size_t len = 0, name = 0;
  Dl_info info;
  if (site < code_begin || site >= code_end) {
    out[len++] = 'n';
    return len + put_number(out + len, site);
  }
  out[len++] = 'a';
  if (dladdr((const void *)(uintptr_t)site, &info) != 0 && info.dli_sname != NULL) {
    name = strnlen(info.dli_sname, 500);
    memcpy(out + len, info.dli_sname, name);
    len += name;
    site -= (uintptr_t)info.dli_saddr;
  } else {
    site -= code_base;
  }
  out[len++] = '\0';
  return len + put_number(out + len, site);
}

bool symcc_(target_digest)(const symcc_target *target, symcc_digest *out) {
  static const char kind[] = "symlease symcc target 1";
  uint8_t text[sizeof kind + 32 + 3 * 512 + 16];
  size_t len = 0;
  memcpy(text, kind, sizeof kind);
  len += sizeof kind;
  memcpy(text + len, build.byte, 32);
  len += 32;
  len += put_site(text + len, target->site);
  len += put_site(text + len, target->call);
  len += put_site(text + len, target->block);
  len += put_number(text + len, target->ordinal);
  text[len++] = target->taken;
  text[len++] = symcc_(settings).hits ? bucket(target->count) : 0;
  return symcc_(digest_of)(text, len, out);
}
