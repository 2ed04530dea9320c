//! Short locks: flock on a stable regular file, waited for within one
//! monotonic deadline (L1-L7). The only module that locks.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicU64, Ordering};

use super::disk::{failed, Directory, Disk};
use super::paths::lock_name;
use crate::engine::WAIT_SLOTS;
use crate::error::{Error, Kind, Result};
use crate::sys::{Errno, Fd, FileKind, Open, Stat};

/// The first and the longest pause between two tries, in nanoseconds.
const PAUSE_FIRST: u64 = 30_000;
const PAUSE_LAST: u64 = 2_000_000;

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

/// Takes a record's lock before `deadline` (monotonic nanoseconds; 0: one try).
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
    let start = disk.sys.monotonic();
    let mut pause = PAUSE_FIRST;
    let mut waited = false;
    loop {
        let (fd, stat) = open(disk, directory, &name)?;
        match disk.sys.lock(fd) {
            Ok(()) => {
                let lock = Lock {
                    disk,
                    directory: directory.fd,
                    name: name.clone(),
                    fd,
                    stat,
                };
                if lock.in_place() {
                    waits.locks.fetch_add(1, Ordering::Relaxed);
                    if waited {
                        let spent = disk.sys.monotonic().saturating_sub(start);
                        waits.ended(spent);
                    }
                    return Ok(lock);
                }
                waits.retries.fetch_add(1, Ordering::Relaxed);
            }
            Err(Errno(libc::EAGAIN | libc::EACCES)) => disk.sys.close(fd),
            Err(errno) => {
                disk.sys.close(fd);
                // A file system that cannot lock is no licence to go on (L4, F14).
                let mut error = failed("lock", &name, errno);
                error.kind = Kind::Unsupported;
                return Err(error);
            }
        }
        if !waited {
            waited = true;
            waits.contended.fetch_add(1, Ordering::Relaxed);
        }
        let now = disk.sys.monotonic();
        if now >= deadline {
            // A look without waiting, in a batch, is no time-out.
            waits
                .timeouts
                .fetch_add(u64::from(deadline > 0), Ordering::Relaxed);
            let spent = now.saturating_sub(start);
            if deadline > 0 {
                waits.ended(spent);
            }
            let text = format!(
                "lock {id}: held by somebody else for {} ms",
                spent / 1_000_000
            );
            return Err(Error::new(Kind::Timeout, text));
        }
        let mut jitter = [0u8; 1];
        let _ = disk.sys.random(&mut jitter);
        let jittered = pause / 2 + pause / 512 * u64::from(jitter[0]);
        disk.sys.sleep(jittered.min(deadline - now));
        pause = (pause * 2).min(PAUSE_LAST);
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
