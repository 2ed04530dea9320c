/* D1-D5: a dead coordinator's leases are free at once; those of one that is
 * alive, stopped or forked are not. All TTLs are an hour. Argument: an empty
 * directory. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { LEASES = 5 };

static const char *root;

static symlease_campaign *open_own(const char *owner, int32_t session) {
  symlease_options options;
  symlease_campaign *campaign = NULL;
  symlease_options_init(&options, sizeof options);
  options.owner = owner;
  options.work_ttl = 3600.0;
  options.lock_timeout = 30.0;
  options.durability = SYMLEASE_DURABLE_PROCESS;
  options.session = session;
  CHECK(symlease_open(root, &options, &campaign) == SYMLEASE_OK);
  return campaign;
}

static symlease_status claim(symlease_campaign *campaign, int number, symlease_lease *lease) {
  char id[SYMLEASE_ID_SIZE];
  numbered_id(number, id);
  memset(lease, 0, sizeof *lease);
  return symlease_claim(campaign, id, NULL, lease, NULL);
}

static void nap(long milliseconds) {
  struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  nanosleep(&time, NULL);
}

/* A session is tested at most once in 10 ms (D5). */
static symlease_status claim_later(symlease_campaign *campaign, int number) {
  symlease_lease lease;
  nap(11);
  return claim(campaign, number, &lease);
}

/* A process that claims some work and a group, says so, and waits. */
static pid_t holder(int first) {
  int ends[2];
  char byte;
  pid_t pid;
  CHECK(pipe(ends) == 0);
  pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    const uint64_t targets[] = {900 + (uint64_t)first, 901 + (uint64_t)first};
    symlease_campaign *mine = open_own("holder", SYMLEASE_SESSION_OWN);
    symlease_group group;
    symlease_lease lease;
    for (int i = 0; i < LEASES; i++) CHECK(claim(mine, first + i, &lease) == SYMLEASE_OK);
    memset(&group, 0, sizeof group);
    CHECK(symlease_group_claim(mine, targets, 2, NULL, &group, NULL) == SYMLEASE_OK);
    CHECK(write(ends[1], "x", 1) == 1);
    for (;;) pause();
  }
  CHECK(read(ends[0], &byte, 1) == 1);
  close(ends[0]);
  close(ends[1]);
  return pid;
}

static void end(pid_t pid) {
  int state;
  CHECK(kill(pid, SIGKILL) == 0);
  CHECK(waitpid(pid, &state, 0) == pid);
}

static int look(void *user, const symlease_view *view) {
  *(int32_t *)user = view->holder * 100 + view->life;
  return 0;
}

/* How the first record is seen: holder and life. */
static int32_t seen(symlease_campaign *campaign) {
  int32_t what = 0;
  nap(11);
  CHECK(symlease_scan(campaign, SYMLEASE_TABLE_TARGET, SYMLEASE_SCAN_LEASED, NULL, 1, look,
                      &what) == SYMLEASE_OK);
  return what;
}

/* D1, D3: alive and stopped holders keep their leases, killed ones do not. */
static void killed(symlease_campaign *other) {
  const uint64_t targets[] = {900, 901};
  symlease_group group;
  symlease_lease lease;
  pid_t pid = holder(0);
  CHECK(seen(other) == SYMLEASE_HOLDER_ALIVE * 100 + SYMLEASE_LIFE_LIVE);
  for (int i = 0; i < LEASES; i++) CHECK(claim_later(other, i) == SYMLEASE_HELD);
  CHECK(kill(pid, SIGSTOP) == 0);
  for (int i = 0; i < LEASES; i++) CHECK(claim_later(other, i) == SYMLEASE_HELD);
  end(pid);
  CHECK(seen(other) == SYMLEASE_HOLDER_DEAD * 100 + SYMLEASE_LIFE_DEAD);
  for (int i = 0; i < LEASES; i++) {
    CHECK(claim_later(other, i) == SYMLEASE_OK);
    CHECK(claim(other, i, &lease) == SYMLEASE_HELD);
  }
  memset(&group, 0, sizeof group);
  CHECK(symlease_group_claim(other, targets, 2, NULL, &group, NULL) == SYMLEASE_OK);
}

/* A fork of the holder lives on: it has no session (D3, F1), and closing the
 * inherited handle there ends nothing (F2). */
static void forked(symlease_campaign *other) {
  int ends[2];
  symlease_lease lease;
  char byte;
  pid_t pid, child = 0;
  CHECK(pipe(ends) == 0);
  pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    symlease_campaign *mine = open_own("forker", SYMLEASE_SESSION_OWN);
    CHECK(claim(mine, 20, &lease) == SYMLEASE_OK);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      symlease_lease own;
      CHECK(claim(mine, 21, &own) == SYMLEASE_OK); /* without a session: the TTL decides */
      symlease_close(mine);
      CHECK(write(ends[1], "c", 1) == 1);
      nap(60000);
      _exit(0);
    }
    CHECK(write(ends[1], &child, sizeof child) == sizeof child);
    for (;;) pause();
  }
  {
    char all[1 + sizeof child];
    size_t filled = 0;
    while (filled < sizeof all) {
      ssize_t got = read(ends[0], all + filled, sizeof all - filled);
      CHECK(got > 0);
      filled += (size_t)got;
    }
    /* in either order */
    memcpy(&child, all[0] == 'c' ? all + 1 : all, sizeof child);
    byte = all[0] == 'c' ? all[0] : all[sizeof child];
    CHECK(byte == 'c');
  }
  CHECK(claim_later(other, 20) == SYMLEASE_HELD);
  end(pid);
  CHECK(claim_later(other, 20) == SYMLEASE_OK); /* though the child sleeps on */
  CHECK(claim_later(other, 21) == SYMLEASE_HELD);
  CHECK(kill(child, SIGKILL) == 0);
  CHECK(claim_later(other, 21) == SYMLEASE_HELD);
}

/* Closing ends the session: what was not abandoned is free at once. A lease
 * that another handle renewed follows that one. */
static void closed(symlease_campaign *other) {
  symlease_campaign *mine = open_own("closer", SYMLEASE_SESSION_OWN);
  symlease_campaign *plain = open_own("plain", SYMLEASE_SESSION_NONE);
  symlease_lease lease, handed, removed;
  CHECK(claim(mine, 30, &lease) == SYMLEASE_OK);
  CHECK(claim(mine, 31, &handed) == SYMLEASE_OK);
  CHECK(claim(mine, 32, &removed) == SYMLEASE_OK);
  CHECK(symlease_heartbeat(other, &handed) == SYMLEASE_OK);
  CHECK(symlease_heartbeat(plain, &removed) == SYMLEASE_OK);
  CHECK(claim_later(other, 30) == SYMLEASE_HELD);
  symlease_close(mine);
  CHECK(claim_later(other, 30) == SYMLEASE_OK);
  CHECK(claim_later(plain, 31) == SYMLEASE_HELD);
  CHECK(claim_later(other, 32) == SYMLEASE_HELD);
  symlease_close(plain);
  CHECK(claim_later(other, 32) == SYMLEASE_HELD);
}

static void count_files(const char *place, int *files) {
  char command[4200];
  FILE *pipe_end;
  snprintf(command, sizeof command, "ls '%s/.work_lease_table/.sessions' | grep -vc '[.]stats$'", place);
  pipe_end = popen(command, "r");
  CHECK(pipe_end != NULL && fscanf(pipe_end, "%d", files) == 1 && pclose(pipe_end) == 0);
}

/* F7, D3: the host closes every descriptor and opens its own file in their
 * place; the next heartbeat makes a new session, and nothing of the host's is
 * written or closed. */
static void descriptors(symlease_campaign *other) {
  struct stat before, after;
  symlease_lease lease;
  struct rlimit most;
  pid_t pid;
  int state;
  pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    symlease_campaign *mine = open_own("host", SYMLEASE_SESSION_OWN);
    int files[64];
    CHECK(claim(mine, 40, &lease) == SYMLEASE_OK);
    CHECK(getrlimit(RLIMIT_NOFILE, &most) == 0);
    for (int fd = 3; fd < 1024; fd++) close(fd);
    for (int i = 0; i < 64; i++) {
      char name[4200];
      snprintf(name, sizeof name, "%s/host-%d", root, i);
      files[i] = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
      CHECK(files[i] >= 0);
    }
    CHECK(claim_later(other, 40) == SYMLEASE_OK); /* to others it is dead now (D4) ... */
    CHECK(symlease_heartbeat(mine, &lease) == SYMLEASE_STALE);
    CHECK(claim(mine, 41, &lease) == SYMLEASE_OK); /* ... and has a new session */
    CHECK(claim_later(other, 41) == SYMLEASE_HELD);
    CHECK(symlease_heartbeat(mine, &lease) == SYMLEASE_OK);
    symlease_close(mine);
    CHECK(claim_later(other, 41) == SYMLEASE_OK);
    for (int i = 0; i < 64; i++) {
      char name[4200];
      snprintf(name, sizeof name, "%s/host-%d", root, i);
      CHECK(fstat(files[i], &before) == 0 && stat(name, &after) == 0);
      CHECK(before.st_ino == after.st_ino && before.st_size == 0);
      CHECK(close(files[i]) == 0 && unlink(name) == 0);
    }
    _exit(0);
  }
  CHECK(waitpid(pid, &state, 0) == pid && WIFEXITED(state) && WEXITSTATUS(state) == 0);
}

int main(int argc, char **argv) {
  symlease_campaign *other;
  uint64_t replayed;
  int files;
  CHECK(argc == 2);
  root = argv[1];
  other = open_own("other", SYMLEASE_SESSION_OWN);
  killed(other);
  forked(other);
  closed(other);
  descriptors(other);
  /* The dead ones' files go once no record names them; ours stays. */
  CHECK(symlease_replay_commits(other, "corpus", 0, &replayed) == SYMLEASE_OK);
  count_files(root, &files);
  CHECK(files == 1);
  symlease_close(other);
  return 0;
}
