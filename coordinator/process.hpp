// One run of a program: in its own process group, with a time limit.
#ifndef COORDINATOR_PROCESS_HPP
#define COORDINATOR_PROCESS_HPP

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace coordinator {

using seconds = std::chrono::duration<double>;

/// A run that failed because of its input; anything else that is thrown is no
/// fault of the input.
struct failed_run : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// The input's file is not what was listed, or is gone.
struct changed_input : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// The signal to end came.
struct stopped : std::runtime_error {
  stopped() : std::runtime_error("stopped") {}
};

struct run_request {
  std::string program;             ///< the file to execute; empty: the build's
  std::vector<std::string> words;  ///< argv
  std::vector<std::pair<std::string, std::string>> set;
  std::vector<std::string> unset;
  std::string input = "/dev/null", output = "/dev/null", errors = "/dev/null";
  seconds limit{0};
  /// Ended by SIGTERM first: a launcher whose own children live in other groups
  /// has a second to end them. The same where this process dies.
  bool gentle = false;
  std::function<void()> started;  ///< called once the program runs
};

enum class run_kind { exited, signalled, timed_out, stopped, not_started };

struct run_end {
  run_kind kind = run_kind::not_started;
  int code = 0;  ///< the exit code, the signal, or errno where it was not started
  std::string said;  ///< why it was not started
  [[nodiscard]] std::string words() const;
};

/// Runs it to its end, its time limit, or `stop`; then nothing of its process
/// group lives. It dies with this process, even by SIGKILL.
[[nodiscard]] run_end run_program(const run_request &request, const std::atomic<bool> &stop);

/// A command line as words: blanks part them, quotes and backslashes keep them.
[[nodiscard]] std::vector<std::string> split_words(const std::string &command);
/// Whether a word holds @@.
[[nodiscard]] bool takes_file(const std::vector<std::string> &words);
/// Every @@ replaced by `path`.
[[nodiscard]] std::vector<std::string> with_file(std::vector<std::string> words,
                                                 const std::string &path);
/// The file that a program's name stands for, by PATH; throws where there is none.
[[nodiscard]] std::string program_file(const std::string &name);

}  // namespace coordinator

#endif
