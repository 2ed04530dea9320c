#include "work_list.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <system_error>
#include <vector>

namespace coordinator {
namespace {

/// The largest input that AFL++ and the solver take.
constexpr std::uint64_t largest_input = 1 << 20;

std::string arguments(const std::vector<std::string> &words) {
  std::string made = "[";
  for (std::size_t i = 1; i < words.size(); i++) made += (i == 1 ? "" : ",") + quoted(words[i]);
  return made + "]";
}

}  // namespace

work_list::work_list(const settings &chosen, report &says, const programs &builds,
                     afl_queues *queues)
    : chosen_(chosen), says_(says), queues_(queues) {
  const std::string &target_identity = builds.target.identity();
  about_import_ = "\"kind\":\"import\",\"target\":" + quoted(target_identity) +
                  ",\"target_arguments\":" + arguments(chosen.target) +
                  ",\"target_timeout\":" + std::to_string(chosen.target_timeout.count());
  if (!builds.solver) return;
  about_solve_ = "\"kind\":\"solve\",\"target\":" + quoted(target_identity) + ",\"solver\":" +
                 quoted(builds.solver->identity()) +
                 ",\"solver_arguments\":" + arguments(chosen.solver) + ",\"solver_kind\":" +
                 (chosen.kind == solver_kind::i2s ? "\"i2s\"" : "\"symcc\"") +
                 (chosen.symcc_adapter.empty() ? "" : ",\"symcc_adapter\":true") +
                 ",\"run_timeout\":" + std::to_string(chosen.run_timeout.count());
}

std::size_t work_list::refresh() {
  std::size_t added = look_at_seeds();
  if (queues_ != nullptr && !about_solve_.empty()) added += look_at_queues();
  const std::vector<listed_file> corpus = list_files(chosen_.corpus);
  for (const listed_file &each : corpus) added += look_at(each, false);
  const std::lock_guard<std::mutex> lock(guard_);
  corpus_files_ = corpus.size();
  return added;
}

std::size_t work_list::look_at_seeds() {
  std::size_t added = 0, taken = 0;
  passed_over left;
  if (chosen_.seeds.empty()) return 0;
  for (const listed_file &each : list_files(chosen_.seeds, left)) {
    added += look_at(each, true);
    if (each.size == 0) left.empty++;
    else if (each.size > largest_input) left.large++;
    else taken++;
  }
  say_passed_over(taken, left);
  return added;
}

/// Their coverage comes with fuzz_bitmap: nothing is to be measured.
std::size_t work_list::look_at_queues() {
  std::size_t added = 0;
  for (const afl_input &each : queues_->look()) {
    try {
      if (each.priority.size > largest_input) continue;
      const std::string bytes = read_file(each.path);
      if (bytes.empty()) queues_->again(each.path);
      else added += add(task::solve, each.path, symlease::work_id(bytes).value(), each.priority);
    } catch (const std::system_error &error) {
      queues_->again(each.path);
      if (error.code() != std::errc::no_such_file_or_directory)
        says_.trouble(std::string("input: ") + error.what());
    }
  }
  return added;
}

void work_list::say_passed_over(std::size_t taken, const passed_over &left) {
  const std::string now = left.words();
  if (now == passed_over_) return;
  passed_over_ = now;
  if (!now.empty())
    says_.say("seeds " + chosen_.seeds + ": " + std::to_string(taken) +
              " taken, passed over: " + now);
}

std::size_t work_list::look_at(const listed_file &file, bool is_seed) {
  const std::pair<std::uint64_t, std::int64_t> now{file.size, file.changed};
  const auto known = seen_.find(file.path);
  if (known != seen_.end() && known->second == now) return 0;
  std::string bytes;
  try {
    if (file.size <= largest_input) bytes = read_file(file.path);
  } catch (const std::system_error &error) {
    const bool gone = error.code() == std::errc::no_such_file_or_directory;
    const std::lock_guard<std::mutex> lock(guard_);
    if (gone) unreadable_.erase(file.path);
    else if (unreadable_.insert(file.path).second)
      says_.trouble(std::string("input: ") + error.what());
    return 0;
  }
  seen_[file.path] = now;
  {
    const std::lock_guard<std::mutex> lock(guard_);
    unreadable_.erase(file.path);
  }
  if (file.size > largest_input || bytes.size() > largest_input) {
    says_.trouble("input " + file.path + ": over 1 MiB, passed over");
    return 0;
  }
  if (bytes.empty()) return 0;
  const std::string digest = symlease::work_id(bytes).value();
  // What a commit published was new; a seed is an original.
  const afl_priority priority{!is_seed, is_seed, bytes.size()};
  std::size_t added = 0;
  if (is_seed) added += add(task::import_seed, file.path, digest, priority);
  if (!about_solve_.empty()) added += add(task::solve, file.path, digest, priority);
  return added;
}

std::size_t work_list::add(task kind, const std::string &path, const std::string &digest,
                           const afl_priority &priority) {
  entry made;
  made.priority = priority;
  made.what.kind = kind;
  made.what.path = path;
  made.what.digest = digest;
  made.what.payload = "{\"input\":\"" + digest + "\"," +
                      (kind == task::solve ? about_solve_ : about_import_) + "}";
  made.what.id = symlease::work_id_json(made.what.payload).value();
  const std::lock_guard<std::mutex> lock(guard_);
  const auto [at, is_new] = entries_.try_emplace(made.what.id, made);
  if (is_new) return 1;
  // The same bytes once more: what is said best of them counts. One whose file
  // is gone goes on with this one.
  entry &there = at->second;
  if (made.priority.before(there.priority)) there.priority = made.priority;
  if (there.at != state::gone) return 0;
  there.what.path = path;
  there.at = state::open;
  return 1;
}

std::optional<item> work_list::take() {
  const std::lock_guard<std::mutex> lock(guard_);
  const clock::time_point now = clock::now();
  std::vector<entry *> open;
  for (auto &[id, each] : entries_) {
    if (each.at != state::open || each.not_before > now) continue;
    if (each.what.kind == task::import_seed && !open.empty() &&
        open.front()->what.kind == task::solve)
      open.clear();
    if (open.empty() || open.front()->what.kind == each.what.kind) open.push_back(&each);
  }
  if (open.empty()) return std::nullopt;
  std::uniform_int_distribution<std::size_t> any(0, open.size() - 1);
  entry *best = open[any(random_)];
  if (queues_ != nullptr)
    for (entry *each : open)
      if (each->priority.before(best->priority)) best = each;
  entry &chosen = *best;
  chosen.at = state::taken;
  return chosen.what;
}

void work_list::finish(const std::string &id) {
  const std::lock_guard<std::mutex> lock(guard_);
  entries_.at(id).at = state::done;
}

void work_list::changed(const item &what) {
  const std::lock_guard<std::mutex> lock(guard_);
  if (queues_ != nullptr) queues_->again(what.path);
  entries_.at(what.id).at = state::gone;
}

void work_list::later(const std::string &id, seconds wait, bool setback) {
  const std::lock_guard<std::mutex> lock(guard_);
  entry &each = entries_.at(id);
  each.at = state::open;
  each.setbacks = setback ? each.setbacks + 1 : 0;
  if (setback) wait = seconds(std::min(60.0, wait.count() * std::exp2(each.setbacks)));
  each.not_before = clock::now() + std::chrono::duration_cast<clock::duration>(wait);
}

void work_list::claimed(const std::string &id) {
  const std::lock_guard<std::mutex> lock(guard_);
  entries_.at(id).what.claimed_before = true;
}

bool work_list::finished() {
  const std::lock_guard<std::mutex> lock(guard_);
  return std::all_of(entries_.begin(), entries_.end(), [](const auto &each) {
    return each.second.at == state::done || each.second.at == state::gone || given_up(each.second);
  });
}

bool work_list::given_up(const entry &one) { return one.at == state::open && one.setbacks >= 3; }

std::size_t work_list::left() {
  const std::lock_guard<std::mutex> lock(guard_);
  const auto number = std::count_if(entries_.begin(), entries_.end(),
                                    [](const auto &each) { return given_up(each.second); });
  return static_cast<std::size_t>(number) + unreadable_.size();
}

bool work_list::empty() {
  const std::lock_guard<std::mutex> lock(guard_);
  return entries_.empty() && corpus_files_ == 0;
}

std::pair<std::size_t, std::size_t> work_list::inputs() {
  const std::lock_guard<std::mutex> lock(guard_);
  std::size_t all = 0, open = 0;
  for (const auto &[id, each] : entries_) {
    if (each.what.kind != task::solve || each.at == state::gone) continue;
    all++;
    if (each.at != state::done) open++;
  }
  return {all, open};
}

std::size_t work_list::corpus_files() {
  const std::lock_guard<std::mutex> lock(guard_);
  return corpus_files_;
}

}  // namespace coordinator
