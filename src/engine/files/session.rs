//! Sessions: a file that its process keeps locked while it lives, so that a
//! dead holder is known at once (D1-D5).

use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex, TryLockError};

use super::disk::{failed, Directory, Disk};
use super::lock::FORK_PAUSE;
use super::paths;
use super::root::Root;
use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};
use crate::model::lease::Presence;
use crate::record::session::{boot_word, name, parse_name, Header, SESSION_MAX};
use crate::sys::{Errno, Fd, FileKind, Open, Stat};

/// How often a session is made anew because a fork or a sweep came between.
const TRIES: u32 = 1000;
/// A session is tested at most once in this time (D5), in nanoseconds.
const TEST_EVERY: u64 = 10_000_000;
/// Sessions of which the last test is remembered.
const REMEMBERED_MAX: usize = 4096;

/// The session that this process keeps in one root.
pub(super) struct Own {
    pub(super) name: String,
    fd: Fd,
    stat: Stat,
}

/// The sessions of one root, as one handle sees them.
pub struct Sessions {
    /// Who is named in the file; `None`: this handle has no session.
    owner: Option<String>,
    /// The process that opened the handle: a forked child has none (D3).
    process: u32,
    /// The kernel that it runs on.
    boot: String,
    /// Held for moments, never across a call of the system.
    own: Mutex<Option<Arc<Own>>>,
    /// What the last tests found; only ever tried, so that a fork cannot hang.
    tested: Mutex<HashMap<String, (Presence, u64)>>,
}

impl Sessions {
    /// No session yet: one is made at the first change (M4).
    pub fn new(disk: &Disk, owner: Option<String>) -> Sessions {
        Sessions {
            owner,
            process: disk.sys.process(),
            boot: boot_word(&disk.sys.boot()),
            own: Mutex::new(None),
            tested: Mutex::new(HashMap::new()),
        }
    }

    /// Whether this handle, in this process, keeps a session.
    pub fn wanted(&self, disk: &Disk) -> bool {
        self.owner.is_some() && disk.sys.process() == self.process
    }

    pub(super) fn current(&self) -> Option<Arc<Own>> {
        let own = self.own.lock().unwrap_or_else(|broken| broken.into_inner());
        own.clone()
    }

    /// Puts a new session in the old one's place, unless another thread did.
    fn replace(&self, old: Option<&Arc<Own>>, new: &Arc<Own>) -> std::result::Result<(), Arc<Own>> {
        let mut own = self.own.lock().unwrap_or_else(|broken| broken.into_inner());
        match own.as_ref() {
            Some(there) if !old.is_some_and(|old| Arc::ptr_eq(old, there)) => Err(there.clone()),
            _ => {
                *own = Some(Arc::clone(new));
                Ok(())
            }
        }
    }

    fn remembered(&self, name: &str, now: u64) -> Option<Presence> {
        let tested = match self.tested.try_lock() {
            Ok(tested) => tested,
            Err(TryLockError::Poisoned(broken)) => broken.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let (presence, at) = *tested.get(name)?;
        // The dead stay dead: a name is never used again.
        let fresh = presence == Presence::Dead || now.saturating_sub(at) < TEST_EVERY;
        fresh.then_some(presence)
    }

    fn remember(&self, name: &str, presence: Presence, now: u64) {
        if let Ok(mut tested) = self.tested.try_lock() {
            if tested.len() >= REMEMBERED_MAX {
                tested.clear();
            }
            tested.insert(name.to_string(), (presence, now));
        }
    }
}

impl Root {
    /// The session to name in records; made where there is none yet, or where
    /// the host closed it (D3, F7).
    pub fn session(&self) -> Result<Option<String>> {
        let disk = &self.disk;
        let Some(owner) = self.sessions.owner.as_ref() else {
            return Ok(None);
        };
        if !self.sessions.wanted(disk) {
            return Ok(None);
        }
        let old = self.sessions.current();
        if let Some(own) = &old {
            if is_still(disk, own) != Some(false) || !on(Guard::SessionClosed) {
                return Ok(Some(own.name.clone()));
            }
        }
        self.ensure()?;
        let new = Arc::new(self.make_session(owner)?);
        match self.sessions.replace(old.as_ref(), &new) {
            Ok(()) => {
                if let Some(own) = old {
                    disk.sys.disown(own.fd, &own.stat);
                }
                Ok(Some(new.name.clone()))
            }
            Err(theirs) => {
                end(disk, &new);
                let directory = disk.folder(&paths::sessions_path(&self.path)?)?;
                let file = CString::new(new.name.as_str()).unwrap_or_default();
                if let Some(directory) = directory {
                    let _ = disk.sys.unlink(directory.fd, &file);
                }
                Ok(Some(theirs.name.clone()))
            }
        }
    }

    /// Makes a session: it appears under its name already locked (D5).
    fn make_session(&self, owner: &str) -> Result<Own> {
        let (disk, sys) = (&self.disk, &*self.disk.sys);
        let directory = disk.make_folder(&paths::sessions_path(&self.path)?)?;
        let host = sys.host();
        let start = sys.realtime().max(0.0) as u64;
        for _ in 0..TRIES {
            let mut random = [0u8; 8];
            sys.random(&mut random)
                .map_err(|errno| Error::system(Kind::Io, errno.0, "getrandom failed"))?;
            let boot = &self.sessions.boot;
            let name = name(&host, boot, self.sessions.process, start, &random);
            let private = CString::new(paths::session_temporary(&name)).unwrap_or_default();
            let forks = sys.forks();
            let fd = sys
                .open(
                    Some(directory.fd),
                    &private,
                    Open::CreateNew,
                    disk.file_mode,
                )
                .map_err(|errno| failed("create session", &private, errno))?;
            // `None`: a fork in between would have a copy that the child does
            // not close (D3), or a sweep took the file away.
            match self.fill_session(&directory, (fd, forks), &private, &name, &host, owner)? {
                Some(stat) => return Ok(Own { name, fd, stat }),
                None if sys.forks().is_none() => sys.sleep(FORK_PAUSE),
                None => {}
            }
        }
        let text = format!("session of {owner}: could not be made without a fork in between");
        Err(Error::new(Kind::Io, text))
    }

    /// Locks, writes and names a new session file. `None`: a sweep was faster,
    /// or a fork.
    /// What fails is gone again.
    fn fill_session(
        &self,
        directory: &Directory<'_>,
        (fd, forks): (Fd, Option<u64>),
        private: &CStr,
        name: &str,
        host: &str,
        owner: &str,
    ) -> Result<Option<Stat>> {
        let (disk, sys) = (&self.disk, &*self.disk.sys);
        let locked = match on(Guard::SessionLocked) {
            true => sys.lock(fd, forks),
            false => Ok(()),
        };
        match locked {
            Ok(()) => {}
            Err(Errno(libc::EAGAIN | libc::EACCES | libc::ECHILD)) => {
                sys.close(fd);
                // Whoever holds it may die before it removes the file (H4).
                let _ = sys.unlink(directory.fd, private);
                return Ok(None);
            }
            Err(errno) => {
                sys.close(fd);
                let _ = sys.unlink(directory.fd, private);
                let mut error = failed("lock session", private, errno);
                error.kind = Kind::Unsupported;
                return Err(error);
            }
        }
        let filled = (|| {
            let stat = sys.stat(fd);
            let stat = stat.map_err(|errno| failed("stat session", private, errno))?;
            sys.keep(fd, &stat);
            let header = Header {
                host: host.to_string(),
                boot: self.sessions.boot.clone(),
                device: stat.device,
                inode: stat.inode,
                owner: owner.to_string(),
            };
            disk.fill(fd, private, &header.to_bytes(), Guard::SessionBarrier)?;
            let name = CString::new(name).unwrap_or_default();
            match sys.rename(directory.fd, private, &name) {
                Ok(()) => {}
                Err(Errno(libc::ENOENT)) => return Ok(None),
                Err(errno) => return Err(failed("name session", &name, errno)),
            }
            disk.sync_directory(directory, Guard::SessionBarrier)?;
            Ok(Some(stat))
        })();
        if !matches!(filled, Ok(Some(_))) {
            sys.unlock(fd);
            let _ = sys.unlink(directory.fd, private);
            // The directory's sync may have failed after the rename.
            let name = CString::new(name).unwrap_or_default();
            let _ = sys.unlink(directory.fd, &name);
        }
        filled
    }

    /// What is known of the session that a record names; reads only (M4).
    pub fn presence(&self, name: &str) -> Presence {
        let now = self.disk.sys.monotonic();
        if let Some(known) = self.sessions.remembered(name, now) {
            return known;
        }
        let presence = self.test(name).unwrap_or(Presence::Unknown);
        self.sessions.remember(name, presence, now);
        presence
    }

    /// Tests a session's lock, where that proves something (D2). What cannot be
    /// read proves nothing: the TTL decides.
    fn test(&self, name: &str) -> Option<Presence> {
        let parsed = parse_name(name)?;
        let (disk, sys) = (&self.disk, &*self.disk.sys);
        let directory = disk
            .folder(&paths::sessions_path(&self.path).ok()?)
            .ok()??;
        let file = CString::new(name).ok()?;
        let forks = sys.forks();
        let fd = sys.open(Some(directory.fd), &file, Open::Read, 0).ok()?;
        let proves = self.lock_proves(fd, &file, &parsed.boot);
        let presence = if proves {
            match sys.lock_shared(fd, forks) {
                Ok(()) => {
                    sys.unlock(fd);
                    return Some(Presence::Dead);
                }
                Err(_) if !on(Guard::SessionAlive) => Presence::Dead,
                Err(Errno(libc::EAGAIN | libc::EACCES)) => Presence::Alive,
                Err(_) => Presence::Unknown,
            }
        } else {
            Presence::Unknown
        };
        sys.close(fd);
        Some(presence)
    }

    /// Whether a session is known to live now; not from memory.
    pub(super) fn is_alive(&self, name: &str) -> bool {
        self.test(name) == Some(Presence::Alive)
    }

    /// Whether a lock that can be taken proves its holder dead: the holder ran
    /// under this kernel and locked this very file; or under another one, and
    /// no other kernel can have the file open.
    fn lock_proves(&self, fd: Fd, file: &CStr, boot: &str) -> bool {
        let disk = &self.disk;
        let Ok(stat) = disk.sys.stat(fd) else {
            return false;
        };
        if stat.kind != FileKind::Regular {
            return false;
        }
        // A machine without boot ids has one word for all of them.
        if self.sessions.boot == boot_word("") {
            return false;
        }
        if boot != self.sessions.boot && on(Guard::SessionBoot) {
            return disk.sys.on_block_device(stat.device);
        }
        let Ok(bytes) = disk.read_open(fd, file, SESSION_MAX) else {
            return false;
        };
        Header::parse(&bytes).is_ok_and(|header| {
            let same = (header.device, header.inode) == (stat.device, stat.inode);
            header.boot == boot && (same || !on(Guard::SessionFile))
        })
    }

    /// Removes sessions that are dead and that no record names. `named` is
    /// asked only where there is a dead one.
    pub fn sweep_sessions(&self, named: &dyn Fn() -> Result<BTreeSet<String>>) -> Result<u64> {
        let (disk, sys) = (&self.disk, &*self.disk.sys);
        let Some(directory) = disk.folder(&paths::sessions_path(&self.path)?)? else {
            return Ok(0);
        };
        let names = sys.names(directory.fd);
        let names = names.map_err(|errno| failed("list", &directory.path, errno))?;
        let dead: Vec<String> = names
            .into_iter()
            .filter_map(|name| String::from_utf8(name).ok())
            .filter(|name| {
                let file = paths::temporary_session(name).unwrap_or(name);
                parse_name(file).is_some() && self.free(&directory, name)
            })
            .collect();
        if dead.is_empty() {
            return self.sweep_counters(&directory);
        }
        let named = named()?;
        let mut removed = 0;
        for name in dead
            .iter()
            .filter(|name| !named.contains(*name) || !on(Guard::SessionNamed))
        {
            let file = CString::new(name.as_str()).unwrap_or_default();
            removed += u64::from(sys.unlink(directory.fd, &file).is_ok());
        }
        Ok(removed + self.sweep_counters(&directory)?)
    }

    /// Whether nobody holds a session file's lock, where that proves its holder
    /// dead. One without a name yet is its maker's alone, and not named.
    fn free(&self, directory: &Directory<'_>, name: &str) -> bool {
        if paths::temporary_session(name).is_none() {
            return self.test(name) == Some(Presence::Dead);
        }
        let sys = &*self.disk.sys;
        let file = CString::new(name).unwrap_or_default();
        let forks = sys.forks();
        let Ok(fd) = sys.open(Some(directory.fd), &file, Open::Read, 0) else {
            return false;
        };
        match sys.lock(fd, forks) {
            Ok(()) => {
                // Removed while it is locked: its maker finds out.
                let _ = sys.unlink(directory.fd, &file);
                sys.unlock(fd);
            }
            Err(_) => sys.close(fd),
        }
        false
    }

    /// Closing the campaign ends the session; the file stays (a sweep removes
    /// it once no record names it).
    pub fn end_session(&self) {
        // A child's handler has closed its copy; the number may be the host's now.
        if !self.sessions.wanted(&self.disk) {
            return;
        }
        if let Some(own) = self.sessions.current() {
            end(&self.disk, &own);
        }
    }
}

/// Whether the descriptor is still our file: the host may have closed it and
/// opened another in its place (F7). `None`: the system does not say.
fn is_still(disk: &Disk, own: &Own) -> Option<bool> {
    match disk.sys.stat(own.fd) {
        Ok(now) => Some((now.device, now.inode) == (own.stat.device, own.stat.inode)),
        Err(Errno(libc::EBADF)) => Some(false),
        Err(_) => None,
    }
}

fn end(disk: &Disk, own: &Own) {
    match is_still(disk, own) {
        Some(true) => disk.sys.unlock(own.fd),
        Some(false) => disk.sys.disown(own.fd, &own.stat),
        // Neither the host's file is closed nor ours forgotten.
        None => {}
    }
}
