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
use super::shards::{publish_shards, unsettled, Write};
use super::Files;
use crate::engine::{Change, DecideMerge, Read};
use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};
use crate::record::shard::Shard;
use crate::record::transaction::{union, Transaction};
use crate::sys::{Errno, Sys};

/// The largest shard file and the largest transaction (`format.md`).
pub(super) const FILE_MAX: u64 = 64 << 20;

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
    pub(super) coordinator: String,
    lock_timeout: u64,
}

/// Where a transaction stands: its directory, and its name without ending.
pub(super) struct Place {
    pub directory: CString,
    pub id: String,
}

type Locks<'a> = Vec<(String, Lock<'a>)>;

impl Authority {
    pub(super) fn disk(&self) -> &Disk {
        &self.root.disk
    }

    pub(super) fn deadline(&self) -> u64 {
        let now = self.disk().sys.monotonic();
        now.saturating_add(self.lock_timeout)
    }

    fn state(&self) -> Result<Directory<'_>> {
        self.disk()
            .make_folder(&paths::state_path(&self.root.path)?)
    }

    pub(super) fn shard(&self, state: &Directory<'_>, shard: u32) -> Read {
        self.disk()
            .read_within(state, &file(&paths::shard_name(shard)), FILE_MAX)
    }

    pub(super) fn parse(&self, shard: u32, bytes: &[u8]) -> Result<Shard> {
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
        if let Some(directory) = self.disk().folder(&path)? {
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

    pub(super) fn remove(&self, place: &Place) -> Result<()> {
        match self.unlink(place)? {
            Some(directory) => {
                let disk = self.disk();
                disk.sync_directory(&directory, Guard::TransactionTakenBack)
            }
            None => Ok(()),
        }
    }

    /// Removes a transaction; its directory, to be synced, where it was there.
    pub(super) fn unlink(&self, place: &Place) -> Result<Option<Directory<'_>>> {
        let Some(directory) = self.disk().directory(&place.directory)? else {
            return Ok(None);
        };
        let name = file(&place.id);
        match self.disk().sys.unlink(directory.fd, &name) {
            Ok(()) => Ok(Some(directory)),
            Err(Errno(libc::ENOENT)) => Ok(None),
            Err(errno) => Err(failed("remove", &name, errno)),
        }
    }
}

fn file(id: &str) -> CString {
    CString::new(paths::record_name(id)).unwrap_or_default()
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
            let pending = match on(Guard::TransactionSettled) {
                true => authority.pending(shards)?,
                false => None,
            };
            let Some(place) = pending else {
                if self.merge_locked(authority, &state, shards, decide)? {
                    // Another writer may have been in.
                    self.confirm(&locks).map_err(unsettled)?;
                }
                return Ok(());
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
        let shards = if on(Guard::ShardLock) { shards } else { &[] };
        if !on(Guard::ShardOrder) && authority.disk().sys.process() % 2 == 1 {
            return shards.iter().rev().map(take).collect();
        }
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
            _ if !on(Guard::TransactionReread) => first,
            _ => return Ok(()),
        };
        let mut changes = Vec::new();
        for logged in &found.records {
            let shard = logged.shard;
            let old = authority.shard(state, shard)?;
            let new = match &old {
                Some(_) if !on(Guard::TransactionOr) => Some(logged.to_bytes()),
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

    /// Whether anything was published.
    fn merge_locked(
        &self,
        authority: &Authority,
        state: &Directory<'_>,
        shards: &[u32],
        decide: &mut DecideMerge<'_>,
    ) -> Result<bool> {
        let reads: Vec<Read> = shards.iter().map(|s| authority.shard(state, *s)).collect();
        let (changes, novel) = decide(&reads)?;
        let bug = |text: &str| Err(Error::new(Kind::Internal, text));
        if changes.len() != shards.len() {
            return bug("a decision did not cover all of its shards");
        }
        let mut changes = changes;
        for ((shard, read), change) in shards.iter().zip(&reads).zip(&mut changes) {
            let decided = std::mem::replace(change, Change::Keep);
            let name = paths::shard_name(*shard);
            *change = self.resolve(&authority.root, state, &name, read, decided);
        }
        let mut writes = Vec::new();
        let mut relied = Vec::new();
        for ((shard, read), change) in shards.iter().zip(&reads).zip(&changes) {
            let bytes = match (change, read) {
                (Change::Keep, _) => continue,
                (Change::Rely, _) => {
                    relied.push((paths::shard_name(*shard), read, change));
                    continue;
                }
                (Change::Remove | Change::RemoveAgain(_), _) => {
                    return bug("a coverage shard is never removed")
                }
                // Damaged is not empty (C1).
                (_, Err(error)) if on(Guard::DamagedShard) => return Err(error.clone()),
                (Change::Put(bytes), _) => bytes,
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
        let old = |read: &'_ Read| -> Option<Vec<u8>> { read.clone().ok().flatten() };
        let olds: Vec<Option<Vec<u8>>> = relied.iter().map(|(_, read, _)| old(read)).collect();
        let relied = relied
            .iter()
            .zip(&olds)
            .map(|((name, _, change), old)| Item {
                directory: state,
                id: name,
                old: old.as_deref(),
                change,
            });
        let all: Vec<Item<'_>> = writes
            .iter()
            .map(|one| one.item(state))
            .chain(relied)
            .collect();
        // A publish syncs the directory of the shards that are relied on too.
        let published = match writes.is_empty() {
            true => publish::all(authority.disk(), &all),
            false => publish_shards(authority, state, &writes, &novel),
        };
        self.learn(&all, published.as_ref());
        published.map(|()| !writes.is_empty())
    }
}
