/* The guest's program: `guest work ...` lets several processes change one
 * campaign at once until the power goes; `guest recover ...` is what the first
 * coordinator does when it is back.
 *
 * Every change is told outside twice: a line before the call and one after it
 * returned. Each line is one write() to a file of the host's (hostfs), which
 * the kernel of the guest hands to the host before write() returns. So a line
 * `end ... 0` exists only when the library had already answered OK, and it
 * outlives the guest; a change that nobody announced cannot be on the disk. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

static char text[1 << 18];
static size_t used;
static int report_fd = -1;

void line_begin(void) { used = 0; }

void line_add(const char *format, ...) {
  va_list arguments;
  int count;
  va_start(arguments, format);
  count = vsnprintf(text + used, sizeof text - used, format, arguments);
  va_end(arguments);
  if (count < 0 || (size_t)count >= sizeof text - used - 1) abort();
  used += (size_t)count;
}

void line_end(void) {
  text[used++] = '\n';
  if (write(report_fd, text, used) != (ssize_t)used) _exit(90);
}

void report_open(const struct boot *boot, const char *who) {
  char path[512];
  snprintf(path, sizeof path, "%s/%04u.%s.log", boot->reports, boot->number, who);
  report_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (report_fd < 0) {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    _exit(91);
  }
}

void report_fatal(const char *what) {
  line_begin();
  line_add("{\"fatal\":\"%s\",\"why\":\"", what);
  for (const char *at = symlease_last_error(); *at; at++)
    line_add("%c", *at == '"' || *at == '\\' || (unsigned char)*at < ' ' ? '\'' : *at);
  line_add("\"}");
  line_end();
  _exit(92);
}

uint64_t roll(struct dice *dice) {
  uint64_t mixed = dice->state += 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return mixed ^ (mixed >> 31);
}

uint64_t below(struct dice *dice, uint64_t bound) { return roll(dice) % bound; }

double clock_behind(void *seconds) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9 - *(double *)seconds;
}

symlease_campaign *campaign_open(const struct boot *boot, const char *owner, double *behind) {
  symlease_options options;
  symlease_campaign *campaign = NULL;
  symlease_options_init(&options, sizeof options);
  options.owner = owner;
  options.work_ttl = 0.4; /* so that leases pass to others within one boot */
  options.target_ttl = 0.4;
  options.lock_timeout = 60.0;
  options.lease_shards = 8; /* so that records share directories */
  options.coverage_shards = SHARDS;
  options.durability = boot->durability;
  options.clock = clock_behind;
  options.clock_user = behind;
  if (symlease_open(boot->campaign, &options, &campaign) != SYMLEASE_OK) report_fatal("open");
  return campaign;
}

uint64_t version_of(symlease_campaign *campaign, const char *id, const char *token,
                    const char *status) {
  char *json = NULL, wanted[SYMLEASE_TOKEN_SIZE + 16], state[64];
  const char *at;
  uint64_t version = 0;
  symlease_status answer = symlease_read_record(campaign, SYMLEASE_TABLE_WORK, id, &json);
  if (answer == SYMLEASE_ABSENT) return 0;
  if (answer != SYMLEASE_OK) report_fatal("read_record");
  snprintf(wanted, sizeof wanted, "\"token\":\"%s\"", token);
  snprintf(state, sizeof state, "\"status\":\"%s\"", status);
  at = strstr(json, "\"version\":");
  if (at && strstr(json, wanted) && strstr(json, state))
    version = strtoull(at + strlen("\"version\":"), NULL, 10);
  symlease_string_free(json);
  return version;
}

static pid_t start(const struct boot *boot, int place, unsigned generation) {
  pid_t child = fork();
  if (child == 0) {
    work(boot, place, generation);
    _exit(0);
  }
  if (child < 0) _exit(93);
  return child;
}

/* Workers die, too, while the others go on: what they leave is then changed
 * further before the power goes. */
static int supervise(const struct boot *boot) {
  struct dice dice = {boot->seed ^ ((uint64_t)boot->number << 32)};
  pid_t children[16];
  unsigned generation = 0;
  for (int place = 0; place < boot->workers; place++)
    children[place] = start(boot, place, generation);
  for (int turn = 0; turn < 200; turn++) {
    struct timespec pause = {0, (long)(200000000 + below(&dice, 600000000))};
    int place = (int)below(&dice, (uint64_t)boot->workers), state;
    nanosleep(&pause, NULL);
    kill(children[place], SIGKILL);
    if (waitpid(children[place], &state, 0) != children[place]) return 94;
    children[place] = start(boot, place, ++generation);
  }
  return 95; /* the host should have cut the power long ago */
}

int main(int count, char **arguments) {
  struct boot boot = {0};
  if (count != 11) {
    fprintf(stderr,
            "guest work|recover CAMPAIGN CORPUS STAGING REPORTS BOOT SEED WORKERS "
            "power|process LAG\n");
    return 2;
  }
  boot.campaign = arguments[2];
  boot.corpus = arguments[3];
  boot.staging = arguments[4];
  boot.reports = arguments[5];
  boot.number = (unsigned)strtoul(arguments[6], NULL, 10);
  boot.seed = strtoull(arguments[7], NULL, 10);
  boot.workers = atoi(arguments[8]);
  boot.durability =
      strcmp(arguments[9], "power") == 0 ? SYMLEASE_DURABLE_POWER : SYMLEASE_DURABLE_PROCESS;
  boot.lag = strtod(arguments[10], NULL);
  if (boot.workers < 1 || boot.workers > 16) return 2;
  return strcmp(arguments[1], "recover") == 0 ? recover(&boot) : supervise(&boot);
}
