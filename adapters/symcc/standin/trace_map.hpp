#ifndef STANDIN_TRACE_MAP_HPP
#define STANDIN_TRACE_MAP_HPP

#include <string>

#define EXPORTED __attribute__((visibility("default")))

namespace qsym {

// A branch is marked before it is told whether it is interesting, as QSYM does;
// a shared map is read at start and written whole, in place, at every gain.
class AflTraceMap {
 public:
  EXPORTED bool isInterestingBranch(unsigned long site, bool taken);
  void load();

 private:
  bool always_ = false;
  std::string path_;
  unsigned char trace_[65536] = {}, counts_[65536] = {};
  unsigned long previous_ = 0;
};

}  // namespace qsym

#endif
