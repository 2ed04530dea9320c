//! Batches: many keys judged and published on their own, sharing barriers
//! (H3). One stuck neighbour does not let the others expire.

use std::collections::BTreeMap;
use std::ffi::CString;

use super::disk::Directory;
use super::lock::{take, Lock};
use super::publish::{self, unknown, Item};
use super::root::Root;
use super::Files;
use crate::engine::{Change, DecideOne, Table};
use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};

/// The most records that one batch locks at a time.
const CHUNK: usize = 64;

/// One record of a batch that is published or relied on.
struct Renewal<'a> {
    position: usize,
    id: &'a str,
    directory: &'a Directory<'a>,
    old: Option<Vec<u8>>,
    change: Change,
}

impl Renewal<'_> {
    fn item(&self) -> Item<'_> {
        Item {
            directory: self.directory,
            id: self.id,
            old: self.old.as_deref(),
            change: &self.change,
        }
    }
}

impl Files {
    /// `Engine::batch`: first what is free, then the rest one by one, all
    /// within one deadline (L3).
    pub(super) fn renew(
        &self,
        deadline: u64,
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
        let mut answers = vec![Ok(()); keys.len()];
        let mut busy = Vec::new();
        if table == Table::Target {
            // A dead writer's intent may have to be settled first (G1).
            busy.extend(0..keys.len());
        } else {
            for (number, chunk) in keys.chunks(CHUNK).enumerate() {
                busy.extend(self.chunk(root, chunk, number * CHUNK, decide, &mut answers));
            }
        }
        for position in busy {
            let key = std::slice::from_ref(&keys[position]);
            answers[position] =
                self.count(self.change_all(root, table, key, deadline, &mut |reads| {
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
            let decided = decide(first + at, &read);
            match decided.map(|change| self.resolve(root, directory, key, &read, change)) {
                Ok(Change::Keep) => {}
                Ok(change) => ready.push(Renewal {
                    position: first + at,
                    id: key,
                    directory,
                    old: read.ok().flatten(),
                    change,
                }),
                Err(error) => answers[first + at] = Err(error),
            }
        }
        self.publish_each(root, &ready, answers);
        for renewal in ready.iter().filter(|one| one.change != Change::Rely) {
            let lock = locks.iter().filter(|(id, _)| id == renewal.id);
            if let (Ok(()), Err(error)) = (
                &answers[renewal.position],
                lock.map(|(_, lock)| lock).try_for_each(moved),
            ) {
                answers[renewal.position] = self.count(Err(error));
            }
        }
        busy
    }

    /// All data is synced before any name, each directory once; a failed
    /// record fails alone (H3).
    fn publish_each(&self, root: &Root, ready: &[Renewal<'_>], answers: &mut [Result<()>]) {
        let mut staged = Vec::new();
        for renewal in ready {
            match publish::stage(&root.disk, &renewal.item()) {
                Ok(ready) => staged.push((renewal, ready)),
                Err(error) => answers[renewal.position] = Err(error),
            }
        }
        let mut touched: BTreeMap<i32, Vec<&Renewal<'_>>> = BTreeMap::new();
        for (renewal, ready) in &staged {
            match publish::name(&root.disk, &renewal.item(), ready) {
                Ok(()) => touched
                    .entry(renewal.directory.fd.0)
                    .or_default()
                    .push(renewal),
                Err(error) => {
                    publish::discard(&root.disk, &renewal.item(), ready);
                    answers[renewal.position] = Err(error);
                }
            }
        }
        for renewals in touched.values() {
            let items: Vec<Item<'_>> = renewals.iter().map(|renewal| renewal.item()).collect();
            let directory = renewals[0].directory;
            let synced = root.disk.sync_directory(directory, Guard::BatchNames);
            let synced = synced.map_err(|error| match on(Guard::UnknownBatch) {
                true => unknown(error),
                false => error,
            });
            self.learn(&items, synced.as_ref());
            for (renewal, item) in renewals.iter().zip(&items) {
                let Err(error) = &synced else { continue };
                // Of a record that is only relied on nothing was changed.
                answers[renewal.position] = match item.changes() {
                    true => self.count(Err(error.clone())),
                    false => Err(Error {
                        kind: Kind::Io,
                        ..error.clone()
                    }),
                };
            }
        }
    }
}

fn moved(lock: &Lock<'_>) -> Result<()> {
    if lock.in_place() || !on(Guard::PathAfterBatch) {
        return Ok(());
    }
    Err(Error::new(
        Kind::Indeterminate,
        "a lock file was replaced while a change was published",
    ))
}
