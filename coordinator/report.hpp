// What is said and counted: messages, the live line, the summary.
#ifndef COORDINATOR_REPORT_HPP
#define COORDINATOR_REPORT_HPP

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>

#include "symlease.hpp"

namespace coordinator {

enum class count {
  executions,
  solver_runs,
  claimed,
  completed,
  dropped,
  taken_over,
  replayed,
  abandoned,
  results_staged,
  published,
  not_novel,
  already_there,
  lost,
  crashes,
  hangs,
  held_answers,
  done_answers,
  target_groups_claimed,
  target_groups_refused,
  heartbeats_ok,
  heartbeats_failed,
  afl_published,
  afl_bits,
  errors,
  all,
};

class report {
 public:
  report();
  void add(count which, std::uint64_t n = 1) {
    counts_[static_cast<std::size_t>(which)].fetch_add(n);
  }
  [[nodiscard]] std::uint64_t get(count which) const {
    return counts_[static_cast<std::size_t>(which)].load();
  }
  /// One line on stderr.
  void say(const std::string &words);
  /// The same, and it counts as an error; many equal ones are said once in ten seconds.
  void trouble(const std::string &words);
  void failed_input(const std::string &path);
  /// How the campaign stands: redrawn in place on a terminal, else a line now and then.
  void show_live(const symlease::campaign &campaign, std::size_t corpus);
  [[nodiscard]] std::string summary(const symlease::campaign &campaign, const std::string &owner);

 private:
  using clock = std::chrono::steady_clock;
  [[nodiscard]] double elapsed() const;
  void line(const std::string &words);

  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(count::all)> counts_{};
  std::mutex guard_;
  std::set<std::string> failed_;
  std::string last_trouble_;
  clock::time_point started_ = clock::now(), last_trouble_at_{}, last_live_{};
  bool terminal_, live_shown_ = false;
};

}  // namespace coordinator

#endif
