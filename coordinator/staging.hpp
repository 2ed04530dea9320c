// <campaign>/staging/<owner>-<pid>: what this process works on.
#ifndef COORDINATOR_STAGING_HPP
#define COORDINATOR_STAGING_HPP

#include <string>

#include "files.hpp"
#include "report.hpp"
#include "symlease.hpp"

namespace coordinator {

/// The staging directory of this process. It holds a lock on its file .alive as
/// long as it lives, so that nobody takes it for a dead one's.
class staging {
 public:
  staging(const std::string &campaign, const std::string &owner);
  ~staging();  ///< removes what no commit needs
  staging(const staging &) = delete;
  staging &operator=(const staging &) = delete;

  [[nodiscard]] const std::string &path() const noexcept { return path_; }
  /// Removes what dead coordinators of this host left, but what a committing
  /// record names: that is the results themselves.
  void clean(const symlease::campaign &campaign, report &says) const;

 private:
  void clean_one(const std::string &directory, const std::string &manifests) const;

  std::string root_, path_;
  descriptor alive_;
};

}  // namespace coordinator

#endif
