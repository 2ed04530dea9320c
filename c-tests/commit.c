/* Commit and replay, with only the header. Argument: an empty directory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static double now = 1786060800.25;
static int die_in_clock;

/* The library asks for the time in the middle of a commit, with no lock held:
 * between the fence and the merge. */
static double test_clock(void *user) {
  if (die_in_clock && --die_in_clock == 0) _exit(77);
  return *(double *)user;
}

static int32_t session = SYMLEASE_SESSION_OWN;

static symlease_campaign *open_here(const char *root) {
  symlease_options options;
  symlease_campaign *campaign = NULL;
  symlease_options_init(&options, sizeof options);
  options.work_ttl = 10.0;
  options.clock = test_clock;
  options.clock_user = &now;
  options.session = session;
  CHECK(symlease_open(root, &options, &campaign) == SYMLEASE_OK);
  return campaign;
}

static void put(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void claim(symlease_campaign *campaign, const char *name, symlease_lease *lease) {
  char id[SYMLEASE_ID_SIZE];
  memset(lease, 0, sizeof *lease);
  CHECK(symlease_work_id(name, strlen(name), id) == SYMLEASE_OK);
  CHECK(symlease_claim(campaign, id, NULL, lease, NULL) == SYMLEASE_OK);
}

static int refuse(void *user, const symlease_view *view) {
  symlease_campaign *campaign = *(symlease_campaign **)user;
  char *json = NULL;
  CHECK(view->status == SYMLEASE_SCAN_COMMITTING && strcmp(view->manifest, "{\"m\":1}") == 0);
  /* under the record's lock nothing may be called */
  CHECK(symlease_read_record(campaign, SYMLEASE_TABLE_WORK, view->id, &json) == SYMLEASE_E_INVALID);
  return 1;
}

static int accept(void *user, const symlease_view *view) {
  (void)user;
  CHECK(view->manifest != NULL);
  return 0;
}

static void is(const char *path, const char *text) {
  char found[64] = "";
  FILE *file = fopen(path, "r");
  CHECK(file != NULL && fgets(found, sizeof found, file) && strcmp(found, text) == 0);
  CHECK(fclose(file) == 0);
}

/* What would lose a result is refused before anything changes. */
static void own_files(symlease_campaign *a) {
  const symlease_edge edges[] = {{40, 1}};
  symlease_result results[2];
  symlease_lease lease;
  uint64_t replayed = 9;
#define REFUSED(words)                                                           \
  CHECK(symlease_commit(a, &lease, "corpus", results, 2) == SYMLEASE_E_INVALID); \
  CHECK(strstr(symlease_last_error(), words) != NULL)
  memset(results, 0, sizeof results);
  claim(a, "own files", &lease);
  put("staged/x", "x");
  put("staged/x.map", "not a map");
  put("staged/y", "y");
  put("corpus/seed", "seed");
  results[0].staged = results[1].staged = "staged/x";
  REFUSED("results[1].staged");
  results[1].staged = "staged/../staged/x";
  REFUSED("results[1].staged");
  results[0].map_kind = SYMLEASE_MAP_SPARSE;
  results[0].edges = edges;
  results[0].edge_count = 1;
  results[1].staged = "staged/x.map";
  REFUSED("results[1].staged");
  results[1].staged = "corpus/seed";
  results[1].name = "seed";
  REFUSED("in the corpus already");
  results[1].staged = "staged/y";
  results[1].flags = 99;
  REFUSED("results[1].flags");
  results[1].flags = 0;
  results[1].name = "a/b";
  REFUSED("results[1].name");
#undef REFUSED
  is("staged/x", "x");
  is("staged/x.map", "not a map");
  is("corpus/seed", "seed");
  /* without a map of ours the name beside a result is nobody's */
  results[0].map_kind = SYMLEASE_MAP_NONE;
  results[1].name = NULL;
  CHECK(symlease_commit(a, &lease, "corpus", results, 2) == SYMLEASE_OK);
  is("staged/x.map", "not a map");
  CHECK(symlease_replay_commits(a, NULL, 0, &replayed) == SYMLEASE_E_INVALID && replayed == 0);
  /* a commit of the caller's own is not symlease_commit's to finish */
  claim(a, "own manifest", &lease);
  CHECK(symlease_replay(a, lease.id, lease.token, accept, NULL) == SYMLEASE_CONFLICT);
  CHECK(strstr(symlease_last_error(), "has not begun") != NULL);
  CHECK(symlease_begin_commit(a, &lease, "{\"m\":1}") == SYMLEASE_OK);
  CHECK(symlease_commit(a, &lease, "corpus", NULL, 0) == SYMLEASE_E_MISMATCH);
  CHECK(strstr(symlease_last_error(), "symlease_replay") != NULL);
  CHECK(symlease_replay(a, lease.id, lease.token, accept, NULL) == SYMLEASE_OK);
}

int main(int count, char **arguments) {
  symlease_campaign *a;
  symlease_lease lease;
  symlease_result results[3];
  const symlease_edge edges[] = {{4, 1}, {8, 2}}, same[] = {{4, 1}};
  uint8_t map[64] = {0, 1};
  uint64_t replayed = 9;
  int state;
  pid_t child;
  CHECK(count == 2 && chdir(arguments[1]) == 0);
  CHECK(mkdir("staged", 0700) == 0);
  a = open_here(".");

  put("staged/one", "one");
  put("staged/two", "two");
  put("staged/three", "three");
  memset(results, 0, sizeof results);
  results[0].staged = "staged/one";
  results[0].map_kind = SYMLEASE_MAP_SPARSE;
  results[0].edges = edges;
  results[0].edge_count = 2;
  results[1].staged = "staged/two";
  results[1].map_kind = SYMLEASE_MAP_SPARSE;
  results[1].edges = same;
  results[1].edge_count = 1;
  results[2].staged = "staged/three";
  results[2].name = "3";
  results[2].map_kind = SYMLEASE_MAP_DENSE;
  results[2].map.bytes = map;
  results[2].map.len = sizeof map;
  claim(a, "first", &lease);
  CHECK(symlease_commit(a, &lease, "corpus", results, 3) == SYMLEASE_OK);
  CHECK(results[0].outcome == SYMLEASE_RESULT_PUBLISHED && results[0].novel_bits == 2);
  CHECK(results[1].outcome == SYMLEASE_RESULT_NOT_NOVEL && results[1].novel_bits == 0);
  CHECK(results[2].outcome == SYMLEASE_RESULT_PUBLISHED && results[2].novel_bits == 1);
  CHECK(strcmp(results[0].digest,
               "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed") == 0);
  CHECK(access("corpus/3", R_OK) == 0 && access("staged/two", F_OK) != 0);
  CHECK(symlease_commit(a, &lease, "corpus", results, 3) == SYMLEASE_DONE);

  own_files(a);
  memset(results, 0, sizeof results);
  claim(a, "bad", &lease);
  put("staged/bad", "bad");
  results[0].staged = "staged/bad";
  results[0].name = "../escape";
  CHECK(symlease_commit(a, &lease, "corpus", results, 1) == SYMLEASE_E_INVALID);
  results[0].name = NULL;
  results[0].map_kind = 9;
  CHECK(symlease_commit(a, &lease, "corpus", results, 1) == SYMLEASE_E_INVALID);
  results[0].map_kind = SYMLEASE_MAP_NONE;
  results[0].staged = "staged/absent";
  CHECK(symlease_commit(a, &lease, "corpus", results, 1) == SYMLEASE_E_IO);
  results[0].reserved[7] = 1;
  CHECK(symlease_commit(a, &lease, "corpus", results, 1) == SYMLEASE_E_INVALID);
  CHECK(symlease_commit(a, &lease, "corpus", NULL, 1) == SYMLEASE_E_INVALID);
  CHECK(symlease_commit(a, &lease, NULL, NULL, 0) == SYMLEASE_E_INVALID);
  CHECK(symlease_commit(a, &lease, "corpus", NULL, 0) == SYMLEASE_OK);

  /* F40, C7: a coordinator dies between the fence and the merge; without a
   * session its TTL decides */
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    symlease_campaign *dying = (session = SYMLEASE_SESSION_NONE, open_here("."));
    const symlease_edge fresh = {20, 1};
    claim(dying, "dying", &lease);
    put("staged/late", "late");
    memset(results, 0, sizeof results);
    results[0].staged = "staged/late";
    results[0].map_kind = SYMLEASE_MAP_SPARSE;
    results[0].edges = &fresh;
    results[0].edge_count = 1;
    die_in_clock = 1;
    (void)symlease_commit(dying, &lease, "corpus", results, 1);
    _exit(1);
  }
  CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 77);
  {
    symlease_counts counts;
    CHECK(symlease_read_counts(a, SYMLEASE_TABLE_WORK, &counts) == SYMLEASE_OK);
    CHECK(counts.committing == 1);
  }
  CHECK(symlease_replay_commits(a, "corpus", 0, &replayed) == SYMLEASE_OK && replayed == 0);
  now += 100.0;
  CHECK(symlease_replay_commits(a, "elsewhere", 0, &replayed) == SYMLEASE_OK && replayed == 0);
  CHECK(symlease_replay_commits(a, ".//corpus/", 0, &replayed) == SYMLEASE_OK && replayed == 1);
  CHECK(symlease_replay_commits(a, "corpus", 0, &replayed) == SYMLEASE_OK && replayed == 0);
  {
    const symlease_edge fresh = {20, 1};
    uint64_t unknown = 9;
    CHECK(symlease_coverage_known(a, &fresh, 1, &unknown) == SYMLEASE_OK && unknown == 0);
    CHECK(access("staged/late", F_OK) != 0 && access("staged/late.map", F_OK) != 0);
  }

  /* a manifest of the caller's own */
  claim(a, "own", &lease);
  CHECK(symlease_replay(a, lease.id, lease.token, accept, NULL) == SYMLEASE_CONFLICT);
  CHECK(symlease_begin_commit(a, &lease, "{\"m\":1}") == SYMLEASE_OK);
  CHECK(symlease_replay(a, lease.id, "other", accept, NULL) == SYMLEASE_STALE);
  CHECK(symlease_replay(a, lease.id, lease.token, NULL, NULL) == SYMLEASE_E_INVALID);
  CHECK(symlease_replay(a, lease.id, lease.token, refuse, &a) == SYMLEASE_E_CALLBACK);
  CHECK(symlease_verify(a, &lease) == SYMLEASE_COMMITTING);
  CHECK(symlease_replay(a, lease.id, lease.token, accept, NULL) == SYMLEASE_OK);
  CHECK(symlease_replay(a, lease.id, lease.token, accept, NULL) == SYMLEASE_ALREADY);
  symlease_close(a);
  return 0;
}
