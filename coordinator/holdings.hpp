// Everything this process holds, and the thread that renews it.
#ifndef COORDINATOR_HOLDINGS_HPP
#define COORDINATOR_HOLDINGS_HPP

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "process.hpp"
#include "report.hpp"
#include "symlease.hpp"

namespace coordinator {

/// A lease or a group is renewed from its claim to its end, dispatched or not.
/// A heartbeat that fails is counted and nothing else: whether a lease is lost
/// is decided when its commit begins.
class holdings {
 public:
  holdings(const symlease::campaign &campaign, report &says, seconds interval);
  ~holdings();
  holdings(const holdings &) = delete;
  holdings &operator=(const holdings &) = delete;

  void add(const symlease::lease &held);
  void add(const symlease::group &held);
  void remove(const symlease::lease &held);
  void remove(const symlease::group &held);

 private:
  void renew_for_ever();
  void renew();

  const symlease::campaign &campaign_;
  report &says_;
  seconds interval_;
  std::mutex guard_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::map<std::string, symlease::lease> leases_;  // by token
  std::map<std::string, symlease::group> groups_;
  std::thread thread_;
};

}  // namespace coordinator

#endif
