//! What a handle publishes of itself beside its session, for those who watch.
//! Nothing is decided by it, so a lost one is no loss: nothing is synced.

use std::collections::BTreeSet;
use std::ffi::CString;

use super::disk::{failed, Directory};
use super::paths;
use super::root::Root;
use crate::engine::survey::Session;
use crate::engine::{Counters, Table};
use crate::error::Result;
use crate::record::counters::Published;
use crate::record::session::{parse_name, Header, SESSION_MAX};
use crate::sys::Errno;

impl Root {
    /// Puts counters beside this handle's session, where it has one.
    pub fn publish_counters(&self, counters: &dyn Fn() -> Result<Published>) -> Result<()> {
        let disk = &self.disk;
        if !self.sessions.wanted(disk) {
            return Ok(());
        }
        let Some(own) = self.sessions.current() else {
            return Ok(());
        };
        let Some(directory) = disk.folder(&paths::sessions_path(&self.path)?)? else {
            return Ok(());
        };
        let name = paths::session_counters(&own.name);
        let private = paths::c_path(paths::session_temporary(&name).into_bytes())?;
        let name = paths::c_path(name.into_bytes())?;
        disk.write_unsynced(&directory, &private, &counters()?.to_bytes())?;
        let renamed = disk.sys.rename(directory.fd, &private, &name);
        renamed.map_err(|errno| {
            let _ = disk.sys.unlink(directory.fd, &private);
            failed("publish counters", &name, errno)
        })
    }

    /// Removes counters whose session is gone (it appears before them, D5), and
    /// unpublished ones unless it is known to live (H4): a living writer that
    /// nobody here can test loses one publication, and makes the next.
    pub(super) fn sweep_counters(&self, directory: &Directory<'_>) -> Result<u64> {
        let sys = &*self.disk.sys;
        let names = sys.names(directory.fd);
        let names = names.map_err(|errno| failed("list", &directory.path, errno))?;
        let texts: BTreeSet<String> = names
            .into_iter()
            .filter_map(|name| String::from_utf8(name).ok())
            .collect();
        let mut removed = 0;
        for text in &texts {
            let private = paths::temporary_session(text);
            let session = paths::counted_session(private.unwrap_or(text));
            let Some(session) = session.filter(|one| parse_name(one).is_some()) else {
                continue;
            };
            // Looked at anew: it may have come since the listing.
            let (name, file) = (CString::new(text.as_str()), CString::new(session));
            if let (Ok(name), Ok(file)) = (name, file) {
                let gone = sys.stat_at(directory.fd, &file) == Err(Errno(libc::ENOENT));
                let left = gone || private.is_some() && !self.is_alive(session);
                removed += u64::from(left && sys.unlink(directory.fd, &name).is_ok());
            }
        }
        Ok(removed)
    }

    /// Every session of this root; reads only (M4).
    pub(super) fn all_sessions(&self, table: Table) -> Result<Vec<Session>> {
        let disk = &self.disk;
        let Some(directory) = disk.folder(&paths::sessions_path(&self.path)?)? else {
            return Ok(Vec::new());
        };
        let names = disk.sys.names(directory.fd);
        let mut names = names.map_err(|errno| failed("list", &directory.path, errno))?;
        names.sort();
        let read = |name: &str| {
            let name = CString::new(name).ok()?;
            let bytes = disk.read_within(&directory, &name, SESSION_MAX);
            bytes.ok().flatten()
        };
        let session = |name: Vec<u8>| {
            let name = String::from_utf8(name).ok()?;
            let parsed = parse_name(&name)?;
            let header = read(&name).and_then(|bytes| Header::parse(&bytes).ok());
            let counters = read(&paths::session_counters(&name));
            let (owner, host) = header.map_or_else(Default::default, |h| (h.owner, h.host));
            Some(Session {
                table,
                presence: self.presence(&name),
                owner,
                host,
                process: parsed.process,
                counters: counters.and_then(|bytes| Published::parse(&bytes).ok()),
                name,
            })
        };
        Ok(names.into_iter().filter_map(session).collect())
    }
}

/// What is published at `updated`, in Unix seconds.
pub(super) fn published(counters: &Counters, handle: &str, owner: &str, updated: f64) -> Published {
    let last = counters.waits.iter().rposition(|count| *count > 0);
    Published {
        handle: handle.to_string(),
        owner: owner.to_string(),
        updated: if updated.is_finite() {
            updated.max(0.0)
        } else {
            0.0
        },
        values: [
            counters.contended,
            counters.indeterminate,
            counters.locks,
            counters.retries,
            counters.syncs,
            counters.timeouts,
            counters.unsynced,
            counters.wait_ns,
        ],
        waits: counters.waits[..last.map_or(0, |last| last + 1)].to_vec(),
    }
}
