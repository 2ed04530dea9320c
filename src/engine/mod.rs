//! The one door to shared state: lock these keys, read them, decide, publish
//! the decision whole, unlock.

use crate::error::Result;
use crate::model::lease::Presence;
use crate::record::shard::Shard;

pub mod corpus;
pub mod files;
pub mod survey;

/// Which table a key belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Work leases; a key is 64 lower-case hex digits.
    Work,
    /// Target leases; a key is 64 lower-case hex digits.
    Target,
}

/// The small files of a coverage authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The map's size and build identity (C6).
    Map,
    /// A coordinator's heartbeat, by its index.
    Coordinator(u32),
}

/// What a key holds: its bytes, nothing, or why it could not be read.
pub type Read = Result<Option<Vec<u8>>>;

/// What a decision does to one key, or rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Leave it as it is.
    Keep,
    /// Leave it, and answer only when what was read is durable: DONE, ALREADY
    /// and known bits are for ever.
    Rely,
    /// Replace the whole record.
    Put(Vec<u8>),
    /// Remove the record (its lock file stays, L5).
    Remove,
    /// Remove once more what is gone already, but perhaps not durably: a sync
    /// after one that failed proves nothing (F17). The record as it was.
    RemoveAgain(Vec<u8>),
}

/// Slots of the wait histogram (L8).
pub const WAIT_SLOTS: usize = 32;

/// Counters of one handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Locks taken.
    pub locks: u64,
    /// Locks that were not free at the first try.
    pub contended: u64,
    /// Waits that ended at the deadline.
    pub timeouts: u64,
    /// Nanoseconds spent waiting.
    pub wait_ns: u64,
    /// Lock files that moved and were opened again.
    pub retries: u64,
    /// File and directory syncs.
    pub syncs: u64,
    /// Changes whose outcome is unknown.
    pub indeterminate: u64,
    /// Directory syncs that the file system does not know: what they should
    /// have made durable is perhaps not (F18).
    pub unsynced: u64,
    /// Waits for locks by length: slot `n` counts those of 2^n microseconds up
    /// to the next power (L8).
    pub waits: [u64; WAIT_SLOTS],
}

/// What was removed for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Done records.
    pub records: u64,
    /// Lock files.
    pub locks: u64,
    /// Sessions.
    pub sessions: u64,
}

impl Collected {
    /// Counts another root's.
    pub fn add(&mut self, other: &Collected) {
        self.records += other.records;
        self.locks += other.locks;
        self.sessions += other.sessions;
    }
}

/// A decision over several keys: one change a key, in the order of the keys.
pub type Decide<'a> = dyn FnMut(&[Read]) -> Result<Vec<Change>> + 'a;

/// A decision over shards: their changes, and how many bits of each candidate
/// were new, for the log.
pub type DecideMerge<'a> = dyn FnMut(&[Read]) -> Result<(Vec<Change>, Vec<u64>)> + 'a;

/// A decision over one key of a batch, given its position.
pub type DecideOne<'a> = dyn FnMut(usize, &Read) -> Result<Change> + 'a;

/// Shared state under keys. Every call is bounded by the engine's lock
/// time-out, measured on the monotonic clock (L3).
pub trait Engine: Send + Sync {
    /// Until when a call that begins now waits for locks, on the monotonic clock.
    fn deadline(&self) -> u64;

    /// [`Engine::transact_until`] the deadline of a call that begins now.
    fn transact(&self, table: Table, keys: &[String], decide: &mut Decide<'_>) -> Result<()> {
        self.transact_until(self.deadline(), table, keys, decide)
    }

    /// [`Engine::batch_until`] the deadline of a call that begins now.
    fn batch(&self, table: Table, keys: &[String], decide: &mut DecideOne<'_>) -> Vec<Result<()>> {
        self.batch_until(self.deadline(), table, keys, decide)
    }

    /// Locks `keys` (sorted, each once; the caller's duty), reads them, asks
    /// `decide`, publishes the changes as one. When a publish fails the members
    /// already changed are restored while all locks are still held (H2). An
    /// error from `decide` changes nothing. What a writer of several keys left
    /// half done when it died is settled first (G1).
    fn transact_until(
        &self,
        deadline: u64,
        table: Table,
        keys: &[String],
        decide: &mut Decide<'_>,
    ) -> Result<()>;

    /// Judges and publishes keys (sorted, each once) on their own, sharing
    /// syncs: all data is synced before any name, each touched directory once.
    /// One answer a key; a failure of one never stops another (H3).
    fn batch_until(
        &self,
        deadline: u64,
        table: Table,
        keys: &[String],
        decide: &mut DecideOne<'_>,
    ) -> Vec<Result<()>>;

    /// Locks coverage `shards` (rising, each once), settles what a dead writer
    /// left pending on them (C5), reads them, asks `decide`, and publishes the
    /// changes as one. Shards are put or kept, never removed.
    fn merge(&self, shards: &[u32], decide: &mut DecideMerge<'_>) -> Result<()>;

    /// The session to name in records of this table, made at the first change;
    /// `None`: this handle, or this process, has none (D1, D3).
    fn session(&self, table: Table) -> Result<Option<String>>;

    /// What is known of a session that a record names (D2). Reads only.
    fn presence(&self, table: Table, session: &str) -> Presence;

    /// The monotonic clock, in nanoseconds.
    fn monotonic(&self) -> u64;

    /// The root's fence floor: above every fence of records that were removed
    /// for good (`fence.json`); 0 where none were.
    fn fence_floor(&self, table: Table) -> Result<u64>;

    /// Shards of the coverage authority.
    fn coverage_shards(&self) -> Result<u32>;

    /// The authority's random id, read anew; `None`: there is none yet.
    fn authority_id(&self) -> Result<Option<u128>>;

    /// Reads a coverage shard without a lock, as it was last published. Never
    /// creates or repairs (M4).
    fn read_shard(&self, shard: u32) -> Read;

    /// The records of merges that are logged and perhaps not yet published
    /// whole. Read before the shards, their OR misses nothing (C5).
    fn pending(&self) -> Result<Vec<Shard>>;

    /// Reads a small file of the authority.
    fn read_side(&self, side: Side) -> Read;

    /// Writes a small file of the authority: [`Side::Map`] only where there is
    /// none (who loses reads the winner's), the others over what is there.
    fn write_side(&self, side: Side, bytes: &[u8]) -> Result<()>;

    /// Makes sure that a record read without a lock is durable.
    fn rely(&self, table: Table, key: &str, bytes: &[u8]) -> Result<()>;

    /// The process that calls, by which a fork's child is told from its parent.
    fn process(&self) -> u32;

    /// Reads one key without a lock. Never creates or repairs (M4).
    fn read(&self, table: Table, key: &str) -> Read;

    /// All keys of a table, sorted, each once (F23).
    fn list(&self, table: Table) -> Result<Vec<String>>;

    /// Removes temporaries whose writers are gone, proven by holding the
    /// record's lock (H4, F22), and settles what dead writers left half done
    /// (G1). Answers how many temporaries.
    fn sweep(&self) -> Result<u64>;

    /// Removes for good, once every peer has stopped: done records, over which
    /// the fence floor is raised first; lock files (L5); sessions that no record
    /// names. E_INVALID where a session is known to live, E_TIMEOUT where a lock
    /// is held.
    fn collect(&self) -> Result<Collected>;

    /// Every piece that lies in the roots, damaged ones too. Changes nothing
    /// (M4), locks nothing; what comes or goes meanwhile may or may not be told.
    fn survey(&self, visit: &mut survey::Survey<'_>) -> Result<()>;

    /// The sessions of all lease roots, and what they published last.
    fn sessions(&self) -> Result<Vec<survey::Session>>;

    /// The indices of the coordinators that have left a heartbeat, rising.
    fn coordinators(&self) -> Result<Vec<u32>>;

    /// Publishes a handle's counters beside its sessions; nothing, and `handle`
    /// is not asked for its name, where it, or this process, has none (D3).
    fn publish_counters(&self, handle: &dyn Fn() -> Result<String>, owner: &str) -> Result<()>;

    /// The counters of this handle.
    fn counters(&self) -> Counters;

    /// What is in force here, as names and JSON texts, for `stats`.
    fn settings(&self) -> Vec<(&'static str, String)>;
}
