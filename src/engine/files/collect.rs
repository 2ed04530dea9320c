//! What goes for good once nobody uses a campaign: done records, lock files,
//! sessions. Before the first record goes, the fence floor is raised over it.

use std::collections::BTreeSet;
use std::ffi::CString;

use super::disk::{failed, Directory};
use super::lock::{take, take_named};
use super::publish::{self, Item};
use super::root::Root;
use super::sweep::named_sessions;
use super::{paths, Files};
use crate::engine::{Change, Collected, Engine};
use crate::error::{Error, Kind, Result};
use crate::guard::Guard;
use crate::record::identity::floor_bytes;
use crate::record::lease::{Lease, Status};
use crate::record::session::parse_name;

/// A done record with a higher fence stays: a floor there would leave too few
/// numbers to all others. Clocks reach it in the year 2262.
const FENCE_MAX: u64 = i64::MAX as u64;

/// How often the floor is written anew because a sweep took its private name.
const SWEPT_MAX: u32 = 100;

impl Files {
    /// `Engine::collect`.
    pub(super) fn collect_root(&self, root: &Root) -> Result<Collected> {
        let mut all = Collected::default();
        if !root.exists()? {
            return Ok(all);
        }
        root.ensure()?;
        let floor = highest_done(root)?;
        if let Some(floor) = floor {
            self.raise_floor(root, floor)?;
        }
        for shard in 0..root.shards {
            let path = paths::folder_path(&root.path, shard)?;
            if let Some(directory) = root.disk.folder(&path)? {
                self.collect_folder(root, &directory, floor.unwrap_or(0), &mut all)?;
            }
        }
        all.sessions = collect_sessions(root)?;
        Ok(all)
    }

    fn collect_folder(
        &self,
        root: &Root,
        directory: &Directory<'_>,
        floor: u64,
        all: &mut Collected,
    ) -> Result<()> {
        let sys = &root.disk.sys;
        let names = sys.names(directory.fd);
        let names = names.map_err(|errno| failed("list", &directory.path, errno))?;
        let ids: BTreeSet<&str> = names
            .iter()
            .filter_map(|name| paths::record_id(name).or_else(|| paths::locked_id(name)))
            .collect();
        let before = all.records;
        for id in ids {
            // One that is busy says that somebody is at work after all.
            let lock = take(&root.disk, &self.waits, directory, id, 0)?;
            let record = root.record(directory, id);
            if record.is_ok_and(|bytes| may_go(id, bytes.as_deref(), floor)) {
                let name = CString::new(paths::record_name(id)).unwrap_or_default();
                let removed = sys.unlink(directory.fd, &name);
                removed.map_err(|errno| failed("remove", &name, errno))?;
                all.records += 1;
            }
            // While it is held: whoever waits for it looks where its path leads (L5).
            let name = CString::new(paths::lock_name(id)).unwrap_or_default();
            let removed = sys.unlink(directory.fd, &name);
            removed.map_err(|errno| failed("remove", &name, errno))?;
            all.locks += u64::from(names.iter().any(|there| there == name.to_bytes()));
            drop(lock);
        }
        match all.records > before {
            true => root.disk.sync_directory(directory, Guard::BatchNames),
            false => Ok(()),
        }
    }

    /// Raises the root's fence floor, durably; it never falls. The identity's
    /// file, which never changes, is locked meanwhile.
    fn raise_floor(&self, root: &Root, least: u64) -> Result<()> {
        let path = paths::c_path(root.path.clone())?;
        let Some(directory) = root.disk.directory(&path)? else {
            return Ok(());
        };
        let (file, deadline) = (paths::IDENTITY.to_string_lossy(), self.deadline());
        let _lock = take_named(&root.disk, &self.waits, &directory, &file, &file, deadline)?;
        // Published anew where it is high enough, too: whoever raised it may not
        // have made it durable, and a sync alone would not prove that (F17).
        let change = Change::Put(floor_bytes(root.read_floor()?.max(least)));
        let item = Item {
            directory: &directory,
            id: paths::FENCE_ID,
            old: None,
            change: &change,
        };
        let mut tries = SWEPT_MAX;
        loop {
            match publish::all(&root.disk, &[Item { ..item }]) {
                Err(error) if error.errno == libc::ENOENT && tries > 0 => tries -= 1,
                other => break other?,
            }
        }
        root.read_floor().map(|_| ())
    }
}

/// The highest fence of the records that may go; `None`: none may.
fn highest_done(root: &Root) -> Result<Option<u64>> {
    let mut highest = None;
    root.each_name(&mut |directory, _, name| {
        let Some(id) = paths::record_id(name) else {
            return;
        };
        // What cannot be read stays.
        let Ok(Some(bytes)) = root.record(directory, id) else {
            return;
        };
        if may_go(id, Some(&bytes), FENCE_MAX) {
            let fence = Lease::parse(id, &bytes).ok().and_then(|one| one.fence());
            highest = highest.max(Some(fence.unwrap_or(0)));
        }
    })?;
    Ok(highest)
}

/// Whether a record is done, and its fence not above the floor.
fn may_go(id: &str, bytes: Option<&[u8]>, floor: u64) -> bool {
    let lease = bytes.and_then(|bytes| Lease::parse(id, bytes).ok());
    lease.is_some_and(|lease| {
        lease.status() == Status::Done && lease.fence().unwrap_or(0) <= floor.min(FENCE_MAX)
    })
}

/// Removes the sessions that no record names any more and that are not known to
/// live: that their processes have stopped is the caller's word.
fn collect_sessions(root: &Root) -> Result<u64> {
    let disk = &root.disk;
    let Some(directory) = disk.folder(&paths::sessions_path(&root.path)?)? else {
        return Ok(0);
    };
    let named = named_sessions(root)?;
    let names = disk.sys.names(directory.fd);
    let mut removed = 0;
    for name in names.map_err(|errno| failed("list", &directory.path, errno))? {
        let Ok(name) = String::from_utf8(name) else {
            continue;
        };
        if parse_name(&name).is_none() || named.contains(&name) || root.is_alive(&name) {
            continue;
        }
        let file = CString::new(name).unwrap_or_default();
        removed += u64::from(disk.sys.unlink(directory.fd, &file).is_ok());
    }
    root.sweep_counters(&directory)?;
    Ok(removed)
}

/// Refuses where a session of the root is known to live.
pub(super) fn all_stopped(root: &Root) -> Result<()> {
    let Some(directory) = root.disk.folder(&paths::sessions_path(&root.path)?)? else {
        return Ok(());
    };
    let names = root.disk.sys.names(directory.fd);
    for name in names.map_err(|errno| failed("list", &directory.path, errno))? {
        let Ok(name) = String::from_utf8(name) else {
            continue;
        };
        if parse_name(&name).is_some() && root.is_alive(&name) {
            let path = directory.path.to_string_lossy();
            let text = format!("{path}/{name}: a coordinator with this session is at work");
            return Err(Error::new(Kind::Invalid, text));
        }
    }
    Ok(())
}
