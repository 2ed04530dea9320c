/* Preloaded under user-mode Linux on the host: its disk gets a volatile write
 * cache. Part of the writes since the last flush waits in memory and is gone
 * with the power; the others are on the disk already, whatever their order.
 *
 * VOLATILE_DISK  the image; nothing else is touched
 * VOLATILE_SEED  which writes wait
 * VOLATILE_LIES  set: a flush does nothing (a negative control)
 *
 * The guest's disk is read and written by one thread of user-mode Linux, so
 * nothing here is locked; and its stack is small, so nothing large is on it. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A block is whole or torn off whole, as disks of today write it. File systems
 * count on that: xfs takes the LSN at a block's head for the whole block's. */
enum { SECTOR = 512, BLOCK = 4096 / SECTOR, SECTORS = 1 << 20, WAITING = 1 << 17 };

static uint32_t *place_of;   /* sector -> 1 + its place among those that wait */
static uint32_t *sector_at;  /* place -> sector; SECTORS where it no longer waits */
static unsigned char *bytes; /* place -> content */
static uint32_t waiting;
static uint64_t dice;
static dev_t device;
static ino_t inode;

static void *reserve(size_t size) {
  void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) abort();
  return at;
}

__attribute__((constructor)) static void set_up(void) {
  const char *image = getenv("VOLATILE_DISK"), *seed = getenv("VOLATILE_SEED");
  struct stat stat_of;
  if (!image || stat(image, &stat_of) != 0) return;
  device = stat_of.st_dev;
  inode = stat_of.st_ino;
  dice = seed ? strtoull(seed, NULL, 10) : 0;
  place_of = reserve(sizeof *place_of * SECTORS);
  sector_at = reserve(sizeof *sector_at * WAITING);
  bytes = reserve((size_t)WAITING * SECTOR);
}

static int ours(int fd) {
  struct stat stat_of;
  return place_of && fstat(fd, &stat_of) == 0 && stat_of.st_dev == device &&
         stat_of.st_ino == inode;
}

static uint64_t roll(void) {
  uint64_t mixed = dice += 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  return mixed ^ (mixed >> 31);
}

static ssize_t write_now(int fd, const void *from, size_t size, off_t offset) {
  return (ssize_t)syscall(SYS_pwrite64, fd, from, size, offset);
}

/* Everything that waits reaches the disk. */
static int flush(int fd) {
  for (uint32_t place = 0; place < waiting; place++) {
    uint32_t sector = sector_at[place];
    if (sector == SECTORS) continue;
    if (write_now(fd, bytes + (size_t)place * SECTOR, SECTOR, (off_t)sector * SECTOR) != SECTOR)
      return -1;
    place_of[sector] = 0;
  }
  waiting = 0;
  return 0;
}

static void hold(uint32_t sector, const unsigned char *from) {
  if (!place_of[sector]) {
    sector_at[waiting] = sector;
    place_of[sector] = ++waiting;
  }
  memcpy(bytes + (size_t)(place_of[sector] - 1) * SECTOR, from, SECTOR);
}

static void forget(uint32_t sector) {
  if (!place_of[sector]) return;
  sector_at[place_of[sector] - 1] = SECTORS;
  place_of[sector] = 0;
}

ssize_t pwrite64(int fd, const void *from, size_t size, off_t offset) {
  uint32_t first = (uint32_t)(offset / SECTOR), count = (uint32_t)(size / SECTOR);
  unsigned kind;
  int waits;
  if (!ours(fd)) return write_now(fd, from, size, offset);
  /* What is not whole sectors of this disk is not the guest's doing. */
  if (offset % SECTOR || size % SECTOR || (uint64_t)offset / SECTOR + count > SECTORS ||
      count > WAITING)
    abort();
  if (waiting + count > WAITING && flush(fd) != 0) return -1;
  kind = (unsigned)(roll() % 8);
  waits = kind < 4 || (kind == 4 && roll() % 2);
  for (uint32_t i = 0; i < count; i++) {
    const unsigned char *at = (const unsigned char *)from + (size_t)i * SECTOR;
    /* Waits whole, or is on the disk whole; one in eight is torn between blocks. */
    if (kind == 4 && (first + i) % BLOCK == 0) waits = roll() % 2 != 0;
    if (waits) {
      hold(first + i, at);
    } else {
      forget(first + i);
      if (write_now(fd, at, SECTOR, (off_t)(first + i) * SECTOR) != SECTOR) return -1;
    }
  }
  return (ssize_t)size;
}

ssize_t pread64(int fd, void *to, size_t size, off_t offset) {
  ssize_t got = (ssize_t)syscall(SYS_pread64, fd, to, size, offset);
  if (got <= 0 || !waiting || !ours(fd)) return got;
  for (off_t at = offset / SECTOR * SECTOR; at < offset + got; at += SECTOR) {
    uint32_t place = place_of[at / SECTOR];
    off_t from = at < offset ? offset : at;
    off_t end = at + SECTOR < offset + got ? at + SECTOR : offset + got;
    if (place)
      memcpy((unsigned char *)to + (from - offset),
             bytes + (size_t)(place - 1) * SECTOR + (from - at), (size_t)(end - from));
  }
  return got;
}

/* The host itself does not lose its power: what is written there stays. */
static int sync_disk(int fd) { return getenv("VOLATILE_LIES") ? 0 : flush(fd); }

int fsync(int fd) { return ours(fd) ? sync_disk(fd) : (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { return ours(fd) ? sync_disk(fd) : (int)syscall(SYS_fdatasync, fd); }

int fallocate64(int fd, int mode, off_t offset, off_t size) {
  if (ours(fd) && flush(fd) != 0) return -1;
  return (int)syscall(SYS_fallocate, fd, mode, offset, size);
}
