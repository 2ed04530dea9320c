// What there is to do: no queue, but the listed seeds and corpus.
#ifndef COORDINATOR_WORK_LIST_HPP
#define COORDINATOR_WORK_LIST_HPP

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "afl_queues.hpp"
#include "build.hpp"
#include "files.hpp"
#include "report.hpp"
#include "settings.hpp"

namespace coordinator {

enum class task {
  import_seed,  ///< measure a seed and commit it, so that the authority knows it
  solve,        ///< run the solver on an input
};

struct item {
  task kind = task::solve;
  std::string path, digest, id, payload;
  bool claimed_before = false;  ///< by this process
};

/// Work ids hash the input's bytes, the builds and the options that change the
/// result; never a path, so that equal work has one id everywhere.
class work_list {
 public:
  /// `queues`: of AFL++; may be NULL.
  work_list(const settings &chosen, report &says, const programs &builds, afl_queues *queues);

  /// Lists seeds, corpus and queues; answers how much is new. Throws where it cannot.
  std::size_t refresh();
  /// Something to claim: imports first, else any, so that coordinators meet seldom;
  /// with AFL++, what its priorities put first.
  [[nodiscard]] std::optional<item> take();
  /// It is done, or its file is gone: never again.
  void finish(const std::string &id);
  /// Its file is not what was listed: AFL++ cut it down, or took it away.
  void changed(const item &what);
  /// It is held, or was given back. Each setback in a row waits longer.
  void later(const std::string &id, seconds wait, bool setback = false);
  void claimed(const std::string &id);
  /// Nothing left to try: what had three setbacks in a row is no longer waited for.
  [[nodiscard]] bool finished();
  /// What is no longer waited for, and inputs that cannot be read.
  [[nodiscard]] std::size_t left();
  /// Whether there is no input at all.
  [[nodiscard]] bool empty();
  [[nodiscard]] std::size_t corpus_files();
  /// Inputs to solve that are known here, and those of them that are not done.
  [[nodiscard]] std::pair<std::size_t, std::size_t> inputs();

 private:
  using clock = std::chrono::steady_clock;
  enum class state { open, taken, done, gone };
  struct entry {
    item what;
    afl_priority priority;
    state at = state::open;
    clock::time_point not_before{};
    unsigned setbacks = 0;
  };
  [[nodiscard]] static bool given_up(const entry &one);
  void say_passed_over(std::size_t taken, const passed_over &left);
  std::size_t look_at(const listed_file &file, bool is_seed);
  std::size_t look_at_seeds();
  std::size_t look_at_queues();
  std::size_t add(task kind, const std::string &path, const std::string &digest,
                  const afl_priority &priority);

  const settings &chosen_;
  report &says_;
  afl_queues *queues_;
  std::string about_import_, about_solve_;  // members of payloads, from "kind" on
  std::mutex guard_;
  std::map<std::string, entry> entries_;                               // by id
  std::map<std::string, std::pair<std::uint64_t, std::int64_t>> seen_;  // size and time by path
  std::set<std::string> unreadable_;
  std::string passed_over_;  // as it was said last
  std::size_t corpus_files_ = 0;
  std::mt19937_64 random_{std::random_device{}()};
};

}  // namespace coordinator

#endif
