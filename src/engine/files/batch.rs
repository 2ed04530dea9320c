//! Batches: many keys judged and published on their own, sharing barriers
//! (H3). One stuck neighbour does not let the others expire.

use std::collections::BTreeMap;
use std::ffi::CString;

use super::disk::Directory;
use super::lock::{take, Lock};
use super::publish::{self, Item};
use super::root::Root;
use super::Files;
use crate::engine::{Change, DecideOne, Table};
use crate::error::{Error, Kind, Result};

/// The most records that one batch locks at a time.
const CHUNK: usize = 64;

impl Files {
    /// `Engine::batch`: first what is free, then the rest one by one, all
    /// within one deadline (L3).
    pub(super) fn renew(
        &self,
        table: Table,
        keys: &[String],
        decide: &mut DecideOne<'_>,
    ) -> Vec<Result<()>> {
        let root = match self
            .root(table)
            .and_then(|root| root.ensure().map(|()| root))
        {
            Ok(root) => root,
            Err(error) => return vec![Err(error); keys.len()],
        };
        let deadline = self.deadline(root);
        let mut answers = vec![Ok(()); keys.len()];
        let mut busy = Vec::new();
        for (number, chunk) in keys.chunks(CHUNK).enumerate() {
            busy.extend(self.chunk(root, chunk, number * CHUNK, decide, &mut answers));
        }
        for position in busy {
            let key = std::slice::from_ref(&keys[position]);
            answers[position] = self.count(self.change_all(root, key, deadline, &mut |reads| {
                Ok(vec![decide(position, &reads[0])?])
            }));
        }
        answers
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
        self.sweep_first(root, keys, &open);
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
