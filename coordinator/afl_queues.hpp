// What running afl-fuzz instances have in their queues, as far as it is new.
#ifndef COORDINATOR_AFL_QUEUES_HPP
#define COORDINATOR_AFL_QUEUES_HPP

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "afl_names.hpp"

namespace coordinator {

/// A directory of OUT that has a queue, but not our own peer's.
struct afl_instance {
  std::string name, path;
};
[[nodiscard]] std::vector<afl_instance> afl_instances(const std::string &out,
                                                      const std::string &peer);
/// Its fuzzer_stats; empty where it wrote none yet.
[[nodiscard]] std::map<std::string, std::string> afl_stats_of(const afl_instance &one);

struct afl_input {
  std::string path;
  afl_priority priority;
};

/// Each entry is given once. A queue is listed when it changed, and only names
/// that are new are looked at. AFL++ writes entries in place, and cuts some
/// down later: one is given when it has been quiet for a second.
class afl_queues {
 public:
  afl_queues(std::string out, std::string peer);
  [[nodiscard]] std::vector<afl_input> look();
  /// It changed or vanished since it was given: if it is there, it is given again.
  void again(const std::string &path);
  /// Whether there is something that will be given when it has been quiet.
  [[nodiscard]] bool settling() const;
  /// Inputs given so far, and instances at the last look.
  [[nodiscard]] std::size_t given() const;
  [[nodiscard]] std::size_t instances() const;

 private:
  using clock = std::chrono::steady_clock;
  using stamp = std::pair<std::int64_t, std::int64_t>;  // size, time
  struct unsettled {
    stamp seen{-1, -1};
    clock::time_point since{};
  };
  struct queue {
    std::unordered_set<std::string> given;
    std::map<std::string, unsettled> fresh;  // by name
    std::pair<std::uint64_t, std::uint64_t> folder{0, 0};  // device, inode
    std::int64_t changed = -1;
    std::string begun;  // the instance's start_time
    bool ask_again = false;
  };
  void look_at(const afl_instance &one, std::vector<afl_input> &found);
  void list(const std::string &folder, queue &in, std::vector<afl_input> &found);

  std::string out_, peer_;
  mutable std::mutex guard_;
  std::map<std::string, queue> queues_;  // by path of the instance
  std::size_t given_ = 0, instances_ = 0;
};

}  // namespace coordinator

#endif
