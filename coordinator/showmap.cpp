#include "showmap.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

#include "afl_names.hpp"
#include "files.hpp"

namespace coordinator {
namespace {

/// Beyond the target's own limit, for afl-showmap itself.
constexpr seconds grace{10};

/// What it says of why it gave up, without colours.
std::string complaint(const std::string &text) {
  std::size_t at = text.find("PROGRAM ABORT");
  if (at == std::string::npos) at = text.find("SYSTEM ERROR");
  if (at == std::string::npos) return "it does not say why";
  std::string made;
  for (; at < text.size() && text[at] != '\n' && made.size() < 300; at++) {
    if (text[at] == '\x1b') at = std::min(text.find('m', at), text.size() - 1);
    else made += text[at];
  }
  return made;
}

}  // namespace

std::uint64_t afl_map_size(build &target, const std::string &scratch,
                           const std::atomic<bool> &stop) {
  run_request request;
  request.words = {target.file()};
  request.set = {{"AFL_DUMP_MAP_SIZE", "1"}};
  request.output = scratch;
  request.limit = grace;
  const run_end end = target.run(request, stop);
  if (end.kind == run_kind::stopped) throw stopped();
  const std::string said = read_file(scratch);
  unlink(scratch.c_str());
  char *last = nullptr;
  const unsigned long long size = std::strtoull(said.c_str(), &last, 10);
  if (size == 0 || size > (1ull << 23) || *last != '\n')
    throw std::runtime_error("target " + target.file() + " (" + end.words() +
                             "): AFL_DUMP_MAP_SIZE=1 gives no map size up to 8 MiB; is it built by "
                             "afl-clang-fast?");
  return size;
}

showmap_runner::showmap_runner(build &target, std::vector<std::string> words, seconds limit,
                               std::uint64_t map_size, std::string scratch)
    : target_(target),
      program_(program_file("afl-showmap")),
      words_(std::move(words)),
      limit_(limit),
      map_size_(map_size),
      scratch_(std::move(scratch)) {
  words_[0] = target_.file();
}

showmap_runner::~showmap_runner() { remove_tree(scratch_); }

measurement showmap_runner::measure(const std::string &input, const std::atomic<bool> &stop) {
  run_request request;
  request.program = program_;
  const auto milliseconds = static_cast<long>(std::ceil(limit_.count() * 1000));
  // A directory of one: only so is a target run as afl-fuzz runs it, by its fork
  // server, and in the persistent mode from shared memory. @@ is afl-showmap's own.
  request.words = {"afl-showmap", "-b", "-m", "none", "-t", std::to_string(milliseconds),
                   "-i", scratch_ + "/in", "-o", scratch_ + "/out", "--"};
  request.words.insert(request.words.end(), words_.begin(), words_.end());
  request.output = scratch_ + "/said";
  request.limit = limit_ + grace;
  request.gentle = true;
  // A variable that is afl-fuzz's alone it takes for a mistake, and sleeps 2 s.
  request.set = {{"AFL_MAP_SIZE", std::to_string(map_size_)},
                 {"AFL_TMPDIR", scratch_},
                 {"AFL_IGNORE_UNKNOWN_ENVS", "1"}};
  request.unset = {"SYMLEASE_SANCOV_FILE", "AFL_QUIET", "AFL_DEBUG"};
  remove_tree(scratch_);
  make_directories(scratch_ + "/in");
  if (link(input.c_str(), (scratch_ + "/in/input").c_str()) != 0)
    fail(errno, "link " + input + " into " + scratch_);
  const run_end end =
      target_.run(request, stop, [this] { remove_tree(scratch_ + "/out"); });
  measurement made;
  if (end.kind == run_kind::stopped) {
    made.what = verdict::stopped;
    return made;
  }
  const std::string said = read_file(request.output);
  switch (parse_showmap(said, made.signal)) {
    case showmap_end::ran: break;
    case showmap_end::crashed: made.what = verdict::crashed; break;
    case showmap_end::hung: made.what = verdict::hung; break;
    case showmap_end::unknown:
      throw std::runtime_error("afl-showmap of " + words_[0] + " (" + end.words() +
                               "): " + complaint(said));
  }
  const std::string map = read_file(scratch_ + "/out/input");
  made.map_size = map.size();
  for (std::size_t i = 0; i < map.size(); i++)
    if (map[i] != 0)
      made.edges.push_back({static_cast<std::uint32_t>(i), static_cast<std::uint8_t>(map[i])});
  return made;
}

std::unique_ptr<meter> make_meter(const settings &chosen, build &target, std::uint64_t map_size,
                                  std::string scratch) {
  if (chosen.afl.empty())
    return std::make_unique<coverage_runner>(target, chosen.target, chosen.target_timeout,
                                             std::move(scratch));
  return std::make_unique<showmap_runner>(target, chosen.target, chosen.target_timeout, map_size,
                                          std::move(scratch));
}

}  // namespace coordinator
