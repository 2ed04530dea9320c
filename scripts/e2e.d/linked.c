/* linked.c - a target of AFL++ with symlease linked in.
 *   -DSYMLEASE    the handle is opened before the fork server, and each run merges
 *                 a map in which nothing is new: SYMLEASE_E2E_MERGE=sparse or dense
 *   -DPERSISTENT  many runs in one process; else a fork for each
 * Without -DSYMLEASE the same program without the library. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef SYMLEASE
#include <symlease.h>
#else /* the same memory, so that the library alone makes the difference */
typedef struct {
  uint32_t index;
  uint8_t bits;
} symlease_edge;
#endif

#define MAP 65536
#define EDGES 2000
static symlease_edge edges[EDGES];
static uint8_t map[MAP];

static void fill(void) {
  for (uint32_t i = 0; i < EDGES; i++) {
    edges[i].index = i * 32;
    edges[i].bits = 1;
    map[i * 32] = 1;
  }
}

#ifdef SYMLEASE
static symlease_campaign *campaign;
static int how; /* 0: no merge, 1: sparse, 2: dense */

static void begin(void) {
  const char *root = getenv("SYMLEASE_E2E_CAMPAIGN"), *kind = getenv("SYMLEASE_E2E_MERGE");
  symlease_options options;
  if (root == NULL) return;
  symlease_options_init(&options, sizeof options);
  options.session = SYMLEASE_SESSION_NONE; /* nothing stays open between calls */
  options.map_size = MAP;
  options.durability = SYMLEASE_DURABLE_PROCESS;
  if (symlease_open(root, &options, &campaign) != SYMLEASE_OK) {
    fprintf(stderr, "linked: %s\n", symlease_last_error());
    exit(1);
  }
  how = kind == NULL ? 0 : strcmp(kind, "sparse") == 0 ? 1 : strcmp(kind, "dense") == 0 ? 2 : 0;
  fill();
  /* From here on nothing of it is new. */
  if (symlease_coverage_merge_sparse(campaign, edges, EDGES, NULL) != SYMLEASE_OK) exit(1);
}

static void merge(void) {
  uint64_t novel = 0;
  symlease_status status = SYMLEASE_OK;
  if (how == 1) status = symlease_coverage_merge_sparse(campaign, edges, EDGES, &novel);
  if (how == 2) status = symlease_coverage_merge(campaign, map, MAP, &novel);
  if (status != SYMLEASE_OK || novel != 0) abort(); /* seen as a crash */
}
#else
static void begin(void) { fill(); }
static void merge(void) {}
#endif

static void run(void) {
  char text[256] = "";
  ssize_t n = read(0, text, sizeof text - 1);
  unsigned found = 0;
  for (ssize_t i = 0; i < n; i++) {
    if (text[i] == 'a') found++;
    else if (text[i] == 'b') found += 2;
    else if (text[i] > 'x') found += 3;
  }
  if (found > 40 && n > 8 && memcmp(text, "abxyz", 5) == 0) found = 0;
  if (found == 12345) puts("never");
  merge();
}

int main(void) {
  begin();
  __AFL_INIT();
#ifdef PERSISTENT
  while (__AFL_LOOP(1000)) run();
#else
  run();
#endif
  return 0;
}
