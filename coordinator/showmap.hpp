// Coverage of a target that AFL++ instrumented, by afl-showmap.
#ifndef COORDINATOR_SHOWMAP_HPP
#define COORDINATOR_SHOWMAP_HPP

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "settings.hpp"
#include "target.hpp"

namespace coordinator {

/// Bytes of the target's map, as it says itself (AFL_DUMP_MAP_SIZE). Throws
/// where it says none: AFL++ did not instrument it.
[[nodiscard]] std::uint64_t afl_map_size(build &target, const std::string &scratch,
                                         const std::atomic<bool> &stop);

/// Runs afl-showmap -b: the map comes classified, as AFL++ itself sees it.
class showmap_runner : public meter {
 public:
  /// `scratch`: a directory of its own, on the file system of the inputs.
  showmap_runner(build &target, std::vector<std::string> words, seconds limit,
                 std::uint64_t map_size, std::string scratch);
  ~showmap_runner() override;
  showmap_runner(const showmap_runner &) = delete;
  showmap_runner &operator=(const showmap_runner &) = delete;
  [[nodiscard]] measurement measure(const std::string &input,
                                    const std::atomic<bool> &stop) override;

 private:
  build &target_;
  std::string program_;
  std::vector<std::string> words_;
  seconds limit_;
  std::uint64_t map_size_;
  std::string scratch_;
};

/// The one that fits: with --afl, afl-showmap; else the sancov adapter.
[[nodiscard]] std::unique_ptr<meter> make_meter(const settings &chosen, build &target,
                                                std::uint64_t map_size, std::string scratch);

}  // namespace coordinator

#endif
