//! The constants of the header, by the names C knows.

use super::types::symlease_status;

/// Grows only when programs built against an older header would break.
/// Compare with what symlease_abi_version() returns at run time.
pub const SYMLEASE_ABI_VERSION: u32 = 0;

/// Bytes of an id with its NUL: 64 lower-case hex digits and one NUL.
pub const SYMLEASE_ID_SIZE: usize = 65;
/// Bytes of a token's field, NUL included.
pub const SYMLEASE_TOKEN_SIZE: usize = 384;
/// Bytes of an owner's field, NUL included; UTF-8, cut at a character.
pub const SYMLEASE_OWNER_SIZE: usize = 256;
/// The most targets in one group.
pub const SYMLEASE_GROUP_MAX: usize = 64;

/// Status: done.
pub const SYMLEASE_OK: symlease_status = 0;
/// Answer: somebody else holds it. Where a call takes a symlease_holder, it says who.
pub const SYMLEASE_HELD: symlease_status = 1;
/// Answer: its commit has begun and is not complete.
pub const SYMLEASE_COMMITTING: symlease_status = 2;
/// Answer: it is finished.
pub const SYMLEASE_DONE: symlease_status = 3;
/// Answer: the token is not the current one; the lease is lost. Stop the work.
pub const SYMLEASE_STALE: symlease_status = 4;
/// Answer: this token completed it before.
pub const SYMLEASE_ALREADY: symlease_status = 5;
/// Answer: the commit began with another manifest.
pub const SYMLEASE_CONFLICT: symlease_status = 6;
/// Answer: there is no such record (symlease_read_record), or nobody has fixed
/// the map yet (symlease_coverage_map_info).
pub const SYMLEASE_ABSENT: symlease_status = 7;
/// Error: an argument is wrong; symlease_last_error() names it. Nothing was done.
pub const SYMLEASE_E_INVALID: symlease_status = -1;
/// Error: a lock was not free within lock_timeout.
pub const SYMLEASE_E_TIMEOUT: symlease_status = -2;
/// Error: the system refused; symlease_last_errno() says why.
pub const SYMLEASE_E_IO: symlease_status = -3;
/// Error: a file is not what its format says.
pub const SYMLEASE_E_CORRUPT: symlease_status = -4;
/// Error: not possible here, or not in this version.
pub const SYMLEASE_E_UNSUPPORTED: symlease_status = -5;
/// Error: a size or a number is beyond its limit. Nothing was changed.
pub const SYMLEASE_E_LIMIT: symlease_status = -6;
/// Error: a bug in this library. The handle stays usable.
pub const SYMLEASE_E_INTERNAL: symlease_status = -7;
/// Error: the other side does not answer.
pub const SYMLEASE_E_UNAVAILABLE: symlease_status = -8;
/// Error: the campaign was made with other settings.
pub const SYMLEASE_E_MISMATCH: symlease_status = -9;
/// Error: it may or may not have happened; the same call again settles it.
pub const SYMLEASE_E_INDETERMINATE: symlease_status = -10;
/// Error: the caller's callback refused.
pub const SYMLEASE_E_CALLBACK: symlease_status = -11;

/// symlease_options.durability: what is there; power for a new campaign.
pub const SYMLEASE_DURABLE_ANY: i32 = 0;
/// symlease_options.durability: an answer of OK survives power loss.
pub const SYMLEASE_DURABLE_POWER: i32 = 1;
/// symlease_options.durability: it survives the death of any process, not
/// power loss: nothing is synced.
pub const SYMLEASE_DURABLE_PROCESS: i32 = 2;

/// symlease_options.expiry: a lease's age is judged by the clock.
pub const SYMLEASE_EXPIRY_WALL: i32 = 0;
/// symlease_options.expiry: a lease's age is judged by how long this handle
/// has seen it unchanged.
pub const SYMLEASE_EXPIRY_OBSERVED: i32 = 1;

/// symlease_options.engine: what is there; files for a new campaign.
pub const SYMLEASE_ENGINE_ANY: i32 = 0;
/// symlease_options.engine: one file a record.
pub const SYMLEASE_ENGINE_FILES: i32 = 1;
/// symlease_options.engine: an append-only log.
pub const SYMLEASE_ENGINE_LOG: i32 = 2;

/// symlease_options.session: the handle has a session of its own; when its
/// process dies, others see that at once.
pub const SYMLEASE_SESSION_OWN: i32 = 0;
/// symlease_options.session: none (helpers that go on with a lease of another
/// process). A heartbeat by such a handle removes the record's session.
pub const SYMLEASE_SESSION_NONE: i32 = 1;

/// symlease_options.flags, may be ORed: refuse to make a new campaign.
pub const SYMLEASE_OPEN_EXISTING: u32 = 1;
/// symlease_options.flags, may be ORed: change nothing.
pub const SYMLEASE_OPEN_READ_ONLY: u32 = 2;

/// A table: the work leases.
pub const SYMLEASE_TABLE_WORK: i32 = 0;
/// A table: the target leases.
pub const SYMLEASE_TABLE_TARGET: i32 = 1;
/// A table: the coverage shards. For symlease_read_record only; the id is the
/// shard's number in decimal.
pub const SYMLEASE_TABLE_COVERAGE: i32 = 2;

/// A record's status, and a bit of a scan's mask: leased.
pub const SYMLEASE_SCAN_LEASED: u32 = 1;
/// A record's status, and a bit of a scan's mask: committing.
pub const SYMLEASE_SCAN_COMMITTING: u32 = 2;
/// A record's status, and a bit of a scan's mask: done.
pub const SYMLEASE_SCAN_DONE: u32 = 4;
/// A record's status, and a bit of a scan's mask: damaged.
pub const SYMLEASE_SCAN_CORRUPT: u32 = 8;
/// A scan's mask: every status.
pub const SYMLEASE_SCAN_ALL: u32 = 15;

/// symlease_view.life: its time is not over.
pub const SYMLEASE_LIFE_LIVE: i32 = 1;
/// symlease_view.life: its time is over.
pub const SYMLEASE_LIFE_EXPIRED: i32 = 2;
/// symlease_view.life: its holder gave it back.
pub const SYMLEASE_LIFE_ABANDONED: i32 = 3;
/// symlease_view.life: its holder's process is dead.
pub const SYMLEASE_LIFE_DEAD: i32 = 4;
/// symlease_view.life: its time of update lies ahead by more than clock_skew.
pub const SYMLEASE_LIFE_FUTURE: i32 = 5;

/// symlease_view.holder: nothing tells whether its process lives.
pub const SYMLEASE_HOLDER_UNKNOWN: i32 = 0;
/// symlease_view.holder: its process lives.
pub const SYMLEASE_HOLDER_ALIVE: i32 = 1;
/// symlease_view.holder: its process is dead.
pub const SYMLEASE_HOLDER_DEAD: i32 = 2;

/// symlease_claim_options.flags: take any leased record, whatever its time;
/// never a committing one.
pub const SYMLEASE_CLAIM_TAKEOVER: u32 = 1;

/// symlease_result.map_kind: coverage unknown; published always.
pub const SYMLEASE_MAP_NONE: u32 = 0;
/// symlease_result.map_kind: `map` holds the whole map.
pub const SYMLEASE_MAP_DENSE: u32 = 1;
/// symlease_result.map_kind: `edges` holds what is set.
pub const SYMLEASE_MAP_SPARSE: u32 = 2;

/// symlease_result.flags: merge, and publish even if nothing is novel (crashes).
pub const SYMLEASE_RESULT_KEEP: u32 = 1;

/// symlease_result.outcome: not decided.
pub const SYMLEASE_RESULT_UNSET: i32 = 0;
/// symlease_result.outcome: published under its name.
pub const SYMLEASE_RESULT_PUBLISHED: i32 = 1;
/// symlease_result.outcome: its name was taken by another file; published
/// under its digest.
pub const SYMLEASE_RESULT_PUBLISHED_BY_DIGEST: i32 = 2;
/// symlease_result.outcome: the same bytes were there already.
pub const SYMLEASE_RESULT_ALREADY_THERE: i32 = 3;
/// symlease_result.outcome: the staged file is gone, and is not published.
pub const SYMLEASE_RESULT_LOST: i32 = 4;
/// symlease_result.outcome: its coverage was known; not published.
pub const SYMLEASE_RESULT_NOT_NOVEL: i32 = 5;

/// As the ttl of symlease_list_expired: each record's own.
pub const SYMLEASE_TTL_RECORD: f64 = -1.0;
