// The target's coverage build: who it is, and what one input covers.
#ifndef COORDINATOR_TARGET_HPP
#define COORDINATOR_TARGET_HPP

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "build.hpp"
#include "process.hpp"
#include "symlease.hpp"

namespace coordinator {

enum class verdict { ran, crashed, hung, stopped };

struct measurement {
  verdict what = verdict::ran;
  int signal = 0;
  std::uint64_t map_size = 0;
  std::vector<symlease::edge> edges;
};

/// Tells what inputs cover. One per thread.
class meter {
 public:
  virtual ~meter() = default;
  /// Throws failed_run where this input cannot be measured, another_build, and
  /// std::runtime_error where the run tells nothing about the input: not
  /// started, or its hooks are not live (a library of it is missing).
  [[nodiscard]] virtual measurement measure(const std::string &input,
                                            const std::atomic<bool> &stop) = 0;
};

/// Runs a target of adapters/sancov and reads what it counted, whatever its end.
class coverage_runner : public meter {
 public:
  /// `scratch`: a path of its own for the counts.
  coverage_runner(build &program, std::vector<std::string> target, seconds limit,
                  std::string scratch);
  ~coverage_runner() override;
  coverage_runner(const coverage_runner &) = delete;
  coverage_runner &operator=(const coverage_runner &) = delete;

  [[nodiscard]] measurement measure(const std::string &input,
                                    const std::atomic<bool> &stop) override;

 private:
  [[nodiscard]] measurement counted(run_end end, int file, std::uint64_t &dropped) const;

  build &program_;
  std::vector<std::string> target_;
  seconds limit_;
  std::string scratch_;
  std::uint64_t capacity_;
};

}  // namespace coordinator

#endif
