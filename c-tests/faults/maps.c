/* Coverage maps: F37, F38, F39. (F40: kills.c.) Argument: an empty directory. */
#include "operations.h"

static symlease_campaign *open_map(const char *root, const char *name, const char *identity) {
  symlease_options options = fault_options(name);
  path_text place;
  below(place, root, name);
  options.map_identity = identity;
  shim_no_syncs = 1;
  return open_with(place, &options);
}

/* Maps of another size or build, by every call that takes one. */
static void f37_maps_of_other_sizes_and_builds(const char *root) {
  static const size_t sizes[] = {65535, 65537, 8388608, 1, 131072};
  symlease_campaign *a = open_map(root, "a", "build-1"), *b = NULL;
  symlease_options options = fault_options("a");
  uint8_t *map = calloc(1, 8388608);
  uint64_t novel, edges, bits;
  path_text place;
  char *before, *after;
  size_t i;
  CHECK(map);
  map[3] = 1;
  CHECK(symlease_coverage_merge(a, map, 65536, &novel) == SYMLEASE_OK && novel == 1);
  map[4] = 1;
  before = snapshot(root);
  for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    symlease_map maps[2];
    maps[0].bytes = maps[1].bytes = map;
    maps[0].len = 65536;
    maps[1].len = sizes[i];
    CHECK(symlease_coverage_merge(a, map, sizes[i], &novel) == SYMLEASE_E_MISMATCH);
    CHECK(symlease_coverage_merge_counts(a, map, sizes[i], &novel) == SYMLEASE_E_MISMATCH);
    CHECK(symlease_coverage_merge_many(a, maps, 2, NULL) == SYMLEASE_E_MISMATCH);
    options.map_size = sizes[i];
    options.map_identity = NULL;
    below(place, root, "a");
    CHECK(symlease_open(place, &options, &b) == SYMLEASE_E_MISMATCH);
  }
  options.map_size = 65536; /* the same size, another build */
  options.map_identity = "build-2";
  CHECK(symlease_open(place, &options, &b) == SYMLEASE_E_MISMATCH);
  after = snapshot(root);
  CHECK(strcmp(before, after) == 0);
  CHECK(symlease_coverage_totals(a, &edges, &bits) == SYMLEASE_OK && edges == 1 && bits == 1);
  /* and an authority of each of them refuses 65,536 */
  for (i = 0; i < 3; i++) {
    char name[16];
    symlease_campaign *c;
    snprintf(name, sizeof name, "size-%zu", i);
    c = open_map(root, name, NULL);
    CHECK(symlease_coverage_merge(c, map, sizes[i], NULL) == SYMLEASE_OK);
    CHECK(symlease_coverage_merge(c, map, 65536, NULL) == SYMLEASE_E_MISMATCH);
    symlease_close(c);
  }
  free(before);
  free(after);
  free(map);
  symlease_close(a);
}

static void expect(symlease_campaign *campaign, const uint8_t *map, size_t size) {
  uint8_t *pulled = calloc(1, size);
  uint64_t edges = 0, bits = 0, got_edges, got_bits;
  size_t i;
  CHECK(pulled);
  for (i = 0; i < size; i++) {
    edges += map[i] != 0;
    bits += (uint64_t)__builtin_popcount(map[i]);
  }
  CHECK(symlease_coverage_totals(campaign, &got_edges, &got_bits) == SYMLEASE_OK);
  CHECK(got_edges == edges && got_bits == bits);
  CHECK(symlease_coverage_pull(campaign, pulled, size, &got_bits) == SYMLEASE_OK);
  CHECK(memcmp(pulled, map, size) == 0);
  free(pulled);
}

static uint64_t merged(symlease_campaign *campaign, const uint8_t *map, size_t size) {
  uint64_t novel = 99999999;
  CHECK(symlease_coverage_merge(campaign, map, size, &novel) == SYMLEASE_OK);
  return novel;
}

static void f38_order_and_repetition_do_not_matter(const char *root) {
  enum { SIZE = 4096 };
  uint8_t a[SIZE], b[SIZE], both[SIZE], full[SIZE], none[SIZE], one[1] = {0x81};
  symlease_campaign *ab = open_map(root, "ab", NULL), *ba = open_map(root, "ba", NULL),
                    *aa = open_map(root, "aa", NULL), *single = open_map(root, "one", NULL),
                    *empty = open_map(root, "none", NULL);
  unsigned state = 1;
  uint64_t only_a, only_b, total;
  size_t i;
  for (i = 0; i < SIZE; i++) {
    state = state * 1103515245 + 12345;
    a[i] = state >> 28 < 6 ? (uint8_t)(state >> 16) : 0;
    state = state * 1103515245 + 12345;
    b[i] = state >> 28 < 6 ? (uint8_t)(state >> 16) : 0;
    both[i] = a[i] | b[i];
    full[i] = 255;
    none[i] = 0;
  }
  only_a = merged(ab, a, SIZE);
  total = only_a + merged(ab, b, SIZE);
  only_b = merged(ba, b, SIZE);
  CHECK(only_b + merged(ba, a, SIZE) == total);
  CHECK(merged(aa, a, SIZE) == only_a && merged(aa, a, SIZE) == 0);
  expect(ab, both, SIZE);
  expect(ba, both, SIZE);
  expect(aa, a, SIZE);
  CHECK(merged(ab, none, SIZE) == 0);
  CHECK(merged(ab, full, SIZE) == 8 * SIZE - total);
  CHECK(merged(ab, full, SIZE) == 0 && merged(ab, a, SIZE) == 0);
  expect(open_map(root, "ab", NULL), full, SIZE);
  CHECK(merged(empty, none, SIZE) == 0);
  expect(empty, none, SIZE);
  CHECK(merged(single, one, 1) == 2 && merged(single, one, 1) == 0);
  expect(single, one, 1);
}

/* Two workers, 10,000 reports each of overlapping random subsets; a third
 * looks at the totals meanwhile. */
static void f39_each_bit_is_credited_once(const char *root) {
  enum { SIZE = 256, EDGES = 3 };
  int reports = rounds(10000), pipes[2], k, i, state;
  uint64_t sum = 0, part[2], edges, bits, last = 0;
  uint8_t whole[SIZE];
  symlease_campaign *look = open_map(root, "map", NULL);
  pid_t workers[2], reader;
  CHECK(pipe(pipes) == 0);
  memset(whole, 0, sizeof whole);
  for (k = 0; k < 3; k++) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
      symlease_campaign *own = open_map(root, "map", NULL);
      unsigned random = (unsigned)(k + 7);
      part[0] = (uint64_t)k;
      part[1] = 0;
      for (i = 0; k < 2 && i < reports; i++) {
        symlease_edge report[EDGES];
        uint64_t novel;
        int e;
        for (e = 0; e < EDGES; e++) {
          random = random * 1103515245 + 12345;
          report[e].index = (random >> 8) % SIZE;
          report[e].bits = (uint8_t)(1u << (random >> 28) % 8);
        }
        CHECK(symlease_coverage_merge_sparse(own, report, EDGES, &novel) == SYMLEASE_OK);
        part[1] += novel;
      }
      while (k == 2) {
        CHECK(symlease_coverage_totals(own, &edges, &bits) == SYMLEASE_OK && bits >= last);
        last = bits;
      }
      CHECK(write(pipes[1], part, sizeof part) == sizeof part);
      _exit(0);
    }
    if (k < 2)
      workers[k] = pid;
    else
      reader = pid;
  }
  for (k = 0; k < 2; k++) {
    unsigned random;
    CHECK(read(pipes[0], part, sizeof part) == sizeof part);
    sum += part[1];
    CHECK(waitpid(workers[part[0]], &state, 0) == workers[part[0]] && state == 0);
    random = (unsigned)part[0] + 7;
    for (i = 0; i < reports * EDGES; i++) {
      random = random * 1103515245 + 12345;
      whole[(random >> 8) % SIZE] |= (uint8_t)(1u << (random >> 28) % 8);
    }
  }
  CHECK(waitpid(reader, &state, WNOHANG) == 0); /* totals never fell */
  CHECK(kill(reader, SIGKILL) == 0 && waitpid(reader, &state, 0) == reader);
  CHECK(symlease_coverage_totals(look, &edges, &bits) == SYMLEASE_OK && bits == sum);
  expect(look, whole, SIZE);
  printf("  %d reports, %llu bits, each credited once\n", 2 * reports, (unsigned long long)sum);
  symlease_close(look);
}

int main(int count, char **arguments) {
  static const struct fault faults[] = {
      FAULT(f37_maps_of_other_sizes_and_builds),
      FAULT(f38_order_and_repetition_do_not_matter),
      FAULT(f39_each_bit_is_credited_once),
  };
  return run_faults(count, arguments, faults, sizeof faults / sizeof *faults);
}
