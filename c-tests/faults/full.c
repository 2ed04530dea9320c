/* F16 on a real file system: small, and filled to the last byte. Where
 * SYMLEASE_TEST_SMALL names one, that; else a tmpfs of 1 MiB of its own.
 * Argument: an empty directory. */
#include <sched.h>
#include <sys/mount.h>

#include "operations.h"

/* Files that take the last blocks, and the last inodes where those end first. */
static int fill(const char *place) {
  static char block[4096];
  path_text path;
  int files = 0, room = 1;
  memset(block, 'x', sizeof block);
  while (room && files < 20000) {
    size_t part = sizeof block;
    int file;
    CHECK(snprintf(path, sizeof path, "%s/filler-%d", place, files) < PATH_MAX);
    file = open(path, O_CREAT | O_WRONLY | O_EXCL, 0600);
    if (file < 0) break;
    files++;
    room = 0;
    while (part) {
      ssize_t written = write(file, block, part);
      if (written < 0) {
        CHECK(errno == ENOSPC);
        part /= 2;
      } else {
        room = 1;
      }
    }
    fsync(file);
    close(file);
  }
  return files;
}

static void make_room(const char *place, int files) {
  path_text path;
  while (files-- > 0) {
    CHECK(snprintf(path, sizeof path, "%s/filler-%d", place, files) < PATH_MAX);
    CHECK(unlink(path) == 0);
  }
}

static void f16_full_file_system(const char *root) {
  const char *small = getenv("SYMLEASE_TEST_SMALL");
  size_t i;
  int failed = 0;
  if (!small) {
    if (unshare(CLONE_NEWNS) != 0) skip("no mount namespace");
    CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    if (mount("none", root, "tmpfs", 0, "size=1m") != 0) skip("mounting is not permitted");
    small = root;
  }
  for (i = 0; i < operation_count; i++) {
    struct world world;
    path_text map;
    char *before, *after;
    symlease_status status;
    int files;
    begin_world(&world, small, (long)i, &operations[i]);
    shim_no_syncs = 0;
    files = fill(small);
    CHECK(files > 0);
    before = records(world.root);
    status = operations[i].run(&world);
    CHECK(snprintf(map, sizeof map, "%s.map", world.staged) < PATH_MAX);
    if (operations[i].phased) unlink(map);
    after = records(world.root);
    /* Some need no room: what is removed, or fits where the old record was. */
    if (status != SYMLEASE_OK) {
      failed++;
      if (status != SYMLEASE_E_IO || symlease_last_errno() != ENOSPC || strcmp(before, after) != 0) {
        fprintf(stderr, "%s: %s, %s\nbefore:\n%safter:\n%s", operations[i].name,
                symlease_status_name(status), symlease_last_error(), before, after);
        exit(1);
      }
    }
    CHECK(no_temporaries(after));
    make_room(small, files);
    if (status != SYMLEASE_OK) CHECK(operations[i].run(&world) == SYMLEASE_OK);
    free(before);
    free(after);
    end_world(&world);
  }
  printf("  %d of %zu calls found no room\n", failed, operation_count);
  CHECK(failed > 10);
}

int main(int count, char **arguments) {
  static const struct fault faults[] = {FAULT(f16_full_file_system)};
  return run_faults(count, arguments, faults, sizeof faults / sizeof *faults);
}
