/* A worker's groups, merges, and commits with staged results and maps. */
#include <fcntl.h>
#include <unistd.h>

#include "worker.h"

void do_group_claim(struct worker *worker) {
  uint64_t targets[8];
  size_t n = 1 + (size_t)below(&worker->dice, 8);
  symlease_group group;
  symlease_status status;
  int slot = 0;
  while (slot < GROUPS && worker->held[slot]) slot++;
  if (slot == GROUPS) return;
  for (size_t i = 0; i < n; i++) targets[i] = 1 + below(&worker->dice, TARGETS);
  line_begin();
  line_add("{\"begin\":\"group_claim\",\"owner\":\"%s\",\"targets\":[", worker->owner);
  for (size_t i = 0; i < n; i++) line_add("%s%llu", i ? "," : "", (unsigned long long)targets[i]);
  line_add("]}");
  line_end();
  memset(&group, 0, sizeof group);
  status = symlease_group_claim(worker->plain, targets, n, "{\"group\":1}", &group, NULL);
  line_begin();
  line_add("{\"end\":\"group_claim\",\"status\":%d,\"fence\":%llu,\"token\":\"%s\",\"updated\":%.17g}",
           (int)status, (unsigned long long)group.fence, group.token, group.updated);
  line_end();
  checked(status, "group_claim");
  if (status != SYMLEASE_OK) return;
  worker->group[slot] = group;
  worker->held[slot] = 1;
}

static int held_group(struct worker *worker) {
  int from = (int)below(&worker->dice, GROUPS);
  for (int i = 0; i < GROUPS; i++)
    if (worker->held[(from + i) % GROUPS]) return (from + i) % GROUPS;
  return -1;
}

static void group_line(const char *call, const symlease_group *group) {
  line_begin();
  line_add("{\"begin\":\"%s\",\"fence\":%llu}", call, (unsigned long long)group->fence);
  line_end();
}

void do_group_heartbeat(struct worker *worker) {
  int slot = held_group(worker);
  symlease_status status;
  if (slot < 0) return;
  group_line("group_heartbeat", &worker->group[slot]);
  status = symlease_group_heartbeat(worker->plain, &worker->group[slot]);
  line_begin();
  line_add("{\"end\":\"group_heartbeat\",\"status\":%d,\"updated\":%.17g}", (int)status,
           worker->group[slot].updated);
  line_end();
  checked(status, "group_heartbeat");
  if (status != SYMLEASE_OK) worker->held[slot] = 0;
}

void do_group_release(struct worker *worker) {
  int slot = held_group(worker);
  symlease_status status;
  if (slot < 0) return;
  group_line("group_release", &worker->group[slot]);
  status = symlease_group_release(worker->plain, &worker->group[slot]);
  line_begin();
  line_add("{\"end\":\"group_release\",\"status\":%d}", (int)status);
  line_end();
  checked(status, "group_release");
  worker->held[slot] = 0;
}

/* Merges take the lower half of the map and commits the upper one, so that a
 * bit of the upper half must have come with a result. Half of the edges are
 * from few places that everybody meets. */
static size_t some_edges(struct worker *worker, symlease_edge *edges, size_t most, uint32_t base) {
  size_t n = 1 + (size_t)below(&worker->dice, most);
  for (size_t i = 0; i < n; i++) {
    uint64_t span = below(&worker->dice, 2) ? MAP_SIZE / 2 : 256;
    edges[i].index = base + (uint32_t)below(&worker->dice, span);
    edges[i].bits = (uint8_t)(1u << below(&worker->dice, 8));
  }
  return n;
}

static void add_edges(const symlease_edge *edges, size_t n) {
  line_add("[");
  for (size_t i = 0; i < n; i++)
    line_add("%s[%u,%u]", i ? "," : "", (unsigned)edges[i].index, (unsigned)edges[i].bits);
  line_add("]");
}

static void begin_merge(const symlease_edge *edges, size_t n) {
  line_begin();
  line_add("{\"begin\":\"merge\",\"edges\":");
  add_edges(edges, n);
  line_add("}");
  line_end();
}

static void end_merge(symlease_status status, uint64_t novel) {
  line_begin();
  line_add("{\"end\":\"merge\",\"status\":%d,\"novel\":%llu}", (int)status,
           (unsigned long long)novel);
  line_end();
  checked(status, "merge");
}

void do_merge(struct worker *worker) {
  symlease_edge edges[12];
  size_t n = some_edges(worker, edges, 12, 0);
  uint64_t novel = 0;
  symlease_status status;
  begin_merge(edges, n);
  status = symlease_coverage_merge_sparse(worker->plain, edges, n, &novel);
  end_merge(status, novel);
}

/* Raw hit counts, as a target has them. */
void do_merge_counts(struct worker *worker) {
  static const uint8_t count_of[8] = {1, 2, 3, 4, 8, 16, 32, 128};
  static uint8_t counts[MAP_SIZE];
  symlease_edge edges[12];
  size_t n = some_edges(worker, edges, 12, 0), kept = 0;
  uint64_t novel = 0;
  symlease_status status;
  memset(counts, 0, sizeof counts);
  for (size_t i = 0; i < n; i++) {
    int bit = __builtin_ctz(edges[i].bits);
    if (counts[edges[i].index]) continue; /* a count is one bit */
    counts[edges[i].index] = count_of[bit];
    edges[kept++] = edges[i];
  }
  begin_merge(edges, kept);
  status = symlease_coverage_merge_counts(worker->plain, counts, sizeof counts, &novel);
  end_merge(status, novel);
}

static int show_novel(void *user, size_t candidate, const symlease_edge *edges, size_t n) {
  int *first = user;
  line_add("%s[%zu,", *first ? "" : ",", candidate);
  add_edges(edges, n);
  line_add("]");
  *first = 0;
  return 0;
}

void do_merge_many(struct worker *worker) {
  symlease_edge edges[4][8];
  symlease_sparse lists[4];
  uint64_t novel[4] = {0};
  size_t n = 1 + (size_t)below(&worker->dice, 4);
  symlease_status status;
  int first = 1;
  line_begin();
  line_add("{\"begin\":\"merge_many\",\"lists\":[");
  for (size_t i = 0; i < n; i++) {
    lists[i].edges = edges[i];
    lists[i].count = some_edges(worker, edges[i], 8, 0);
    line_add("%s", i ? "," : "");
    add_edges(edges[i], lists[i].count);
  }
  line_add("]}");
  line_end();
  line_begin();
  line_add("{\"end\":\"merge_many\",\"credited\":[");
  status = symlease_coverage_merge_sparse_many(worker->plain, lists, n, novel, show_novel, &first);
  line_add("],\"status\":%d,\"novel\":[", (int)status);
  for (size_t i = 0; i < n; i++)
    line_add("%s%llu", i ? "," : "", (unsigned long long)novel[i]);
  line_add("]}");
  line_end();
  checked(status, "merge_many");
}

/* Stages without a sync: making it durable is the library's part. */
static void stage(const char *path, const char *content) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, content, strlen(content)) != (ssize_t)strlen(content) || close(fd) != 0)
    report_fatal("stage");
}

static int leased(struct worker *worker) {
  for (int slot = 0; slot < LEASES; slot++)
    if (worker->stage[slot] == 'l') return slot;
  return -1;
}

void do_commit(struct worker *worker) {
  symlease_result results[3];
  symlease_edge edges[3][8];
  char paths[3][256], names[3][64], content[3][96];
  size_t n = (size_t)below(&worker->dice, 4);
  int slot = leased(worker);
  symlease_lease *lease;
  symlease_status status;
  if (slot < 0) return;
  lease = &worker->lease[slot];
  memset(results, 0, sizeof results);
  line_begin();
  line_add("{\"begin\":\"commit\",\"id\":\"%s\",\"fence\":%llu,\"results\":[", lease->id,
           (unsigned long long)lease->fence);
  for (size_t i = 0; i < n; i++) {
    int same = below(&worker->dice, 8) == 0; /* content that others have, too */
    if (same)
      snprintf(content[i], sizeof content[i], "same %u", (unsigned)below(&worker->dice, 40));
    else
      snprintf(content[i], sizeof content[i], "%s file %u", worker->owner, worker->files);
    snprintf(paths[i], sizeof paths[i], "%s/%s.%u", worker->boot->staging, worker->owner,
             worker->files++);
    stage(paths[i], content[i]);
    results[i].staged = paths[i];
    if (below(&worker->dice, 3) == 0) { /* a name that may be taken by another content */
      snprintf(names[i], sizeof names[i], "name-%u", (unsigned)below(&worker->dice, 200));
      results[i].name = names[i];
    }
    if (below(&worker->dice, 5) != 0) {
      results[i].map_kind = SYMLEASE_MAP_SPARSE;
      results[i].edges = edges[i];
      results[i].edge_count = some_edges(worker, edges[i], 8, MAP_SIZE / 2);
    }
    if (below(&worker->dice, 6) == 0) results[i].flags = SYMLEASE_RESULT_KEEP;
    line_add("%s{\"content\":\"%s\",\"name\":\"%s\",\"edges\":", i ? "," : "", content[i],
             results[i].name ? results[i].name : "");
    add_edges(results[i].edges, results[i].edge_count);
    line_add("}");
  }
  line_add("]}");
  line_end();
  status = symlease_commit(worker->plain, lease, worker->boot->corpus, results, n);
  line_begin();
  line_add("{\"end\":\"commit\",\"status\":%d,\"results\":[", (int)status);
  for (size_t i = 0; i < n; i++)
    line_add("%s[%d,%d,%llu]", i ? "," : "", (int)results[i].outcome, (int)results[i].status,
             (unsigned long long)results[i].novel_bits);
  line_add("]}");
  line_end();
  checked(status, "commit");
  worker->stage[slot] = 0;
}
