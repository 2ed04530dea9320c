/* staging.c - generated inputs, whole or not at all, each once. */
#include "symcc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *place;

bool symcc_(staging_start)(const char *directory) {
  struct stat about;
  place = directory;
  /* The runtime ends the target where this directory is missing: no word here. */
  return directory != NULL && stat(directory, &about) == 0 && S_ISDIR(about.st_mode);
}

/* Is it there already, as whole as ours? */
static bool is_there(int directory, const char *name, size_t len) {
  struct stat about;
  return fstatat(directory, name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(about.st_mode) &&
         (uint64_t)about.st_size == len;
}

static bool fill(int fd, const void *bytes, size_t len) {
  if (symcc_(settings).mode != 0600 && fchmod(fd, symcc_(settings).mode) != 0) return false;
  return symcc_(write)(fd, bytes, len) && fsync(fd) == 0;
}

/* A file without a name gets one: a death leaves nothing behind. */
static bool link_nameless(int directory, const char *name, const void *bytes, size_t len) {
  char self[64];
  bool done;
  int error, fd = symcc_(open)(directory, ".", O_TMPFILE | O_WRONLY, 0600);
  if (fd < 0) {
    errno = EOPNOTSUPP;
    return false;
  }
  snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
  done = fill(fd, bytes, len) &&
         (linkat(AT_FDCWD, self, directory, name, AT_SYMLINK_FOLLOW) == 0 || errno == EEXIST);
  error = errno;
  close(fd);
  errno = error;
  return done;
}

static bool link_named(int directory, const char *name, const void *bytes, size_t len) {
  char aside[128];
  bool done;
  int error, fd;
  snprintf(aside, sizeof aside, ".symlease-%.64s-%d.tmp", name, (int)getpid());
  unlinkat(directory, aside, 0); /* of a dead process of this number */
  fd = symcc_(open)(directory, aside, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (fd < 0) return false;
  done = fill(fd, bytes, len) &&
         (linkat(directory, aside, directory, name, 0) == 0 || errno == EEXIST ||
          renameat2(directory, aside, directory, name, RENAME_NOREPLACE) == 0 || errno == EEXIST);
  error = errno;
  close(fd);
  unlinkat(directory, aside, 0);
  errno = error;
  return done;
}

bool symcc_(stage)(const void *bytes, size_t len) {
  char name[65];
  symcc_digest digest;
  bool done = false, there = false;
  int directory = -1;
  symcc_(counts).inputs++;
  if (symcc_(digest_of)(bytes, len, &digest)) {
    symcc_(digest_text)(&digest, name);
    directory = symcc_(open)(AT_FDCWD, place, O_RDONLY | O_DIRECTORY, 0);
  }
  if (directory >= 0) {
    there = is_there(directory, name, len);
    done = there || link_nameless(directory, name, bytes, len) ||
           link_named(directory, name, bytes, len);
    /* One that is there may be another process's, and not yet synced. */
    done = done && is_there(directory, name, len) && fsync(directory) == 0;
  }
  if (!done) symcc_(trouble)("an input could not be put into %s: %s", place, strerror(errno));
  else if (!there) symcc_(counts).staged++;
  if (directory >= 0) close(directory);
  return done;
}
