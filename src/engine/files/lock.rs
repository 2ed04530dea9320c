//! Short locks: flock on a stable regular file, waited for within one
//! monotonic deadline (L1-L7). The only module that locks.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicU64, Ordering};

use super::disk::{failed, Directory, Disk};
use super::paths::lock_name;
use super::queue::{key, pass_on, waited_for, Turn};
use crate::engine::WAIT_SLOTS;
use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};
use crate::sys::{Errno, Fd, FileKind, Open, Stat};

/// How often a lock is taken anew because a fork fell between its file's opening
/// and its being remembered,
/// before it counts as busy: a fork may itself wait for what this thread holds.
const FORKS_MAX: u32 = 100;
/// How long a fork that runs is waited for each time, in nanoseconds.
pub(super) const FORK_PAUSE: u64 = 50_000;

/// What waiting cost.
#[derive(Default)]
pub struct Waits {
    /// Locks taken.
    pub locks: AtomicU64,
    /// Locks not free at the first try.
    pub contended: AtomicU64,
    /// Waits that ended at the deadline.
    pub timeouts: AtomicU64,
    /// Nanoseconds waited.
    pub wait_ns: AtomicU64,
    /// Lock files that had moved.
    pub retries: AtomicU64,
    /// Waits by length: slot `n` counts those of 2^n microseconds up to the
    /// next power, shorter ones in slot 0, the longest in the last (L8).
    pub lengths: [AtomicU64; WAIT_SLOTS],
}

impl Waits {
    fn ended(&self, spent: u64) {
        self.wait_ns.fetch_add(spent, Ordering::Relaxed);
        let slot = (spent / 1000).max(1).ilog2() as usize;
        self.lengths[slot.min(WAIT_SLOTS - 1)].fetch_add(1, Ordering::Relaxed);
    }
}

/// A record's lock, held until dropped.
pub struct Lock<'a> {
    disk: &'a Disk,
    directory: Fd,
    name: CString,
    fd: Fd,
    stat: Stat,
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        self.disk.sys.unlock(self.fd);
        pass_on(&*self.disk.sys, key(&self.stat));
    }
}

impl Lock<'_> {
    /// Whether the lock's path still names the file that is locked (L5, F12).
    pub fn in_place(&self) -> bool {
        self.disk
            .sys
            .stat_at(self.directory, &self.name)
            .is_ok_and(|now| (now.device, now.inode) == (self.stat.device, self.stat.inode))
    }
}

/// Takes a record's lock before `deadline` (monotonic nanoseconds; 0: one
/// look, which finds a lock busy that others queue for).
pub fn take<'a>(
    disk: &'a Disk,
    waits: &Waits,
    directory: &Directory<'_>,
    id: &str,
    deadline: u64,
) -> Result<Lock<'a>> {
    take_named(disk, waits, directory, &lock_name(id), id, deadline)
}

/// The same for a lock file of any name; `id` is for messages.
pub fn take_named<'a>(
    disk: &'a Disk,
    waits: &Waits,
    directory: &Directory<'_>,
    file: &str,
    id: &str,
    deadline: u64,
) -> Result<Lock<'a>> {
    let name = CString::new(file).unwrap_or_default();
    let sys = &*disk.sys;
    let start = sys.monotonic();
    let mut turn = Turn::new(sys, start);
    // Over: the deadline has passed. However long the queue, one try is
    // everybody's (F35).
    let (mut waited, mut tried, mut over) = (false, false, false);
    loop {
        if over || turn.may_try() {
            let opened = Opened::new(disk, directory, &name)?;
            let lock_key = key(&opened.stat);
            // A newcomer goes behind those who wait (F34).
            if over || turn.queued() || !waited_for(sys, lock_key) {
                tried = true;
                if let Some(lock) = opened.lock()? {
                    if lock.in_place() || !on(Guard::PathBefore) {
                        turn.served();
                        waits.locks.fetch_add(1, Ordering::Relaxed);
                        if waited {
                            waits.ended(sys.monotonic().saturating_sub(start));
                        }
                        return Ok(lock);
                    }
                    waits.retries.fetch_add(1, Ordering::Relaxed);
                }
            } else {
                sys.close(opened.fd);
            }
            turn.missed(lock_key);
        }
        if !waited {
            waited = true;
            waits.contended.fetch_add(1, Ordering::Relaxed);
        }
        let now = sys.monotonic();
        if now < deadline {
            turn.wait(deadline - now);
        } else if tried || deadline == 0 {
            return Err(timed_out(waits, id, now.saturating_sub(start), deadline));
        } else {
            over = true;
        }
    }
}

fn timed_out(waits: &Waits, id: &str, spent: u64, deadline: u64) -> Error {
    // A look without waiting, in a batch, is no time-out.
    if deadline > 0 {
        waits.timeouts.fetch_add(1, Ordering::Relaxed);
        waits.ended(spent);
    }
    let text = format!(
        "lock {id}: held by somebody else for {} ms",
        spent / 1_000_000
    );
    Error::new(Kind::Timeout, text)
}

/// A lock file, open and not yet locked.
struct Opened<'a, 'b> {
    disk: &'a Disk,
    directory: &'b Directory<'b>,
    name: &'b CStr,
    fd: Fd,
    stat: Stat,
    /// The forks before it was opened.
    forks: Option<u64>,
}

impl<'a, 'b> Opened<'a, 'b> {
    fn new(disk: &'a Disk, directory: &'b Directory<'b>, name: &'b CStr) -> Result<Self> {
        let forks = disk.sys.forks();
        let (fd, stat) = open(disk, directory, name)?;
        Ok(Opened {
            disk,
            directory,
            name,
            fd,
            stat,
            forks,
        })
    }

    /// Locks it, or closes it. `None`: somebody else has it. A child that was
    /// forked after the opening has a copy that the fork handler did not know
    /// of: it would keep this lock when the process is killed (F1, L7), so that
    /// another opening is locked. Who forks without a pause waits like anybody.
    fn lock(mut self) -> Result<Option<Lock<'a>>> {
        let sys = &*self.disk.sys;
        for _ in 0..FORKS_MAX {
            let locked = match on(Guard::Flock) {
                true => sys.lock(self.fd, self.forks),
                false => Ok(()),
            };
            let passed = |errno: &Errno| {
                let busy = matches!(errno.0, libc::EAGAIN | libc::EACCES | libc::ECHILD);
                !busy && !on(Guard::LockRefused)
            };
            match locked.or_else(|errno| if passed(&errno) { Ok(()) } else { Err(errno) }) {
                Ok(()) => {
                    return Ok(Some(Lock {
                        disk: self.disk,
                        directory: self.directory.fd,
                        name: self.name.to_owned(),
                        fd: self.fd,
                        stat: self.stat,
                    }))
                }
                Err(Errno(libc::ECHILD)) => {}
                Err(Errno(libc::EAGAIN | libc::EACCES)) => {
                    sys.close(self.fd);
                    return Ok(None);
                }
                Err(errno) => {
                    sys.close(self.fd);
                    // A file system that cannot lock is no licence to go on (L4, F14).
                    let mut error = failed("lock", self.name, errno);
                    error.kind = Kind::Unsupported;
                    return Err(error);
                }
            }
            sys.close(self.fd);
            if sys.forks().is_none() {
                sys.sleep(FORK_PAUSE);
            }
            self = Opened::new(self.disk, self.directory, self.name)?;
        }
        sys.close(self.fd);
        Ok(None)
    }
}

/// Opens the lock file, an existing one without `O_CREAT` (F25). Anything but
/// a regular file is refused and left alone (L6, F13, F15).
fn open(disk: &Disk, directory: &Directory<'_>, name: &CStr) -> Result<(Fd, Stat)> {
    let existing = disk.sys.open(Some(directory.fd), name, Open::Write, 0);
    let fd = match existing {
        Err(Errno(libc::ENOENT)) => {
            let made = disk
                .sys
                .open(Some(directory.fd), name, Open::Create, disk.file_mode);
            if disk.file_mode & 0o077 != 0 {
                // The umask may have taken the group's bits (F24). Another
                // member's file cannot be changed, and need not be.
                let _ = made.map(|fd| disk.sys.set_mode(fd, disk.file_mode));
            }
            made
        }
        other => other,
    };
    let fd = fd.map_err(|errno| match errno.0 {
        libc::EISDIR | libc::ELOOP | libc::ENXIO => refused(directory, name, Some(errno)),
        _ => failed("open lock", name, errno),
    })?;
    let stat = disk
        .sys
        .stat(fd)
        .map_err(|errno| failed("stat", name, errno));
    match stat {
        Ok(stat) if stat.kind == FileKind::Regular => Ok((fd, stat)),
        other => {
            disk.sys.close(fd);
            Err(other
                .err()
                .unwrap_or_else(|| refused(directory, name, None)))
        }
    }
}

fn refused(directory: &Directory<'_>, name: &CStr, errno: Option<Errno>) -> Error {
    let (path, name) = (directory.path.to_string_lossy(), name.to_string_lossy());
    let text = format!(
        "lock {path}/{name} is not a regular file. An older version locks with directories: \
         stop all of its writers, then remove it"
    );
    Error::system(Kind::Unsupported, errno.map_or(0, |errno| errno.0), text)
}
