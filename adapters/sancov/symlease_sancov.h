/* symlease_sancov.h - SanitizerCoverage counts in memory, or in a file that
 * outlives the target. Link symlease_sancov.o as an OBJECT FILE: see README.md. */
#ifndef SYMLEASE_SANCOV_H
#define SYMLEASE_SANCOV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bits of symlease_sancov_live() and of the header's `live`. */
#define SYMLEASE_SANCOV_NONE 0
#define SYMLEASE_SANCOV_GUARD 1    /* trace-pc-guard */
#define SYMLEASE_SANCOV_COUNTERS 2 /* inline-8bit-counters */

#define SYMLEASE_SANCOV_MAGIC "SLSANCOV" /* 8 bytes, no NUL */
#define SYMLEASE_SANCOV_VERSION 1u
#define SYMLEASE_SANCOV_HEADER_BYTES 4096u
#define SYMLEASE_SANCOV_MAX_MODULES 240u
#define SYMLEASE_SANCOV_MAX_CAPACITY (UINT64_C(1) << 30)

/* One instrumented module (program or shared object), in init order. */
typedef struct {
  uint32_t base;   /* its first byte in the map */
  uint32_t edges;  /* its counters */
  uint32_t kind;   /* SYMLEASE_SANCOV_GUARD or _COUNTERS */
  uint32_t direct; /* 1: counted in the map itself; 0: copied by publish */
} symlease_sancov_module;

/* The file: this header, zero-padded to HEADER_BYTES, then `capacity` counts.
 * Numbers are in the machine's byte order. The parent writes magic, version,
 * header_bytes and capacity, leaves the rest zero, and sets the file's length. */
typedef struct {
  uint8_t magic[8];
  uint32_t version;
  uint32_t header_bytes; /* 4096 */
  uint64_t capacity;     /* bytes for counts: multiple of 4096, at most 1 GiB */
  uint64_t size;         /* bytes in use: multiple of 64 */
  uint64_t dropped;      /* edges that did not fit and are not counted */
  uint32_t live;         /* bits above */
  uint32_t modules;
  uint32_t owner; /* process that counts here; 0: free */
  uint32_t reserved;
  symlease_sancov_module module[SYMLEASE_SANCOV_MAX_MODULES];
} symlease_sancov_header;

/* Which hooks the compiler's constructors have called so far. */
int symlease_sancov_live(void);
/* Bytes of the map in use, a multiple of 64; grows at dlopen. */
size_t symlease_sancov_size(void);
/* Edges seen at init, without padding. */
size_t symlease_sancov_edges(void);
/* Copy raw counts / AFL buckets. Both publish first; return bytes written,
 * the smaller of len and the size. */
size_t symlease_sancov_counts(uint8_t *out, size_t len);
size_t symlease_sancov_classified(uint8_t *out, size_t len);
/* Zero all counts. */
void symlease_sancov_reset(void);
/* Copy counts the compiler keeps in its own array into the map. Not for
 * signal handlers. Returns how many modules needed the copy. */
size_t symlease_sancov_publish(void);
/* 1 if the map is the file named by SYMLEASE_SANCOV_FILE, else 0. */
int symlease_sancov_shared(void);
/* One line to fd on what is live; also to stderr if nothing is. Returns live. */
int symlease_sancov_say(int fd);

#ifdef __cplusplus
}
#endif
#endif
