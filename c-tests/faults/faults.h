/* The rows of the fault list as tests: each a function with its row's number in
 * its name, run in a process and a directory of its own. */
#ifndef FAULTS_H
#define FAULTS_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"
#include "shim.h"

struct fault {
  const char *name;
  void (*test)(const char *root);
};
#define FAULT(name) {#name, name}

/* Runs each in turn; SYMLEASE_TEST_ONLY: those whose names begin so. */
int run_faults(int count, char **arguments, const struct fault *faults, size_t n);

/* Ends the calling test: what it needs is not here. Says so. */
void skip(const char *why);

/* Directories whose length is no test's concern. */
typedef char path_text[PATH_MAX];
void below(path_text path, const char *root, const char *name);

/* All regular files below a directory in order, a line each: path, size and a
 * digest of the bytes. Lock files are left out. To be freed. */
char *snapshot(const char *root);
/* The same without campaigns' identities: a change that failed may leave one,
 * which stands for nothing yet. */
char *records(const char *root);
/* No name of an unpublished file in a snapshot. */
int no_temporaries(const char *snapshot);
void remove_tree(const char *root);
/* A file's bytes, to be freed; NULL: it is not there. */
char *read_file(const char *path, size_t *size);
void write_file(const char *path, const void *bytes, size_t size);
int open_descriptors(void);
void nap(long microseconds);

/* The time that handles opened here live in; shared with forked children. */
extern double *fault_time;
double fault_clock(void *user);

/* Options of a handle on that clock, without session, its TTL 10 s. */
symlease_options fault_options(const char *owner);
symlease_campaign *open_fault(const char *root, const char *owner);
symlease_campaign *open_with(const char *root, const symlease_options *options);

/* Where files of a lease table lie. */
void record_path(path_text path, const char *root, const char *table, const char *id);

#endif
