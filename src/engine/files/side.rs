//! What the authority keeps beside its shards, and reading without locks.

use std::ffi::CString;

use super::disk::{failed, Directory};
use super::lock::{take, Waits};
use super::merge::Authority;
use super::paths;
use super::publish::{self, Item};
use crate::engine::{Change, Read, Side};
use crate::error::Result;
use crate::record::shard::Shard;

impl Authority {
    /// A shard as it was last published.
    pub fn read_shard(&self, shard: u32) -> Read {
        match self.disk().folder(&paths::state_path(&self.root.path)?)? {
            Some(state) => self.shard(&state, shard),
            None => Ok(None),
        }
    }

    /// The records of all logged merges.
    pub fn pending_records(&self) -> Result<Vec<Shard>> {
        let mut records = Vec::new();
        for place in self.places()? {
            records.extend(
                self.transaction(&place)?
                    .into_iter()
                    .flat_map(|found| found.records),
            );
        }
        Ok(records)
    }

    /// Who has left a heartbeat, rising.
    pub fn coordinators(&self) -> Result<Vec<u32>> {
        let path = paths::coordinators_path(&self.root.path)?;
        let Some(directory) = self.disk().folder(&path)? else {
            return Ok(Vec::new());
        };
        let names = self.disk().sys.names(directory.fd);
        let names = names.map_err(|errno| failed("list", &path, errno))?;
        let numbers = names.iter().filter_map(|name| paths::shard_number(name));
        let mut all: Vec<u32> = numbers.filter(|index| *index < 4096).collect();
        all.sort_unstable();
        Ok(all)
    }

    /// A small file.
    pub fn read_side(&self, side: Side) -> Read {
        let (path, id) = self.side(side)?;
        let name = CString::new(paths::record_name(&id)).unwrap_or_default();
        let open = match side {
            Side::Map => self.disk().directory(&path)?,
            Side::Coordinator(_) => self.disk().folder(&path)?,
        };
        match open {
            Some(directory) => self.disk().read(&directory, &name),
            None => Ok(None),
        }
    }

    /// Writes a small file.
    pub fn write_side(&self, side: Side, bytes: &[u8]) -> Result<()> {
        self.root.ensure()?;
        let (path, id) = self.side(side)?;
        let directory: Directory<'_> = match side {
            Side::Map => self.disk().make_directory(&path)?,
            Side::Coordinator(_) => self.disk().make_folder(&path)?,
        };
        match side {
            Side::Map => {
                let name = CString::new(paths::record_name(&id)).unwrap_or_default();
                publish::once(self.disk(), &directory, &name, bytes)
            }
            Side::Coordinator(_) => {
                // For the sweep: whoever holds it has a temporary (H4).
                let deadline = self.deadline();
                let _lock = take(self.disk(), &Waits::default(), &directory, &id, deadline)?;
                let change = Change::Put(bytes.to_vec());
                let item = Item {
                    directory: &directory,
                    id: &id,
                    old: None,
                    change: &change,
                };
                publish::all(self.disk(), &[item])
            }
        }
    }

    fn side(&self, side: Side) -> Result<(CString, String)> {
        Ok(match side {
            Side::Map => (
                paths::c_path(self.root.path.clone())?,
                paths::MAP.to_string(),
            ),
            Side::Coordinator(index) => (
                paths::coordinators_path(&self.root.path)?,
                paths::coordinator_name(index),
            ),
        })
    }
}
