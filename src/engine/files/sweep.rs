//! Temporaries and sessions that killed writers left (H4, F22, D1).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};

use super::disk::{failed, Directory, Disk};
use super::lock::take;
use super::merge::Authority;
use super::root::Root;
use super::{paths, Files};
use crate::error::Result;
use crate::guard::{on, Guard};
use crate::record::id::shard_of;
use crate::record::lease::Lease;

/// Every session that a record of a root names.
pub(super) fn named_sessions(root: &Root) -> Result<BTreeSet<String>> {
    let mut named = BTreeSet::new();
    let mut failure = None;
    root.each_name(&mut |directory, _, name| {
        let Some(id) = paths::record_id(name) else {
            return;
        };
        match root.record(directory, id) {
            Ok(Some(bytes)) => {
                let lease = Lease::parse(id, &bytes);
                named.extend(lease.ok().and_then(|lease| lease.session()));
            }
            Ok(None) => {}
            // What cannot be read may name any: nothing is removed.
            Err(error) => failure = Some(error),
        }
    })?;
    failure.map_or(Ok(named), Err)
}

impl Files {
    /// Removes a name if it is a temporary whose writer is gone: holding the
    /// record's lock is the only proof of that (H4, F22). Answers how many.
    pub(super) fn sweep_one(&self, root: &Root, directory: &Directory<'_>, name: &[u8]) -> u64 {
        let Some(id) = paths::temporary_id(name) else {
            return 0;
        };
        let locked = take(&root.disk, &self.waits, directory, id, 0);
        if locked.is_err() && on(Guard::SweepLocked) {
            return 0;
        }
        let unlink = |name: CString| root.disk.sys.unlink(directory.fd, &name).is_ok();
        u64::from(CString::new(name).is_ok_and(unlink))
    }

    /// Sweeps the folders where this handle makes its first change (H4). What
    /// cannot be swept is left: the change itself says what is wrong there.
    pub(super) fn sweep_first(
        &self,
        root: &Root,
        keys: &[String],
        open: &BTreeMap<CString, Directory<'_>>,
    ) {
        for key in keys {
            if !root.sweeps(shard_of(key, root.shards)) {
                continue;
            }
            let Some(directory) = root.folder(key).ok().and_then(|path| open.get(&path)) else {
                continue;
            };
            for name in root.disk.sys.names(directory.fd).unwrap_or_default() {
                self.sweep_one(root, directory, &name);
            }
        }
    }

    /// Temporaries of shards whose writers are gone. One of a transaction is
    /// proven abandoned only by the locks of all shards: its name tells none.
    pub(super) fn sweep_coverage(&self) -> Result<u64> {
        let Some(authority) = &self.coverage else {
            return Ok(0);
        };
        let disk = authority.disk();
        let names = |path: &CStr| -> Result<Option<(Directory<'_>, Vec<Vec<u8>>)>> {
            let Some(directory) = disk.folder(path)? else {
                return Ok(None);
            };
            let names = disk.sys.names(directory.fd);
            let names = names.map_err(|errno| failed("list", path, errno))?;
            Ok(Some((directory, names)))
        };
        let mut removed = self.sweep_root(&authority.root)?;
        removed += self.sweep_coordinators(authority)?;
        let Some((state, files)) = names(&paths::state_path(&authority.root.path)?)? else {
            return Ok(removed);
        };
        for name in &files {
            let Some(shard) = paths::shard_temporary(name) else {
                continue;
            };
            let locked = self.lock_shards(authority, &state, &[shard], 0);
            if locked.is_ok() || !on(Guard::SweepShardLocked) {
                removed += u64::from(unlink(disk, &state, name));
            }
        }
        let Some((log, mut files)) = names(&paths::transactions_path(&authority.root.path)?)?
        else {
            return Ok(removed);
        };
        files.retain(|name| paths::temporary_id(name).is_some());
        let all: Vec<u32> = (0..authority.root.shards).collect();
        if !files.is_empty() {
            let locked = self.lock_shards(authority, &state, &all, 0);
            if locked.is_ok() || !on(Guard::SweepShardLocked) {
                let gone = files.iter().filter(|name| unlink(disk, &log, name));
                removed += gone.count() as u64;
            }
        }
        Ok(removed)
    }

    /// Private names of files that are made once. A maker who still lives makes
    /// another (`publish::once`).
    pub(super) fn sweep_root(&self, root: &Root) -> Result<u64> {
        let path = paths::c_path(root.path.clone())?;
        let Some(directory) = root.disk.directory(&path)? else {
            return Ok(0);
        };
        let sys = &root.disk.sys;
        let names = sys.names(directory.fd);
        let mut removed = 0;
        for name in names.map_err(|errno| failed("list", &path, errno))? {
            if paths::own_temporary(&name).is_some() {
                removed += u64::from(unlink(&root.disk, &directory, &name));
            }
        }
        Ok(removed)
    }

    /// Coordinators' heartbeats that were never published.
    fn sweep_coordinators(&self, authority: &Authority) -> Result<u64> {
        let (disk, path) = (
            authority.disk(),
            paths::coordinators_path(&authority.root.path)?,
        );
        let Some(directory) = disk.folder(&path)? else {
            return Ok(0);
        };
        let names = disk.sys.names(directory.fd);
        let mut removed = 0;
        for name in names.map_err(|errno| failed("list", &path, errno))? {
            let Some(id) = paths::own_temporary(&name) else {
                continue;
            };
            if let Ok(_lock) = take(disk, &self.waits, &directory, id, 0) {
                removed += u64::from(unlink(disk, &directory, &name));
            }
        }
        Ok(removed)
    }
}

fn unlink(disk: &Disk, directory: &Directory<'_>, name: &[u8]) -> bool {
    CString::new(name).is_ok_and(|name| disk.sys.unlink(directory.fd, &name).is_ok())
}
