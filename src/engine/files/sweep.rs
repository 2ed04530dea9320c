//! Coverage temporaries that killed writers left (H4, F22).

use std::ffi::{CStr, CString};

use super::disk::{failed, Directory};
use super::{paths, Files};
use crate::error::Result;

impl Files {
    /// Temporaries of shards whose writers are gone. One of a transaction is
    /// proven abandoned only by the locks of all shards: its name tells none.
    pub(super) fn sweep_coverage(&self) -> Result<u64> {
        let Some(authority) = &self.coverage else {
            return Ok(0);
        };
        let disk = authority.disk();
        let names = |path: &CStr| -> Result<Option<(Directory<'_>, Vec<Vec<u8>>)>> {
            let Some(directory) = disk.directory(path)? else {
                return Ok(None);
            };
            let names = disk.sys.names(directory.fd);
            let names = names.map_err(|errno| failed("list", path, errno))?;
            Ok(Some((directory, names)))
        };
        let unlink = |directory: &Directory<'_>, name: &[u8]| {
            let gone =
                CString::new(name).is_ok_and(|name| disk.sys.unlink(directory.fd, &name).is_ok());
            u64::from(gone)
        };
        let mut removed = 0;
        let Some((state, files)) = names(&paths::state_path(&authority.root.path)?)? else {
            return Ok(0);
        };
        for name in &files {
            let Some(shard) = paths::shard_temporary(name) else {
                continue;
            };
            if let Ok(_locks) = self.lock_shards(authority, &state, &[shard], 0) {
                removed += unlink(&state, name);
            }
        }
        let Some((log, mut files)) = names(&paths::transactions_path(&authority.root.path)?)?
        else {
            return Ok(removed);
        };
        files.retain(|name| paths::temporary_id(name).is_some());
        let all: Vec<u32> = (0..authority.root.shards).collect();
        if !files.is_empty() {
            if let Ok(_locks) = self.lock_shards(authority, &state, &all, 0) {
                removed += files.iter().map(|name| unlink(&log, name)).sum::<u64>();
            }
        }
        Ok(removed)
    }
}
