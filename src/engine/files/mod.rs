//! The files engine: one JSON record a file, shared with Python coordinators.

mod disk;
mod lock;
mod paths;
mod publish;
mod root;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use self::disk::Directory;
use self::lock::{take, Lock, Waits};
use self::publish::Item;
pub use self::root::Named;
use self::root::Root;
use super::{Change, Counters, Decide, DecideOne, Engine, Read, Table};
use crate::error::{Error, Kind, Result};
use crate::sys::Sys;

/// The most records that one batch locks at a time.
const CHUNK: usize = 64;

/// How a campaign in a directory is opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The work leases' root, absolute; bytes, not UTF-8 (F11).
    pub work_root: Option<Vec<u8>>,
    /// The target leases' root.
    pub target_root: Option<Vec<u8>>,
    /// What belongs to the campaign and was named by the caller (M1).
    pub named: Named,
    /// Nanoseconds a lock is waited for; 0: one try (F35).
    pub lock_timeout: u64,
}

/// The engine of one handle.
pub struct Files {
    work: Option<Root>,
    target: Option<Root>,
    waits: Waits,
    lock_timeout: u64,
    indeterminate: AtomicU64,
}

impl Files {
    /// Opens without touching anything (M4). E_MISMATCH where a root is there
    /// and is not what was named (M1).
    pub fn open(sys: Arc<dyn Sys>, options: Options) -> Result<Files> {
        let open = |path: Option<Vec<u8>>| {
            path.map(|path| Root::open(Arc::clone(&sys), path, options.named))
                .transpose()
        };
        Ok(Files {
            work: open(options.work_root)?,
            target: open(options.target_root)?,
            waits: Waits::default(),
            lock_timeout: options.lock_timeout,
            indeterminate: AtomicU64::new(0),
        })
    }

    fn root(&self, table: Table) -> Result<&Root> {
        let (root, name) = match table {
            Table::Work => (&self.work, "work_root"),
            Table::Target => (&self.target, "target_root"),
        };
        root.as_ref().ok_or_else(|| {
            Error::new(
                Kind::Invalid,
                format!("{name}: this campaign was opened without one"),
            )
        })
    }

    fn deadline(&self, root: &Root) -> u64 {
        root.disk.sys.monotonic().saturating_add(self.lock_timeout)
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
        let root = self.root(table)?;
        root.ensure()?;
        let deadline = self.deadline(root);
        let mut directories = BTreeMap::new();
        for key in keys {
            root.enter(key, &mut directories)?;
        }
        let mut locks = Vec::with_capacity(keys.len());
        let mut reads = Vec::with_capacity(keys.len());
        let mut places = Vec::with_capacity(keys.len());
        for key in keys {
            let directory = &directories[&root.folder(key)?];
            let lock = take(&root.disk, &self.waits, directory, key, deadline)?;
            locks.push((key.clone(), lock));
            places.push(directory);
        }
        for (key, directory) in keys.iter().zip(&places) {
            reads.push(root.record(directory, key));
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
        publish::all(&root.disk, &items)?;
        self.confirm(&locks)
    }

    /// One chunk of a batch: the locks that are free are taken without waiting
    /// and renewed together; answers the positions that were not free.
    fn chunk(
        &self,
        root: &Root,
        keys: &[String],
        first: usize,
        decide: &mut DecideOne<'_>,
        answers: &mut [Result<()>],
    ) -> Vec<usize> {
        let mut busy = Vec::new();
        let mut open: BTreeMap<CString, Directory<'_>> = BTreeMap::new();
        for (at, key) in keys.iter().enumerate() {
            answers[first + at] = root.enter(key, &mut open);
        }
        let mut locks = Vec::new();
        let mut ready = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            if answers[first + at].is_err() {
                continue;
            }
            let Some(directory) = root.folder(key).ok().and_then(|path| open.get(&path)) else {
                continue;
            };
            match take(&root.disk, &self.waits, directory, key, 0) {
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
            let read = root.record(directory, key);
            match decide(first + at, &read) {
                Ok(Change::Keep) => {}
                Ok(change) => ready.push((first + at, directory, change)),
                Err(error) => answers[first + at] = Err(error),
            }
        }
        self.publish_each(root, keys, first, &ready, answers);
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
        root: &Root,
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
            match publish::stage(&root.disk, &part) {
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
            match publish::name(&root.disk, &part, ready) {
                Ok(()) => {
                    let there = touched.entry(entry.1.fd.0).or_insert((entry.1, Vec::new()));
                    there.1.push(position);
                }
                Err(error) => {
                    publish::discard(&root.disk, &part, ready);
                    answers[position] = Err(error);
                }
            }
        }
        for (directory, positions) in touched.values() {
            if let Err(error) = root.disk.sync_directory(directory) {
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
        let root = match self
            .root(table)
            .and_then(|root| root.ensure().map(|()| root))
        {
            Ok(root) => root,
            Err(error) => return vec![Err(error); keys.len()],
        };
        let mut answers = vec![Ok(()); keys.len()];
        let mut busy = Vec::new();
        for (number, chunk) in keys.chunks(CHUNK).enumerate() {
            busy.extend(self.chunk(root, chunk, number * CHUNK, decide, &mut answers));
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
        let root = self.root(table)?;
        match root.disk.directory(&root.folder(key)?)? {
            Some(directory) => root.record(&directory, key),
            None => Ok(None),
        }
    }

    fn list(&self, table: Table) -> Result<Vec<String>> {
        let mut ids = BTreeSet::new();
        let root = self.root(table)?;
        root.each_name(&mut |_, shard, name| {
            let own = |id: &&str| crate::record::id::shard_of(id, root.shards) == shard;
            ids.extend(paths::record_id(name).filter(own).map(str::to_string));
        })?;
        Ok(ids.into_iter().collect())
    }

    fn sweep(&self) -> Result<u64> {
        let mut removed = 0;
        for root in self.work.iter().chain(&self.target) {
            root.each_name(&mut |directory, _, name| {
                let Some(id) = paths::temporary_id(name) else {
                    return;
                };
                // Holding the lock is the only proof that its writer is gone (F22).
                let Ok(_lock) = take(&root.disk, &self.waits, directory, id, 0) else {
                    return;
                };
                let gone = CString::new(name)
                    .is_ok_and(|name| root.disk.sys.unlink(directory.fd, &name).is_ok());
                removed += u64::from(gone);
            })?;
        }
        Ok(removed)
    }

    fn counters(&self) -> Counters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let roots = self.work.iter().chain(&self.target);
        Counters {
            locks: get(&self.waits.locks),
            contended: get(&self.waits.contended),
            timeouts: get(&self.waits.timeouts),
            wait_ns: get(&self.waits.wait_ns),
            retries: get(&self.waits.retries),
            syncs: roots.map(|root| get(&root.disk.syncs)).sum(),
            indeterminate: get(&self.indeterminate),
        }
    }
}
