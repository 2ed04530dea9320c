#include "afl_bitmaps.hpp"

#include <sys/stat.h>

#include <exception>
#include <filesystem>
#include <vector>

#include "build.hpp"
#include "files.hpp"

namespace coordinator {
namespace {

/// Where a program that afl-fuzz was given may lie: its directory is known only
/// while it runs. Whatever is found there must be the same build.
std::vector<std::string> places(const std::string &program, const std::string &process,
                                const std::string &out) {
  if (program.front() == '/') return {program};
  if (program.find('/') == std::string::npos) return {program_file(program)};
  return {"/proc/" + process + "/cwd/" + program, program,
          (std::filesystem::path(out).parent_path() / program).string()};
}

}  // namespace

afl_bitmaps::afl_bitmaps(const symlease::campaign &campaign, report &says, std::string out,
                         std::string peer, std::string identity, std::uint64_t map_size)
    : campaign_(campaign),
      says_(says),
      out_(std::move(out)),
      peer_(std::move(peer)),
      identity_(std::move(identity)),
      map_size_(map_size) {}

void afl_bitmaps::import() {
  for (const afl_instance &each : afl_instances(out_, peer_)) {
    try {
      import_one(each);
    } catch (const std::exception &error) {
      says_.trouble("coverage of " + each.path + ": " + error.what());
    }
  }
}

/// Empty: it runs our build.
std::string afl_bitmaps::judge(const std::map<std::string, std::string> &stats) const {
  const auto line = stats.find("command_line"), process = stats.find("fuzzer_pid");
  const auto program = line == stats.end() ? std::nullopt : afl_target(line->second);
  if (!program || process == stats.end()) return "its fuzzer_stats names no target";
  std::string found;
  for (const std::string &each : places(*program, process->second, out_)) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(each, error)) continue;
    found = build("target", each).identity();
    if (found == identity_) return "";
  }
  return found.empty() ? "its target " + *program + " is not found"
                       : "it runs another build, " + found + ", not " + identity_;
}

void afl_bitmaps::import_one(const afl_instance &one) {
  const std::string path = one.path + "/fuzz_bitmap";
  struct stat before {}, after {};
  if (stat(path.c_str(), &before) != 0) return;  // none yet
  const std::int64_t changed =
      std::int64_t{before.st_mtim.tv_sec} * 1'000'000'000 + before.st_mtim.tv_nsec;
  known &about = known_[one.name];
  const auto stats = afl_stats_of(one);
  const auto begun = stats.find("start_time");
  if (begun == stats.end()) return;
  if (!about.judged || about.begun != begun->second) {
    about = known{begun->second, judge(stats), true, -1};
    if (!about.why_not.empty())
      says_.say("coverage of " + one.path + " is not taken over: " + about.why_not);
  }
  if (!about.why_not.empty() || about.changed == changed) return;
  const std::string virgin = read_file(path);
  // It is written in place: what changes meanwhile is read the next time.
  if (stat(path.c_str(), &after) != 0 || after.st_mtim.tv_sec != before.st_mtim.tv_sec ||
      after.st_mtim.tv_nsec != before.st_mtim.tv_nsec || virgin.size() < map_size_)
    return;
  // AFL_MAP_SIZE may have made it larger than the target needs.
  if (virgin.find_first_not_of('\xff', map_size_) != std::string::npos) {
    about.why_not = path + " has " + std::to_string(virgin.size()) + " bytes, the target's map " +
                    std::to_string(map_size_);
    return says_.say("coverage of " + one.path + " is not taken over: " + about.why_not);
  }
  std::vector<std::uint8_t> covered(map_size_);
  for (std::size_t i = 0; i < covered.size(); i++)
    covered[i] = static_cast<std::uint8_t>(~static_cast<unsigned char>(virgin[i]));
  says_.add(count::afl_bits, campaign_.merge(covered).value());
  about.changed = changed;
}

}  // namespace coordinator
