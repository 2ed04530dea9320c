// The solver's runs on one input.
#ifndef COORDINATOR_SOLVER_HPP
#define COORDINATOR_SOLVER_HPP

#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "build.hpp"
#include "files.hpp"
#include "holdings.hpp"
#include "report.hpp"
#include "settings.hpp"
#include "symlease.hpp"

namespace coordinator {

/// Runs the solver on the input of one work item; its results are then in
/// <directory>/out.
class solver {
 public:
  solver(const settings &chosen, build &program, const symlease::campaign &campaign,
         report &says, holdings &held, const std::atomic<bool> &stop, std::string directory,
         std::string work, std::string token);
  void solve();
  /// Everything written so far: by this process, and with the adapter by whoever
  /// held the work before.
  [[nodiscard]] std::vector<listed_file> written() const;
  /// Throws where it does not take what one of its kind is asked. Before a campaign.
  void check();

 private:
  void solve_by_groups();
  [[nodiscard]] std::vector<std::uint64_t> list();
  [[nodiscard]] bool claim_some(std::deque<std::uint64_t> &open, symlease::group &group);
  [[nodiscard]] bool dispatch(symlease::group &group);
  [[nodiscard]] run_end run_with(const std::vector<std::string> &options,
                                 const std::string &output, bool holds_group);
  void judge(const run_end &end, bool lists) const;
  void say_if_nothing(const run_end &end) const;
  void add_adapter(run_request &request) const;
  void say_adapter() const;
  [[nodiscard]] std::string last_words() const;

  const settings &chosen_;
  build &program_;
  const symlease::campaign &campaign_;
  report &says_;
  holdings &held_;
  const std::atomic<bool> &stop_;
  std::string directory_, work_, token_;
};

}  // namespace coordinator

#endif
