/* Errors of system calls, by the shim: F14, F16, F17, F18. Argument: an empty
 * directory. */
#include "operations.h"

static long worlds;

/* Which calls fail, and how. */
struct failure {
  enum shim_call call;
  int error, directories, for_ever;
};

static void arm(const char *root, const struct failure *failure, long at) {
  memset(&shim, 0, sizeof shim);
  shim.call = failure->call;
  shim.error = failure->error;
  shim.directories = failure->directories;
  shim.for_ever = failure->for_ever;
  shim.at = at;
  shim.below = root;
}

static void report(const struct operation *operation, const struct failure *failure, long at,
                   symlease_status status, const char *before, const char *after) {
  fprintf(stderr, "%s, %s %ld fails with errno %d: %s, \"%s\"\nbefore:\n%safter:\n%s", operation->name,
          shim_name(failure->call), at, failure->error, symlease_status_name(status),
          symlease_last_error(), before, after);
  exit(1);
}

/* The at-th call fails: an error, no temporary, no descriptor, the old records
 * whole; the same call again works. 0: there is no such call. */
static int one_failure(const struct operation *operation, const struct failure *failure, long at,
                       const char *root) {
  struct world world;
  char *before, *after;
  int descriptors, fired;
  symlease_status status, again;
  begin_world(&world, root, worlds++, operation);
  before = records(world.root);
  descriptors = open_descriptors();
  arm(world.root, failure, at);
  status = operation->run(&world);
  fired = shim_end();
  after = records(world.root);
  CHECK(open_descriptors() == descriptors);
  if (!fired) {
    CHECK(status == SYMLEASE_OK);
  } else {
    int unchanged = operation->phased || status == SYMLEASE_E_INDETERMINATE || strcmp(before, after) == 0;
    if (status >= 0 || !unchanged || !no_temporaries(after))
      report(operation, failure, at, status, before, after);
    if (status == SYMLEASE_E_IO) CHECK(symlease_last_errno() == failure->error);
    again = operation->run(&world);
    /* a handle does not yet remember a change whose durability is unknown */
    if (status == SYMLEASE_E_INDETERMINATE && again > 0) again = SYMLEASE_OK;
    if (again != SYMLEASE_OK) report(operation, failure, at, again, before, after);
    free(after);
    after = records(world.root);
    if (!no_temporaries(after)) report(operation, failure, at, status, before, after);
  }
  free(before);
  free(after);
  end_world(&world);
  return fired;
}

/* Every k of every operation. Answers how many failures that were. */
static long sweep(const struct failure *failure, const char *root) {
  long all = 0, at;
  size_t i;
  for (i = 0; i < operation_count; i++) {
    for (at = 1; one_failure(&operations[i], failure, at, root); at++) all++;
    CHECK(at < 1000);
  }
  return all;
}

/* The k-th write, sync, close or rename fails, for all k and operations. */
static void f16_each_error_at_each_call(const char *root) {
  static const int errors[] = {ENOSPC, EDQUOT, EIO};
  static const enum shim_call calls[] = {SHIM_WRITE, SHIM_SYNC, SHIM_CLOSE, SHIM_RENAME, SHIM_LINK};
  size_t i, k;
  for (k = 0; k < sizeof calls / sizeof *calls; k++) {
    long all = 0;
    for (i = 0; i < sizeof errors / sizeof *errors; i++) {
      const struct failure failure = {calls[k], errors[i], 0, 0};
      all += sweep(&failure, root);
    }
    printf("  %s: %ld failures\n", shim_name(calls[k]), all);
    CHECK(all > 10);
  }
}

static char unlucky[PATH_MAX];
static int synced_again;

/* The first sync of a file fails; that file must not be synced once more. */
static int fail_first(enum shim_call call, const char *path) {
  (void)call;
  if (!*unlucky) {
    strcpy(unlucky, path);
    return EIO;
  }
  synced_again += strcmp(unlucky, path) == 0;
  return 0;
}

static void f17_fsync_fails_once(const char *root) {
  size_t i;
  long failed = 0;
  for (i = 0; i < operation_count; i++) {
    const struct failure failure = {SHIM_SYNC, 0, -1, 0};
    struct world world;
    char *after;
    symlease_status status;
    begin_world(&world, root, worlds++, &operations[i]);
    *unlucky = 0;
    arm(world.root, &failure, 0);
    shim.hook = fail_first;
    status = operations[i].run(&world);
    shim_end();
    CHECK(synced_again == 0);
    if (*unlucky) {
      failed++;
      CHECK(status == SYMLEASE_E_IO && symlease_last_errno() == EIO);
      /* what could not be synced is gone; a staged result is the caller's */
      if (strcmp(unlucky, world.staged) != 0) CHECK(access(unlucky, F_OK) != 0);
    } else {
      CHECK(status == SYMLEASE_OK);
    }
    after = records(world.root);
    CHECK(no_temporaries(after));
    free(after);
    if (*unlucky) CHECK(operations[i].run(&world) == SYMLEASE_OK);
    end_world(&world);
  }
  CHECK(failed >= (long)operation_count - 2);
}

/* EINVAL: the file system has no such thing as a directory's sync. */
static void f18_directory_sync_is_not_there(const char *root) {
  const struct failure failure = {SHIM_SYNC, EINVAL, 1, 1};
  size_t i;
  for (i = 0; i < operation_count; i++) {
    struct world world;
    begin_world(&world, root, worlds++, &operations[i]);
    arm(world.root, &failure, 1);
    CHECK(operations[i].run(&world) == SYMLEASE_OK);
    CHECK(shim_end() > 0);
    end_world(&world);
  }
}

static void f18_directory_sync_fails(const char *root) {
  const struct failure failure = {SHIM_SYNC, EIO, 1, 0};
  CHECK(sweep(&failure, root) > 20);
}

/* A file system that cannot lock: at once, whatever the lock timeout. */
static void f14_flock_is_not_there(const char *root) {
  static const int errors[] = {ENOSYS, EOPNOTSUPP, ENOLCK, EBADF};
  size_t i, k;
  for (k = 0; k < sizeof errors / sizeof *errors; k++) {
    const struct failure failure = {SHIM_LOCK, errors[k], 0, 1};
    for (i = 0; i < operation_count; i++) {
      struct world world;
      char *before, *after;
      symlease_status status;
      begin_world(&world, root, worlds++, &operations[i]);
      before = records(world.root);
      arm(world.root, &failure, 1);
      status = operations[i].run(&world);
      if (operations[i].phased) { /* a staged result's map is no record yet */
        path_text map;
        CHECK(snprintf(map, sizeof map, "%s.map", world.staged) < PATH_MAX);
        unlink(map);
      }
      after = records(world.root);
      if (shim_end() == 0) { /* a coordinator's heartbeat takes no lock */
        CHECK(strcmp(operations[i].name, "coverage heartbeat") == 0);
      } else if (status != SYMLEASE_E_UNSUPPORTED || shim.fired > 3 || strcmp(before, after) != 0) {
        report(&operations[i], &failure, shim.fired, status, before, after);
      }
      free(before);
      free(after);
      end_world(&world);
    }
  }
}

int main(int count, char **arguments) {
  static const struct fault faults[] = {
      FAULT(f14_flock_is_not_there),
      FAULT(f16_each_error_at_each_call),
      FAULT(f17_fsync_fails_once),
      FAULT(f18_directory_sync_is_not_there),
      FAULT(f18_directory_sync_fails),
  };
  return run_faults(count, arguments, faults, sizeof faults / sizeof *faults);
}
