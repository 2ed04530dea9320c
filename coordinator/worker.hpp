// One job slot: claims work, does it, commits it.
#ifndef COORDINATOR_WORKER_HPP
#define COORDINATOR_WORKER_HPP

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "build.hpp"
#include "holdings.hpp"
#include "report.hpp"
#include "settings.hpp"
#include "showmap.hpp"
#include "solver.hpp"
#include "staging.hpp"
#include "target.hpp"
#include "work_list.hpp"

namespace coordinator {

/// What all workers share.
struct shared_state {
  const settings &chosen;
  const symlease::campaign &campaign;
  report &says;
  holdings &held;
  work_list &work;
  const staging &stage;
  programs &builds;
  std::uint64_t map_size;
  std::atomic<bool> &stop;
  std::atomic<bool> replaced{false};  ///< a program is another build: nothing more is done
};

class worker {
 public:
  worker(shared_state &shared, unsigned slot);
  /// Until `stop`. Nothing that happens to one item ends it.
  void work_on();

 private:
  struct found {
    std::vector<symlease::offer> offers;
    std::vector<verdict> verdicts;
  };
  void end_all(const another_build &why);
  void try_to_claim(const item &what);
  void work_under(const item &what, const symlease::lease &lease);
  [[nodiscard]] static std::string read_input(const item &what);
  [[nodiscard]] found do_item(const item &what, const symlease::lease &lease,
                              const std::string &directory);
  void stage_results(const item &what, const std::vector<listed_file> &written,
                     const std::string &directory, found &made);
  void forget_inputs(const item &what) const;
  void stage_one(const std::string &path, found &made);
  void commit(const item &what, const symlease::lease &lease, const std::string &directory,
              found &made);
  void committed(const found &made, const std::vector<symlease::committed> &outcomes);
  void give_back(const item &what, const symlease::lease &lease, bool setback);
  void wait(seconds time) const;

  shared_state &shared_;
  report &says_;
  std::unique_ptr<meter> runner_;
};

}  // namespace coordinator

#endif
