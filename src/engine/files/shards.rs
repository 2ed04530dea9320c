//! Publishing coverage shards: several only behind a durable transaction (C5).

use super::disk::Directory;
use super::merge::{Authority, Place, FILE_MAX};
use super::paths;
use super::publish::{self, unknown, Item};
use crate::engine::Change;
use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};
use crate::record::transaction::Transaction;

/// One shard on its way.
pub(super) struct Write<'a> {
    pub shard: u32,
    pub name: String,
    pub old: Option<&'a [u8]>,
    pub change: &'a Change,
    pub bytes: &'a [u8],
}

impl Write<'_> {
    pub fn item<'a>(&'a self, state: &'a Directory<'a>) -> Item<'a> {
        Item {
            directory: state,
            id: &self.name,
            old: self.old,
            change: self.change,
        }
    }
}

/// Publishes shards whose locks are held; several only behind a durable
/// transaction, and too many for one as several, in shard order.
pub(super) fn publish_shards(
    authority: &Authority,
    state: &Directory<'_>,
    writes: &[Write<'_>],
    novel: &[u64],
) -> Result<()> {
    let items: Vec<Item<'_>> = writes.iter().map(|write| write.item(state)).collect();
    if writes.len() < 2 || !on(Guard::TransactionLogged) {
        return publish::all(authority.disk(), &items);
    }
    let mut records = Vec::new();
    for write in writes {
        records.push(authority.parse(write.shard, write.bytes)?);
    }
    let transaction = Transaction {
        shard_count: authority.root.shards,
        coordinator: authority.coordinator.clone(),
        created: authority.disk().sys.realtime(),
        records,
        novel_by_candidate: novel.to_vec(),
    };
    let bytes = transaction.to_bytes();
    if bytes.len() as u64 > FILE_MAX {
        let (first, rest) = writes.split_at(writes.len() / 2);
        publish_shards(authority, state, first, novel)?;
        // The first half stands: not a clean failure any more.
        return publish_shards(authority, state, rest, novel).map_err(unsettled);
    }
    let place = log(authority, &transaction.file_name(), bytes)?;
    if let Err(error) = publish::all(authority.disk(), &items) {
        return Err(taken_back(authority, state, writes, &place, error));
    }
    let removed = authority.remove(&place);
    removed.map_err(|error| match on(Guard::UnknownLog) {
        true => unknown(error),
        false => error,
    })
}

/// The error of a logged merge whose publish failed. Wholly old again, and the
/// transaction gone: a clean failure. The transaction stands: the next caller
/// rolls it forward. It is gone, but perhaps not durably: it may come again.
fn taken_back(
    authority: &Authority,
    state: &Directory<'_>,
    writes: &[Write<'_>],
    place: &Place,
    error: Error,
) -> Error {
    let old = |write: &Write<'_>| {
        let now = authority.shard(state, write.shard);
        now.is_ok_and(|now| now.as_deref() == write.old)
    };
    if error.kind == Kind::Indeterminate || !writes.iter().all(old) {
        return unknown(error);
    }
    match authority.unlink(place) {
        Ok(None) => error,
        Ok(Some(directory)) => {
            let disk = authority.disk();
            match disk.sync_directory(&directory, Guard::TransactionTakenBack) {
                Ok(()) => error,
                Err(_) => unsettled(error),
            }
        }
        Err(_) => unknown(error),
    }
}

/// Makes a transaction durable before any shard changes.
fn log(authority: &Authority, name: &str, bytes: Vec<u8>) -> Result<Place> {
    let path = paths::transactions_path(&authority.root.path)?;
    let directory = authority.disk().make_folder(&path)?;
    let id = name.strip_suffix(".json").unwrap_or(name);
    let item = Item {
        directory: &directory,
        id,
        old: None,
        change: &Change::Put(bytes),
    };
    publish::all(authority.disk(), &[item])?;
    Ok(Place {
        id: id.to_string(),
        directory: path,
    })
}

/// The error of a merge that is made in part, or may yet be.
pub(super) fn unsettled(error: Error) -> Error {
    Error {
        kind: Kind::Unsettled,
        ..error
    }
}
