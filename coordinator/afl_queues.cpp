#include "afl_queues.hpp"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>

#include "files.hpp"

namespace coordinator {
namespace {

namespace fs = std::filesystem;

constexpr auto quiet = std::chrono::seconds(1);
/// A directory's time ticks coarsely: so near to now it says nothing.
constexpr std::int64_t recent = 2'000'000'000;

std::int64_t nanoseconds(const timespec &time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::int64_t wall_clock() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return nanoseconds(now);
}

std::vector<std::string> names_in(const std::string &folder) {
  std::vector<std::string> made;
  const std::unique_ptr<DIR, int (*)(DIR *)> open(opendir(folder.c_str()), closedir);
  if (!open) {
    if (errno == ENOENT) return made;
    fail(errno, "list " + folder);
  }
  while (const dirent *each = readdir(open.get())) made.emplace_back(each->d_name);
  return made;
}

}  // namespace

std::vector<afl_instance> afl_instances(const std::string &out, const std::string &peer) {
  std::vector<afl_instance> made;
  for (const std::string &name : names_in(out)) {
    if (name.front() == '.' || name == peer) continue;
    std::error_code error;
    if (fs::is_directory(out + "/" + name + "/queue", error))
      made.push_back({name, out + "/" + name});
  }
  std::sort(made.begin(), made.end(),
            [](const afl_instance &a, const afl_instance &b) { return a.name < b.name; });
  return made;
}

std::map<std::string, std::string> afl_stats_of(const afl_instance &one) {
  try {
    return parse_afl_stats(read_file(one.path + "/fuzzer_stats"));
  } catch (const std::system_error &) {
    return {};
  }
}

afl_queues::afl_queues(std::string out, std::string peer)
    : out_(std::move(out)), peer_(std::move(peer)) {}

std::vector<afl_input> afl_queues::look() {
  std::vector<afl_input> found;
  const std::vector<afl_instance> all = afl_instances(out_, peer_);
  const std::lock_guard<std::mutex> lock(guard_);
  instances_ = all.size();
  for (const afl_instance &each : all) look_at(each, found);
  given_ += found.size();
  return found;
}

void afl_queues::look_at(const afl_instance &one, std::vector<afl_input> &found) {
  const std::string folder = one.path + "/queue";
  queue &in = queues_[one.path];
  struct stat about {};
  if (stat(folder.c_str(), &about) != 0) return;
  const std::int64_t changed = nanoseconds(about.st_mtim);
  const std::pair<std::uint64_t, std::uint64_t> now{about.st_dev, about.st_ino};
  const bool same = in.folder == now && in.changed == changed;
  if (same && in.fresh.empty() && !in.ask_again && std::abs(wall_clock() - changed) > recent) return;
  // An instance that was started anew may use old names for other inputs.
  const auto stats = afl_stats_of(one);
  const auto begun = stats.find("start_time");
  const std::string start = begun == stats.end() ? "" : begun->second;
  if (in.folder != now || in.begun != start) in.given.clear();
  in.begun = start;
  in.folder = now;
  in.changed = changed;
  in.ask_again = false;
  list(folder, in, found);
}

void afl_queues::list(const std::string &folder, queue &in, std::vector<afl_input> &found) {
  std::map<std::string, unsettled> fresh;
  const clock::time_point now = clock::now();
  for (const std::string &name : names_in(folder)) {
    const auto parsed = parse_afl_name(name);
    if (!parsed || in.given.count(name) != 0) continue;
    struct stat about {};
    const std::string path = folder + "/" + name;
    if (lstat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) continue;
    const stamp seen{about.st_size, nanoseconds(about.st_mtim)};
    const auto before = in.fresh.find(name);
    unsettled state = before == in.fresh.end() ? unsettled{} : before->second;
    if (state.seen != seen) state = {seen, now};
    if (about.st_size == 0 || now - state.since < quiet) {
      fresh.emplace(name, state);
      continue;
    }
    in.given.insert(name);
    afl_input made{path, {parsed->new_coverage, parsed->original, 0}};
    made.priority.size = static_cast<std::uint64_t>(about.st_size);
    found.push_back(std::move(made));
  }
  in.fresh = std::move(fresh);
}

void afl_queues::again(const std::string &path) {
  const fs::path whole(path);
  const std::lock_guard<std::mutex> lock(guard_);
  const auto in = queues_.find(whole.parent_path().parent_path().string());
  if (in == queues_.end()) return;
  if (in->second.given.erase(whole.filename().string()) != 0) given_--;
  in->second.ask_again = true;
}

bool afl_queues::settling() const {
  const std::lock_guard<std::mutex> lock(guard_);
  for (const auto &[path, in] : queues_)
    for (const auto &[name, state] : in.fresh)  // one that stays empty never will be
      if (state.seen.first != 0 || clock::now() - state.since < 5 * quiet) return true;
  return false;
}

std::size_t afl_queues::given() const {
  const std::lock_guard<std::mutex> lock(guard_);
  return given_;
}

std::size_t afl_queues::instances() const {
  const std::lock_guard<std::mutex> lock(guard_);
  return instances_;
}

}  // namespace coordinator
