#include "target.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "files.hpp"
#include "symlease_sancov.h"

namespace coordinator {
namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t least_capacity = 16 * page;
constexpr std::uint64_t most_capacity = std::uint64_t{1} << 23;  // the largest map of a campaign

/// A fresh file for one run: what an earlier run left behind in the
/// background counts into a file that has no name any more.
descriptor fresh_counts(const std::string &path, std::uint64_t capacity) {
  unlink(path.c_str());
  descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) fail(errno, "create " + path);
  // All of it now: on a full disk the target would die of SIGBUS, not of its input.
  const auto length = static_cast<off_t>(SYMLEASE_SANCOV_HEADER_BYTES + capacity);
  const int error = posix_fallocate(file.get(), 0, length);
  if (error != 0) fail(error, "allocate " + path);
  symlease_sancov_header header{};
  std::memcpy(header.magic, SYMLEASE_SANCOV_MAGIC, sizeof header.magic);
  header.version = SYMLEASE_SANCOV_VERSION;
  header.header_bytes = SYMLEASE_SANCOV_HEADER_BYTES;
  header.capacity = capacity;
  if (pwrite(file.get(), &header, sizeof header, 0) != sizeof header) fail(errno, "write " + path);
  return file;
}

/// Signals that a program's own faults send; others came from outside.
bool is_fault(int signal) {
  for (const int each : {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS})
    if (signal == each) return true;
  return false;
}

}  // namespace

coverage_runner::coverage_runner(build &program, std::vector<std::string> target, seconds limit,
                                 std::string scratch)
    : program_(program),
      target_(std::move(target)),
      limit_(limit),
      scratch_(std::move(scratch)),
      capacity_(least_capacity) {}

coverage_runner::~coverage_runner() { unlink(scratch_.c_str()); }

measurement coverage_runner::measure(const std::string &input, const std::atomic<bool> &stop) {
  run_request request;
  request.words = with_file(target_, input);
  if (!takes_file(target_)) request.input = input;
  request.limit = limit_;
  request.set = {{"SYMLEASE_SANCOV_FILE", scratch_}};
  // A sanitizer's finding is a crash.
  for (const char *variable : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "MSAN_OPTIONS"})
    if (std::getenv(variable) == nullptr)
      request.set.emplace_back(variable, "abort_on_error=1:halt_on_error=1:symbolize=0");
  for (;;) {
    descriptor file;
    const run_end end = program_.run(
        request, stop, [&] { file = fresh_counts(scratch_, capacity_); });
    std::uint64_t dropped = 0;
    measurement made = counted(end, file.get(), dropped);
    if (dropped == 0 || made.what == verdict::stopped) return made;
    if (capacity_ >= most_capacity)
      throw failed_run("target " + target_[0] + ": " + std::to_string(dropped) +
                       " edges beyond the largest map, " + std::to_string(most_capacity));
    capacity_ = std::min(capacity_ * 4, most_capacity);
  }
}

measurement coverage_runner::counted(run_end end, int file, std::uint64_t &dropped) const {
  measurement made;
  if (end.kind == run_kind::stopped) made.what = verdict::stopped;
  if (made.what == verdict::stopped) return made;
  if (end.kind == run_kind::timed_out) made.what = verdict::hung;
  if (end.kind == run_kind::signalled && is_fault(end.code)) {
    made.what = verdict::crashed;
    made.signal = end.code;
  }
  symlease_sancov_header header{};
  if (pread(file, &header, sizeof header, 0) != sizeof header) fail(errno, "read " + scratch_);
  if (header.live == 0 || header.size == 0)
    throw std::runtime_error("target " + target_[0] + " (" + end.words() +
                             "): coverage hooks are not live; link symlease_sancov.o as an object");
  dropped = header.dropped;
  made.map_size = header.size;
  std::vector<std::uint8_t> counts(std::min<std::uint64_t>(header.size, capacity_));
  const ssize_t got = pread(file, counts.data(), counts.size(), SYMLEASE_SANCOV_HEADER_BYTES);
  if (got != static_cast<ssize_t>(counts.size())) fail(errno, "read " + scratch_);
  const std::vector<std::uint8_t> bits = symlease::classify(counts).value();
  for (std::size_t i = 0; i < bits.size(); i++)
    if (bits[i] != 0) made.edges.push_back({static_cast<std::uint32_t>(i), bits[i]});
  return made;
}

}  // namespace coordinator
