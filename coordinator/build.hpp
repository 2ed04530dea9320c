// A program's build: which one it is, and whether it is still the same.
#ifndef COORDINATOR_BUILD_HPP
#define COORDINATOR_BUILD_HPP

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>

#include "process.hpp"

namespace coordinator {

/// Another build stands where the program was: what it counts belongs into
/// another map, and nothing that is measured from now on may be used (C6).
struct another_build : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A program as it was at start. Many threads may ask.
class build {
 public:
  /// `name`: looked up in PATH, once. `what`: for messages, as "target".
  build(std::string what, const std::string &name);

  [[nodiscard]] const std::string &file() const noexcept { return file_; }
  /// "gnu:<build id>", or "sha256:<digest>" of the file where it has none.
  [[nodiscard]] const std::string &identity() const noexcept { return identity_; }

  /// Runs it, or `request.program` that starts it; the answer is that of a run of this very build from begin to end.
  /// `prepare` is called before each try. Throws another_build, or
  /// std::runtime_error where the program is missing, half written or cannot
  /// be started: that is no input's fault.
  [[nodiscard]] run_end run(run_request request, const std::atomic<bool> &stop,
                            const std::function<void()> &prepare = [] {});

 private:
  using clock = std::chrono::steady_clock;
  /// What changes with every way to put other bytes there: a rename over it
  /// (inode), and writing in place (times, size).
  using stamp = std::tuple<dev_t, ino_t, off_t, std::int64_t, std::int64_t>;
  [[nodiscard]] stamp now() const;
  [[nodiscard]] bool known(const stamp &seen);
  [[nodiscard]] stamp settled(const std::atomic<bool> &stop);

  std::string what_, file_, identity_;
  std::mutex guard_;
  stamp known_{};
};

/// All that a coordinator runs.
struct programs {
  build target;
  std::optional<build> solver;
};

}  // namespace coordinator

#endif
