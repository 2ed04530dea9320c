// symlease.hpp: owners, values, answers, and what callbacks throw.
// Argument: an empty directory.
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
     CHECK(record.life() == s::life::expired && record.remaining() < s::seconds(0));
     expired++;
   }).value();
  CHECK(expired == 2);
}

}  // namespace

int main(int count, char **arguments) {
  CHECK(count == 2);
  work(arguments[1]);
  groups(arguments[1]);
  throwing(arguments[1]);
  owners(arguments[1]);
  return 0;
}
