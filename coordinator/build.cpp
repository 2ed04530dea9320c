#include "build.hpp"

#include <elf.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <thread>

#include "files.hpp"
#include "symlease.hpp"

namespace coordinator {
namespace {

/// A program that has not changed for so long is not being written.
constexpr auto quiet = std::chrono::milliseconds(1000);
/// So long a job waits for one that is missing or being written.
constexpr auto patience = std::chrono::milliseconds(3000);
constexpr auto glance = std::chrono::milliseconds(20);
/// A program that changes in every run has no build.
constexpr unsigned most_tries = 5;

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

std::string identity_of(const std::string &file) {
  const std::string bytes = read_file(file);
  const std::string id = gnu_build_id(bytes);
  return id.empty() ? "sha256:" + symlease::work_id(bytes).value() : "gnu:" + hex(id);
}

std::int64_t nanoseconds(const timespec &time) {
  return std::int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

}  // namespace

build::build(std::string what, const std::string &name)
    : what_(std::move(what)), file_(program_file(name)) {
  known_ = now();
  identity_ = identity_of(file_);
  if (now() != known_) throw std::runtime_error(what_ + " " + file_ + ": is being replaced");
}

build::stamp build::now() const {
  struct stat about;
  if (stat(file_.c_str(), &about) != 0) fail(errno, what_ + " " + file_);
  return {about.st_dev, about.st_ino, about.st_size, nanoseconds(about.st_mtim),
          nanoseconds(about.st_ctim)};
}

bool build::known(const stamp &seen) {
  const std::lock_guard<std::mutex> lock(guard_);
  return seen == known_;
}

/// The program's stamp, once it is surely the build of the start. A file that
/// differs may be half written: it is judged when it has been quiet.
build::stamp build::settled(const std::atomic<bool> &stop) {
  const clock::time_point begun = clock::now();
  stamp last{};
  clock::time_point since = begun;
  for (;; std::this_thread::sleep_for(glance)) {
    if (stop.load()) throw stopped();
    const bool late = clock::now() - begun > patience;
    stamp seen;
    try {
      seen = now();
    } catch (const std::system_error &) {
      if (late) throw;
      last = stamp{};
      continue;
    }
    if (known(seen)) return seen;
    if (seen != last) {
      last = seen;
      since = clock::now();
    }
    if (clock::now() - since >= quiet) {
      const std::string identity = identity_of(file_);
      if (now() != seen) continue;
      if (identity != identity_)
        throw another_build(what_ + " " + file_ + " is another build now: " + identity + ", not " +
                            identity_);
      const std::lock_guard<std::mutex> lock(guard_);
      known_ = seen;
      return seen;
    }
    if (late) throw std::runtime_error(what_ + " " + file_ + ": is being replaced");
  }
}

run_end build::run(run_request request, const std::atomic<bool> &stop,
                   const std::function<void()> &prepare) {
  if (request.program.empty()) request.program = file_;
  for (unsigned tried = 1; tried <= most_tries; tried++) {
    const stamp before = settled(stop);
    prepare();
    run_end end = run_program(request, stop);
    if (end.kind == run_kind::stopped) return end;
    // Whether it was replaced before exec() or after it, nobody can tell.
    bool same = false;
    try {
      same = now() == before;
    } catch (const std::system_error &) {
    }
    if (!same) continue;
    if (end.kind == run_kind::not_started) throw std::runtime_error(what_ + " " + end.words());
    return end;
  }
  throw std::runtime_error(what_ + " " + file_ + ": changes while it runs");
}

}  // namespace coordinator
