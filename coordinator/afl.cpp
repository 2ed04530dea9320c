#include "afl.hpp"

#include <algorithm>
#include <exception>
#include <vector>

namespace coordinator {
namespace {

constexpr auto bitmaps_pause = std::chrono::seconds(5);
/// An instance calibrates its inputs before it writes fuzzer_stats.
constexpr auto settled = std::chrono::seconds(30);

}  // namespace

afl::afl(const settings &chosen, report &says, const symlease::campaign &campaign,
         const std::string &identity, std::uint64_t real_size)
    : chosen_(chosen),
      says_(says),
      campaign_(campaign),
      real_size_(real_size),
      queues_(chosen.afl, chosen.afl_peer),
      bitmaps_(campaign, says, chosen.afl, chosen.afl_peer, identity,
               afl_map_bytes(real_size)),
      peer_(chosen, says) {}

void afl::look_after(work_list &work) {
  const clock::time_point now = clock::now();
  if (now >= next_bitmaps_) {
    // Before anything is measured: what AFL++ knows is not new.
    try {
      bitmaps_.import();
      say_what_is_missing();
    } catch (const std::exception &error) {
      says_.trouble(std::string("AFL++'s coverage: ") + error.what());
    }
    next_bitmaps_ = now + bitmaps_pause;
  }
  publish(work, false);
}

void afl::finish(work_list &work) { publish(work, true); }

void afl::publish(work_list &work, bool last) {
  try {
    // At the end whoever holds the lock may have looked before our last commit.
    if (!peer_.publish(progress(work), seconds(last ? 2 : 0), last) && last)
      says_.trouble("publishing: the lock is held; another coordinator will do it");
  } catch (const std::exception &error) {
    says_.trouble(std::string("publishing: ") + error.what());
  }
}

afl_progress afl::progress(work_list &work) const {
  afl_progress made;
  made.executions = says_.get(count::executions);
  const auto [all, open] = work.inputs();
  made.inputs = all;
  made.open = open;
  made.imported = queues_.given();
  made.map_size = real_size_;
  if (const auto totals = campaign_.totals()) made.edges = totals.value().edges;
  return made;
}

/// Each once: a campaign in which nothing can come of it.
void afl::say_what_is_missing() {
  if (clock::now() - begun_ < settled) return;
  const std::vector<afl_instance> all = afl_instances(chosen_.afl, chosen_.afl_peer);
  if (all.empty() && !said_none_) {
    said_none_ = true;
    return says_.say("no instance of afl-fuzz in " + chosen_.afl + " yet");
  }
  const bool any_main = std::any_of(all.begin(), all.end(), [](const afl_instance &each) {
    return afl_is_main(afl_stats_of(each)["command_line"]);
  });
  if (all.empty() || any_main || said_no_main_) return;
  said_no_main_ = true;
  says_.say("no -M instance in " + chosen_.afl +
            ": AFL++ imports what is published here with a main instance alone");
}

}  // namespace coordinator
