#include "files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

namespace coordinator {

descriptor &descriptor::operator=(descriptor &&other) noexcept {
  if (this != &other) {
    if (number_ >= 0) close(number_);
    number_ = other.number_;
    other.number_ = -1;
  }
  return *this;
}

descriptor::~descriptor() {
  if (number_ >= 0) close(number_);
}

void fail(int error, const std::string &what) {
  throw std::system_error(error, std::generic_category(), what);
}

std::string read_file(const std::string &path) {
  const descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) fail(errno, "open " + path);
  std::string bytes;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = read(file.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(errno, "read " + path);
    if (got == 0) return bytes;
    bytes.append(buffer, static_cast<std::size_t>(got));
  }
}

void write_file(const std::string &path, std::string_view bytes) {
  const descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file) fail(errno, "create " + path);
  while (!bytes.empty()) {
    const ssize_t put = write(file.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail(errno, "write " + path);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

void write_whole(const std::string &path, std::string_view bytes) {
  const std::string aside = path + "." + std::to_string(getpid()) + ".tmp";
  try {
    write_file(aside, bytes);
    if (rename(aside.c_str(), path.c_str()) != 0) fail(errno, "rename " + aside + " to " + path);
  } catch (...) {
    unlink(aside.c_str());
    throw;
  }
}

void check_writable(const std::string &path) {
  if (std::filesystem::is_directory(path)) fail(EISDIR, "write " + path);
  const std::string aside = path + "." + std::to_string(getpid()) + ".tmp";
  write_file(aside, "");
  unlink(aside.c_str());
}

void make_directories(const std::string &path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw std::system_error(error, "make directory " + path);
}

namespace {

/// Whether it is a regular file; else why not is counted.
bool regular(const std::string &path, bool follow, struct stat &about, passed_over &left) {
  if (lstat(path.c_str(), &about) != 0) return false;  // others remove files meanwhile
  if (follow && S_ISLNK(about.st_mode) && stat(path.c_str(), &about) != 0)
    return left.dangling++, false;
  if (S_ISREG(about.st_mode)) return true;
  (S_ISDIR(about.st_mode) ? left.directories : left.special)++;
  return false;
}

std::vector<listed_file> list(const std::string &directory, bool follow, passed_over &left) {
  std::vector<listed_file> found;
  std::error_code error;
  std::filesystem::directory_iterator each(directory, error), end;
  if (error == std::errc::no_such_file_or_directory) return found;
  for (; !error && each != end; each.increment(error)) {
    listed_file file;
    file.path = each->path().string();
    struct stat about;
    if (each->path().filename().string().front() == '.') {
      left.hidden++;
      continue;
    }
    if (!regular(file.path, follow, about, left)) continue;
    file.size = static_cast<std::uint64_t>(about.st_size);
    file.changed = std::int64_t{about.st_mtim.tv_sec} * 1000000000 + about.st_mtim.tv_nsec;
    found.push_back(std::move(file));
  }
  if (error) throw std::system_error(error, "list " + directory);
  std::sort(found.begin(), found.end(),
            [](const listed_file &a, const listed_file &b) { return a.path < b.path; });
  return found;
}

}  // namespace

std::vector<listed_file> list_files(const std::string &directory) {
  passed_over left;
  return list(directory, false, left);
}

std::vector<listed_file> list_files(const std::string &directory, passed_over &left) {
  return list(directory, true, left);
}

std::string passed_over::words() const {
  std::string made;
  const std::pair<std::size_t, const char *> all[] = {
      {empty, "empty"},         {large, "over 1 MiB"},      {directories, "directories"},
      {hidden, "hidden (.*)"}, {dangling, "dangling links"}, {special, "no regular files"}};
  for (const auto &[number, what] : all)
    if (number != 0) made += (made.empty() ? "" : ", ") + std::to_string(number) + " " + what;
  return made;
}

void check_publishing(const std::string &from, const std::string &to) {
  const std::string probe = from + "/probe";
  const std::string published = to + "/.probe-" + std::filesystem::path(from).filename().string();
  write_file(probe, "");
  unlink(published.c_str());  // of a dead process with this number
  const int error = link(probe.c_str(), published.c_str()) == 0 ? 0 : errno;
  unlink(published.c_str());
  unlink(probe.c_str());
  if (error == EXDEV)
    fail(error, to + " is not on the campaign's file system: no result can be published there");
  if (error != 0) fail(error, "publish into " + to);
}

void remove_tree(const std::string &path) noexcept {
  std::error_code error;
  std::filesystem::remove_all(path, error);
}

std::uint64_t free_bytes(const std::string &path) {
  struct statvfs about;
  if (statvfs(path.c_str(), &about) != 0) fail(errno, "statvfs " + path);
  return std::uint64_t{about.f_bavail} * about.f_frsize;
}

namespace {

/// Bytes of the UTF-8 character at the front; 0: there is none.
std::size_t character(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const std::size_t length = byte(0) < 0x80 ? 1 : byte(0) < 0xc2 ? 0 : byte(0) < 0xe0 ? 2
                             : byte(0) < 0xf0 ? 3 : byte(0) < 0xf5 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t at = 1; at < length; at++)
    if ((byte(at) & 0xc0) != 0x80) return 0;
  if (length >= 3) {  // overlong, surrogates, beyond the last
    const unsigned second = byte(1);
    if (byte(0) == 0xe0 && second < 0xa0) return 0;
    if (byte(0) == 0xed && second >= 0xa0) return 0;
    if (byte(0) == 0xf0 && second < 0x90) return 0;
    if (byte(0) == 0xf4 && second >= 0x90) return 0;
  }
  return length;
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string made = "\"";
  while (!text.empty()) {
    const std::size_t length = character(text);
    const char first = text.front();
    if (length == 0) {
      made += '?';
    } else if (first == '"' || first == '\\') {
      made += '\\';
      made += first;
    } else if (static_cast<unsigned char>(first) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(first));
      made += escape;
    } else {
      made.append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return made + '"';
}

}  // namespace coordinator
