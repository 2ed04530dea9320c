// A sync peer that AFL++ imports from: OUT/<peer>/queue. Many coordinators share it.
#ifndef COORDINATOR_AFL_PEER_HPP
#define COORDINATOR_AFL_PEER_HPP

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "files.hpp"
#include "report.hpp"
#include "settings.hpp"

namespace coordinator {

/// How this process stands, for fuzzer_stats.
struct afl_progress {
  std::uint64_t executions = 0;  ///< of the target, by this process
  std::size_t inputs = 0, open = 0, imported = 0;
  std::uint64_t edges = 0, map_size = 0;
};

/// Publishes what commits have put into the corpus. All it knows stands in the
/// names of what is published, so it goes on after any death:
///   queue/, crashes/, hangs/   id:%06u,sha256:<digest>, without a gap from 0
///   .symlease/                 its lock, files before they are renamed, totals
/// AFL++ takes the next id only when all before it are there, so ids are given
/// under the lock, to files that are whole and synced.
class afl_peer {
 public:
  /// Makes the directories; throws where the name is another instance's.
  afl_peer(const settings &chosen, report &says);
  /// False: another one is at it, and this was not tried. `patience`: so long the
  /// lock is waited for. `progress` is written now and then, and at the `last`.
  bool publish(const afl_progress &progress, seconds patience, bool last);
  [[nodiscard]] std::size_t published() const { return folders_[0].digests.size(); }

 private:
  using clock = std::chrono::steady_clock;
  struct folder {
    std::string from, to, more;
    std::set<std::string> digests;
    std::uint32_t next = 0;
    std::map<std::string, std::pair<std::uint64_t, std::int64_t>> done;  // size, time, by path
    std::pair<std::int64_t, std::int64_t> listed{-1, -1};  // the folder's time, when it was listed
  };
  [[nodiscard]] descriptor lock(seconds patience) const;
  void list(folder &in);
  [[nodiscard]] std::vector<listed_file> fresh(folder &in) const;
  void publish_one(folder &in, const listed_file &file);
  /// Under the lock: aside, then renamed, so that a death leaves nothing behind.
  void replace(const std::string &path, const std::string &bytes, bool durable) const;
  void write_stats(const afl_progress &progress, std::uint64_t found[3]);
  void write_plot(const std::string &line);

  const settings &chosen_;
  report &says_;
  std::string path_, own_;
  folder folders_[3];
  std::set<std::string> complained_;
  std::optional<clock::time_point> stats_at_, plot_at_;
  std::string last_plot_;
  std::uint64_t told_executions_ = 0;
};

}  // namespace coordinator

#endif
