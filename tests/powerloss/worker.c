/* A worker: work leases, and which operation is next. */
#include "worker.h"

void checked(symlease_status status, const char *what) {
  if (status < 0) report_fatal(what);
}

static void begin_lease(const char *call, const symlease_lease *lease) {
  line_begin();
  line_add("{\"begin\":\"%s\",\"id\":\"%s\",\"fence\":%llu}", call, lease->id,
           (unsigned long long)lease->fence);
  line_end();
}

static void end_lease(const char *call, symlease_status status, uint64_t version) {
  line_begin();
  line_add("{\"end\":\"%s\",\"status\":%d,\"version\":%llu}", call, (int)status,
           (unsigned long long)version);
  line_end();
  checked(status, call);
}

/* A slot in this stage, from a random one on; -1: none. */
static int pick(struct worker *worker, const char *stages) {
  int from = (int)below(&worker->dice, LEASES);
  for (int i = 0; i < LEASES; i++) {
    int slot = (from + i) % LEASES;
    if (strchr(stages, worker->stage[slot] ? worker->stage[slot] : '0')) return slot;
  }
  return -1;
}

static const char *status_at(char stage) { return stage == 'c' ? "committing" : "leased"; }

static void do_claim(struct worker *worker) {
  int slot = pick(worker, "0");
  char name[64], payload[96], id[SYMLEASE_ID_SIZE];
  symlease_claim_options options = {0};
  symlease_lease lease;
  symlease_status status;
  uint64_t number, version = 0;
  if (slot < 0) return;
  /* A window that moves on from boot to boot: new work, and work left behind. */
  number = (uint64_t)worker->boot->number * 40 + below(&worker->dice, 160);
  snprintf(name, sizeof name, "work-%llu", (unsigned long long)number);
  snprintf(payload, sizeof payload, "{\"work\":\"%s\"}", name);
  checked(symlease_work_id(name, strlen(name), id), "work_id");
  options.struct_size = sizeof options;
  if (below(&worker->dice, 6) == 0) options.flags = SYMLEASE_CLAIM_TAKEOVER;
  line_begin();
  line_add("{\"begin\":\"claim\",\"id\":\"%s\",\"name\":\"%s\",\"owner\":\"%s\"}", id, name,
           worker->owner);
  line_end();
  memset(&lease, 0, sizeof lease);
  status = symlease_claim_with(worker->late, id, payload, &options, &lease, NULL);
  if (status == SYMLEASE_OK) version = version_of(worker->plain, id, lease.token, "leased");
  line_begin();
  line_add("{\"end\":\"claim\",\"status\":%d,\"fence\":%llu,\"token\":\"%s\",\"version\":%llu}",
           (int)status, (unsigned long long)lease.fence, lease.token, (unsigned long long)version);
  line_end();
  checked(status, "claim");
  if (status != SYMLEASE_OK) return;
  worker->lease[slot] = lease;
  worker->stage[slot] = 'l';
}

static void do_heartbeat(struct worker *worker) {
  int slot = pick(worker, "lc");
  symlease_lease *lease;
  symlease_status status;
  uint64_t version = 0;
  if (slot < 0) return;
  lease = &worker->lease[slot];
  begin_lease("heartbeat", lease);
  status = symlease_heartbeat(worker->late, lease);
  if (status == SYMLEASE_OK)
    version = version_of(worker->plain, lease->id, lease->token, status_at(worker->stage[slot]));
  end_lease("heartbeat", status, version);
  if (status != SYMLEASE_OK) worker->stage[slot] = 0;
}

/* All leases, and in every second call all groups too. */
static void do_heartbeat_many(struct worker *worker) {
  symlease_lease leases[LEASES];
  symlease_group groups[GROUPS];
  symlease_status results[LEASES], group_results[GROUPS];
  symlease_heartbeat_stats stats;
  int slots[LEASES], group_slots[GROUPS];
  size_t n = 0, m = 0;
  int all = below(&worker->dice, 2) == 0;
  for (int slot = 0; slot < LEASES; slot++)
    if (worker->stage[slot]) slots[n] = slot, leases[n++] = worker->lease[slot];
  for (int slot = 0; all && slot < GROUPS; slot++)
    if (worker->held[slot]) group_slots[m] = slot, groups[m++] = worker->group[slot];
  if (n + m == 0) return;
  line_begin();
  line_add("{\"begin\":\"heartbeat_many\",\"leases\":[");
  for (size_t i = 0; i < n; i++)
    line_add("%s[\"%s\",%llu]", i ? "," : "", leases[i].id, (unsigned long long)leases[i].fence);
  line_add("],\"groups\":[");
  for (size_t i = 0; i < m; i++)
    line_add("%s%llu", i ? "," : "", (unsigned long long)groups[i].fence);
  line_add("]}");
  line_end();
  /* By the real clock, which alone dates groups. */
  checked(all ? symlease_heartbeat_all(worker->plain, leases, n, groups, m, results, group_results,
                                       &stats)
              : symlease_heartbeat_many(worker->late, leases, n, results),
          "heartbeat_many");
  line_begin();
  line_add("{\"end\":\"heartbeat_many\",\"status\":0,\"leases\":[");
  for (size_t i = 0; i < n; i++) {
    const char *state = status_at(worker->stage[slots[i]]);
    uint64_t version =
        results[i] ? 0 : version_of(worker->plain, leases[i].id, leases[i].token, state);
    line_add("%s[%d,%llu]", i ? "," : "", (int)results[i], (unsigned long long)version);
  }
  line_add("],\"groups\":[");
  for (size_t i = 0; i < m; i++)
    line_add("%s[%d,%.17g]", i ? "," : "", (int)group_results[i], groups[i].updated);
  line_add("]}");
  line_end();
  for (size_t i = 0; i < n; i++) {
    checked(results[i], "heartbeat_many");
    if (results[i] != SYMLEASE_OK) worker->stage[slots[i]] = 0;
  }
  for (size_t i = 0; i < m; i++) {
    checked(group_results[i], "heartbeat_all");
    if (group_results[i] != SYMLEASE_OK) worker->held[group_slots[i]] = 0;
  }
}

static void do_abandon(struct worker *worker) {
  int slot = pick(worker, "l");
  symlease_status status;
  if (slot < 0) return;
  begin_lease("abandon", &worker->lease[slot]);
  status = symlease_abandon(worker->late, &worker->lease[slot]);
  end_lease("abandon", status, 0);
  worker->stage[slot] = 0;
}

static void do_begin_commit(struct worker *worker) {
  int slot = pick(worker, "l");
  char manifest[64];
  symlease_lease *lease;
  symlease_status status;
  uint64_t version = 0, own;
  if (slot < 0) return;
  lease = &worker->lease[slot];
  own = below(&worker->dice, 1000000000);
  snprintf(manifest, sizeof manifest, "{\"own\":%llu}", (unsigned long long)own);
  line_begin();
  line_add("{\"begin\":\"begin_commit\",\"id\":\"%s\",\"fence\":%llu,\"own\":%llu}", lease->id,
           (unsigned long long)lease->fence, (unsigned long long)own);
  line_end();
  status = symlease_begin_commit(worker->late, lease, manifest);
  if (status == SYMLEASE_OK)
    version = version_of(worker->plain, lease->id, lease->token, "committing");
  end_lease("begin_commit", status, version);
  worker->stage[slot] = status == SYMLEASE_OK ? 'c' : 0;
}

static void do_complete(struct worker *worker) {
  int slot = pick(worker, below(&worker->dice, 4) == 0 ? "lc" : "c");
  symlease_status status;
  if (slot < 0) return;
  begin_lease("complete", &worker->lease[slot]);
  status = symlease_complete(worker->late, &worker->lease[slot]);
  end_lease("complete", status, 0);
  /* Sometimes once more: ALREADY is an answer that others may rely on, too. */
  if (status == SYMLEASE_OK && below(&worker->dice, 4) == 0) {
    begin_lease("complete", &worker->lease[slot]);
    status = symlease_complete(worker->late, &worker->lease[slot]);
    end_lease("complete", status, 0);
  }
  worker->stage[slot] = 0;
}

static void do_replay_commits(struct worker *worker) {
  uint64_t replayed = 0;
  symlease_status status;
  line_begin();
  line_add("{\"begin\":\"replay_commits\"}");
  line_end();
  status = symlease_replay_commits(worker->plain, worker->boot->corpus, 0, &replayed);
  line_begin();
  line_add("{\"end\":\"replay_commits\",\"status\":%d,\"replayed\":%llu}", (int)status,
           (unsigned long long)replayed);
  line_end();
  checked(status, "replay_commits");
}

static int copy_own(void *user, const symlease_view *view) {
  symlease_lease *lease = user;
  if (!view->manifest || !strstr(view->manifest, "\"own\":")) return 0;
  snprintf(lease->id, sizeof lease->id, "%s", view->id);
  snprintf(lease->token, sizeof lease->token, "%s", view->token);
  lease->fence = view->fence;
  return 1;
}

static int published(void *user, const symlease_view *view) {
  (void)user;
  return view->manifest == NULL;
}

/* A commit with the caller's own manifest, whoever began it. */
static void do_replay(struct worker *worker) {
  symlease_lease lease;
  symlease_status status;
  memset(&lease, 0, sizeof lease);
  checked(symlease_list_commits(worker->plain, 0, copy_own, &lease), "list_commits");
  if (!lease.id[0]) return;
  begin_lease("replay", &lease);
  status = symlease_replay(worker->plain, lease.id, lease.token, published, NULL);
  end_lease("replay", status, 0);
}

void work(const struct boot *boot, int place, unsigned generation) {
  static const struct {
    void (*run)(struct worker *);
    unsigned weight;
  } turns[] = {
      {do_claim, 30},       {do_heartbeat, 10},      {do_heartbeat_many, 10},
      {do_abandon, 6},      {do_begin_commit, 6},    {do_complete, 6},
      {do_commit, 12},      {do_group_claim, 10},    {do_group_heartbeat, 6},
      {do_group_release, 5}, {do_merge, 10},         {do_merge_many, 6},
      {do_merge_counts, 4}, {do_replay_commits, 2},  {do_replay, 3},
  };
  static struct worker worker;
  unsigned total = 0;
  worker.boot = boot;
  worker.behind = boot->lag;
  snprintf(worker.owner, sizeof worker.owner, "b%uw%dg%u", boot->number, place, generation);
  worker.dice.state = boot->seed ^ ((uint64_t)boot->number << 40) ^ ((uint64_t)place << 24) ^
                      (uint64_t)generation;
  report_open(boot, worker.owner);
  worker.late = campaign_open(boot, worker.owner, &worker.behind);
  worker.plain = campaign_open(boot, worker.owner, &worker.no_lag);
  for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) total += turns[i].weight;
  for (;;) {
    unsigned at = (unsigned)below(&worker.dice, total);
    size_t turn = 0;
    while (at >= turns[turn].weight) at -= turns[turn++].weight;
    turns[turn].run(&worker);
  }
}
