#include "worker.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <set>
#include <system_error>
#include <thread>

#include "files.hpp"
#include "pause.hpp"

namespace coordinator {
namespace {

constexpr unsigned runs_before_giving_up = 3;
constexpr unsigned commit_tries = 4;
constexpr std::size_t most_results = 4096;  // of one commit
constexpr std::uint64_t largest_result = 1 << 20;
constexpr seconds idle{0.05}, setback_wait{1};

/// Renewed from the claim to the end of the scope.
class held_while_here {
 public:
  held_while_here(holdings &all, const symlease::lease &lease) : all_(all), lease_(lease) {
    all_.add(lease_);
  }
  ~held_while_here() { all_.remove(lease_); }
  held_while_here(const held_while_here &) = delete;
  held_while_here &operator=(const held_while_here &) = delete;

 private:
  holdings &all_;
  const symlease::lease &lease_;
};

const char *name_of(task kind) { return kind == task::solve ? "solve" : "import"; }

}  // namespace

worker::worker(shared_state &shared, unsigned slot)
    : shared_(shared),
      says_(shared.says),
      runner_(make_meter(shared.chosen, shared.builds.target, shared.map_size,
                         shared.stage.path() + "/counts-" + std::to_string(slot))) {}

void worker::wait(seconds time) const {
  const auto until = std::chrono::steady_clock::now() + time;
  while (!shared_.stop.load() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::min(time, idle));
}

void worker::work_on() {
  while (!shared_.stop.load()) {
    const auto what = shared_.work.take();
    if (!what) {
      wait(idle);
      continue;
    }
    try {
      try_to_claim(*what);
    } catch (const std::exception &error) {
      says_.trouble(std::string(name_of(what->kind)) + " " + what->path + ": " + error.what());
      shared_.work.later(what->id, setback_wait, true);
    }
  }
}

void worker::try_to_claim(const item &what) {
  auto claim = shared_.campaign.claim(what.id, what.payload);
  if (claim) {
    const symlease::lease lease = claim.value();
    const held_while_here held(shared_.held, lease);
    says_.add(count::claimed);
    if (lease.attempts() > 1 && !what.claimed_before) says_.add(count::taken_over);
    shared_.work.claimed(what.id);
    return work_under(what, lease);
  }
  if (claim.is(symlease::status::done)) {
    says_.add(count::done_answers);
    forget_inputs(what);
    shared_.work.finish(what.id);
  } else if (claim.held_by()) {
    says_.add(count::held_answers);
    const double most = shared_.chosen.heartbeat_interval().count();
    const double left = claim.held_by()->remaining.count();
    shared_.work.later(what.id, seconds(std::clamp(left, 0.1, most)));
  } else {
    throw std::runtime_error("claim: " + claim.words());
  }
}

void worker::work_under(const item &what, const symlease::lease &lease) {
  const std::string directory = shared_.stage.path() + "/" + what.id;
  try {
    // Of an earlier try: it was claimed just now, so no commit names it.
    remove_tree(directory);
    make_directories(directory + "/out");
    make_directories(directory + "/results");
    found made = do_item(what, lease, directory);
    return commit(what, lease, directory, made);
  } catch (const stopped &) {
    give_back(what, lease, false);
  } catch (const changed_input &) {
    // Its name may stand for other bytes by now, which are other work.
    give_back(what, lease, false);
    shared_.work.changed(what);
  } catch (const another_build &why) {
    end_all(why);
    give_back(what, lease, false);
  } catch (const std::exception &error) {
    says_.trouble(std::string(name_of(what.kind)) + " " + what.path + ": " + error.what());
    give_back(what, lease, true);
  }
  remove_tree(directory);
}

/// The work is done: what the adapter staged for it is published, or not novel.
void worker::forget_inputs(const item &what) const {
  if (what.kind == task::solve && !shared_.chosen.symcc_adapter.empty())
    remove_tree(shared_.chosen.symcc_inputs(what.id));
}

void worker::end_all(const another_build &why) {
  if (!shared_.replaced.exchange(true)) says_.trouble(why.what());
  shared_.stop.store(true);
}

std::string worker::read_input(const item &what) {
  try {
    std::string bytes = read_file(what.path);
    if (symlease::work_id(bytes).value() == what.digest) return bytes;
  } catch (const std::system_error &error) {
    if (error.code() != std::errc::no_such_file_or_directory) throw;
  }
  throw changed_input("it changed since it was listed");
}

worker::found worker::do_item(const item &what, const symlease::lease &lease,
                              const std::string &directory) {
  const std::string bytes = read_input(what);
  write_file(directory + "/input", bytes);
  for (unsigned run = 1;; run++) {
    try {
      found made;
      if (what.kind == task::import_seed) {
        write_file(directory + "/results/seed", bytes);
        stage_one(directory + "/results/seed", made);
      } else {
        solver one(shared_.chosen, *shared_.builds.solver, shared_.campaign, says_, shared_.held,
                   shared_.stop, directory, what.id, std::string(lease.token()));
        one.solve();
        stage_results(what, one.written(), directory, made);
      }
      return made;
    } catch (const failed_run &error) {
      says_.trouble(std::string(name_of(what.kind)) + " " + what.path + ", run " +
                    std::to_string(run) + ": " + error.what());
      if (run < runs_before_giving_up) continue;
      says_.trouble(what.path + ": given up, ended by an empty commit");
      says_.failed_input(what.path);
      return {};
    }
  }
}

void worker::stage_results(const item &what, const std::vector<listed_file> &written,
                           const std::string &directory, found &made) {
  std::set<std::string> digests{what.digest};
  for (const listed_file &each : written) {
    if (each.size == 0 || each.size > largest_result) continue;
    const std::string digest = symlease::work_id(read_file(each.path)).value();
    if (!digests.insert(digest).second) continue;
    if (made.offers.size() == most_results) {
      says_.trouble(what.path + ": more than " + std::to_string(most_results) +
                    " results, the rest is left out");
      return;
    }
    const std::string path = directory + "/results/" + digest;
    // Linked: until the commit is done, whoever takes this work over needs the
    // adapter's inputs where they are. Their targets are never solved again.
    // There already: of an earlier run in this same try, with the same bytes.
    if (link(each.path.c_str(), path.c_str()) != 0 && errno != EEXIST)
      fail(errno, "link " + each.path);
    stage_one(path, made);
  }
}

/// Measures one result. Crashes and hangs are kept beside the corpus and bring
/// no coverage: what only a crash covers is still new to an input that ends well.
void worker::stage_one(const std::string &path, found &made) {
  says_.add(count::executions);
  measurement seen = runner_->measure(path, shared_.stop);
  if (seen.what == verdict::stopped) throw stopped();
  symlease::offer result(path);
  if (seen.what == verdict::crashed) {
    result.corpus(shared_.chosen.crashes).keep();
  } else if (seen.what == verdict::hung) {
    result.corpus(shared_.chosen.hangs).keep();
  } else if (seen.map_size == shared_.map_size) {
    result.edges(std::move(seen.edges));
  } else {
    says_.trouble("target " + shared_.chosen.target[0] + ": a map of " +
                  std::to_string(seen.map_size) + " bytes, not " +
                  std::to_string(shared_.map_size) + ": coverage unknown, published always");
  }
  made.offers.push_back(std::move(result));
  made.verdicts.push_back(seen.what);
}

void worker::commit(const item &what, const symlease::lease &lease, const std::string &directory,
                    found &made) {
  says_.add(count::results_staged, made.offers.size());
  const bool with_map = std::any_of(made.offers.begin(), made.offers.end(),
                                    [](const symlease::offer &each) { return each.has_map(); });
  const commit_pause at_pause(what.id, with_map);
  // The same call again goes on where an error stopped it.
  for (unsigned tried = 1; tried <= commit_tries; tried++) {
    const auto done = shared_.campaign.commit(lease, shared_.chosen.corpus, made.offers);
    if (done) {
      says_.add(count::completed);
      committed(made, done.value());
      forget_inputs(what);
      shared_.work.finish(what.id);
      return remove_tree(directory);
    }
    if (done.is(symlease::status::stale) || done.is(symlease::status::done)) {
      says_.add(count::dropped);
      says_.say(what.path + ": lease lost, its result is dropped");
      shared_.work.later(what.id, shared_.chosen.heartbeat_interval());
      return remove_tree(directory);
    }
    says_.trouble("commit of " + what.path + ": " + done.words());
    if (tried < commit_tries) wait(seconds(0.1 * (1 << tried)));
  }
  give_back(what, lease, true);
  // Where it has begun, or nobody knows, whoever replays it needs what is staged.
  symlease::lease now = lease;
  const symlease::status at = shared_.campaign.verify(now).code();
  if (at == symlease::status::ok || at == symlease::status::stale) remove_tree(directory);
}

void worker::committed(const found &made, const std::vector<symlease::committed> &outcomes) {
  for (std::size_t i = 0; i < outcomes.size(); i++) {
    const symlease::committed &each = outcomes[i];
    const bool there = each.fate != symlease::fate::lost && each.fate != symlease::fate::unset;
    if (there && made.verdicts[i] == verdict::crashed) says_.add(count::crashes);
    if (there && made.verdicts[i] == verdict::hung) says_.add(count::hangs);
    if (symlease::is_error(each.code))
      says_.trouble("result " + made.offers[i].staged() +
                    ": its map was damaged, published all the same");
    switch (each.fate) {
      case symlease::fate::published:
      case symlease::fate::published_by_digest: says_.add(count::published); break;
      case symlease::fate::already_there: says_.add(count::already_there); break;
      case symlease::fate::not_novel: says_.add(count::not_novel); break;
      case symlease::fate::lost:
        says_.add(count::lost);
        says_.trouble("result " + made.offers[i].staged() + ": lost before it was published");
        break;
      case symlease::fate::unset: break;
    }
  }
}

void worker::give_back(const item &what, const symlease::lease &lease, bool setback) {
  const auto done = shared_.campaign.abandon(lease);
  if (done) says_.add(count::abandoned);
  else if (done.is(symlease::status::stale)) says_.add(count::dropped);
  // Else its TTL ends it, or a replay.
  else if (symlease::is_error(done.code())) says_.trouble("abandon: " + done.words());
  shared_.work.later(what.id, setback ? setback_wait : seconds(0), setback);
}

}  // namespace coordinator
