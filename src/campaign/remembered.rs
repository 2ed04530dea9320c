//! What a handle remembers of its changes whose durability is unknown
//! (E_INDETERMINATE), until one repeat of the call takes it: that one publishes
//! the change again and gives the answer which the first could not.
//! Heartbeats need no memory: every one of them publishes anew.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use sha2::{Digest, Sha256};

use super::Campaign;
use crate::engine::{Change, Read, Table};
use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};

/// The most calls remembered; the oldest goes first.
const CALLS_MAX: usize = 256;

/// The most bytes remembered, about; the newest call stays whatever it weighs.
const BYTES_MAX: usize = 64 << 20;

/// How often the memory is tried before a call goes on without it.
const TRIES: u32 = 1000;

/// SHA-256 of something.
pub(super) type Print = [u8; 32];

/// The digest of a record's bytes.
pub(super) fn print(bytes: &[u8]) -> Print {
    Sha256::digest(bytes).into()
}

/// E_INDETERMINATE of either kind.
pub(super) fn is_unknown(error: &Error) -> bool {
    matches!(error.kind, Kind::Indeterminate | Kind::Unsettled)
}

/// A call as it is recognised when it is made again.
pub(super) struct Call<'a> {
    /// Which one.
    pub name: &'static str,
    /// Where.
    pub table: Table,
    /// On which records.
    pub keys: &'a [String],
    /// With which arguments.
    pub words: &'a [&'a str],
}

impl Call<'_> {
    fn print(&self) -> Print {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        add(self.name);
        add(&format!("{:?} {}", self.table, self.keys.len()));
        self.keys.iter().for_each(|key| add(key));
        self.words.iter().for_each(|word| add(word));
        hash.finalize().into()
    }
}

/// A remembered call. A fork's child must not give the parent's answer once
/// more: it counts only in the process that made it.
struct Entry {
    call: Print,
    process: u32,
    weight: usize,
    value: Box<dyn Any + Send>,
}

/// A handle's memory. Only ever tried, so that a fork cannot hang (F4).
#[derive(Default)]
pub(super) struct Remembered {
    entries: Mutex<Vec<Entry>>,
    count: AtomicUsize,
}

impl Remembered {
    fn with<T>(&self, run: impl FnOnce(&mut Vec<Entry>) -> T) -> Option<T> {
        for _ in 0..TRIES {
            if let Ok(mut entries) = self.entries.try_lock() {
                let answer = run(&mut entries);
                self.count.store(entries.len(), Ordering::SeqCst);
                return Some(answer);
            }
            std::thread::yield_now();
        }
        None
    }

    fn put(&self, entry: Entry) {
        self.with(|entries| {
            entries.push(entry);
            let mut weight: usize = entries.iter().map(|entry| entry.weight).sum();
            while entries.len() > CALLS_MAX || (weight > BYTES_MAX && entries.len() > 1) {
                weight -= entries.remove(0).weight;
            }
        });
    }

    fn take<T: 'static>(&self, call: Print, process: u32) -> Option<T> {
        let entry = self.with(|entries| {
            let same = |entry: &Entry| {
                entry.call == call && entry.process == process && entry.value.is::<T>()
            };
            let at = entries.iter().position(same)?;
            Some(entries.remove(at))
        });
        let value = entry.flatten()?.value.downcast::<T>();
        value.ok().map(|value| *value)
    }
}

/// What a change left in one record.
#[derive(Clone)]
enum Left {
    /// It was not changed.
    Nothing,
    /// New bytes.
    Bytes(Print),
    /// No record; the one that was there.
    Removed(Vec<u8>),
}

/// A change as it was made, and the answer that was not given.
struct Made<T> {
    left: Vec<Left>,
    answer: T,
}

impl<T> Made<T> {
    fn new(reads: &[Read], changes: &[Change], answer: T) -> Made<T> {
        let left = |(read, change): (&Read, &Change)| match change {
            Change::Keep | Change::Rely => Left::Nothing,
            Change::Put(bytes) => Left::Bytes(print(bytes)),
            Change::RemoveAgain(bytes) => Left::Removed(bytes.clone()),
            Change::Remove => Left::Removed(read.clone().ok().flatten().unwrap_or_default()),
        };
        Made {
            left: reads.iter().zip(changes).map(left).collect(),
            answer,
        }
    }

    fn changes(&self) -> bool {
        !self.left.iter().all(|left| matches!(left, Left::Nothing))
    }

    /// Whether nobody came in between, nor took it back.
    fn stands(&self, reads: &[Read]) -> bool {
        let same = |(left, read): (&Left, &Read)| match (left, read) {
            (Left::Nothing, _) => true,
            (Left::Bytes(there), Ok(Some(bytes))) => *there == print(bytes),
            (Left::Removed(_), Ok(None)) => true,
            _ => false,
        };
        self.left.len() == reads.len() && self.left.iter().zip(reads).all(same)
    }

    /// The same change once more: a sync after one that failed proves nothing
    /// (F17).
    fn again(&self, reads: &[Read]) -> Vec<Change> {
        let change = |(left, read): (&Left, &Read)| match (left, read) {
            (Left::Bytes(_), Ok(Some(bytes))) => Change::Put(bytes.clone()),
            (Left::Removed(bytes), _) => Change::RemoveAgain(bytes.clone()),
            _ => Change::Keep,
        };
        self.left.iter().zip(reads).map(change).collect()
    }

    fn weight(&self) -> usize {
        let bytes = |left: &Left| match left {
            Left::Removed(bytes) => bytes.len(),
            _ => 0,
        };
        self.left.iter().map(bytes).sum::<usize>() + 40 * self.left.len() + 1000
    }
}

/// A decision: what to change, and the answer when that is done.
pub(super) type DecideOnce<'a, T> = dyn FnMut(&[Read]) -> Result<(Vec<Change>, T)> + 'a;

impl Campaign {
    /// Keeps a value for a later call.
    pub(super) fn remember<T: Send + 'static>(&self, call: &Call<'_>, weight: usize, value: T) {
        self.remembered.put(Entry {
            call: call.print(),
            process: self.engine.process(),
            weight,
            value: Box::new(value),
        });
    }

    /// Whether anything is kept at all.
    pub(super) fn may_recall(&self) -> bool {
        self.remembered.count.load(Ordering::SeqCst) > 0
    }

    /// Takes it out again.
    pub(super) fn recall<T: 'static>(&self, call: &Call<'_>) -> Option<T> {
        if !self.may_recall() || !on(Guard::Repeated) {
            return None;
        }
        self.remembered.take(call.print(), self.engine.process())
    }

    /// Runs a decision under its locks. What ends E_INDETERMINATE is remembered;
    /// the same call finds it, and where the records are still as it left them
    /// it is published again and answered as it would have been. Also answers
    /// whether that was so.
    pub(super) fn transact<T: Send + 'static>(
        &self,
        call: &Call<'_>,
        decide: &mut DecideOnce<'_, T>,
    ) -> Result<(T, bool)> {
        let mut before: Option<Made<T>> = self.recall(call);
        let mut made: Option<Made<T>> = None;
        let mut again = false;
        let outcome = self.engine.transact(call.table, call.keys, &mut |reads| {
            if let Some(stands) = before
                .take()
                .filter(|before| before.stands(reads) || !on(Guard::RepeatedStands))
            {
                let changes = stands.again(reads);
                (made, again) = (Some(stands), true);
                return Ok(changes);
            }
            let (changes, answer) = decide(reads)?;
            made = Some(Made::new(reads, &changes, answer));
            Ok(changes)
        });
        match (outcome, made) {
            (Ok(()), Some(made)) => Ok((made.answer, again)),
            (Ok(()), None) => Err(Error::new(Kind::Internal, "no decision was made")),
            (Err(error), made) => {
                let unknown = is_unknown(&error);
                let keep = made.filter(|made| again || unknown && made.changes());
                if let Some(made) = keep.or(before) {
                    self.remember(call, made.weight(), made);
                }
                Err(error)
            }
        }
    }
}
