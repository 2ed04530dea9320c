#include "pause.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>

#include "files.hpp"

namespace coordinator {
namespace {

thread_local const std::string *committing = nullptr;

void pause(const char *variable, std::atomic<bool> &once, const std::string &id) {
  const char *file = std::getenv(variable);
  if (file == nullptr || *file == '\0' || once.exchange(true)) return;
  write_whole(file, std::to_string(getpid()) + " " + id + "\n");
  for (;;) ::pause();
}

}  // namespace

commit_pause::commit_pause(const std::string &id, bool with_map) noexcept {
  committing = with_map ? &id : nullptr;
}

commit_pause::~commit_pause() { committing = nullptr; }

double pausing_clock() {
  static std::atomic<bool> once{false};
  if (committing != nullptr) pause("SYMLEASE_COORDINATOR_PAUSE_COMMIT", once, *committing);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

void pause_while_holding(const std::string &id) {
  static std::atomic<bool> once{false};
  pause("SYMLEASE_COORDINATOR_PAUSE_HOLD", once, id);
}

void pause_while_publishing(const std::string &name) {
  static std::atomic<bool> once{false};
  pause("SYMLEASE_COORDINATOR_PAUSE_PUBLISH", once, name);
}

}  // namespace coordinator
