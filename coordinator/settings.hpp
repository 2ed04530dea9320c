// The command line.
#ifndef COORDINATOR_SETTINGS_HPP
#define COORDINATOR_SETTINGS_HPP

#include <string>
#include <vector>

#include "process.hpp"
#include "symlease.hpp"

namespace coordinator {

enum class solver_kind {
  i2s,    ///< lists its targets (--list --solvable), solves those it is given (--targets)
  symcc,  ///< claims by itself, or not at all: any program that writes to SYMCC_OUTPUT_DIR
};

struct settings {
  std::string campaign, seeds, corpus;  ///< directories, absolute
  std::string crashes, hangs;           ///< the same; else beside the corpus
  std::string afl, afl_peer = "symlease";  ///< AFL++'s output directory; empty: none
  std::vector<std::string> target, solver;
  solver_kind kind = solver_kind::i2s;
  std::string symcc_adapter;  ///< libsymlease-symcc.so for the solver; empty: none
  unsigned jobs = 1;
  seconds time{0};  ///< 0: until a signal
  seconds ttl{30}, run_timeout{10}, target_timeout{0};
  std::string owner, summary;
  symlease::durability durability = symlease::durability::any;
  bool once = false, help = false;

  /// How often everything that is held is renewed.
  [[nodiscard]] seconds heartbeat_interval() const;
  /// Where the adapter stages inputs: it belongs to the work, not to who does it.
  [[nodiscard]] std::string symcc_inputs(const std::string &work) const;
};

/// Throws std::invalid_argument, which names the argument.
[[nodiscard]] settings parse_settings(const std::vector<std::string> &arguments);
[[nodiscard]] std::string usage();

}  // namespace coordinator

#endif
