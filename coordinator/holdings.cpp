#include "holdings.hpp"

#include <exception>
#include <system_error>
#include <vector>

#include "files.hpp"

namespace coordinator {

holdings::holdings(const symlease::campaign &campaign, report &says, seconds interval)
    : campaign_(campaign), says_(says), interval_(interval) {
  try {
    thread_ = std::thread([this] { renew_for_ever(); });
  } catch (const std::system_error &error) {
    fail(error.code().value(), "start the thread that renews leases");
  }
}

holdings::~holdings() {
  {
    const std::lock_guard<std::mutex> lock(guard_);
    ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void holdings::add(const symlease::lease &held) {
  const std::lock_guard<std::mutex> lock(guard_);
  leases_.insert_or_assign(std::string(held.token()), held);
}

void holdings::add(const symlease::group &held) {
  const std::lock_guard<std::mutex> lock(guard_);
  groups_.insert_or_assign(std::string(held.token()), held);
}

void holdings::remove(const symlease::lease &held) {
  const std::lock_guard<std::mutex> lock(guard_);
  leases_.erase(std::string(held.token()));
}

void holdings::remove(const symlease::group &held) {
  const std::lock_guard<std::mutex> lock(guard_);
  groups_.erase(std::string(held.token()));
}

void holdings::renew_for_ever() {
  std::unique_lock<std::mutex> lock(guard_);
  while (!wake_.wait_for(lock, interval_, [this] { return ending_; })) {
    lock.unlock();
    try {
      renew();
    } catch (const std::exception &error) {
      says_.trouble(std::string("heartbeats: ") + error.what());
    }
    lock.lock();
  }
}

void holdings::renew() {
  std::vector<symlease::lease> leases;
  std::vector<symlease::group> groups;
  {
    const std::lock_guard<std::mutex> lock(guard_);
    for (const auto &each : leases_) leases.push_back(each.second);
    for (const auto &each : groups_) groups.push_back(each.second);
  }
  const auto owner = campaign_.coverage_heartbeat();
  if (!owner) says_.trouble("coverage heartbeat: " + owner.words());
  if (leases.empty() && groups.empty()) return;
  const auto beats = campaign_.heartbeat_all(leases, groups);
  if (!beats) {
    says_.add(count::heartbeats_failed, leases.size() + groups.size());
    says_.trouble("heartbeats: " + beats.words());
    return;
  }
  // What was given back, or whose commit goes on or is done meanwhile, did not fail.
  const std::lock_guard<std::mutex> lock(guard_);
  const auto judge = [&](const auto &held, const auto &all, symlease::status code) {
    if (code == symlease::status::ok) return says_.add(count::heartbeats_ok);
    if (code == symlease::status::committing || code == symlease::status::already) return;
    if (all.count(std::string(held.token())) == 0) return;
    says_.add(count::heartbeats_failed);
  };
  for (std::size_t i = 0; i < leases.size(); i++)
    judge(leases[i], leases_, beats.value().leases[i]);
  for (std::size_t i = 0; i < groups.size(); i++)
    judge(groups[i], groups_, beats.value().groups[i]);
}

}  // namespace coordinator
