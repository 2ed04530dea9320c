/* What the first coordinator does when the power is back: removes what the
 * dead left, finishes their commits, settles groups. Told outside as all else. */
#include "guest.h"

static int told(void *user, const symlease_view *view) {
  (void)user;
  return view->manifest == NULL; /* refuse what has none */
}

struct found {
  char id[256][SYMLEASE_ID_SIZE];
  char token[256][SYMLEASE_TOKEN_SIZE];
  uint64_t fence[256];
  size_t count;
};

/* Commits whose manifest is not of symlease_commit: the caller's to publish. */
static int collect(void *user, const symlease_view *view) {
  struct found *found = user;
  if (!view->manifest || !strstr(view->manifest, "\"own\":")) return 0;
  snprintf(found->id[found->count], SYMLEASE_ID_SIZE, "%s", view->id);
  snprintf(found->token[found->count], SYMLEASE_TOKEN_SIZE, "%s", view->token);
  found->fence[found->count] = view->fence;
  return ++found->count == 256;
}

static int replay_all(symlease_campaign *campaign, const char *corpus, uint64_t *replayed) {
  symlease_status status;
  line_begin();
  line_add("{\"begin\":\"replay_commits\"}");
  line_end();
  status = symlease_replay_commits(campaign, corpus, 0, replayed);
  line_begin();
  line_add("{\"end\":\"replay_commits\",\"status\":%d,\"replayed\":%llu}", (int)status,
           (unsigned long long)*replayed);
  line_end();
  if (status != SYMLEASE_OK) report_fatal("replay_commits");
  return 0;
}

static void replay_own(symlease_campaign *campaign) {
  static struct found found;
  for (;;) {
    found.count = 0;
    if (symlease_list_commits(campaign, 0, collect, &found) != SYMLEASE_OK)
      report_fatal("list_commits");
    if (found.count == 0) return;
    for (size_t i = 0; i < found.count; i++) {
      symlease_status status;
      line_begin();
      line_add("{\"begin\":\"replay\",\"id\":\"%s\",\"fence\":%llu}", found.id[i],
               (unsigned long long)found.fence[i]);
      line_end();
      status = symlease_replay(campaign, found.id[i], found.token[i], told, NULL);
      line_begin();
      line_add("{\"end\":\"replay\",\"status\":%d}", (int)status);
      line_end();
      if (status != SYMLEASE_OK) report_fatal("replay");
    }
  }
}

/* A group call settles what a dead one left half done where it shares a
 * member; one with a token of nobody changes nothing itself. */
static void settle_groups(symlease_campaign *campaign) {
  symlease_group group;
  memset(&group, 0, sizeof group);
  for (uint64_t target = 1; target <= TARGETS; target++) group.targets[group.count++] = target;
  strcpy(group.token, "nobody");
  if (symlease_group_heartbeat(campaign, &group) != SYMLEASE_STALE) report_fatal("settle");
}

/* A merge into every shard settles what is pending there (C5). */
static void settle_coverage(symlease_campaign *campaign) {
  symlease_edge edges[SHARDS];
  uint64_t novel = 0;
  symlease_status status;
  line_begin();
  line_add("{\"begin\":\"merge\",\"edges\":[");
  for (uint32_t i = 0; i < SHARDS; i++) {
    edges[i].index = i;
    edges[i].bits = 1;
    line_add("%s[%u,1]", i ? "," : "", (unsigned)i);
  }
  line_add("]}");
  line_end();
  status = symlease_coverage_merge_sparse(campaign, edges, SHARDS, &novel);
  line_begin();
  line_add("{\"end\":\"merge\",\"status\":%d,\"novel\":%llu}", (int)status,
           (unsigned long long)novel);
  line_end();
  if (status != SYMLEASE_OK) report_fatal("merge");
}

int recover(const struct boot *boot) {
  double behind = -3600.0; /* ahead: all leases of the dead are past their TTL */
  uint64_t replayed = 0, again = 0, edges = 0, bits = 0;
  symlease_counts work, target;
  symlease_campaign *campaign;
  report_open(boot, "recover");
  campaign = campaign_open(boot, "recoverer", &behind);
  replay_all(campaign, boot->corpus, &replayed);
  replay_own(campaign);
  settle_groups(campaign);
  settle_coverage(campaign);
  replay_all(campaign, boot->corpus, &again);
  if (again != 0) report_fatal("a second replay found work");
  if (symlease_read_counts(campaign, SYMLEASE_TABLE_WORK, &work) != SYMLEASE_OK ||
      symlease_read_counts(campaign, SYMLEASE_TABLE_TARGET, &target) != SYMLEASE_OK ||
      symlease_coverage_totals(campaign, &edges, &bits) != SYMLEASE_OK)
    report_fatal("counts");
  line_begin();
  line_add("{\"counts\":{\"leased\":%llu,\"committing\":%llu,\"done\":%llu,\"corrupt\":%llu,"
           "\"targets\":%llu,\"targets_corrupt\":%llu,\"edges\":%llu,\"bits\":%llu}}",
           (unsigned long long)work.leased, (unsigned long long)work.committing,
           (unsigned long long)work.done, (unsigned long long)work.corrupt,
           (unsigned long long)target.leased, (unsigned long long)target.corrupt,
           (unsigned long long)edges, (unsigned long long)bits);
  line_end();
  symlease_close(campaign);
  return 0;
}
