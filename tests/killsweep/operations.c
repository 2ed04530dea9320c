/* The operations: what stands before, and the one change. */
#include "plan.h"

static const symlease_edge known[] = {{4, 1}, {9, 3}};
static const symlease_edge first_list[] = {{4, 3}, {5, 1}, {6, 128}, {1003, 64}};
static const symlease_edge second_list[] = {{5, 3}, {8, 1}};
const symlease_sparse candidates[CANDIDATES] = {{first_list, 4}, {second_list, 2}};

static void answer(symlease_status status, uint64_t fence) {
  say("act %s %llu\n", symlease_status_name(status), (unsigned long long)fence);
}

/* --- what stands before --------------------------------------------------- */
static const uint64_t members[] = {11, 12, 13};

static void claim_one(symlease_campaign *campaign, const char *name, symlease_lease *lease) {
  name_lease(name, lease);
  CHECK(symlease_claim(campaign, lease->id, "{\"seed\":[1,2,3]}", lease, NULL) == SYMLEASE_OK);
}

static void neighbour(void) {
  symlease_campaign *campaign = open_at(0, 5, SYMLEASE_SESSION_NONE);
  symlease_lease lease;
  symlease_group group;
  const uint64_t target = 99;
  memset(&group, 0, sizeof group);
  claim_one(campaign, "neighbour", &lease);
  CHECK(symlease_complete(campaign, &lease) == SYMLEASE_OK);
  CHECK(symlease_group_claim(campaign, &target, 1, NULL, &group, NULL) == SYMLEASE_OK);
  CHECK(symlease_coverage_merge_sparse(campaign, known, 2, NULL) == SYMLEASE_OK);
  symlease_close(campaign);
}

static void leased(double shift) {
  symlease_campaign *campaign;
  neighbour();
  campaign = open_at(shift, 5, SYMLEASE_SESSION_NONE);
  claim_one(campaign, "one", &state.leases[0]);
  claim_one(campaign, "two", &state.leases[1]);
  claim_one(campaign, "three", &state.leases[2]);
  symlease_close(campaign);
}

static void leased_now(void) { leased(0); }
static void leased_long_ago(void) { leased(-LATER); }

static void committing(void) {
  symlease_campaign *campaign;
  leased(0);
  campaign = open_at(0, 5, SYMLEASE_SESSION_NONE);
  CHECK(symlease_begin_commit(campaign, &state.leases[0], "{\"m\":1}") == SYMLEASE_OK);
  symlease_close(campaign);
}

static void grouped(double shift, size_t n) {
  symlease_campaign *campaign;
  leased(0);
  campaign = open_at(shift, 5, SYMLEASE_SESSION_NONE);
  CHECK(symlease_group_claim(campaign, members, n, NULL, &state.group, NULL) == SYMLEASE_OK);
  symlease_close(campaign);
}

static void grouped_now(void) { grouped(0, 3); }
static void two_grouped_long_ago(void) { grouped(-LATER, 2); }

void stage_results(void) {
  static const char *const names[] = {"novel", "known", "kept", "dark"};
  size_t i;
  (void)mkdir("root/staged", 0700);
  for (i = 0; i < 4; i++) {
    char path[64];
    FILE *file;
    snprintf(path, sizeof path, "root/staged/%s", names[i]);
    file = fopen(path, "w");
    CHECK(file != NULL && fputs(names[i], file) >= 0 && fclose(file) == 0);
  }
}

/* Novel, not novel, kept all the same, and of unknown coverage. */
size_t fill_results(symlease_result results[4]) {
  memset(results, 0, 4 * sizeof results[0]);
  results[0].staged = "root/staged/novel";
  results[0].name = "novel";
  results[0].map_kind = SYMLEASE_MAP_SPARSE;
  results[0].edges = first_list;
  results[0].edge_count = 4;
  results[1].staged = "root/staged/known";
  results[1].name = "known";
  results[1].map_kind = SYMLEASE_MAP_SPARSE;
  results[1].edges = known;
  results[1].edge_count = 2;
  results[2].staged = "root/staged/kept";
  results[2].map_kind = SYMLEASE_MAP_SPARSE;
  results[2].edges = known;
  results[2].edge_count = 2;
  results[2].flags = SYMLEASE_RESULT_KEEP;
  results[3].staged = "root/staged/dark";
  results[3].map_kind = SYMLEASE_MAP_NONE;
  return 4;
}

static void staged(void) {
  leased(0);
  stage_results();
}

static int asked, die_at;
static double dying_clock(void *user) {
  (void)user;
  if (++asked == die_at) _exit(77);
  return 1.7e9;
}

/* A commit whose process died behind the fence, long ago. */
static void half_committed(void) {
  symlease_status found = SYMLEASE_OK;
  symlease_campaign *campaign;
  leased(-LATER);
  stage_results();
  for (die_at = 1; found != SYMLEASE_COMMITTING; die_at++) {
    symlease_lease copy = state.leases[0];
    pid_t child = fork();
    int how;
    CHECK(child >= 0 && die_at < 40);
    if (child == 0) {
      symlease_options options;
      symlease_result results[4];
      symlease_options_init(&options, sizeof options);
      options.clock = dying_clock;
      options.session = SYMLEASE_SESSION_NONE;
      CHECK(symlease_open("root", &options, &campaign) == SYMLEASE_OK);
      symlease_commit(campaign, &state.leases[0], "root/corpus", results, fill_results(results));
      _exit(1);
    }
    CHECK(waitpid(child, &how, 0) == child && WIFEXITED(how) && WEXITSTATUS(how) == 77);
    campaign = open_at(0, 5, SYMLEASE_SESSION_NONE);
    found = symlease_verify(campaign, &copy);
    CHECK(found == SYMLEASE_OK || found == SYMLEASE_COMMITTING);
    symlease_close(campaign);
  }
}

static void litter(void) {
  static const char *const format[] = {
      "root/.work_lease_table/%03d/%s.json.77.0123456789abcdef.tmp",
      "root/.work_lease_table/%03d/%s.json.88.1700000000.tmp"};
  char path[512];
  int i, file;
  leased(0);
  for (i = 0; i < 2; i++) {
    unsigned long shard;
    char head[9] = {0};
    memcpy(head, state.leases[i].id, 8);
    shard = strtoul(head, NULL, 16) % 4;
    snprintf(path, sizeof path, format[i], (int)shard, state.leases[i].id);
    file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    CHECK(file >= 0 && write(file, "{\"half", 6) == 6 && close(file) == 0);
  }
  file = open("root/.coverage_owner/state/0000.json.77.0123456789abcdef.tmp",
              O_WRONLY | O_CREAT | O_EXCL, 0600);
  CHECK(file >= 0 && close(file) == 0);
}

/* --- the changes ---------------------------------------------------------- */
static void claim_in(symlease_campaign *campaign, const char *name) {
  symlease_lease lease;
  symlease_status status;
  name_lease(name, &lease);
  status = symlease_claim(campaign, lease.id, "{\"x\":1}", &lease, NULL);
  answer(status, lease.fence);
}

static void merge_in(symlease_campaign *campaign) {
  uint64_t novel[CANDIDATES] = {0};
  symlease_status status =
      symlease_coverage_merge_sparse_many(campaign, candidates, CANDIDATES, novel, NULL, NULL);
  answer(status, 0);
  if (status == SYMLEASE_OK) say("novel %d\n", (int)(novel[0] + novel[1]));
}

static void group_in(symlease_campaign *campaign) {
  symlease_status status;
  memset(&state.group, 0, sizeof state.group);
  status = symlease_group_claim(campaign, members, 3, NULL, &state.group, NULL);
  answer(status, state.group.fence);
}

#define LEASE (&state.leases[0])
static void act_first(symlease_campaign *here) {
  claim_in(here, "one");
  group_in(here);
  merge_in(here);
}
static void act_claim(symlease_campaign *here) { claim_in(here, "fresh"); }
static void act_claim_one(symlease_campaign *here) { claim_in(here, "one"); }
static void act_heartbeat(symlease_campaign *here) { answer(symlease_heartbeat(here, LEASE), 0); }
static void act_abandon(symlease_campaign *here) { answer(symlease_abandon(here, LEASE), 0); }
static void act_complete(symlease_campaign *here) { answer(symlease_complete(here, LEASE), 0); }
static void act_begin(symlease_campaign *here) {
  answer(symlease_begin_commit(here, LEASE, "{\"m\":1}"), 0);
}

static void each_of(const symlease_status each[3]) {
  say("each %s %s %s\n", symlease_status_name(each[0]), symlease_status_name(each[1]),
      symlease_status_name(each[2]));
}

static void act_many(symlease_campaign *here) {
  symlease_status each[3];
  answer(symlease_heartbeat_many(here, state.leases, 3, each), 0);
  each_of(each);
}

static void act_all(symlease_campaign *here) {
  symlease_status each[3], group;
  answer(symlease_heartbeat_all(here, state.leases, 3, &state.group, 1, each, &group, NULL), 0);
  each_of(each);
  say("group %s\n", symlease_status_name(group));
}

static void act_commit(symlease_campaign *here) {
  symlease_result results[4];
  size_t n = fill_results(results);
  answer(symlease_commit(here, LEASE, "root/corpus", results, n), 0);
}

static void act_commit_empty(symlease_campaign *here) {
  answer(symlease_commit(here, LEASE, "root/corpus", NULL, 0), 0);
}

static void act_replay_commits(symlease_campaign *here) {
  uint64_t replayed = 0;
  answer(symlease_replay_commits(here, "root/corpus", 0, &replayed), 0);
  say("replayed %d\n", (int)replayed);
}

static int published(void *user, const symlease_view *view) {
  int file = open("root/published", O_WRONLY | O_CREAT, 0600);
  (void)user;
  CHECK(file >= 0 && view->manifest != NULL);
  close(file);
  return 0;
}

static void act_replay(symlease_campaign *here) {
  answer(symlease_replay(here, LEASE->id, LEASE->token, published, NULL), 0);
}

static void act_group_claim(symlease_campaign *here) { group_in(here); }
static void act_group_heartbeat(symlease_campaign *here) {
  answer(symlease_group_heartbeat(here, &state.group), 0);
}
static void act_group_release(symlease_campaign *here) {
  answer(symlease_group_release(here, &state.group), 0);
}

static void act_merge(symlease_campaign *here) { merge_in(here); }
static void act_coverage_heartbeat(symlease_campaign *here) {
  answer(symlease_coverage_heartbeat(here), 0);
}

static void act_dense(symlease_campaign *here) {
  uint8_t map[2048] = {0};
  uint64_t novel = 0;
  symlease_status status;
  size_t i, k;
  for (i = 0; i < CANDIDATES; i++)
    for (k = 0; k < candidates[i].count; k++)
      map[candidates[i].edges[k].index] |= candidates[i].edges[k].bits;
  status = symlease_coverage_merge(here, map, sizeof map, &novel);
  answer(status, 0);
  if (status == SYMLEASE_OK) say("novel %d\n", (int)novel);
}

const plan plans[] = {
    {"first", NULL, act_first, {"one"}, {11, 12, 13}, 1, 0},
    {"claim", neighbour, act_claim, {"fresh"}, {0}, 0, 0},
    {"claim-expired", leased_long_ago, act_claim_one, {"one"}, {0}, 0, 0},
    {"heartbeat", leased_now, act_heartbeat, {"one"}, {0}, 0, 0},
    {"heartbeat-many", leased_now, act_many, {"one", "two", "three"}, {0}, 0, 0},
    {"heartbeat-all", grouped_now, act_all, {"one", "two", "three"}, {11, 12, 13}, 0, 0},
    {"abandon", leased_now, act_abandon, {"one"}, {0}, 0, 0},
    {"begin-commit", leased_now, act_begin, {"one"}, {0}, 0, 0},
    {"complete", committing, act_complete, {"one"}, {0}, 0, 0},
    {"replay", committing, act_replay, {"one"}, {0}, 0, 0},
    {"commit", staged, act_commit, {"one"}, {0}, 0, 1},
    {"commit-empty", leased_now, act_commit_empty, {"one"}, {0}, 0, 0},
    {"replay-commits", half_committed, act_replay_commits, {"one"}, {0}, 0, 1},
    {"group-claim", leased_now, act_group_claim, {NULL}, {11, 12, 13}, 0, 0},
    {"group-claim-expired", two_grouped_long_ago, act_group_claim, {NULL}, {11, 12, 13}, 0, 0},
    {"group-heartbeat", grouped_now, act_group_heartbeat, {NULL}, {11, 12, 13}, 0, 0},
    {"group-release", grouped_now, act_group_release, {NULL}, {11, 12, 13}, 0, 0},
    {"merge", neighbour, act_merge, {NULL}, {0}, 1, 0},
    {"merge-dense", neighbour, act_dense, {NULL}, {0}, 1, 0},
    {"coverage-heartbeat", neighbour, act_coverage_heartbeat, {NULL}, {0}, 0, 0},
    {"sweep", litter, act_replay_commits, {"one"}, {0}, 0, 0},
    {NULL, NULL, NULL, {NULL}, {0}, 0, 0}};
