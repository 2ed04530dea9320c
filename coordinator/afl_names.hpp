// What AFL++ writes into names and small files, as values. Nothing here reads
// a file.
#ifndef COORDINATOR_AFL_NAMES_HPP
#define COORDINATOR_AFL_NAMES_HPP

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace coordinator {

/// The name of a queue's file: "id:000012,src:000003,op:havoc,rep:4,+cov".
struct afl_name {
  std::uint32_t id = 0;
  bool new_coverage = false;  ///< +cov
  bool original = false;      ///< orig: one of the seeds
};
/// Nothing: no name of a queue's file.
[[nodiscard]] std::optional<afl_name> parse_afl_name(std::string_view name);

/// In which order inputs are solved, as AFL's own helpers do: first what brought
/// new coverage, then originals, then small ones.
struct afl_priority {
  bool new_coverage = false, original = false;
  std::uint64_t size = 0;
  [[nodiscard]] bool before(const afl_priority &other) const {
    return std::tuple(!new_coverage, !original, size) <
           std::tuple(!other.new_coverage, !other.original, other.size);
  }
};

/// "id:000007,sha256:<digest>" and `more`. AFL++ looks for the number alone; the
/// digest says, after any death, what is there.
[[nodiscard]] std::string published_name(std::uint32_t id, std::string_view digest,
                                         std::string_view more);

/// What a folder of a sync peer holds, by its names.
struct afl_published {
  std::uint32_t next = 0;          ///< the next id
  std::set<std::string> digests;
  std::optional<std::uint32_t> gap;  ///< the first id that is missing, or is there twice
  std::vector<std::string> strange;  ///< what is not ours
};
[[nodiscard]] afl_published judge_published(const std::vector<std::string> &names);

/// "key : value" lines, as in fuzzer_stats.
[[nodiscard]] std::map<std::string, std::string> parse_afl_stats(std::string_view text);

/// The target's program in afl-fuzz's command line; nothing: there is none.
[[nodiscard]] std::optional<std::string> afl_target(const std::string &command_line);
/// Whether that command line begins a main instance (-M), which imports from others.
[[nodiscard]] bool afl_is_main(const std::string &command_line);

/// How afl-showmap says that the run ended. Its exit code is 2 for hangs and
/// crashes alike, and the target's words come before its own.
enum class showmap_end { ran, crashed, hung, unknown };
[[nodiscard]] showmap_end parse_showmap(std::string_view said, int &signal);

/// Bytes of the map of a target that says `size`: afl-showmap and fuzz_bitmap round up.
[[nodiscard]] std::uint64_t afl_map_bytes(std::uint64_t size);

}  // namespace coordinator

#endif
