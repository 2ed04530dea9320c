//! The handle of one campaign: what an operation means, as keys and a
//! decision. No lock of the handle is held across I/O.

mod collect;
pub mod commit;
pub mod coverage;
mod credit;
mod evidence;
pub mod group;
mod known;
pub mod look;
pub mod open;
pub mod overview;
pub mod probe;
mod published;
mod reclaim;
mod remembered;
mod replay;
pub mod report;
pub mod survey;
pub mod work;

use std::sync::atomic::AtomicU64;
use std::sync::Mutex;

use crate::engine::corpus::Store;
use crate::engine::{Engine, Read, Table};
use crate::environment::Correction;
use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};
use crate::model::lease::Judge;
use crate::record::id::{hex, is_id};
use crate::record::lease::Lease;
use crate::sys::known::Known;

/// The clock of a handle: Unix seconds.
pub type Clock = Box<dyn Fn() -> f64 + Send + Sync>;

/// A source of random bytes.
pub type Random = Box<dyn Fn(&mut [u8]) -> Result<()> + Send + Sync>;

/// What a handle knows of itself.
pub struct Settings {
    /// The owner written into records; at most 255 bytes.
    pub owner: String,
    /// The rank written into records.
    pub worker: u32,
    /// Seconds a work lease lives without a heartbeat.
    pub work_ttl: f64,
    /// Seconds a target lease lives without a heartbeat.
    pub target_ttl: f64,
    /// Seconds a coordinator's heartbeat counts.
    pub coverage_ttl: f64,
    /// Seconds a clock may be ahead.
    pub clock_skew: f64,
    /// Leases are judged by how long this handle has seen them unchanged.
    pub observed: bool,
    /// This coordinator's place, below `coordinator_count`.
    pub coordinator_index: u32,
    /// Coordinators of the campaign, 1 to 4096.
    pub coordinator_count: u32,
    /// Bytes of the coverage map; 0: what is there.
    pub map_size: u64,
    /// The map's build; `None`: what is there.
    pub map_identity: Option<String>,
    /// The work root's parent: paths below it are relative in manifests.
    pub base: Vec<u8>,
    /// Environment values that were not taken as they stood.
    pub corrected: Vec<Correction>,
}

/// One open campaign. May be used by many threads at once.
pub struct Campaign {
    engine: Box<dyn Engine>,
    settings: Settings,
    store: Store,
    clock: Clock,
    random: Random,
    /// Records that were seen, for those that observation judges.
    sightings: evidence::Sightings,
    /// The map's size, once this handle has made sure that it is durable (C6); 0.
    fitted: AtomicU64,
    /// What pulls have given; only ever tried, so that a fork cannot hang (F4).
    given: Mutex<coverage::Given>,
    remembered: remembered::Remembered,
    /// Names this handle in what it publishes; made when it first does.
    handle: AtomicU64,
    /// When it published last, on the monotonic clock.
    published: AtomicU64,
    /// Coverage bits that are known for ever (C8); `None`: no memory for them.
    known: Option<Known>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            owner: String::new(),
            worker: 0,
            work_ttl: 300.0,
            target_ttl: 300.0,
            coverage_ttl: 30.0,
            clock_skew: 60.0,
            observed: false,
            coordinator_index: 0,
            coordinator_count: 1,
            map_size: 0,
            map_identity: None,
            base: Vec::new(),
            corrected: Vec::new(),
        }
    }
}

/// A lease that the caller holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The current token.
    pub token: String,
    /// The fence of this claim.
    pub fence: u64,
    /// Claims so far.
    pub attempts: u32,
    /// Claims that changed the owner.
    pub steals: u32,
    /// Unix seconds of the last heartbeat.
    pub updated: f64,
    /// Seconds.
    pub ttl: f64,
}

/// Who stands in a claim's way.
#[derive(Clone, Debug, PartialEq)]
pub struct Holder {
    /// Its owner.
    pub owner: String,
    /// Seconds until its TTL; 0 where none decides.
    pub remaining: f64,
    /// The target, in a group.
    pub target: u64,
}

/// The positive answers of the C interface, and OK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done.
    Ok,
    /// Somebody else's.
    Held,
    /// Its commit has begun.
    Committing,
    /// Finished.
    Done,
    /// The token is not the current one.
    Stale,
    /// This token completed it before.
    Already,
    /// The commit began with another manifest.
    Conflict,
    /// Not there.
    Absent,
}

/// What a claim may ask beyond the handle's defaults.
#[derive(Clone, Debug, Default)]
pub struct ClaimOptions {
    /// `None`: the handle's.
    pub owner: Option<String>,
    /// Judges the record that is there; `None`: its own.
    pub ttl: Option<f64>,
    /// Is written; `None`: the handle's.
    pub new_ttl: Option<f64>,
    /// Unix seconds; `None`: the clock.
    pub now: Option<f64>,
    /// `None`: the handle's.
    pub worker: Option<u32>,
    /// Take any leased record.
    pub takeover: bool,
}

impl Campaign {
    /// A campaign over an engine.
    pub fn new(
        engine: Box<dyn Engine>,
        settings: Settings,
        store: Store,
        clock: Clock,
        random: Random,
    ) -> Campaign {
        // Made here, and so before a fork server: its children share it.
        let known = engine.coverage_shards().ok().and_then(|_| Known::new());
        Campaign {
            engine,
            settings,
            store,
            clock,
            random,
            sightings: evidence::Sightings::default(),
            fitted: AtomicU64::new(0),
            given: Mutex::default(),
            remembered: Default::default(),
            handle: AtomicU64::new(0),
            published: AtomicU64::new(0),
            known,
        }
    }

    /// The engine, for counters and sweeps.
    pub fn engine(&self) -> &dyn Engine {
        self.engine.as_ref()
    }

    /// What this handle knows of itself.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The clock, checked: finite and not negative (C3, F20).
    pub fn now(&self) -> Result<f64> {
        checked_time((self.clock)(), "clock")
    }

    fn default_ttl(&self, table: Table) -> f64 {
        match table {
            Table::Target => self.settings.target_ttl,
            _ => self.settings.work_ttl,
        }
    }

    /// How this handle judges records of a table; `ttl` overrules theirs.
    pub fn judge(&self, table: Table, now: f64, ttl: Option<f64>) -> Judge {
        Judge {
            now,
            ttl,
            default_ttl: self.default_ttl(table),
            skew: self.settings.clock_skew,
            observed: self.settings.observed,
        }
    }

    /// A token nobody else has: who made it, and 64 random bits.
    fn token(&self, owner: &str, worker: u32) -> Result<String> {
        let mut bytes = [0u8; 8];
        (self.random)(&mut bytes)?;
        Ok(format!("{owner}:{worker}:{}", hex(&bytes)))
    }
}

/// A time from outside, refused unless finite and not negative.
pub fn checked_time(seconds: f64, what: &str) -> Result<f64> {
    if seconds.is_finite() && seconds >= 0.0 {
        return Ok(seconds);
    }
    Err(Error::new(
        Kind::Invalid,
        format!("{what}: {seconds} is not a finite time >= 0"),
    ))
}

/// A TTL from outside, in seconds.
pub fn checked_ttl(seconds: f64, what: &str) -> Result<f64> {
    if seconds.is_finite() && seconds > 0.0 && seconds <= 86_400.0 {
        return Ok(seconds);
    }
    Err(Error::new(
        Kind::Invalid,
        format!("{what}: {seconds} is not within (0, 86400] seconds"),
    ))
}

fn checked_id(id: &str) -> Result<()> {
    if is_id(id) {
        return Ok(());
    }
    Err(Error::new(
        Kind::Invalid,
        "id: not 64 lower-case hex digits",
    ))
}

/// The record behind a read: a damaged one is CORRUPT for every call.
fn decode(id: &str, read: &Read) -> Result<Option<Lease>> {
    match read {
        Err(_) if !on(Guard::DamagedRecord) => Ok(None),
        Err(error) => Err(error.clone()),
        Ok(None) => Ok(None),
        Ok(Some(bytes)) => match Lease::parse(id, bytes) {
            Ok(lease) => Ok(Some(lease)),
            Err(_) if !on(Guard::DamagedRecord) => Ok(None),
            Err(why) => Err(Error::new(Kind::Corrupt, format!("record {id}: {why}"))),
        },
    }
}

fn held(lease: &Lease, default_ttl: f64) -> Held {
    Held {
        token: lease.token().unwrap_or_default().to_string(),
        fence: lease.fence().unwrap_or(0),
        attempts: lease.attempts(),
        steals: lease.steals(),
        updated: lease.updated(),
        ttl: lease.ttl().unwrap_or(default_ttl),
    }
}
