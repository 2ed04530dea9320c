//! Whole files and directories: read within a limit, written and synced,
//! directories made durably (M2).

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::paths::{c_path, parent};
use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};
use crate::record::lease::RECORD_MAX;
use crate::sys::{errno_name, Errno, Fd, FileKind, Open, Sys};

/// The system together with what the engine decided about durability.
pub struct Disk {
    /// The system.
    pub sys: Arc<dyn Sys>,
    /// Whether anything is synced.
    pub durable: bool,
    /// The mode of files; directories follow from it.
    pub file_mode: u32,
    /// Syncs so far.
    pub syncs: AtomicU64,
    /// Directory syncs that the file system does not know (F18).
    pub unsynced: AtomicU64,
    /// Directories that were seen to be durable, their own names included
    /// (M2). Only ever tried, so that a fork cannot hang (F4).
    durable_directories: Mutex<BTreeSet<CString>>,
}

/// A directory that is closed when dropped.
pub struct Directory<'a> {
    disk: &'a Disk,
    /// Its descriptor.
    pub fd: Fd,
    /// Its path, for messages.
    pub path: CString,
}

impl<'a> Directory<'a> {
    /// The same directory, opened once more.
    pub fn again(disk: &'a Disk, directory: &Directory<'_>) -> Result<Directory<'a>> {
        let fd = disk.sys.open(Some(directory.fd), c".", Open::Directory, 0);
        let fd = fd.map_err(|errno| failed("open directory", &directory.path, errno))?;
        Ok(Directory {
            disk,
            fd,
            path: directory.path.clone(),
        })
    }
}

impl Drop for Directory<'_> {
    fn drop(&mut self) {
        self.disk.sys.close(self.fd);
    }
}

/// An I/O error that says what was done to which path.
pub fn failed(step: &str, path: &CStr, errno: Errno) -> Error {
    let name = errno_name(errno.0);
    let text = format!("{step} {}: {name} ({})", path.to_string_lossy(), errno.0);
    Error::system(Kind::Io, errno.0, text)
}

impl Disk {
    /// The system, and how durable files are to be.
    pub fn new(sys: Arc<dyn Sys>, durable: bool, file_mode: u32) -> Disk {
        Disk {
            sys,
            durable,
            file_mode,
            syncs: AtomicU64::new(0),
            unsynced: AtomicU64::new(0),
            durable_directories: Mutex::default(),
        }
    }

    /// Opens a directory that the caller named; `None` when it is not there.
    pub fn directory(&self, path: &CStr) -> Result<Option<Directory<'_>>> {
        self.open_directory(path, Open::Directory)
    }

    /// The same for one of our own names: a link there is refused (F13).
    pub fn folder(&self, path: &CStr) -> Result<Option<Directory<'_>>> {
        self.open_directory(path, Open::Folder)
    }

    fn open_directory(&self, path: &CStr, how: Open) -> Result<Option<Directory<'_>>> {
        match self.sys.open(None, path, how, 0) {
            Ok(fd) => Ok(Some(Directory {
                disk: self,
                fd,
                path: path.to_owned(),
            })),
            Err(Errno(libc::ENOENT)) => Ok(None),
            Err(errno) => Err(failed("open directory", path, errno)),
        }
    }

    /// Opens a directory that the caller named, made where it is missing (M2).
    pub fn make_directory(&self, path: &CStr) -> Result<Directory<'_>> {
        self.make(path, Open::Directory)
    }

    /// The same for one of our own names: a link there is refused (F13).
    pub fn make_folder(&self, path: &CStr) -> Result<Directory<'_>> {
        self.make(path, Open::Folder)
    }

    /// Opens a directory, making it and its parents durably (M2). One that is
    /// there may be somebody's who has not synced it yet, or died before: its
    /// name is synced once by each handle.
    fn make(&self, path: &CStr, last: Open) -> Result<Directory<'_>> {
        let how = |at: &CStr| if at == path { last } else { Open::Directory };
        // From the first existing ancestor down, without recursion.
        let mut rest: Vec<CString> = Vec::new();
        let mut at = path.to_owned();
        let mut above = loop {
            let found = self.open_directory(&at, how(&at))?;
            let next = parent(at.as_bytes());
            match (found, next) {
                (Some(found), None) => break found,
                (Some(found), _) if !self.durable || self.is_durable(&at) => break found,
                (None, None) => return Err(failed("open directory", &at, Errno(libc::ENOENT))),
                // Whoever may not look into the parent cannot have lost it.
                (Some(found), Some(next)) if !self.may_open(&next)? => break found,
                (_, Some(next)) => rest.push(std::mem::replace(&mut at, c_path(next)?)),
            }
        };
        while let Some(next) = rest.pop() {
            above = match self.open_directory(&next, how(&next))? {
                Some(found) => {
                    self.sync_directory(&above, Guard::DirectoryFound)?;
                    found
                }
                None => self.make_one(&above, &next, how(&next))?,
            };
            if let Ok(mut known) = self.durable_directories.try_lock() {
                known.insert(next);
            }
        }
        Ok(above)
    }

    fn is_durable(&self, path: &CStr) -> bool {
        let known = self.durable_directories.try_lock();
        known.is_ok_and(|known| known.contains(path))
    }

    fn may_open(&self, path: &[u8]) -> Result<bool> {
        match self.directory(&c_path(path.to_vec())?) {
            Err(error) if error.errno == libc::EACCES => Ok(false),
            other => other.map(|_| true),
        }
    }

    fn make_one(&self, above: &Directory<'_>, path: &CStr, how: Open) -> Result<Directory<'_>> {
        let group = self.file_mode & 0o070 != 0;
        let mode = 0o700 | if group { 0o2070 } else { 0 };
        match self.sys.make_directory(None, path, mode) {
            Ok(()) | Err(Errno(libc::EEXIST)) => {}
            Err(errno) => return Err(failed("make directory", path, errno)),
        }
        let made = self
            .open_directory(path, how)?
            .ok_or_else(|| failed("open directory", path, Errno(libc::ENOENT)))?;
        if group {
            // The umask may have taken the group's bits (F24); a directory that
            // another member made already has them.
            match self.sys.set_mode(made.fd, mode) {
                Ok(()) | Err(Errno(libc::EPERM)) => {}
                Err(errno) => return Err(failed("set mode of", path, errno)),
            }
        }
        self.sync_directory(&made, Guard::DirectoryMade)?;
        self.sync_directory(above, Guard::DirectoryMade)?;
        Ok(made)
    }

    /// Makes a directory's entries durable. EINVAL: this file system has no
    /// such thing; counted, so that it can be seen (F18).
    pub fn sync_directory(&self, directory: &Directory<'_>, guard: Guard) -> Result<()> {
        if !self.durable || !on(guard) {
            return Ok(());
        }
        self.syncs.fetch_add(1, Ordering::Relaxed);
        match self.sys.sync(directory.fd) {
            Ok(()) => Ok(()),
            Err(Errno(libc::EINVAL)) => {
                self.unsynced.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(errno) => Err(failed("sync directory", &directory.path, errno)),
        }
    }

    /// A whole record. Only ENOENT is absence (C1); a link, FIFO or device is
    /// refused (F13); a file beyond the limit is CORRUPT without being read.
    pub fn read(&self, directory: &Directory<'_>, name: &CStr) -> Result<Option<Vec<u8>>> {
        self.read_within(directory, name, RECORD_MAX as u64)
    }

    /// The same for a file that may have `most` bytes.
    pub fn read_within(
        &self,
        directory: &Directory<'_>,
        name: &CStr,
        most: u64,
    ) -> Result<Option<Vec<u8>>> {
        let fd = match self.sys.open(Some(directory.fd), name, Open::Read, 0) {
            Ok(fd) => fd,
            Err(Errno(libc::ENOENT)) => return Ok(None),
            Err(errno) => return Err(failed("open", name, errno)),
        };
        let bytes = self.read_open(fd, name, most);
        self.sys.close(fd);
        bytes.map(Some)
    }

    /// Reads an open regular file of at most `most` bytes.
    pub(super) fn read_open(&self, fd: Fd, name: &CStr, most: u64) -> Result<Vec<u8>> {
        let stat = self
            .sys
            .stat(fd)
            .map_err(|errno| failed("stat", name, errno))?;
        let corrupt =
            |why: &str| Error::new(Kind::Corrupt, format!("{}: {why}", name.to_string_lossy()));
        if stat.kind != FileKind::Regular {
            return Err(corrupt("not a regular file"));
        }
        if stat.size > most {
            return Err(corrupt("larger than it may be"));
        }
        let mut bytes = vec![0; stat.size as usize];
        let mut filled = 0;
        while filled < bytes.len() {
            let count = self
                .sys
                .read_at(fd, &mut bytes[filled..], filled as u64)
                .map_err(|errno| failed("read", name, errno))?;
            if count == 0 {
                break;
            }
            filled += count;
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// Writes and syncs a new file. On failure it is gone again (H4), and its
    /// descriptor is never synced a second time (F17).
    pub fn write_new(
        &self,
        directory: &Directory<'_>,
        name: &CStr,
        bytes: &[u8],
        guard: Guard,
    ) -> Result<()> {
        self.create(directory, name, |fd| self.fill(fd, name, bytes, guard))
    }

    /// As `write_new`, without a sync: for what may be lost.
    pub(super) fn write_unsynced(
        &self,
        directory: &Directory<'_>,
        name: &CStr,
        bytes: &[u8],
    ) -> Result<()> {
        self.create(directory, name, |fd| self.write_all(fd, name, bytes))
    }

    /// Makes a new file and fills it; what fails is gone again.
    fn create(
        &self,
        directory: &Directory<'_>,
        name: &CStr,
        fill: impl FnOnce(Fd) -> Result<()>,
    ) -> Result<()> {
        let fd = self
            .sys
            .open(Some(directory.fd), name, Open::CreateNew, self.file_mode)
            .map_err(|errno| failed("create", name, errno))?;
        let filled = fill(fd);
        let closed = self.sys.close_written(fd);
        let written = filled.and(closed.map_err(|errno| failed("close", name, errno)));
        if written.is_err() && on(Guard::FailedFile) {
            let _ = self.sys.unlink(directory.fd, name);
        }
        written
    }

    /// Writes a new file's bytes and syncs them.
    pub(in crate::engine) fn fill(
        &self,
        fd: Fd,
        name: &CStr,
        bytes: &[u8],
        guard: Guard,
    ) -> Result<()> {
        self.write_all(fd, name, bytes)?;
        if !self.durable || !on(guard) {
            return Ok(());
        }
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.sys
            .sync(fd)
            .map_err(|errno| failed("sync", name, errno))
    }

    fn write_all(&self, fd: Fd, name: &CStr, bytes: &[u8]) -> Result<()> {
        if self.file_mode & 0o077 != 0 {
            self.sys
                .set_mode(fd, self.file_mode)
                .map_err(|errno| failed("set mode of", name, errno))?;
        }
        self.append(fd, name, bytes)
    }

    /// Writes bytes where a new file ends.
    pub(in crate::engine) fn append(&self, fd: Fd, name: &CStr, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.sys.write(fd, rest) {
                Ok(0) => return Err(failed("write", name, Errno(libc::ENOSPC))),
                Ok(_) if !on(Guard::ShortWrite) => return Ok(()),
                Ok(count) => rest = &rest[count.min(rest.len())..],
                Err(errno) => return Err(failed("write", name, errno)),
            }
        }
        Ok(())
    }
}
