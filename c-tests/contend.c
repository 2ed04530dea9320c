/* Two processes contend for 200 ids: each id is completed exactly once, and
 * its fence rises strictly with every claim. Argument: an empty directory. */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define MOST 200

/* Written only by who holds the id's lease. */
struct seen {
  uint64_t fence[MOST];
  int claims[MOST], completions[MOST];
};

static int run(const char *root, const char *owner, struct seen *seen, int ids, int step) {
  symlease_campaign *campaign = open_plain(root, owner, 300.0);
  int left = ids, pass;
  for (pass = 0; left > 0; pass++) {
    int i;
    CHECK(pass < 100000);
    left = ids;
    for (i = 0; i < ids; i++) {
      int number = (i * step) % ids;
      symlease_lease lease;
      symlease_status status;
      char id[SYMLEASE_ID_SIZE];
      numbered_id(number, id);
      memset(&lease, 0, sizeof lease);
      status = symlease_claim(campaign, id, NULL, &lease, NULL);
      if (status == SYMLEASE_DONE) left--;
      if (status > 0) continue;
      CHECK(status == SYMLEASE_OK);
      CHECK(lease.fence > seen->fence[number]);
      seen->fence[number] = lease.fence;
      if (++seen->claims[number] < 3) {
        CHECK(symlease_abandon(campaign, &lease) == SYMLEASE_OK);
        continue;
      }
      CHECK(symlease_begin_commit(campaign, &lease, "{}") == SYMLEASE_OK);
      seen->completions[number]++;
      CHECK(symlease_complete(campaign, &lease) == SYMLEASE_OK);
    }
  }
  symlease_close(campaign);
  return 0;
}

int main(int count, char **arguments) {
  int ids = rounds(MOST), i, state;
  struct seen *seen;
  pid_t pids[2];
  CHECK(count == 2);
  seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(seen != MAP_FAILED);
  for (i = 0; i < 2; i++) {
    pids[i] = fork();
    CHECK(pids[i] >= 0);
    if (pids[i] == 0) _exit(run(arguments[1], i ? "b" : "a", seen, ids, 1));
  }
  for (i = 0; i < 2; i++) CHECK(waitpid(pids[i], &state, 0) == pids[i] && state == 0);
  for (i = 0; i < ids; i++) CHECK(seen->completions[i] == 1 && seen->claims[i] == 3);
  return 0;
}
