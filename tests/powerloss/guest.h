/* Shared by the programs that run inside the guest. */
#ifndef GUEST_H
#define GUEST_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symlease.h"

enum { MAP_SIZE = 65536, TARGETS = 24, SHARDS = 8 };

/* What every process of one boot knows. */
struct boot {
  const char *campaign; /* on the disk that loses power */
  const char *corpus;
  const char *staging;
  const char *reports; /* outside: a folder of the host */
  unsigned number;     /* of this boot */
  uint64_t seed;
  int workers;
  int32_t durability;
  double lag; /* seconds that the clock of work leases is behind in this boot */
};

/* One line of the report, gathered and then written by one write(). */
void line_begin(void);
void line_add(const char *format, ...) __attribute__((format(printf, 1, 2)));
void line_end(void);
/* Opens the report of this process; ends the process where it cannot. */
void report_open(const struct boot *boot, const char *who);
/* Says what was wrong beyond an answer, and ends the process. */
void report_fatal(const char *what);

/* Numbers that follow from the seed. */
struct dice {
  uint64_t state;
};
uint64_t roll(struct dice *dice);
uint64_t below(struct dice *dice, uint64_t bound);

double clock_behind(void *seconds);
symlease_campaign *campaign_open(const struct boot *boot, const char *owner, double *behind);
/* The record's version, where it still carries `token` and `status`; else 0. */
uint64_t version_of(symlease_campaign *campaign, const char *id, const char *token,
                    const char *status);

/* Everything a worker does, until the power goes. */
void work(const struct boot *boot, int place, unsigned generation);
/* What a first coordinator does after the power came back. Returns an exit code. */
int recover(const struct boot *boot);

#endif
