//! What is true of whole histories: one commit a work id, durable answers,
//! E_INDETERMINATE that the same call settles, bounded waits, quiet readers,
//! and a lock behind every change.

use std::collections::BTreeMap;

use symlease::campaign::work::Claimed;
use symlease::campaign::Answer;
use symlease::record::lease::{Lease, Status};
use symlease::record::shard::{Edge, Shard};

use super::coverage::{add, Bits};
use super::{record_of, shard_of, show, Checker};
use crate::client::LOCK_TIMEOUT;
use crate::history::{Asked, Cut, Entry, Got};

/// Calls with one deadline, however many locks they take.
fn one_deadline(asked: &Asked) -> bool {
    !matches!(
        asked,
        Asked::Commit(..) | Asked::ReplayCommits | Asked::Other(_) | Asked::Merge(_)
    )
}

/// Calls that read and never write (M4).
fn reads(asked: &Asked) -> bool {
    match asked {
        Asked::Verify(..) | Asked::GroupVerify(..) => true,
        Asked::Other(what) => matches!(*what, "pull" | "scan" | "look"),
        _ => false,
    }
}

impl Checker<'_> {
    /// At most one caller is told that a work id's result counts.
    pub(super) fn once(&mut self) {
        let mut ended: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        let mut replayed = 0;
        for entry in &self.history.entries {
            let told = match &entry.got {
                Some(Got::Step(answer) | Got::Commit(answer, _)) => *answer == Answer::Ok,
                Some(Got::Replayed(count, _)) => {
                    replayed += count;
                    false
                }
                _ => false,
            };
            if let (true, Asked::Complete(id, _) | Asked::Replay(id, _) | Asked::Commit(id, _, _)) =
                (told, &entry.asked)
            {
                ended.entry(id).or_default().push(entry.operation);
            }
        }
        let done = |path: &&Vec<u8>| {
            let mut leases = self.leases[*path].iter().flatten();
            leases.any(|lease| lease.status() == Status::Done)
        };
        let done = self.leases.keys().filter(done).count() as u64;
        let counted = ended.len() as u64 + replayed;
        let twice = ended.iter().find(|(_, told)| told.len() > 1);
        if let Some(text) = twice.map(|(id, told)| format!("{id} counted by {told:?}")) {
            self.broken("once", text);
        }
        if counted > done {
            self.broken(
                "once",
                format!("{counted} results counted, {done} works done"),
            );
        }
    }

    /// E_INDETERMINATE is settled by the same call: where nobody came in
    /// between, it answers what it would have answered.
    pub(super) fn repeated(&mut self) {
        let mut broken = Vec::new();
        for entry in &self.history.entries {
            let first = entry.repeats.and_then(|first| self.history.of(first));
            let Some(first) = first.filter(|_| entry.succeeded()) else {
                continue;
            };
            let ids: Vec<String> = match &entry.asked {
                Asked::Claim(id, _)
                | Asked::Heartbeat(id, _)
                | Asked::Abandon(id, _)
                | Asked::Begin(id, _, _)
                | Asked::Complete(id, _)
                | Asked::Replay(id, _) => vec![id.clone()],
                Asked::GroupClaim(ids)
                | Asked::GroupHeartbeat(ids, _)
                | Asked::GroupRelease(ids, _) => ids.clone(),
                _ => continue,
            };
            if self.between(first, entry, &ids) {
                continue;
            }
            let right = match &entry.got {
                Some(Got::Step(answer)) => *answer == Answer::Ok,
                Some(Got::Claim(Claimed::Lease(held))) => ids.iter().all(|id| {
                    let mut told = self.of(id, first.operation);
                    told.any(|lease| lease.token() == Some(&held.token))
                }),
                _ => false,
            };
            if !right {
                let (entry, got) = (entry.operation, &entry.got);
                broken.push(format!("{entry} repeats {}: {got:?}", first.operation));
            }
        }
        for text in broken {
            self.broken("E_INDETERMINATE", text);
        }
    }

    /// The records of an id that an operation published.
    fn of<'a>(&'a self, id: &'a str, operation: u64) -> impl Iterator<Item = &'a Lease> {
        let path = self.member(id);
        path.into_iter().flat_map(move |path| {
            let mine = self.timelines.0[path].by(operation);
            mine.filter_map(move |(at, _)| self.record(path, at))
        })
    }

    /// Whether anybody else changed a record between two calls, or the first
    /// of them changed none of its own accord.
    fn between(&self, first: &Entry, entry: &Entry, ids: &[String]) -> bool {
        let mut changed = false;
        for id in ids {
            let Some(path) = self.member(id) else {
                continue;
            };
            let timeline = &self.timelines.0[path];
            // What it settled for a dead writer was not its own change (G1).
            let mut mine = timeline.by(first.operation);
            let Some((at, _)) = mine.find(|(_, version)| !self.settled(path, version)) else {
                continue;
            };
            changed = true;
            let own = [first.operation, entry.operation];
            let mut rest = timeline.versions[at..].iter();
            if rest.any(|v| !own.contains(&v.operation) && Some(v.call) <= entry.end) {
                return true;
            }
        }
        !changed
    }

    /// M4: whoever reads changes no name.
    pub(super) fn quiet(&mut self) {
        let mut broken = Vec::new();
        for (path, timeline) in &self.timelines.0 {
            for version in &timeline.versions {
                let entry = self.history.of(version.operation);
                if let Some(entry) = entry.filter(|entry| reads(&entry.asked)) {
                    broken.push(format!("{} changed by {:?}", show(path), entry.asked));
                }
            }
        }
        for text in broken {
            self.broken("M4", text);
        }
    }

    /// L2, L7: whoever changes a record or a shard holds its lock.
    pub(super) fn locked(&mut self) {
        let mut broken = Vec::new();
        for (path, timeline) in &self.timelines.0 {
            if record_of(path).is_none() && shard_of(path).is_none() {
                continue;
            }
            let changes = timeline.versions.iter().filter(|v| v.operation != 0);
            let mut bare = changes.filter(|version| version.locked != Some(true));
            if let Some(version) = bare.next() {
                let by = version.operation;
                broken.push(format!("{} changed by {by} without its lock", show(path)));
            }
        }
        for text in broken {
            self.broken("L7", text);
        }
    }

    /// L3: waiting ends with the call's one deadline.
    pub(super) fn bounded(&mut self) {
        // Clocks drift by a twentieth; forks are waited for beside it.
        let most = (LOCK_TIMEOUT * 1.1 * 1e9) as u64 + 10_000_000;
        let mut entries = self.history.entries.iter();
        let slow = entries
            .find(|entry| entry.end.is_some() && one_deadline(&entry.asked) && entry.slept > most);
        if let Some(entry) = slow {
            let (operation, slept) = (entry.operation, entry.slept);
            self.broken("L3", format!("{operation} slept {slept} ns"));
        }
    }

    /// DONE, ALREADY and known bits are answered only from what is durable: a
    /// power cut takes none of it back, whoever wrote it.
    pub(super) fn durable_answers(&mut self) {
        let mut broken = Vec::new();
        for cut in &self.history.cuts {
            for entry in &self.history.entries {
                if entry.end.is_some_and(|end| end <= cut.call) {
                    broken.extend(self.taken_back(entry, cut));
                }
            }
        }
        for text in broken {
            self.broken("durable", text);
        }
    }

    fn taken_back(&self, entry: &Entry, cut: &Cut) -> Option<String> {
        let ended = |answer: &Answer| matches!(answer, Answer::Done | Answer::Already);
        let ids: Vec<&String> = match (&entry.asked, entry.got.as_ref()?) {
            (Asked::Claim(id, _), Got::Claim(Claimed::Refused(Answer::Done, _))) => vec![id],
            (
                Asked::Heartbeat(id, _)
                | Asked::Complete(id, _)
                | Asked::Replay(id, _)
                | Asked::Verify(id, _)
                | Asked::Commit(id, _, _),
                Got::Step(answer) | Got::Commit(answer, _),
            ) if ended(answer) => vec![id],
            (Asked::HeartbeatMany(leases), Got::Many(answers)) => {
                let pairs = leases.iter().zip(answers);
                let ended = pairs.filter(|(_, answer)| answer.as_ref().is_ok_and(ended));
                ended.map(|((id, _), _)| id).collect()
            }
            (Asked::Unknown(one), Got::Count(count)) => {
                let left = self.recovered(cut);
                let gone = one.edges.iter().map(|(index, mask)| {
                    let known = left.get(index).copied().unwrap_or(0);
                    u64::from((mask & !known).count_ones())
                });
                let gone: u64 = gone.sum();
                let told = format!("{gone} bits unknown, operation {} said", entry.operation);
                return (gone > *count).then(|| format!("{told} {count}"));
            }
            _ => return None,
        };
        let done = |id: &&&String| {
            let file = cut.files.iter().find(|(path, _)| {
                record_of(path).is_some_and(|(table, found)| table == "work" && found == ***id)
            });
            let lease = file.and_then(|(_, bytes)| Lease::parse(id, bytes).ok());
            lease.is_some_and(|lease| lease.status() == Status::Done)
        };
        let lost = ids.iter().find(|id| !done(id))?;
        let operation = entry.operation;
        Some(format!("{lost} is not done, operation {operation} said so"))
    }

    /// The authority as a power cut left it, logged merges included.
    pub(super) fn recovered(&self, cut: &Cut) -> Bits {
        let count = self.plan.coverage_shards;
        let mut bits = Bits::new();
        for (path, bytes) in &cut.files {
            let found: Vec<Edge> = match shard_of(path) {
                Some(number) => {
                    let shard = Shard::parse(number, count, bytes);
                    shard.map_or(Vec::new(), |shard| shard.entries)
                }
                None => super::coverage::logged(path, bytes, count),
            };
            add(&mut bits, &found);
        }
        bits
    }
}
