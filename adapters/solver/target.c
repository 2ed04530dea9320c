/* Test target: magic, length, keyword, switch, each behind the one before.
 * MODE (environment): "crash" and "hang" end the run after the magic's check. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char magic[] = "QzF!";

static uint32_t big(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *mode = getenv("MODE");
  const char *deep = getenv("DEEP");
  uint32_t first;
  uint16_t length;
  char word[16];
  size_t i;
  if (mode != NULL && mode[0] == 'e') return 0;
  puts("the target prints");
  if (size < 24) return 0;
  memcpy(&first, data, 4);
  if (first == 0x8f21c35a && mode == NULL) return 1;
  if (mode != NULL && mode[0] == 'c') abort();
  if (mode != NULL && mode[0] == 'h')
    for (;;) sleep(1);
  if (big(data) != 0x7f51ad03) return 0; /* big-endian magic */
  memcpy(&length, data + 4, 2);
  if (length < 1000) return 0;
#ifndef __OPTIMIZE__ /* the optimiser would make one comparison of x - 1000 of them */
  if (length > 1010) return 0;
#endif
  if (memcmp(data + 6, magic, 4) != 0) return 0;
  memcpy(word, data + 10, 7);
  word[7] = '\0';
  if (strcmp(word, "keyword") != 0) return 0;
  memcpy(word, data + 17, 3);
  word[3] = '\0';
  if (atoi(word) != 742) return 0; /* digits */
  for (i = 0; i < 3; i++) /* its second round is met by --again alone */
    if (data[20 + i] != "x7k"[i] && getenv("LOOP") != NULL) return 0;
  switch (data[23]) {
    case 3: return 2;
    case 77: return 3;
    case 200:
      if (deep != NULL) {
        FILE *f = fopen(deep, "w");
        if (f != NULL) fclose(f);
      }
      return 4;
    default: return 0;
  }
}
