//! Staged results are the caller's files: made durable here, and copied where
//! their sync failed.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::sync::Mutex;

use sha2::{Digest, Sha256};

use super::{show, Content, Place, Store};
use crate::engine::files::disk::{failed, Directory};
use crate::engine::files::known::{Known, Mark};
use crate::engine::files::paths::{copy_name, is_copy};
use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};
use crate::record::id::hex;
use crate::sys::{Errno, Fd, Open, Stat};

/// How often a copy is made anew because a sweep took it.
const SWEPT_MAX: u32 = 100;
/// Directories of staged results that a handle remembers.
const DIRECTORIES_MAX: usize = 64;

/// What a handle remembers of staged files.
#[derive(Default)]
pub(super) struct Staged {
    /// Files whose sync failed: the next one would succeed over lost bytes (F17).
    known: Known,
    /// Directories in which it has looked for copies of the dead (H4). Only
    /// ever tried, so that a fork cannot hang (F4).
    directories: Mutex<BTreeSet<CString>>,
}

/// A staged file, whatever its name: what a sync failed for is the inode.
fn file_mark(stat: &Stat) -> Mark {
    let file = [stat.device.to_le_bytes(), stat.inode.to_le_bytes()].concat();
    Mark::of(c"staged", "", &file)
}

impl Store {
    /// Makes a staged file durable: its bytes and its name. Where its sync
    /// fails the call does, and a fresh copy takes its place at once, while its
    /// bytes are still at hand, or else in the next call: the kernel may have
    /// dropped what it could not write, and a second sync would not say so.
    pub fn settle(&self, path: &[u8], content: &Content) -> Result<()> {
        let missing = || Error::new(Kind::Io, format!("staged {}: gone", show(path)));
        let place = self.place(path)?.ok_or_else(missing)?;
        self.sweep_first(&place.directory);
        if self.disk.durable && on(Guard::StagedData) {
            self.sync_staged(&place, content)?;
        }
        self.disk
            .sync_directory(&place.directory, Guard::StagedNames)
    }

    fn sync_staged(&self, place: &Place<'_>, content: &Content) -> Result<()> {
        let (sys, known) = (&self.disk.sys, &self.staged.known);
        let fd = self.open_staged(place)?;
        let file = sys.stat(fd).map(|stat| file_mark(&stat));
        let file = file.map_err(|errno| failed("stat", &place.name, errno));
        let synced = match &file {
            Ok(file) if !known.is_doubtful(*file) => sys.sync(fd),
            _ => Ok(()),
        };
        sys.close(fd);
        let file = file?;
        if synced.is_err() {
            known.synced(file, false);
        }
        let replaced = match known.is_doubtful(file) && on(Guard::DoubtfulStaged) {
            true => self
                .replace(place, content)
                .map(|()| known.synced(file, true)),
            false => Ok(()),
        };
        synced.map_err(|errno| failed("sync", &place.name, errno))?;
        replaced
    }

    fn open_staged(&self, place: &Place<'_>) -> Result<Fd> {
        let directory = Some(place.directory.fd);
        let fd = self.disk.sys.open(directory, &place.name, Open::Read, 0);
        fd.map_err(|errno| failed("open", &place.name, errno))
    }

    /// Puts a freshly written and synced copy in a staged file's place.
    fn replace(&self, place: &Place<'_>, content: &Content) -> Result<()> {
        let (sys, directory) = (&self.disk.sys, place.directory.fd);
        for left in (0..SWEPT_MAX).rev() {
            let mut random = [0u8; 8];
            sys.random(&mut random)
                .map_err(|errno| Error::system(Kind::Io, errno.0, "getrandom failed"))?;
            let name = copy_name(place.name.as_bytes(), sys.process(), &random);
            let name = CString::new(name).unwrap_or_default();
            self.copy(place, &name, content)?;
            match sys.rename(directory, &name, &place.name) {
                Ok(()) => {
                    let guard = Guard::StagedNames;
                    return self.disk.sync_directory(&place.directory, guard);
                }
                // A sweep knows no writer that lives (H4).
                Err(Errno(libc::ENOENT)) if left > 0 => {}
                Err(errno) => {
                    let _ = sys.unlink(directory, &name);
                    return Err(failed("replace", &place.name, errno));
                }
            }
        }
        Ok(())
    }

    /// A copy under its private name; on failure it is gone again.
    fn copy(&self, place: &Place<'_>, name: &CStr, content: &Content) -> Result<()> {
        let (sys, directory) = (&self.disk.sys, place.directory.fd);
        let from = self.open_staged(place)?;
        let mode = self.disk.file_mode;
        let copied = match sys.open(Some(directory), name, Open::CreateNew, mode) {
            Err(errno) => Err(failed("create", name, errno)),
            Ok(to) => {
                let poured = self.pour(from, to, name, content);
                let closed = sys.close_written(to);
                let copied = poured.and(closed.map_err(|errno| failed("close", name, errno)));
                if copied.is_err() {
                    let _ = sys.unlink(directory, name);
                }
                copied
            }
        };
        sys.close(from);
        copied
    }

    /// Copies the bytes that were read before the sync failed, and no others.
    fn pour(&self, from: Fd, to: Fd, name: &CStr, content: &Content) -> Result<()> {
        let mut digest = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        let mut at = 0;
        loop {
            let count = self.disk.sys.read_at(from, &mut buffer, at);
            let count = count.map_err(|errno| failed("read for", name, errno))?;
            if count == 0 {
                break;
            }
            digest.update(&buffer[..count]);
            self.disk.append(to, name, &buffer[..count])?;
            at += count as u64;
        }
        if hex(&digest.finalize()) != content.sha256 {
            let text = format!("{}: the staged file has changed", name.to_string_lossy());
            return Err(Error::new(Kind::Io, text));
        }
        self.disk.fill(to, name, &[], Guard::StagedData)
    }

    /// Removes copies that killed writers left, at a handle's first commit from
    /// a directory (H4). What cannot be removed is left.
    fn sweep_first(&self, directory: &Directory<'_>) {
        let Ok(mut seen) = self.staged.directories.try_lock() else {
            return;
        };
        if seen.contains(&directory.path) {
            return;
        }
        if seen.len() >= DIRECTORIES_MAX {
            seen.pop_first();
        }
        seen.insert(directory.path.clone());
        drop(seen);
        self.sweep_copies(directory);
    }

    /// The same in all directories that this handle knows.
    pub fn sweep(&self) -> u64 {
        let known = match self.staged.directories.try_lock() {
            Ok(seen) => seen.clone(),
            Err(_) => BTreeSet::new(),
        };
        let open = |path: &CString| self.disk.directory(path).ok().flatten();
        let directories = known.iter().filter_map(open);
        directories.map(|one| self.sweep_copies(&one)).sum()
    }

    fn sweep_copies(&self, directory: &Directory<'_>) -> u64 {
        let sys = &self.disk.sys;
        let names = sys.names(directory.fd).unwrap_or_default();
        let copies = names.into_iter().filter(|name| is_copy(name));
        let unlink = |name: CString| sys.unlink(directory.fd, &name).is_ok();
        let gone = copies.filter(|name| CString::new(&name[..]).is_ok_and(unlink));
        gone.count() as u64
    }
}
