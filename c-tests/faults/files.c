/* What stands at our names, and who owns it: F12, F13, F15, F25, F26. The rows
 * F24 and F19 have programs of their own. Argument: an empty directory. */
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>

#include "operations.h"

static long worlds;

/* F12: a lock file moved away, and a new one made, at one call of its holder. */
static char moved_lock[PATH_MAX];
static int moves;

static int move_lock(enum shim_call call, const char *path) {
  path_text aside;
  (void)call;
  (void)path;
  if (moves++) return 0;
  CHECK(snprintf(aside, sizeof aside, "%s.aside", moved_lock) < PATH_MAX);
  CHECK(rename(moved_lock, aside) == 0);
  close(open(moved_lock, O_CREAT | O_WRONLY, 0600));
  return 0;
}

/* Every system call of a heartbeat at which it can happen. */
static void f12_lock_file_is_replaced(const char *root) {
  long at, ok = 0, unknown = 0;
  for (at = 1;; at++) {
    struct world world;
    symlease_status status;
    path_text record;
    symlease_counters counters;
    begin_world(&world, root, worlds++, &operations[2]);
    record_path(record, world.root, ".work_lease_table", world.lease.id);
    CHECK(snprintf(moved_lock, sizeof moved_lock, "%s.lock", record) < PATH_MAX);
    moves = 0;
    memset(&shim, 0, sizeof shim);
    shim.call = SHIM_ANY;
    shim.at = at;
    shim.hook = move_lock;
    shim.below = world.root;
    status = operations[2].run(&world);
    shim_end();
    CHECK(symlease_read_counters(world.a, &counters) == SYMLEASE_OK);
    CHECK(status == SYMLEASE_OK || status == SYMLEASE_E_INDETERMINATE);
    CHECK(counters.indeterminate == (status == SYMLEASE_E_INDETERMINATE));
    ok += status == SYMLEASE_OK;
    unknown += status == SYMLEASE_E_INDETERMINATE;
    if (!moves) {
      end_world(&world);
      break;
    }
    /* OK: the new file was the one that was locked; so it cannot be locked twice */
    CHECK(operations[2].run(&world) == SYMLEASE_OK);
    end_world(&world);
  }
  printf("  a move at each of %ld calls: %ld followed, %ld indeterminate\n", at - 1, ok - 1, unknown);
  CHECK(ok > 2 && unknown > 2);
}

/* The victim, and what leads to it. */
enum plant { LINK, DANGLING, FIFO, DIRECTORY, DEVICE, HARD_LINK, PLANTS };
static const char *const plant_names[] = {"symlink",   "dangling symlink", "FIFO",
                                          "directory", "device",           "hard link"};

/* A directory of somebody else beside the victim. */
static const char *dirname_of(path_text path, const char *victim) {
  CHECK(snprintf(path, PATH_MAX, "%s-folder", victim) < PATH_MAX);
  CHECK(mkdir(path, 0700) == 0 || errno == EEXIST);
  return path;
}

static int put_plant(enum plant plant, const char *path, const char *victim, int folder) {
  path_text away;
  if (folder && plant == LINK) return symlink(dirname_of(away, victim), path);
  CHECK(snprintf(away, sizeof away, "%s-away", victim) < PATH_MAX);
  switch (plant) {
    case LINK: return symlink(victim, path);
    case DANGLING: return symlink(away, path);
    case FIFO: return mkfifo(path, 0600);
    case DIRECTORY: return mkdir(path, 0700);
    case DEVICE: return mknod(path, S_IFCHR | 0600, makedev(1, 3));
    default: return link(victim, path);
  }
}

/* A name that is used: where it lies, and an operation that meets it. A
 * coordinator's own heartbeat, a map beside a staged result and a corpus name
 * may be replaced or passed by, so that there OK is right, too. */
struct used {
  const char *path;
  const char *operation;
  int folder, optional;
};

#define FRESH "D" /* stands for the id and folder of the fresh claim */

static void place_of(path_text path, const struct world *world, const char *pattern) {
  if (strncmp(pattern, FRESH, 1) == 0) {
    char id[SYMLEASE_ID_SIZE];
    CHECK(symlease_work_id("fresh", 5, id) == SYMLEASE_OK);
    record_path(path, world->root, ".work_lease_table", id);
    if (strcmp(pattern, "D/") == 0)
      *strrchr(path, '/') = 0;
    else
      strcat(path, pattern + 1);
  } else {
    below(path, world->root, pattern);
  }
}

static void plant_at(const struct used *used, enum plant plant, int folder, const char *root) {
  struct world world;
  path_text victim, away, path;
  char *before, *after;
  symlease_status status;
  struct stat was, is, facts;
  char *slash;
  begin_world(&world, root, worlds++, named(used->operation));
  below(victim, root, "victim");
  CHECK(snprintf(away, sizeof away, "%s-away", victim) < PATH_MAX);
  write_file(victim, "the victim", 10);
  CHECK(stat(victim, &was) == 0);
  place_of(path, &world, used->path);
  for (slash = path + strlen(world.root) + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = 0;
    CHECK(mkdir(path, 0700) == 0 || errno == EEXIST);
    *slash = '/';
  }
  if (lstat(path, &facts) == 0) remove_tree(path);
  if (put_plant(plant, path, victim, folder) != 0) {
    CHECK(errno == EPERM);
    end_world(&world);
    return;
  }
  before = snapshot(root);
  symlease_close(world.a);
  world.a = NULL;
  alarm(20); /* no hang */
  {
    symlease_options options = fault_options("a");
    status = symlease_open(world.root, &options, &world.a);
  }
  if (status == SYMLEASE_OK) status = named(used->operation)->run(&world);
  alarm(280);
  after = snapshot(root);
  /* A hard link is a regular file: nothing is written through it. An empty
   * directory may be a folder that somebody made. */
  if ((status >= 0 && plant != HARD_LINK && !used->optional) || access(away, F_OK) == 0 ||
      stat(victim, &is) != 0 || is.st_size != 10 || is.st_mtim.tv_nsec != was.st_mtim.tv_nsec ||
      (lstat(path, &facts) != 0 && plant != HARD_LINK && !used->optional)) {
    fprintf(stderr, "%s at %s, %s: %s, \"%s\"\nbefore:\n%safter:\n%s", plant_names[plant], used->path,
            used->operation, symlease_status_name(status), symlease_last_error(), before, after);
    exit(1);
  }
  free(before);
  free(after);
  end_world(&world);
}

static void f13_planted_at_every_name(const char *root) {
  static const struct used all[] = {
      {FRESH, "first claim", 0, 0},
      {FRESH ".lock", "first claim", 0, 0},
      {"D/", "first claim", 1, 0},
      {".work_lease_table/symlease.json", "first claim", 0, 0},
      {".work_lease_table/fence.json", "first claim", 0, 0},
      {".target_lease_table/symlease.json", "group claim", 0, 0},
      {".coverage_owner/symlease.json", "merge", 0, 0},
      {".coverage_owner/map.json", "first dense merge", 0, 0},
      {".coverage_owner/state", "first merge", 1, 0},
      {".coverage_owner/state/0000.json", "first merge", 0, 0},
      {".coverage_owner/state/0000.json.lock", "first merge", 0, 0},
      {".coverage_owner/claim-transactions", "merge of many shards", 1, 0},
      {".coverage_owner/claim-transactions/"
       "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff.json",
       "first merge", 0, 0},
      {".coverage_owner/.coverage-claim-transaction.json", "first merge", 0, 0},
      {".coverage_owner/coordinators", "coverage heartbeat", 1, 0},
      {".coverage_owner/coordinators/0000.json", "coverage heartbeat", 0, 1},
      {"staging/result", "commit", 0, 0},
      {"staging/result.map", "commit", 0, 1},
      {"corpus", "commit", 2, 0},
      {"corpus/result", "commit", 0, 1},
  };
  size_t i;
  int plant;
  for (i = 0; i < sizeof all / sizeof *all; i++)
    for (plant = 0; plant < PLANTS; plant++) {
      int folder = all[i].folder;
      if (folder && plant == DIRECTORY) continue; /* it is one */
      if (folder == 2) folder = 0; /* the caller's own: may be a link to a directory */
      plant_at(&all[i], (enum plant)plant, folder, root);
    }
}

/* F15: another version's lock is a directory. */
static void f15_lock_is_a_directory(const char *root) {
  size_t i;
  static const char *const calls[] = {"heartbeat", "abandon", "begin commit", "complete", "commit"};
  for (i = 0; i < sizeof calls / sizeof *calls; i++) {
    struct world world;
    path_text path;
    char *before, *after;
    begin_world(&world, root, worlds++, named(calls[i]));
    record_path(path, world.root, ".work_lease_table", world.lease.id);
    strcat(path, ".lock");
    CHECK(unlink(path) == 0 && mkdir(path, 0700) == 0);
    before = records(world.root);
    CHECK(named(calls[i])->run(&world) == SYMLEASE_E_UNSUPPORTED);
    CHECK(strstr(symlease_last_error(), path) != NULL);
    CHECK(strstr(symlease_last_error(), "remove it") != NULL);
    after = records(world.root);
    if (strcmp(calls[i], "commit") != 0) CHECK(strcmp(before, after) == 0);
    free(before);
    free(after);
    end_world(&world);
  }
}

static int with_create;

/* The rule of fs.protected_regular: O_CREAT on another's file in a sticky
 * directory is EACCES, even for root. */
static int protected_regular(enum shim_call call, const char *path) {
  struct stat facts;
  (void)call;
  if (!strstr(path, ".lock") || !(shim_open_flags & O_CREAT) || stat(path, &facts) != 0) return 0;
  with_create++;
  return EACCES;
}

static void f25_lock_file_is_opened_without_creating(const char *root) {
  size_t i;
  for (i = 0; i < operation_count; i++) {
    struct world world;
    begin_world(&world, root, worlds++, &operations[i]);
    memset(&shim, 0, sizeof shim);
    shim.call = SHIM_OPEN;
    shim.hook = protected_regular;
    shim.below = world.root;
    CHECK(operations[i].run(&world) == SYMLEASE_OK);
    shim_end();
    CHECK(with_create == 0);
    end_world(&world);
  }
}

static int count_one(void *user, const symlease_view *view) {
  (void)view;
  ++*(int *)user;
  return 0;
}

/* F26: what reads works on a read-only mount, what changes says EROFS. */
static void f26_read_only_mount(const char *root) {
  symlease_options options = fault_options("reader");
  struct world world, kept;
  symlease_campaign *reader;
  symlease_counts counts;
  uint64_t number = 0, bits = 0;
  uint8_t map[64] = {0};
  char *json = NULL, *before, *after;
  size_t i;
  int seen = 0;
  begin_world(&world, root, worlds++, named("heartbeat all"));
  CHECK(named("merge of many shards")->run(&world) == SYMLEASE_OK);
  write_file(world.staged, "x", 1);
  CHECK(symlease_coverage_heartbeat(world.a) == SYMLEASE_OK);
  if (unshare(CLONE_NEWNS) != 0) skip("no mount namespace");
  CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
  if (mount(world.root, world.root, NULL, MS_BIND, NULL) != 0) skip("mounting is not permitted");
  CHECK(mount(NULL, world.root, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0);
  kept = world;
  before = snapshot(world.root);
  reader = open_with(world.root, &options);
  CHECK(symlease_read_counts(reader, SYMLEASE_TABLE_WORK, &counts) == SYMLEASE_OK);
  CHECK(counts.leased == 2);
  CHECK(symlease_scan(reader, SYMLEASE_TABLE_TARGET, SYMLEASE_SCAN_ALL, NULL, 0, count_one, &seen) == 0);
  CHECK(seen == 4);
  CHECK(symlease_list_expired(reader, 0.0, 0, count_one, &seen) == SYMLEASE_OK);
  CHECK(symlease_read_record(reader, SYMLEASE_TABLE_WORK, world.lease.id, &json) == SYMLEASE_OK);
  symlease_string_free(json);
  CHECK(symlease_verify(reader, &world.lease) == SYMLEASE_OK);
  CHECK(symlease_group_verify(reader, &world.group) == SYMLEASE_OK);
  CHECK(symlease_coverage_totals(reader, &number, &bits) == SYMLEASE_OK && bits == 5);
  CHECK(symlease_coverage_pull(reader, map, sizeof map, &number) == SYMLEASE_OK && number == 5);
  CHECK(symlease_read_stats(reader, &json) == SYMLEASE_OK);
  symlease_string_free(json);
  for (i = 0; i < operation_count; i++) {
    symlease_status status;
    if (strstr(operations[i].name, "merge")) continue; /* below, with new bits */
    world.lease = kept.lease;
    world.group = kept.group;
    if (strcmp(operations[i].name, "complete") == 0 || strcmp(operations[i].name, "replay") == 0) continue;
    status = operations[i].run(&world);
    if (strstr(operations[i].name, "claim") && status == SYMLEASE_HELD) continue;
    if (status != SYMLEASE_E_IO || symlease_last_errno() != EROFS) {
      fprintf(stderr, "%s: %s, %s\n", operations[i].name, symlease_status_name(status),
              symlease_last_error());
      exit(1);
    }
  }
  {
    const symlease_edge fresh = {33, 1};
    CHECK(symlease_coverage_merge_sparse(reader, &fresh, 1, NULL) == SYMLEASE_E_IO);
    CHECK(symlease_last_errno() == EROFS);
  }
  after = snapshot(world.root);
  CHECK(strcmp(before, after) == 0);
  CHECK(umount(world.root) == 0);
  symlease_close(reader);
  end_world(&world);
}

int main(int count, char **arguments) {
  static const struct fault faults[] = {
      FAULT(f12_lock_file_is_replaced),
      FAULT(f13_planted_at_every_name),
      FAULT(f15_lock_is_a_directory),
      FAULT(f25_lock_file_is_opened_without_creating),
      FAULT(f26_read_only_mount),
  };
  return run_faults(count, arguments, faults, sizeof faults / sizeof *faults);
}
