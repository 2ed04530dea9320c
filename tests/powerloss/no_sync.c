/* Preloaded as a negative control: a sync that says it is done and does
 * nothing. NO_SYNC = all, files or directories. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int ignored(int fd) {
  const char *which = getenv("NO_SYNC");
  struct stat stat;
  if (!which || fstat(fd, &stat) != 0) return 0;
  return strcmp(which, "all") == 0 || (strcmp(which, "directories") == 0) == S_ISDIR(stat.st_mode);
}

int fsync(int fd) { return ignored(fd) ? 0 : (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { return ignored(fd) ? 0 : (int)syscall(SYS_fdatasync, fd); }
int sync_file_range(int fd, off_t offset, off_t count, unsigned flags) {
  return ignored(fd) ? 0 : (int)syscall(SYS_sync_file_range, fd, offset, count, flags);
}
int syncfs(int fd) { return ignored(fd) ? 0 : (int)syscall(SYS_syncfs, fd); }
