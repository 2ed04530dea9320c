/* Work leases, with only the header. Argument: an empty directory. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static double now = 1786060800.25;

static double test_clock(void *user) {
  return *(double *)user;
}

static symlease_campaign *open_as(const char *root, const char *owner) {
  symlease_options options;
  symlease_campaign *campaign = NULL;
  symlease_options_init(&options, sizeof options);
  options.owner = owner;
  options.work_ttl = 10.0;
  options.clock = test_clock;
  options.clock_user = &now;
  CHECK(symlease_open(root, &options, &campaign) == SYMLEASE_OK);
  return campaign;
}

static void life(const char *root) {
  symlease_campaign *a = open_as(root, "a"), *b = open_as(root, "b");
  symlease_lease mine, theirs;
  symlease_holder holder;
  char id[SYMLEASE_ID_SIZE];
  CHECK(symlease_work_id_json("{\"b\":2,\"a\":1}", id) == SYMLEASE_OK);
  CHECK(strcmp(id, "43258cff783fe7036d8a43033f830adfc60ec037382473548ac742b888292777") == 0);
  memset(&mine, 0, sizeof mine);
  memset(&theirs, 0, sizeof theirs);
  CHECK(symlease_claim(a, id, "{\"b\":2,\"a\":1}", &mine, NULL) == SYMLEASE_OK);
  CHECK(mine.attempts == 1 && mine.fence > 0 && mine.ttl == 10.0);
  CHECK(symlease_claim(b, id, NULL, &theirs, &holder) == SYMLEASE_HELD);
  CHECK(strcmp(holder.owner, "a") == 0 && holder.remaining == 10.0);
  CHECK(theirs.token[0] == 0); /* outputs only on success */
  CHECK(strstr(symlease_last_error(), id) != NULL);
  now += 11.0;
  CHECK(symlease_claim(b, id, NULL, &theirs, NULL) == SYMLEASE_OK);
  CHECK(theirs.fence > mine.fence && theirs.steals == 1);
  CHECK(symlease_heartbeat(a, &mine) == SYMLEASE_STALE);
  CHECK(symlease_begin_commit(a, &mine, "{}") == SYMLEASE_STALE);
  CHECK(symlease_heartbeat(b, &theirs) == SYMLEASE_OK && theirs.updated == now);
  CHECK(symlease_begin_commit(b, &theirs, "{\"r\":1}") == SYMLEASE_OK);
  CHECK(symlease_begin_commit(b, &theirs, "{\"r\":2}") == SYMLEASE_CONFLICT);
  CHECK(symlease_verify(b, &theirs) == SYMLEASE_COMMITTING);
  CHECK(symlease_abandon(b, &theirs) == SYMLEASE_COMMITTING);
  CHECK(symlease_complete(b, &theirs) == SYMLEASE_OK);
  CHECK(symlease_complete(b, &theirs) == SYMLEASE_ALREADY);
  CHECK(symlease_claim(a, id, NULL, &mine, &holder) == SYMLEASE_DONE);
  symlease_close(a);
  symlease_close(b);
  symlease_close(NULL);
}

static void bad_arguments(const char *root) {
  symlease_campaign *a = open_as(root, "a"), *other = NULL;
  symlease_options options;
  symlease_lease lease;
  char id[SYMLEASE_ID_SIZE];
  CHECK(symlease_work_id("x", 1, id) == SYMLEASE_OK);
  memset(&lease, 0, sizeof lease);
  CHECK(symlease_claim(NULL, id, NULL, &lease, NULL) == SYMLEASE_E_INVALID);
  CHECK(symlease_claim(a, NULL, NULL, &lease, NULL) == SYMLEASE_E_INVALID);
  CHECK(symlease_claim(a, "short", NULL, &lease, NULL) == SYMLEASE_E_INVALID);
  CHECK(symlease_claim(a, id, "[]", &lease, NULL) == SYMLEASE_E_INVALID);
  CHECK(strstr(symlease_last_error(), "payload") != NULL);
  CHECK(symlease_claim(a, id, "{}", NULL, NULL) == SYMLEASE_E_INVALID);
  CHECK(symlease_heartbeat(a, &lease) == SYMLEASE_E_INVALID);
  CHECK(symlease_open(NULL, NULL, &other) == SYMLEASE_E_INVALID);
  CHECK(symlease_open(root, NULL, NULL) == SYMLEASE_E_INVALID);
  CHECK(symlease_open("etcd://host:1/x", NULL, &other) == SYMLEASE_E_UNSUPPORTED);
  symlease_options_init(&options, sizeof options);
  options.engine = SYMLEASE_ENGINE_LOG;
  CHECK(symlease_open(root, &options, &other) == SYMLEASE_E_UNSUPPORTED);
  symlease_options_init(&options, sizeof options);
  options.work_ttl = -1.0;
  CHECK(symlease_open(root, &options, &other) == SYMLEASE_E_INVALID);
  CHECK(other == NULL);
  symlease_close(a);
}

/* L7, F2: a forked child uses and closes the handle; the parent's lease stands. */
static void f2_forked_child_closes_the_handle(const char *root) {
  symlease_campaign *a = open_as(root, "a");
  symlease_lease lease;
  char id[SYMLEASE_ID_SIZE];
  int round, state;
  CHECK(symlease_work_id("fork", 4, id) == SYMLEASE_OK);
  memset(&lease, 0, sizeof lease);
  CHECK(symlease_claim(a, id, NULL, &lease, NULL) == SYMLEASE_OK);
  for (round = 0; round < 20; round++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      symlease_status status = symlease_heartbeat(a, &lease);
      symlease_close(a);
      _exit(status == SYMLEASE_OK ? 0 : 1);
    }
    CHECK(waitpid(child, &state, 0) == child && state == 0);
    CHECK(symlease_heartbeat(a, &lease) == SYMLEASE_OK);
  }
  symlease_close(a);
}

static void groups(const char *root) {
  symlease_campaign *a = open_as(root, "a"), *b = open_as(root, "b");
  const uint64_t some[] = {7, 5, 7, 0}, others[] = {9, 5}, zero[] = {0};
  uint64_t many[SYMLEASE_GROUP_MAX + 1];
  symlease_group mine, theirs;
  symlease_holder holder;
  size_t i;
  for (i = 0; i < SYMLEASE_GROUP_MAX + 1; i++) many[i] = i + 1;
  memset(&mine, 0, sizeof mine);
  memset(&theirs, 0, sizeof theirs);
  CHECK(symlease_group_claim(a, NULL, 0, NULL, &mine, NULL) == SYMLEASE_E_INVALID); /* F32 */
  CHECK(symlease_group_claim(a, NULL, 1, NULL, &mine, NULL) == SYMLEASE_E_INVALID);
  CHECK(symlease_group_claim(a, zero, 1, NULL, &mine, NULL) == SYMLEASE_E_INVALID);
  CHECK(symlease_group_claim(a, many, SYMLEASE_GROUP_MAX + 1, NULL, &mine, NULL) ==
        SYMLEASE_E_LIMIT);
  CHECK(symlease_group_claim(a, some, 4, NULL, &mine, NULL) == SYMLEASE_OK);
  CHECK(mine.count == 2 && mine.targets[0] == 7 && mine.targets[1] == 5);
  CHECK(symlease_group_claim(b, others, 2, NULL, &theirs, &holder) == SYMLEASE_HELD);
  CHECK(holder.target == 5 && strcmp(holder.owner, "a") == 0 && theirs.count == 0);
  now += 1.0;
  CHECK(symlease_group_heartbeat(a, &mine) == SYMLEASE_OK && mine.updated == now);
  CHECK(symlease_group_verify(a, &mine) == SYMLEASE_OK);
  CHECK(symlease_group_release(a, &mine) == SYMLEASE_OK);
  CHECK(symlease_group_heartbeat(a, &mine) == SYMLEASE_STALE);
  CHECK(symlease_group_claim(b, others, 2, NULL, &theirs, NULL) == SYMLEASE_OK);
  mine.count = SYMLEASE_GROUP_MAX + 1;
  CHECK(symlease_group_release(a, &mine) == SYMLEASE_E_INVALID);
  symlease_close(a);
  symlease_close(b);
}

/* H3: one bad entry never stops the others, and the counts add up. */
static void batches(const char *root) {
  symlease_campaign *a = open_as(root, "a");
  symlease_lease leases[70];
  symlease_group group[2];
  symlease_status results[70], group_results[2];
  symlease_heartbeat_stats stats;
  const uint64_t target = 1000;
  char id[SYMLEASE_ID_SIZE];
  int i;
  memset(leases, 0, sizeof leases);
  memset(group, 0, sizeof group);
  for (i = 0; i < 70; i++) {
    CHECK(symlease_work_id(&i, sizeof i, id) == SYMLEASE_OK);
    CHECK(symlease_claim(a, id, NULL, &leases[i], NULL) == SYMLEASE_OK);
  }
  CHECK(symlease_group_claim(a, &target, 1, NULL, &group[0], NULL) == SYMLEASE_OK);
  leases[3].token[0] ^= 1;   /* stale */
  leases[5].id[0] = 'X';     /* no id */
  leases[6].reserved[2] = 1; /* from a newer program */
  now += 1.0;
  CHECK(symlease_heartbeat_all(a, leases, 70, group, 2, results, group_results, &stats) ==
        SYMLEASE_OK);
  for (i = 0; i < 70; i++) {
    symlease_status wanted = i == 3               ? SYMLEASE_STALE
                             : i == 5 || i == 6 ? SYMLEASE_E_INVALID
                                                  : SYMLEASE_OK;
    CHECK(results[i] == wanted);
    CHECK(wanted != SYMLEASE_OK || leases[i].updated == now);
  }
  CHECK(group_results[0] == SYMLEASE_OK && group_results[1] == SYMLEASE_E_INVALID);
  CHECK(stats.work_ok == 67 && stats.work_failed == 3);
  CHECK(stats.target_ok == 1 && stats.target_failed == 1);
  CHECK(symlease_heartbeat_many(a, NULL, 0, NULL) == SYMLEASE_OK);
  CHECK(symlease_heartbeat_many(a, NULL, 1, results) == SYMLEASE_E_INVALID);
  CHECK(symlease_heartbeat_all(a, NULL, 0, NULL, 0, NULL, NULL, NULL) == SYMLEASE_OK);
  symlease_close(a);
}

struct seen {
  int shown, stop_after;
  char last[SYMLEASE_ID_SIZE];
};

static int look(void *user, const symlease_view *view) {
  struct seen *seen = user;
  CHECK(view->struct_size == sizeof *view);
  CHECK(strcmp(seen->last, view->id) < 0); /* in id order, each once */
  strcpy(seen->last, view->id);
  CHECK((view->json == NULL) == (view->status == SYMLEASE_SCAN_CORRUPT));
  return ++seen->shown == seen->stop_after;
}

static int count(void *user, const symlease_view *view) {
  CHECK(view->status == SYMLEASE_SCAN_LEASED && view->payload != NULL);
  ++*(int *)user;
  return 0;
}

static void looking(const char *root) {
  symlease_campaign *a = open_as(root, "a");
  symlease_counts counts;
  symlease_counters counters;
  struct seen seen = {0, 0, ""};
  char id[SYMLEASE_ID_SIZE], *json = NULL;
  int expired = 0, all = 0;
  now += 5.0;
  CHECK(symlease_read_counts(a, SYMLEASE_TABLE_WORK, &counts) == SYMLEASE_OK);
  CHECK(counts.done == 1 && counts.leased == 71 && counts.corrupt == 0);
  CHECK(symlease_scan(a, SYMLEASE_TABLE_WORK, SYMLEASE_SCAN_ALL, NULL, 0, look, &seen) ==
        SYMLEASE_OK);
  CHECK(seen.shown == 72);
  memset(&seen, 0, sizeof seen);
  seen.stop_after = 7;
  CHECK(symlease_scan(a, SYMLEASE_TABLE_WORK, SYMLEASE_SCAN_LEASED, NULL, 0, look, &seen) ==
        SYMLEASE_OK);
  CHECK(seen.shown == 7);
  seen.stop_after = 0; /* go on behind the last one */
  CHECK(symlease_scan(a, SYMLEASE_TABLE_WORK, SYMLEASE_SCAN_LEASED, seen.last, 0, look, &seen) ==
        SYMLEASE_OK);
  CHECK(seen.shown == 71);
  CHECK(symlease_scan(a, SYMLEASE_TABLE_WORK, 0, NULL, 0, look, &seen) == SYMLEASE_E_INVALID);
  CHECK(symlease_scan(a, SYMLEASE_TABLE_WORK, 16, NULL, 0, look, &seen) == SYMLEASE_E_INVALID);
  CHECK(symlease_scan(a, SYMLEASE_TABLE_WORK, 1, NULL, 0, NULL, NULL) == SYMLEASE_E_INVALID);
  CHECK(symlease_list_expired(a, SYMLEASE_TTL_RECORD, 0, count, &expired) == SYMLEASE_OK);
  CHECK((uint64_t)expired == counts.expired);
  CHECK(symlease_list_expired(a, 0.0, 0, count, &all) == SYMLEASE_OK && all == 71);
  CHECK(symlease_list_expired(a, -2.0, 0, count, &all) == SYMLEASE_E_INVALID);
  CHECK(symlease_list_commits(a, 0, count, &all) == SYMLEASE_OK && all == 71);
  CHECK(symlease_work_id("absent", 6, id) == SYMLEASE_OK);
  CHECK(symlease_read_record(a, SYMLEASE_TABLE_WORK, id, &json) == SYMLEASE_ABSENT);
  CHECK(json == NULL);
  CHECK(symlease_read_record(a, SYMLEASE_TABLE_WORK, seen.last, &json) == SYMLEASE_OK);
  CHECK(strstr(json, seen.last) != NULL);
  symlease_string_free(json);
  CHECK(symlease_read_counters(a, &counters) == SYMLEASE_OK && counters.locks == 0);
  symlease_close(a);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  life(arguments[1]);
  bad_arguments(arguments[1]);
  f2_forked_child_closes_the_handle(arguments[1]);
  groups(arguments[1]);
  batches(arguments[1]);
  looking(arguments[1]);
  return 0;
}
