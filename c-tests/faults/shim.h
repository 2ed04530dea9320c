/* System calls of the library, made to fail, counted, or accompanied. The
 * program's own definitions stand before libc's, for the shared library as for
 * the static one: what LD_PRELOAD does, within one program, so that a test says
 * at each moment which call fails. Single-threaded while armed. */
#ifndef SHIM_H
#define SHIM_H

enum shim_call {
  SHIM_OPEN,
  SHIM_CLOSE, /* of a descriptor that was written to */
  SHIM_STAT,
  SHIM_READ,
  SHIM_WRITE,
  SHIM_SYNC,
  SHIM_RENAME,
  SHIM_LINK,
  SHIM_UNLINK,
  SHIM_MKDIR,
  SHIM_LOCK,
  SHIM_LIST, /* a directory's listing begins */
  SHIM_CALLS,
  SHIM_ANY = SHIM_CALLS
};

/* What is seen: calls on paths that begin with `below`. */
struct shim {
  const char *below;   /* NULL: the shim is asleep */
  const char *within;  /* if set: only paths with this text in them */
  enum shim_call call; /* the call that fails, or SHIM_ANY */
  long at;             /* the `at`-th one fails; 0: none */
  int error;           /* with this errno; 0: it is not made to fail */
  int for_ever;        /* and all later ones */
  int directories;     /* of syncs: 1 those of directories only, -1 those of files only */
  /* runs before the at-th call, or before each one where at is 0; answers the
   * errno it is to fail with, or 0 */
  int (*hook)(enum shim_call call, const char *path);
  long seen[SHIM_CALLS + 1]; /* out: calls that matched, by name and in all */
  int fired;                 /* out: how often a call was made to fail, or the hook ran */
};
extern struct shim shim;

/* Syncs that succeed are not really made: for sweeps of thousands of worlds. */
extern int shim_no_syncs;

/* Asleep again; answers how often it fired. */
int shim_end(void);

/* Added to CLOCK_REALTIME, in seconds. */
extern double shim_clock_shift;

/* Asked for each name of a listing: 0 as it is, 1 left out, 2 given twice. */
extern int (*shim_listing)(const char *name);

/* The flags of the last openat that matched. */
extern int shim_open_flags;

const char *shim_name(enum shim_call call);

#endif
