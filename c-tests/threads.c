/* L7, C side: 8 threads on one handle claim, renew and commit; every id is
 * completed exactly once and no call fails. Argument: an empty directory. */
#include <pthread.h>

#include "check.h"

#define THREADS 8
#define MOST 200

static symlease_campaign *shared;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static int completed[MOST], ids;

static void *worker(void *first) {
  int start = *(int *)first, step;
  for (step = 0; step < ids; step++) {
    int number = (start * 7 + step) % ids;
    char id[SYMLEASE_ID_SIZE];
    symlease_lease lease;
    symlease_holder holder;
    symlease_status status;
    numbered_id(number, id);
    memset(&lease, 0, sizeof lease);
    status = symlease_claim(shared, id, "{\"n\":1}", &lease, &holder);
    if (status > 0) {
      CHECK(status <= SYMLEASE_DONE);
      CHECK(strcmp(holder.owner, "threads") == 0);
      continue;
    }
    CHECK(status == SYMLEASE_OK);
    CHECK(symlease_heartbeat(shared, &lease) == SYMLEASE_OK);
    CHECK(symlease_verify(shared, &lease) == SYMLEASE_OK);
    CHECK(symlease_begin_commit(shared, &lease, "{}") == SYMLEASE_OK);
    CHECK(symlease_complete(shared, &lease) == SYMLEASE_OK);
    CHECK(symlease_complete(shared, &lease) == SYMLEASE_ALREADY);
    pthread_mutex_lock(&guard);
    completed[number]++;
    pthread_mutex_unlock(&guard);
  }
  return NULL;
}

int main(int count, char **arguments) {
  pthread_t threads[THREADS];
  int starts[THREADS], i;
  symlease_counts counts;
  CHECK(count == 2);
  ids = rounds(MOST);
  shared = open_plain(arguments[1], "threads", 300.0);
  for (i = 0; i < THREADS; i++) {
    starts[i] = i;
    CHECK(pthread_create(&threads[i], NULL, worker, &starts[i]) == 0);
  }
  for (i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  for (i = 0; i < ids; i++) CHECK(completed[i] == 1);
  CHECK(symlease_read_counts(shared, SYMLEASE_TABLE_WORK, &counts) == SYMLEASE_OK);
  CHECK(counts.done == (uint64_t)ids && counts.leased == 0 && counts.committing == 0);
  CHECK(counts.corrupt == 0);
  symlease_close(shared);
  return 0;
}
