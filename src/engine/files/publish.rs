//! Publishing: private temporaries, synced, renamed, directories synced. A
//! reader sees the old record or the new one, whole. The only module that
//! publishes.

use std::ffi::{CStr, CString};

use super::disk::{failed, Directory, Disk};
use super::paths::{record_name, temporary_name, temporary_of};
use crate::engine::Change;
use crate::error::{Error, Kind, Result};
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

/// Writes an item's new bytes under a private name.
pub fn stage(disk: &Disk, item: &Item<'_>) -> Result<Staged> {
    let name = CString::new(record_name(item.id)).unwrap_or_default();
    let temporary = match item.change {
        Change::Put(bytes) => Some(write(disk, item, bytes)?),
        Change::Keep | Change::Remove => None,
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
    disk.write_new(item.directory, &temporary, bytes)?;
    Ok(temporary)
}

/// Publishes a file that never changes: written privately, synced, and linked
/// into place, so it appears whole and never over another. Who loses the race
/// has nothing to do.
pub fn once(disk: &Disk, directory: &Directory<'_>, name: &CStr, bytes: &[u8]) -> Result<()> {
    let mut random = [0u8; 8];
    disk.sys
        .random(&mut random)
        .map_err(|errno| Error::system(Kind::Io, errno.0, "getrandom failed"))?;
    let private = temporary_of(&name.to_string_lossy(), disk.sys.process(), &random);
    let private = CString::new(private).unwrap_or_default();
    disk.write_new(directory, &private, bytes)?;
    let linked = disk.sys.link(directory.fd, &private, directory.fd, name);
    let _ = disk.sys.unlink(directory.fd, &private);
    match linked {
        Ok(()) | Err(Errno(libc::EEXIST)) => disk.sync_directory(directory),
        Err(errno) => Err(failed("link", name, errno)),
    }
}

/// Gives the staged change its name.
pub fn name(disk: &Disk, item: &Item<'_>, staged: &Staged) -> Result<()> {
    let fd = item.directory.fd;
    match (&staged.temporary, item.change) {
        (Some(temporary), _) => disk
            .sys
            .rename(fd, temporary, &staged.name)
            .map_err(|errno| failed("publish", &staged.name, errno)),
        (None, Change::Remove) => match disk.sys.unlink(fd, &staged.name) {
            Ok(()) | Err(Errno(libc::ENOENT)) => Ok(()),
            Err(errno) => Err(failed("remove", &staged.name, errno)),
        },
        (None, _) => Ok(()),
    }
}

/// Removes a staged change that got no name (H4).
pub fn discard(disk: &Disk, item: &Item<'_>, staged: &Staged) {
    if let Some(temporary) = &staged.temporary {
        let _ = disk.sys.unlink(item.directory.fd, temporary);
    }
}

/// Publishes all items or none, while the caller holds all their locks. When a
/// name fails, the members that already changed get their old records back
/// (H2); should that fail too, their new records stay: leases with the current
/// token, which their TTL ends.
pub fn all(disk: &Disk, items: &[Item<'_>]) -> Result<()> {
    let mut staged = Vec::with_capacity(items.len());
    for item in items {
        match stage(disk, item) {
            Ok(ready) => staged.push(ready),
            Err(error) => {
                items
                    .iter()
                    .zip(&staged)
                    .for_each(|(item, ready)| discard(disk, item, ready));
                return Err(error);
            }
        }
    }
    for (position, (item, ready)) in items.iter().zip(&staged).enumerate() {
        if let Err(error) = name(disk, item, ready) {
            let rest = items.iter().zip(&staged).skip(position);
            rest.for_each(|(item, ready)| discard(disk, item, ready));
            restore(disk, &items[..position]);
            return Err(error);
        }
    }
    sync_directories(disk, items)
}

fn restore(disk: &Disk, changed: &[Item<'_>]) {
    for item in changed.iter().filter(|item| *item.change != Change::Keep) {
        let back = match item.old {
            Some(bytes) => Change::Put(bytes.to_vec()),
            None => Change::Remove,
        };
        let undo = Item {
            directory: item.directory,
            id: item.id,
            old: None,
            change: &back,
        };
        if let Ok(staged) = stage(disk, &undo) {
            if name(disk, &undo, &staged).is_err() {
                discard(disk, &undo, &staged);
            }
        }
    }
    let _ = sync_directories(disk, changed);
}

/// Syncs each changed directory once. A failure after the rename leaves a
/// change whose durability is unknown.
fn sync_directories(disk: &Disk, items: &[Item<'_>]) -> Result<()> {
    let mut seen: Vec<i32> = Vec::new();
    for item in items.iter().filter(|item| *item.change != Change::Keep) {
        if seen.contains(&item.directory.fd.0) {
            continue;
        }
        seen.push(item.directory.fd.0);
        disk.sync_directory(item.directory).map_err(|error| Error {
            kind: Kind::Indeterminate,
            text: format!("{}; the change is made, its durability unknown", error.text),
            ..error
        })?;
    }
    Ok(())
}
