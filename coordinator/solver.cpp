#include "solver.hpp"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <sstream>
#include <thread>

#include "files.hpp"
#include "pause.hpp"

namespace coordinator {
namespace {

/// Small groups: another coordinator that shares targets waits for a short run.
constexpr std::size_t group_size = 16;
constexpr auto pause_when_held = std::chrono::milliseconds(50);

}  // namespace

solver::solver(const settings &chosen, build &program, const symlease::campaign &campaign,
               report &says, holdings &held, const std::atomic<bool> &stop, std::string directory,
               std::string work, std::string token)
    : chosen_(chosen),
      program_(program),
      campaign_(campaign),
      says_(says),
      held_(held),
      stop_(stop),
      directory_(std::move(directory)),
      work_(std::move(work)),
      token_(std::move(token)) {}

void solver::solve() {
  if (chosen_.kind == solver_kind::i2s) return solve_by_groups();
  judge(run_with({}, "/dev/null", false), false);
}

run_end solver::run_with(const std::vector<std::string> &options, const std::string &output,
                         bool holds_group) {
  run_request request;
  const std::string input = directory_ + "/input";
  for (const std::string &word : chosen_.solver) {
    // Options stand before the input.
    if (!options.empty() && word.find("@@") != std::string::npos &&
        std::find(request.words.begin(), request.words.end(), options[0]) == request.words.end())
      request.words.insert(request.words.end(), options.begin(), options.end());
    request.words.push_back(word);
  }
  const bool by_file = takes_file(chosen_.solver);
  if (!by_file) request.words.insert(request.words.end(), options.begin(), options.end());
  request.words = with_file(request.words, input);
  request.set = {{"SYMCC_OUTPUT_DIR", directory_ + "/out"}};
  request.unset = {"SYMLEASE_I2S_TARGETS", "SYMLEASE_SANCOV_FILE"};
  // With SYMCC_INPUT_FILE a SymCC-built program takes its stdin for concrete.
  if (by_file) {
    request.set.emplace_back("SYMCC_INPUT_FILE", input);
  } else {
    request.unset.emplace_back("SYMCC_INPUT_FILE");
    request.input = input;
  }
  // One that claims by itself finds the campaign's targets.
  const char *targets = "SYMCC_MULTI_MASTER_TARGET_LEASE_DIR";
  if (chosen_.kind == solver_kind::i2s) request.unset.emplace_back(targets);
  else if (std::getenv(targets) == nullptr)
    request.set.emplace_back(targets, chosen_.campaign + "/.target_lease_table");
  if (!chosen_.symcc_adapter.empty()) add_adapter(request);
  request.output = output;
  request.errors = directory_ + "/log";
  request.limit = chosen_.run_timeout;
  if (holds_group) request.started = [this] { pause_while_holding(work_); };
  run_end end = program_.run(request, stop_, [this] { says_.add(count::solver_runs); });
  if (end.kind == run_kind::stopped) throw stopped();
  if (!chosen_.symcc_adapter.empty()) say_adapter();
  return end;
}

/// The adapter in front of SymCC's runtime: it claims the campaign's targets, and
/// stages under the lease that is held here.
void solver::add_adapter(run_request &request) const {
  const char *others = std::getenv("LD_PRELOAD");
  const bool any = others != nullptr && *others != '\0';
  const std::string inputs = chosen_.symcc_inputs(work_);
  make_directories(inputs);
  request.set.emplace_back("LD_PRELOAD", chosen_.symcc_adapter + (any ? ":" : "") + (any ? others : ""));
  request.set.emplace_back("SYMLEASE_SYMCC_CAMPAIGN", chosen_.campaign);
  request.set.emplace_back("SYMLEASE_SYMCC_WORK", work_);
  request.set.emplace_back("SYMLEASE_SYMCC_TOKEN", token_);
  request.set.emplace_back("SYMLEASE_SYMCC_STAGING", inputs);
  // Whoever makes the target leases decides; it may be the adapter.
  if (chosen_.durability != symlease::durability::any)
    request.set.emplace_back("SYMLEASE_SYMCC_DURABILITY",
                             chosen_.durability == symlease::durability::process ? "process" : "power");
  request.unset.emplace_back("SYMLEASE_SYMCC_QUIET");
}

/// One that is not in force must not stay silent: said once. Of a script's
/// processes only those that SymCC built have something to hook.
void solver::say_adapter() const {
  static std::atomic<bool> said{false};
  const std::string log = read_file(directory_ + "/log");
  if (log.find("branches live, inputs live") != std::string::npos || said.exchange(true)) return;
  const std::size_t at = log.find("symlease-symcc[");
  const std::string words =
      at == std::string::npos ? "said nothing (a static or set-uid program?)"
                              : log.substr(at, log.find('\n', at) - at).substr(0, 400);
  says_.trouble("--symcc-adapter is not in force: " + words);
}

std::vector<listed_file> solver::written() const {
  std::vector<listed_file> found = list_files(directory_ + "/out");
  if (chosen_.symcc_adapter.empty()) return found;
  for (listed_file &each : list_files(chosen_.symcc_inputs(work_))) found.push_back(std::move(each));
  return found;
}

void solver::judge(const run_end &end, bool lists) const {
  const std::string words = "solver " + end.words() + last_words();
  // What a full disk cut off must not count as all there is.
  if (free_bytes(directory_) < (1 << 20))
    throw std::runtime_error(words + ": no space left in " + directory_);
  const bool i2s = chosen_.kind == solver_kind::i2s;
  if (end.kind == run_kind::exited) {
    // 4: this input compares nothing. A SymCC-built target's code is its own.
    if (i2s && (end.code == 0 || end.code == 4)) return;
    // Of the loader or a shell: it did not run.
    const bool ran = (end.code != 126 && end.code != 127) || !written().empty();
    if (!ran) throw std::runtime_error(words);
    if (!i2s) return say_if_nothing(end);
    if (end.code == 5 || end.code == 6) throw std::runtime_error(words);
    throw failed_run(words);
  }
  // Cut off by a signal or the limit: what it wrote until then counts.
  if (lists || written().empty()) throw failed_run(words);
}

/// A target's exit code means nothing, but a solver that is set up wrongly must
/// not stay silent: said once.
void solver::say_if_nothing(const run_end &end) const {
  if (!chosen_.symcc_adapter.empty()) return;  // all may be known; say_adapter() judges
  static std::atomic<bool> said{false};
  if (end.code == 0 || !written().empty() || said.exchange(true)) return;
  says_.say("solver " + chosen_.solver[0] + ": " + end.words() + " and nothing written" +
            last_words() + "; said once");
}

std::string solver::last_words() const {
  try {
    std::string log = read_file(directory_ + "/log");
    while (!log.empty() && log.back() == '\n') log.pop_back();
    const std::size_t start = log.rfind('\n');
    log = start == std::string::npos ? log : log.substr(start + 1);
    return log.empty() ? "" : " (" + log.substr(0, 300) + ")";
  } catch (const std::exception &) {
    return "";
  }
}

void solver::check() {
  if (chosen_.kind != solver_kind::i2s) return;
  const run_end end = run_with({"--list", "--solvable"}, "/dev/null", false);
  if (end.kind != run_kind::exited || end.code == 0 || end.code == 4) return;
  throw std::runtime_error("solver " + end.words() + last_words() +
                           ": not one of kind i2s? (see --solver-kind)");
}

std::vector<std::uint64_t> solver::list() {
  const std::string file = directory_ + "/listed";
  judge(run_with({"--list", "--solvable"}, file, false), true);
  std::istringstream lines(read_file(file));
  std::vector<std::uint64_t> targets;
  for (std::string line; std::getline(lines, line);) {
    char *end = nullptr;
    const std::uint64_t target = std::strtoull(line.c_str(), &end, 10);
    if (target == 0 || *end != '\0')
      throw failed_run("solver --list: \"" + line.substr(0, 80) + "\" is no target");
    targets.push_back(target);
  }
  return targets;
}

void solver::solve_by_groups() {
  std::vector<std::uint64_t> listed = list();
  // Another order everywhere: equal targets of two inputs meet seldom.
  std::shuffle(listed.begin(), listed.end(), std::mt19937_64(std::random_device{}()));
  std::deque<std::uint64_t> open(listed.begin(), listed.end());
  // A holder that works ends its run, a dead one its TTL; then it is enough:
  // what is still held is another's to solve.
  const auto last = std::chrono::steady_clock::now() +
                    std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                        chosen_.ttl + 2 * chosen_.run_timeout);
  while (!open.empty()) {
    if (stop_.load()) throw stopped();
    symlease::group group;
    if (claim_some(open, group)) {
      if (!dispatch(group)) open.insert(open.end(), group.begin(), group.end());
      continue;
    }
    if (std::chrono::steady_clock::now() > last) return;
    std::this_thread::sleep_for(pause_when_held);
  }
}

/// Takes a group out of `open`; false where all of them are held by others.
bool solver::claim_some(std::deque<std::uint64_t> &open, symlease::group &group) {
  std::vector<std::uint64_t> wanted;
  auto refill = [&, next = std::size_t{0}]() mutable {
    while (wanted.size() < group_size && next < open.size()) wanted.push_back(open[next++]);
    return !wanted.empty();
  };
  while (refill()) {
    auto claim = campaign_.claim_group(wanted, "{\"work\":\"" + work_ + "\"}");
    if (claim) {
      group = claim.value();
      held_.add(group);
      says_.add(count::target_groups_claimed);
      for (const std::uint64_t each : group)
        open.erase(std::remove(open.begin(), open.end(), each), open.end());
      return true;
    }
    says_.add(count::target_groups_refused);
    if (!claim.held_by()) throw std::runtime_error("claim of a target group: " + claim.words());
    const std::uint64_t target = claim.held_by()->target;
    if (!claim.is(symlease::status::held)) {  // damaged: nobody can claim this one
      says_.trouble("target " + std::to_string(target) + ": " + claim.words());
      open.erase(std::remove(open.begin(), open.end(), target), open.end());
    }
    const std::size_t before = wanted.size();
    wanted.erase(std::remove(wanted.begin(), wanted.end(), target), wanted.end());
    if (wanted.size() == before)
      throw std::runtime_error("claim of a target group: " + claim.words());
  }
  return false;
}

/// False: the group was lost before its run; claim its targets anew.
bool solver::dispatch(symlease::group &group) {
  struct release {
    solver &of;
    const symlease::group &group;
    ~release() {
      of.held_.remove(group);
      const auto done = of.campaign_.release(group);  // stale: another has it, as it should be
      if (symlease::is_error(done.code())) of.says_.trouble("release: " + done.words());
    }
  };
  const release at_end{*this, group};
  symlease::group now = group;
  const auto verified = campaign_.verify(now);
  if (verified.is(symlease::status::stale)) return false;
  if (!verified) throw std::runtime_error("verify of a target group: " + verified.words());
  std::string lines;
  for (const std::uint64_t each : group) lines += std::to_string(each) + "\n";
  const std::string file = directory_ + "/targets";
  write_file(file, lines);
  judge(run_with({"--targets", file}, "/dev/null", true), false);
  return true;
}

}  // namespace coordinator
