#include "shim.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct shim shim;
double shim_clock_shift;
int (*shim_listing)(const char *name);
int shim_open_flags, shim_no_syncs;
static int inside;

int shim_end(void) {
  shim.below = NULL;
  shim.hook = NULL;
  return shim.fired;
}

const char *shim_name(enum shim_call call) {
  static const char *const names[] = {"open",   "close", "stat",   "read",  "write", "sync", "rename",
                                      "link", "unlink", "mkdir", "lock", "list",   "any"};
  return names[call];
}

static int path_of(int descriptor, const char *name, char path[2 * PATH_MAX]) {
  char link[64];
  long length = 0;
  if (name && *name == '/') return snprintf(path, 2 * PATH_MAX, "%s", name) > 0;
  if (descriptor == AT_FDCWD)
    snprintf(link, sizeof link, "/proc/self/cwd");
  else
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
  if (length < 0) return 0;
  path[length] = 0;
  if (name) snprintf(path + length, PATH_MAX, "/%s", name);
  return 1;
}

/* 1: the call is to fail with errno. */
static int fails(enum shim_call call, int descriptor, const char *name) {
  char path[2 * PATH_MAX];
  int saved = errno, mine;
  long number;
  int wanted;
  if (!shim.below || inside) return 0;
  inside = 1;
  mine = path_of(descriptor, name, path) && strncmp(path, shim.below, strlen(shim.below)) == 0;
  if (mine && shim.within) mine = strstr(path, shim.within) != NULL;
  if (mine && call == SHIM_SYNC && shim.directories) {
    struct stat facts;
    int directory = syscall(SYS_fstat, descriptor, &facts) == 0 && S_ISDIR(facts.st_mode);
    mine = directory == (shim.directories > 0);
  }
  errno = saved;
  inside = 0;
  if (!mine) return 0;
  number = ++shim.seen[call];
  shim.seen[SHIM_ANY]++;
  if (shim.call == SHIM_ANY)
    number = shim.seen[SHIM_ANY];
  else if (shim.call != call)
    return 0;
  if (shim.at && number != shim.at && !(shim.for_ever && number > shim.at)) return 0;
  if (shim.hook) {
    shim.fired++;
    inside = 1;
    wanted = shim.hook(call, path);
    inside = 0;
    errno = wanted ? wanted : saved;
    return wanted != 0;
  }
  if (!shim.at || !shim.error) return 0;
  shim.fired++;
  errno = shim.error;
  return 1;
}

static int open_at(int directory, const char *path, int flags, mode_t mode) {
  if (shim.below) shim_open_flags = flags;
  if (fails(SHIM_OPEN, directory, path)) return -1;
  return (int)syscall(SYS_openat, directory, path, flags, mode);
}

int openat(int directory, const char *path, int flags, ...) {
  va_list more;
  mode_t mode;
  va_start(more, flags);
  mode = va_arg(more, mode_t);
  va_end(more);
  return open_at(directory, path, flags, mode);
}

int openat64(int directory, const char *path, int flags, ...) {
  va_list more;
  mode_t mode;
  va_start(more, flags);
  mode = va_arg(more, mode_t);
  va_end(more);
  return open_at(directory, path, flags, mode);
}

/* A close that fails has closed all the same. */
int close(int descriptor) {
  int wrong = 0, error;
  if (shim.below && !inside) {
    int saved = errno;
    int how = (int)syscall(SYS_fcntl, descriptor, F_GETFL);
    errno = saved;
    if (how >= 0 && (how & O_ACCMODE) == O_WRONLY) wrong = fails(SHIM_CLOSE, descriptor, NULL);
  }
  error = errno;
  if (!wrong) return (int)syscall(SYS_close, descriptor);
  syscall(SYS_close, descriptor);
  errno = error;
  return -1;
}

int fstat(int descriptor, struct stat *facts) {
  if (fails(SHIM_STAT, descriptor, NULL)) return -1;
  return (int)syscall(SYS_fstat, descriptor, facts);
}

int fstatat(int directory, const char *path, struct stat *facts, int flags) {
  if (fails(SHIM_STAT, directory, path)) return -1;
  return (int)syscall(SYS_newfstatat, directory, path, facts, flags);
}

ssize_t pread(int descriptor, void *bytes, size_t size, off_t offset) {
  if (fails(SHIM_READ, descriptor, NULL)) return -1;
  return syscall(SYS_pread64, descriptor, bytes, size, offset);
}

ssize_t write(int descriptor, const void *bytes, size_t size) {
  if (fails(SHIM_WRITE, descriptor, NULL)) return -1;
  return syscall(SYS_write, descriptor, bytes, size);
}

static int sync_by(long number, int descriptor) {
  if (fails(SHIM_SYNC, descriptor, NULL)) return -1;
  if (shim_no_syncs) return 0;
  return (int)syscall(number, descriptor);
}

int fsync(int descriptor) {
  return sync_by(SYS_fsync, descriptor);
}

int fdatasync(int descriptor) {
  return sync_by(SYS_fdatasync, descriptor);
}

int renameat(int from_directory, const char *from, int to_directory, const char *to) {
  if (fails(SHIM_RENAME, to_directory, to)) return -1;
  return (int)syscall(SYS_renameat, from_directory, from, to_directory, to);
}

int linkat(int from_directory, const char *from, int to_directory, const char *to, int flags) {
  if (fails(SHIM_LINK, to_directory, to)) return -1;
  return (int)syscall(SYS_linkat, from_directory, from, to_directory, to, flags);
}

int unlinkat(int directory, const char *path, int flags) {
  if (fails(SHIM_UNLINK, directory, path)) return -1;
  return (int)syscall(SYS_unlinkat, directory, path, flags);
}

int mkdirat(int directory, const char *path, mode_t mode) {
  if (fails(SHIM_MKDIR, directory, path)) return -1;
  return (int)syscall(SYS_mkdirat, directory, path, mode);
}

int flock(int descriptor, int how);
int flock(int descriptor, int how) {
  /* flock's LOCK_UN, 8, does not fail */
  if (how != 8 && fails(SHIM_LOCK, descriptor, NULL)) return -1;
  return (int)syscall(SYS_flock, descriptor, how);
}

DIR *fdopendir(int descriptor) {
  static DIR *(*next)(int);
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "fdopendir");
  if (fails(SHIM_LIST, descriptor, NULL)) return NULL;
  return next(descriptor);
}

struct dirent *readdir(DIR *list) {
  static struct dirent *(*next)(DIR *);
  static struct dirent again;
  static int repeat;
  struct dirent *entry;
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "readdir");
  if (repeat) {
    repeat = 0;
    return &again;
  }
  while ((entry = next(list)) && shim_listing && !inside) {
    int what = shim_listing(entry->d_name);
    if (what == 1) continue;
    if (what == 2) {
      again = *entry;
      repeat = 1;
    }
    break;
  }
  return entry;
}

int clock_gettime(clockid_t which, struct timespec *time) {
  int answer = (int)syscall(SYS_clock_gettime, which, time);
  if (answer == 0 && which == CLOCK_REALTIME && shim_clock_shift != 0) {
    double shifted = (double)time->tv_sec + shim_clock_shift;
    time->tv_sec = (time_t)shifted;
  }
  return answer;
}
