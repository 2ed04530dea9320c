/* The other process: what it must be able to do after the first one died, or
 * while it is stopped. */
#include "plan.h"

#define ONE_TRY (-1.0)

static size_t count_of(const uint64_t *targets) {
  size_t n = 0;
  while (n < 4 && targets[n]) n++;
  return n;
}

static void sweep(symlease_campaign *campaign) {
  uint64_t replayed = 0;
  symlease_status status = symlease_replay_commits(campaign, "root/corpus", 0, &replayed);
  say("replayed %d\n", (int)replayed);
  if (status != SYMLEASE_OK) say("sweep %s %s\n", symlease_status_name(status), symlease_last_error());
}

static int nothing(void *user, const symlease_view *view) {
  (void)user;
  return view->manifest == NULL;
}

/* A foreign manifest: its own coordinator's replayers know what it means. */
static void replay_foreign(symlease_campaign *campaign, const char *id) {
  symlease_lease lease;
  char *json = NULL, *token, *end;
  memset(&lease, 0, sizeof lease);
  if (symlease_read_record(campaign, SYMLEASE_TABLE_WORK, id, &json) != SYMLEASE_OK) return;
  token = strstr(json, "\"token\":\"");
  CHECK(token != NULL);
  token += strlen("\"token\":\"");
  end = strchr(token, '"');
  CHECK(end != NULL && (size_t)(end - token) < sizeof lease.token);
  memcpy(lease.token, token, (size_t)(end - token));
  if (strstr(json, "\"commit\":{\"m\":1}") != NULL)
    say("foreign %s\n",
        symlease_status_name(symlease_replay(campaign, id, lease.token, nothing, NULL)));
  symlease_string_free(json);
}

static void claim(symlease_campaign *campaign, const plan *plan, const char *name) {
  symlease_lease lease;
  symlease_status status;
  name_lease(name, &lease);
  status = symlease_claim(campaign, lease.id, NULL, &lease, NULL);
  if (status == SYMLEASE_COMMITTING) {
    replay_foreign(campaign, lease.id);
    status = symlease_claim(campaign, lease.id, NULL, &lease, NULL);
  }
  say("claim %s %s %llu\n", name, symlease_status_name(status), (unsigned long long)lease.fence);
  if (status != SYMLEASE_OK) return;
  if (plan->commits && strcmp(name, "one") == 0) {
    symlease_result results[4];
    size_t i, n = fill_results(results);
    status = symlease_commit(campaign, &lease, "root/corpus", results, n);
    say("committed %s\n", symlease_status_name(status));
    for (i = 0; i < n; i++) say("outcome %d %d\n", (int)i, results[i].outcome);
  } else {
    status = symlease_complete(campaign, &lease);
    say("completed %s\n", symlease_status_name(status));
  }
}

static void claim_group(symlease_campaign *campaign, const plan *plan, int release) {
  symlease_group group;
  symlease_status status;
  memset(&group, 0, sizeof group);
  status = symlease_group_claim(campaign, plan->targets, count_of(plan->targets), NULL, &group, NULL);
  say("group %s %llu\n", symlease_status_name(status), (unsigned long long)group.fence);
  if (status == SYMLEASE_OK && release)
    CHECK(symlease_group_release(campaign, &group) == SYMLEASE_OK);
}

static void merge(symlease_campaign *campaign) {
  uint64_t novel[CANDIDATES] = {0};
  symlease_status status =
      symlease_coverage_merge_sparse_many(campaign, candidates, CANDIDATES, novel, NULL, NULL);
  say("merge %s %d\n", symlease_status_name(status), (int)(novel[0] + novel[1]));
}

/* Everything must work at the first try: the dead hold no lock (L1). What a TTL
 * still keeps is asked for again with a clock behind it. */
void recover(const plan *plan, double shift) {
  symlease_campaign *campaign = open_at(shift, ONE_TRY, SYMLEASE_SESSION_NONE);
  int i;
  sweep(campaign);
  for (i = 0; i < 4 && plan->work[i]; i++) claim(campaign, plan, plan->work[i]);
  if (count_of(plan->targets)) claim_group(campaign, plan, 1);
  if (plan->merges) merge(campaign);
  symlease_close(campaign);
}

/* F29: the TTL of the stopped one is over. It may still hold a short lock:
 * TIMEOUT, and it is not robbed (L2). */
void take_over(const plan *plan) {
  symlease_campaign *campaign = open_at(LATER, ONE_TRY, SYMLEASE_SESSION_NONE);
  int i;
  for (i = 0; i < 4 && plan->work[i]; i++) {
    symlease_lease lease;
    symlease_status status;
    name_lease(plan->work[i], &lease);
    status = symlease_claim(campaign, lease.id, NULL, &lease, NULL);
    if (status == SYMLEASE_OK) {
      CHECK(symlease_begin_commit(campaign, &lease, "{\"taken\":1}") == SYMLEASE_OK);
      CHECK(symlease_complete(campaign, &lease) == SYMLEASE_OK);
    } else if (status == SYMLEASE_COMMITTING) {
      replay_foreign(campaign, lease.id);
      if (plan->commits) sweep(campaign);
    }
    say("claim %s %s %llu\n", plan->work[i], symlease_status_name(status),
        (unsigned long long)lease.fence);
  }
  if (count_of(plan->targets)) claim_group(campaign, plan, 0);
  if (plan->merges) merge(campaign);
  symlease_close(campaign);
}
