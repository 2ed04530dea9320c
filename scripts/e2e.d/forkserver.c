/* forkserver.c - two targets under AFL++'s fork server, a run of one and a run of
 * the other in turn, and how long each took.
 *   forkserver SECONDS INPUT NAME=PROGRAM[:VARIABLE=VALUE...] NAME=PROGRAM...
 * Prints "NAME runs MEDIAN-IN-NANOSECONDS" for each. A run that does not end in
 * 20 s, or ends by a signal, is a failure. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CONTROL 198
#define STATUS 199
#define MAP (1 << 16)
#define MOST 1000000

typedef struct {
  const char *name;
  pid_t server, child; /* in the persistent mode the child waits, stopped */
  int control, status, input;
  uint32_t *took;
  size_t runs;
} target;

static char shm[32];

static void fail(const char *what) {
  fprintf(stderr, "forkserver: %s: %s\n", what, strerror(errno));
  exit(1);
}

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t answer(target *t) {
  struct pollfd one = {t->status, POLLIN, 0};
  uint32_t value;
  if (poll(&one, 1, 20000) != 1) fail("a run hangs");
  if (read(t->status, &value, 4) != 4) fail("the fork server is gone");
  return value;
}

static void become(char *words, int control, int status, int input) {
  char *program = strtok(words, ":");
  for (char *each; (each = strtok(NULL, ":")) != NULL;) putenv(each);
  if (dup2(control, CONTROL) < 0 || dup2(status, STATUS) < 0 || dup2(input, 0) < 0) exit(1);
  close(control);
  close(status);
  setenv("__AFL_SHM_ID", shm, 1);
  /* As afl-fuzz does for programs with these marks: before them both are off. */
  setenv("__AFL_DEFER_FORKSRV", "1", 1);
  setenv("__AFL_PERSISTENT", "1", 1);
  execl(program, program, (char *)NULL);
  exit(1);
}

static void start(target *t, char *words, const char *input) {
  int control[2], status[2];
  char *equals = strchr(words, '=');
  if (equals == NULL) exit(2);
  *equals = '\0';
  t->name = words;
  t->took = malloc(MOST * sizeof *t->took);
  t->input = open(input, O_RDONLY);
  if (t->took == NULL || t->input < 0 || pipe(control) != 0 || pipe(status) != 0) fail("start");
  t->server = fork();
  if (t->server == 0) {
    close(control[1]);
    close(status[0]);
    become(equals + 1, control[0], status[1], t->input);
  }
  close(control[0]);
  close(status[1]);
  /* The next server inherits neither. */
  fcntl(control[1], F_SETFD, FD_CLOEXEC);
  fcntl(status[0], F_SETFD, FD_CLOEXEC);
  t->control = control[1];
  t->status = status[0];
  answer(t); /* the handshake: what it offers is not used */
}

static void run(target *t) {
  uint64_t begun = now();
  uint32_t state, last = 0;
  if (lseek(t->input, 0, SEEK_SET) != 0 || write(t->control, &last, 4) != 4) fail("run");
  t->child = (pid_t)answer(t);
  state = answer(t);
  if (WIFSIGNALED(state)) {
    fprintf(stderr, "forkserver: %s ended by signal %d\n", t->name, WTERMSIG(state));
    exit(1);
  }
  if (t->runs < MOST) t->took[t->runs++] = (uint32_t)(now() - begun);
}

static int by_size(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

int main(int count, char **words) {
  target all[8] = {0};
  int n = count - 3, id;
  uint64_t end;
  if (n < 1 || n > 8) return 2;
  signal(SIGPIPE, SIG_IGN);
  id = shmget(IPC_PRIVATE, MAP, IPC_CREAT | 0600);
  if (id < 0) fail("shmget");
  snprintf(shm, sizeof shm, "%d", id);
  for (int i = 0; i < n; i++) start(&all[i], words[i + 3], words[2]);
  end = now() + (uint64_t)atol(words[1]) * 1000000000u;
  while (now() < end)
    for (int i = 0; i < n; i++) run(&all[i]);
  for (int i = 0; i < n; i++) {
    close(all[i].control);
    if (kill(all[i].child, SIGKILL) != 0 && errno != ESRCH) fail("kill");
    kill(all[i].server, SIGKILL);
    waitpid(all[i].server, NULL, 0);
    qsort(all[i].took, all[i].runs, sizeof *all[i].took, by_size);
    printf("%s %zu %u\n", all[i].name, all[i].runs, all[i].took[all[i].runs / 2]);
  }
  shmctl(id, IPC_RMID, NULL);
  return 0;
}
