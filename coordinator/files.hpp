// Files: read whole, written whole, listed, locked. Errors throw
// std::system_error and name the path.
#ifndef COORDINATOR_FILES_HPP
#define COORDINATOR_FILES_HPP

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace coordinator {

/// A descriptor, closed at the end of its life.
class descriptor {
 public:
  explicit descriptor(int number = -1) noexcept : number_(number) {}
  descriptor(descriptor &&other) noexcept : number_(other.number_) { other.number_ = -1; }
  descriptor &operator=(descriptor &&other) noexcept;
  descriptor(const descriptor &) = delete;
  descriptor &operator=(const descriptor &) = delete;
  ~descriptor();
  [[nodiscard]] int get() const noexcept { return number_; }
  [[nodiscard]] explicit operator bool() const noexcept { return number_ >= 0; }

 private:
  int number_;
};

/// A regular file as a listing found it.
struct listed_file {
  std::string path;
  std::uint64_t size = 0;
  std::int64_t changed = 0;  ///< nanoseconds
};

/// What a listing of inputs leaves out.
struct passed_over {
  std::size_t empty = 0, large = 0, directories = 0, hidden = 0, dangling = 0, special = 0;
  [[nodiscard]] std::string words() const;  ///< empty: nothing
};

[[noreturn]] void fail(int error, const std::string &what);
[[nodiscard]] std::string read_file(const std::string &path);
void write_file(const std::string &path, std::string_view bytes);
/// Whole or not at all: written aside, then renamed.
void write_whole(const std::string &path, std::string_view bytes);
/// Throws unless write_whole() can write there; changes nothing.
void check_writable(const std::string &path);
void make_directories(const std::string &path);
/// Regular files whose names do not begin with a dot, by name; a directory
/// that is not there has none.
[[nodiscard]] std::vector<listed_file> list_files(const std::string &directory);
/// The same, links followed, and what is left out counted.
[[nodiscard]] std::vector<listed_file> list_files(const std::string &directory, passed_over &left);
/// Throws unless a file of `from` can be published in `to`, as a commit does it.
void check_publishing(const std::string &from, const std::string &to);
/// Best effort; a file that stays is met again by the next cleaning.
void remove_tree(const std::string &path) noexcept;
[[nodiscard]] std::uint64_t free_bytes(const std::string &path);
/// As a JSON string; bytes that are not ASCII become '?' where they are no UTF-8.
[[nodiscard]] std::string quoted(std::string_view text);

}  // namespace coordinator

#endif
