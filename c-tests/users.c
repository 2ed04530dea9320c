/* F24: two users of one group share a campaign. Needs root to become them.
 * Argument: an empty directory. */
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { GROUP = 4242, FIRST = 4301, SECOND = 4302, STRANGER = 4303 };

static double now = 1786060800.25;

static double test_clock(void *user) {
  return *(double *)user;
}

static symlease_status open_shared(const char *root, uint32_t mode, symlease_campaign **out) {
  symlease_options options;
  symlease_options_init(&options, sizeof options);
  options.file_mode = mode;
  options.work_ttl = 10.0;
  options.clock = test_clock;
  options.clock_user = &now;
  return symlease_open(root, &options, out);
}

/* Everything that makes or changes a file. */
static void f24_two_users_share(const char *root, int number) {
  const symlease_edge edge[] = {{1, 1}, {2, 1}, {70, 1}};
  symlease_campaign *campaign;
  symlease_lease lease;
  symlease_group group;
  const uint64_t targets[] = {1, 2, 3};
  char id[SYMLEASE_ID_SIZE];
  symlease_edge own = {(uint32_t)(1000 + number), 1};
  memset(&lease, 0, sizeof lease);
  memset(&group, 0, sizeof group);
  CHECK(open_shared(root, number == 0 ? 0660 : 0, &campaign) == SYMLEASE_OK);
  CHECK(symlease_work_id("shared", 6, id) == SYMLEASE_OK);
  CHECK(symlease_claim(campaign, id, NULL, &lease, NULL) == SYMLEASE_OK);
  CHECK(lease.attempts == (uint32_t)number + 1);
  CHECK(symlease_heartbeat(campaign, &lease) == SYMLEASE_OK);
  CHECK(symlease_group_claim(campaign, targets, 3, NULL, &group, NULL) == SYMLEASE_OK);
  CHECK(symlease_group_release(campaign, &group) == SYMLEASE_OK);
  CHECK(symlease_coverage_merge_sparse(campaign, edge, 3, NULL) == SYMLEASE_OK);
  CHECK(symlease_coverage_merge_sparse(campaign, &own, 1, NULL) == SYMLEASE_OK);
  CHECK(symlease_coverage_heartbeat(campaign) == SYMLEASE_OK);
  symlease_close(campaign);
}

/* An outsider is told whose file stands in the way, and changes nothing. */
static void refused(const char *root, int number) {
  symlease_campaign *campaign;
  symlease_lease lease;
  char id[SYMLEASE_ID_SIZE];
  (void)number;
  memset(&lease, 0, sizeof lease);
  CHECK(symlease_work_id("shared", 6, id) == SYMLEASE_OK);
  if (open_shared(root, 0, &campaign) != SYMLEASE_OK) {
    CHECK(strstr(symlease_last_error(), "EACCES") && strstr(symlease_last_error(), root));
    return;
  }
  CHECK(symlease_claim(campaign, id, NULL, &lease, NULL) == SYMLEASE_E_IO);
  CHECK(strstr(symlease_last_error(), "EACCES"));
  symlease_close(campaign);
}

static void as(uid_t user, gid_t group, void (*what)(const char *, int), const char *root,
               int number) {
  int state;
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    umask(077);
    CHECK(setgroups(0, NULL) == 0 && setgid(group) == 0 && setuid(user) == 0);
    what(root, number);
    _exit(0);
  }
  CHECK(waitpid(child, &state, 0) == child && state == 0);
}

int main(int count, char **arguments) {
  char root[4096];
  int number;
  CHECK(count == 2);
  if (geteuid() != 0) return 77; /* CTest: skipped */
  snprintf(root, sizeof root, "%s/..", arguments[1]);
  CHECK(chmod(root, 0755) == 0); /* the others must get there */
  snprintf(root, sizeof root, "%s/shared", arguments[1]);
  CHECK(chmod(arguments[1], 0755) == 0 && mkdir(root, 0) == 0);
  CHECK(chown(root, FIRST, GROUP) == 0 && chmod(root, 02770) == 0);
  for (number = 0; number < 4; number++) {
    as(number % 2 ? SECOND : FIRST, GROUP, f24_two_users_share, root, number);
    now += 100.0;
  }
  as(STRANGER, STRANGER, refused, root, 0);
  return 0;
}
