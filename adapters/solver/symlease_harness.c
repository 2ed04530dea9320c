/* symlease_harness.c - main() for a LLVMFuzzerTestOneInput target: runs it on
 * each file given, or once on stdin. For the build that measures coverage. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__clang__) && __clang_major__ >= 13
#pragma clang attribute push(__attribute__((no_sanitize("coverage"))), apply_to = function)
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));

static int run(FILE *f, const char *name) {
  size_t size = 4096, n = 0, got;
  uint8_t *p = malloc(size), *exact;
  while (p != NULL && (got = fread(p + n, 1, size - n, f)) > 0) {
    n += got;
    if (n == size) {
      uint8_t *more = realloc(p, size *= 2);
      if (more == NULL) free(p);
      p = more;
    }
  }
  if (p == NULL || ferror(f)) {
    fprintf(stderr, "symlease-harness: %s: %s\n", name, p == NULL ? "no memory" : strerror(errno));
    free(p);
    return 3;
  }
  exact = malloc(n > 0 ? n : 1); /* its very size, for ASan */
  if (exact == NULL) {
    free(p);
    return 3;
  }
  memcpy(exact, p, n);
  free(p);
  LLVMFuzzerTestOneInput(exact, n);
  free(exact);
  return 0;
}

int main(int argc, char **argv) {
  int i, code = 0;
  if (LLVMFuzzerInitialize != NULL) LLVMFuzzerInitialize(&argc, &argv);
  if (argc < 2) return run(stdin, "stdin");
  for (i = 1; i < argc; i++) {
    FILE *f = fopen(argv[i], "rb");
    if (f == NULL) {
      fprintf(stderr, "symlease-harness: %s: %s\n", argv[i], strerror(errno));
      code = 3;
      continue;
    }
    if (run(f, argv[i]) != 0) code = 3;
    fclose(f);
  }
  return code;
}

#if defined(__clang__) && __clang_major__ >= 13
#pragma clang attribute pop
#endif
