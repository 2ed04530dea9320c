#include "staging.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace coordinator {
namespace {

namespace fs = std::filesystem;

std::string host() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

/// An owner as part of a file name, so plain that JSON leaves it as it is.
std::string plain(const std::string &owner) {
  std::string made = owner.substr(0, 100);
  for (char &each : made) {
    const bool fine = (each >= '0' && each <= '9') || (each >= 'a' && each <= 'z') ||
                      (each >= 'A' && each <= 'Z') || each == '.' || each == '_' || each == '-';
    if (!fine) each = '_';
  }
  return made;
}

/// The process behind <owner>-<pid>; 0: none.
pid_t process_of(const std::string &name) {
  const std::size_t dash = name.rfind('-');
  if (dash == std::string::npos) return 0;
  char *end = nullptr;
  const long pid = std::strtol(name.c_str() + dash + 1, &end, 10);
  return *end == '\0' && pid > 0 ? static_cast<pid_t>(pid) : 0;
}

}  // namespace

staging::staging(const std::string &campaign, const std::string &owner)
    : root_(campaign + "/staging") {
  path_ = root_ + "/" + plain(owner) + "-" + std::to_string(getpid());
  make_directories(path_);
  // An older process of this number may have left results that a replay needs:
  // directories of work are made empty when the work is claimed, not here.
  const std::string file = path_ + "/.alive";
  alive_ = descriptor(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!alive_) fail(errno, "create " + file);
  if (flock(alive_.get(), LOCK_EX | LOCK_NB) != 0)
    fail(errno, "lock " + file + (errno == EWOULDBLOCK ? ": another one of this name is alive "
                                                         "(give each its own --owner)" : ""));
  const std::string name = host();
  if (ftruncate(alive_.get(), 0) != 0 ||
      write(alive_.get(), name.data(), name.size()) != static_cast<ssize_t>(name.size()))
    fail(errno, "write " + file);
}

staging::~staging() {
  // Directories of work that are still there have a commit to be replayed, or
  // were left in an error: a later coordinator's clean() tells them apart.
  unlink((path_ + "/.alive").c_str());
  rmdir(path_.c_str());
}

void staging::clean(const symlease::campaign &campaign, report &says) const {
  bool damaged = false;
  std::string manifests;
  const auto scanned = campaign.scan(
      symlease::table::work, symlease::state::committing | symlease::state::corrupt,
      [&](const symlease::record &record) {
        if (record.state() == symlease::state::corrupt) damaged = true;
        if (record.manifest()) manifests.append(*record.manifest());
      });
  // A record that cannot be read may name anything: then all of it stays.
  if (!scanned) return says.trouble("cleaning of " + root_ + ": " + scanned.words());
  if (damaged) return;
  std::error_code error;
  for (fs::directory_iterator each(root_, error), end; !error && each != end;
       each.increment(error)) {
    try {
      if (each->path() != path_) clean_one(each->path().string(), manifests);
    } catch (const std::exception &why) {
      says.trouble("cleaning: " + std::string(why.what()));
    }
  }
}

void staging::clean_one(const std::string &directory, const std::string &manifests) const {
  const std::string name = fs::path(directory).filename().string();
  const pid_t process = process_of(name);
  if (process == 0 || (kill(process, 0) == 0 || errno != ESRCH)) return;
  const std::string file = directory + "/.alive";
  const descriptor alive(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (alive) {
    if (flock(alive.get(), LOCK_EX | LOCK_NB) != 0) return;  // alive in another container
    if (read_file(file) != host()) return;
  } else {
    // Without .alive it ended by itself, or died while it was being made.
    struct stat about;
    if (errno != ENOENT || stat(directory.c_str(), &about) != 0) return;
  }
  bool needed = false;
  for (const fs::directory_entry &each : fs::directory_iterator(directory)) {
    const std::string work = each.path().filename().string();
    if (work == ".alive") continue;
    if (manifests.find(name + "/" + work + "/") != std::string::npos) needed = true;
    else remove_tree(each.path().string());
  }
  if (!needed) remove_tree(directory);
}

}  // namespace coordinator
