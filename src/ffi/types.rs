//! The types of the header, by the names C knows.

use std::ffi::{c_char, c_int, c_void};

use super::constants::{
    SYMLEASE_GROUP_MAX, SYMLEASE_ID_SIZE, SYMLEASE_OWNER_SIZE, SYMLEASE_TOKEN_SIZE,
};

/// What a call says: 0 done; positive an answer; negative an error. One of
/// SYMLEASE_OK, SYMLEASE_HELD ... SYMLEASE_ABSENT, SYMLEASE_E_*.
pub type symlease_status = i32;

/// A clock: Unix seconds, finite and not negative (else the call is
/// E_INVALID). Called on the calling thread, inside the call, perhaps several
/// times and under a record's lock. It must not call symlease nor throw.
pub type symlease_clock_fn = Option<unsafe extern "C" fn(user: *mut c_void) -> f64>;

/// The settings of a handle. Zero everywhere but in struct_size is valid and
/// means the defaults: start with symlease_options_init(). The caller owns the
/// struct and its strings; all is copied at open. New fields come at the end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct symlease_options {
    /// sizeof(symlease_options). Smaller is accepted where it ends between two
    /// fields; larger where the bytes beyond are zero, else E_UNSUPPORTED.
    pub struct_size: usize,
    /// UTF-8, at most 255 bytes; NULL: the environment, else "<host>:<pid>".
    pub owner: *const c_char,
    /// Build identity of the coverage map; NULL: what is there, else "".
    pub map_identity: *const c_char,
    /// A directory (bytes); NULL: the environment in symlease_open_env, else
    /// the default name below root.
    pub work_root: *const c_char,
    /// As work_root, of the target leases.
    pub target_root: *const c_char,
    /// As work_root, of the coverage.
    pub coverage_root: *const c_char,
    /// Bytes of the coverage map; 0: what is there, else fixed by the first
    /// dense merge.
    pub map_size: u64,
    /// Seconds, > 0 and <= 86,400; 0: the environment, else 300.
    pub work_ttl: f64,
    /// Seconds, > 0 and <= 86,400; 0: the environment, else work_ttl.
    pub target_ttl: f64,
    /// Seconds to wait for a lock; 0: the environment, else 60; negative: one try.
    pub lock_timeout: f64,
    /// Seconds that clocks may differ, at most 86,400; 0: 60.
    pub clock_skew: f64,
    /// Seconds that a coordinator's heartbeat counts; 0: the environment, else 30.
    pub coverage_ttl: f64,
    /// NULL: CLOCK_REALTIME. Must stay callable until symlease_close, from
    /// every thread that uses the handle.
    pub clock: symlease_clock_fn,
    /// Passed to clock as it is; never read here.
    pub clock_user: *mut c_void,
    /// The rank shown in records.
    pub worker: u32,
    /// 0: what is there, the environment, else 256.
    pub lease_shards: u32,
    /// 0: what is there, the environment, else 64; at most 4,096.
    pub coverage_shards: u32,
    /// From 0, less than coordinator_count; both 0: the environment.
    pub coordinator_index: u32,
    /// 0: the environment, else 1.
    pub coordinator_count: u32,
    /// Mode of files that are made, within 0660 and at least 0600; 0: what is
    /// there, else 0600. 0660 lets a group share a campaign.
    pub file_mode: u32,
    /// SYMLEASE_OPEN_*, ORed.
    pub flags: u32,
    /// SYMLEASE_ENGINE_*.
    pub engine: i32,
    /// SYMLEASE_DURABLE_*.
    pub durability: i32,
    /// SYMLEASE_EXPIRY_*.
    pub expiry: i32,
    /// SYMLEASE_SESSION_*.
    pub session: i32,
    /// 0, else E_INVALID.
    pub reserved: u32,
}

/// A work lease: written by claims, heartbeats and verify; a plain struct that
/// the caller owns and may copy (one copy per thread). id and token are all
/// that counts as input: zero the rest, fill in these two, and go on with the
/// lease in another process.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct symlease_lease {
    /// 64 lower-case hex digits and a NUL.
    pub id: [c_char; SYMLEASE_ID_SIZE],
    /// The token of this claim, NUL-terminated.
    pub token: [c_char; SYMLEASE_TOKEN_SIZE],
    /// Grows with every claim of the record.
    pub fence: u64,
    /// Claims so far.
    pub attempts: u32,
    /// Claims that changed the owner.
    pub steals: u32,
    /// Unix seconds of the last heartbeat.
    pub updated: f64,
    /// Seconds that it lives without a heartbeat.
    pub ttl: f64,
    /// Zero, else E_INVALID.
    pub reserved: [u64; 8],
}

/// A group of targets leased together. As symlease_lease; targets (in any
/// order), count and token are all that counts as input.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct symlease_group {
    /// The first `count` are used.
    pub targets: [u64; SYMLEASE_GROUP_MAX],
    /// 1 to SYMLEASE_GROUP_MAX.
    pub count: u32,
    /// The token of this claim, NUL-terminated.
    pub token: [c_char; SYMLEASE_TOKEN_SIZE],
    /// Grows with every claim.
    pub fence: u64,
    /// Unix seconds of the last heartbeat.
    pub updated: f64,
    /// Seconds that it lives without a heartbeat.
    pub ttl: f64,
    /// Zero, else E_INVALID.
    pub reserved: [u64; 8],
}

/// Who stands in a claim's way. Written on HELD, COMMITTING and DONE; target
/// also on a group's E_CORRUPT.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct symlease_holder {
    /// UTF-8, NUL-terminated; a longer one is cut at a character.
    pub owner: [c_char; SYMLEASE_OWNER_SIZE],
    /// Seconds until its time is over; 0 where none decides.
    pub remaining: f64,
    /// The target, in a group's claim.
    pub target: u64,
    /// Written zero.
    pub reserved: [u64; 8],
}

/// What symlease_heartbeat_all did, in entries.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct symlease_heartbeat_stats {
    /// Leases that were renewed.
    pub work_ok: u64,
    /// Leases that were not.
    pub work_failed: u64,
    /// Targets that were renewed.
    pub target_ok: u64,
    /// Targets that were not.
    pub target_failed: u64,
    /// Written zero.
    pub reserved: [u64; 8],
}

/// Records of a table by status.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct symlease_counts {
    /// Leased, the expired ones included.
    pub leased: u64,
    /// A commit has begun.
    pub committing: u64,
    /// Leased and not live; part of `leased`.
    pub expired: u64,
    /// Finished.
    pub done: u64,
    /// Damaged.
    pub corrupt: u64,
    /// Written zero.
    pub reserved: [u64; 8],
}

/// One set byte of a coverage map. Never grows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct symlease_edge {
    /// The byte's place in the map, less than 2^23.
    pub index: u32,
    /// Its classified bits (AFL buckets).
    pub bits: u8,
}

/// A whole coverage map, classified. Never grows. The caller owns the bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct symlease_map {
    /// May be NULL where len is 0.
    pub bytes: *const u8,
    /// Bytes.
    pub len: usize,
}

/// One result of a commit. The caller owns the struct and what it points to.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct symlease_result {
    /// In: path (bytes) of the staged file.
    pub staged: *const c_char,
    /// In: name in the corpus, one path component; NULL: the file's SHA-256.
    pub name: *const c_char,
    /// In: the corpus directory; NULL: the commit's.
    pub corpus: *const c_char,
    /// In, where map_kind is SYMLEASE_MAP_DENSE.
    pub map: symlease_map,
    /// In, where map_kind is SYMLEASE_MAP_SPARSE.
    pub edges: *const symlease_edge,
    /// In: entries of edges.
    pub edge_count: usize,
    /// In: SYMLEASE_MAP_*.
    pub map_kind: u32,
    /// In: 0 or SYMLEASE_RESULT_KEEP.
    pub flags: u32,
    /// Out: bits that were new.
    pub novel_bits: u64,
    /// Out: SYMLEASE_RESULT_* (UNSET, PUBLISHED ... NOT_NOVEL).
    pub outcome: i32,
    /// Out: this entry's own status.
    pub status: symlease_status,
    /// Out: the file's SHA-256, 64 hex digits and a NUL.
    pub digest: [c_char; SYMLEASE_ID_SIZE],
    /// Zero, else E_INVALID.
    pub reserved: [u64; 8],
}

/// A sparse coverage list. Duplicate edges are ORed. The caller owns it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct symlease_sparse {
    /// May be NULL where count is 0.
    pub edges: *const symlease_edge,
    /// Entries.
    pub count: usize,
}

/// What a handle did since it was opened.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct symlease_counters {
    /// Locks taken.
    pub locks: u64,
    /// Locks that were not free at the first try.
    pub contended: u64,
    /// Locks given up at the deadline.
    pub timeouts: u64,
    /// Nanoseconds spent waiting for locks.
    pub wait_ns: u64,
    /// Steps that were tried again.
    pub retries: u64,
    /// Syncs to storage.
    pub syncs: u64,
    /// Reads answered from what the handle knew.
    pub cache_hits: u64,
    /// Calls that ended in E_INDETERMINATE.
    pub indeterminate: u64,
    /// Written zero.
    pub reserved: [u64; 8],
}

/// What a claim may ask beyond the handle's settings. Zero everywhere but in
/// struct_size means the handle's. Smaller and larger ones as symlease_options.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct symlease_claim_options {
    /// sizeof(symlease_claim_options).
    pub struct_size: usize,
    /// UTF-8, at most 255 bytes; NULL: the handle's.
    pub owner: *const c_char,
    /// Seconds; judges the record that is there; 0: its own.
    pub ttl: f64,
    /// Seconds; is written; 0: the handle's.
    pub new_ttl: f64,
    /// Unix seconds; 0: the clock.
    pub now: f64,
    /// The rank; 0: the handle's.
    pub worker: u32,
    /// 0 or SYMLEASE_CLAIM_TAKEOVER.
    pub flags: u32,
}

/// One record, shown to a callback and valid until it returns; copy what is
/// needed longer. Grows at the end: read a field only where struct_size
/// reaches over it. Strings are UTF-8 and NUL-terminated; NULL: none.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct symlease_view {
    /// Bytes of this struct in the library that runs.
    pub struct_size: usize,
    /// 64 lower-case hex digits.
    pub id: *const c_char,
    /// Who holds it.
    pub owner: *const c_char,
    /// Who held it before.
    pub previous_owner: *const c_char,
    /// The current token.
    pub token: *const c_char,
    /// JSON.
    pub payload: *const c_char,
    /// JSON, of the commit that has begun.
    pub manifest: *const c_char,
    /// The whole record; NULL when damaged (why: symlease_last_error()).
    pub json: *const c_char,
    /// The holder's session.
    pub session: *const c_char,
    /// Grows with every claim.
    pub fence: u64,
    /// The target, in the target table.
    pub target: u64,
    /// Unix seconds of the last heartbeat.
    pub updated: f64,
    /// Seconds.
    pub ttl: f64,
    /// Seconds; < 0: past.
    pub remaining: f64,
    /// The holder's rank.
    pub worker: u32,
    /// Claims so far.
    pub attempts: u32,
    /// Claims that changed the owner.
    pub steals: u32,
    /// One of SYMLEASE_SCAN_LEASED, _COMMITTING, _DONE, _CORRUPT.
    pub status: i32,
    /// SYMLEASE_LIFE_*.
    pub life: i32,
    /// SYMLEASE_HOLDER_*.
    pub holder: i32,
}

/// Sees one record. As a visitor: no lock is held, symlease may be called, and
/// non-zero stops the visit (the call is OK). As publish of symlease_replay:
/// runs under the record's lock, must not call symlease (E_INVALID at once),
/// and 0 means published. Runs on the calling thread; must not throw.
pub type symlease_view_fn =
    Option<unsafe extern "C" fn(user: *mut c_void, view: *const symlease_view) -> c_int>;

/// Sees new bits: those of one candidate of a merge, or of one shard of a
/// pull. The edges are valid until it returns. No lock is held; runs on the
/// calling thread; non-zero stops the visit; must not throw.
pub type symlease_novel_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        candidate: usize,
        edges: *const symlease_edge,
        n: usize,
    ) -> c_int,
>;

/// A handle of one open campaign: made by symlease_open or symlease_open_env,
/// ended by symlease_close. May be used by many threads at once.
pub struct symlease_campaign {
    campaign: crate::campaign::Campaign,
}

impl symlease_campaign {
    pub(super) fn new(campaign: crate::campaign::Campaign) -> symlease_campaign {
        symlease_campaign { campaign }
    }

    pub(super) fn campaign(&self) -> &crate::campaign::Campaign {
        &self.campaign
    }
}
