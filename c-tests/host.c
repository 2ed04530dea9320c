/* What a host process does to itself: F5, F6, F8, F9, F11. Each part runs in a
 * process of its own. Argument: an empty directory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define TARGETS 64

static volatile sig_atomic_t ticks;

static void tick(int number) {
  (void)number;
  ticks++;
}

/* F5: a 1 ms interval timer whose handler interrupts system calls. */
/* A wait is as long as it was to be, however often it is interrupted. */
static void deadline_under_a_timer(const char *root) {
  symlease_options options;
  symlease_campaign *a = NULL;
  symlease_lease lease;
  struct timespec start, end;
  char id[SYMLEASE_ID_SIZE], head[9] = "", path[PATH_MAX];
  int held;
  symlease_options_init(&options, sizeof options);
  options.lock_timeout = 0.3;
  CHECK(symlease_open(root, &options, &a) == SYMLEASE_OK);
  numbered_id(0, id);
  memcpy(head, id, 8);
  snprintf(path, sizeof path, "%s/.work_lease_table/%03lu/%s.json.lock", root,
           strtoul(head, NULL, 16) % 256, id);
  held = open(path, O_RDWR | O_CLOEXEC);
  CHECK(held >= 0 && syscall(SYS_flock, held, LOCK_EX | LOCK_NB) == 0);
  memset(&lease, 0, sizeof lease);
  clock_gettime(CLOCK_MONOTONIC, &start);
  CHECK(symlease_claim(a, id, NULL, &lease, NULL) == SYMLEASE_E_TIMEOUT);
  clock_gettime(CLOCK_MONOTONIC, &end);
  CHECK((double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9 >= 0.3);
  close(held);
  symlease_close(a);
}

static void f5_interval_timer(const char *root) {
  symlease_campaign *a = open_plain(root, "timer", 300.0), *b = open_plain(root, "other", 300.0);
  struct itimerval every = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
  struct sigaction action;
  symlease_counters counters;
  int i, all = rounds(100000);
  memset(&action, 0, sizeof action);
  action.sa_handler = tick;
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
  for (i = 0; i < all; i++) {
    symlease_lease lease;
    char id[SYMLEASE_ID_SIZE];
    int fresh = i % 50 == 0;
    numbered_id(i / 50, id);
    memset(&lease, 0, sizeof lease);
    errno = 4711;
    CHECK(symlease_claim(fresh ? a : b, id, NULL, &lease, NULL) == (fresh ? SYMLEASE_OK : SYMLEASE_HELD));
    CHECK(errno == 4711); /* left alone */
  }
  deadline_under_a_timer(root);
  CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
  CHECK(ticks > 0);
  CHECK(symlease_read_counters(b, &counters) == SYMLEASE_OK && counters.timeouts == 0);
  symlease_close(a);
  symlease_close(b);
}

/* Descriptors that are open, this listing's own left out; bit i: i is open. */
static int open_descriptors(char *bits, int size) {
  DIR *list = opendir("/proc/self/fd");
  struct dirent *entry;
  int count = 0;
  if (!list) return -1;
  memset(bits, 0, (size_t)size);
  while ((entry = readdir(list))) {
    int number;
    if (entry->d_name[0] == '.') continue;
    number = atoi(entry->d_name);
    if (number == dirfd(list)) continue;
    count++;
    if (number < size) bits[number] = 1;
  }
  closedir(list);
  return count;
}

static int base_descriptors, in_call, most_in_call, wrong_in_call;
static char before_call[256];

/* In place of libc's, for the library too: looks at what is open while a call
 * holds a lock, then locks. */
int flock(int descriptor, int how);
int flock(int descriptor, int how) {
  if (in_call) {
    static const int kept[] = {0, 1, 2, 198, 199};
    char bits[256];
    int saved = errno, count = open_descriptors(bits, sizeof bits);
    size_t i;
    if (count - base_descriptors > most_in_call) most_in_call = count - base_descriptors;
    for (i = 0; i < sizeof kept / sizeof *kept; i++)
      if (bits[kept[i]] && !before_call[kept[i]]) wrong_in_call++;
    errno = saved;
  }
  return (int)syscall(SYS_flock, descriptor, how);
}

/* As CHECK, but reports by exit code: there is no stderr to print to. */
#define QUIET(what) \
  do {              \
    if (!(what)) return __LINE__ % 256 ? __LINE__ % 256 : 1; \
  } while (0)

static int f6_closed_standard_descriptors(const char *root, int fill_to) {
  static const char text[] = "the host's own words";
  symlease_options options;
  symlease_campaign *a = NULL;
  symlease_lease lease;
  symlease_group group;
  const uint64_t targets[] = {11, 12, 13, 14, 15, 16};
  char id[SYMLEASE_ID_SIZE], *json = NULL, bits[256];
  int i;
  if (fill_to) {
    for (i = 0; i < 512 && open("/dev/null", O_RDONLY | O_CLOEXEC) < fill_to - 1; i++) continue;
  } else {
    close(0);
    close(1);
    close(2);
  }
  symlease_options_init(&options, sizeof options);
  options.durability = SYMLEASE_DURABLE_PROCESS;
  options.session = fill_to ? SYMLEASE_SESSION_NONE : SYMLEASE_SESSION_OWN;
  QUIET((base_descriptors = open_descriptors(before_call, sizeof before_call)) >= 0);
  in_call = 1;
  QUIET(symlease_open(root, &options, &a) == SYMLEASE_OK);
  QUIET(symlease_work_id("quiet", 5, id) == SYMLEASE_OK);
  memset(&lease, 0, sizeof lease);
  memset(&group, 0, sizeof group);
  for (i = 0; i < 20; i++) {
    ssize_t written;
    QUIET(symlease_claim(a, id, NULL, &lease, NULL) == SYMLEASE_OK);
    if (!fill_to) {
      written = write(2, text, sizeof text); /* the host prints into the void */
      QUIET(written < 0 && errno == EBADF);
    }
    QUIET(symlease_heartbeat(a, &lease) == SYMLEASE_OK);
    QUIET(symlease_abandon(a, &lease) == SYMLEASE_OK);
    QUIET(symlease_group_claim(a, targets, 6, NULL, &group, NULL) == SYMLEASE_OK);
    QUIET(symlease_group_heartbeat(a, &group) == SYMLEASE_OK);
    QUIET(symlease_group_release(a, &group) == SYMLEASE_OK);
  }
  QUIET(open_descriptors(bits, sizeof bits) >= 0);
  for (i = 0; i < 3; i++) QUIET(bits[i] == before_call[i]);
  QUIET(bits[198] == before_call[198] && bits[199] == before_call[199]);
  QUIET(most_in_call > 0); /* else this looked at nothing */
  QUIET(wrong_in_call == 0);
  QUIET(symlease_read_record(a, SYMLEASE_TABLE_WORK, id, &json) == SYMLEASE_OK);
  QUIET(strstr(json, text) == NULL);
  symlease_string_free(json);
  in_call = 0;
  symlease_close(a);
  return 0;
}

/* F8: no room for a record by RLIMIT_FSIZE. */
static void f8_file_size_limit(const char *root) {
  symlease_campaign *a = open_plain(root, "size", 300.0);
  static const rlim_t sizes[] = {0, 1, 64, 200};
  struct rlimit old, less;
  struct sigaction was, is;
  sigset_t mask, mask_after;
  symlease_lease lease, fresh;
  symlease_counts counts;
  char id[SYMLEASE_ID_SIZE], other[SYMLEASE_ID_SIZE], *first = NULL, *second = NULL;
  size_t i;
  int number;
  numbered_id(1, id);
  numbered_id(2, other);
  memset(&lease, 0, sizeof lease);
  memset(&fresh, 0, sizeof fresh);
  CHECK(symlease_claim(a, id, "{\"kept\":true}", &lease, NULL) == SYMLEASE_OK);
  CHECK(symlease_read_record(a, SYMLEASE_TABLE_WORK, id, &first) == SYMLEASE_OK);
  CHECK(getrlimit(RLIMIT_FSIZE, &old) == 0);
  CHECK(sigprocmask(SIG_BLOCK, NULL, &mask) == 0);
  CHECK(sigaction(SIGXFSZ, NULL, &was) == 0 && was.sa_handler == SIG_DFL);
  for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    less = old;
    less.rlim_cur = sizes[i];
    CHECK(setrlimit(RLIMIT_FSIZE, &less) == 0);
    CHECK(symlease_heartbeat(a, &lease) == SYMLEASE_E_IO && symlease_last_errno() == EFBIG);
    CHECK(symlease_begin_commit(a, &lease, "{}") == SYMLEASE_E_IO);
    CHECK(symlease_claim(a, other, NULL, &fresh, NULL) == SYMLEASE_E_IO);
    CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
    CHECK(sigprocmask(SIG_BLOCK, NULL, &mask_after) == 0);
    for (number = 1; number < NSIG; number++)
      CHECK(sigismember(&mask, number) == sigismember(&mask_after, number));
    CHECK(sigaction(SIGXFSZ, NULL, &is) == 0 && is.sa_handler == SIG_DFL);
    CHECK(sigpending(&mask_after) == 0 && !sigismember(&mask_after, SIGXFSZ));
    CHECK(symlease_read_record(a, SYMLEASE_TABLE_WORK, id, &second) == SYMLEASE_OK);
    CHECK(strcmp(first, second) == 0); /* the old record is whole */
    symlease_string_free(second);
    CHECK(symlease_read_record(a, SYMLEASE_TABLE_WORK, other, &second) == SYMLEASE_ABSENT);
  }
  symlease_string_free(first);
  CHECK(symlease_heartbeat(a, &lease) == SYMLEASE_OK);
  CHECK(symlease_read_counts(a, SYMLEASE_TABLE_WORK, &counts) == SYMLEASE_OK);
  CHECK(counts.leased == 1 && counts.corrupt == 0);
  symlease_close(a);
}

static rlim_t most;

static void limit(rlim_t descriptors) {
  struct rlimit limits;
  CHECK(getrlimit(RLIMIT_NOFILE, &limits) == 0);
  if (!most) most = limits.rlim_cur;
  limits.rlim_cur = descriptors ? descriptors : most;
  CHECK(setrlimit(RLIMIT_NOFILE, &limits) == 0);
}

/* F9: at each RLIMIT_NOFILE a 64-target claim is OK or a clean error. */
static void f9_descriptor_limit(const char *root) {
  uint64_t targets[TARGETS];
  char bits[256];
  int i, allowed, failing = 0, worked = 0;
  for (i = 0; i < TARGETS; i++) targets[i] = (uint64_t)i + 1;
  for (allowed = 3; allowed <= 40; allowed++) {
    symlease_campaign *a = NULL, *b = open_plain(root, "b", 300.0);
    symlease_options options;
    symlease_group group;
    symlease_status status;
    symlease_counts counts;
    int before = open_descriptors(bits, sizeof bits);
    memset(&group, 0, sizeof group);
    symlease_options_init(&options, sizeof options);
    options.owner = "a";
    options.durability = SYMLEASE_DURABLE_PROCESS;
    options.session = SYMLEASE_SESSION_NONE;
    limit((rlim_t)allowed);
    status = symlease_open(root, &options, &a);
    if (status == SYMLEASE_OK) {
      status = symlease_group_claim(a, targets, TARGETS, NULL, &group, NULL);
      CHECK(status == SYMLEASE_OK || status == SYMLEASE_E_IO);
      CHECK(status != SYMLEASE_E_IO || symlease_last_errno() == EMFILE);
    } else {
      CHECK(status == SYMLEASE_E_IO && a == NULL);
    }
    limit(0);
    CHECK(symlease_read_counts(b, SYMLEASE_TABLE_TARGET, &counts) == SYMLEASE_OK);
    CHECK(counts.corrupt == 0);
    CHECK(counts.leased == (status == SYMLEASE_OK ? TARGETS : 0)); /* nothing half done */
    if (status == SYMLEASE_OK) {
      CHECK(group.count == TARGETS && symlease_group_release(a, &group) == SYMLEASE_OK);
      worked++;
    } else {
      CHECK(group.count == 0);
      failing = allowed;
      CHECK(symlease_group_claim(b, targets, TARGETS, NULL, &group, NULL) == SYMLEASE_OK);
      CHECK(symlease_group_release(b, &group) == SYMLEASE_OK);
    }
    symlease_close(a);
    CHECK(open_descriptors(bits, sizeof bits) == before);
    symlease_close(b);
  }
  CHECK(failing > 0 && worked + failing > 0);
  {
    symlease_campaign *a = open_plain(root, "a", 300.0);
    const int at[] = {3, failing};
    size_t k;
    for (k = 0; k < 2; k++) {
      symlease_group group;
      int before = open_descriptors(bits, sizeof bits), all = rounds(k ? 1000 : 9000);
      limit((rlim_t)at[k]);
      for (i = 0; i < all; i++)
        CHECK(symlease_group_claim(a, targets, TARGETS, NULL, &group, NULL) == SYMLEASE_E_IO);
      limit(0);
      CHECK(open_descriptors(bits, sizeof bits) == before);
    }
    symlease_close(a);
  }
}

/* F11: a relative root of bytes that are no UTF-8, then chdir. */
static void f11_relative_root_of_odd_bytes(const char *root) {
  static const char name[] = "r\xff\xfe oot";
  char whole[PATH_MAX], id[SYMLEASE_ID_SIZE];
  symlease_campaign *a, *b;
  symlease_lease lease;
  struct stat facts;
  CHECK(realpath(root, whole) && strlen(whole) + 32 < sizeof whole);
  CHECK(chdir(whole) == 0);
  a = open_plain(name, "a", 300.0);
  CHECK(mkdir("elsewhere", 0700) == 0 && chdir("elsewhere") == 0);
  numbered_id(1, id);
  memset(&lease, 0, sizeof lease);
  CHECK(symlease_claim(a, id, NULL, &lease, NULL) == SYMLEASE_OK);
  CHECK(lstat(name, &facts) != 0 && errno == ENOENT);
  strcat(whole, "/");
  strcat(whole, name);
  CHECK(stat(whole, &facts) == 0 && S_ISDIR(facts.st_mode));
  b = open_plain(whole, "b", 300.0);
  CHECK(symlease_claim(b, id, NULL, &lease, NULL) == SYMLEASE_HELD);
  symlease_close(a);
  symlease_close(b);
}

static void apart(const char *root, const char *name, void (*part)(const char *), int fill) {
  char place[PATH_MAX];
  pid_t pid;
  int state;
  CHECK(snprintf(place, sizeof place, "%s/%s", root, name) < (int)sizeof place);
  CHECK(mkdir(place, 0700) == 0);
  pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    if (part) part(place);
    _exit(part ? 0 : f6_closed_standard_descriptors(place, fill));
  }
  CHECK(waitpid(pid, &state, 0) == pid);
  if (state != 0)
    fprintf(stderr, "%s: signal %d, exit code (its line, mod 256) %d\n", name, WTERMSIG(state),
            WEXITSTATUS(state));
  CHECK(state == 0);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  apart(arguments[1], "f5", f5_interval_timer, 0);
  apart(arguments[1], "f6", NULL, 0);
  apart(arguments[1], "f6-198", NULL, 196);
  apart(arguments[1], "f6-199", NULL, 198);
  apart(arguments[1], "f8", f8_file_size_limit, 0);
  apart(arguments[1], "f9", f9_descriptor_limit, 0);
  apart(arguments[1], "f11", f11_relative_root_of_odd_bytes, 0);
  return 0;
}
