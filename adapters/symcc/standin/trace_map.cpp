#include "trace_map.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace qsym {

void AflTraceMap::load() {
  always_ = getenv("STANDIN_ALWAYS") != nullptr && atoi(getenv("STANDIN_ALWAYS")) != 0;
  const char *path = getenv("SYMCC_AFL_COVERAGE_MAP");
  if (path == nullptr) return;
  path_ = path;
  if (FILE *file = fopen(path, "rb")) {
    for (unsigned char &each : trace_) each = static_cast<unsigned char>(std::max(0, fgetc(file)));
    fclose(file);
  }
}

bool AflTraceMap::isInterestingBranch(unsigned long site, bool taken) {
  const unsigned long hash = (site * 0x9e3779b97f4a7c15ul >> 20) + taken;
  const unsigned long at = ((previous_ >> 1) ^ hash) % 65536;
  previous_ = hash;
  counts_[at]++;
  if (always_) return true;
  if ((counts_[at] | trace_[at]) == trace_[at]) return false;
  trace_[at] |= counts_[at];
  if (!path_.empty()) {
    if (FILE *file = fopen(path_.c_str(), "wb")) {
      fwrite(trace_, 1, sizeof trace_, file);
      fclose(file);
    }
  }
  return true;
}

}  // namespace qsym
