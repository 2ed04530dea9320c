/* Processes that are killed or stopped at a system call, by the shim: F22, F29,
 * F40, and a group's members one by one, F33. Argument: an empty directory. */
#include <sys/file.h>
#include <sys/mman.h>

#include "operations.h"

static long worlds;

static int die(enum shim_call call, const char *path) {
  (void)call;
  (void)path;
  kill(getpid(), SIGKILL);
  return 0;
}

static int stop(enum shim_call call, const char *path) {
  (void)call;
  (void)path;
  raise(SIGSTOP);
  return 0;
}

static void arm(const char *root, enum shim_call call, long at,
                int (*hook)(enum shim_call, const char *)) {
  memset(&shim, 0, sizeof shim);
  shim.call = call;
  shim.at = at;
  shim.hook = hook;
  shim.below = root;
}

/* A child runs the operation and is killed before its at-th such call; false:
 * there was none, and it ended well. */
static int killed_at(struct world *world, const struct operation *operation, enum shim_call call,
                     long at) {
  int state;
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    arm(world->root, call, at, die);
    _exit(operation->run(world) == SYMLEASE_OK ? 0 : 1);
  }
  CHECK(waitpid(pid, &state, 0) == pid);
  CHECK(state == 0 || (WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL));
  return state != 0;
}

static int count_one(void *user, const symlease_view *view) {
  CHECK(view->status != SYMLEASE_SCAN_CORRUPT);
  ++*(int *)user;
  return 0;
}

static int temporaries(const char *root) {
  char *all = snapshot(root), *at = all;
  int count = 0;
  while ((at = strstr(at, ".tmp "))) {
    count++;
    at++;
  }
  free(all);
  return count;
}

/* A thousand processes die between the write and the rename; each leaves a
 * temporary, which is no record, and which the next sweep removes. */
static void f22_a_thousand_kills_before_the_rename(const char *root) {
  static const char *const calls[] = {"heartbeat",   "first claim", "steal",
                                      "group claim", "merge",       "group heartbeat"};
  size_t i;
  int round, all = rounds(1000) / 6 + 1, left = 0;
  for (i = 0; i < sizeof calls / sizeof *calls; i++) {
    struct world world;
    begin_world(&world, root, worlds++, named(calls[i]));
    for (round = 0; round < all; round++) {
      int records = 0, before = 0;
      uint64_t replayed;
      *fault_time += 1000; /* what a killed one holds is free */
      CHECK(symlease_scan(world.b, SYMLEASE_TABLE_WORK, SYMLEASE_SCAN_ALL, NULL, 0, count_one, &before) == 0);
      CHECK(killed_at(&world, named(calls[i]), SHIM_RENAME, 1 + round % (strstr(calls[i], "group") ? 4 : 1)));
      left += temporaries(world.root);
      CHECK(symlease_scan(world.b, SYMLEASE_TABLE_WORK, SYMLEASE_SCAN_ALL, NULL, 0, count_one, &records) == 0);
      CHECK(records == before);
      if (round % 16 && round != all - 1) continue;
      CHECK(symlease_replay_commits(world.b, world.corpus, 0, &replayed) == SYMLEASE_OK);
      CHECK(temporaries(world.root) == 0);
    }
    *fault_time += 1000;
    if (strcmp(calls[i], "group heartbeat") != 0) CHECK(named(calls[i])->run(&world) == SYMLEASE_OK);
    end_world(&world);
  }
  printf("  %d kills, %d times a temporary was there\n", 6 * all, left);
  CHECK(left >= 6 * all);
}

/* Every file that is made privately first: no name of one outlives a sweep. */
static void f22_no_temporary_of_any_file_stays(const char *root) {
  size_t i;
  long at, all = 0;
  static const enum shim_call calls[] = {SHIM_RENAME, SHIM_LINK, SHIM_SYNC, SHIM_UNLINK};
  size_t k;
  for (i = 0; i < operation_count; i++) {
    for (k = 0; k < sizeof calls / sizeof *calls; k++)
      for (at = 1;; at++) {
        struct world world;
        uint64_t replayed;
        int died;
        begin_world(&world, root, worlds++, &operations[i]);
        died = killed_at(&world, &operations[i], calls[k], at);
        *fault_time += 1000;
        CHECK(symlease_replay_commits(world.b, world.corpus, 0, &replayed) == SYMLEASE_OK);
        if (temporaries(world.root) != 0) {
          fprintf(stderr, "%s killed at %s %ld:\n%s", operations[i].name, shim_name(calls[k]), at,
                  snapshot(world.root));
          exit(1);
        }
        end_world(&world);
        all += died;
        if (!died) break;
      }
  }
  printf("  %ld kills\n", all);
}

/* A sweep removes a temporary only while it holds the record's lock. */
static void f22_a_sweep_needs_the_lock(const char *root) {
  struct world world;
  path_text path, temporary;
  uint64_t replayed;
  int held;
  begin_world(&world, root, worlds++, named("heartbeat"));
  record_path(path, world.root, ".work_lease_table", world.lease.id);
  CHECK(snprintf(temporary, sizeof temporary, "%s.1.00ff.tmp", path) < PATH_MAX);
  write_file(temporary, "x", 1);
  strcat(path, ".lock");
  held = open(path, O_RDWR);
  CHECK(held >= 0 && flock(held, LOCK_EX) == 0);
  CHECK(symlease_replay_commits(world.b, world.corpus, 0, &replayed) == SYMLEASE_OK);
  CHECK(access(temporary, F_OK) == 0);
  close(held);
  CHECK(symlease_replay_commits(world.b, world.corpus, 0, &replayed) == SYMLEASE_OK);
  CHECK(access(temporary, F_OK) != 0);
  end_world(&world);
}

/* Another coordinator comes while the holder is stopped, the TTL over: takes
 * the work, or finds its lock held. */
static symlease_status take_over(struct world *world, int group, symlease_lease *lease,
                                 symlease_group *taken) {
  static const uint64_t members[] = {44, 22};
  char id[SYMLEASE_ID_SIZE];
  symlease_options options = fault_options("other");
  symlease_campaign *other;
  symlease_status status;
  options.lock_timeout = -1; /* one try: a stopped holder is never robbed (L2) */
  other = open_with(world->root, &options);
  if (group) {
    status = symlease_group_claim(other, members, 2, NULL, taken, NULL);
  } else {
    CHECK(symlease_work_id("work", 4, id) == SYMLEASE_OK);
    status = symlease_claim(other, id, NULL, lease, NULL);
    if (status == SYMLEASE_OK) {
      CHECK(symlease_begin_commit(other, lease, "{\"other\":1}") == SYMLEASE_OK);
      CHECK(symlease_complete(other, lease) == SYMLEASE_OK);
    }
  }
  symlease_close(other);
  return status;
}

static void stopped(const struct operation *operation, long at, const char *root, long seen[4]) {
  struct world world;
  symlease_lease lease;
  symlease_group taken;
  symlease_status status, answer;
  int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int group = strstr(operation->name, "group") != NULL, state;
  char *before, *middle, *after;
  pid_t pid;
  CHECK(shared != MAP_FAILED);
  memset(&lease, 0, sizeof lease);
  memset(&taken, 0, sizeof taken);
  begin_world(&world, root, worlds++, operation);
  before = records(world.root);
  pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    arm(world.root, SHIM_ANY, at, stop);
    *shared = operation->run(&world);
    _exit(0);
  }
  CHECK(waitpid(pid, &state, WUNTRACED) == pid);
  if (!WIFSTOPPED(state)) {
    CHECK(state == 0 && *shared == SYMLEASE_OK);
    seen[3]++;
  } else {
    middle = records(world.root);
    *fault_time += 1000;
    status = take_over(&world, group, &lease, &taken);
    after = records(world.root);
    CHECK(kill(pid, SIGCONT) == 0 && waitpid(pid, &state, 0) == pid && state == 0);
    answer = *shared;
    if (status == SYMLEASE_OK) {
      char *last = records(world.root);
      /* Its own change was there before the other came, and is answered so; or
       * it comes too late. Either way nothing of the other's is touched. */
      int was_there = strcmp(before, middle) != 0 && no_temporaries(middle);
      CHECK(answer == SYMLEASE_E_TIMEOUT || answer == SYMLEASE_STALE ||
            (was_there && (answer == SYMLEASE_OK || answer == SYMLEASE_E_INDETERMINATE)));
      if (no_temporaries(after)) CHECK(strcmp(after, last) == 0);
      if (group) {
        CHECK(symlease_group_verify(world.b, &taken) == SYMLEASE_OK);
      } else {
        CHECK(symlease_verify(world.b, &lease) == SYMLEASE_ALREADY);
        CHECK(lease.fence > world.lease.fence);
      }
      seen[answer == SYMLEASE_OK]++;
      free(last);
    } else {
      /* it holds the lock, or has begun what cannot be taken */
      CHECK(status == SYMLEASE_E_TIMEOUT || status == SYMLEASE_COMMITTING || status == SYMLEASE_DONE ||
            status == SYMLEASE_HELD);
      CHECK(answer == SYMLEASE_OK);
      seen[2]++;
    }
    free(middle);
    free(after);
  }
  munmap(shared, 4096);
  free(before);
  end_world(&world);
}

static void f29_stopped_at_every_system_call(const char *root) {
  static const char *const calls[] = {"heartbeat",       "abandon",       "begin commit",
                                      "group heartbeat", "group release", "commit of nothing"};
  long seen[4] = {0};
  size_t i;
  for (i = 0; i < sizeof calls / sizeof *calls; i++) {
    long at, end = seen[3];
    for (at = 1; seen[3] == end; at++) {
      stopped(named(calls[i]), at, root, seen);
      CHECK(at < 500);
    }
  }
  printf("  taken over: %ld came too late, %ld had been done before; %ld not taken over\n", seen[0],
         seen[1], seen[2]);
  CHECK(seen[0] > 10 && seen[2] > 10);
}

/* C7: killed at each call of a commit: the next replay publishes the result,
 * its bits are in the authority, the work is done, once. */
static void f40_killed_at_each_call_of_a_commit(const char *root) {
  static const symlease_edge bits[] = {{1, 1}, {2, 2}, {3, 4}, {4, 8}, {5, 16}};
  long at, lost = 0;
  for (at = 1;; at++) {
    struct world world;
    path_text published;
    uint64_t unknown = 9, replayed = 0;
    int died;
    symlease_status status;
    begin_world(&world, root, worlds++, named("commit"));
    below(published, world.corpus, "result");
    died = killed_at(&world, named("commit"), SHIM_ANY, at);
    *fault_time += 1000;
    CHECK(symlease_replay_commits(world.b, world.corpus, 0, &replayed) == SYMLEASE_OK);
    status = symlease_verify(world.b, &world.lease);
    if (status == SYMLEASE_OK) { /* it had not begun: whoever takes it tries it again */
      CHECK(died && replayed == 0 && access(world.staged, F_OK) == 0);
      lost++;
    } else {
      size_t size;
      char *bytes = read_file(published, &size);
      CHECK(status == SYMLEASE_ALREADY);
      CHECK(bytes && size == 10 && memcmp(bytes, "the result", 10) == 0);
      free(bytes);
      CHECK(symlease_coverage_known(world.b, bits, 5, &unknown) == SYMLEASE_OK && unknown == 0);
      CHECK(access(world.staged, F_OK) != 0);
    }
    CHECK(temporaries(world.root) == 0);
    end_world(&world);
    if (!died) break;
  }
  printf("  %ld kills, %ld before the begin\n", at - 1, lost);
  CHECK(at > 60 && lost > 5 && lost < at - 20);
}

int main(int count, char **arguments) {
  static const struct fault faults[] = {
      FAULT(f22_a_thousand_kills_before_the_rename),
      FAULT(f22_no_temporary_of_any_file_stays),
      FAULT(f22_a_sweep_needs_the_lock),
      FAULT(f29_stopped_at_every_system_call),
      FAULT(f40_killed_at_each_call_of_a_commit),
  };
  return run_faults(count, arguments, faults, sizeof faults / sizeof *faults);
}
