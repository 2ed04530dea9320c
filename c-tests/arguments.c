/* F20, F32 and the rules of the header: every function with NULL, bad ids, bad
 * UTF-8, wrong sizes, reserved fields that are set and unknown flags is
 * E_INVALID, in words that name the argument, and writes nothing.
 * Argument: an empty directory. */
#include <math.h>

#include "check.h"

static int failures;

static void refused_at(int line, symlease_status status, symlease_status wanted,
                       const char *word) {
  if (status == wanted && strstr(symlease_last_error(), word)) return;
  fprintf(stderr, "%s:%d: %s, wanted %s naming \"%s\": %s\n", __FILE__, line,
          symlease_status_name(status), symlease_status_name(wanted), word,
          symlease_last_error());
  failures++;
}

#define INVALID(call, word) refused_at(__LINE__, call, SYMLEASE_E_INVALID, word)
#define REFUSED(call, wanted, word) refused_at(__LINE__, call, wanted, word)

static int visit(void *user, const symlease_view *view) {
  (void)view;
  ++*(int *)user;
  return 0;
}

static double wrong_time;

static double wrong_clock(void *user) {
  (void)user;
  return wrong_time;
}

static char id[SYMLEASE_ID_SIZE];

static void without_campaign(void) {
  char out[SYMLEASE_ID_SIZE] = "untouched";
  uint8_t bytes[4] = {1, 2, 3, 4};
  INVALID(symlease_work_id(NULL, 1, out), "bytes");
  INVALID(symlease_work_id("x", 1, NULL), "id");
  INVALID(symlease_work_id_json(NULL, out), "payload");
  INVALID(symlease_work_id_json("{", out), "payload");
  INVALID(symlease_work_id_json("\"\xff\"", out), "payload");
  INVALID(symlease_work_id_json("{}", NULL), "id");
  INVALID(symlease_target_id(1, NULL), "id");
  INVALID(symlease_coverage_classify(NULL, bytes, 4), "counts");
  INVALID(symlease_coverage_classify(bytes, NULL, 4), "bits");
  INVALID(symlease_coverage_classify(bytes, bytes + 1, 3), "bits");
  CHECK(strcmp(out, "untouched") == 0);
  CHECK(symlease_work_id(NULL, 0, out) == SYMLEASE_OK);
  CHECK(symlease_coverage_classify(NULL, NULL, 0) == SYMLEASE_OK);
  CHECK(strcmp(symlease_status_name(12345), "SYMLEASE_UNKNOWN") == 0);
  symlease_options_init(NULL, 8);
  symlease_string_free(NULL);
  symlease_close(NULL);
}

static void opening(const char *root) {
  symlease_campaign *out = NULL;
  struct {
    symlease_options known;
    char more[16];
  } larger;
  symlease_options options;
  static char long_owner[300];
  memset(long_owner, 'o', sizeof long_owner - 1);
#define WRONG(field, value, word)                     \
  symlease_options_init(&options, sizeof options);    \
  options.field = value;                              \
  INVALID(symlease_open(root, &options, &out), word)
  INVALID(symlease_open(NULL, NULL, &out), "root");
  INVALID(symlease_open(root, NULL, NULL), "out");
  WRONG(struct_size, 0, "struct_size");
  WRONG(struct_size, 3, "struct_size");
  WRONG(struct_size, sizeof options - 1, "struct_size");
  WRONG(reserved, 1, "reserved");
  WRONG(owner, "\xff", "owner");
  WRONG(owner, long_owner, "owner");
  WRONG(work_ttl, NAN, "work_ttl");
  WRONG(work_ttl, -1.0, "work_ttl");
  WRONG(work_ttl, INFINITY, "work_ttl");
  WRONG(work_ttl, 86401.0, "work_ttl");
  WRONG(target_ttl, NAN, "target_ttl");
  WRONG(lock_timeout, NAN, "lock_timeout");
  WRONG(file_mode, 010000, "file_mode");
  WRONG(flags, 4, "flags");
  WRONG(engine, 9, "engine");
  WRONG(durability, 9, "durability");
  WRONG(expiry, 9, "expiry");
  WRONG(session, 9, "session");
  INVALID(symlease_open("", NULL, &out), "root");
  WRONG(map_identity, "\xc3", "map_identity");
  WRONG(clock_skew, -1.0, "clock_skew");
  WRONG(coverage_ttl, NAN, "coverage_ttl");
  WRONG(coverage_shards, 4097, "coverage_shards");
  WRONG(coordinator_index, 1, "coordinator_index");
#undef WRONG
  symlease_options_init(&options, sizeof options);
  options.work_root = "one";
  options.coverage_root = "./one/";
  INVALID(symlease_open(NULL, &options, &out), "coverage_root");
  memset(&larger, 0, sizeof larger);
  larger.known.struct_size = sizeof larger;
  CHECK(symlease_open(root, &larger.known, &out) == SYMLEASE_OK);
  symlease_close(out);
  out = NULL;
  larger.more[5] = 1;
  REFUSED(symlease_open(root, &larger.known, &out), SYMLEASE_E_UNSUPPORTED, "options");
  CHECK(out == NULL);
}

static void work(symlease_campaign *a) {
  static const char *const ids[] = {
      "", "short", "x3258cff783fe7036d8a43033f830adfc60ec037382473548ac742b888292777",
      "A3258cff783fe7036d8a43033f830adfc60ec037382473548ac742b888292777",
      "43258cff783fe7036d8a43033f830adfc60ec037382473548ac742b8882927770",
      "../../../../../../../../../../../../../../../../../../../../tmp/x", "\xff"};
  symlease_claim_options options;
  symlease_lease lease, held;
  symlease_holder holder;
  symlease_status results[2];
  char *json = NULL;
  size_t i;
  memset(&lease, 0, sizeof lease);
  memset(&held, 0, sizeof held);
  memset(&holder, 0, sizeof holder);
  INVALID(symlease_claim(NULL, id, NULL, &lease, NULL), "campaign");
  INVALID(symlease_claim(a, NULL, NULL, &lease, NULL), "id");
  INVALID(symlease_claim(a, id, NULL, NULL, NULL), "lease");
  for (i = 0; i < sizeof ids / sizeof *ids; i++) {
    INVALID(symlease_claim(a, ids[i], NULL, &lease, &holder), "id");
    INVALID(symlease_read_record(a, SYMLEASE_TABLE_WORK, ids[i], &json), "id");
  }
  INVALID(symlease_claim(a, id, "[]", &lease, NULL), "payload");
  INVALID(symlease_claim(a, id, "{", &lease, NULL), "payload");
  INVALID(symlease_claim(a, id, "{\"a\":1,\"a\":2}", &lease, NULL), "payload");
  INVALID(symlease_claim(a, id, "{\"a\":\"\xff\"}", &lease, NULL), "payload");
#define WRONG(field, value, word)        \
  memset(&options, 0, sizeof options);   \
  options.struct_size = sizeof options;  \
  options.field = value;                 \
  INVALID(symlease_claim_with(a, id, NULL, &options, &lease, NULL), word)
  WRONG(struct_size, 0, "struct_size");
  WRONG(struct_size, sizeof options - 1, "struct_size");
  WRONG(owner, "\xff", "owner");
  WRONG(owner, "", "owner");
  WRONG(ttl, NAN, "ttl"); /* F20 */
  WRONG(ttl, -1.0, "ttl");
  WRONG(new_ttl, INFINITY, "new_ttl");
  WRONG(new_ttl, 86401.0, "new_ttl");
  WRONG(now, NAN, "now");
  WRONG(now, -5.0, "now");
  WRONG(now, INFINITY, "now");
  WRONG(flags, 2, "flags");
#undef WRONG
  CHECK(lease.id[0] == 0 && lease.token[0] == 0 && holder.owner[0] == 0); /* outputs untouched */
  REFUSED(symlease_read_record(a, SYMLEASE_TABLE_WORK, id, &json), SYMLEASE_ABSENT, id);
  CHECK(json == NULL);

  CHECK(symlease_claim(a, id, NULL, &held, NULL) == SYMLEASE_OK);
#define BAD_LEASE(call)                                         \
  INVALID(call(NULL, &held), "campaign");                       \
  INVALID(call(a, NULL), "lease");                              \
  lease = held, lease.id[3] = 'X', INVALID(call(a, &lease), "id");             \
  lease = held, lease.id[64] = 'a', INVALID(call(a, &lease), "id");            \
  lease = held, lease.token[0] = 0, INVALID(call(a, &lease), "token");         \
  lease = held, lease.token[0] = '\xff', INVALID(call(a, &lease), "token");    \
  lease = held, memset(lease.token, 'a', sizeof lease.token), INVALID(call(a, &lease), "token"); \
  lease = held, lease.reserved[7] = 1, INVALID(call(a, &lease), "reserved")
  BAD_LEASE(symlease_verify);
  BAD_LEASE(symlease_heartbeat);
  BAD_LEASE(symlease_abandon);
#define begin(campaign, lease) symlease_begin_commit(campaign, lease, "{}")
  BAD_LEASE(begin);
#undef begin
  BAD_LEASE(symlease_complete);
#undef BAD_LEASE
  INVALID(symlease_begin_commit(a, &held, NULL), "manifest");
  INVALID(symlease_begin_commit(a, &held, "[]"), "manifest");
  INVALID(symlease_begin_commit(a, &held, "{\"\xff\":1}"), "manifest");
  INVALID(symlease_heartbeat_many(NULL, &held, 1, results), "campaign");
  INVALID(symlease_heartbeat_many(a, NULL, 1, results), "leases");
  INVALID(symlease_heartbeat_all(NULL, &held, 1, NULL, 0, NULL, NULL, NULL), "campaign");
  INVALID(symlease_heartbeat_all(a, NULL, 1, NULL, 0, NULL, NULL, NULL), "leases");
  INVALID(symlease_heartbeat_all(a, NULL, 0, NULL, 1, NULL, NULL, NULL), "groups");
  CHECK(symlease_heartbeat_many(a, NULL, 0, NULL) == SYMLEASE_OK);
  CHECK(symlease_verify(a, &held) == SYMLEASE_OK); /* none of these did anything */
}

static void groups(symlease_campaign *a) {
  const uint64_t some[] = {5, 7}, zeros[] = {0, 0}, top[] = {UINT64_MAX};
  uint64_t many[SYMLEASE_GROUP_MAX + 1];
  symlease_claim_options options;
  symlease_group group, held;
  int i;
  memset(&group, 0, sizeof group);
  memset(&held, 0, sizeof held);
  for (i = 0; i <= SYMLEASE_GROUP_MAX; i++) many[i] = (uint64_t)i + 100;
  INVALID(symlease_group_claim(NULL, some, 2, NULL, &group, NULL), "campaign");
  INVALID(symlease_group_claim(a, NULL, 1, NULL, &group, NULL), "targets"); /* F32 */
  INVALID(symlease_group_claim(a, NULL, 0, NULL, &group, NULL), "targets");
  INVALID(symlease_group_claim(a, zeros, 2, NULL, &group, NULL), "targets");
  INVALID(symlease_group_claim(a, some, 2, NULL, NULL, NULL), "group");
  INVALID(symlease_group_claim(a, some, 2, "7", &group, NULL), "payload");
  INVALID(symlease_group_claim(a, some, 2, "\xff", &group, NULL), "payload");
  REFUSED(symlease_group_claim(a, many, SYMLEASE_GROUP_MAX + 1, NULL, &group, NULL),
          SYMLEASE_E_LIMIT, "target");
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.flags = 8;
  INVALID(symlease_group_claim_with(a, some, 2, NULL, &options, &group, NULL), "flags");
  CHECK(group.count == 0 && group.token[0] == 0);
  CHECK(symlease_group_claim(a, top, 1, NULL, &group, NULL) == SYMLEASE_OK);
  CHECK(symlease_group_claim(a, some, 2, NULL, &held, NULL) == SYMLEASE_OK);
#define BAD_GROUP(call)                                         \
  INVALID(call(NULL, &held), "campaign");                       \
  INVALID(call(a, NULL), "group");                              \
  group = held, group.count = 0, INVALID(call(a, &group), "count");            \
  group = held, group.count = SYMLEASE_GROUP_MAX + 1, INVALID(call(a, &group), "count"); \
  group = held, group.token[0] = 0, INVALID(call(a, &group), "token");         \
  group = held, group.token[1] = '\xff', INVALID(call(a, &group), "token");    \
  group = held, group.reserved[0] = 1, INVALID(call(a, &group), "reserved")
  BAD_GROUP(symlease_group_heartbeat);
  BAD_GROUP(symlease_group_release);
  BAD_GROUP(symlease_group_verify);
#undef BAD_GROUP
  CHECK(symlease_group_verify(a, &held) == SYMLEASE_OK);
}

static void looking(symlease_campaign *a) {
  symlease_counts counts;
  symlease_counters counters;
  char *json = NULL;
  int shown = 0;
  INVALID(symlease_scan(NULL, 0, 1, NULL, 0, visit, &shown), "campaign");
  INVALID(symlease_scan(a, 7, 1, NULL, 0, visit, &shown), "table");
  INVALID(symlease_scan(a, SYMLEASE_TABLE_COVERAGE, 1, NULL, 0, visit, &shown), "table");
  INVALID(symlease_scan(a, 0, 0, NULL, 0, visit, &shown), "mask");
  INVALID(symlease_scan(a, 0, 16, NULL, 0, visit, &shown), "mask");
  INVALID(symlease_scan(a, 0, 1, "zz", 0, visit, &shown), "after_id");
  INVALID(symlease_scan(a, 0, 1, NULL, 0, NULL, &shown), "visit");
  INVALID(symlease_list_expired(NULL, 0.0, 0, visit, &shown), "campaign");
  INVALID(symlease_list_expired(a, NAN, 0, visit, &shown), "ttl");
  INVALID(symlease_list_expired(a, -2.0, 0, visit, &shown), "ttl");
  INVALID(symlease_list_expired(a, INFINITY, 0, visit, &shown), "ttl");
  INVALID(symlease_list_expired(a, 0.0, 0, NULL, &shown), "visit");
  INVALID(symlease_list_commits(NULL, 0, visit, &shown), "campaign");
  INVALID(symlease_list_commits(a, 0, NULL, &shown), "visit");
  CHECK(shown == 0);
  INVALID(symlease_read_record(NULL, 0, id, &json), "campaign");
  INVALID(symlease_read_record(a, 9, id, &json), "table");
  INVALID(symlease_read_record(a, 0, NULL, &json), "id");
  INVALID(symlease_read_record(a, 0, id, NULL), "json");
  INVALID(symlease_read_counts(NULL, 0, &counts), "campaign");
  INVALID(symlease_read_counts(a, 9, &counts), "table");
  INVALID(symlease_read_counts(a, 0, NULL), "counts");
  INVALID(symlease_read_counters(NULL, &counters), "campaign");
  INVALID(symlease_read_counters(a, NULL), "counters");
}

/* F20: a clock of NaN, infinity or before 1970 is E_INVALID; nothing is written. */
static void clocks(const char *root) {
  static const double times[] = {NAN, INFINITY, -INFINITY, -1.0};
  symlease_options options;
  symlease_campaign *a = NULL;
  symlease_lease lease;
  char other[SYMLEASE_ID_SIZE], *json = NULL;
  size_t i;
  symlease_options_init(&options, sizeof options);
  options.clock = wrong_clock;
  options.durability = SYMLEASE_DURABLE_PROCESS;
  CHECK(symlease_open(root, &options, &a) == SYMLEASE_OK);
  numbered_id(77, other);
  memset(&lease, 0, sizeof lease);
  for (i = 0; i < sizeof times / sizeof *times; i++) {
    wrong_time = times[i];
    INVALID(symlease_claim(a, other, NULL, &lease, NULL), "clock");
    CHECK(symlease_read_record(a, 0, other, &json) == SYMLEASE_ABSENT);
  }
  wrong_time = 1e9;
  CHECK(symlease_claim(a, other, NULL, &lease, NULL) == SYMLEASE_OK);
  symlease_close(a);
}

int main(int count, char **arguments) {
  symlease_campaign *a;
  CHECK(count == 2);
  numbered_id(0, id);
  without_campaign();
  a = open_plain(arguments[1], "a", 300.0);
  work(a);
  groups(a);
  looking(a);
  symlease_close(a);
  clocks(arguments[1]);
  opening(arguments[1]);
  return failures != 0;
}
