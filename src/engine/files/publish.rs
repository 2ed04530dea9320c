//! Publishing: private temporaries, synced, renamed, directories synced. A
//! reader sees the old record or the new one, whole. The only module that
//! publishes.

use std::ffi::{CStr, CString};

use super::disk::{failed, Directory, Disk};
use super::paths::{record_name, temporary_name, temporary_of};
use super::paths::{INTENTS, STATE, TRANSACTIONS};
use crate::engine::Change;
use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};
use crate::sys::Errno;

/// One record on its way.
pub struct Item<'a> {
    /// Its directory.
    pub directory: &'a Directory<'a>,
    /// Its id.
    pub id: &'a str,
    /// What was there when it was judged, under the same lock.
    pub old: Option<&'a [u8]>,
    /// What is to be done.
    pub change: &'a Change,
}

/// A change that is written and synced, but under its private name.
pub struct Staged {
    temporary: Option<CString>,
    name: CString,
}

impl Item<'_> {
    /// Whether the record changes.
    pub fn changes(&self) -> bool {
        !matches!(self.change, Change::Keep | Change::Rely)
    }
}

/// Why a publish failed.
pub struct Failure {
    /// What went wrong first.
    pub error: Error,
    /// Whether every record is durably what it was.
    pub restored: bool,
}

/// Writes an item's new bytes under a private name.
pub fn stage(disk: &Disk, item: &Item<'_>) -> Result<Staged> {
    let name = CString::new(record_name(item.id)).unwrap_or_default();
    let temporary = match item.change {
        Change::Put(bytes) | Change::RemoveAgain(bytes) => Some(write(disk, item, bytes)?),
        Change::Keep | Change::Rely | Change::Remove => None,
    };
    Ok(Staged { temporary, name })
}

fn write(disk: &Disk, item: &Item<'_>, bytes: &[u8]) -> Result<CString> {
    let mut random = [0u8; 8];
    disk.sys
        .random(&mut random)
        .map_err(|errno| Error::system(Kind::Io, errno.0, "getrandom failed"))?;
    let text = temporary_name(item.id, disk.sys.process(), &random);
    let temporary = CString::new(text).unwrap_or_default();
    disk.write_new(item.directory, &temporary, bytes, guards(item).0)?;
    Ok(temporary)
}

/// How often a file is written anew because a sweep took its private name.
const SWEPT_MAX: u32 = 100;

/// Publishes a file that never changes: written privately, synced, and linked
/// into place, so it appears whole and never over another. Who loses the race
/// has nothing to do. No lock proves its writer dead, so a sweep takes the
/// private name of a living one too, who then writes it again (H4).
pub fn once(disk: &Disk, directory: &Directory<'_>, name: &CStr, bytes: &[u8]) -> Result<()> {
    for _ in 1..SWEPT_MAX {
        match once_written(disk, directory, name, bytes) {
            Err(error) if error.errno == libc::ENOENT => {}
            other => return other,
        }
    }
    once_written(disk, directory, name, bytes)
}

fn once_written(disk: &Disk, directory: &Directory<'_>, name: &CStr, bytes: &[u8]) -> Result<()> {
    let mut random = [0u8; 8];
    disk.sys
        .random(&mut random)
        .map_err(|errno| Error::system(Kind::Io, errno.0, "getrandom failed"))?;
    let private = temporary_of(&name.to_string_lossy(), disk.sys.process(), &random);
    let private = CString::new(private).unwrap_or_default();
    disk.write_new(directory, &private, bytes, Guard::OnceData)?;
    if !on(Guard::OnceKept) {
        let _ = disk.sys.unlink(directory.fd, name);
    }
    let linked = disk.sys.link(directory.fd, &private, directory.fd, name);
    let _ = disk.sys.unlink(directory.fd, &private);
    match linked {
        Ok(()) | Err(Errno(libc::EEXIST)) => disk.sync_directory(directory, Guard::OnceNames),
        Err(errno) => Err(failed("link", name, errno)),
    }
}

/// Which guard the sync of an item's data is, and which one that of its name:
/// told apart by where the item lies.
fn guards(item: &Item<'_>) -> (Guard, Guard) {
    let path = item.directory.path.to_bytes();
    if path.ends_with(INTENTS) {
        (Guard::IntentData, Guard::IntentNames)
    } else if path.ends_with(TRANSACTIONS) {
        (Guard::TransactionData, Guard::TransactionNames)
    } else if path.ends_with(STATE) {
        (Guard::ShardData, Guard::ShardNames)
    } else {
        (Guard::RecordData, Guard::RecordNames)
    }
}

/// Gives the staged change its name.
pub fn name(disk: &Disk, item: &Item<'_>, staged: &Staged) -> Result<()> {
    let fd = item.directory.fd;
    if let Some(temporary) = &staged.temporary {
        let renamed = disk.sys.rename(fd, temporary, &staged.name);
        renamed.map_err(|errno| failed("publish", &staged.name, errno))?;
    }
    match item.change {
        Change::Remove | Change::RemoveAgain(_) => match disk.sys.unlink(fd, &staged.name) {
            Ok(()) | Err(Errno(libc::ENOENT)) => Ok(()),
            Err(errno) => Err(failed("remove", &staged.name, errno)),
        },
        Change::Keep | Change::Rely | Change::Put(_) => Ok(()),
    }
}

/// Removes a staged change that got no name (H4).
pub fn discard(disk: &Disk, item: &Item<'_>, staged: &Staged) {
    if let Some(temporary) = staged.temporary.as_ref().filter(|_| on(Guard::StagedFile)) {
        let _ = disk.sys.unlink(item.directory.fd, temporary);
    }
}

/// [`attempt`] for who does not ask what a failure left.
pub fn all(disk: &Disk, items: &[Item<'_>]) -> Result<()> {
    attempt(disk, items).map_err(|failure| failure.error)
}

/// Publishes all items or none, while the caller holds all their locks, and
/// makes durable what they rely on. When a name fails, the members that already
/// changed get their old records back (H2); should that fail too, their new
/// records stay: leases with the current token, which their TTL ends.
pub fn attempt(disk: &Disk, items: &[Item<'_>]) -> std::result::Result<(), Failure> {
    let mut staged = Vec::with_capacity(items.len());
    for item in items {
        match stage(disk, item) {
            Ok(ready) => staged.push(ready),
            Err(error) => {
                items
                    .iter()
                    .zip(&staged)
                    .for_each(|(item, ready)| discard(disk, item, ready));
                let restored = true;
                return Err(Failure { error, restored });
            }
        }
    }
    for (position, (item, ready)) in items.iter().zip(&staged).enumerate() {
        if let Err(error) = name(disk, item, ready) {
            let rest = items.iter().zip(&staged).skip(position);
            rest.for_each(|(item, ready)| discard(disk, item, ready));
            let restored = restore(disk, &items[..position], item);
            return Err(Failure { error, restored });
        }
    }
    sync_directories(disk, items).map_err(|error| Failure {
        error,
        restored: false,
    })
}

/// Puts old records back; whether all of them are there, durably.
fn restore(disk: &Disk, changed: &[Item<'_>], failed: &Item<'_>) -> bool {
    // One that is removed again may have got halfway, back to its old record.
    let mut restored = !matches!(failed.change, Change::RemoveAgain(_));
    let changed = if on(Guard::Rollback) { changed } else { &[] };
    for item in changed.iter().filter(|item| item.changes()) {
        let back = match (item.change, item.old) {
            (Change::RemoveAgain(bytes), _) => Change::Put(bytes.clone()),
            (_, Some(bytes)) => Change::Put(bytes.to_vec()),
            (_, None) => Change::Remove,
        };
        let undo = Item {
            directory: item.directory,
            id: item.id,
            old: None,
            change: &back,
        };
        let undone = stage(disk, &undo).and_then(|staged| {
            let named = name(disk, &undo, &staged);
            if named.is_err() {
                discard(disk, &undo, &staged);
            }
            named
        });
        restored &= undone.is_ok();
    }
    let synced = !on(Guard::RollbackNames) || sync_directories(disk, changed).is_ok();
    synced && restored
}

/// Syncs each directory once in which something changed or is relied on. A
/// failure after a rename leaves a change whose durability is unknown.
fn sync_directories(disk: &Disk, items: &[Item<'_>]) -> Result<()> {
    let made = items.iter().any(Item::changes);
    let mut seen: Vec<i32> = Vec::new();
    for item in items.iter().filter(|item| *item.change != Change::Keep) {
        if seen.contains(&item.directory.fd.0) {
            continue;
        }
        seen.push(item.directory.fd.0);
        let synced = disk.sync_directory(item.directory, guards(item).1);
        let unknown_now = made && on(Guard::UnknownChange);
        synced.map_err(|error| if unknown_now { unknown(error) } else { error })?;
    }
    Ok(())
}

/// The error of a change that was made, but perhaps not durably.
pub fn unknown(error: Error) -> Error {
    Error {
        kind: Kind::Indeterminate,
        text: format!("{}; the change is made, its durability unknown", error.text),
        ..error
    }
}
