//! What a handle knows of a lease beyond its bytes: whether its session lives,
//! and for how long the handle itself has seen it unchanged.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, TryLockError};

use super::Campaign;
use crate::engine::Table;
use crate::guard::{on, Guard};
use crate::model::lease::{Evidence, Judge, Presence};
use crate::record::lease::{Lease, Status};

/// Records that a handle remembers to have seen.
const SEEN_MAX: usize = 1 << 20;

/// What was seen when: a record's place to its content and the monotonic time,
/// both places and contents as 64-bit hashes under a random key.
#[derive(Default)]
pub struct Sightings {
    hash: RandomState,
    /// Only ever tried, so that a fork cannot hang (F4).
    seen: Mutex<HashMap<u64, (u64, u64)>>,
}

impl Sightings {
    /// Nanoseconds for which the record has been seen as it is now. The first
    /// look answers 0, and so does one that another thread stands in the way of.
    fn unchanged(&self, table: Table, lease: &Lease, now: u64) -> u64 {
        let place = self.hash.hash_one((table, lease.id()));
        let content = self.hash.hash_one(lease.to_bytes());
        let mut seen = match self.seen.try_lock() {
            Ok(seen) => seen,
            Err(TryLockError::Poisoned(broken)) => broken.into_inner(),
            Err(TryLockError::WouldBlock) => return 0,
        };
        if seen.len() >= SEEN_MAX && !seen.contains_key(&place) {
            // Any: it is seen again at the next look.
            if let Some(other) = seen.keys().next().copied() {
                seen.remove(&other);
            }
        }
        let entry = seen.entry(place).or_insert((content, now));
        if entry.0 != content && on(Guard::ObservedContent) {
            *entry = (content, now);
        }
        now.saturating_sub(entry.1)
    }
}

impl Campaign {
    /// What is known of this record now. Looks at the record's session, and
    /// remembers the record where observation decides.
    pub fn evidence(&self, table: Table, lease: &Lease, judge: &Judge) -> Evidence {
        if lease.status() == Status::Done || lease.updated() == 0.0 {
            return Evidence::default();
        }
        let presence = match lease.session() {
            Some(session) => self.engine.presence(table, &session),
            None => Presence::Unknown,
        };
        let unchanged = if judge.by_observation(lease) {
            let now = self.engine.monotonic();
            self.sightings.unchanged(table, lease, now) as f64 / 1e9
        } else {
            0.0
        };
        Evidence {
            presence,
            unchanged,
        }
    }
}
