#include "target.hpp"

#include <elf.h>
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

std::string hex(std::string_view bytes) {
  static const char digits[] = "0123456789abcdef";
  std::string made;
  for (const char each : bytes) {
    made += digits[static_cast<unsigned char>(each) >> 4];
    made += digits[static_cast<unsigned char>(each) & 15];
  }
  return made;
}

template <class T>
bool take(std::string_view bytes, std::uint64_t at, T &to) {
  if (at > bytes.size() || bytes.size() - at < sizeof to) return false;
  std::memcpy(&to, bytes.data() + at, sizeof to);
  return true;
}

/// The GNU build id among the notes of one segment.
std::string note(std::string_view notes) {
  Elf64_Nhdr head;
  for (std::uint64_t at = 0; take(notes, at, head);) {
    const std::uint64_t name = at + sizeof head;
    const std::uint64_t body = name + ((std::uint64_t{head.n_namesz} + 3) & ~std::uint64_t{3});
    const std::uint64_t next = body + ((std::uint64_t{head.n_descsz} + 3) & ~std::uint64_t{3});
    if (body > notes.size() || head.n_descsz > notes.size() - body) return "";
    const bool gnu = notes.substr(name, head.n_namesz) == std::string_view("GNU\0", 4);
    if (gnu && head.n_type == NT_GNU_BUILD_ID)
      return std::string(notes.substr(body, head.n_descsz));
    at = next;
  }
  return "";
}

std::string gnu_build_id(std::string_view bytes) {
  Elf64_Ehdr file;
  if (!take(bytes, 0, file) || std::memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 ||
      file.e_ident[EI_CLASS] != ELFCLASS64)
    return "";
  for (unsigned i = 0; i < file.e_phnum; i++) {
    Elf64_Phdr segment;
    if (!take(bytes, file.e_phoff + std::uint64_t{i} * file.e_phentsize, segment)) return "";
    if (segment.p_type != PT_NOTE || segment.p_offset > bytes.size()) continue;
    const std::string id = note(bytes.substr(segment.p_offset, segment.p_filesz));
    if (!id.empty()) return id;
  }
  return "";
}

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

std::string build_identity(const std::string &program) {
  const std::string bytes = read_file(program);
  const std::string id = gnu_build_id(bytes);
  return id.empty() ? "sha256:" + symlease::work_id(bytes).value() : "gnu:" + hex(id);
}

coverage_runner::coverage_runner(std::vector<std::string> target, seconds limit,
                                 std::string scratch)
    : target_(std::move(target)),
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
    const descriptor file = fresh_counts(scratch_, capacity_);
    const run_end end = run_program(request, stop);
    if (end.kind == run_kind::not_started) throw std::runtime_error("target " + end.words());
    std::uint64_t dropped = 0;
    measurement made = counted(end, file.get(), dropped);
    if (dropped == 0 || made.what == verdict::stopped) return made;
    if (capacity_ >= most_capacity)
      throw std::runtime_error("target " + target_[0] + ": " + std::to_string(dropped) +
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
