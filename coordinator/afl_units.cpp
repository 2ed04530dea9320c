// The parts that decide without looking: names, priorities, ids, AFL++'s words.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "afl_names.hpp"

namespace {

int failures = 0;

void check(bool holds, const char *what, int line) {
  if (holds) return;
  failures++;
  std::fprintf(stderr, "afl_units.cpp:%d: %s\n", line, what);
}
#define CHECK(what) check((what), #what, __LINE__)

using namespace coordinator;

void names() {
  const auto found = parse_afl_name("id:000002,src:000000,time:17,execs:21,op:havoc,rep:16,+cov");
  CHECK(found && found->id == 2 && found->new_coverage && !found->original);
  const auto seed = parse_afl_name("id:000000,time:0,execs:0,orig:a,+covered");
  CHECK(seed && seed->id == 0 && seed->original && !seed->new_coverage);
  CHECK(parse_afl_name("id:1234567,sync:main,src:000003")->id == 1234567);
  CHECK(!parse_afl_name("id:000003,op:x")->new_coverage);
  for (const char *none : {"", "README.txt", ".state", "id:", "id:12", "id:-00001", "id:00001x,orig:a",
                           "id:99999999999", "xid:000001", " id:000001"})
    CHECK(!parse_afl_name(none));
}

void priorities() {
  // As one would list them by hand.
  const std::vector<afl_priority> wanted{{true, true, 9},  {true, false, 1},  {true, false, 5},
                                         {false, true, 7}, {false, false, 1}, {false, false, 2}};
  std::vector<afl_priority> mixed{wanted.rbegin(), wanted.rend()};
  std::swap(mixed[1], mixed[4]);
  std::sort(mixed.begin(), mixed.end(),
            [](const afl_priority &a, const afl_priority &b) { return a.before(b); });
  for (std::size_t i = 0; i < wanted.size(); i++)
    CHECK(!wanted[i].before(mixed[i]) && !mixed[i].before(wanted[i]));
  CHECK(!wanted[0].before(wanted[0]));
}

void ids() {
  const std::string a(64, 'a'), b(64, 'b');
  CHECK(published_name(7, a, ",+cov") == "id:000007,sha256:" + a + ",+cov");
  CHECK(published_name(1234567, a, "") == "id:1234567,sha256:" + a);
  CHECK(judge_published({}).next == 0 && !judge_published({}).gap);
  auto there = judge_published({published_name(1, b, ""), published_name(0, a, ",+cov")});
  CHECK(there.next == 2 && !there.gap && there.strange.empty());
  CHECK(there.digests == (std::set<std::string>{a, b}));
  there = judge_published({published_name(0, a, ""), published_name(2, b, "")});
  CHECK(there.next == 3 && there.gap == 1);
  there = judge_published({published_name(0, a, ""), published_name(0, b, "")});
  CHECK(there.next == 1 && there.gap == 1);
  there = judge_published({"id:000000,orig:seed", ".state", "id:000001,sha256:" + a.substr(1)});
  CHECK(there.next == 0 && there.strange.size() == 3 && there.digests.empty());
  // Names survive the way back: the next id follows from them.
  std::vector<std::string> all;
  for (std::uint32_t id = 0; id < 300; id++) {
    CHECK(judge_published(all).next == id);
    all.push_back(published_name(id, std::string(60, 'c') + std::to_string(1000 + id), ",+cov"));
  }
  CHECK(!judge_published(all).gap && judge_published(all).digests.size() == 300);
}

void statistics() {
  const auto read = parse_afl_stats("start_time        : 17\nafl_banner : a:b\n\nbroken\nlast : x");
  CHECK(read.at("start_time") == "17" && read.at("afl_banner") == "a:b" && read.at("last") == "x");
  CHECK(read.size() == 3);
  CHECK(afl_target("afl-fuzz -i in -o out -M main -V 8 -- ./t @@") == "./t");
  CHECK(afl_target("afl-fuzz -iin -o out -S s ./t -x @@") == "./t");
  CHECK(afl_target("afl-fuzz -D -i in -o out -p fast -- ./t -- y") == "./t");
  CHECK(!afl_target("afl-fuzz -i in -o out --") && !afl_target("afl-fuzz") && !afl_target(""));
  CHECK(afl_is_main("afl-fuzz -i in -o out -M main -- ./t -S x"));
  CHECK(!afl_is_main("afl-fuzz -i in -o out -S s -- ./t -M main"));
}

void showmap() {
  int signal = 0;
  const std::string ends = "-- Program output ends --\n";
  CHECK(parse_showmap(ends + "Captured 6 tuples", signal) == showmap_end::ran);
  CHECK(parse_showmap(ends + "+++ Program timed off +++\nCaptured 5 tuples", signal) ==
        showmap_end::hung);
  CHECK(parse_showmap(ends + "+++ Program killed by signal 11 +++\nCaptured 1", signal) ==
            showmap_end::crashed && signal == 11);
  // What the target itself prints decides nothing.
  CHECK(parse_showmap("+++ Program killed by signal 6 +++\n" + ends + "Captured 6", signal) ==
        showmap_end::ran);
  CHECK(parse_showmap("-- Program output ends --\n+++ Program timed off +++\n" + ends + "Captured 6",
                      signal) == showmap_end::ran);
  CHECK(parse_showmap("PROGRAM ABORT : no instrumentation", signal) == showmap_end::unknown);
  CHECK(parse_showmap("", signal) == showmap_end::unknown);
  CHECK(afl_map_bytes(20) == 64 && afl_map_bytes(64) == 64 && afl_map_bytes(65) == 128);
}

}  // namespace

int main() {
  names();
  priorities();
  ids();
  statistics();
  showmap();
  return failures == 0 ? 0 : 1;
}
