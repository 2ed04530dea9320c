//! `protocol.md`'s tables once more, in the plainest words: what a work record,
//! a target record and the map must be after any sequence of calls.

use std::collections::BTreeMap;

use symlease::ffi::constants::*;

/// Where a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Somebody works on it, or did.
    Leased,
    /// Cannot be taken any more.
    Committing,
    /// Finished.
    Done,
}

/// One record. Absent ones are not in the map.
#[derive(Clone, Debug)]
pub struct Record {
    /// Where it stands.
    pub stage: Stage,
    /// The current token; `None` after an abandon: nobody holds it.
    pub token: Option<String>,
    /// Who claimed it last.
    pub owner: String,
    /// Strictly rises.
    pub fence: u64,
    /// Claims.
    pub attempts: u32,
    /// Claims that changed the owner.
    pub steals: u32,
    /// Of the last claim or heartbeat; 0 after an abandon.
    pub updated: f64,
    /// Written by the claim.
    pub ttl: f64,
    /// As the claims gave it.
    pub payload: String,
    /// As begin commit gave it.
    pub manifest: Option<String>,
}

/// A claim.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// Who asks.
    pub owner: &'a str,
    /// When.
    pub now: f64,
    /// Judges what is there; 0: its own.
    pub ttl: f64,
    /// Is written.
    pub new_ttl: f64,
    /// Whatever its time.
    pub takeover: bool,
    /// `None` keeps what is there.
    pub payload: Option<&'a str>,
}

/// A table of records by id.
pub type Table = BTreeMap<String, Record>;

/// Whether a record lives.
pub fn live(record: &Record, ttl: f64, now: f64) -> bool {
    let ttl = if ttl > 0.0 { ttl } else { record.ttl };
    record.stage == Stage::Leased && record.updated != 0.0 && now - record.updated < ttl
}

/// What a claim of this record must answer.
pub fn claim(record: Option<&Record>, ask: &Ask<'_>) -> i32 {
    match record {
        None => SYMLEASE_OK,
        Some(record) => match record.stage {
            Stage::Done => SYMLEASE_DONE,
            Stage::Committing => SYMLEASE_COMMITTING,
            Stage::Leased if !ask.takeover && live(record, ask.ttl, ask.now) => SYMLEASE_HELD,
            Stage::Leased => SYMLEASE_OK,
        },
    }
}

/// The record behind a granted claim.
pub fn claimed(old: Option<&Record>, ask: &Ask<'_>, token: &str, fence: u64) -> Record {
    if let Some(old) = old {
        assert!(fence > old.fence, "the fence did not rise");
        assert_ne!(old.token.as_deref(), Some(token), "a token came twice");
    }
    let stolen = old.is_some_and(|old| old.owner != ask.owner);
    Record {
        stage: Stage::Leased,
        token: Some(token.to_string()),
        owner: ask.owner.to_string(),
        fence,
        attempts: old.map_or(0, |old| old.attempts) + 1,
        steals: old.map_or(0, |old| old.steals) + u32::from(stolen),
        updated: ask.now,
        ttl: ask.new_ttl,
        payload: match (ask.payload, old) {
            (Some(payload), _) => payload.to_string(),
            (None, Some(old)) => old.payload.clone(),
            (None, None) => "{}".to_string(),
        },
        manifest: None,
    }
}

/// The record if the token is its current one.
fn held<'a>(record: Option<&'a mut Record>, token: &str) -> Option<&'a mut Record> {
    record.filter(|record| record.token.as_deref() == Some(token))
}

/// Heartbeat of a work lease.
pub fn heartbeat(record: Option<&mut Record>, token: &str, now: f64) -> i32 {
    match held(record, token) {
        None => SYMLEASE_STALE,
        Some(record) if record.stage == Stage::Done => SYMLEASE_ALREADY,
        Some(record) => {
            record.updated = now;
            SYMLEASE_OK
        }
    }
}

/// Abandon.
pub fn abandon(record: Option<&mut Record>, token: &str) -> i32 {
    match held(record, token) {
        None => SYMLEASE_STALE,
        Some(record) => match record.stage {
            Stage::Committing => SYMLEASE_COMMITTING,
            Stage::Done => SYMLEASE_STALE,
            Stage::Leased => {
                record.token = None;
                record.updated = 0.0;
                SYMLEASE_OK
            }
        },
    }
}

/// Begin commit.
pub fn begin(record: Option<&mut Record>, token: &str, manifest: &str) -> i32 {
    match held(record, token) {
        Some(record) if record.stage == Stage::Leased => {
            record.stage = Stage::Committing;
            record.manifest = Some(manifest.to_string());
            SYMLEASE_OK
        }
        Some(record) if record.stage == Stage::Committing => {
            match record.manifest.as_deref() == Some(manifest) {
                true => SYMLEASE_OK,
                false => SYMLEASE_CONFLICT,
            }
        }
        _ => SYMLEASE_STALE,
    }
}

/// Complete.
pub fn complete(record: Option<&mut Record>, token: &str) -> i32 {
    match held(record, token) {
        None => SYMLEASE_STALE,
        Some(record) if record.stage == Stage::Done => SYMLEASE_ALREADY,
        Some(record) => {
            record.stage = Stage::Done;
            SYMLEASE_OK
        }
    }
}

/// Replay, with what the callback will answer.
pub fn replay(record: Option<&mut Record>, token: &str, published: bool) -> i32 {
    match held(record, token) {
        None => SYMLEASE_STALE,
        Some(record) => match record.stage {
            Stage::Leased => SYMLEASE_CONFLICT,
            Stage::Done => SYMLEASE_ALREADY,
            Stage::Committing if !published => SYMLEASE_E_CALLBACK,
            Stage::Committing => {
                record.stage = Stage::Done;
                SYMLEASE_OK
            }
        },
    }
}

/// Verify.
pub fn verify(record: Option<&mut Record>, token: &str) -> i32 {
    match held(record, token) {
        None => SYMLEASE_STALE,
        Some(record) => match record.stage {
            Stage::Leased => SYMLEASE_OK,
            Stage::Committing => SYMLEASE_COMMITTING,
            Stage::Done => SYMLEASE_ALREADY,
        },
    }
}

/// Whether every member carries the token (groups: all or nothing).
pub fn group_held(table: &Table, ids: &[String], token: &str) -> bool {
    let holds = |id: &String| {
        let record = table.get(id);
        record.is_some_and(|record| record.token.as_deref() == Some(token))
    };
    ids.iter().all(holds)
}

/// ORs edges into the map; the bits that were new.
pub fn merge(map: &mut BTreeMap<u32, u8>, edges: &[(u32, u8)]) -> u64 {
    let mut novel = 0;
    for (index, bits) in edges.iter().filter(|edge| edge.1 != 0) {
        let old = map.entry(*index).or_default();
        novel += u64::from((bits & !*old).count_ones());
        *old |= bits;
    }
    novel
}
