// For test.sh: whether a campaign's records and authority are what they must be.
//   verify CAMPAIGN CORPUS TARGET  nothing leased or committing, the authority is
//                                  the OR of the corpus's maps; prints how much is done
//   verify CAMPAIGN                prints "leased committing done"
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <vector>

#include "files.hpp"
#include "symlease.hpp"
#include "target.hpp"

namespace {

int compare(const symlease::campaign &campaign, const char *corpus, const char *target) {
  std::vector<std::uint8_t> known(campaign.map_info().value().bytes), seen(known.size());
  const std::uint64_t bits = campaign.pull(known).value();
  const std::atomic<bool> stop{false};
  coordinator::build program("target", target);
  coordinator::coverage_runner runner(program, {target}, coordinator::seconds(5),
                                      std::string(corpus) + "/../verify.counts");
  for (const coordinator::listed_file &each : coordinator::list_files(corpus))
    for (const symlease::edge &edge : runner.measure(each.path, stop).edges)
      seen.at(edge.index) = static_cast<std::uint8_t>(seen.at(edge.index) | edge.bits);
  for (std::size_t i = 0; i < known.size(); i++)
    if (known[i] != seen[i])
      return std::fprintf(stderr, "index %zu: authority %d, corpus %d\n", i, known[i], seen[i]), 1;
  return bits == 0 ? (std::fputs("the authority is empty\n", stderr), 1) : 0;
}

}  // namespace

int main(int count, char **arguments) {
  try {
    if (count != 2 && count != 4) return 2;
    symlease::options options;
    options.existing = true;
    const auto campaign = symlease::campaign::open(arguments[1], options).value();
    const symlease_counts counts = campaign.counts(symlease::table::work).value();
    const symlease_counts targets = campaign.counts(symlease::table::target).value();
    if (count == 2)
      return std::printf("%llu %llu %llu\n", static_cast<unsigned long long>(counts.leased),
                         static_cast<unsigned long long>(counts.committing),
                         static_cast<unsigned long long>(counts.done)) < 0;
    if (counts.leased + counts.committing + counts.corrupt + targets.leased + targets.corrupt != 0)
      return std::fputs("leased, committing or damaged records are left\n", stderr), 1;
    std::printf("%llu\n", static_cast<unsigned long long>(counts.done));
    return compare(campaign, arguments[2], arguments[3]);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "verify: %s\n", error.what());
    return 1;
  }
}
