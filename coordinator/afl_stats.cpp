// fuzzer_stats and plot_data of a sync peer, as afl-whatsup and afl-plot read them.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <map>

#include "afl_names.hpp"
#include "afl_peer.hpp"

namespace coordinator {
namespace {

constexpr const char *plot_head =
    "# relative_time, cycles_done, cur_item, corpus_count, pending_total, pending_favs, map_size, "
    "saved_crashes, saved_hangs, max_depth, execs_per_sec, total_execs, edges_found\n";

std::string percent(std::uint64_t part, std::uint64_t whole) {
  char made[32];
  const double share = whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  std::snprintf(made, sizeof made, "%.2f%%", share);
  return made;
}

std::string rate(std::uint64_t number, std::uint64_t over) {
  char made[32];
  std::snprintf(made, sizeof made, "%.2f",
                static_cast<double>(number) / static_cast<double>(std::max<std::uint64_t>(over, 1)));
  return made;
}

/// What all coordinators of this peer did together.
using totals = std::map<std::string, std::uint64_t>;

totals read_totals(const std::string &path) {
  totals made;
  try {
    for (const auto &[key, value] : parse_afl_stats(read_file(path)))
      made[key] = std::strtoull(value.c_str(), nullptr, 10);
  } catch (const std::system_error &error) {
    if (error.code() != std::errc::no_such_file_or_directory) throw;
  }
  return made;
}

std::string as_text(const totals &all) {
  std::string text;
  for (const auto &[key, value] : all) text += key + " : " + std::to_string(value) + "\n";
  return text;
}

}  // namespace

/// One line; a death may have cut the last one.
void afl_peer::write_plot(const std::string &line) {
  const std::string path = path_ + "/plot_data";
  const descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file) fail(errno, "open " + path);
  struct stat about {};
  if (fstat(file.get(), &about) != 0) fail(errno, "look at " + path);
  std::string text = about.st_size == 0 ? plot_head : "";
  char last = '\n';
  if (about.st_size != 0 && pread(file.get(), &last, 1, about.st_size - 1) != 1)
    fail(errno, "read " + path);
  if (last != '\n') text += '\n';
  text += line + "\n";
  if (write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    fail(errno, "write " + path);
}

void afl_peer::write_stats(const afl_progress &progress, std::uint64_t found[3]) {
  const auto now = static_cast<std::uint64_t>(std::time(nullptr));
  totals all = read_totals(own_ + "/totals");
  if (all["start_time"] == 0 || all["start_time"] > now) all["start_time"] = now;
  all["execs_done"] += progress.executions - told_executions_;
  const char *last[] = {"last_find", "last_crash", "last_hang"};
  for (int i = 0; i < 3; i++)
    if (found[i] != 0 || all[last[i]] == 0) all[last[i]] = found[i] != 0 ? now : 0;
  replace(own_ + "/totals", as_text(all), false);
  told_executions_ = progress.executions;
  const std::uint64_t run_time = now - all["start_time"];
  // afl-whatsup divides by these two.
  const std::uint64_t executions = std::max<std::uint64_t>(all["execs_done"], 1);
  const std::uint64_t inputs = std::max<std::uint64_t>(progress.inputs, 1);
  const std::uint64_t done = progress.inputs - std::min(progress.open, progress.inputs);
  const std::string speed = rate(executions, run_time), cover = percent(progress.edges, progress.map_size);
  const auto text = [](auto number) { return std::to_string(number); };
  const std::pair<const char *, std::string> lines[] = {
      {"start_time", text(all["start_time"])}, {"last_update", text(now)},
      {"run_time", text(run_time)}, {"fuzzer_pid", text(getpid())}, {"cycles_done", "0"},
      {"cycles_wo_finds", "0"}, {"execs_done", text(executions)}, {"execs_per_sec", speed},
      {"corpus_count", text(inputs)}, {"corpus_favored", "0"},
      {"corpus_found", text(folders_[0].digests.size())}, {"corpus_imported", text(progress.imported)},
      {"max_depth", "1"}, {"cur_item", text(done)}, {"pending_favs", "0"},
      {"pending_total", text(progress.open)}, {"bitmap_cvg", cover},
      {"saved_crashes", text(folders_[1].digests.size())},
      {"saved_hangs", text(folders_[2].digests.size())}, {"last_find", text(all["last_find"])},
      {"last_crash", text(all["last_crash"])}, {"last_hang", text(all["last_hang"])},
      {"exec_timeout", text(static_cast<std::uint64_t>(chosen_.target_timeout.count() * 1000))},
      {"edges_found", text(progress.edges)}, {"total_edges", text(progress.map_size)},
      {"afl_banner", chosen_.afl_peer}, {"afl_version", "symlease-coordinator"},
      {"target_mode", "solver"}, {"command_line", "symlease-coordinator --afl " + chosen_.afl}};
  std::string whole;
  for (const auto &[key, value] : lines) {
    char line[32];
    std::snprintf(line, sizeof line, "%-18s: ", key);
    whole += line + value + "\n";
  }
  replace(path_ + "/fuzzer_stats", whole, false);
  const auto at = clock::now();
  stats_at_ = at;
  const std::string plot = "0, " + text(done) + ", " + text(inputs) + ", " + text(progress.open) + ", 0, " + cover +
                           ", " + text(folders_[1].digests.size()) + ", " +
                           text(folders_[2].digests.size()) + ", 1, ";
  // As AFL++: when something changed, at most every five seconds; else now and then.
  const auto since = plot_at_ ? at - *plot_at_ : std::chrono::hours(1);
  if (since < std::chrono::seconds(5) || (plot == last_plot_ && since < std::chrono::minutes(1))) return;
  write_plot(text(run_time) + ", " + plot + speed + ", " + text(executions) + ", " + text(progress.edges));
  last_plot_ = plot;
  plot_at_ = at;
}

}  // namespace coordinator
