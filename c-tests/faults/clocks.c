/* Clocks, fences and TTLs: F28, F30, F31, F35. Argument: an empty directory. */
#include <time.h>

#include "operations.h"

static long worlds;

static const double steps[] = {3600.0, -3600.0, -1786060800.0, 1e10, 1e18, 0.5};

static int none(void *user, const symlease_view *view) {
  (void)user;
  (void)view;
  return 0;
}

/* The system's own clock steps between any two calls of a holder's life; the
 * other one takes over as soon as it may, and then the holder cannot commit. */
static void f28_clock_steps_between_any_two_calls(const char *root) {
  static const double starts[] = {0.0, -1786060700.0, 7500000000.0, 1e12};
  size_t s, t, at;
  for (s = 0; s < sizeof starts / sizeof *starts; s++)
    for (t = 0; t < sizeof steps / sizeof *steps; t++)
      for (at = 0; at < 6; at++) {
        symlease_options options = fault_options("a");
        symlease_campaign *a, *b;
        symlease_lease mine, theirs;
        symlease_group group;
        symlease_counts counts;
        const uint64_t targets[] = {1, 2};
        char id[SYMLEASE_ID_SIZE], place[64];
        path_text below_root;
        int step = 0, commits = 0;
        symlease_status status;
        options.clock = NULL; /* CLOCK_REALTIME, which the shim moves */
        shim_no_syncs = 1;
        shim_clock_shift = starts[s];
        snprintf(place, sizeof place, "%ld", worlds++);
        below(below_root, root, place);
        a = open_with(below_root, &options);
        options.owner = "b";
        b = open_with(below_root, &options);
        memset(&mine, 0, sizeof mine);
        memset(&theirs, 0, sizeof theirs);
        memset(&group, 0, sizeof group);
        CHECK(symlease_work_id("work", 4, id) == SYMLEASE_OK);
#define STEP \
  if ((size_t)step++ == at) shim_clock_shift += steps[t]
        /* before 1970 there is no time: E_INVALID, as from any clock */
#define JUDGED(call, others) \
  (status = (call), status == SYMLEASE_OK || status == SYMLEASE_E_INVALID || (others))
        STEP;
        CHECK(JUDGED(symlease_claim(a, id, NULL, &mine, NULL), 0));
        STEP;
        CHECK(JUDGED(symlease_heartbeat(a, &mine), status == SYMLEASE_STALE));
        STEP;
        CHECK(JUDGED(symlease_group_claim(a, targets, 2, NULL, &group, NULL), 0));
        STEP;
        CHECK(JUDGED(symlease_group_heartbeat(a, &group), status == SYMLEASE_STALE));
        STEP;
        CHECK(JUDGED(symlease_read_counts(b, SYMLEASE_TABLE_WORK, &counts), 0));
        CHECK(JUDGED(symlease_list_expired(b, SYMLEASE_TTL_RECORD, 0, none, NULL), 0));
        CHECK(JUDGED(symlease_claim(b, id, NULL, &theirs, NULL),
                     status == SYMLEASE_HELD || status == SYMLEASE_E_LIMIT));
        if (status == SYMLEASE_OK) CHECK(*mine.id == 0 || theirs.fence > mine.fence);
        STEP;
        if (*theirs.id) {
          commits += symlease_begin_commit(a, &mine, "{}") == SYMLEASE_OK;
          commits += symlease_complete(a, &mine) == SYMLEASE_OK;
          CHECK(*mine.id == 0 || commits == 0); /* stale, whatever the clock says */
          CHECK(JUDGED(symlease_complete(b, &theirs), 0));
        } else if (*mine.id) {
          /* not immortal: a handle that sees a record from the future go
           * unchanged for a TTL, or an operator, takes it */
          symlease_claim_options over;
          memset(&over, 0, sizeof over);
          over.struct_size = sizeof over;
          over.flags = SYMLEASE_CLAIM_TAKEOVER;
          shim_clock_shift = 0;
          CHECK(symlease_claim_with(b, id, NULL, &over, &theirs, NULL) == SYMLEASE_OK);
          CHECK(theirs.fence > mine.fence);
          CHECK(symlease_begin_commit(a, &mine, "{}") == SYMLEASE_STALE);
        }
        symlease_close(a);
        symlease_close(b);
        shim_clock_shift = 0;
        remove_tree(below_root);
      }
  printf("  %ld lives\n", worlds);
}

/* A record from the future is observed for its TTL, then taken. */
static void f28_record_from_the_future_is_not_immortal(const char *root) {
  symlease_options options = fault_options("b");
  symlease_campaign *a = open_fault(root, "a"), *b;
  symlease_lease lease;
  char id[SYMLEASE_ID_SIZE];
  symlease_claim_options brief;
  int i;
  symlease_status status;
  memset(&brief, 0, sizeof brief);
  brief.struct_size = sizeof brief;
  brief.new_ttl = 0.2;
  b = open_with(root, &options);
  memset(&lease, 0, sizeof lease);
  CHECK(symlease_work_id("work", 4, id) == SYMLEASE_OK);
  *fault_time += 1e6; /* a's clock */
  CHECK(symlease_claim_with(a, id, NULL, &brief, &lease, NULL) == SYMLEASE_OK);
  *fault_time -= 1e6;
  for (i = 0; i < 2000; i++) {
    status = symlease_claim(b, id, NULL, &lease, NULL);
    if (status != SYMLEASE_HELD) break;
    nap(10000);
  }
  CHECK(status == SYMLEASE_OK && i > 0 && lease.steals == 1);
  symlease_close(a);
  symlease_close(b);
}

/* Whatever happened to the record, and though the clock is behind. */
static void f30_fence_never_falls(const char *root) {
  symlease_campaign *a = open_fault(root, "a"), *b = open_fault(root, "b");
  symlease_lease lease, old;
  path_text path, floor;
  char id[SYMLEASE_ID_SIZE], *backup, text[64];
  uint64_t last, kept;
  size_t size;
  int round;
  memset(&lease, 0, sizeof lease);
  CHECK(symlease_work_id("work", 4, id) == SYMLEASE_OK);
  record_path(path, root, ".work_lease_table", id);
  CHECK(symlease_claim(a, id, NULL, &lease, NULL) == SYMLEASE_OK);
  backup = read_file(path, &size);
  CHECK(backup && lease.fence > 1786060800000000000u); /* the wall clock carries it */
  last = lease.fence;
  for (round = 0; round < 5; round++) { /* abandoned; the clock an hour back each time */
    CHECK(symlease_abandon(round % 2 ? b : a, &lease) == SYMLEASE_OK);
    *fault_time -= 3600;
    CHECK(symlease_claim(round % 2 ? a : b, id, NULL, &lease, NULL) == SYMLEASE_OK);
    CHECK(lease.fence == last + 1);
    last = lease.fence;
  }
  old = lease;
  kept = last;
  /* deleted: the floor remembers, then the clock */
  below(floor, root, ".work_lease_table/fence.json");
  snprintf(text, sizeof text, "{\"floor\":%llu,\"schema\":1}\n", (unsigned long long)(last + 10));
  write_file(floor, text, strlen(text));
  CHECK(unlink(path) == 0);
  symlease_close(a);
  a = open_fault(root, "a");
  CHECK(symlease_claim(a, id, NULL, &lease, NULL) == SYMLEASE_OK && lease.fence == last + 11);
  CHECK(symlease_heartbeat(b, &old) == SYMLEASE_STALE);
  last = lease.fence;
  /* yesterday's backup, restored: the floor again, though the record is older */
  snprintf(text, sizeof text, "{\"floor\":%llu,\"schema\":1}\n", (unsigned long long)(last + 20));
  write_file(floor, text, strlen(text));
  write_file(path, backup, size);
  symlease_close(a);
  a = open_fault(root, "a");
  *fault_time += 20;
  {
    symlease_claim_options over;
    memset(&over, 0, sizeof over);
    over.struct_size = sizeof over;
    over.flags = SYMLEASE_CLAIM_TAKEOVER;
    CHECK(symlease_claim_with(a, id, NULL, &over, &lease, NULL) == SYMLEASE_OK);
  }
  CHECK(lease.fence == last + 21 && symlease_complete(b, &old) == SYMLEASE_STALE);
  last = lease.fence;
  /* no memory is left: the wall clock */
  CHECK(unlink(path) == 0 && unlink(floor) == 0);
  symlease_close(a);
  a = open_fault(root, "a");
  *fault_time = 1786060900.0 + 86400;
  CHECK(symlease_claim(a, id, NULL, &lease, NULL) == SYMLEASE_OK);
  CHECK(lease.fence > last && lease.fence > kept);
  free(backup);
  symlease_close(a);
  symlease_close(b);
}

/* The record's TTL decides, in both directions; the reader's where it has none. */
static void f31_the_ttl_in_the_record_decides(const char *root) {
  symlease_options options = fault_options("long");
  symlease_campaign *a, *b;
  symlease_lease lease, taken;
  symlease_claim_options judged;
  symlease_counts counts;
  path_text path;
  char id[SYMLEASE_ID_SIZE], *bytes, *ttl, *end;
  size_t size;
  options.work_ttl = 1000;
  a = open_with(root, &options);
  options.owner = "short";
  options.work_ttl = 1;
  b = open_with(root, &options);
  memset(&lease, 0, sizeof lease);
  memset(&taken, 0, sizeof taken);
  CHECK(symlease_work_id("long", 4, id) == SYMLEASE_OK);
  CHECK(symlease_claim(a, id, NULL, &lease, NULL) == SYMLEASE_OK && lease.ttl == 1000);
  *fault_time += 500;
  CHECK(symlease_claim(b, id, NULL, &taken, NULL) == SYMLEASE_HELD);
  CHECK(symlease_read_counts(b, SYMLEASE_TABLE_WORK, &counts) == SYMLEASE_OK && counts.expired == 0);
  CHECK(symlease_heartbeat(b, &lease) == SYMLEASE_OK && lease.ttl == 1000); /* nor does it change */
  *fault_time += 999;
  CHECK(symlease_claim(b, id, NULL, &taken, NULL) == SYMLEASE_HELD);
  memset(&judged, 0, sizeof judged);
  judged.struct_size = sizeof judged;
  judged.ttl = 5; /* for that call */
  CHECK(symlease_claim_with(b, id, NULL, &judged, &taken, NULL) == SYMLEASE_OK && taken.ttl == 1);
  *fault_time += 2;
  CHECK(symlease_read_counts(a, SYMLEASE_TABLE_WORK, &counts) == SYMLEASE_OK && counts.expired == 1);
  CHECK(symlease_claim(a, id, NULL, &lease, NULL) == SYMLEASE_OK && lease.ttl == 1000);
  /* a peer wrote none */
  record_path(path, root, ".work_lease_table", id);
  bytes = read_file(path, &size);
  ttl = strstr(bytes, "\"ttl\":");
  CHECK(ttl);
  end = strchr(ttl, ',');
  memmove(ttl, end + 1, strlen(end + 1) + 1);
  write_file(path, bytes, strlen(bytes));
  free(bytes);
  *fault_time += 500;
  CHECK(symlease_read_counts(a, SYMLEASE_TABLE_WORK, &counts) == SYMLEASE_OK && counts.expired == 0);
  CHECK(symlease_read_counts(b, SYMLEASE_TABLE_WORK, &counts) == SYMLEASE_OK && counts.expired == 1);
  CHECK(symlease_claim(b, id, NULL, &taken, NULL) == SYMLEASE_OK);
  symlease_close(a);
  symlease_close(b);
}

/* How often a lock was tried; each try on a held lock answers EAGAIN. */
static int hold(enum shim_call call, const char *path) {
  (void)call;
  (void)path;
  return EAGAIN;
}

static double seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void f35_lock_timeouts(const char *root) {
  static const double timeouts[] = {-1.0, -1e300, 1e-6, 0.0015, 0.05};
  size_t i;
  for (i = 0; i < sizeof timeouts / sizeof *timeouts; i++) {
    struct world world;
    symlease_options options = fault_options("a");
    symlease_counters counters;
    double start;
    options.lock_timeout = timeouts[i];
    begin_world(&world, root, worlds++, named("heartbeat"));
    symlease_close(world.a);
    world.a = open_with(world.root, &options);
    memset(&shim, 0, sizeof shim);
    shim.call = SHIM_LOCK;
    shim.hook = hold;
    shim.below = world.root;
    start = seconds();
    CHECK(named("heartbeat")->run(&world) == SYMLEASE_E_TIMEOUT);
    CHECK(shim_end() >= 1); /* one try is everybody's */
    if (timeouts[i] < 0) CHECK(shim.fired == 1);
    CHECK(timeouts[i] < 0 || seconds() - start >= timeouts[i]); /* nor given up before */
    CHECK(symlease_read_counters(world.a, &counters) == SYMLEASE_OK && counters.timeouts <= 1);
    CHECK(named("heartbeat")->run(&world) == SYMLEASE_OK);
    end_world(&world);
  }
  {
    /* for ever is for as long as it takes: no overflow into "at once" */
    symlease_options options = fault_options("a");
    struct world world;
    options.lock_timeout = 1e300;
    begin_world(&world, root, worlds++, named("heartbeat"));
    symlease_close(world.a);
    world.a = open_with(world.root, &options);
    memset(&shim, 0, sizeof shim);
    shim.call = SHIM_LOCK;
    shim.at = 1; /* the first try alone */
    shim.error = EAGAIN;
    shim.below = world.root;
    CHECK(named("heartbeat")->run(&world) == SYMLEASE_OK);
    CHECK(shim_end() == 1);
    end_world(&world);
  }
}

int main(int count, char **arguments) {
  static const struct fault faults[] = {
      FAULT(f28_clock_steps_between_any_two_calls),
      FAULT(f28_record_from_the_future_is_not_immortal),
      FAULT(f30_fence_never_falls),
      FAULT(f31_the_ttl_in_the_record_decides),
      FAULT(f35_lock_timeouts),
  };
  return run_faults(count, arguments, faults, sizeof faults / sizeof *faults);
}
