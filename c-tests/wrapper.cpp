// symlease.hpp: owners, values, answers, and what callbacks throw.
// Argument: an empty directory.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "check.h"
#include "symlease.hpp"

namespace s = symlease;

static_assert(!std::is_copy_constructible_v<s::campaign>);
static_assert(std::is_nothrow_move_constructible_v<s::campaign>);
static_assert(std::is_trivially_copyable_v<s::lease> && std::is_trivially_copyable_v<s::group>);

namespace {

double now = 1786060800.25;
bool broken_clock = false;

double test_clock() {
  if (broken_clock) throw std::runtime_error("clock");
  return now;
}

s::campaign open_as(const char *root, const char *owner) {
  s::options settings;
  settings.owner = owner;
  settings.work_ttl = s::seconds(10);
  settings.durability = s::durability::process;
  settings.clock = test_clock;
  return s::campaign::open(root, settings).value();
}

void work(const char *root) {
  s::campaign a = open_as(root, "a"), b = open_as(root, "b");
  const std::string id = s::work_id_json("{\"b\":2,\"a\":1}").value();
  CHECK(id == "43258cff783fe7036d8a43033f830adfc60ec037382473548ac742b888292777");
  s::lease mine = a.claim(id, "{\"a\":1}").value();
  CHECK(mine.id() == id && mine.attempts() == 1 && mine.ttl() == s::seconds(10));
  auto refused = b.claim(id);
  CHECK(refused.is(s::status::held) && !refused && !refused.maybe());
  CHECK(refused.held_by() && refused.held_by()->owner == "a");
  CHECK(refused.held_by()->remaining == s::seconds(10));
  CHECK(refused.answered() == s::status::held);
  CHECK(refused.words().find(id) != std::string::npos);
  bool thrown = false;
  try {
    s::lease never = b.claim(id).value();
    CHECK(never.id().empty());
  } catch (const s::error &error) {
    thrown = error.code() == s::status::held && std::string(error.what()) == refused.words();
  }
  CHECK(thrown);
  auto by_token = s::lease::of(mine.id(), mine.token());
  CHECK(by_token && a.heartbeat(*by_token).ok() && by_token->fence() == mine.fence());
  CHECK(!s::lease::of(std::string(65, 'a'), "t"));
  s::claim_options take;
  take.takeover = true;
  take.new_ttl = s::seconds(20);
  const s::lease theirs = b.claim(id, {}, take).value();
  CHECK(theirs.fence() > mine.fence() && theirs.steals() == 1 && theirs.ttl() == s::seconds(20));
  CHECK(a.verify(mine).is(s::status::stale) && a.abandon(mine).is(s::status::stale));
  b.begin_commit(theirs, "{}").value();
  CHECK(b.begin_commit(theirs, "{\"x\":1}").is(s::status::conflict));
  int commits = 0;
  b.list_commits([&](const s::record &record) {
     CHECK(record.manifest() == "{}" && record.state() == s::state::committing);
     commits++;
   }).value();
  CHECK(commits == 1);
  b.complete(theirs).value();
  CHECK(b.complete(theirs).is(s::status::already));
  CHECK(s::name(s::status::already) == "SYMLEASE_ALREADY" && s::abi_matches());
  CHECK(!s::version().empty());
}

void groups(const char *root) {
  s::campaign a = open_as(root, "a"), b = open_as(root, "b");
  s::group mine = a.claim_group({7, 5, 7, 0}).value();
  CHECK(std::vector<std::uint64_t>(mine.begin(), mine.end()) ==
        (std::vector<std::uint64_t>{7, 5}));
  auto refused = b.claim_group({9, 5});
  CHECK(refused.is(s::status::held) && refused.held_by()->target == 5);
  CHECK(b.claim_group({}).is(s::status::invalid));
  CHECK(b.claim_group(std::vector<std::uint64_t>(1, 0)).is(s::status::invalid)); /* F32 */
  std::vector<s::lease> leases{s::lease(), a.claim(s::work_id("batch").value()).value()};
  std::vector<s::group> held{mine};
  now += 1;
  const s::beats beats = a.heartbeat_all(leases, held).value();
  CHECK(beats.leases[0] == s::status::invalid && beats.leases[1] == s::status::ok);
  CHECK(beats.groups[0] == s::status::ok && held[0].updated() == now);
  CHECK(beats.stats.work_ok == 1 && beats.stats.work_failed == 1 && beats.stats.target_ok == 1);
  CHECK(a.heartbeat_many(leases).value()[1] == s::status::ok);
  std::vector<s::lease> none;
  CHECK(a.heartbeat_many(none).value().empty());
  const auto again = s::group::of({5, 7}, mine.token());
  CHECK(again && a.release(*again).ok() && a.verify(mine).is(s::status::stale));
}

void throwing(const char *root) {
  s::campaign a = open_as(root, "a");
  int shown = 0;
  auto look = [&](const s::record &) -> s::visit {
    return ++shown == 1 ? s::visit::stop : s::visit::go_on;
  };
  a.scan(s::table::work, s::state::all, look).value();
  CHECK(shown == 1);
  bool caught = false;
  try {
    a.scan(s::table::work, s::state::leased | s::state::done, [&](const s::record &record) {
       CHECK(record.id() && record.json()); /* a visitor may call: */
       const std::string whole = a.read_record(s::table::work, *record.id()).value();
       CHECK(whole.find(*record.json()) == 0); /* then a newline, as in the file */
       throw std::runtime_error("visitor");
     }).value();
  } catch (const std::runtime_error &error) {
    caught = std::string(error.what()) == "visitor";
  }
  CHECK(caught);
  caught = false;
  broken_clock = true;
  try {
    CHECK(a.claim(s::work_id("clock").value()).ok());
  } catch (const std::runtime_error &error) {
    caught = std::string(error.what()) == "clock";
  }
  broken_clock = false;
  CHECK(caught);
  CHECK(a.read_record(s::table::work, s::work_id("clock").value()).is(s::status::absent));
  CHECK(a.claim(s::work_id("clock").value()).ok());
}

void owners(const char *root) {
  s::campaign a = open_as(root, "a");
  s::campaign b = std::move(a);
  CHECK(!a && b); /* NOLINT: a moved-from campaign is closed */
  CHECK(a.counts(s::table::work).is(s::status::invalid));
  CHECK(b.counts(s::table::work).value().done == 1);
  CHECK(b.counters().value().indeterminate == 0);
  b = open_as(root, "c");
  CHECK(b.counts(s::table::work).ok());
  b.close();
  CHECK(!b && b.counters().is(s::status::invalid));
  const std::string nul("x\0y", 3);
  const s::campaign c = open_as(root, "c");
  CHECK(c.claim(nul).words().find("id") == 0);
  CHECK(c.claim(s::work_id("n").value(), nul).is(s::status::invalid));
  CHECK(s::campaign::open(nul).is(s::status::invalid));
  s::options wrong;
  wrong.work_ttl = s::seconds(-1);
  CHECK(s::campaign::open(root, wrong).is(s::status::invalid));
  int expired = 0;
  now += 100;
  c.list_expired([&](const s::record &record) {
     /* D1: their campaigns are closed */
     CHECK(record.life() == s::life::dead && record.holder() == s::holder_life::dead);
     CHECK(record.remaining() < s::seconds(0));
     expired++;
   }).value();
  CHECK(expired == 2);
}

void coverage(const std::string &root) {
  s::options settings;
  settings.map_identity = "build";
  settings.coverage_shards = 8;
  const std::string place = root + "/coverage";
  const s::campaign a = s::campaign::open(place, settings).value();
  CHECK(a.map_info().is(s::status::absent));
  const std::vector<std::uint8_t> counts{0, 5, 0, 1};
  CHECK(s::classify(counts).value() == (std::vector<std::uint8_t>{0, 8, 0, 1}));
  CHECK(a.merge_counts(counts).value() == 2 && a.merge(counts).value() == 2);
  CHECK(a.merge(std::vector<std::uint8_t>(5)).is(s::status::mismatch));
  CHECK(a.merge_sparse({{0, 1}, {0, 2}}).value() == 2 && a.known({{0, 3}, {2, 1}}).value() == 1);
  const std::vector<std::uint8_t> one{0, 0, 1, 0}, two{0, 0, 3, 0};
  CHECK(a.merge_many({one, two}).value() == (std::vector<std::uint64_t>{1, 1}));
  std::uint64_t seen = 0;
  const auto add = [&](std::size_t candidate, s::edge_range edges) {
    CHECK(candidate == 1 && edges.size() == 1);
    for (const s::edge &each : edges) seen += each.bits;
  };
  CHECK(a.merge_sparse_many({{{2, 3}}, {{2, 7}}}, add).value()[1] == 1 && seen == 4);
  CHECK(a.merge_sparse_many({{{2, 8}}, {}}).value() == (std::vector<std::uint64_t>{1, 0}));
  bool caught = false;
  try {
    CHECK(a.pull_sparse([](std::size_t, s::edge_range) { throw std::runtime_error("pull"); }).ok());
  } catch (const std::runtime_error &error) {
    caught = std::string(error.what()) == "pull";
  }
  CHECK(caught);
  const s::totals totals = a.totals().value();
  std::vector<std::uint8_t> map(4);
  CHECK(a.pull(map).value() == totals.bits && totals.edges == 4);
  CHECK(map == (std::vector<std::uint8_t>{3, 13, 15, 1}));
  CHECK(a.pull_sparse([](std::size_t, s::edge_range) {}).value() == 0);
  CHECK(a.map_info().value().bytes == 4 && a.map_info().value().identity == "build");
  a.coverage_heartbeat().value();
  CHECK(a.coverage_owner(3).value().index == 0 && a.coverage_owner(8).is(s::status::invalid));
  CHECK(setenv("SYMCC_COVERAGE_OWNER_DIR", (place + "/.coverage_owner").c_str(), 1) == 0);
  const s::campaign env = s::campaign::open_env().value();
  CHECK(env.totals().value().bits == totals.bits);
  CHECK(env.claim(s::work_id("x").value()).is(s::status::invalid)); /* no such directory named */
}

void put(const std::string &path, const char *text) {
  FILE *file = fopen(path.c_str(), "w");
  CHECK(file != nullptr && fputs(text, file) >= 0 && fclose(file) == 0);
}

void commits(const std::string &root) {
  const std::string place = root + "/commits", corpus = place + "/corpus";
  const s::campaign a = open_as(place.c_str(), "a");
  const s::lease mine = a.claim(s::work_id("commit").value()).value();
  std::vector<s::offer> found;
  for (const char *each : {"one", "two", "three"}) {
    const std::string path = place + "/" + each;
    put(path, each);
    found.emplace_back(path);
  }
  found[0].edges({{1, 1}}).name("first");
  found[1].map({0, 1});
  found[2].edges({{1, 1}}).corpus(place + "/crashes").keep();
  CHECK(a.commit(mine, std::string("x\0y", 3), found).is(s::status::invalid));
  found.emplace_back(place + "/four").name(std::string("x\0y", 3));
  CHECK(a.commit(mine, corpus, found).words().find("results[].name") == 0);
  found.pop_back();
  const std::vector<s::committed> done = a.commit(mine, corpus, found).value();
  CHECK(done.size() == 3 && done[0].fate == s::fate::published && done[0].novel_bits == 1);
  CHECK(done[1].fate == s::fate::not_novel && done[1].code == s::status::ok);
  CHECK(done[2].fate == s::fate::published && done[2].digest.size() == 64);
  CHECK(a.commit(mine, corpus, {}).is(s::status::done));
  CHECK(a.replay_commits(corpus).ok() && a.replay_commits(corpus).completed() == 0);

  const s::lease own = a.claim(s::work_id("own").value()).value();
  const auto yes = [](const s::record &record) { return record.manifest() == "{\"m\":1}"; };
  const auto no = [](const s::record &) { return false; };
  CHECK(a.replay(own.id(), own.token(), yes).is(s::status::conflict));
  a.begin_commit(own, "{\"m\":1}").value();
  CHECK(a.replay(own.id(), own.token(), no).is(s::status::callback));
  CHECK(a.replay(own.id(), own.token(), yes).ok());
  CHECK(a.replay(own.id(), own.token(), yes).is(s::status::already));
}

}  // namespace

int main(int count, char **arguments) {
  CHECK(count == 2);
  work(arguments[1]);
  groups(arguments[1]);
  throwing(arguments[1]);
  owners(arguments[1]);
  coverage(arguments[1]);
  commits(arguments[1]);
  return 0;
}
