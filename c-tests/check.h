/* Shared by the C and C++ programs here. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symlease.h"

/* fprintf and _exit-like ends in forked children are the caller's choice. */
#define CHECK(what)                                                                           \
  do {                                                                                        \
    if (!(what)) {                                                                            \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #what, symlease_last_error());   \
      exit(1);                                                                                \
    }                                                                                         \
  } while (0)

/* A number of rounds; less where SYMLEASE_TEST_DIVIDE says so (valgrind). */
static inline int rounds(int wanted) {
  const char *divide = getenv("SYMLEASE_TEST_DIVIDE");
  int by = divide ? atoi(divide) : 1;
  return by > 1 ? (wanted + by - 1) / by : wanted;
}

/* A handle that neither syncs nor has a session: the real clock, `ttl` seconds. */
static inline symlease_campaign *open_plain(const char *root, const char *owner, double ttl) {
  symlease_options options;
  symlease_campaign *campaign = NULL;
  symlease_options_init(&options, sizeof options);
  options.owner = owner;
  options.work_ttl = ttl;
  options.lock_timeout = 30.0;
  options.durability = SYMLEASE_DURABLE_PROCESS;
  options.session = SYMLEASE_SESSION_NONE;
  CHECK(symlease_open(root, &options, &campaign) == SYMLEASE_OK);
  return campaign;
}

static inline void numbered_id(int number, char id[SYMLEASE_ID_SIZE]) {
  char name[32];
  snprintf(name, sizeof name, "work %d", number);
  CHECK(symlease_work_id(name, strlen(name), id) == SYMLEASE_OK);
}

#endif
