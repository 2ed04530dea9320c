//! The state of a campaign at one time, as numbers.

use std::collections::{BTreeMap, BTreeSet};

use indicatif::ProgressBar;
use serde_json::{json, Value};
use symlease::campaign::overview::Coordinator;
use symlease::campaign::Campaign;
use symlease::engine::survey::Session;
use symlease::engine::Table;
use symlease::error::Kind;
use symlease::model::lease::Presence;

use crate::arguments::State;
use crate::open::Failure;
use crate::records::{judge, word};

/// Leases that end soonest, and how many of them are kept.
const EXPIRIES: usize = 64;

/// The states, in the order in which they are shown.
pub const STATES: [State; 8] = [
    State::Live,
    State::Expired,
    State::Dead,
    State::Abandoned,
    State::Future,
    State::Committing,
    State::Done,
    State::Damaged,
];

/// Records of a table by state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts(pub [u64; STATES.len()]);

impl Counts {
    pub fn of(&self, state: State) -> u64 {
        let place = STATES.iter().position(|one| *one == state);
        place.map_or(0, |place| self.0[place])
    }

    pub fn add(&mut self, state: State) {
        if let Some(place) = STATES.iter().position(|one| *one == state) {
            self.0[place] += 1;
        }
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    fn json(&self) -> Value {
        let pairs = STATES.iter().zip(&self.0);
        pairs
            .map(|(state, many)| (word(*state).to_string(), json!(many)))
            .collect()
    }
}

/// What one owner has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Owner {
    pub work: Counts,
    pub target: Counts,
}

/// A live lease and when it ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Expiry {
    pub table: Table,
    pub id: String,
    pub owner: String,
    pub remaining: f64,
    pub ttl: f64,
}

/// The authority.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coverage {
    pub edges: u64,
    pub bits: u64,
    pub changes: u64,
    pub pending: u64,
    pub shards: u32,
    pub written: u32,
    pub map_size: Option<u64>,
    pub map_identity: Option<String>,
    pub damaged: Vec<String>,
}

/// Counters of several handles together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waits {
    pub handles: u64,
    pub locks: u64,
    pub contended: u64,
    pub timeouts: u64,
    pub wait_ns: u64,
    pub indeterminate: u64,
    pub unsynced: u64,
}

/// One process that keeps sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    pub owner: String,
    pub host: String,
    pub process: u32,
    pub presence: Presence,
    pub waits: Option<Waits>,
    /// Seconds since it published its counters.
    pub told: Option<f64>,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub at: f64,
    pub work: Counts,
    pub target: Counts,
    pub owners: BTreeMap<String, Owner>,
    pub expiries: Vec<Expiry>,
    pub processes: Vec<Process>,
    /// Of the living, of the ended: until a sweep takes their counters.
    pub waits: [Waits; 2],
    pub coordinators: Vec<Coordinator>,
    pub damaged_heartbeats: u64,
    pub coverage: Option<Coverage>,
    /// What could not be read, in words.
    pub troubles: Vec<String>,
}

impl Snapshot {
    /// Reads the whole campaign. What is damaged is counted and told.
    pub fn take(campaign: &Campaign) -> Result<Snapshot, Failure> {
        Snapshot::counting(campaign, &ProgressBar::hidden())
    }

    /// The same; the bar counts records.
    pub fn counting(campaign: &Campaign, bar: &ProgressBar) -> Result<Snapshot, Failure> {
        let mut all = Snapshot {
            at: campaign.now()?,
            ..Snapshot::default()
        };
        for table in [Table::Work, Table::Target] {
            match all.scan(campaign, table, bar) {
                Err(error) if error.kind == Kind::Invalid => {}
                other => other?,
            }
        }
        let by_end = |a: &Expiry, b: &Expiry| a.remaining.total_cmp(&b.remaining);
        all.expiries.sort_by(by_end);
        all.expiries.truncate(EXPIRIES);
        let (processes, waits) = processes(campaign.sessions()?, all.at);
        (all.processes, all.waits) = (processes, waits);
        if campaign.engine().coverage_shards().is_ok() {
            all.cover(campaign)?;
        }
        Ok(all)
    }

    fn scan(
        &mut self,
        campaign: &Campaign,
        table: Table,
        bar: &ProgressBar,
    ) -> symlease::error::Result<()> {
        let judge_of = campaign.judge(table, self.at, None);
        campaign.scan(table, None, &mut |found| {
            bar.inc(1);
            let lease = match &found.record {
                Ok(lease) => lease,
                Err(error) => {
                    self.counts(table).add(State::Damaged);
                    self.troubles.push(error.text.clone());
                    return true;
                }
            };
            let judged = judge(campaign, table, &judge_of, lease);
            self.counts(table).add(judged.state);
            let owner = self.owners.entry(lease.owner()).or_default();
            match table {
                Table::Work => owner.work.add(judged.state),
                Table::Target => owner.target.add(judged.state),
            }
            if judged.state == State::Live {
                self.expiries.push(Expiry {
                    table,
                    id: found.id.clone(),
                    owner: lease.owner(),
                    remaining: judged.remaining,
                    ttl: judge_of.ttl_of(lease),
                });
            }
            true
        })
    }

    fn counts(&mut self, table: Table) -> &mut Counts {
        match table {
            Table::Work => &mut self.work,
            Table::Target => &mut self.target,
        }
    }

    fn cover(&mut self, campaign: &Campaign) -> Result<(), Failure> {
        let found = campaign.coverage_overview()?;
        let map = campaign.map_info()?;
        self.coverage = Some(Coverage {
            edges: found.edges,
            bits: found.bits,
            changes: found.changes,
            pending: found.pending,
            shards: found.shards,
            written: found.written,
            map_size: map.as_ref().map(|map| map.size),
            map_identity: map.map(|map| map.identity),
            damaged: found.damaged.into_iter().map(|error| error.text).collect(),
        });
        (self.coordinators, self.damaged_heartbeats) = campaign.coordinators()?;
        Ok(())
    }

    /// Processes that live, by session or by heartbeat.
    pub fn alive(&self) -> usize {
        let mut names: BTreeSet<&str> = self
            .processes
            .iter()
            .filter(|process| process.presence == Presence::Alive)
            .map(|process| process.owner.as_str())
            .collect();
        names.extend(
            self.coordinators
                .iter()
                .filter(|one| one.live)
                .map(|one| one.beat.id.as_str()),
        );
        names.len()
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let owners: serde_json::Map<String, Value> = self
            .owners
            .iter()
            .map(|(name, owner)| {
                let value = json!({"target": owner.target.json(), "work": owner.work.json()});
                (name.clone(), value)
            })
            .collect();
        let expiries: Vec<Value> = self.expiries.iter().map(Expiry::json).collect();
        let processes: Vec<Value> = self.processes.iter().map(Process::json).collect();
        let coordinators = self.coordinators.iter().map(|one| {
            json!({
                "id": one.beat.id, "index": one.beat.index, "count": one.beat.count,
                "updated": one.beat.updated, "live": one.live,
            })
        });
        json!({
            "schema": 1,
            "at": self.at,
            "work": self.work.json(),
            "target": self.target.json(),
            "owners": owners,
            "expiries": expiries,
            "alive": self.alive(),
            "processes": processes,
            "coordinators": coordinators.collect::<Vec<_>>(),
            "damaged_heartbeats": self.damaged_heartbeats,
            "lock_waits": {"living": self.waits[0].json(), "ended": self.waits[1].json()},
            "coverage": self.coverage.as_ref().map(Coverage::json),
            "troubles": self.troubles,
        })
    }
}

impl Expiry {
    fn json(&self) -> Value {
        json!({
            "id": self.id, "owner": self.owner, "remaining": self.remaining, "ttl": self.ttl,
            "table": if self.table == Table::Work { "work" } else { "target" },
        })
    }
}

impl Coverage {
    fn json(&self) -> Value {
        json!({
            "bits": self.bits, "edges": self.edges, "changes": self.changes,
            "pending": self.pending, "shards": self.shards, "written": self.written,
            "map_size": self.map_size, "map_identity": self.map_identity, "damaged": self.damaged,
        })
    }
}

impl Process {
    fn json(&self) -> Value {
        json!({
            "owner": self.owner, "host": self.host, "pid": self.process,
            "presence": presence(self.presence), "told": self.told,
            "lock_waits": self.waits.map(|waits| waits.json()),
        })
    }
}

pub fn presence(presence: Presence) -> &'static str {
    match presence {
        Presence::Alive => "alive",
        Presence::Dead => "gone",
        Presence::Unknown => "unknown",
    }
}

impl Waits {
    fn json(&self) -> Value {
        json!({
            "handles": self.handles, "locks": self.locks, "contended": self.contended,
            "timeouts": self.timeouts, "wait_seconds": self.wait_ns as f64 / 1e9,
            "indeterminate": self.indeterminate, "unsynced": self.unsynced,
        })
    }

    fn add(&mut self, other: &Waits) {
        self.handles += other.handles;
        self.locks = self.locks.saturating_add(other.locks);
        self.contended = self.contended.saturating_add(other.contended);
        self.timeouts = self.timeouts.saturating_add(other.timeouts);
        self.wait_ns = self.wait_ns.saturating_add(other.wait_ns);
        self.indeterminate = self.indeterminate.saturating_add(other.indeterminate);
        self.unsynced = self.unsynced.saturating_add(other.unsynced);
    }
}

/// Sessions as processes. A handle with sessions in several roots, or with one
/// that its host made it replace, is counted once: by what it said last.
fn processes(sessions: Vec<Session>, now: f64) -> (Vec<Process>, [Waits; 2]) {
    let mut handles: BTreeMap<String, (Session, f64)> = BTreeMap::new();
    for session in sessions {
        let updated = session.counters.as_ref().map_or(-1.0, |one| one.updated);
        let silent = format!("{}:{}:{}", session.host, session.process, session.owner);
        let key = session
            .counters
            .as_ref()
            .map_or(silent, |one| one.handle.clone());
        let alive = |session: &Session| session.presence == Presence::Alive;
        match handles.get_mut(&key) {
            Some((there, last)) => {
                let presence = if alive(there) {
                    there.presence
                } else {
                    session.presence
                };
                if updated > *last {
                    (*there, *last) = (session, updated);
                }
                there.presence = presence;
            }
            None => {
                handles.insert(key, (session, updated));
            }
        }
    }
    // A session that has not told anything yet is its handle's other one.
    let told: BTreeSet<(String, u32)> = handles
        .values()
        .filter(|(session, _)| session.counters.is_some())
        .map(|(session, _)| (session.owner.clone(), session.process))
        .collect();
    let mut waits = [Waits::default(); 2];
    let mut all = Vec::new();
    for (session, _) in handles.into_values() {
        let own = (session.owner.clone(), session.process);
        if session.counters.is_none() && told.contains(&own) {
            continue;
        }
        let counted = session.counters.as_ref().map(|one| Waits {
            handles: 1,
            locks: one.value("locks"),
            contended: one.value("contended"),
            timeouts: one.value("timeouts"),
            wait_ns: one.value("wait_ns"),
            indeterminate: one.value("indeterminate"),
            unsynced: one.value("unsynced"),
        });
        let ended = usize::from(session.presence == Presence::Dead);
        waits[ended].add(&counted.unwrap_or_default());
        all.push(Process {
            told: session
                .counters
                .as_ref()
                .map(|one| (now - one.updated).max(0.0)),
            owner: session.owner,
            host: session.host,
            process: session.process,
            presence: session.presence,
            waits: counted,
        });
    }
    all.sort_by(|a, b| {
        (a.presence == Presence::Dead, &a.owner).cmp(&(b.presence == Presence::Dead, &b.owner))
    });
    (all, waits)
}
