/* Each changing call of the library once, ready to be run, for sweeps that
 * make it fail, stop or die at every system call. */
#ifndef OPERATIONS_H
#define OPERATIONS_H

#include "faults.h"

struct world {
  path_text root, staged, corpus;
  symlease_campaign *a, *b;
  symlease_lease lease, other;
  symlease_group group;
};

struct operation {
  const char *name;
  void (*prepare)(struct world *world);
  symlease_status (*run)(struct world *world);
  int phased; /* goes on by durable steps: a failed one may have taken some of them */
};

extern const struct operation operations[];
extern const size_t operation_count;
const struct operation *named(const char *name);

/* A new world below root, prepared. */
void begin_world(struct world *world, const char *root, long number, const struct operation *operation);
/* Closes its handles and removes its files. */
void end_world(struct world *world);

#endif
