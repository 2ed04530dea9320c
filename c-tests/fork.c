/* F2, F4: 8 threads hammer a handle while the process forks 1,000 times; each
 * child claims, and every other one closes the handle. No child blocks, and
 * the parent's lease stands. Argument: an empty directory. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define THREADS 8

static symlease_campaign *shared;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static int stop, worked;

static void *hammer(void *first) {
  int number = 1000 + *(int *)first;
  for (;;) {
    char id[SYMLEASE_ID_SIZE];
    symlease_lease lease;
    int over;
    pthread_mutex_lock(&guard);
    over = stop;
    worked++;
    pthread_mutex_unlock(&guard);
    if (over) return NULL;
    numbered_id(number, id);
    memset(&lease, 0, sizeof lease);
    CHECK(symlease_claim(shared, id, NULL, &lease, NULL) == SYMLEASE_OK);
    CHECK(symlease_heartbeat(shared, &lease) == SYMLEASE_OK);
    CHECK(symlease_abandon(shared, &lease) == SYMLEASE_OK);
  }
}

/* In a child: only what one may do after fork of a process with threads. */
static int f4_child_of_a_process_with_threads(int number, const char *id) {
  symlease_lease lease;
  symlease_status status;
  memset(&lease, 0, sizeof lease);
  alarm(60); /* F4: a child that blocks dies of SIGALRM */
  status = symlease_claim(shared, id, "{}", &lease, NULL);
  if (status != SYMLEASE_OK) return 1;
  if (symlease_heartbeat(shared, &lease) != SYMLEASE_OK) return 2;
  if (number % 2) symlease_close(shared);
  return 0;
}

int main(int count, char **arguments) {
  pthread_t threads[THREADS];
  int starts[THREADS], i, forks = rounds(1000);
  symlease_lease mine;
  symlease_counts counts;
  char id[SYMLEASE_ID_SIZE];
  CHECK(count == 2);
  alarm(570);
  shared = open_plain(arguments[1], "fork", 3600.0);
  numbered_id(9999, id);
  memset(&mine, 0, sizeof mine);
  CHECK(symlease_claim(shared, id, NULL, &mine, NULL) == SYMLEASE_OK);
  for (i = 0; i < THREADS; i++) {
    starts[i] = i;
    CHECK(pthread_create(&threads[i], NULL, hammer, &starts[i]) == 0);
  }
  for (i = 0; i < forks; i++) {
    int state;
    pid_t pid;
    numbered_id(i, id);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) _exit(f4_child_of_a_process_with_threads(i, id));
    CHECK(waitpid(pid, &state, 0) == pid);
    if (state != 0) fprintf(stderr, "child %d ended with state %#x\n", i, (unsigned)state);
    CHECK(state == 0);
    CHECK(symlease_heartbeat(shared, &mine) == SYMLEASE_OK); /* F2 */
  }
  pthread_mutex_lock(&guard);
  stop = 1;
  CHECK(worked > THREADS);
  pthread_mutex_unlock(&guard);
  for (i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(symlease_verify(shared, &mine) == SYMLEASE_OK);
  CHECK(symlease_read_counts(shared, SYMLEASE_TABLE_WORK, &counts) == SYMLEASE_OK);
  CHECK(counts.leased == (uint64_t)(forks + THREADS + 1) && counts.corrupt == 0);
  symlease_close(shared);
  return 0;
}
