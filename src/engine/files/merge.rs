//! Coverage: shards changed under their locks in rising order, several at once
//! behind a write-ahead transaction that the next caller settles when its
//! writer dies half way (C5).

use std::ffi::CString;
use std::sync::Arc;

use super::disk::{failed, Directory, Disk};
use super::lock::{take_named, Lock};
use super::paths;
use super::publish::{self, Item};
use super::root::{Named, Root};
use super::Files;
use crate::engine::{Change, DecideMerge, Read};
use crate::error::{Error, Kind, Result};
use crate::record::shard::Shard;
use crate::record::transaction::{union, Transaction};
use crate::sys::{Errno, Sys};

/// The largest shard file and the largest transaction (`format.md`).
const FILE_MAX: u64 = 64 << 20;

/// How a coverage root is opened.
#[derive(Clone, Debug)]
pub struct Coverage {
    /// The root, absolute; bytes, not UTF-8 (F11).
    pub root: Vec<u8>,
    /// What belongs to the campaign and was named by the caller (M1).
    pub named: Named,
    /// Shards where neither the caller nor the root names a count.
    pub shards: u32,
    /// Written into transactions.
    pub coordinator: String,
    /// Nanoseconds a lock is waited for; 0: one try (F35).
    pub lock_timeout: u64,
    /// Every change is refused.
    pub read_only: bool,
}

/// An open coverage root.
pub struct Authority {
    /// Its files.
    pub root: Root,
    coordinator: String,
    lock_timeout: u64,
}

/// Where a transaction stands: its directory, and its name without ending.
pub(super) struct Place {
    directory: CString,
    id: String,
}

type Locks<'a> = Vec<(String, Lock<'a>)>;

impl Authority {
    pub(super) fn disk(&self) -> &Disk {
        &self.root.disk
    }

    fn state(&self) -> Result<Directory<'_>> {
        self.disk()
            .make_directory(&paths::state_path(&self.root.path)?)
    }

    pub(super) fn shard(&self, state: &Directory<'_>, shard: u32) -> Read {
        self.disk()
            .read_within(state, &file(&paths::shard_name(shard)), FILE_MAX)
    }

    fn parse(&self, shard: u32, bytes: &[u8]) -> Result<Shard> {
        Shard::parse(shard, self.root.shards, bytes).map_err(|why| {
            let text = format!("coverage shard {shard}: {why}");
            Error::new(Kind::Corrupt, text)
        })
    }

    /// The places where a transaction may be pending; makes nothing.
    pub(super) fn places(&self) -> Result<Vec<Place>> {
        let path = paths::c_path(self.root.path.clone())?;
        let mut found = vec![Place {
            directory: path,
            id: paths::OLD_TRANSACTION.to_string(),
        }];
        let path = paths::transactions_path(&self.root.path)?;
        if let Some(directory) = self.disk().directory(&path)? {
            let names = self.disk().sys.names(directory.fd);
            let names = names.map_err(|errno| failed("list", &path, errno))?;
            found.extend(names.iter().filter_map(|name| {
                Some(Place {
                    directory: path.clone(),
                    id: paths::record_id(name)?.to_string(),
                })
            }));
        }
        Ok(found)
    }

    /// The transaction at a place. One that cannot be read is CORRUPT and stops
    /// the caller: it must never be passed by (`format.md`).
    pub(super) fn transaction(&self, place: &Place) -> Result<Option<Transaction>> {
        let Some(directory) = self.disk().directory(&place.directory)? else {
            return Ok(None);
        };
        let name = file(&place.id);
        let Some(bytes) = self.disk().read_within(&directory, &name, FILE_MAX)? else {
            return Ok(None);
        };
        let parsed = Transaction::parse(self.root.shards, &bytes);
        parsed.map(Some).map_err(|why| {
            let text = format!("coverage transaction {}: {why}", name.to_string_lossy());
            Error::new(Kind::Corrupt, text)
        })
    }

    /// A pending transaction that touches one of the shards. Under their locks
    /// its writer is dead: a living one would hold them.
    fn pending(&self, shards: &[u32]) -> Result<Option<Place>> {
        for place in self.places()? {
            let found = self.transaction(&place)?;
            let touches = |found: Transaction| {
                let mut numbers = found.records.iter().map(|record| record.shard);
                numbers.any(|number| shards.contains(&number))
            };
            if found.is_some_and(touches) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn remove(&self, place: &Place) -> Result<()> {
        let Some(directory) = self.disk().directory(&place.directory)? else {
            return Ok(());
        };
        let name = file(&place.id);
        match self.disk().sys.unlink(directory.fd, &name) {
            Ok(()) => self.disk().sync_directory(&directory),
            Err(Errno(libc::ENOENT)) => Ok(()),
            Err(errno) => Err(failed("remove", &name, errno)),
        }
    }
}

fn file(id: &str) -> CString {
    CString::new(paths::record_name(id)).unwrap_or_default()
}

fn unknown(error: Error) -> Error {
    Error {
        kind: Kind::Indeterminate,
        ..error
    }
}

impl Files {
    /// The coverage authority, where one was opened.
    pub(super) fn authority(&self) -> Result<&Authority> {
        let text = "coverage_root: this campaign was opened without one";
        self.coverage
            .as_ref()
            .ok_or_else(|| Error::new(Kind::Invalid, text))
    }
}

/// One shard on its way.
struct Write<'a> {
    shard: u32,
    name: String,
    old: Option<&'a [u8]>,
    change: &'a Change,
    bytes: &'a [u8],
}

impl Files {
    /// Adds the coverage authority, opened without touching anything (M4).
    pub fn with_coverage(mut self, sys: Arc<dyn Sys>, options: Coverage) -> Result<Files> {
        self.coverage = Some(Authority {
            root: Root::open(
                sys,
                options.root,
                options.named,
                options.shards,
                options.read_only,
            )?,
            coordinator: options.coordinator,
            lock_timeout: options.lock_timeout,
        });
        Ok(self)
    }

    /// `Engine::merge`.
    pub(super) fn merge_shards(&self, shards: &[u32], decide: &mut DecideMerge<'_>) -> Result<()> {
        let authority = self.authority()?;
        if let Some(shard) = shards.iter().find(|s| **s >= authority.root.shards) {
            let text = format!("shard {shard}: beyond {}", authority.root.shards);
            return Err(Error::new(Kind::Invalid, text));
        }
        authority.root.ensure()?;
        let sys = &authority.disk().sys;
        let deadline = sys.monotonic().saturating_add(authority.lock_timeout);
        let state = authority.state()?;
        if authority.root.sweeps(0) {
            // What cannot be swept is left: the merge itself says what is wrong (H4).
            let _ = self.sweep_coverage();
        }
        loop {
            let locks = self.lock_shards(authority, &state, shards, deadline)?;
            let Some(place) = authority.pending(shards)? else {
                self.merge_locked(authority, &state, shards, decide)?;
                return self.confirm(&locks);
            };
            drop(locks);
            self.settle(authority, &state, &place, deadline)?;
            if sys.monotonic() >= deadline && authority.lock_timeout > 0 {
                let text = "coverage: pending transactions were settled until the deadline";
                return Err(Error::new(Kind::Timeout, text));
            }
        }
    }

    /// Their locks, taken in rising order.
    pub(super) fn lock_shards<'a>(
        &self,
        authority: &'a Authority,
        state: &Directory<'_>,
        shards: &[u32],
        deadline: u64,
    ) -> Result<Locks<'a>> {
        let take = |shard: &u32| {
            let (lock, name) = (
                paths::shard_lock_name(*shard),
                format!("coverage shard {shard}"),
            );
            let held = take_named(authority.disk(), &self.waits, state, &lock, &name, deadline)?;
            Ok((name, held))
        };
        shards.iter().map(take).collect()
    }

    /// Rolls a dead writer's transaction forward under the locks of all its
    /// shards: each record is ORed in, no bit is ever taken away.
    fn settle(
        &self,
        authority: &Authority,
        state: &Directory<'_>,
        place: &Place,
        deadline: u64,
    ) -> Result<()> {
        let numbers = |found: &Transaction| -> Vec<u32> {
            found.records.iter().map(|record| record.shard).collect()
        };
        let Some(first) = authority.transaction(place)? else {
            return Ok(());
        };
        let locks = self.lock_shards(authority, state, &numbers(&first), deadline)?;
        // Another caller may have settled it, or replaced the old name's.
        let found = match authority.transaction(place)? {
            Some(found) if numbers(&found) == numbers(&first) => found,
            _ => return Ok(()),
        };
        let mut changes = Vec::new();
        for logged in &found.records {
            let shard = logged.shard;
            let old = authority.shard(state, shard)?;
            let new = match &old {
                None => Some(logged.to_bytes()),
                Some(bytes) => {
                    let base = authority.parse(shard, bytes)?;
                    union(&base, logged).map(|both| both.to_bytes())
                }
            };
            if let Some(bytes) = new {
                changes.push((paths::shard_name(shard), old, Change::Put(bytes)));
            }
        }
        let items: Vec<Item<'_>> = changes
            .iter()
            .map(|(name, old, change)| Item {
                directory: state,
                id: name,
                old: old.as_deref(),
                change,
            })
            .collect();
        publish::all(authority.disk(), &items)?;
        self.confirm(&locks)?;
        authority.remove(place)
    }

    fn merge_locked(
        &self,
        authority: &Authority,
        state: &Directory<'_>,
        shards: &[u32],
        decide: &mut DecideMerge<'_>,
    ) -> Result<()> {
        let reads: Vec<Read> = shards.iter().map(|s| authority.shard(state, *s)).collect();
        let (changes, novel) = decide(&reads)?;
        let bug = |text: &str| Err(Error::new(Kind::Internal, text));
        if changes.len() != shards.len() {
            return bug("a decision did not cover all of its shards");
        }
        let mut writes = Vec::new();
        for ((shard, read), change) in shards.iter().zip(&reads).zip(&changes) {
            let bytes = match (change, read) {
                (Change::Keep, _) => continue,
                (Change::Remove, _) => return bug("a coverage shard is never removed"),
                // Damaged is not empty (C1).
                (_, Err(error)) => return Err(error.clone()),
                (Change::Put(bytes), Ok(_)) => bytes,
            };
            if bytes.len() as u64 > FILE_MAX {
                let text = format!("coverage shard {shard}: more than {FILE_MAX} bytes");
                return Err(Error::new(Kind::Limit, text));
            }
            writes.push(Write {
                shard: *shard,
                name: paths::shard_name(*shard),
                old: read.as_ref().ok().and_then(|old| old.as_deref()),
                change,
                bytes,
            });
        }
        publish_shards(authority, state, &writes, &novel)
    }
}

/// Publishes shards whose locks are held; several only behind a durable
/// transaction, and too many for one as several, in shard order.
fn publish_shards(
    authority: &Authority,
    state: &Directory<'_>,
    writes: &[Write<'_>],
    novel: &[u64],
) -> Result<()> {
    let items: Vec<Item<'_>> = writes
        .iter()
        .map(|write| Item {
            directory: state,
            id: &write.name,
            old: write.old,
            change: write.change,
        })
        .collect();
    if writes.len() < 2 {
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
        return publish_shards(authority, state, rest, novel).map_err(unknown);
    }
    let place = log(authority, &transaction.file_name(), bytes)?;
    if let Err(error) = publish::all(authority.disk(), &items) {
        // Wholly old again, and the transaction gone: a clean failure. Else the
        // next caller rolls it forward.
        let old = |write: &Write<'_>| {
            let now = authority.shard(state, write.shard);
            now.is_ok_and(|now| now.as_deref() == write.old)
        };
        let clean = error.kind != Kind::Indeterminate
            && writes.iter().all(old)
            && authority.remove(&place).is_ok();
        return Err(if clean { error } else { unknown(error) });
    }
    authority.remove(&place).map_err(unknown)
}

/// Makes a transaction durable before any shard changes.
fn log(authority: &Authority, name: &str, bytes: Vec<u8>) -> Result<Place> {
    let path = paths::transactions_path(&authority.root.path)?;
    let directory = authority.disk().make_directory(&path)?;
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
