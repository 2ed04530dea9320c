//! The files engine: one JSON record a file, shared with Python coordinators.

mod disk;
mod lock;
mod paths;
mod publish;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use self::disk::{failed, Directory, Disk};
use self::lock::{take, Lock, Waits};
use self::publish::Item;
use super::{Change, Counters, Decide, DecideOne, Engine, Read, Table};
use crate::error::{Error, Kind, Result};
use crate::sys::Sys;

/// The most records that one batch locks at a time.
const CHUNK: usize = 64;

/// How a campaign in a directory is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The work leases' root, absolute; bytes, not UTF-8 (F11).
    pub work_root: Option<Vec<u8>>,
    /// The target leases' root.
    pub target_root: Option<Vec<u8>>,
    /// Folders of a lease root, 1 to 4096.
    pub shards: u32,
    /// The mode of files, 0600 or with group bits.
    pub file_mode: u32,
    /// Nanoseconds a lock is waited for; 0: one try (F35).
    pub lock_timeout: u64,
    /// Whether an answer of OK survives power loss.
    pub durable: bool,
}

/// The engine of one handle.
pub struct Files {
    disk: Disk,
    waits: Waits,
    options: Options,
    indeterminate: AtomicU64,
}

impl Files {
    /// Opens without touching anything (M4).
    pub fn new(sys: Arc<dyn Sys>, options: Options) -> Files {
        let disk = Disk {
            sys,
            durable: options.durable,
            file_mode: options.file_mode,
            syncs: AtomicU64::new(0),
        };
        Files {
            disk,
            waits: Waits::default(),
            options,
            indeterminate: AtomicU64::new(0),
        }
    }

    fn root(&self, table: Table) -> Result<&[u8]> {
        let (root, name) = match table {
            Table::Work => (&self.options.work_root, "work_root"),
            Table::Target => (&self.options.target_root, "target_root"),
        };
        root.as_deref().ok_or_else(|| {
            Error::new(
                Kind::Invalid,
                format!("{name}: this campaign was opened without one"),
            )
        })
    }

    fn path(&self, table: Table, id: &str) -> Result<CString> {
        paths::shard_path(self.root(table)?, id, self.options.shards)
    }

    fn deadline(&self) -> u64 {
        self.disk
            .sys
            .monotonic()
            .saturating_add(self.options.lock_timeout)
    }

    fn record(&self, directory: &Directory<'_>, id: &str) -> Read {
        let name = CString::new(paths::record_name(id)).unwrap_or_default();
        self.disk.read(directory, &name)
    }

    /// A key's directory, made where missing, each opened once.
    fn enter<'a>(
        &'a self,
        table: Table,
        key: &str,
        open: &mut BTreeMap<CString, Directory<'a>>,
    ) -> Result<()> {
        if let Entry::Vacant(free) = open.entry(self.path(table, key)?) {
            let directory = self.disk.make_directory(free.key())?;
            free.insert(directory);
        }
        Ok(())
    }

    /// After a publish every lock's path must still name the locked file: if
    /// one moved, another writer may have been in (L5, F12).
    fn confirm(&self, locks: &[(String, Lock<'_>)]) -> Result<()> {
        match locks.iter().find(|(_, lock)| !lock.in_place()) {
            None => Ok(()),
            Some((id, _)) => {
                let text = format!("lock {id}: its file was replaced while a change was published");
                Err(Error::new(Kind::Indeterminate, text))
            }
        }
    }

    fn count(&self, outcome: Result<()>) -> Result<()> {
        if outcome
            .as_ref()
            .is_err_and(|error| error.kind == Kind::Indeterminate)
        {
            self.indeterminate.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    fn change_all(&self, table: Table, keys: &[String], decide: &mut Decide<'_>) -> Result<()> {
        let deadline = self.deadline();
        let mut directories = BTreeMap::new();
        for key in keys {
            self.enter(table, key, &mut directories)?;
        }
        let mut locks = Vec::with_capacity(keys.len());
        let mut reads = Vec::with_capacity(keys.len());
        let mut places = Vec::with_capacity(keys.len());
        for key in keys {
            let directory = &directories[&self.path(table, key)?];
            let lock = take(&self.disk, &self.waits, directory, key, deadline)?;
            locks.push((key.clone(), lock));
            places.push(directory);
        }
        for (key, directory) in keys.iter().zip(&places) {
            reads.push(self.record(directory, key));
        }
        let changes = decide(&reads)?;
        if changes.len() != keys.len() {
            return Err(Error::new(
                Kind::Internal,
                "a decision did not cover all of its keys",
            ));
        }
        if changes.iter().all(|change| *change == Change::Keep) {
            return Ok(());
        }
        let items: Vec<Item<'_>> = (0..keys.len())
            .map(|at| Item {
                directory: places[at],
                id: &keys[at],
                old: reads[at].as_ref().ok().and_then(|old| old.as_deref()),
                change: &changes[at],
            })
            .collect();
        publish::all(&self.disk, &items)?;
        self.confirm(&locks)
    }

    /// One chunk of a batch: the locks that are free are taken without waiting
    /// and renewed together; answers the positions that were not free.
    fn chunk(
        &self,
        table: Table,
        keys: &[String],
        first: usize,
        decide: &mut DecideOne<'_>,
        answers: &mut [Result<()>],
    ) -> Vec<usize> {
        let mut busy = Vec::new();
        let mut open: BTreeMap<CString, Directory<'_>> = BTreeMap::new();
        for (at, key) in keys.iter().enumerate() {
            answers[first + at] = self.enter(table, key, &mut open);
        }
        let mut locks = Vec::new();
        let mut ready = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            if answers[first + at].is_err() {
                continue;
            }
            let Some(directory) = self.path(table, key).ok().and_then(|path| open.get(&path))
            else {
                continue;
            };
            match take(&self.disk, &self.waits, directory, key, 0) {
                Ok(lock) => locks.push((key.clone(), lock)),
                Err(error) if error.kind == Kind::Timeout => {
                    busy.push(first + at);
                    continue;
                }
                Err(error) => {
                    answers[first + at] = Err(error);
                    continue;
                }
            }
            let read = self.record(directory, key);
            match decide(first + at, &read) {
                Ok(Change::Keep) => {}
                Ok(change) => ready.push((first + at, directory, change)),
                Err(error) => answers[first + at] = Err(error),
            }
        }
        self.publish_each(keys, first, &ready, answers);
        for (position, _, _) in &ready {
            let lock = locks.iter().filter(|(id, _)| *id == keys[position - first]);
            if let (Ok(()), Err(error)) = (
                &answers[*position],
                lock.map(|(_, lock)| lock).try_for_each(moved),
            ) {
                answers[*position] = Err(error);
            }
        }
        busy
    }

    /// All data is synced before any name, each directory once; a failed
    /// record fails alone (H3).
    fn publish_each(
        &self,
        keys: &[String],
        first: usize,
        ready: &[(usize, &Directory<'_>, Change)],
        answers: &mut [Result<()>],
    ) {
        let item = |entry: &'_ (usize, &'_ Directory<'_>, Change)| -> (usize, String) {
            (entry.0, keys[entry.0 - first].clone())
        };
        let mut staged = Vec::new();
        for entry in ready {
            let (position, id) = item(entry);
            let part = Item {
                directory: entry.1,
                id: &id,
                old: None,
                change: &entry.2,
            };
            match publish::stage(&self.disk, &part) {
                Ok(ready) => staged.push((entry, ready)),
                Err(error) => answers[position] = Err(error),
            }
        }
        let mut touched: BTreeMap<i32, (&Directory<'_>, Vec<usize>)> = BTreeMap::new();
        for (entry, ready) in &staged {
            let (position, id) = item(entry);
            let part = Item {
                directory: entry.1,
                id: &id,
                old: None,
                change: &entry.2,
            };
            match publish::name(&self.disk, &part, ready) {
                Ok(()) => {
                    let there = touched.entry(entry.1.fd.0).or_insert((entry.1, Vec::new()));
                    there.1.push(position);
                }
                Err(error) => {
                    publish::discard(&self.disk, &part, ready);
                    answers[position] = Err(error);
                }
            }
        }
        for (directory, positions) in touched.values() {
            if let Err(error) = self.disk.sync_directory(directory) {
                for position in positions {
                    let error = Error {
                        kind: Kind::Indeterminate,
                        ..error.clone()
                    };
                    answers[*position] = self.count(Err(error));
                }
            }
        }
    }
}

fn moved(lock: &Lock<'_>) -> Result<()> {
    if lock.in_place() {
        return Ok(());
    }
    Err(Error::new(
        Kind::Indeterminate,
        "a lock file was replaced while a change was published",
    ))
}

impl Engine for Files {
    fn transact(&self, table: Table, keys: &[String], decide: &mut Decide<'_>) -> Result<()> {
        let outcome = self.change_all(table, keys, decide);
        self.count(outcome)
    }

    fn batch(&self, table: Table, keys: &[String], decide: &mut DecideOne<'_>) -> Vec<Result<()>> {
        let mut answers = vec![Ok(()); keys.len()];
        let mut busy = Vec::new();
        for (number, chunk) in keys.chunks(CHUNK).enumerate() {
            busy.extend(self.chunk(table, chunk, number * CHUNK, decide, &mut answers));
        }
        // One stuck neighbour did not let the others expire; now it is waited for.
        for position in busy {
            let key = std::slice::from_ref(&keys[position]);
            answers[position] = self.transact(table, key, &mut |reads| {
                Ok(vec![decide(position, &reads[0])?])
            });
        }
        answers
    }

    fn read(&self, table: Table, key: &str) -> Read {
        let path = self.path(table, key)?;
        match self.disk.directory(&path)? {
            Some(directory) => self.record(&directory, key),
            None => Ok(None),
        }
    }

    fn list(&self, table: Table) -> Result<Vec<String>> {
        let mut ids = BTreeSet::new();
        self.each_name(table, &mut |_, shard, name| {
            let own = |id: &&str| crate::record::id::shard_of(id, self.options.shards) == shard;
            ids.extend(paths::record_id(name).filter(own).map(str::to_string));
        })?;
        Ok(ids.into_iter().collect())
    }

    fn sweep(&self) -> Result<u64> {
        let mut removed = 0;
        for table in [Table::Work, Table::Target] {
            if self.root(table).is_err() {
                continue;
            }
            self.each_name(table, &mut |directory, _, name| {
                let Some(id) = paths::temporary_id(name) else {
                    return;
                };
                // Holding the lock is the only proof that its writer is gone (F22).
                let Ok(_lock) = take(&self.disk, &self.waits, directory, id, 0) else {
                    return;
                };
                let gone = CString::new(name)
                    .is_ok_and(|name| self.disk.sys.unlink(directory.fd, &name).is_ok());
                removed += u64::from(gone);
            })?;
        }
        Ok(removed)
    }

    fn counters(&self) -> Counters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            locks: get(&self.waits.locks),
            contended: get(&self.waits.contended),
            timeouts: get(&self.waits.timeouts),
            wait_ns: get(&self.waits.wait_ns),
            retries: get(&self.waits.retries),
            syncs: get(&self.disk.syncs),
            indeterminate: get(&self.indeterminate),
        }
    }
}

/// Called with an open folder, its shard number and a name in it.
type Visit<'a> = dyn FnMut(&Directory<'_>, u32, &[u8]) + 'a;

impl Files {
    /// Every name in every folder of a table; makes nothing (M4).
    fn each_name(&self, table: Table, visit: &mut Visit<'_>) -> Result<()> {
        let root = paths::c_path(self.root(table)?.to_vec())?;
        for shard in 0..self.options.shards {
            let path = paths::folder_path(root.as_bytes(), shard)?;
            let Some(directory) = self.disk.directory(&path)? else {
                continue;
            };
            let names = self.disk.sys.names(directory.fd);
            for name in names.map_err(|errno| failed("list", &path, errno))? {
                visit(&directory, shard, &name);
            }
        }
        Ok(())
    }
}
