/* zlib_harness.c - a harness around zlib. The first four bytes may name an entry
 * point; without a name the whole input is a zlib or gzip stream. The seeds
 * name none: the others are for the solver to find. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "zlib.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 256, OUTPUT_MAX = 256 };

/* Only the build for the solver sets this: one input in so many is solved, in
 * the others nothing is compared. So a campaign's work comes to an end. */
#ifndef SOLVE_ONE_IN
#define SOLVE_ONE_IN 1
#endif

static int is_solved(const uint8_t *data, size_t size) {
  uint32_t hash = 2166136261u; /* FNV-1a */
  for (size_t i = 0; i < size; i++) hash = (hash ^ data[i]) * 16777619u;
  return (hash >> 16) % SOLVE_ONE_IN == 0;
}

/* Zeroed memory: one input, one path. */
static void *zeroed(void *opaque, uInt items, uInt size) {
  (void)opaque;
  return calloc(items, size);
}

static void release(void *opaque, void *address) {
  (void)opaque;
  free(address);
}

static z_stream fresh(const uint8_t *in, size_t n) {
  z_stream s;
  memset(&s, 0, sizeof s);
  s.zalloc = zeroed;
  s.zfree = release;
  s.next_in = (z_const Bytef *)in;
  s.avail_in = (uInt)n;
  return s;
}

/* A whole stream, `step` bytes in at a time. */
static void unpack(const uint8_t *in, size_t n, int window, size_t step) {
  static uint8_t out[OUTPUT_MAX], name[64], extra[64], comment[64];
  z_stream s = fresh(in, 0);
  gz_header head;
  int r = Z_OK;
  if (inflateInit2(&s, window) != Z_OK) return;
  memset(&head, 0, sizeof head);
  head.name = name;
  head.name_max = sizeof name;
  head.extra = extra;
  head.extra_max = sizeof extra;
  head.comment = comment;
  head.comm_max = sizeof comment;
  if (window > 15) inflateGetHeader(&s, &head);
  s.next_out = out;
  s.avail_out = sizeof out;
  while (r == Z_OK && n > 0) {
    size_t now = n < step ? n : step;
    s.avail_in = (uInt)now;
    r = inflate(&s, Z_NO_FLUSH);
    n -= now - s.avail_in;
    if (r == Z_NEED_DICT) r = inflateSetDictionary(&s, (const Bytef *)"symlease", 8);
    if (r == Z_DATA_ERROR && inflateSync(&s) == Z_OK) inflate(&s, Z_FINISH);
    if (s.avail_in == now || s.avail_out == 0) break;
  }
  inflateEnd(&s);
}

static unsigned pull(void *desc, z_const Bytef **buf) {
  (void)desc;
  *buf = NULL;
  return 0;
}

static int push(void *desc, Bytef *buf, unsigned n) {
  size_t *left = desc;
  (void)buf;
  if (n > *left) return 1;
  *left -= n;
  return 0;
}

/* The callback interface, on a raw stream. */
static void unpack_back(const uint8_t *in, size_t n) {
  static uint8_t window[32768];
  size_t left = OUTPUT_MAX;
  z_stream s = fresh(in, n);
  if (inflateBackInit(&s, 15, window) != Z_OK) return;
  inflateBack(&s, pull, NULL, push, &left);
  inflateBackEnd(&s);
}

/* Three bytes of settings, then what is packed, unpacked and compared. */
static void round_trip(const uint8_t *in, size_t n) {
  static uint8_t packed[2 * INPUT_MAX + 1024], out[INPUT_MAX];
  int window = 9 + in[1] % 7, method = in[2] % 5;
  z_stream s = fresh(in + 3, n - 3);
  if (deflateInit2(&s, in[0] % 10, Z_DEFLATED, window, 1 + in[1] / 7 % 9, method) != Z_OK) return;
  s.next_out = packed;
  s.avail_out = sizeof packed;
  if (deflate(&s, Z_FINISH) == Z_STREAM_END) {
    uLong got = s.total_out;
    z_stream back = fresh(packed, got);
    if (inflateInit(&back) == Z_OK) {
      back.next_out = out;
      back.avail_out = sizeof out;
      if (inflate(&back, Z_FINISH) != Z_STREAM_END || back.total_out != n - 3 ||
          memcmp(out, in + 3, n - 3) != 0)
        abort();
      inflateEnd(&back);
    }
  }
  deflateEnd(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 8 || size > INPUT_MAX || !is_solved(data, size)) return 0;
  if (memcmp(data, "RAW:", 4) == 0)
    unpack(data + 4, size - 4, -15, size);
  else if (memcmp(data, "BACK", 4) == 0)
    unpack_back(data + 4, size - 4);
  else if (memcmp(data, "DRIP", 4) == 0)
    unpack(data + 4, size - 4, 47, 7);
  else if (memcmp(data, "TRIP", 4) == 0)
    round_trip(data + 4, size - 4);
  else
    unpack(data, size, 47, size);
  return 0;
}
