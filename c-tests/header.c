/* Compiled only: the header alone, in every language it promises. */
#include "symlease.h"

int symlease_header_is_whole(const symlease_options *options);
int symlease_header_is_whole(const symlease_options *options) {
  return options->struct_size == sizeof *options && symlease_abi_version() == SYMLEASE_ABI_VERSION;
}
