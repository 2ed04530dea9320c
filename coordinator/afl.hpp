// A coordinator's part in an AFL++ campaign.
#ifndef COORDINATOR_AFL_HPP
#define COORDINATOR_AFL_HPP

#include <chrono>
#include <cstdint>
#include <string>

#include "afl_bitmaps.hpp"
#include "afl_peer.hpp"
#include "afl_queues.hpp"
#include "report.hpp"
#include "settings.hpp"
#include "symlease.hpp"
#include "work_list.hpp"

namespace coordinator {

/// Takes over the instances' coverage, publishes what is committed. For one thread.
class afl {
 public:
  afl(const settings &chosen, report &says, const symlease::campaign &campaign,
      const std::string &identity, std::uint64_t real_size);
  [[nodiscard]] afl_queues &queues() noexcept { return queues_; }
  /// Again and again; errors are said, and tried again.
  void look_after(work_list &work);
  /// After the last commit.
  void finish(work_list &work);

 private:
  using clock = std::chrono::steady_clock;
  [[nodiscard]] afl_progress progress(work_list &work) const;
  void publish(work_list &work, bool last);
  void say_what_is_missing();

  const settings &chosen_;
  report &says_;
  const symlease::campaign &campaign_;
  std::uint64_t real_size_;  ///< of the map, as the target says
  afl_queues queues_;
  afl_bitmaps bitmaps_;
  afl_peer peer_;
  clock::time_point next_bitmaps_{}, begun_ = clock::now();
  bool said_none_ = false, said_no_main_ = false;
};

}  // namespace coordinator

#endif
