/* Test target: four bytes make it crash, four others make it hang. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 8) return 0;
  if (memcmp(data, "CRSH", 4) == 0) abort();
  if (memcmp(data, "HANG", 4) == 0)
    for (;;) sleep(1);
  if (memcmp(data + 4, "fine", 4) == 0) return 1;
  return 0;
}
