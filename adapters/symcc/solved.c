/* solved.c - what was solved before, by any process of any run.
 *
 * Two parts, below <memory>:
 *   bits/        a coverage authority: a bit for each target, pulled at start. A
 *                clear bit needs no file to be read; a set one proves nothing.
 *   digests/xx   the targets' full digests, by their first byte, one line each.
 *                Only what stands there is refused.
 *
 * A line is appended by one write: "\n<64 hex>\n". Each begins with a line end
 * of its own, so one that a death or a full disk has cut spoils itself alone;
 * what is not 64 digits is passed over. Digests are neither locked nor synced:
 * what is lost is solved once more. Nothing is ever removed. */
#include "symcc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES (UINT32_C(1) << 23)
#define FOLDERS 256
#define LARGEST ((off_t)256 << 20)
#define LINE 66

typedef struct {
  off_t read; /* up to here, and always the end of a line */
  uint32_t count, size;
  symcc_digest *slots;
} shard;

static symlease_campaign *authority;
static uint8_t *filter;
static uint64_t bits_set;
static shard shards[FOLDERS];
static char *folder;

/* ---- the filter ---- */

static uint32_t index_of(const symcc_digest *d) {
  return ((uint32_t)d->byte[1] << 16 | (uint32_t)d->byte[2] << 8 | d->byte[3]) % BYTES;
}

static uint8_t bit_of(const symcc_digest *d) { return (uint8_t)(1 << (d->byte[4] & 7)); }

static int on_pulled(void *user, size_t shard_number, const symlease_edge *edges, size_t n) {
  (void)user;
  (void)shard_number;
  for (size_t i = 0; i < n; i++)
    if (edges[i].index < BYTES) filter[edges[i].index] |= edges[i].bits;
  return 0;
}

static bool open_authority(const char *directory) {
  symlease_options options;
  char *bits;
  symlease_status status;
  if (asprintf(&bits, "%s/bits", directory) < 0) return false;
  symlease_options_init(&options, sizeof options);
  options.coverage_root = bits;
  options.map_size = BYTES;
  options.map_identity = "symlease symcc targets 1";
  options.lock_timeout = 1;
  options.file_mode = symcc_(settings).mode != 0600 ? symcc_(settings).mode : 0;
  options.durability = SYMLEASE_DURABLE_ANY;
  options.session = SYMLEASE_SESSION_NONE;
  /* A bit that a power cut takes away is set again by solving again. */
  if (access(bits, F_OK) != 0) options.durability = SYMLEASE_DURABLE_PROCESS;
  status = symlease_open(NULL, &options, &authority);
  if (status == SYMLEASE_E_MISMATCH && options.durability != SYMLEASE_DURABLE_ANY) {
    options.durability = SYMLEASE_DURABLE_ANY; /* another process was the first */
    status = symlease_open(NULL, &options, &authority);
  }
  free(bits);
  return status == SYMLEASE_OK;
}

bool symcc_(solved_start)(const char *directory) {
  if (asprintf(&folder, "%s/digests", directory) < 0) return false;
  if (!symcc_(make_directories)(folder)) {
    symcc_(trouble)("%s: %s", folder, strerror(errno));
    return false;
  }
  /* Pages without a set bit take no memory. Without a filter, digests are read. */
  filter = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (filter == MAP_FAILED) filter = NULL;
  if (filter == NULL) return true;
  if (!open_authority(directory) ||
      symlease_coverage_pull_sparse(authority, on_pulled, NULL, &bits_set) < 0) {
    symcc_(trouble)("%s/bits: %s; digests alone are used", directory, symlease_last_error());
    munmap(filter, BYTES);
    filter = NULL;
  }
  return true;
}

uint64_t symcc_(solved_bits)(void) { return bits_set; }

static void set_bit(const symcc_digest *d) {
  symlease_edge edge = {index_of(d), bit_of(d)};
  if (filter == NULL || (filter[edge.index] & edge.bits) != 0) return;
  filter[edge.index] |= edge.bits;
  if (symlease_coverage_merge_sparse(authority, &edge, 1, NULL) < 0)
    symcc_(trouble)("a bit of what was solved: %s", symlease_last_error());
}

/* ---- the digests ---- */

static symcc_digest *slot_of(const shard *in, const symcc_digest *d) {
  uint32_t at;
  memcpy(&at, d->byte + 5, sizeof at);
  for (at &= in->size - 1;; at = (at + 1) & (in->size - 1)) {
    static const symcc_digest none;
    if (memcmp(&in->slots[at], &none, sizeof none) == 0 ||
        memcmp(&in->slots[at], d, sizeof *d) == 0)
      return &in->slots[at];
  }
}

static bool has(const shard *in, const symcc_digest *d) {
  return in->size != 0 && memcmp(slot_of(in, d), d, sizeof *d) == 0;
}

static bool put(shard *in, const symcc_digest *d) {
  if (has(in, d)) return true;
  if (4 * (in->count + 1) > 3 * in->size) {
    shard larger = {in->read, in->count, in->size == 0 ? 64 : 2 * in->size, NULL};
    larger.slots = calloc(larger.size, sizeof *larger.slots);
    if (larger.slots == NULL) return false;
    for (uint32_t i = 0; i < in->size; i++) *slot_of(&larger, &in->slots[i]) = in->slots[i];
    free(in->slots);
    *in = larger;
  }
  *slot_of(in, d) = *d;
  in->count++;
  return true;
}

static void take_line(shard *in, const char *line, size_t len, unsigned first) {
  symcc_digest d;
  if (len == 64 && symcc_(digest_parse)(line, &d) && d.byte[0] == first) put(in, &d);
}

/* What is new since the last look; whole lines alone. */
static void read_more(shard *in, int fd, off_t end, unsigned first) {
  char text[8192];
  while (in->read < end) {
    ssize_t n = pread(fd, text, sizeof text, in->read);
    char *at = text, *stop;
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    while ((stop = memchr(at, '\n', (size_t)(text + n - at))) != NULL) {
      take_line(in, at, (size_t)(stop - at), first);
      at = stop + 1;
    }
    /* A line longer than the buffer is nobody's: passed over. */
    if (at == text && n < (ssize_t)sizeof text) return;
    in->read += at == text ? n : at - text;
  }
}

static int open_shard(unsigned first, int flags) {
  char name[16];
  struct stat about;
  int directory = symcc_(open)(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY, 0), fd;
  if (directory < 0) return -1;
  snprintf(name, sizeof name, "%02x", first & 0xff);
  fd = symcc_(open)(directory, name, flags, 0600);
  if (fd < 0 && errno == ENOENT && (flags & O_ACCMODE) != O_RDONLY) {
    fd = symcc_(open)(directory, name, flags | O_CREAT, 0600);
    if (fd >= 0 && symcc_(settings).mode != 0600) fchmod(fd, symcc_(settings).mode);
  }
  close(directory);
  if (fd >= 0 && (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))) {
    close(fd);
    errno = EINVAL;
    return -1;
  }
  return fd;
}

static void refresh(unsigned first) {
  shard *in = &shards[first];
  struct stat about;
  int fd = open_shard(first, O_RDONLY);
  if (fd < 0) {
    if (errno != ENOENT) symcc_(trouble)("%s/%02x: %s", folder, first, strerror(errno));
    return;
  }
  if (fstat(fd, &about) == 0 && about.st_size <= LARGEST) {
    if (about.st_size < in->read) { /* an older copy was put back */
      free(in->slots);
      memset(in, 0, sizeof *in);
    }
    read_more(in, fd, about.st_size, first);
  }
  close(fd);
}

bool symcc_(solved_known)(const symcc_digest *target) {
  const shard *in = &shards[target->byte[0]];
  if (has(in, target)) return true;
  if (filter == NULL || (filter[index_of(target)] & bit_of(target)) == 0) return false;
  refresh(target->byte[0]);
  return has(in, target);
}

bool symcc_(solved_now)(const symcc_digest *target) {
  refresh(target->byte[0]);
  if (!has(&shards[target->byte[0]], target)) return false;
  set_bit(target); /* of a process that died before it could */
  return true;
}

void symcc_(solved_add)(const symcc_digest *target) {
  char line[LINE + 1];
  int fd = open_shard(target->byte[0], O_WRONLY | O_APPEND);
  line[0] = '\n';
  symcc_(digest_text)(target, line + 1);
  line[LINE - 1] = '\n';
  if (fd < 0 || write(fd, line, LINE) != LINE)
    symcc_(trouble)("%s/%02x: %s; this target will be solved again", folder, target->byte[0],
                    strerror(errno));
  if (fd >= 0) close(fd);
  put(&shards[target->byte[0]], target);
  set_bit(target);
  symcc_(counts).remembered++;
}
