#include "operations.h"

static const uint64_t members[] = {11, 22, 33, 44};
static const symlease_edge one_shard[] = {{4, 3}, {8, 1}};
static const symlease_edge all_shards[] = {{1, 1}, {2, 2}, {3, 4}, {4, 8}, {5, 16}};

static void claim(struct world *world, symlease_lease *lease, const char *name) {
  char id[SYMLEASE_ID_SIZE];
  memset(lease, 0, sizeof *lease);
  CHECK(symlease_work_id(name, strlen(name), id) == SYMLEASE_OK);
  CHECK(symlease_claim(world->a, id, "{\"n\":1}", lease, NULL) == SYMLEASE_OK);
}

static void nothing(struct world *world) {
  (void)world;
}

static void with_lease(struct world *world) {
  claim(world, &world->lease, "work");
  *fault_time += 1;
}

static void with_expired(struct world *world) {
  char id[SYMLEASE_ID_SIZE];
  symlease_lease lease;
  memset(&lease, 0, sizeof lease);
  CHECK(symlease_work_id("fresh", 5, id) == SYMLEASE_OK);
  CHECK(symlease_claim(world->b, id, NULL, &lease, NULL) == SYMLEASE_OK);
  *fault_time += 1000;
}

static symlease_status run_claim(struct world *world) {
  char id[SYMLEASE_ID_SIZE];
  memset(&world->lease, 0, sizeof world->lease);
  CHECK(symlease_work_id("fresh", 5, id) == SYMLEASE_OK);
  return symlease_claim(world->a, id, "{}", &world->lease, NULL);
}

static symlease_status run_heartbeat(struct world *world) {
  return symlease_heartbeat(world->a, &world->lease);
}

static symlease_status run_abandon(struct world *world) {
  return symlease_abandon(world->a, &world->lease);
}

static symlease_status run_begin(struct world *world) {
  return symlease_begin_commit(world->a, &world->lease, "{\"m\":[1,2]}");
}

static void with_begun(struct world *world) {
  with_lease(world);
  CHECK(run_begin(world) == SYMLEASE_OK);
}

static symlease_status run_complete(struct world *world) {
  symlease_status status = symlease_complete(world->a, &world->lease);
  return status == SYMLEASE_ALREADY ? SYMLEASE_OK : status;
}

static int published(void *user, const symlease_view *view) {
  (void)user;
  (void)view;
  return 0;
}

static symlease_status run_replay(struct world *world) {
  symlease_status status =
      symlease_replay(world->b, world->lease.id, world->lease.token, published, NULL);
  return status == SYMLEASE_ALREADY ? SYMLEASE_OK : status;
}

static symlease_status run_group_claim(struct world *world) {
  memset(&world->group, 0, sizeof world->group);
  return symlease_group_claim(world->a, members, 4, "{}", &world->group, NULL);
}

static void with_group(struct world *world) {
  CHECK(run_group_claim(world) == SYMLEASE_OK);
  *fault_time += 1;
}

static symlease_status run_group_heartbeat(struct world *world) {
  return symlease_group_heartbeat(world->a, &world->group);
}

static symlease_status run_group_release(struct world *world) {
  return symlease_group_release(world->a, &world->group);
}

static void with_all(struct world *world) {
  claim(world, &world->lease, "work");
  claim(world, &world->other, "other");
  with_group(world);
}

/* The worst of the entries; each entry is there for itself (H3). */
static symlease_status run_heartbeat_all(struct world *world) {
  symlease_lease leases[2];
  symlease_status results[2] = {9, 9}, group = 9, worst;
  symlease_heartbeat_stats stats;
  leases[0] = world->lease;
  leases[1] = world->other;
  worst = symlease_heartbeat_all(world->a, leases, 2, &world->group, 1, results, &group, &stats);
  if (worst != SYMLEASE_OK) return worst;
  CHECK(stats.work_ok + stats.work_failed == 2 && stats.target_ok + stats.target_failed == 1);
  CHECK(stats.work_ok == (uint64_t)((results[0] == 0) + (results[1] == 0)));
  if (results[0] < worst) worst = results[0];
  if (results[1] < worst) worst = results[1];
  return group < worst ? group : worst;
}

static symlease_status run_merge_one(struct world *world) {
  return symlease_coverage_merge_sparse(world->a, one_shard, 2, NULL);
}

static symlease_status run_merge_all(struct world *world) {
  return symlease_coverage_merge_sparse(world->a, all_shards, 5, NULL);
}

static symlease_status run_merge_dense(struct world *world) {
  const uint8_t map[64] = {1, 2, 3, 4, 5, 6};
  return symlease_coverage_merge(world->a, map, sizeof map, NULL);
}

static void with_coverage(struct world *world) {
  const symlease_edge old[] = {{0, 1}, {1, 2}, {2, 1}, {3, 1}};
  CHECK(symlease_coverage_merge_sparse(world->a, old, 4, NULL) == SYMLEASE_OK);
}

static symlease_status run_coverage_heartbeat(struct world *world) {
  return symlease_coverage_heartbeat(world->a);
}

static void with_result(struct world *world) {
  with_lease(world);
  write_file(world->staged, "the result", 10);
}

static symlease_status run_commit(struct world *world) {
  symlease_result result;
  symlease_status status;
  memset(&result, 0, sizeof result);
  result.staged = world->staged;
  result.name = "result";
  result.map_kind = SYMLEASE_MAP_SPARSE;
  result.edges = all_shards;
  result.edge_count = 5;
  status = symlease_commit(world->a, &world->lease, world->corpus, &result, 1);
  if (status == SYMLEASE_OK && result.status < 0) return result.status;
  return status == SYMLEASE_DONE ? SYMLEASE_OK : status;
}

static symlease_status run_commit_nothing(struct world *world) {
  symlease_status status = symlease_commit(world->a, &world->lease, world->corpus, NULL, 0);
  return status == SYMLEASE_DONE ? SYMLEASE_OK : status;
}

const struct operation operations[] = {
    {"first claim", nothing, run_claim, 0},
    {"steal", with_expired, run_claim, 0},
    {"heartbeat", with_lease, run_heartbeat, 0},
    {"abandon", with_lease, run_abandon, 0},
    {"begin commit", with_lease, run_begin, 0},
    {"complete", with_begun, run_complete, 0},
    {"replay", with_begun, run_replay, 0},
    {"group claim", nothing, run_group_claim, 0},
    {"group heartbeat", with_group, run_group_heartbeat, 0},
    {"group release", with_group, run_group_release, 0},
    {"heartbeat all", with_all, run_heartbeat_all, 1},
    {"first merge", nothing, run_merge_one, 0},
    {"merge", with_coverage, run_merge_one, 0},
    {"merge of many shards", with_coverage, run_merge_all, 0},
    {"first dense merge", nothing, run_merge_dense, 1},
    {"coverage heartbeat", with_coverage, run_coverage_heartbeat, 0},
    {"commit", with_result, run_commit, 1},
    {"commit of nothing", with_lease, run_commit_nothing, 1},
};
const size_t operation_count = sizeof operations / sizeof *operations;

const struct operation *named(const char *name) {
  size_t i;
  for (i = 0; i < operation_count; i++)
    if (strcmp(operations[i].name, name) == 0) return &operations[i];
  CHECK(!"an operation of that name");
  return NULL;
}

void begin_world(struct world *world, const char *root, long number,
                 const struct operation *operation) {
  char name[64];
  path_text place;
  memset(world, 0, sizeof *world);
  shim_no_syncs = 1;
  snprintf(name, sizeof name, "world-%ld", number);
  below(world->root, root, name);
  CHECK(mkdir(world->root, 0700) == 0);
  below(place, world->root, "staging");
  CHECK(mkdir(place, 0700) == 0);
  below(world->staged, place, "result");
  below(world->corpus, world->root, "corpus");
  world->a = open_fault(world->root, "a");
  world->b = open_fault(world->root, "b");
  operation->prepare(world);
}

void end_world(struct world *world) {
  symlease_close(world->a);
  symlease_close(world->b);
  remove_tree(world->root);
}
