/* io.c - files, words and digests, in a process that is somebody else's. */
#include "symcc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

symcc_counters symcc_(counts);

static const int harmful[2] = {SIGPIPE, SIGXFSZ};

void symcc_(quiet_begin)(symcc_quiet *q) {
  sigset_t set, pending;
  q->error = errno;
  sigemptyset(&set);
  sigemptyset(&pending);
  sigpending(&pending);
  for (int i = 0; i < 2; i++) {
    sigaddset(&set, harmful[i]);
    q->pending[i] = sigismember(&pending, harmful[i]) == 1;
  }
  pthread_sigmask(SIG_BLOCK, &set, &q->before);
}

void symcc_(quiet_end)(symcc_quiet *q) {
  const struct timespec at_once = {0, 0};
  for (int i = 0; i < 2; i++) {
    sigset_t one;
    if (q->pending[i]) continue; /* the host's own */
    sigemptyset(&one);
    sigaddset(&one, harmful[i]);
    while (sigtimedwait(&one, NULL, &at_once) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &q->before, NULL);
  errno = q->error;
}

static void say_words(const char *format, va_list arguments) {
  char line[900];
  int head = snprintf(line, sizeof line, "symlease-symcc[%d]: ", (int)getpid());
  int n = vsnprintf(line + head, sizeof line - (size_t)head - 1, format, arguments);
  size_t len;
  if (n < 0) return;
  len = strlen(line);
  line[len++] = '\n';
  symcc_(write)(2, line, len); /* one call: lines of many processes stay whole */
}

void symcc_(say)(const char *format, ...) {
  va_list arguments;
  if (symcc_(settings).quiet) return;
  va_start(arguments, format);
  say_words(format, arguments);
  va_end(arguments);
}

void symcc_(trouble)(const char *format, ...) {
  va_list arguments;
  if (symcc_(counts).errors++ != 0 || symcc_(settings).quiet) return;
  va_start(arguments, format);
  say_words(format, arguments);
  va_end(arguments);
}

int symcc_(open)(int directory, const char *path, int flags, mode_t mode) {
  int fd;
  do {
    fd = openat(directory, path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, mode);
  } while (fd < 0 && errno == EINTR);
  /* 0 to 2 are the host's words, 198 and 199 a fork server's (F6). */
  if (fd >= 0 && (fd < 3 || fd == 198 || fd == 199)) {
    int high = fcntl(fd, F_DUPFD_CLOEXEC, fd < 3 ? 3 : 200);
    int error = errno;
    close(fd);
    errno = error;
    return high;
  }
  return fd;
}

bool symcc_(write)(int fd, const void *bytes, size_t len) {
  const uint8_t *at = bytes;
  while (len > 0) {
    ssize_t n = write(fd, at, len);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    len -= (size_t)n;
  }
  return true;
}

static bool make_one(const char *path) {
  mode_t mode = symcc_(settings).mode & 077 ? 0770 : 0700;
  char above[PATH_MAX];
  char *slash;
  int fd;
  if (mkdir(path, mode) != 0) return errno == EEXIST;
  if (mode == 0770 && chmod(path, mode) != 0) return false;
  snprintf(above, sizeof above, "%s", path);
  slash = strrchr(above, '/');
  if (slash == NULL) return true;
  slash[slash == above] = '\0';
  fd = symcc_(open)(AT_FDCWD, above, O_RDONLY | O_DIRECTORY, 0);
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  return true;
}

bool symcc_(make_directories)(const char *path) {
  char part[PATH_MAX];
  size_t len = strlen(path);
  struct stat about;
  if (len == 0 || len >= sizeof part) {
    errno = ENAMETOOLONG;
    return false;
  }
  memcpy(part, path, len + 1);
  for (size_t i = 1; i < len; i++) {
    if (part[i] != '/') continue;
    part[i] = '\0';
    if (stat(part, &about) != 0 && !make_one(part)) return false;
    part[i] = '/';
  }
  return make_one(part) && stat(part, &about) == 0 && S_ISDIR(about.st_mode);
}

bool symcc_(digest_parse)(const char *text, symcc_digest *out) {
  for (int i = 0; i < 64; i++) {
    char c = text[i];
    int v = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (v < 0) return false;
    out->byte[i / 2] = (uint8_t)(i % 2 == 0 ? v << 4 : out->byte[i / 2] | v);
  }
  return true;
}

void symcc_(digest_text)(const symcc_digest *d, char text[65]) {
  static const char digits[] = "0123456789abcdef";
  for (int i = 0; i < 32; i++) {
    text[2 * i] = digits[d->byte[i] >> 4];
    text[2 * i + 1] = digits[d->byte[i] & 15];
  }
  text[64] = '\0';
}

bool symcc_(digest_of)(const void *bytes, size_t len, symcc_digest *out) {
  char id[SYMLEASE_ID_SIZE];
  return symlease_work_id(bytes, len, id) == SYMLEASE_OK && symcc_(digest_parse)(id, out);
}
