/* Listings and looking: F23, F27, F36. Argument: an empty directory. */
#include "operations.h"

static long worlds;

#define IDS 60

struct seen {
  char last[SYMLEASE_ID_SIZE];
  int count, wrong;
};

/* Rising ids: none comes twice. */
static int visit(void *user, const symlease_view *view) {
  struct seen *seen = user;
  if (strcmp(view->id, seen->last) <= 0) seen->wrong++;
  strcpy(seen->last, view->id);
  seen->count++;
  if (view->life != SYMLEASE_LIFE_LIVE) seen->wrong += 1000;
  return 0;
}

static unsigned random_state;

static unsigned next_random(void) {
  return (random_state = random_state * 1103515245 + 12345) >> 16;
}

/* As tmpfs may: a name that is replaced meanwhile is missing, or there twice. */
static int odd_listing(const char *name) {
  (void)name;
  return (int)(next_random() % 3);
}

static void f23_names_missing_or_twice_in_a_listing(const char *root) {
  symlease_campaign *a = open_fault(root, "a"), *b = open_fault(root, "b");
  symlease_lease leases[IDS], lease;
  symlease_group group;
  const uint64_t targets[] = {1, 2, 3};
  int i, round, least = IDS;
  shim_no_syncs = 1;
  for (i = 0; i < IDS; i++) {
    char id[SYMLEASE_ID_SIZE];
    numbered_id(i, id);
    memset(&leases[i], 0, sizeof leases[i]);
    CHECK(symlease_claim(a, id, NULL, &leases[i], NULL) == SYMLEASE_OK);
  }
  memset(&group, 0, sizeof group);
  CHECK(symlease_group_claim(a, targets, 3, NULL, &group, NULL) == SYMLEASE_OK);
  shim_listing = odd_listing;
  for (round = 0; round < 60; round++) {
    struct seen seen;
    symlease_counts counts;
    uint64_t replayed;
    memset(&seen, 0, sizeof seen);
    random_state = (unsigned)round;
    CHECK(symlease_scan(b, SYMLEASE_TABLE_WORK, SYMLEASE_SCAN_ALL, NULL, 0, visit, &seen) == 0);
    CHECK(seen.wrong == 0 && seen.count <= IDS);
    if (seen.count < least) least = seen.count;
    CHECK(symlease_read_counts(b, SYMLEASE_TABLE_WORK, &counts) == SYMLEASE_OK);
    CHECK(counts.leased <= IDS && counts.corrupt == 0 && counts.expired == 0 && counts.done == 0);
    memset(&seen, 0, sizeof seen);
    CHECK(symlease_list_expired(b, SYMLEASE_TTL_RECORD, 0, visit, &seen) == 0 && seen.count == 0);
    CHECK(symlease_list_commits(b, 0, visit, &seen) == 0 && seen.count == 0);
    CHECK(symlease_replay_commits(b, root, 0, &replayed) == SYMLEASE_OK && replayed == 0);
    /* a name that was not listed is not free */
    i = round % IDS;
    CHECK(symlease_claim(b, leases[i].id, NULL, &lease, NULL) == SYMLEASE_HELD);
    CHECK(symlease_group_claim(b, targets, 3, NULL, &group, NULL) == SYMLEASE_HELD);
  }
  shim_listing = NULL;
  printf("  the shortest scan saw %d of %d\n", least, IDS);
  CHECK(least < IDS);
  symlease_close(a);
  symlease_close(b);
}

/* Whatever this file system does while four processes replace records. */
static void f23_scans_while_records_are_replaced(const char *root) {
  symlease_campaign *b;
  pid_t writers[4];
  int i, k, round, all = rounds(60), state, least = IDS;
  double later = *fault_time;
  for (k = 0; k < 4; k++) {
    writers[k] = fork();
    CHECK(writers[k] >= 0);
    if (writers[k] == 0) {
      symlease_campaign *a = open_fault(root, "a");
      symlease_lease leases[IDS / 4];
      shim_no_syncs = 1;
      for (i = 0; i < IDS / 4; i++) {
        char id[SYMLEASE_ID_SIZE];
        numbered_id(k * IDS / 4 + i, id);
        memset(&leases[i], 0, sizeof leases[i]);
        CHECK(symlease_claim(a, id, NULL, &leases[i], NULL) == SYMLEASE_OK);
      }
      for (;;) CHECK(symlease_heartbeat_many(a, leases, IDS / 4, NULL) == SYMLEASE_OK);
    }
  }
  b = open_fault(root, "b");
  for (i = 0, round = 0; i < 3000; i++) { /* until all are there */
    symlease_counts counts;
    if (symlease_read_counts(b, SYMLEASE_TABLE_WORK, &counts) == SYMLEASE_OK && counts.leased == IDS) break;
    nap(10000);
  }
  CHECK(i < 3000 && later == *fault_time);
  for (round = 0; round < all; round++) {
    struct seen seen;
    memset(&seen, 0, sizeof seen);
    CHECK(symlease_scan(b, SYMLEASE_TABLE_WORK, SYMLEASE_SCAN_ALL, NULL, 0, visit, &seen) == 0);
    CHECK(seen.wrong == 0 && seen.count <= IDS);
    if (seen.count < least) least = seen.count;
    memset(&seen, 0, sizeof seen);
    CHECK(symlease_list_expired(b, SYMLEASE_TTL_RECORD, 0, visit, &seen) == 0 && seen.count == 0);
  }
  for (k = 0; k < 4; k++) {
    CHECK(kill(writers[k], SIGKILL) == 0 && waitpid(writers[k], &state, 0) == writers[k]);
    CHECK(WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL);
  }
  printf("  the shortest scan saw %d of %d\n", least, IDS);
  symlease_close(b);
}

static int changes;

static int a_change(enum shim_call call, const char *path) {
  int changed = call == SHIM_WRITE || call == SHIM_RENAME || call == SHIM_LINK || call == SHIM_UNLINK ||
                call == SHIM_MKDIR || (call == SHIM_OPEN && (shim_open_flags & O_CREAT));
  if (changed) fprintf(stderr, "looking: %s %s\n", shim_name(call), path);
  changes += changed;
  return 0;
}

static int any(void *user, const symlease_view *view) {
  (void)view;
  ++*(int *)user;
  return 0;
}

/* A campaign with everything damaged that can be: looking makes no call that
 * changes anything. */
static void f27_looking_repairs_nothing(const char *root) {
  static const char *const damaged[] = {".coverage_owner/state/0001.json", ".coverage_owner/map.json",
                                        ".coverage_owner/coordinators/0000.json",
                                        ".coverage_owner/.coverage-claim-transaction.json",
                                        ".work_lease_table/fence.json"};
  size_t i;
  for (i = 0; i <= sizeof damaged / sizeof *damaged; i++) {
    struct world world;
    symlease_campaign *reader = NULL;
    symlease_options options = fault_options("reader");
    symlease_counts counts;
    symlease_counters counters;
    uint64_t number, bits;
    uint32_t index;
    uint8_t map[64];
    path_text path;
    char *before, *after, *json = NULL, owner[SYMLEASE_OWNER_SIZE];
    int seen = 0, flags;
    memset(map, 0, sizeof map);
    begin_world(&world, root, worlds++, named("heartbeat all"));
    CHECK(named("merge of many shards")->run(&world) == SYMLEASE_OK);
    CHECK(symlease_coverage_heartbeat(world.a) == SYMLEASE_OK);
    record_path(path, world.root, ".work_lease_table", world.lease.id);
    write_file(path, "{\"schema\":1", 11);
    strcat(path, ".7.ff.tmp");
    write_file(path, "half", 4);
    if (i < sizeof damaged / sizeof *damaged) {
      below(path, world.root, damaged[i]);
      write_file(path, "{", 1);
    }
    for (flags = 0; flags <= SYMLEASE_OPEN_READ_ONLY; flags += SYMLEASE_OPEN_READ_ONLY) {
      before = snapshot(world.root);
      changes = 0;
      memset(&shim, 0, sizeof shim);
      shim.call = SHIM_ANY;
      shim.hook = a_change;
      shim.below = world.root;
      options.flags = (uint32_t)flags;
      if (symlease_open(world.root, &options, &reader) == SYMLEASE_OK) {
        CHECK(symlease_read_counts(reader, SYMLEASE_TABLE_WORK, &counts) == SYMLEASE_OK);
        CHECK(counts.corrupt == 1 && counts.leased == 1);
        CHECK(symlease_read_counts(reader, SYMLEASE_TABLE_TARGET, &counts) == SYMLEASE_OK);
        CHECK(symlease_scan(reader, SYMLEASE_TABLE_WORK, SYMLEASE_SCAN_ALL, NULL, 0, any, &seen) == 0);
        CHECK(symlease_list_expired(reader, SYMLEASE_TTL_RECORD, 0, any, &seen) == 0);
        CHECK(symlease_list_commits(reader, 0, any, &seen) == 0);
        CHECK(symlease_read_record(reader, SYMLEASE_TABLE_WORK, world.lease.id, &json) == SYMLEASE_E_CORRUPT);
        symlease_verify(reader, &world.other);
        symlease_group_verify(reader, &world.group);
        symlease_coverage_totals(reader, &number, &bits);
        symlease_coverage_pull(reader, map, sizeof map, &bits);
        symlease_coverage_owner(reader, 1, &index, owner);
        if (symlease_read_stats(reader, &json) == SYMLEASE_OK) symlease_string_free(json);
        CHECK(symlease_read_counters(reader, &counters) == SYMLEASE_OK);
        symlease_close(reader);
      }
      CHECK(shim.seen[SHIM_ANY] > 0);
      shim_end();
      after = snapshot(world.root);
      CHECK(changes == 0 && strcmp(before, after) == 0);
      free(before);
      free(after);
    }
    end_world(&world);
  }
}

static int listed;

/* Directories that grow with the records: a lease table's folders, and the
 * shards'. (Those of intents and transactions are all but always empty.) */
static int a_listing(enum shim_call call, const char *path) {
  const char *last = strrchr(path, '/') + 1;
  (void)call;
  if (strcmp(last, "state") != 0 && strspn(last, "0123456789") != 3) return 0;
  listed++;
  fprintf(stderr, "lists %s\n", path);
  return 0;
}

/* Every changing call, and verify, in a campaign of SYMLEASE_TEST_RECORDS
 * records: none lists, so their number is no matter. (The first change of a
 * handle with a session sweeps; these have none.) */
static void f36_hot_calls_list_no_directory(const char *root) {
  const char *wanted = getenv("SYMLEASE_TEST_RECORDS");
  int i, others = wanted ? atoi(wanted) : 100;
  size_t k;
  long listings = 0;
  for (k = 0; k < operation_count; k++) {
    struct world world;
    symlease_lease lease;
    char id[SYMLEASE_ID_SIZE];
    begin_world(&world, root, worlds++, &operations[k]);
    for (i = 0; i < others; i++) {
      numbered_id(i, id);
      memset(&lease, 0, sizeof lease);
      CHECK(symlease_claim(world.a, id, NULL, &lease, NULL) == SYMLEASE_OK);
    }
    memset(&shim, 0, sizeof shim);
    shim.call = SHIM_LIST;
    shim.hook = a_listing;
    shim.below = world.root;
    CHECK(operations[k].run(&world) == SYMLEASE_OK);
    if (strcmp(operations[k].name, "heartbeat") == 0)
      CHECK(symlease_verify(world.a, &world.lease) == SYMLEASE_OK);
    CHECK(listed == 0);
    listings += shim.seen[SHIM_LIST];
    shim.seen[SHIM_LIST] = 0;
    /* else the shim sees no listing at all */
    shim.hook = NULL;
    CHECK(symlease_scan(world.a, SYMLEASE_TABLE_WORK, SYMLEASE_SCAN_ALL, NULL, 0, any, &i) == 0);
    shim_end();
    CHECK(shim.seen[SHIM_LIST] > 0);
    end_world(&world);
  }
  printf("  %ld listings of directories that do not grow\n", listings);
}

int main(int count, char **arguments) {
  static const struct fault faults[] = {
      FAULT(f23_names_missing_or_twice_in_a_listing),
      FAULT(f23_scans_while_records_are_replaced),
      FAULT(f27_looking_repairs_nothing),
      FAULT(f36_hot_calls_list_no_directory),
  };
  return run_faults(count, arguments, faults, sizeof faults / sizeof *faults);
}
