/* Holds targets through the C API until stdin ends: holder DIR ID... */
#include <stdio.h>
#include <stdlib.h>

#include "symlease.h"

int main(int argc, char **argv) {
  symlease_campaign *c;
  symlease_group g;
  uint64_t ids[SYMLEASE_GROUP_MAX];
  int i;
  if (argc < 3 || argc > 2 + SYMLEASE_GROUP_MAX) return 2;
  for (i = 2; i < argc; i++) ids[i - 2] = strtoull(argv[i], NULL, 10);
  if (symlease_open(argv[1], NULL, &c) != SYMLEASE_OK ||
      symlease_group_claim(c, ids, (size_t)argc - 2, NULL, &g, NULL) != SYMLEASE_OK) {
    fprintf(stderr, "holder: %s\n", symlease_last_error());
    return 1;
  }
  puts("held");
  fflush(stdout);
  while (getchar() != EOF) {
  }
  if (symlease_group_release(c, &g) != SYMLEASE_OK) return 1;
  symlease_close(c);
  return 0;
}
