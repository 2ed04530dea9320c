/* One worker process: what it holds, and its two kinds of operations. */
#ifndef WORKER_H
#define WORKER_H

#include "guest.h"

enum { LEASES = 6, GROUPS = 3 };

struct worker {
  const struct boot *boot;
  char owner[32];
  struct dice dice;
  double behind;              /* of `late` */
  double no_lag;              /* of `plain` */
  symlease_campaign *late;    /* work leases, by a clock that may lag */
  symlease_campaign *plain;   /* all else, by the real clock */
  symlease_lease lease[LEASES];
  char stage[LEASES];         /* 0 free, 'l' leased, 'c' committing */
  symlease_group group[GROUPS];
  char held[GROUPS];
  unsigned files;             /* staged so far */
};

/* An answer of an error ends the process with the reason: on a sound disk none is due. */
void checked(symlease_status status, const char *what);

void do_group_claim(struct worker *worker);
void do_group_heartbeat(struct worker *worker);
void do_group_release(struct worker *worker);
void do_merge(struct worker *worker);
void do_merge_many(struct worker *worker);
void do_merge_counts(struct worker *worker);
void do_commit(struct worker *worker);

#endif
