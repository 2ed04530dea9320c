/* Damaged files and odd values: F19, F20, F21, F27. Argument: an empty
 * directory. */
#include <math.h>
#include <sys/resource.h>

#include "operations.h"

/* Takes the file's good bytes; answers damaged ones, to be freed. */
struct damage {
  const char *name, *from, *to; /* the first `from` becomes `to` */
  int kind;
};
enum { REPLACE, PREFIX, FILL, APPEND, PREPEND, WHOLE };

static const struct damage damages[] = {
    {"0xFF bytes", NULL, "\xff", FILL},
    {"NUL bytes", NULL, "", FILL},
    {"NUL padding", NULL, "", APPEND},
    {"two documents", NULL, "{}", APPEND},
    {"a BOM", NULL, "\xef\xbb\xbf", PREPEND},
    {"an array", NULL, "[]\n", WHOLE},
    {"a string", NULL, "\"leased\"\n", WHOLE},
    {"null", NULL, "null\n", WHOLE},
    {"a duplicate key", "\"schema\":1", "\"schema\":1,\"schema\":1", REPLACE},
    {"schema as text", "\"schema\":1", "\"schema\":\"1\"", REPLACE},
    {"schema as a boolean", "\"schema\":1", "\"schema\":true", REPLACE},
    {"a bad escape", "\"schema\":1", "\"schema\":1,\"x\":\"\\q\"", REPLACE},
    {"invalid UTF-8", "\"schema\":1", "\"schema\":1,\"x\":\"\xc3\x28\"", REPLACE},
    {"a raw surrogate", "\"schema\":1", "\"schema\":1,\"x\":\"\xed\xa0\x80\"", REPLACE},
    {"a bare word", "\"schema\":1", "\"schema\":1,\"x\":NaN", REPLACE},
};

static char *damaged(const struct damage *damage, const char *good, size_t size, size_t *now) {
  size_t more = damage->to ? strlen(damage->to) : 0, at;
  char *bytes = calloc(1, size + more + 8), *place;
  CHECK(bytes);
  *now = size;
  switch (damage->kind) {
    case REPLACE:
      place = strstr(good, damage->from);
      CHECK(place);
      at = (size_t)(place - good);
      memcpy(bytes, good, at);
      memcpy(bytes + at, damage->to, more);
      memcpy(bytes + at + more, place + strlen(damage->from), size - at - strlen(damage->from));
      *now = size - strlen(damage->from) + more;
      break;
    case FILL: memset(bytes, more ? 0xff : 0, size); break;
    case APPEND:
      memcpy(bytes, good, size);
      memcpy(bytes + size, damage->to, more);
      *now = size + (more ? more : 8);
      break;
    case PREPEND:
      memcpy(bytes, damage->to, more);
      memcpy(bytes + more, good, size);
      *now = size + more;
      break;
    default:
      memcpy(bytes, damage->to, more);
      *now = more;
  }
  return bytes;
}

/* A file that is read, the operation that meets it, and one that does not. */
struct kept {
  const char *path, *meets, *passes;
};
static const struct kept files[] = {
    {"record", "heartbeat", "steal"},
    {".work_lease_table/symlease.json", "heartbeat", "merge"},
    {".coverage_owner/symlease.json", "merge", "steal"},
    {".coverage_owner/map.json", "first dense merge", "steal"},
    {".coverage_owner/state/0000.json", "merge", "steal"},
    {".coverage_owner/claim-transactions/"
     "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff.json",
     "merge", "steal"},
    {".coverage_owner/.coverage-claim-transaction.json", "merge", "steal"},
};

/* Good bytes of each kind; a transaction as a merge over many shards logs it. */
static char *transaction;
static size_t transaction_size;

static int keep_transaction(enum shim_call call, const char *path) {
  (void)call;
  if (!transaction && strstr(path, "/state/")) {
    path_text place;
    char *list;
    below(place, shim.below, ".coverage_owner/claim-transactions");
    list = snapshot(place);
    list[strcspn(list, " ")] = 0;
    transaction = read_file(list, &transaction_size);
    free(list);
  }
  return 0;
}

static void learn_transaction(const char *root) {
  struct world world;
  begin_world(&world, root, 999999, named("merge of many shards"));
  memset(&shim, 0, sizeof shim);
  shim.call = SHIM_RENAME;
  shim.hook = keep_transaction;
  shim.below = world.root;
  CHECK(named("merge of many shards")->run(&world) == SYMLEASE_OK);
  shim_end();
  CHECK(transaction && strstr(transaction, "transaction_sha256"));
  end_world(&world);
}

static int visited(void *user, const symlease_view *view) {
  int *corrupt = user;
  *corrupt += view->status == SYMLEASE_SCAN_CORRUPT;
  return 0;
}

/* Everything that only looks. */
static void look(symlease_campaign *campaign, const char *id, int *corrupt) {
  symlease_counts counts;
  uint64_t edges, bits;
  uint8_t map[4096];
  char *json = NULL;
  memset(map, 0, sizeof map);
  *corrupt = 0;
  symlease_read_counts(campaign, SYMLEASE_TABLE_WORK, &counts);
  symlease_read_counts(campaign, SYMLEASE_TABLE_TARGET, &counts);
  symlease_scan(campaign, SYMLEASE_TABLE_WORK, SYMLEASE_SCAN_ALL, NULL, 0, visited, corrupt);
  symlease_list_expired(campaign, SYMLEASE_TTL_RECORD, 0, visited, corrupt);
  symlease_list_commits(campaign, 0, visited, corrupt);
  if (symlease_read_record(campaign, SYMLEASE_TABLE_WORK, id, &json) == SYMLEASE_OK) symlease_string_free(json);
  if (symlease_read_record(campaign, SYMLEASE_TABLE_COVERAGE, "0", &json) == SYMLEASE_OK) symlease_string_free(json);
  if (symlease_read_stats(campaign, &json) == SYMLEASE_OK) symlease_string_free(json);
  if (symlease_coverage_map_info(campaign, &bits, &json) == SYMLEASE_OK) symlease_string_free(json);
  symlease_coverage_totals(campaign, &edges, &bits);
  symlease_coverage_pull(campaign, map, sizeof map, &bits);
}

static long worlds, cases;

/* One damaged file: CORRUPT for who needs it, untouched by all, and no matter
 * for the others (F19); looking repairs nothing (F27). */
static void meet(const struct kept *kept, const char *what, const char *bytes, size_t size, off_t sparse,
                 const char *root) {
  struct world world;
  path_text path;
  char *before, *after;
  symlease_campaign *fresh = NULL;
  symlease_options options = fault_options("fresh");
  symlease_status opened, status;
  symlease_lease lease;
  int corrupt;
  cases++;
  begin_world(&world, root, worlds++, named(kept->meets));
  lease = world.lease;
  if (strcmp(kept->path, "record") == 0)
    record_path(path, world.root, ".work_lease_table", world.lease.id);
  else
    below(path, world.root, kept->path);
  if (strstr(path, "claim-transactions")) {
    char *end = strrchr(path, '/');
    *end = 0;
    mkdir(path, 0700);
    *end = '/';
  }
  if (strstr(path, "map.json")) {
    *strrchr(path, '/') = 0;
    CHECK(mkdir(path, 0700) == 0);
    below(path, world.root, kept->path);
  }
  write_file(path, bytes, size);
  if (sparse) CHECK(truncate(path, sparse) == 0);
  before = records(world.root);
  opened = symlease_open(world.root, &options, &fresh);
  if (opened == SYMLEASE_OK) {
    char id[SYMLEASE_ID_SIZE];
    CHECK(symlease_work_id("work", 4, id) == SYMLEASE_OK);
    look(fresh, id, &corrupt);
    if (strcmp(kept->path, "record") == 0) CHECK(corrupt == 1);
    symlease_close(world.a);
    world.a = fresh;
    status = named(kept->meets)->run(&world);
  } else {
    status = opened;
    CHECK(strstr(kept->path, "symlease.json") || strstr(kept->path, "map.json"));
  }
  after = records(world.root);
  if (status != SYMLEASE_E_CORRUPT || strcmp(before, after) != 0) {
    fprintf(stderr, "%s, %s: %s, \"%s\"\nbefore:\n%safter:\n%s", kept->path, what,
            symlease_status_name(status), symlease_last_error(), before, after);
    exit(1);
  }
  world.lease = lease;
  if (opened == SYMLEASE_OK) CHECK(named(kept->passes)->run(&world) == SYMLEASE_OK);
  free(before);
  free(after);
  end_world(&world);
}

static char *good_bytes(const struct kept *kept, const char *root, size_t *size) {
  struct world world;
  path_text path;
  char *bytes;
  if (strstr(kept->path, "transaction")) {
    *size = transaction_size;
    return strdup(transaction);
  }
  begin_world(&world, root, worlds++, named(kept->meets));
  if (strcmp(kept->path, "record") == 0) {
    record_path(path, world.root, ".work_lease_table", world.lease.id);
  } else {
    CHECK(named(kept->meets)->run(&world) == SYMLEASE_OK);
    below(path, world.root, kept->path);
  }
  bytes = read_file(path, size);
  CHECK(bytes && *size > 20 && bytes[*size - 1] == '\n');
  end_world(&world);
  return bytes;
}

static void f19_each_damage_of_each_file(const char *root) {
  size_t i, k, size, now;
  learn_transaction(root);
  for (i = 0; i < sizeof files / sizeof *files; i++) {
    char *good = good_bytes(&files[i], root, &size);
    for (k = 0; k < sizeof damages / sizeof *damages; k++) {
      char *bad = damaged(&damages[k], good, size, &now);
      meet(&files[i], damages[k].name, bad, now, 0, root);
      free(bad);
    }
    free(good);
  }
  printf("  %ld cases\n", cases);
}

/* Every prefix, zero included, without the final newline's, which is whole. */
static void f19_each_prefix_of_each_file(const char *root) {
  size_t i, size, length;
  learn_transaction(root);
  for (i = 0; i < sizeof files / sizeof *files; i++) {
    char *good = good_bytes(&files[i], root, &size);
    size_t by = i == 0 ? 1 : size > 400 ? 29 : 5; /* of a record each one */
    for (length = 0; length < size - 1; length += by) meet(&files[i], "a prefix", good, length, 0, root);
    free(good);
  }
  printf("  %ld cases\n", cases);
}

/* Neither the stack nor the memory grows with what a stranger left. */
static void f19_deep_and_huge_files(const char *root) {
  size_t i;
  char *deep = malloc(100000);
  struct rlimit memory = {1u << 30, 1u << 30}; /* 1 GiB of addresses, a quarter of the file */
  struct rlimit stack = {256 << 10, 256 << 10};
  CHECK(deep);
  memset(deep, '[', 100000);
  CHECK(setrlimit(RLIMIT_AS, &memory) == 0 && setrlimit(RLIMIT_STACK, &stack) == 0);
  for (i = 0; i < sizeof files / sizeof *files; i++) {
    struct rusage use;
    meet(&files[i], "100,000 [", deep, 100000, 0, root);
    meet(&files[i], "4 GiB", "{", 1, (off_t)4 << 30, root);
    CHECK(getrusage(RUSAGE_SELF, &use) == 0 && use.ru_maxrss < 64 << 10); /* KiB */
  }
  free(deep);
}

/* A lone surrogate is a payload's right (F21), and no crash elsewhere. */
static void f19_lone_surrogates(const char *root) {
  symlease_campaign *a = open_fault(root, "a");
  symlease_lease lease;
  char id[SYMLEASE_ID_SIZE], *json = NULL;
  const char *payload = "{\"a\":\"\\ud800\",\"b\":\"\\udfff x\"}";
  memset(&lease, 0, sizeof lease);
  CHECK(symlease_work_id_json(payload, id) == SYMLEASE_OK);
  CHECK(symlease_claim(a, id, payload, &lease, NULL) == SYMLEASE_OK);
  CHECK(symlease_heartbeat(a, &lease) == SYMLEASE_OK);
  CHECK(symlease_read_record(a, SYMLEASE_TABLE_WORK, id, &json) == SYMLEASE_OK);
  CHECK(strstr(json, payload) != NULL);
  symlease_string_free(json);
  symlease_close(a);
}

/* Times in records: CORRUPT, whatever the call. */
static void f20_odd_times_in_records(const char *root) {
  static const char *const odd[] = {"1e999", "-1", "-1e999", "NaN", "null", "\"5\"", "true", "[]", "-0.5", NULL};
  size_t i, size;
  for (i = 0; i < sizeof odd / sizeof *odd; i++) {
    static const char *const calls[] = {"heartbeat", "abandon", "begin commit", "complete", "commit of nothing"};
    size_t k;
    for (k = 0; k < sizeof calls / sizeof *calls; k++) {
      struct world world;
      path_text path;
      char *bytes, *time, *end, line[4096], *before, *after;
      symlease_counts counts;
      begin_world(&world, root, worlds++, named(calls[k]));
      record_path(path, world.root, ".work_lease_table", world.lease.id);
      bytes = read_file(path, &size);
      time = strstr(bytes, "\"updated\":");
      end = strpbrk(time, ",}");
      *time = 0;
      if (odd[i])
        snprintf(line, sizeof line, "%s\"updated\":%s%s", bytes, odd[i], end);
      else /* missing */
        snprintf(line, sizeof line, "%s%s", bytes, end + 1);
      write_file(path, line, strlen(line));
      before = snapshot(world.root);
      CHECK(named(calls[k])->run(&world) == SYMLEASE_E_CORRUPT);
      CHECK(symlease_read_counts(world.b, SYMLEASE_TABLE_WORK, &counts) == SYMLEASE_OK);
      CHECK(counts.corrupt == 1 && counts.expired == 0);
      after = snapshot(world.root);
      CHECK(strcmp(before, after) == 0);
      free(bytes);
      free(before);
      free(after);
      end_world(&world);
    }
  }
}

/* Times and lengths of time from callers: INVALID, and nothing is written. */
static void f20_odd_times_from_callers(const char *root) {
  static const double odd[] = {NAN, -NAN, INFINITY, -INFINITY, -1.0, -1e300};
  size_t i, k;
  for (i = 0; i < sizeof odd / sizeof *odd; i++) {
    struct world world;
    char *before, *after;
    symlease_claim_options options[3];
    begin_world(&world, root, worlds++, named("heartbeat all"));
    before = snapshot(world.root);
    for (k = 0; k < 3; k++) {
      const uint64_t target = 99;
      symlease_lease lease;
      symlease_group group;
      char id[SYMLEASE_ID_SIZE];
      memset(&options[k], 0, sizeof options[k]);
      memset(&lease, 0, sizeof lease);
      memset(&group, 0, sizeof group);
      options[k].struct_size = sizeof options[k];
      *(k == 0 ? &options[k].ttl : k == 1 ? &options[k].new_ttl : &options[k].now) = odd[i];
      CHECK(symlease_work_id("other", 5, id) == SYMLEASE_OK);
      CHECK(symlease_claim_with(world.a, id, NULL, &options[k], &lease, NULL) == SYMLEASE_E_INVALID);
      CHECK(symlease_group_claim_with(world.a, &target, 1, NULL, &options[k], &group, NULL) ==
            SYMLEASE_E_INVALID);
    }
    *fault_time = odd[i]; /* what the clock callback answers */
    for (k = 0; k < operation_count; k++) {
      symlease_status status;
      struct world kept = world;
      if (strstr(operations[k].name, "merge") || strcmp(operations[k].name, "complete") == 0) continue;
      /* these ask no clock, or not before they have begun */
      if (strstr("abandon, group release, begin commit, commit of nothing", operations[k].name)) continue;
      if (strcmp(operations[k].name, "commit") == 0 || strcmp(operations[k].name, "replay") == 0) continue;
      status = operations[k].run(&world);
      CHECK(status == SYMLEASE_E_INVALID);
      world = kept;
    }
    *fault_time = 1786060800.25;
    after = snapshot(world.root);
    CHECK(strcmp(before, after) == 0);
    free(before);
    free(after);
    end_world(&world);
  }
}

/* Payloads, kept to the digit through a record's whole life. */
static void f21_payloads_are_kept_to_the_digit(const char *root) {
  symlease_campaign *a = open_fault(root, "a"), *b = open_fault(root, "b");
  char deep[2200], *json = NULL;
  const char *payloads[] = {
      "{\"a\":123456789012345678901234567890,\"b\":-9223372036854775809,\"c\":18446744073709551616}",
      "{\"a\":1.0,\"b\":1e3,\"c\":1E+3,\"d\":0.10,\"e\":-0.0,\"f\":-0}",
      "{\"\":\"\\u0000\\u001f\\\"\\\\\",\"\\ud83d\\ude00\":\"\\uffff\\ud800\"}",
      deep,
  };
  size_t i, at;
  memset(deep, 0, sizeof deep);
  memcpy(deep, "{\"d\":", 5);
  memset(deep + 5, '[', 1000);
  memset(deep + 1005, ']', 1000);
  deep[2005] = '}';
  for (i = 0; i < sizeof payloads / sizeof *payloads; i++) {
    char id[SYMLEASE_ID_SIZE];
    symlease_lease lease;
    for (at = 0; at < 5; at++) {
      memset(&lease, 0, at ? 0 : sizeof lease);
      if (at == 0) {
        CHECK(symlease_work_id_json(payloads[i], id) == SYMLEASE_OK);
        CHECK(symlease_claim(a, id, payloads[i], &lease, NULL) == SYMLEASE_OK);
      }
      if (at == 1) CHECK(symlease_heartbeat(a, &lease) == SYMLEASE_OK);
      if (at == 2) {
        *fault_time += 100;
        CHECK(symlease_claim(b, id, NULL, &lease, NULL) == SYMLEASE_OK);
      }
      if (at == 3) CHECK(symlease_begin_commit(b, &lease, payloads[i]) == SYMLEASE_OK);
      if (at == 4) CHECK(symlease_complete(b, &lease) == SYMLEASE_OK);
      CHECK(symlease_read_record(a, SYMLEASE_TABLE_WORK, id, &json) == SYMLEASE_OK);
      CHECK(strstr(json, payloads[i]) != NULL);
      if (at >= 3) CHECK(strstr(strstr(json, payloads[i]) + 1, payloads[i]) != NULL);
      symlease_string_free(json);
    }
  }
  symlease_close(a);
  symlease_close(b);
}

int main(int count, char **arguments) {
  static const struct fault faults[] = {
      FAULT(f19_each_damage_of_each_file),  FAULT(f19_each_prefix_of_each_file),
      FAULT(f19_deep_and_huge_files),       FAULT(f19_lone_surrogates),
      FAULT(f20_odd_times_in_records),      FAULT(f20_odd_times_from_callers),
      FAULT(f21_payloads_are_kept_to_the_digit),
  };
  return run_faults(count, arguments, faults, sizeof faults / sizeof *faults);
}
