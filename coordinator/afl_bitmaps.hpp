// The coverage that afl-fuzz instances already have.
#ifndef COORDINATOR_AFL_BITMAPS_HPP
#define COORDINATOR_AFL_BITMAPS_HPP

#include <cstdint>
#include <map>
#include <string>

#include "afl_queues.hpp"
#include "report.hpp"
#include "symlease.hpp"

namespace coordinator {

/// Merges each instance's fuzz_bitmap into the campaign's coverage, when it
/// changed. It belongs to one build of the target: that of an instance which
/// runs another one, or nobody knows which, is left alone (C6).
class afl_bitmaps {
 public:
  afl_bitmaps(const symlease::campaign &campaign, report &says, std::string out, std::string peer,
              std::string identity, std::uint64_t map_size);
  void import();

 private:
  struct known {
    std::string begun, why_not;  // the instance's start_time; empty: it is ours
    bool judged = false;
    std::int64_t changed = -1;
  };
  [[nodiscard]] std::string judge(const std::map<std::string, std::string> &stats) const;
  void import_one(const afl_instance &one);

  const symlease::campaign &campaign_;
  report &says_;
  std::string out_, peer_, identity_;
  std::uint64_t map_size_;
  std::map<std::string, known> known_;  // by instance
};

}  // namespace coordinator

#endif
