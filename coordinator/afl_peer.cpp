#include "afl_peer.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "afl_names.hpp"
#include "pause.hpp"
#include "symlease.hpp"

namespace coordinator {
namespace {

namespace fs = std::filesystem;

/// AFL++ reads six digits in order; a seventh would come before them.
constexpr std::uint32_t most = 1'000'000;
constexpr std::uint64_t largest = 1 << 20;

std::int64_t nanoseconds(const timespec &time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::int64_t changed(const std::string &folder) {
  struct stat about {};
  if (stat(folder.c_str(), &about) != 0) fail(errno, "look at " + folder);
  return nanoseconds(about.st_mtim);
}

void sync(const std::string &path, int flags) {
  const descriptor file(open(path.c_str(), flags | O_CLOEXEC));
  if (!file) fail(errno, "open " + path);
  // Some file systems cannot sync a directory; then nobody can.
  if (fsync(file.get()) != 0 && errno != EINVAL) fail(errno, "sync " + path);
}

std::vector<std::string> names_in(const std::string &folder) {
  std::vector<std::string> made;
  for (const fs::directory_entry &each : fs::directory_iterator(folder))
    made.push_back(each.path().filename().string());
  return made;
}

}  // namespace

afl_peer::afl_peer(const settings &chosen, report &says)
    : chosen_(chosen),
      says_(says),
      path_(chosen.afl + "/" + chosen.afl_peer),
      own_(path_ + "/.symlease"),
      folders_{{chosen.corpus, path_ + "/queue", ",+cov", {}, 0, {}, {-1, -1}},
               {chosen.crashes, path_ + "/crashes", "", {}, 0, {}, {-1, -1}},
               {chosen.hangs, path_ + "/hangs", "", {}, 0, {}, {-1, -1}}} {
  std::error_code error;
  if (fs::exists(path_ + "/queue", error) && !fs::exists(own_, error))
    throw std::runtime_error("--afl-peer: " + path_ + " is another instance's");
  make_directories(own_);
  for (const folder &each : folders_) make_directories(each.to);
}

descriptor afl_peer::lock(seconds patience) const {
  const std::string path = own_ + "/lock";
  descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) fail(errno, "open " + path);
  const auto until = clock::now() + std::chrono::duration_cast<clock::duration>(patience);
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) fail(errno, "lock " + path);
    if (clock::now() >= until) return descriptor();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return file;
}

/// What is published, by whomever.
void afl_peer::list(folder &in) {
  const std::int64_t now = changed(in.to);
  // All changes are made under this lock, and our own are known: a time that
  // stands still, and not only because it ticks coarsely, means no change.
  if (in.listed.first == now && in.listed.second - now > 2'000'000'000) return;
  const afl_published there = judge_published(names_in(in.to));
  timespec wall{};
  clock_gettime(CLOCK_REALTIME, &wall);
  in.listed = {now, nanoseconds(wall)};
  in.digests = there.digests;
  in.next = there.next;
  const auto complain = [&](const std::string &words) {
    if (complained_.insert(words).second) says_.trouble(words);
  };
  if (there.gap)
    complain(in.to + ": id " + std::to_string(*there.gap) +
             " is missing or there twice; AFL++ may skip entries");
  if (!there.strange.empty())
    complain(in.to + ": " + there.strange.front() + " is not of this peer; AFL++ may stumble over it");
}

std::vector<listed_file> afl_peer::fresh(folder &in) const {
  std::vector<listed_file> made;
  for (listed_file &each : list_files(in.from)) {
    const auto known = in.done.find(each.path);
    if (known != in.done.end() && known->second == std::pair(each.size, each.changed)) continue;
    made.push_back(std::move(each));
  }
  return made;
}

void afl_peer::replace(const std::string &path, const std::string &bytes, bool durable) const {
  const std::string aside = own_ + "/next";
  write_file(aside, bytes);
  if (durable) sync(aside, O_RDONLY);
  if (path.find("/queue/id:") != std::string::npos) pause_while_publishing(path);
  if (rename(aside.c_str(), path.c_str()) != 0) fail(errno, "rename " + aside + " to " + path);
}

void afl_peer::publish_one(folder &in, const listed_file &file) {
  const std::pair stamp(file.size, file.changed);
  if (file.size == 0 || file.size > largest) {
    in.done[file.path] = stamp;
    return;
  }
  const std::string bytes = read_file(file.path);
  const std::string digest = symlease::work_id(bytes).value();
  if (in.digests.count(digest) != 0) {
    in.done[file.path] = stamp;
    return;
  }
  if (in.next >= most) throw std::runtime_error(in.to + ": a million entries, AFL++ takes no more");
  const bool durable = chosen_.durability != symlease::durability::process;
  replace(in.to + "/" + published_name(in.next, digest, in.more), bytes, durable);
  // Before the next id: after a power cut no later one stands alone.
  if (durable) sync(in.to, O_RDONLY | O_DIRECTORY);
  in.digests.insert(digest);
  in.next++;
  in.done[file.path] = stamp;
  if (&in == &folders_[0]) says_.add(count::afl_published);
}

bool afl_peer::publish(const afl_progress &progress, seconds patience, bool last) {
  std::vector<listed_file> all[3];
  bool any = false;
  for (int i = 0; i < 3; i++) any = !(all[i] = fresh(folders_[i])).empty() || any;
  const auto now = clock::now();
  const bool stats = last || !stats_at_ || now - *stats_at_ >= std::chrono::seconds(5);
  if (!any && !stats) return true;
  const descriptor held = lock(patience);
  if (!held) return false;
  std::uint64_t found[3] = {};
  for (int i = 0; i < 3; i++) {
    folder &in = folders_[i];
    list(in);
    const std::size_t before = in.digests.size();
    for (const listed_file &each : all[i]) {
      try {
        publish_one(in, each);
      } catch (const std::system_error &error) {
        if (error.code() != std::errc::no_such_file_or_directory || access(each.path.c_str(), F_OK) == 0)
          throw;  // else somebody removed it from the corpus
      }
    }
    found[i] = in.digests.size() - before;
  }
  if (stats || found[0] + found[1] + found[2] != 0) write_stats(progress, found);
  return true;
}

}  // namespace coordinator
