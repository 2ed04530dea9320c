/* What a host process does around the library: F1, F3, F7, F10. (F2 and F4:
 * ../fork.c; F5, F6, F8, F9, F11: ../host.c.) Argument: an empty directory. */
#include <dirent.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/file.h>

#include "operations.h"

extern char **environ;
static long worlds;

/* Whether a process keeps a file of the campaign open. */
static int keeps_open(pid_t pid, const char *root, path_text which) {
  path_text folder, target;
  struct dirent *entry;
  DIR *list;
  int found = 0;
  snprintf(folder, sizeof folder, "/proc/%d/fd", (int)pid);
  list = opendir(folder);
  if (!list) return 0; /* it has ended */
  while (!found && (entry = readdir(list))) {
    ssize_t length = readlinkat(dirfd(list), entry->d_name, target, sizeof target - 1);
    if (length < 0) continue;
    target[length] = 0;
    found = strncmp(target, root, strlen(root)) == 0;
    if (found) strcpy(which, target);
  }
  closedir(list);
  return found;
}

static int ends[2];

/* Forks, in the middle of a call, a child that sleeps on; then is killed. */
static int fork_and_die(enum shim_call call, const char *path) {
  (void)call;
  (void)path;
  if (fork() == 0) {
    pid_t own = getpid();
    shim_end();
    CHECK(write(ends[1], &own, sizeof own) == sizeof own);
    for (;;) pause();
  }
  kill(getpid(), SIGKILL);
  return 0;
}

/* At each call of a heartbeat the process forks and is killed: its child lives,
 * and still every lock is free at once, and the session dead. */
static void f1_owner_killed_and_its_child_sleeps_on(const char *root) {
  static const char *const calls[] = {"heartbeat", "group heartbeat", "merge of many shards"};
  size_t i;
  long at, all = 0;
  CHECK(pipe(ends) == 0);
  for (i = 0; i < sizeof calls / sizeof *calls; i++) {
    for (at = 1;; at++) {
      struct world world;
      symlease_options options = fault_options("next");
      pid_t pid, child;
      int state;
      begin_world(&world, root, worlds++, named(calls[i]));
      pid = fork();
      CHECK(pid >= 0);
      if (pid == 0) {
        memset(&shim, 0, sizeof shim);
        shim.call = SHIM_ANY;
        shim.at = at;
        shim.hook = fork_and_die;
        shim.below = world.root;
        _exit(named(calls[i])->run(&world) == SYMLEASE_OK ? 0 : 1);
      }
      CHECK(waitpid(pid, &state, 0) == pid);
      if (state == 0) {
        end_world(&world);
        break;
      }
      CHECK(WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL);
      CHECK(read(ends[0], &child, sizeof child) == sizeof child);
      /* one try each: whatever lock the child kept would be found */
      symlease_close(world.a);
      options.lock_timeout = -1;
      world.a = open_with(world.root, &options);
      CHECK(named(calls[i])->run(&world) == SYMLEASE_OK);
      CHECK(kill(child, 0) == 0 && kill(child, SIGKILL) == 0);
      end_world(&world);
      all++;
    }
  }
  printf("  %ld kills\n", all);
  CHECK(all > 50);
}

/* The session of a killed holder is dead though its child lives (D3). */
static void f1_session_ends_with_its_process(const char *root) {
  symlease_options options = fault_options("killed");
  symlease_campaign *next = open_fault(root, "next");
  symlease_lease lease;
  path_text which;
  char id[SYMLEASE_ID_SIZE];
  pid_t pid, child;
  int state;
  options.session = SYMLEASE_SESSION_OWN;
  CHECK(symlease_work_id("work", 4, id) == SYMLEASE_OK);
  memset(&lease, 0, sizeof lease);
  CHECK(pipe(ends) == 0);
  pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    symlease_campaign *own = open_with(root, &options);
    if (symlease_claim(own, id, NULL, &lease, NULL) != SYMLEASE_OK) _exit(1);
    fork_and_die(SHIM_ANY, "");
  }
  CHECK(waitpid(pid, &state, 0) == pid && WIFSIGNALED(state));
  CHECK(read(ends[0], &child, sizeof child) == sizeof child);
  CHECK(keeps_open(child, root, which) == 0);
  /* well within the TTL: the clock stands still */
  CHECK(symlease_claim(next, id, NULL, &lease, NULL) == SYMLEASE_OK && lease.steals == 1);
  CHECK(kill(child, SIGKILL) == 0);
  symlease_close(next);
}

struct spawner {
  const char *root;
  int stop, started, kept;
  path_text which;
  pthread_mutex_t guard;
};

/* /bin/true in a loop; every other one is looked at while it stands still. */
static void *spawn(void *user) {
  struct spawner *all = user;
  static char *const truth[] = {"true", NULL}, *const slow[] = {"sleep", "1000", NULL};
  for (;;) {
    pid_t pid;
    int over, state, looked = all->started % 8 == 0;
    pthread_mutex_lock(&all->guard);
    over = all->stop;
    pthread_mutex_unlock(&all->guard);
    if (over) return NULL;
    CHECK(posix_spawn(&pid, looked ? "/bin/sleep" : "/bin/true", NULL, NULL, looked ? slow : truth,
                      environ) == 0);
    if (looked) {
      all->kept += keeps_open(pid, all->root, all->which);
      CHECK(kill(pid, SIGKILL) == 0);
    }
    CHECK(waitpid(pid, &state, 0) == pid);
    all->started++;
  }
}

static void f3_programs_started_while_another_thread_locks(const char *root) {
  symlease_campaign *a = open_plain(root, "a", 300.0);
  struct spawner all = {root, 0, 0, 0, "", PTHREAD_MUTEX_INITIALIZER};
  pthread_t thread;
  symlease_lease lease;
  symlease_counters counters;
  char id[SYMLEASE_ID_SIZE];
  int i, wanted = rounds(10000);
  CHECK(pthread_create(&thread, NULL, spawn, &all) == 0);
  memset(&lease, 0, sizeof lease);
  CHECK(symlease_work_id("work", 4, id) == SYMLEASE_OK);
  CHECK(symlease_claim(a, id, NULL, &lease, NULL) == SYMLEASE_OK);
  for (i = 0; i < wanted; i++) CHECK(symlease_heartbeat(a, &lease) == SYMLEASE_OK);
  pthread_mutex_lock(&all.guard);
  all.stop = 1;
  pthread_mutex_unlock(&all.guard);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(symlease_read_counters(a, &counters) == SYMLEASE_OK);
  printf("  %d programs, %llu locks, %llu contended\n", all.started,
         (unsigned long long)counters.locks, (unsigned long long)counters.contended);
  CHECK(counters.locks >= (uint64_t)wanted && counters.contended == 0 && counters.timeouts == 0);
  if (all.kept) fprintf(stderr, "kept open: %s\n", all.which);
  CHECK(all.started > 8 && all.kept == 0);
  symlease_close(a);
}

/* The host closes everything above 2, and opens files of its own there. */
static void f7_host_closes_every_descriptor(const char *root) {
  int session;
  for (session = 0; session < 2; session++) {
    symlease_options options = fault_options("host");
    symlease_campaign *a, *other;
    symlease_lease lease, taken;
    symlease_group group;
    symlease_holder holder;
    const uint64_t targets[] = {1, 2, 3};
    const symlease_edge bits[] = {{1, 1}, {2, 2}};
    struct stat facts[16], now;
    path_text place, name;
    char id[SYMLEASE_ID_SIZE];
    int own[16], i, round;
    CHECK(snprintf(place, sizeof place, "%s/%d", root, session) < PATH_MAX);
    options.session = session ? SYMLEASE_SESSION_OWN : SYMLEASE_SESSION_NONE;
    a = open_with(place, &options);
    other = open_fault(place, "other");
    memset(&lease, 0, sizeof lease);
    memset(&taken, 0, sizeof taken);
    memset(&group, 0, sizeof group);
    CHECK(symlease_work_id("work", 4, id) == SYMLEASE_OK);
    CHECK(symlease_claim(a, id, NULL, &lease, NULL) == SYMLEASE_OK);
    CHECK(symlease_group_claim(a, targets, 3, NULL, &group, NULL) == SYMLEASE_OK);
    for (round = 0; round < 5; round++) {
      for (i = 3; i < 1024; i++) close(i);
      for (i = 0; i < 16; i++) {
        CHECK(snprintf(name, sizeof name, "%s/host-%d", root, i) < PATH_MAX);
        own[i] = open(name, O_CREAT | O_RDWR | O_TRUNC, 0600);
        CHECK(own[i] >= 3 && write(own[i], "the host's", 10) == 10 && fstat(own[i], &facts[i]) == 0);
        CHECK(flock(own[i], LOCK_EX | LOCK_NB) == 0);
      }
      CHECK(symlease_heartbeat(a, &lease) == SYMLEASE_OK);
      CHECK(symlease_group_heartbeat(a, &group) == SYMLEASE_OK);
      CHECK(symlease_coverage_merge_sparse(a, bits, 2, NULL) == SYMLEASE_OK);
      CHECK(symlease_coverage_heartbeat(a) == SYMLEASE_OK);
      /* alive, by its own session again */
      CHECK(symlease_claim(other, id, NULL, &taken, &holder) == SYMLEASE_HELD);
      if (round == 4) {
        CHECK(symlease_begin_commit(a, &lease, "{}") == SYMLEASE_OK);
        CHECK(symlease_complete(a, &lease) == SYMLEASE_OK);
        CHECK(symlease_group_release(a, &group) == SYMLEASE_OK);
        symlease_close(a);
      }
      for (i = 0; i < 16; i++) {
        int again;
        CHECK(fstat(own[i], &now) == 0 && now.st_ino == facts[i].st_ino && now.st_dev == facts[i].st_dev);
        CHECK(now.st_size == 10 && lseek(own[i], 0, SEEK_CUR) == 10);
        /* nor is the host's lock gone */
        CHECK(snprintf(name, sizeof name, "%s/host-%d", root, i) < PATH_MAX);
        again = open(name, O_RDONLY);
        CHECK(again >= 0 && flock(again, LOCK_EX | LOCK_NB) != 0 && close(again) == 0);
        CHECK(close(own[i]) == 0);
      }
    }
    symlease_close(other);
  }
}

int main(int count, char **arguments) {
  static const struct fault faults[] = {
      FAULT(f1_owner_killed_and_its_child_sleeps_on),
      FAULT(f1_session_ends_with_its_process),
      FAULT(f3_programs_started_while_another_thread_locks),
      FAULT(f7_host_closes_every_descriptor),
  };
  return run_faults(count, arguments, faults, sizeof faults / sizeof *faults);
}
