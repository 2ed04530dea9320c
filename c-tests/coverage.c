/* The coverage authority, with only the header. Argument: an empty directory. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static symlease_campaign *open_below(const char *root, const char *name, const char *identity) {
  char path[4096];
  symlease_options options;
  symlease_campaign *campaign = NULL;
  snprintf(path, sizeof path, "%s/%s", root, name);
  symlease_options_init(&options, sizeof options);
  options.coverage_shards = 8;
  options.map_identity = identity;
  CHECK(symlease_open(path, &options, &campaign) == SYMLEASE_OK);
  return campaign;
}

/* C4, F38: exact, commutative, idempotent; each bit credited once. */
static void merging(const char *root) {
  symlease_campaign *a = open_below(root, "merge", NULL), *b = open_below(root, "merge", NULL);
  const symlease_edge edges[] = {{5, 1}, {1000, 128}, {5, 2}, {7, 0}};
  symlease_edge ask[] = {{5, 7}, {6, 1}};
  uint8_t counts[1024], map[1024], pulled[1024];
  uint64_t novel = 9, total = 0, set = 0, size = 0;
  char *identity = NULL, owner[SYMLEASE_OWNER_SIZE];
  uint32_t index = 9;
  memset(map, 0, sizeof map);
  memset(counts, 0, sizeof counts);
  memset(pulled, 0, sizeof pulled);
  CHECK(symlease_coverage_known(a, ask, 2, &novel) == SYMLEASE_OK && novel == 4);
  CHECK(symlease_coverage_map_info(a, &size, &identity) == SYMLEASE_ABSENT);
  CHECK(symlease_coverage_merge_sparse(a, NULL, 0, &novel) == SYMLEASE_OK && novel == 0);
  CHECK(symlease_coverage_merge_sparse(a, edges, 4, &novel) == SYMLEASE_OK && novel == 3);
  CHECK(symlease_coverage_merge_sparse(b, edges, 4, &novel) == SYMLEASE_OK && novel == 0);
  CHECK(symlease_coverage_known(b, ask, 2, &novel) == SYMLEASE_OK && novel == 2);
  map[5] = 3; /* known */
  map[6] = 1; /* new */
  CHECK(symlease_coverage_merge(b, map, sizeof map, &novel) == SYMLEASE_OK && novel == 1);
  CHECK(symlease_coverage_map_info(a, &size, &identity) == SYMLEASE_OK);
  CHECK(size == 1024 && strcmp(identity, "") == 0);
  symlease_string_free(identity);
  counts[6] = 1;
  counts[9] = 200; /* bucket 128 */
  CHECK(symlease_coverage_merge_counts(a, counts, sizeof counts, &novel) == SYMLEASE_OK);
  CHECK(novel == 1);
  CHECK(symlease_coverage_totals(a, &total, &set) == SYMLEASE_OK);
  CHECK(total == 4 && set == 5);
  CHECK(symlease_coverage_pull(a, pulled, 100, &novel) == SYMLEASE_E_MISMATCH);
  CHECK(symlease_coverage_pull(a, pulled, sizeof pulled, &novel) == SYMLEASE_OK && novel == 5);
  CHECK(pulled[5] == 3 && pulled[6] == 1 && pulled[9] == 128 && pulled[1000] == 128);
  CHECK(symlease_coverage_pull(a, pulled, sizeof pulled, &novel) == SYMLEASE_OK && novel == 0);
  CHECK(symlease_coverage_heartbeat(a) == SYMLEASE_OK);
  CHECK(symlease_coverage_owner(a, 3, &index, owner) == SYMLEASE_OK && index == 0);
  CHECK(symlease_coverage_owner(a, 8, &index, owner) == SYMLEASE_E_INVALID);
  symlease_close(a);
  symlease_close(b);
}

/* C6, F37: never padded or cut; builds do not mix. */
static void mismatches(const char *root) {
  symlease_campaign *a = open_below(root, "size", "build-1"), *other;
  symlease_edge beyond = {70000, 1}, above = {1u << 23, 1};
  symlease_options options;
  char path[4096];
  uint8_t *map = calloc(1, 1 << 23);
  CHECK(map != NULL);
  map[3] = 1;
  CHECK(symlease_coverage_merge(a, map, 65536, NULL) == SYMLEASE_OK);
  CHECK(symlease_coverage_merge(a, map, 65535, NULL) == SYMLEASE_E_MISMATCH);
  CHECK(symlease_coverage_merge(a, map, 65537, NULL) == SYMLEASE_E_MISMATCH);
  CHECK(symlease_coverage_merge(a, map, 1 << 23, NULL) == SYMLEASE_E_MISMATCH);
  CHECK(symlease_coverage_merge(a, map, 0, NULL) == SYMLEASE_E_LIMIT);
  CHECK(symlease_coverage_merge_sparse(a, &beyond, 1, NULL) == SYMLEASE_E_MISMATCH);
  CHECK(symlease_coverage_merge_sparse(a, &above, 1, NULL) == SYMLEASE_E_LIMIT);
  CHECK(symlease_coverage_merge(a, NULL, 65536, NULL) == SYMLEASE_E_INVALID);
  snprintf(path, sizeof path, "%s/size", root);
  symlease_options_init(&options, sizeof options);
  options.map_identity = "build-2";
  CHECK(symlease_open(path, &options, &other) == SYMLEASE_E_MISMATCH);
  CHECK(strstr(symlease_last_error(), "build-1") != NULL);
  symlease_options_init(&options, sizeof options);
  options.map_size = 65535;
  CHECK(symlease_open(path, &options, &other) == SYMLEASE_E_MISMATCH);
  symlease_close(a);
  a = open_below(root, "late", NULL);
  CHECK(symlease_coverage_merge_sparse(a, &beyond, 1, NULL) == SYMLEASE_OK);
  CHECK(symlease_coverage_merge(a, map, 65536, NULL) == SYMLEASE_E_MISMATCH);
  symlease_close(a);
  free(map);
}

static int add(void *user, size_t candidate, const symlease_edge *edges, size_t n) {
  uint64_t *sums = user;
  size_t i;
  for (i = 0; i < n; i++) sums[candidate] += edges[i].bits;
  return 0;
}

/* In a batch, candidates are credited in order. */
static void batches(const char *root) {
  symlease_campaign *a = open_below(root, "batch", NULL);
  const symlease_edge first[] = {{1, 1}, {2, 2}}, second[] = {{2, 3}, {3, 4}};
  const symlease_sparse lists[] = {{first, 2}, {second, 2}, {first, 2}, {NULL, 0}};
  uint8_t one[64] = {1, 1}, two[64] = {3, 1};
  const symlease_map maps[] = {{one, 64}, {two, 64}};
  uint64_t novel[4] = {9, 9, 9, 9}, sums[4] = {0};
  CHECK(symlease_coverage_merge_sparse_many(a, lists, 4, novel, add, sums) == SYMLEASE_OK);
  CHECK(novel[0] == 2 && novel[1] == 2 && novel[2] == 0 && novel[3] == 0);
  CHECK(sums[0] == 3 && sums[1] == 5 && sums[2] == 0);
  CHECK(symlease_coverage_merge_many(a, maps, 2, novel) == SYMLEASE_OK);
  CHECK(novel[0] == 1 && novel[1] == 1);
  CHECK(symlease_coverage_merge_many(a, NULL, 0, NULL) == SYMLEASE_OK);
  symlease_close(a);
}

/* The source notes' figures: 10 campaigns of 8 processes that merge disjoint
 * bits into the same 256 indices (C4, F39). */
static void contending(const char *root) {
  int round, process, state, locks = 0;
  char path[4096];
  for (round = 0; round < 10; round++) {
    char name[32];
    uint8_t map[256];
    uint64_t total = 0, part, edges, bits;
    int ends[2], start[2];
    size_t i;
    symlease_campaign *a;
    snprintf(name, sizeof name, "contend-%d", round);
    CHECK(pipe(ends) == 0 && pipe(start) == 0);
    for (process = 0; process < 8; process++) {
      pid_t child = fork();
      CHECK(child >= 0);
      if (child == 0) {
        char go;
        symlease_edge all[256];
        close(start[1]);
        CHECK(read(start[0], &go, 1) == 0); /* a barrier: the parent closes it */
        a = open_below(root, name, NULL);
        for (i = 0; i < 256; i++) {
          all[i].index = (uint32_t)i;
          all[i].bits = (uint8_t)(1u << process);
        }
        CHECK(symlease_coverage_merge_sparse(a, all, 256, &part) == SYMLEASE_OK);
        CHECK(write(ends[1], &part, sizeof part) == sizeof part);
        symlease_close(a);
        _exit(0);
      }
    }
    close(start[0]);
    close(start[1]);
    for (process = 0; process < 8; process++) {
      CHECK(read(ends[0], &part, sizeof part) == sizeof part);
      CHECK(part == 256);
      total += part;
      CHECK(wait(&state) > 0 && state == 0);
    }
    close(ends[0]);
    close(ends[1]);
    a = open_below(root, name, NULL);
    memset(map, 0, sizeof map);
    CHECK(symlease_coverage_pull(a, map, sizeof map, &bits) == SYMLEASE_OK && bits == 2048);
    for (i = 0; i < 256; i++) CHECK(map[i] == 0xff);
    CHECK(symlease_coverage_totals(a, &edges, &bits) == SYMLEASE_OK);
    CHECK(total == 2048 && edges == 256 && bits == 2048);
    symlease_close(a);
    for (process = 0; process < 8; process++) {
      snprintf(path, sizeof path, "%s/%s/.coverage_owner/state/%04d.json.lock", root, name, process);
      locks += access(path, F_OK) == 0;
    }
  }
  printf("10 campaigns of 8 processes: 2048 new bits each, every byte 0xff; %d lock files\n", locks);
}

/* C1, F19, F27: a damaged shard fails closed, and looking changes nothing. */
static void damaged(const char *root) {
  symlease_campaign *a = open_below(root, "damaged", NULL);
  const symlease_edge edge = {8, 1}, elsewhere = {9, 1};
  char path[4096], seen[64] = "";
  uint64_t bits;
  FILE *file;
  CHECK(symlease_coverage_merge_sparse(a, &edge, 1, NULL) == SYMLEASE_OK);
  snprintf(path, sizeof path, "%s/damaged/.coverage_owner/state/0000.json", root);
  file = fopen(path, "w");
  CHECK(file != NULL && fputs("{\"schema\":1", file) >= 0 && fclose(file) == 0);
  CHECK(symlease_coverage_merge_sparse(a, &edge, 1, NULL) == SYMLEASE_E_CORRUPT);
  CHECK(strstr(symlease_last_error(), "shard 0") != NULL);
  CHECK(symlease_coverage_totals(a, &bits, &bits) == SYMLEASE_E_CORRUPT);
  CHECK(symlease_coverage_merge_sparse(a, &elsewhere, 1, NULL) == SYMLEASE_OK);
  file = fopen(path, "r");
  CHECK(file != NULL && fgets(seen, sizeof seen, file) && fclose(file) == 0);
  CHECK(strcmp(seen, "{\"schema\":1") == 0);
  symlease_close(a);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  merging(arguments[1]);
  mismatches(arguments[1]);
  batches(arguments[1]);
  contending(arguments[1]);
  damaged(arguments[1]);
  return 0;
}
