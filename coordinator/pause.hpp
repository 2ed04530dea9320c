// Points at which a test stops this process, to kill it there.
#ifndef COORDINATOR_PAUSE_HPP
#define COORDINATOR_PAUSE_HPP

#include <string>

namespace coordinator {

/// While one lives, this thread is committing `id` with at least one map.
class commit_pause {
 public:
  explicit commit_pause(const std::string &id, bool with_map) noexcept;
  ~commit_pause();
  commit_pause(const commit_pause &) = delete;
  commit_pause &operator=(const commit_pause &) = delete;
};

/// The time for the library. In a commit it asks for it first when the record
/// is `committing` and no map is merged, with no lock held: there
/// SYMLEASE_COORDINATOR_PAUSE_COMMIT stops.
[[nodiscard]] double pausing_clock();

/// SYMLEASE_COORDINATOR_PAUSE_HOLD: a solver runs, its group is held.
void pause_while_holding(const std::string &id);

/// SYMLEASE_COORDINATOR_PAUSE_PUBLISH: a file for AFL++ is written and has no name
/// in the queue yet; the peer's lock is held.
void pause_while_publishing(const std::string &name);

}  // namespace coordinator

#endif
