#include "settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

namespace coordinator {
namespace {

/// A whole number where T is one.
template <class T>
T number(const std::string &name, const std::string &text, T low, T high) {
  T value{};
  const char *const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error == std::errc() && end == last && value >= low && value <= high) return value;
  std::ostringstream words;
  words << name << ": \"" << text << "\" is no " << (std::is_integral_v<T> ? "whole " : "")
        << "number from " << low << " to " << high;
  throw std::invalid_argument(words.str());
}

std::string whole_path(const std::string &name, const std::string &text) {
  if (text.empty()) throw std::invalid_argument(name + ": empty");
  std::string path = std::filesystem::absolute(text).lexically_normal().string();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

template <class T>
T one_of(const std::string &name, const std::string &text, const std::map<std::string, T> &known) {
  const auto found = known.find(text);
  if (found != known.end()) return found->second;
  std::string names;
  for (const auto &each : known) names += (names.empty() ? "" : ", ") + each.first;
  throw std::invalid_argument(name + ": \"" + text + "\" is none of " + names);
}

/// As LD_PRELOAD can name it.
void check_adapter(const settings &made, bool other_kind) {
  const std::string name = "--symcc-adapter: ", &file = made.symcc_adapter;
  if (made.solver.empty()) throw std::invalid_argument(name + "needs a --solver");
  if (other_kind) throw std::invalid_argument(name + "is for --solver-kind symcc");
  if (!std::filesystem::is_regular_file(file) || access(file.c_str(), R_OK) != 0)
    throw std::invalid_argument(name + file + " is no file that can be read");
  if (file.find_first_of(" \t\n:") != std::string::npos)
    throw std::invalid_argument(name + file + ": LD_PRELOAD takes no name with a blank or a colon");
}

/// What --afl leaves to be said: all of it may lie in the peer's directory.
void join_afl(settings &made) {
  if (!std::filesystem::is_directory(made.afl))
    throw std::invalid_argument("--afl: " + made.afl + " is no directory");
  const std::string &peer = made.afl_peer;
  const bool plain = !peer.empty() && peer.size() <= 100 && peer.front() != '.' &&
                     std::all_of(peer.begin(), peer.end(), [](unsigned char c) {
                       return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
                     });
  if (!plain) throw std::invalid_argument("--afl-peer: \"" + peer + "\" is no plain name");
  if (made.campaign.empty()) made.campaign = made.afl + "/" + peer + "/campaign";
  if (made.corpus.empty()) made.corpus = made.campaign + "/corpus";
}

void check(const settings &made) {
  const std::pair<const char *, bool> missing[] = {{"--campaign", made.campaign.empty()},
                                                   {"--seeds", made.seeds.empty() && made.afl.empty()},
                                                   {"--corpus", made.corpus.empty()},
                                                   {"--target", made.target.empty()}};
  for (const auto &[name, is_missing] : missing)
    if (is_missing) throw std::invalid_argument(std::string(name) + ": missing");
  if (!made.seeds.empty() && !std::filesystem::is_directory(made.seeds))
    throw std::invalid_argument("--seeds: " + made.seeds + " is no directory");
  for (const std::string *kept : {&made.crashes, &made.hangs})
    if (*kept == made.corpus || *kept == made.seeds)
      throw std::invalid_argument(*kept + ": what crashes or hangs is no input");
  if (made.owner.size() > 255) throw std::invalid_argument("--owner: longer than 255 bytes");
}

}  // namespace

seconds settings::heartbeat_interval() const {
  return seconds(std::clamp(ttl.count() / 3, 0.1, 30.0));
}

std::string settings::symcc_inputs(const std::string &work) const {
  return campaign + "/.symcc/inputs/" + work;
}

settings parse_settings(const std::vector<std::string> &arguments) {
  settings made;
  using setter = std::function<void(const std::string &name, const std::string &text)>;
  const auto path = [](std::string &to) -> setter {
    return [&to](const auto &name, const auto &text) { to = whole_path(name, text); };
  };
  const auto time = [](seconds &to, double low, double high) -> setter {
    return [&to, low, high](const auto &name, const auto &text) {
      to = seconds(number(name, text, low, high));
    };
  };
  const auto command = [](std::vector<std::string> &to) -> setter {
    return [&to](const auto &name, const auto &text) {
      to = split_words(text);
      if (to.empty()) throw std::invalid_argument(name + ": empty");
    };
  };
  const std::map<std::string, setter> known{
      {"--campaign", path(made.campaign)},
      {"--seeds", path(made.seeds)},
      {"--corpus", path(made.corpus)},
      {"--afl", path(made.afl)},
      {"--afl-peer", [&](const auto &, const auto &text) { made.afl_peer = text; }},
      {"--crashes", path(made.crashes)},
      {"--hangs", path(made.hangs)},
      {"--target", command(made.target)},
      {"--solver", command(made.solver)},
      {"--solver-kind",
       [&](const auto &name, const auto &text) {
         made.kind = one_of<solver_kind>(
             name, text, {{"i2s", solver_kind::i2s}, {"symcc", solver_kind::symcc}});
       }},
      {"--symcc-adapter", path(made.symcc_adapter)},
      {"--jobs",
       [&](const auto &name, const auto &text) {
         made.jobs = number(name, text, 1U, 1024U);
       }},
      {"--time", time(made.time, 0, 1e9)},
      {"--ttl", time(made.ttl, 0.1, 86400)},
      {"--run-timeout", time(made.run_timeout, 0.01, 86400)},
      {"--target-timeout", time(made.target_timeout, 0.01, 86400)},
      {"--owner", [&](const auto &, const auto &text) { made.owner = text; }},
      {"--summary", path(made.summary)},
      {"--durability",
       [&](const auto &name, const auto &text) {
         made.durability = one_of<symlease::durability>(
             name, text,
             {{"power", symlease::durability::power}, {"process", symlease::durability::process}});
       }},
  };
  std::set<std::string> given;
  for (std::size_t at = 0; at < arguments.size(); at++) {
    const std::string &name = arguments[at];
    if (name == "--help") return made.help = true, made;
    if (!given.insert(name).second) throw std::invalid_argument(name + ": given twice");
    if (name == "--once") {
      made.once = true;
      continue;
    }
    const auto found = known.find(name);
    if (found == known.end()) throw std::invalid_argument(name + ": not known; see --help");
    if (++at == arguments.size()) throw std::invalid_argument(name + ": its value is missing");
    found->second(name, arguments[at]);
  }
  if (!made.afl.empty()) join_afl(made);
  else if (given.count("--afl-peer") != 0) throw std::invalid_argument("--afl-peer: needs --afl");
  const std::filesystem::path beside = std::filesystem::path(made.corpus).parent_path();
  if (made.crashes.empty()) made.crashes = (beside / "crashes").string();
  if (made.hangs.empty()) made.hangs = (beside / "hangs").string();
  check(made);
  if (!made.symcc_adapter.empty()) {
    check_adapter(made, given.count("--solver-kind") != 0 && made.kind != solver_kind::symcc);
    made.kind = solver_kind::symcc;
  }
  if (made.target_timeout.count() == 0)
    made.target_timeout = std::min(made.run_timeout, seconds(2));
  if (made.owner.empty()) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    made.owner = std::string(host).substr(0, 200) + ":" + std::to_string(getpid());
  }
  return made;
}

std::string usage() {
  return "symlease-coordinator --campaign DIR --seeds DIR --corpus DIR --target PROGRAM\n"
         "symlease-coordinator --afl OUT --target PROGRAM\n"
         "  --afl OUT              joins the afl-fuzz instances of OUT; PROGRAM as they run it\n"
         "  --afl-peer NAME        OUT/NAME is published to (symlease)\n"
         "  --solver 'COMMAND'     with @@ for the input, else it comes on stdin\n"
         "  --solver-kind KIND     i2s (default): lists targets, solves those it is given;\n"
         "                         symcc: any program that writes to SYMCC_OUTPUT_DIR\n"
         "  --symcc-adapter FILE   libsymlease-symcc.so, for a solver that SymCC built\n"
         "  --jobs N               runs at the same time (1)\n"
         "  --time S               end after so many seconds (0: on a signal)\n"
         "  --once                 end when no work is left anywhere\n"
         "  --ttl S                seconds a lease lives without a heartbeat (30)\n"
         "  --run-timeout S        of a solver's run (10)\n"
         "  --target-timeout S     of a target's run (2, at most the solver's)\n"
         "  --owner NAME           who this is in records (<host>:<pid>)\n"
         "  --crashes, --hangs DIR where those inputs go (beside the corpus)\n"
         "  --durability KIND      power (a new campaign's default) or process\n"
         "  --summary FILE         what was done, as JSON\n";
}

}  // namespace coordinator
