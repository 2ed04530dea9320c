/* F1, F22: processes killed while they hold a lease and in the middle of calls;
 * the others go on. Argument: an empty directory. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static void nap(long microseconds) {
  struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
  nanosleep(&time, NULL);
}

static void end(pid_t pid) {
  int state;
  CHECK(kill(pid, SIGKILL) == 0);
  CHECK(waitpid(pid, &state, 0) == pid && WIFSIGNALED(state));
}

/* The lease of a killed process is free when its TTL is over, not before. */
static void by_ttl(const char *root) {
  symlease_campaign *a = open_plain(root, "a", 2.0);
  symlease_lease mine;
  symlease_holder holder;
  symlease_status status;
  char id[SYMLEASE_ID_SIZE], byte;
  int ends[2], tries = 0;
  pid_t pid;
  numbered_id(-1, id);
  memset(&mine, 0, sizeof mine);
  CHECK(pipe(ends) == 0);
  pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    symlease_campaign *b = open_plain(root, "b", 2.0);
    pid_t sleeper;
    CHECK(symlease_claim(b, id, NULL, &mine, NULL) == SYMLEASE_OK);
    sleeper = fork(); /* F1: a child that inherited everything sleeps on */
    if (sleeper == 0) {
      close(ends[0]);
      close(ends[1]);
      nap(10000000);
      _exit(0);
    }
    CHECK(write(ends[1], "x", 1) == 1);
    for (;;) pause();
  }
  CHECK(read(ends[0], &byte, 1) == 1);
  close(ends[0]);
  close(ends[1]);
  end(pid);
  status = symlease_claim(a, id, NULL, &mine, &holder);
  CHECK(status == SYMLEASE_HELD || status == SYMLEASE_OK); /* OK: a slow machine */
  if (status == SYMLEASE_HELD) CHECK(strcmp(holder.owner, "b") == 0 && holder.remaining <= 2.0);
  while (status == SYMLEASE_HELD) {
    CHECK(++tries < 1000);
    nap(10000);
    status = symlease_claim(a, id, NULL, &mine, NULL);
  }
  CHECK(status == SYMLEASE_OK && mine.steals == 1 && mine.attempts == 2);
  CHECK(symlease_complete(a, &mine) == SYMLEASE_OK || symlease_abandon(a, &mine) == SYMLEASE_OK);
  symlease_close(a);
}

#define IDS 8

static void busy(const char *root) {
  symlease_campaign *b = open_plain(root, "busy", 0.05);
  const uint64_t targets[] = {1, 2, 3, 4, 5, 6, 7, 8};
  symlease_lease lease;
  symlease_group group;
  char id[SYMLEASE_ID_SIZE];
  int i;
  for (i = 0;; i++) {
    numbered_id(i % IDS, id);
    memset(&lease, 0, sizeof lease);
    memset(&group, 0, sizeof group);
    if (symlease_claim(b, id, "{\"x\":[1,2,3]}", &lease, NULL) == SYMLEASE_OK) {
      symlease_heartbeat(b, &lease);
      symlease_abandon(b, &lease);
    }
    if (symlease_group_claim(b, targets, 8, NULL, &group, NULL) == SYMLEASE_OK) {
      symlease_group_heartbeat(b, &group);
      symlease_group_release(b, &group);
    }
  }
}

static void in_calls(const char *root) {
  symlease_campaign *a = open_plain(root, "a", 0.05);
  const uint64_t targets[] = {8, 7, 6, 5, 4, 3, 2, 1};
  uint64_t fences[IDS] = {0};
  int round, i, all = rounds(100);
  for (round = 0; round < all; round++) {
    symlease_counts counts;
    symlease_group group;
    symlease_status status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) busy(root);
    nap(500 + round * 977 % 20000);
    end(pid);
    for (i = 0; i < IDS; i++) {
      symlease_lease lease;
      char id[SYMLEASE_ID_SIZE];
      int tries = 0;
      numbered_id(i, id);
      memset(&lease, 0, sizeof lease);
      while ((status = symlease_claim(a, id, NULL, &lease, NULL)) == SYMLEASE_HELD) {
        CHECK(++tries < 5000);
        nap(1000);
      }
      CHECK(status == SYMLEASE_OK && lease.fence > fences[i]);
      fences[i] = lease.fence;
      CHECK(symlease_abandon(a, &lease) == SYMLEASE_OK);
    }
    memset(&group, 0, sizeof group);
    for (i = 0; (status = symlease_group_claim(a, targets, 8, NULL, &group, NULL)) ==
                SYMLEASE_HELD; i++) {
      CHECK(i < 5000);
      nap(1000);
    }
    CHECK(status == SYMLEASE_OK && group.count == 8);
    CHECK(symlease_group_release(a, &group) == SYMLEASE_OK);
    CHECK(symlease_read_counts(a, SYMLEASE_TABLE_WORK, &counts) == SYMLEASE_OK);
    CHECK(counts.corrupt == 0);
    CHECK(symlease_read_counts(a, SYMLEASE_TABLE_TARGET, &counts) == SYMLEASE_OK);
    CHECK(counts.corrupt == 0 && counts.leased == 0);
  }
  symlease_close(a);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  by_ttl(arguments[1]);
  in_calls(arguments[1]);
  return 0;
}
