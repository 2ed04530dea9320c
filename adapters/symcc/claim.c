/* claim.c - what is being solved now: a target lease, and who may take it over. */
#include "symcc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HOLDER 160
#define MOST_ERRORS 8 /* in a row: then claiming is given up */

bool symcc_(solving);
symcc_digest symcc_(current);

static symlease_campaign *campaign;
static symlease_group held;
static pid_t held_by; /* the process; a forked child's copy is not its own */
static char holder[HOLDER];
static pid_t holder_pid;
static unsigned errors_in_a_row;

/* ---- who is it? ---- */

/* When the process began, in ticks since boot; 0: there is none, or a dead one. */
static unsigned long long start_of(long pid) {
  char path[64], text[1024], state;
  unsigned long long start = 0;
  ssize_t n;
  const char *at;
  int fd;
  snprintf(path, sizeof path, "/proc/%ld/stat", pid);
  fd = symcc_(open)(AT_FDCWD, path, O_RDONLY, 0);
  if (fd < 0) return 0;
  n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return 0;
  text[n] = '\0';
  at = strrchr(text, ')'); /* a name may hold anything */
  if (at == NULL ||
      sscanf(at + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
             &state, &start) != 2)
    return 0;
  return state == 'Z' || state == 'X' ? 0 : start;
}

/* "<boot id> <pid namespace> <pid> <start>": compared only where boot and
 * namespace are this process's own. */
static void name_myself(void) {
  char boot[40] = "";
  struct stat space;
  int fd = symcc_(open)(AT_FDCWD, "/proc/sys/kernel/random/boot_id", O_RDONLY, 0);
  if (fd >= 0) {
    if (read(fd, boot, 36) != 36) boot[0] = '\0';
    close(fd);
  }
  holder[0] = '\0';
  if (boot[0] != '\0' && stat("/proc/self/ns/pid", &space) == 0)
    snprintf(holder, sizeof holder, "%s %llu %d %llu", boot, (unsigned long long)space.st_ino,
             (int)getpid(), start_of(getpid()));
  holder_pid = getpid();
}

/* The value of `"key":` in a record; its text ends at `until`. */
static bool field(const char *json, const char *key, char until, char *out, size_t size) {
  char name[64];
  const char *at, *end;
  snprintf(name, sizeof name, "\"%s\":", key);
  at = strstr(json, name);
  if (at == NULL) return false;
  for (at += strlen(name); *at == ' '; at++) {
  }
  if (until == '"' && *at++ != '"') return false;
  end = strpbrk(at, until == '"' ? "\"" : ",} \n");
  if (end == NULL || (size_t)(end - at) >= size) return false;
  memcpy(out, at, (size_t)(end - at));
  out[end - at] = '\0';
  return true;
}

/* Whether the record's holder can be no more: it died on this host, or it ran
 * under the work lease that is ours now. */
static bool holder_is_gone(const char *json) {
  char text[HOLDER], work[SYMLEASE_ID_SIZE];
  char boot[40], my_boot[40];
  unsigned long long space, my_space, start, my_start, now;
  long pid, my_pid;
  const symcc_settings *s = &symcc_(settings);
  if (s->work != NULL && field(json, "symcc_work", '"', work, sizeof work) &&
      strcmp(work, s->work) == 0 && symcc_(work_is_mine)())
    return true;
  if (!field(json, "symcc_holder", '"', text, sizeof text) ||
      sscanf(text, "%39s %llu %ld %llu", boot, &space, &pid, &start) != 4 ||
      sscanf(holder, "%39s %llu %ld %llu", my_boot, &my_space, &my_pid, &my_start) != 4)
    return false;
  if (strcmp(boot, my_boot) != 0 || space != my_space) return false;
  if (pid == my_pid && start == my_start) return true; /* mine, and I am not solving */
  now = start_of(pid);
  return now != start;
}

/* Takes the lease of a holder that is gone, and of no other: a record written
 * since is younger than the one that was judged, and so is live. */
static symlease_status take_over(uint64_t target, const char *payload) {
  char id[SYMLEASE_ID_SIZE], updated[64];
  char *json = NULL;
  symlease_claim_options how = {.struct_size = sizeof how};
  symlease_status status = SYMLEASE_HELD;
  struct timespec now;
  if (symlease_target_id(target, id) != SYMLEASE_OK ||
      symlease_read_record(campaign, SYMLEASE_TABLE_TARGET, id, &json) != SYMLEASE_OK)
    return SYMLEASE_HELD;
  clock_gettime(CLOCK_REALTIME, &now);
  how.now = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
  if (holder_is_gone(json) && field(json, "updated", ',', updated, sizeof updated)) {
    how.ttl = how.now - strtod(updated, NULL);
    if (how.ttl > 0 && how.ttl <= 86400)
      status = symlease_group_claim_with(campaign, &target, 1, payload, &how, &held, NULL);
    if (status == SYMLEASE_OK) symcc_(counts).taken_over++;
  }
  symlease_string_free(json);
  return status;
}

/* ---- claim and release ---- */

bool symcc_(claim_start)(void) {
  symlease_options options;
  symlease_status status;
  const char *ttl = secure_getenv("SYMCC_MULTI_MASTER_TARGET_LEASE_TTL");
  symlease_options_init(&options, sizeof options);
  options.session = SYMLEASE_SESSION_NONE; /* nothing stays open between calls */
  options.lock_timeout = 1;
  options.file_mode = symcc_(settings).mode != 0600 ? symcc_(settings).mode : 0;
  options.durability = symcc_(settings).durability;
  if (ttl == NULL || ttl[0] == '\0') options.target_ttl = 60; /* QSYM gives up after 10 s */
  status = symcc_(settings).campaign != NULL
               ? symlease_open(symcc_(settings).campaign, &options, &campaign)
               : symlease_open_env(&options, &campaign);
  if (status != SYMLEASE_OK) symcc_(trouble)("campaign: %s", symlease_last_error());
  return status == SYMLEASE_OK;
}

bool symcc_(claim_is_mine)(void) { return held_by == getpid(); }

bool symcc_(work_is_mine)(void) {
  symlease_lease lease = {0};
  symlease_status status;
  if (symcc_(settings).work == NULL || symcc_(settings).token == NULL) return true;
  snprintf(lease.id, sizeof lease.id, "%s", symcc_(settings).work);
  snprintf(lease.token, sizeof lease.token, "%s", symcc_(settings).token);
  status = symlease_verify(campaign, &lease);
  if (status < 0) symcc_(trouble)("work lease: %s", symlease_last_error());
  return status == SYMLEASE_OK;
}

symcc_claim_answer symcc_(claim)(const symcc_digest *target) {
  char payload[HOLDER + SYMLEASE_ID_SIZE + 64];
  uint64_t number = 0;
  symlease_status status;
  const char *work = symcc_(settings).work;
  if (errors_in_a_row >= MOST_ERRORS) return SYMCC_TROUBLE;
  if (holder_pid != getpid()) name_myself();
  for (int i = 0; i < 8; i++) number = number << 8 | target->byte[i];
  if (number == 0) number = 1;
  snprintf(payload, sizeof payload, "{\"symcc_holder\":\"%s\",\"symcc_work\":\"%.64s\"}", holder,
           work != NULL ? work : "");
  status = symlease_group_claim(campaign, &number, 1, payload, &held, NULL);
  if (status == SYMLEASE_HELD) status = take_over(number, payload);
  if (status == SYMLEASE_HELD) {
    errors_in_a_row = 0;
    return SYMCC_HELD;
  }
  if (status != SYMLEASE_OK) {
    symcc_(trouble)("claim of a target: %s: %s", symlease_status_name(status),
                    symlease_last_error());
    if (++errors_in_a_row == MOST_ERRORS)
      symcc_(say)("%d claims failed in a row: no more claims, all is solved as usual",
                  MOST_ERRORS);
    return SYMCC_TROUBLE;
  }
  errors_in_a_row = 0;
  held_by = holder_pid;
  symcc_(current) = *target;
  symcc_(solving) = true;
  symcc_(counts).claimed++;
  return SYMCC_CLAIMED;
}

void symcc_(release)(void) {
  symlease_status status;
  if (!symcc_(solving)) return;
  symcc_(solving) = false;
  if (!symcc_(claim_is_mine)()) return;
  status = symlease_group_release(campaign, &held); /* STALE: it took longer than the lease */
  if (status < 0) symcc_(trouble)("release of a target: %s", symlease_last_error());
}
