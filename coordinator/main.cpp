// symlease-coordinator: many of them share one campaign; see docs/coordinator.md.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "afl.hpp"
#include "build.hpp"
#include "files.hpp"
#include "holdings.hpp"
#include "pause.hpp"
#include "report.hpp"
#include "settings.hpp"
#include "showmap.hpp"
#include "solver.hpp"
#include "staging.hpp"
#include "target.hpp"
#include "work_list.hpp"
#include "worker.hpp"

namespace coordinator {
namespace {

using clock = std::chrono::steady_clock;

std::atomic<bool> stop{false};
static_assert(std::atomic<bool>::is_always_lock_free);

constexpr auto last_call = std::chrono::milliseconds(4000);
constexpr seconds listing_pause{0.25};
constexpr double lock_timeout = 2;  // well below last_call

enum exit_code { as_it_should = 0, not_begun, bad_argument, job_stuck, other_build, not_done };

extern "C" void on_signal(int) { stop.store(true); }

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction inherited {};
    // nohup, or a shell's job in the background: it asked for that.
    if (each != SIGTERM && sigaction(each, nullptr, &inherited) == 0 &&
        inherited.sa_handler == SIG_IGN)
      continue;
    sigaction(each, &action, nullptr);
  }
  signal(SIGPIPE, SIG_IGN);
  const rlimit none{0, 0};  // crashes are the daily bread: no core files
  setrlimit(RLIMIT_CORE, &none);
}

/// The map's size, as an empty input shows it.
std::uint64_t map_size_of(const settings &chosen, build &target, const staging &stage) {
  if (!chosen.afl.empty())
    return afl_map_size(target, stage.path() + "/map-size", stop);
  const std::string input = stage.path() + "/empty";
  write_file(input, "");
  const measurement seen =
      make_meter(chosen, target, 0, stage.path() + "/counts")->measure(input, stop);
  unlink(input.c_str());
  return seen.map_size;
}

symlease::campaign open_campaign(const settings &chosen, const std::string &identity,
                                 std::uint64_t map_size) {
  symlease::options options;
  options.owner = chosen.owner;
  options.map_identity = identity;
  options.map_size = map_size;
  options.work_ttl = chosen.ttl;
  options.target_ttl = chosen.ttl;
  options.coverage_ttl = std::max(chosen.ttl, seconds(3));
  options.lock_timeout = seconds(lock_timeout);
  options.durability = chosen.durability;
  options.clock = pausing_clock;
  // Nothing forks off after this and lives on: others see at once when we are dead.
  options.session = symlease::session::own;
  auto opened = symlease::campaign::open(chosen.campaign, options);
  if (opened.is(symlease::status::mismatch))
    throw std::runtime_error(opened.words() +
                             "; another build needs another campaign, with this corpus as seeds");
  return std::move(opened).value();
}

/// Job slots and the thread that looks after the campaign.
class coordinator {
 public:
  coordinator(const settings &chosen, report &says, const symlease::campaign &campaign,
              const staging &stage, programs &builds, std::uint64_t map_size,
              std::uint64_t real_size)
      : chosen_(chosen),
        says_(says),
        campaign_(campaign),
        stage_(stage),
        held_(campaign, says, chosen.heartbeat_interval()),
        afl_(chosen.afl.empty() ? nullptr
                                : std::make_unique<afl>(chosen, says, campaign,
                                                        builds.target.identity(), real_size)),
        work_(chosen, says, builds, afl_ ? &afl_->queues() : nullptr),
        shared_{chosen, campaign, says, held_, work_, stage, builds, map_size, stop} {}

  void run() {
    try_solver();
    stage_.clean(campaign_, says_);
    replay();
    if (afl_) afl_->look_after(work_);
    work_.refresh();
    if (work_.empty() && !afl_) {
      const std::string words = "no input: nothing usable in " + chosen_.seeds +
                                ", and nothing in " + chosen_.corpus;
      if (chosen_.once) throw std::runtime_error(words);
      says_.trouble(words + "; waiting for some");
    }
    start_jobs();
    look_after();
    stop.store(true);
  }
  [[nodiscard]] exit_code result() {
    if (shared_.replaced.load()) return other_build;
    if (left_ != 0) {
      says_.say("left undone: " + std::to_string(left_) + "; see the errors");
      return not_done;
    }
    const std::uint64_t good = says_.get(count::completed) + says_.get(count::replayed) +
                               says_.get(count::done_answers);
    return good == 0 && says_.get(count::errors) != 0 ? not_done : as_it_should;
  }
  /// Whether all slots ended in time.
  bool join() {
    std::unique_lock<std::mutex> lock(guard_);
    if (!ended_.wait_for(lock, last_call, [this] { return running_ == 0; })) return false;
    lock.unlock();
    for (std::thread &each : workers_) each.join();
    if (afl_) afl_->finish(work_);
    return true;
  }

 private:
  void try_solver() {
    if (!shared_.builds.solver) return;
    const std::string directory = stage_.path() + "/trial";
    make_directories(directory + "/out");
    write_file(directory + "/input", "");
    try {
      solver(chosen_, *shared_.builds.solver, campaign_, says_, held_, stop, directory, "", "").check();
    } catch (...) {
      remove_tree(directory);
      throw;
    }
    remove_tree(directory);
  }
  void start_jobs() {
    for (unsigned slot = 0; slot < chosen_.jobs; slot++) {
      try {
        const std::lock_guard<std::mutex> lock(guard_);
        workers_.emplace_back([this, slot] { work(slot); });
        running_++;
      } catch (const std::system_error &error) {
        const std::string words = "start a thread for job " + std::to_string(slot + 1) + " of " +
                                  std::to_string(chosen_.jobs);
        if (slot == 0) fail(error.code().value(), words);
        return says_.trouble(words + ": " + error.code().message() + "; going on with " +
                             std::to_string(slot));
      }
    }
  }
  void work(unsigned slot) {
    try {
      worker(shared_, slot).work_on();
    } catch (const std::exception &error) {
      says_.trouble("job slot " + std::to_string(slot) + " ended: " + error.what());
    }
    const std::lock_guard<std::mutex> lock(guard_);
    running_--;
    ended_.notify_all();
  }
  void replay() {
    const auto done = campaign_.replay_commits(chosen_.corpus);
    says_.add(count::replayed, done.completed());
    if (!done) says_.trouble("replay of commits: " + done.words());
  }
  /// How much is new; nothing: it could not be listed.
  [[nodiscard]] std::optional<std::size_t> refresh() {
    try {
      const std::size_t added = work_.refresh();
      failed_listings_ = 0;
      return added;
    } catch (const std::exception &error) {
      says_.trouble(std::string("listing: ") + error.what());
      failed_listings_++;
      return std::nullopt;
    }
  }
  [[nodiscard]] bool all_done() {
    const auto nothing_new = [this] {
      const auto added = refresh();
      if (afl_ && afl_->queues().settling()) return false;
      return work_.finished() && (added ? *added == 0 : failed_listings_ >= 3);
    };
    if (!nothing_new()) return false;
    if (!chosen_.once || others_hold() || !nothing_new()) return false;
    left_ = work_.left() + failed_listings_;
    return true;
  }
  /// Whether anybody works on anything that may bring more work, or will be replayed.
  [[nodiscard]] bool others_hold() {
    bool held = false;
    const auto scanned = campaign_.scan(
        symlease::table::work, symlease::state::leased | symlease::state::committing,
        [&](const symlease::record &record) {
          const symlease::life life = record.life();
          const bool over = life == symlease::life::expired || life == symlease::life::abandoned ||
                            life == symlease::life::dead;
          // An expired one is in the list here, or is another target's.
          if (record.state() == symlease::state::leased && over) return symlease::visit::go_on;
          held = true;
          return symlease::visit::stop;
        });
    if (!scanned) says_.trouble("scan: " + scanned.words());
    return held;
  }
  void look_after() {
    const clock::time_point begun = clock::now();
    clock::time_point next_listing = begun, next_replay = begun;
    unsigned replays = 0;
    while (!stop.load()) {
      const clock::time_point now = clock::now();
      if (chosen_.time.count() > 0 && now - begun >= chosen_.time) return;
      if (now >= next_listing) {
        if (afl_) afl_->look_after(work_);
        if (all_done()) return;
        // A large corpus is listed less often: at most a tenth of the time goes there.
        const seconds took = clock::now() - now;
        next_listing = clock::now() + duration(std::max(listing_pause, 10 * took));
      }
      if (now >= next_replay) {
        replay();
        if (replays++ % 8 == 7) stage_.clean(campaign_, says_);
        next_replay = clock::now() + duration(chosen_.heartbeat_interval());
      }
      says_.show_live(campaign_, work_.corpus_files());
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  [[nodiscard]] static clock::duration duration(seconds time) {
    return std::chrono::duration_cast<clock::duration>(time);
  }

  const settings &chosen_;
  report &says_;
  const symlease::campaign &campaign_;
  const staging &stage_;
  holdings held_;
  std::unique_ptr<afl> afl_;
  work_list work_;
  shared_state shared_;
  std::mutex guard_;
  std::condition_variable ended_;
  unsigned running_ = 0, failed_listings_ = 0;
  std::size_t left_ = 0;  // of --once: what could not be done
  std::vector<std::thread> workers_;
};

/// Whether it is all said and written.
bool finish(const settings &chosen, report &says, const symlease::campaign &campaign) {
  const std::string summary = says.summary(campaign, chosen.owner);
  says.say(summary.substr(0, summary.size() - 1));
  try {
    if (!chosen.summary.empty()) write_whole(chosen.summary, summary);
  } catch (const std::exception &error) {
    says.trouble(std::string("summary: ") + error.what());
    return false;
  }
  return true;
}

/// What would fail only at the first commit, or at the end.
void check_places(const settings &chosen, const staging &stage) {
  for (const std::string &each : {chosen.corpus, chosen.crashes, chosen.hangs}) {
    make_directories(each);
    check_publishing(stage.path(), each);
  }
  if (!chosen.summary.empty()) check_writable(chosen.summary);
}

int coordinate(const settings &chosen) {
  report says;
  make_directories(chosen.campaign);
  const staging stage(chosen.campaign, chosen.owner);
  check_places(chosen, stage);
  programs builds{{"target", chosen.target[0]}, std::nullopt};
  if (!chosen.solver.empty()) builds.solver.emplace("solver", chosen.solver[0]);
  const std::string &identity = builds.target.identity();
  const std::uint64_t real_size = map_size_of(chosen, builds.target, stage);
  const std::uint64_t map_size = chosen.afl.empty() ? real_size : afl_map_bytes(real_size);
  if (stop.load()) throw stopped();
  const symlease::campaign campaign = open_campaign(chosen, identity, map_size);
  says.say("owner " + chosen.owner + ", campaign " + chosen.campaign + ", map of " +
           std::to_string(map_size) + " bytes of " + identity);
  const auto all = std::make_unique<coordinator>(chosen, says, campaign, stage, builds, map_size, real_size);
  all->run();
  if (!all->join()) {
    says.trouble("a job does not end; its leases end by their TTL");
    finish(chosen, says, campaign);
    std::fflush(stderr);
    _exit(job_stuck);
  }
  const exit_code code = all->result();
  const bool written = finish(chosen, says, campaign);
  return code == as_it_should && !written ? not_done : code;
}

}  // namespace
}  // namespace coordinator

int main(int count, char **arguments) {
  const std::string program = "symlease-coordinator: ";
  coordinator::catch_signals();
  coordinator::settings chosen;
  try {
    chosen = coordinator::parse_settings({arguments + 1, arguments + count});
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s%s\n", program.c_str(), error.what());
    return coordinator::bad_argument;
  }
  if (chosen.help) return std::fputs(coordinator::usage().c_str(), stdout) < 0 ? 1 : 0;
  try {
    return coordinator::coordinate(chosen);
  } catch (const coordinator::stopped &) {
    std::fprintf(stderr, "%sended by a signal before it began: nothing was done\n",
                 program.c_str());
    return coordinator::not_begun;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s%s\n", program.c_str(), error.what());
    return coordinator::not_begun;
  }
}
