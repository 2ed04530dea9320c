/* D1: how long until another coordinator has all leases of a killed one. A
 * holder of 50 leases is killed again and again; before that it is alive,
 * stopped, and has a forked child that lives on, and nothing of it may be
 * taken. TTLs are an hour: no lease ends by time. Argument: an empty
 * directory. SYMLEASE_KILLS: how many (20). Prints median and worst. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { LEASES = 50, KILLS_MAX = 10000 };

static symlease_campaign *open_own(const char *root, const char *owner, int32_t session,
                                   double ttl) {
  symlease_options options;
  symlease_campaign *campaign = NULL;
  symlease_options_init(&options, sizeof options);
  options.owner = owner;
  options.work_ttl = ttl;
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

static double seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void nap(double time) {
  struct timespec rest = {(time_t)time, (long)((time - (double)(time_t)time) * 1e9)};
  nanosleep(&rest, NULL);
}

/* Claims all, starts a child that sleeps on, says so, waits. */
static void hold(const char *root, int32_t session, double ttl, int out) {
  symlease_campaign *mine = open_own(root, "holder", session, ttl);
  symlease_lease lease;
  pid_t child;
  for (int i = 0; i < LEASES; i++) CHECK(claim(mine, i, &lease) == SYMLEASE_OK);
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    close(out);
    nap(600.0);
    _exit(0);
  }
  CHECK(write(out, &child, sizeof child) == sizeof child);
  for (;;) pause();
}

static void none_is_free(symlease_campaign *other) {
  symlease_lease lease;
  nap(0.011); /* D5 */
  for (int i = 0; i < LEASES; i++) CHECK(claim(other, i, &lease) == SYMLEASE_HELD);
}

/* One kill: seconds until `other` has all leases. */
static double one(const char *root, symlease_campaign *other, int32_t session, double ttl) {
  static symlease_lease taken[LEASES];
  int ends[2], state, left = LEASES;
  double start;
  pid_t pid, child;
  CHECK(pipe(ends) == 0);
  pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    close(ends[0]);
    hold(root, session, ttl, ends[1]);
  }
  close(ends[1]);
  CHECK(read(ends[0], &child, sizeof child) == sizeof child);
  close(ends[0]);
  if (session == SYMLEASE_SESSION_OWN) {
    none_is_free(other);
    CHECK(kill(pid, SIGSTOP) == 0);
    none_is_free(other);
  }
  memset(taken, 0, sizeof taken);
  CHECK(kill(pid, SIGKILL) == 0);
  start = seconds();
  while (left > 0) {
    for (int i = 0; i < LEASES; i++) {
      symlease_status status;
      if (taken[i].fence != 0) continue;
      status = claim(other, i, &taken[i]);
      CHECK(status == SYMLEASE_OK || status == SYMLEASE_HELD);
      if (status == SYMLEASE_OK) left--;
    }
    if (left > 0) nap(0.0005);
    CHECK(seconds() - start < 600.0);
  }
  start = seconds() - start;
  CHECK(waitpid(pid, &state, 0) == pid && WIFSIGNALED(state));
  CHECK(kill(child, SIGKILL) == 0); /* it lived until here */
  for (int i = 0; i < LEASES; i++) {
    CHECK(taken[i].steals >= 1);
    CHECK(symlease_abandon(other, &taken[i]) == SYMLEASE_OK);
  }
  return start;
}

static int rising(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void figures(const char *what, double *times, int n) {
  qsort(times, (size_t)n, sizeof *times, rising);
  printf("%s: %d kills of a holder of %d leases: all taken over after %.2f ms (median), "
         "%.2f ms (worst)\n",
         what, n, LEASES, times[n / 2] * 1e3, times[n - 1] * 1e3);
}

int main(int argc, char **argv) {
  static double times[KILLS_MAX];
  const char *wanted = getenv("SYMLEASE_KILLS");
  int kills = rounds(wanted ? atoi(wanted) : 20);
  char place[4200];
  symlease_campaign *other;
  CHECK(argc == 2 && kills > 0 && kills <= KILLS_MAX);
  snprintf(place, sizeof place, "%s/sessions", argv[1]);
  other = open_own(place, "other", SYMLEASE_SESSION_OWN, 3600.0);
  for (int i = 0; i < kills; i++) times[i] = one(place, other, SYMLEASE_SESSION_OWN, 3600.0);
  figures("by session (TTL 3600 s)", times, kills);
  symlease_close(other);
  snprintf(place, sizeof place, "%s/ttl", argv[1]);
  other = open_own(place, "other", SYMLEASE_SESSION_NONE, 2.0);
  kills = kills < 3 ? kills : 3;
  for (int i = 0; i < kills; i++) times[i] = one(place, other, SYMLEASE_SESSION_NONE, 2.0);
  figures("by TTL (2 s)", times, kills);
  symlease_close(other);
  return 0;
}
