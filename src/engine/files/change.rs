//! One change over all of its keys: the files engine's side of the sentence
//! "lock, read, decide, publish whole, unlock".

use std::collections::BTreeMap;
use std::ffi::CString;

use super::disk::Directory;
use super::intent;
use super::known::Mark;
use super::lock::{take, Lock};
use super::publish::{self, unknown, Item};
use super::root::Root;
use super::{is_unknown, Files};
use crate::engine::{Change, Decide, Engine, Read, Table};
use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};

/// Locked keys, and where each record lies.
type Locked<'a> = (Vec<(String, Lock<'a>)>, Vec<&'a Directory<'a>>);

impl Files {
    /// `Engine::transact`: locks, settles, reads, decides, publishes.
    pub(super) fn change_all(
        &self,
        root: &Root,
        table: Table,
        keys: &[String],
        deadline: u64,
        decide: &mut Decide<'_>,
    ) -> Result<()> {
        root.ensure()?;
        let mut directories = BTreeMap::new();
        for key in keys {
            root.enter(key, &mut directories)?;
        }
        self.sweep_first(root, keys, &directories);
        // Work leases change one by one, and need no intent.
        let grouped = table == Table::Target || keys.len() > 1;
        loop {
            let (locks, places) = self.lock_all(root, keys, &directories, deadline)?;
            let pending = match grouped && on(Guard::IntentSettled) {
                true => intent::sharing(root, keys)?,
                false => None,
            };
            let Some(pending) = pending else {
                return self.change_locked(root, &locks, &places, decide);
            };
            drop(locks);
            self.settle_intent(root, &pending, deadline)?;
            if self.lock_timeout > 0 && root.disk.sys.monotonic() >= deadline {
                let text = "group: intents of dead writers were settled until the deadline";
                return Err(Error::new(Kind::Timeout, text));
            }
        }
    }

    /// The locks of all keys, in their order, within one deadline; and where
    /// each record lies.
    fn lock_all<'a>(
        &self,
        root: &'a Root,
        keys: &[String],
        directories: &'a BTreeMap<CString, Directory<'a>>,
        deadline: u64,
    ) -> Result<Locked<'a>> {
        let mut order: Vec<&String> = keys.iter().collect();
        if !on(Guard::LockOrder) && root.disk.sys.process() % 2 == 1 {
            order.reverse();
        }
        let mut held = Vec::with_capacity(keys.len());
        for key in order {
            let directory = &directories[&root.folder(key)?];
            let until = match on(Guard::OneDeadline) {
                true => deadline,
                false => self.deadline(),
            };
            let lock = take(&root.disk, &self.waits, directory, key, until)?;
            held.push(((key.clone(), lock), directory));
        }
        if !on(Guard::LockOrder) {
            held.sort_by(|one, other| one.0 .0.cmp(&other.0 .0));
        }
        Ok(held.into_iter().unzip())
    }

    /// Reads, decides and publishes under the locks of all keys.
    fn change_locked(
        &self,
        root: &Root,
        locks: &[(String, Lock<'_>)],
        places: &[&Directory<'_>],
        decide: &mut Decide<'_>,
    ) -> Result<()> {
        let all = || locks.iter().map(|(key, _)| key).zip(places);
        let reads: Vec<Read> = all()
            .map(|(key, directory)| root.record(directory, key))
            .collect();
        let decided = decide(&reads)?;
        if decided.len() != locks.len() {
            let text = "a decision did not cover all of its keys";
            return Err(Error::new(Kind::Internal, text));
        }
        intent::undamaged(&reads, &decided)?;
        let changes: Vec<Change> = all()
            .zip(&reads)
            .zip(decided)
            .map(|(((key, at), read), change)| self.resolve(root, at, key, read, change))
            .collect();
        if changes.iter().all(|change| *change == Change::Keep) {
            return Ok(());
        }
        let items: Vec<Item<'_>> = (0..locks.len())
            .map(|at| Item {
                directory: places[at],
                id: &locks[at].0,
                old: reads[at].as_ref().ok().and_then(|old| old.as_deref()),
                change: &changes[at],
            })
            .collect();
        let changed = items.iter().filter(|item| item.changes()).count();
        let intent = match changed {
            0 | 1 => None,
            _ if !on(Guard::IntentWritten) => None,
            _ => Some(intent::write(root, &items)?),
        };
        let published = publish::attempt(&root.disk, &items);
        self.learn(&items, published.as_ref().map_err(|failure| &failure.error));
        match (published, &intent) {
            // One that could not be taken back, or whose syncs failed, is
            // settled by the next group call (G1).
            (Err(failure), None) => return Err(failure.error),
            (Err(failure), Some(intent)) => {
                if failure.restored {
                    let _ = intent::remove(root, intent);
                }
                return Err(failure.error);
            }
            (Ok(()), Some(intent)) => {
                intent::remove(root, intent).map_err(|error| match on(Guard::UnknownLog) {
                    true => unknown(error),
                    false => error,
                })?
            }
            (Ok(()), None) => {}
        }
        if changed == 0 {
            return Ok(());
        }
        self.confirm(locks)
    }

    /// What a decision comes to, by what this handle knows to be durable.
    pub(super) fn resolve(
        &self,
        root: &Root,
        directory: &Directory<'_>,
        id: &str,
        read: &Read,
        change: Change,
    ) -> Change {
        match change {
            Change::Rely if !root.disk.durable => Change::Keep,
            change => self.known.resolve(directory, id, read, change),
        }
    }

    /// Notes which versions are durable after a publish, and which are doubtful.
    pub(super) fn learn(&self, items: &[Item<'_>], published: std::result::Result<&(), &Error>) {
        let made = published.err().is_none_or(is_unknown);
        for item in items {
            let bytes = match item.change {
                Change::Put(bytes) if made => Some(&bytes[..]),
                // Its sync failed, or may have.
                Change::Rely => item.old,
                _ => None,
            };
            if let Some(bytes) = bytes {
                let mark = Mark::of(&item.directory.path, item.id, bytes);
                self.known.synced(mark, published.is_ok());
            }
        }
    }
}
