#include "process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "files.hpp"

extern char **environ;

namespace coordinator {
namespace {

using clock = std::chrono::steady_clock;

/// What the child needs, made before the fork: after it, in a process that had
/// threads, nothing may be allocated.
struct prepared {
  std::string program;
  std::vector<std::string> environment;
  std::vector<char *> words, variables;
  descriptor input, output, errors, said_read, said_write;
  pid_t parent = getpid();
  int at_parents_death = SIGKILL;
};

descriptor opened(const std::string &path, int flags) {
  descriptor file(open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (!file) fail(errno, "open " + path);
  return file;
}

std::vector<std::string> environment_of(const run_request &request) {
  std::vector<std::string> made;
  for (char **each = environ; *each != nullptr; each++) {
    const std::string variable(*each);
    const std::string name = variable.substr(0, variable.find('='));
    const auto same = [&](const auto &other) { return other.first == name; };
    if (std::any_of(request.set.begin(), request.set.end(), same)) continue;
    if (std::count(request.unset.begin(), request.unset.end(), name) != 0) continue;
    made.push_back(variable);
  }
  for (const auto &[name, value] : request.set) made.push_back(name + "=" + value);
  return made;
}

prepared prepare(const run_request &request) {
  prepared made;
  made.program = request.program;
  if (request.gentle) made.at_parents_death = SIGTERM;
  made.environment = environment_of(request);
  for (const std::string &each : request.words)
    made.words.push_back(const_cast<char *>(each.c_str()));
  for (const std::string &each : made.environment)
    made.variables.push_back(const_cast<char *>(each.c_str()));
  made.words.push_back(nullptr);
  made.variables.push_back(nullptr);
  made.input = opened(request.input, O_RDONLY);
  made.output = opened(request.output, O_WRONLY | O_CREAT | O_TRUNC);
  made.errors = opened(request.errors, O_WRONLY | O_CREAT | O_TRUNC);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(errno, "pipe");
  made.said_read = descriptor(ends[0]);
  made.said_write = descriptor(ends[1]);
  return made;
}

/// In the child: async-signal-safe calls alone.
[[noreturn]] void become(const prepared &with) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  bool ready = setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, with.at_parents_death) == 0;
  if (getppid() != with.parent) _exit(127);  // the parent died before prctl
  ready = ready && dup2(with.input.get(), 0) == 0 && dup2(with.output.get(), 1) == 1 &&
          dup2(with.errors.get(), 2) == 2;
  if (ready) execve(with.program.c_str(), with.words.data(), with.variables.data());
  const int error = errno;
  const ssize_t put = write(with.said_write.get(), &error, sizeof error);
  _exit(put == sizeof error ? 127 : 126);
}

/// Whether the child has ended (it stays a zombie) within `slice`.
bool ended_within(pid_t child, int handle, std::chrono::milliseconds slice) {
  if (handle >= 0) {
    pollfd one{handle, POLLIN, 0};
    return poll(&one, 1, static_cast<int>(slice.count())) > 0;
  }
  siginfo_t about{};
  if (waitid(P_PID, static_cast<id_t>(child), &about, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      about.si_pid == child)
    return true;
  std::this_thread::sleep_for(std::min(slice, std::chrono::milliseconds(2)));
  return false;
}

run_end wait_for(pid_t child, const run_request &request, const std::atomic<bool> &stop) {
  const descriptor handle(static_cast<int>(syscall(SYS_pidfd_open, child, 0u)));
  if (handle) fcntl(handle.get(), F_SETFD, FD_CLOEXEC);
  const clock::time_point begun = clock::now();
  run_end end;
  bool killed = false;
  while (!ended_within(child, handle.get(), std::chrono::milliseconds(20))) {
    if (stop.load() || (request.limit.count() > 0 && clock::now() - begun > request.limit)) {
      end.kind = stop.load() ? run_kind::stopped : run_kind::timed_out;
      killed = true;
      break;
    }
  }
  if (killed && request.gentle) {
    kill(child, SIGTERM);
    for (int n = 0; n < 50 && !ended_within(child, handle.get(), std::chrono::milliseconds(20));) n++;
  }
  // Before the zombie is gone, so that its group's number is nobody else's.
  kill(-child, SIGKILL);
  int state = 0;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
  }
  if (killed) return end;
  end.kind = WIFSIGNALED(state) ? run_kind::signalled : run_kind::exited;
  end.code = WIFSIGNALED(state) ? WTERMSIG(state) : WEXITSTATUS(state);
  return end;
}

}  // namespace

std::string run_end::words() const {
  switch (kind) {
    case run_kind::exited: return "exit code " + std::to_string(code);
    case run_kind::signalled: return "signal " + std::to_string(code);
    case run_kind::timed_out: return "ran into its time limit";
    case run_kind::stopped: return "was stopped";
    case run_kind::not_started: break;
  }
  return "was not started: " + said;
}

run_end run_program(const run_request &request, const std::atomic<bool> &stop) {
  prepared with = prepare(request);
  const pid_t child = fork();
  if (child < 0) fail(errno, "fork for " + with.program);
  if (child == 0) become(with);
  setpgid(child, child);  // both sides: whoever comes first
  with.said_write = descriptor();
  int error = 0;
  ssize_t got;
  while ((got = read(with.said_read.get(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (got == sizeof error) {
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    return {run_kind::not_started, error, with.program + ": " + std::strerror(error)};
  }
  if (request.started) request.started();
  return wait_for(child, request, stop);
}

std::vector<std::string> split_words(const std::string &command) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = '\0';
  for (std::size_t at = 0; at < command.size(); at++) {
    const char c = command[at];
    if (c == '\\' && quote != '\'' && at + 1 < command.size()) {
      word += command[++at];
      in_word = true;
    } else if (quote != '\0') {
      if (c == quote) quote = '\0';
      else word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (in_word) words.push_back(std::exchange(word, ""));
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote != '\0') throw std::invalid_argument("an open quote in: " + command);
  if (in_word) words.push_back(word);
  return words;
}

bool takes_file(const std::vector<std::string> &words) {
  return std::any_of(words.begin(), words.end(), [](const std::string &word) {
    return word.find("@@") != std::string::npos;
  });
}

std::vector<std::string> with_file(std::vector<std::string> words, const std::string &path) {
  for (std::string &word : words)
    for (std::size_t at = 0; (at = word.find("@@", at)) != std::string::npos; at += path.size())
      word.replace(at, 2, path);
  return words;
}

std::string program_file(const std::string &name) {
  if (name.find('/') != std::string::npos) return name;
  const char *variable = std::getenv("PATH");
  std::string path = variable ? variable : "/usr/bin:/bin";
  for (std::size_t from = 0; from <= path.size();) {
    const std::size_t to = std::min(path.find(':', from), path.size());
    const std::string file = path.substr(from, to - from) + "/" + name;
    if (to > from && access(file.c_str(), X_OK) == 0) return file;
    from = to + 1;
  }
  throw std::invalid_argument("program " + name + ": not found in PATH");
}

}  // namespace coordinator
