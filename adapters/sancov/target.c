/* Test target: loops n times, then ends in the way asked for. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symlease_sancov.h"

int other = 7; /* neighbour data: must stay this process's own */
volatile int sink;

__attribute__((noinline)) static void hit(void) { sink++; }

static void dump(const char *what, size_t (*get)(uint8_t *, size_t)) {
  static uint8_t buf[1 << 16];
  size_t i, n = get(buf, sizeof buf);
  printf("%s", what);
  for (i = 0; i < n; i++)
    if (buf[i]) printf(" %zu:%u", i, buf[i]);
  printf("\n");
}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "exit";
  int i, n = argc > 2 ? atoi(argv[2]) : 5;
  symlease_sancov_say(1);
  fflush(stdout);
  if (argc > 3) {
    void *lib = dlopen(argv[3], RTLD_NOW);
    int (*f)(int) = NULL;
    if (!lib) return 9;
    *(void **)&f = dlsym(lib, "plug");
    sink += f(3);
    symlease_sancov_publish();
    if (!strcmp(how, "dlclose")) dlclose(lib);
  }
  for (i = 0; i < n; i++) hit();
  if (!strcmp(how, "reset")) {
    symlease_sancov_reset();
    hit();
  }
  if (!strcmp(how, "publish")) {
    symlease_sancov_publish();
    raise(SIGKILL);
  }
  if (!strcmp(how, "abort")) abort();
  if (!strcmp(how, "kill")) raise(SIGKILL);
  if (!strcmp(how, "segv")) *(volatile int *)(uintptr_t)(argc - argc) = 1;
  if (!strcmp(how, "fork")) {
    if (fork() == 0) {
      other = 8;
      hit();
      _exit(0);
    }
    sleep(1);
    printf("other %d\n", other);
  }
  printf("size %zu edges %zu shared %d\n", symlease_sancov_size(), symlease_sancov_edges(),
         symlease_sancov_shared());
  dump("counts", symlease_sancov_counts);
  dump("classes", symlease_sancov_classified);
  return 0;
}
