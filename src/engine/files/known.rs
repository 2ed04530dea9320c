//! Which versions of records this handle knows to be durable. Bounded, and
//! without a lock, so that a fork cannot hang (F4).

use std::collections::hash_map::DefaultHasher;
use std::ffi::CStr;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use super::disk::Directory;
use crate::engine::{Change, Read};
use crate::guard::{on, Guard};

/// Versions remembered as durable. One that is pushed out costs a sync.
const DURABLE: usize = 4096;

/// Versions remembered whose sync failed.
const DOUBTFUL: usize = 256;

/// A handle's memory of versions.
pub struct Known {
    durable: Marks,
    doubtful: Marks,
}

/// One version: where it stands and what it says, as a number that is not 0.
#[derive(Clone, Copy)]
pub struct Mark(u64);

impl Mark {
    /// The mark of a record's bytes in its directory.
    pub fn of(directory: &CStr, id: &str, bytes: &[u8]) -> Mark {
        let mut hasher = DefaultHasher::new();
        (directory, id, bytes).hash(&mut hasher);
        Mark(hasher.finish().max(1))
    }
}

/// A table in which each mark has one place.
struct Marks(Box<[AtomicU64]>);

impl Marks {
    fn new(size: usize) -> Marks {
        Marks((0..size).map(|_| AtomicU64::new(0)).collect())
    }

    fn place(&self, mark: Mark) -> &AtomicU64 {
        &self.0[(mark.0 % self.0.len() as u64) as usize]
    }

    fn has(&self, mark: Mark) -> bool {
        self.place(mark).load(Ordering::Relaxed) == mark.0
    }

    fn add(&self, mark: Mark) {
        self.place(mark).store(mark.0, Ordering::Relaxed);
    }

    fn drop(&self, mark: Mark) {
        let (place, order) = (self.place(mark), Ordering::Relaxed);
        let _ = place.compare_exchange(mark.0, 0, order, order);
    }
}

impl Default for Known {
    fn default() -> Known {
        Known {
            durable: Marks::new(DURABLE),
            doubtful: Marks::new(DOUBTFUL),
        }
    }
}

impl Known {
    /// What a decision comes to, by what is known of the version it read. One
    /// that is relied on is left alone when it is durable, synced when another
    /// process published it, and published again when a sync of it failed
    /// here: a later sync could succeed over lost bytes (F17).
    pub fn resolve(
        &self,
        directory: &Directory<'_>,
        id: &str,
        read: &Read,
        change: Change,
    ) -> Change {
        let (Change::Rely, Ok(Some(bytes))) = (&change, read) else {
            return match change {
                Change::Rely => Change::Keep,
                other => other,
            };
        };
        let mark = Mark::of(&directory.path, id, bytes);
        if self.doubtful.has(mark) && on(Guard::DoubtfulAgain) {
            return Change::Put(bytes.clone());
        }
        match self.durable.has(mark) {
            true => Change::Keep,
            false => Change::Rely,
        }
    }

    /// Whether a version needs no sync before it is relied on.
    pub fn is_durable(&self, mark: Mark) -> bool {
        self.durable.has(mark)
    }

    /// Whether a sync of it failed, and it was not published again since.
    pub fn is_doubtful(&self, mark: Mark) -> bool {
        self.doubtful.has(mark)
    }

    /// After a good sync, or a failed one.
    pub fn synced(&self, mark: Mark, durable: bool) {
        if durable {
            self.doubtful.drop(mark);
            self.durable.add(mark);
        } else {
            self.durable.drop(mark);
            self.doubtful.add(mark);
        }
    }
}
