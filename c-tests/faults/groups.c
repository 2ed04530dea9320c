/* Target groups: F32, F33. Argument: an empty directory. */
#include "operations.h"

static long worlds;

/* What the contract says of each list; one try for each lock, so that a member
 * that is locked twice is found at once. */
static void f32_lists_of_targets(const char *root) {
  static const uint64_t same[] = {5, 5}, zero[] = {0}, both[] = {0, 7, 0, 7, 9}, most[] = {UINT64_MAX};
  uint64_t many[130];
  symlease_options options = fault_options("a");
  symlease_campaign *a;
  symlease_group group;
  symlease_status status;
  size_t i, n;
  options.lock_timeout = -1;
  a = open_with(root, &options);
  memset(&group, 0, sizeof group);
  CHECK(symlease_group_claim(a, same, 2, NULL, &group, NULL) == SYMLEASE_OK);
  CHECK(group.count == 1 && group.targets[0] == 5);
  CHECK(symlease_group_heartbeat(a, &group) == SYMLEASE_OK);
  CHECK(symlease_group_release(a, &group) == SYMLEASE_OK);
  CHECK(symlease_group_claim(a, zero, 1, NULL, &group, NULL) == SYMLEASE_E_INVALID);
  CHECK(symlease_group_claim(a, zero, 0, NULL, &group, NULL) == SYMLEASE_E_INVALID);
  CHECK(symlease_group_claim(a, NULL, 0, NULL, &group, NULL) == SYMLEASE_E_INVALID);
  CHECK(symlease_group_claim(a, NULL, 1, NULL, &group, NULL) == SYMLEASE_E_INVALID);
  CHECK(symlease_group_claim(a, both, 5, NULL, &group, NULL) == SYMLEASE_OK);
  CHECK(group.count == 2 && group.targets[0] == 7 && group.targets[1] == 9);
  CHECK(symlease_group_release(a, &group) == SYMLEASE_OK);
  CHECK(symlease_group_claim(a, most, 1, NULL, &group, NULL) == SYMLEASE_OK);
  CHECK(group.count == 1 && group.targets[0] == UINT64_MAX);
  CHECK(symlease_group_release(a, &group) == SYMLEASE_OK);
  shim_no_syncs = 1;
  for (n = 63; n <= 130; n += n < 65 ? 1 : 65) {
    for (i = 0; i < n; i++) many[i] = 1000 + i;
    status = symlease_group_claim(a, many, n, NULL, &group, NULL);
    CHECK(status == (n <= 64 ? SYMLEASE_OK : SYMLEASE_E_LIMIT));
    if (n <= 64) CHECK(group.count == n && symlease_group_release(a, &group) == SYMLEASE_OK);
    /* doubles are dropped before the limit is asked */
    for (i = 0; i < n; i++) many[i] = 1000 + i / 2;
    CHECK(symlease_group_claim(a, many, n, NULL, &group, NULL) == (n <= 128 ? SYMLEASE_OK : SYMLEASE_E_LIMIT));
    if (n <= 128) CHECK(symlease_group_release(a, &group) == SYMLEASE_OK);
  }
  {
    symlease_counts counts;
    CHECK(symlease_read_counts(a, SYMLEASE_TABLE_TARGET, &counts) == SYMLEASE_OK);
    CHECK(counts.leased == 0 && counts.corrupt == 0);
  }
  symlease_close(a);
}

enum harm { HELD, CORRUPT, UNREADABLE, NO_SPACE, DEATH, HARMS };
static const char *const harms[] = {"held", "corrupt", "unreadable", "out of space", "death"};

static char member_path[PATH_MAX];
static enum harm current;
static int met;

/* Reading, writing or naming that member goes wrong. */
static int at_member(enum shim_call call, const char *path) {
  if (strncmp(path, member_path, strlen(member_path)) != 0) return 0;
  if (current == UNREADABLE && call == SHIM_READ) return ++met, EIO;
  if (current == NO_SPACE && call == SHIM_WRITE) return ++met, ENOSPC;
  if (current == DEATH && call == SHIM_RENAME) kill(getpid(), SIGKILL);
  return 0;
}

static uint64_t target_of(size_t member) {
  return 100 + member;
}

/* Claims n targets of which the k-th is harmed. Afterwards nothing is held, and
 * when the harm is over the whole group can be claimed. */
static void harmed(enum harm harm, size_t n, size_t k, const char *root) {
  symlease_campaign *a, *b;
  symlease_group group, other;
  symlease_holder holder;
  symlease_counts counts;
  symlease_status status;
  uint64_t targets[SYMLEASE_GROUP_MAX], kth = target_of(k);
  char id[SYMLEASE_ID_SIZE], name[64], *before = NULL, *after;
  path_text place;
  size_t i;
  shim_no_syncs = 1;
  snprintf(name, sizeof name, "%ld", worlds++);
  below(place, root, name);
  CHECK(mkdir(place, 0700) == 0);
  a = open_fault(place, "a");
  b = open_fault(place, "b");
  for (i = 0; i < n; i++) targets[i] = target_of(i);
  memset(&group, 0, sizeof group);
  memset(&other, 0, sizeof other);
  memset(&holder, 0, sizeof holder);
  /* all are there, and free: what a failed claim gives back can be told */
  CHECK(symlease_group_claim(b, targets, n, NULL, &group, NULL) == SYMLEASE_OK);
  *fault_time += 100;
  CHECK(symlease_target_id(kth, id) == SYMLEASE_OK);
  record_path(member_path, place, ".target_lease_table", id);
  if (harm == HELD) CHECK(symlease_group_claim(b, &kth, 1, NULL, &other, NULL) == SYMLEASE_OK);
  if (harm == CORRUPT) write_file(member_path, "{", 1);
  before = records(place);
  current = harm;
  met = 0;
  memset(&shim, 0, sizeof shim);
  shim.call = SHIM_ANY;
  shim.hook = harm >= UNREADABLE ? at_member : NULL;
  shim.below = place;
  if (harm == DEATH) {
    int state;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
      symlease_group_claim(a, targets, n, NULL, &group, NULL);
      _exit(0);
    }
    shim_end();
    CHECK(waitpid(pid, &state, 0) == pid && WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL);
    *fault_time += 100; /* what it left leased is free by its TTL at the latest */
  } else {
    status = symlease_group_claim(a, targets, n, NULL, &group, &holder);
    shim_end();
    CHECK(status == (harm == HELD ? SYMLEASE_HELD : harm == CORRUPT ? SYMLEASE_E_CORRUPT : SYMLEASE_E_IO));
    if (harm == HELD || harm == CORRUPT) CHECK(holder.target == kth);
    if (harm >= UNREADABLE) CHECK(met > 0 && symlease_last_errno() == (harm == UNREADABLE ? EIO : ENOSPC));
    after = records(place);
    CHECK(strcmp(before, after) == 0);
    free(after);
    /* the others are free at once */
    for (i = 0; i < n; i++)
      if (i != k) {
        CHECK(symlease_group_claim(b, &targets[i], 1, NULL, &group, NULL) == SYMLEASE_OK);
        CHECK(symlease_group_release(b, &group) == SYMLEASE_OK);
      }
    if (harm == HELD) CHECK(symlease_group_release(b, &other) == SYMLEASE_OK);
    if (harm == CORRUPT) CHECK(unlink(member_path) == 0);
  }
  CHECK(symlease_group_claim(a, targets, n, NULL, &group, NULL) == SYMLEASE_OK && group.count == n);
  CHECK(symlease_read_counts(a, SYMLEASE_TABLE_TARGET, &counts) == SYMLEASE_OK);
  CHECK(counts.leased == n && counts.corrupt == 0);
  CHECK(symlease_group_release(a, &group) == SYMLEASE_OK);
  free(before);
  symlease_close(a);
  symlease_close(b);
  remove_tree(place);
}

static void f33_each_member_harmed_in_each_way(const char *root) {
  size_t n, k;
  int harm;
  for (harm = 0; harm < HARMS; harm++) {
    for (n = 1; n <= 6; n++)
      for (k = 0; k < n; k++) harmed((enum harm)harm, n, k, root);
    harmed((enum harm)harm, 64, 0, root);
    harmed((enum harm)harm, 64, 40, root);
    printf("  %s: all of 1 to 6 members, and 2 of 64\n", harms[harm]);
  }
}

int main(int count, char **arguments) {
  static const struct fault faults[] = {
      FAULT(f32_lists_of_targets),
      FAULT(f33_each_member_harmed_in_each_way),
  };
  return run_faults(count, arguments, faults, sizeof faults / sizeof *faults);
}
