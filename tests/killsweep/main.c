/* One of each changing operation, in processes that are meant to be killed or
 * stopped at any of their system calls.
 *   operations <directory> list | prepare NAME | act NAME | recover NAME | later NAME
 *                        | takeover NAME
 * sweep.py drives it. Answers go to stdout, each line by one write. */
#include "plan.h"

handed state;
double offset;

static double shifted(void *user) {
  struct timeval now;
  (void)user;
  gettimeofday(&now, NULL);
  return (double)now.tv_sec + now.tv_usec / 1e6 + offset;
}

symlease_campaign *open_at(double shift, double lock_timeout, int32_t session) {
  symlease_options options;
  symlease_campaign *campaign = NULL;
  symlease_options_init(&options, sizeof options);
  offset = shift;
  options.clock = shifted;
  options.owner = session == SYMLEASE_SESSION_OWN ? "actor" : "other";
  options.work_ttl = TTL;
  options.lock_timeout = lock_timeout;
  options.lease_shards = 4;
  options.coverage_shards = 4;
  options.session = session;
  CHECK(symlease_open("root", &options, &campaign) == SYMLEASE_OK);
  return campaign;
}

void say(const char *format, ...) {
  char line[512];
  va_list list;
  int length;
  va_start(list, format);
  length = vsnprintf(line, sizeof line, format, list);
  va_end(list);
  CHECK(length > 0 && write(1, line, (size_t)length) == length);
}

void name_lease(const char *name, symlease_lease *lease) {
  memset(lease, 0, sizeof *lease);
  CHECK(symlease_work_id(name, strlen(name), lease->id) == SYMLEASE_OK);
}

static void hand_over(int write_it) {
  int file = open("state.bin", write_it ? O_WRONLY | O_CREAT : O_RDONLY, 0600);
  CHECK(file >= 0);
  if (write_it) CHECK(write(file, &state, sizeof state) == (ssize_t)sizeof state);
  else CHECK(read(file, &state, sizeof state) == (ssize_t)sizeof state);
  close(file);
}

int main(int count, char **arguments) {
  const plan *plan = plans;
  symlease_campaign *campaign;
  CHECK(count >= 3 && chdir(arguments[1]) == 0);
  if (strcmp(arguments[2], "list") == 0) {
    for (; plan->name; plan++) printf("%s\n", plan->name);
    return 0;
  }
  CHECK(count == 4);
  while (plan->name && strcmp(plan->name, arguments[3]) != 0) plan++;
  CHECK(plan->name != NULL);
  if (strcmp(arguments[2], "prepare") == 0) {
    if (plan->prepare) plan->prepare();
    hand_over(1);
    return 0;
  }
  hand_over(0);
  /* The sweep begins behind this call, which fails and changes nothing. */
  if (strcmp(arguments[2], "act") == 0) {
    (void)!write(-1, "begin", 5);
    campaign = open_at(0, 5, SYMLEASE_SESSION_OWN); /* as a coordinator has */
    plan->act(campaign);
    symlease_close(campaign);
    return 0;
  }
  if (strcmp(arguments[2], "recover") == 0) {
    (void)!write(-1, "begin", 5);
    recover(plan, 0);
    return 0;
  }
  if (strcmp(arguments[2], "later") == 0) {
    recover(plan, 2 * LATER); /* behind a takeover, too */
    return 0;
  }
  CHECK(strcmp(arguments[2], "takeover") == 0);
  take_over(plan);
  return 0;
}
