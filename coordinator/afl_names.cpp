#include "afl_names.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace coordinator {
namespace {

constexpr std::string_view digest_mark = ",sha256:";
constexpr std::size_t digest_length = 64;

bool begins(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

/// The comma-separated parts of a name.
std::vector<std::string_view> parts(std::string_view name) {
  std::vector<std::string_view> made;
  for (std::size_t from = 0; from <= name.size();) {
    const std::size_t to = std::min(name.find(',', from), name.size());
    made.push_back(name.substr(from, to - from));
    from = to + 1;
  }
  return made;
}

std::string_view stripped(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view digest_of(std::string_view name) {
  const std::size_t at = name.find(digest_mark);
  if (at == std::string_view::npos) return "";
  const std::string_view digest = name.substr(at + digest_mark.size(), digest_length);
  const bool whole = digest.size() == digest_length &&
                     digest.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  return whole ? digest : "";
}

/// afl-fuzz's options that take a value, when it stands in the next word.
constexpr std::string_view with_value = "bBcEeFfgGhIiLlmMoprsSTtV";

}  // namespace

std::optional<afl_name> parse_afl_name(std::string_view name) {
  const std::vector<std::string_view> all = parts(name);
  if (!begins(all[0], "id:")) return std::nullopt;
  const std::string_view digits = all[0].substr(3);
  afl_name made;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), made.id);
  // AFL++ writes six digits, and more only where six do not do.
  if (error != std::errc() || end != digits.data() + digits.size() || digits.size() < 6)
    return std::nullopt;
  for (const std::string_view each : all) {
    if (each == "+cov") made.new_coverage = true;
    if (begins(each, "orig:")) made.original = true;
  }
  return made;
}

std::string published_name(std::uint32_t id, std::string_view digest, std::string_view more) {
  char number[32];
  std::snprintf(number, sizeof number, "id:%06u", static_cast<unsigned>(id));
  return number + std::string(digest_mark) + std::string(digest) + std::string(more);
}

afl_published judge_published(const std::vector<std::string> &names) {
  afl_published made;
  std::vector<std::uint32_t> ids;
  for (const std::string &each : names) {
    const auto name = parse_afl_name(each);
    const std::string_view digest = digest_of(each);
    if (!name || digest.empty()) {
      made.strange.push_back(each);
      continue;
    }
    ids.push_back(name->id);
    made.digests.emplace(digest);
  }
  std::sort(ids.begin(), ids.end());
  for (std::size_t at = 0; at < ids.size() && !made.gap; at++)
    if (ids[at] != at) made.gap = static_cast<std::uint32_t>(at);
  // AFL++ has counted past the missing one: it is never filled.
  if (!ids.empty()) made.next = ids.back() + 1;
  return made;
}

std::map<std::string, std::string> parse_afl_stats(std::string_view text) {
  std::map<std::string, std::string> made;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos)
      made.emplace(stripped(line.substr(0, colon)), stripped(line.substr(colon + 1)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return made;
}

std::optional<std::string> afl_target(const std::string &command_line) {
  std::vector<std::string> words;
  // Quotes in it are the target's own: AFL++ joins words by blanks and nothing else.
  for (std::size_t from = 0; from < command_line.size();) {
    const std::size_t to = std::min(command_line.find(' ', from), command_line.size());
    if (to > from) words.push_back(command_line.substr(from, to - from));
    from = to + 1;
  }
  for (std::size_t at = 1; at < words.size(); at++) {
    if (words[at] == "--") return at + 1 < words.size() ? std::optional(words[at + 1]) : std::nullopt;
    if (words[at].size() < 2 || words[at][0] != '-') return words[at];
    if (words[at].size() == 2 && with_value.find(words[at][1]) != std::string_view::npos) at++;
  }
  return std::nullopt;
}

bool afl_is_main(const std::string &command_line) {
  const std::string options = command_line.substr(0, command_line.find(" -- "));
  return options.find(" -M") != std::string::npos;
}

showmap_end parse_showmap(std::string_view said, int &signal) {
  constexpr std::string_view mark = "-- Program output ends --";
  const std::size_t at = said.rfind(mark);
  if (at == std::string_view::npos) return showmap_end::unknown;
  said.remove_prefix(at + mark.size());
  if (said.find("+++ Program timed off +++") != std::string_view::npos) return showmap_end::hung;
  constexpr std::string_view killed = "+++ Program killed by signal ";
  const std::size_t by = said.find(killed);
  if (by != std::string_view::npos) {
    const std::string_view number = said.substr(by + killed.size());
    std::from_chars(number.data(), number.data() + number.size(), signal);
    return showmap_end::crashed;
  }
  return said.find("Captured ") != std::string_view::npos ? showmap_end::ran : showmap_end::unknown;
}

std::uint64_t afl_map_bytes(std::uint64_t size) { return (size + 63) / 64 * 64; }

}  // namespace coordinator
