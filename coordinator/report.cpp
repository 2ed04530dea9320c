#include "report.hpp"

#include <unistd.h>

#include <cstdio>

#include "files.hpp"

namespace coordinator {
namespace {

constexpr const char *names[] = {
    "executions",     "solver_runs",  "claimed",       "completed",
    "dropped",        "taken_over",   "replayed",      "abandoned",
    "results_staged", "published",    "not_novel",     "already_there",
    "lost",           "crashes",      "hangs",         "held_answers",
    "done_answers",   "target_groups_claimed",         "target_groups_refused",
    "heartbeats_ok",  "heartbeats_failed",
    "afl_published",  "afl_bits",     "errors",
};
static_assert(sizeof names / sizeof *names == static_cast<std::size_t>(count::all));

std::string text(std::uint64_t number) { return std::to_string(number); }

std::string rounded(double number) {
  char made[64];
  std::snprintf(made, sizeof made, "%.3f", number);
  return made;
}

}  // namespace

report::report() : terminal_(isatty(STDERR_FILENO) == 1) {}

double report::elapsed() const {
  return std::chrono::duration<double>(clock::now() - started_).count();
}

void report::line(const std::string &words) {
  std::fprintf(stderr, "%s%s\n", live_shown_ ? "\r\033[K" : "", words.c_str());
  live_shown_ = false;
}

void report::say(const std::string &words) {
  const std::lock_guard<std::mutex> lock(guard_);
  line("symlease-coordinator: " + words);
}

void report::trouble(const std::string &words) {
  add(count::errors);
  const std::lock_guard<std::mutex> lock(guard_);
  const clock::time_point now = clock::now();
  if (words == last_trouble_ && now - last_trouble_at_ < std::chrono::seconds(10)) return;
  last_trouble_ = words;
  last_trouble_at_ = now;
  line("symlease-coordinator: ERROR: " + words);
}

void report::failed_input(const std::string &path) {
  const std::lock_guard<std::mutex> lock(guard_);
  failed_.insert(path);
}

void report::show_live(const symlease::campaign &campaign, std::size_t corpus) {
  const clock::time_point now = clock::now();
  const auto pause = terminal_ ? std::chrono::seconds(1) : std::chrono::seconds(10);
  if (now - last_live_ < pause) return;
  last_live_ = now;
  const auto totals = campaign.totals();
  const auto counts = campaign.counts(symlease::table::work);
  const auto counters = campaign.counters();
  std::string words = rounded(elapsed()) + " s, executions " + text(get(count::executions)) +
                      ", corpus " + text(corpus);
  if (totals) words += ", edges " + text(totals.value().edges);
  if (counts) {
    const symlease_counts &all = counts.value();
    words += ", leases held " + text(all.leased - all.expired) + ", expired " + text(all.expired);
  }
  words += ", stale " + text(get(count::dropped)) + ", heartbeats failed " +
           text(get(count::heartbeats_failed));
  if (counters) words += ", lock waits " + text(counters.value().contended);
  if (get(count::errors) != 0) words += ", ERRORS " + text(get(count::errors));
  const std::lock_guard<std::mutex> lock(guard_);
  if (!terminal_) return line(words);
  std::fprintf(stderr, "\r\033[K%s", words.c_str());
  live_shown_ = true;
}

std::string report::summary(const symlease::campaign &campaign, const std::string &owner) {
  std::string made = "{\"owner\":" + quoted(owner);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count::all); i++)
    made += ",\"" + std::string(names[i]) + "\":" + text(counts_[i].load());
  const auto counters = campaign.counters();
  const auto totals = campaign.totals();
  // What could not be read is null, not 0.
  made += ",\"lock_waits\":" + (counters ? text(counters.value().contended) : "null");
  made += ",\"lock_wait_ms\":" +
          (counters ? rounded(static_cast<double>(counters.value().wait_ns) / 1e6) : "null");
  made += ",\"edges\":" + (totals ? text(totals.value().edges) : "null");
  made += ",\"bits\":" + (totals ? text(totals.value().bits) : "null");
  made += ",\"seconds\":" + rounded(elapsed()) + ",\"failed_inputs\":[";
  const std::lock_guard<std::mutex> lock(guard_);
  for (const std::string &each : failed_)
    made += (each == *failed_.begin() ? "" : ",") + quoted(each);
  return made + "]}\n";
}

}  // namespace coordinator
