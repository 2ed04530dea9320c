//! G1: a group change by a process that dies half way is settled, wholly old or
//! wholly new, before the next group call that shares a member decides.

use symlease::record::intent::Intent;
use symlease::record::lease::Lease;
use symlease::sys::sim::disk::Bytes;

use super::{record_of, show, Checker, Version};
use crate::history::{Asked, Entry};

/// A group change that stands written.
pub struct Standing {
    intent: Intent,
    /// Who wrote it first.
    writer: u64,
    /// From this place among all changes.
    from: u64,
    /// To that one, and who removed it; 0: a power cut, or nobody.
    until: (u64, u64),
}

/// Where one member of a group stands against a change of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Old,
    New,
    Other,
}

fn text(bytes: Option<&Bytes>) -> Option<&str> {
    bytes.and_then(|bytes| std::str::from_utf8(bytes).ok())
}

/// The members of a call that changes a group.
fn members(entry: &Entry) -> Option<&Vec<String>> {
    match &entry.asked {
        Asked::GroupClaim(ids) | Asked::GroupHeartbeat(ids, _) | Asked::GroupRelease(ids, _) => {
            Some(ids)
        }
        _ => None,
    }
}

impl Checker<'_> {
    /// Reads every intent that ever stood.
    pub(super) fn standing(&mut self) {
        let mut broken = Vec::new();
        for (path, timeline) in &self.timelines.0 {
            if !path.starts_with(b"/c/.target_lease_table/.intents/") {
                continue;
            }
            for (at, version) in timeline.versions.iter().enumerate() {
                let Some(bytes) = &version.bytes else {
                    continue;
                };
                let intent = match Intent::parse(bytes) {
                    Ok(intent) => intent,
                    Err(why) => {
                        broken.push(("G1", format!("{}: {why}", show(path))));
                        continue;
                    }
                };
                let mut same = timeline.versions[..=at].iter().rev();
                let writer = same.find(|v| v.operation != 0 && v.bytes == version.bytes);
                let next = timeline.versions.get(at + 1);
                self.intents.push(Standing {
                    intent,
                    writer: writer.map_or(0, |version| version.operation),
                    from: version.order,
                    until: next.map_or((u64::MAX, 0), |next| (next.order, next.operation)),
                });
            }
        }
        for (id, text) in broken {
            self.broken(id, text);
        }
    }

    /// Whether a version is what an intent of somebody else asked for.
    pub(super) fn settled(&self, path: &[u8], version: &Version) -> bool {
        let Some(("target", id)) = record_of(path) else {
            return false;
        };
        self.intents.iter().any(|standing| {
            let stands = standing.from < version.order && version.order < standing.until.0;
            stands && standing.writer != version.operation && {
                let found = standing.intent.members().iter().find(|one| one.id == id);
                found.is_some_and(|one| {
                    let now = text(version.bytes.as_ref());
                    now == one.old.as_deref() || now == one.new.as_deref()
                })
            }
        })
    }

    /// All of it.
    pub(super) fn whole_again(&mut self) {
        let mut broken = Vec::new();
        for standing in &self.intents {
            broken.extend(self.removed_whole(standing));
        }
        broken.extend(self.passed_by());
        for entry in &self.history.entries {
            broken.extend(self.half_before(entry));
        }
        for text in broken {
            self.broken("G1", text);
        }
    }

    /// Where an intent goes, its group is wholly one or the other.
    fn removed_whole(&self, standing: &Standing) -> Option<String> {
        let (order, remover) = standing.until;
        if remover == 0 {
            return None;
        }
        let members = standing.intent.members();
        let new = members.iter().filter(|one| {
            let now = self.member(&one.id).and_then(|path| {
                let timeline = &self.timelines.0[path];
                text(timeline.versions[timeline.before(order)].bytes.as_ref())
            });
            now == one.new.as_deref() && one.new != one.old
        });
        let changes = members.iter().filter(|one| one.new != one.old).count();
        let new = new.count();
        (new != 0 && new != changes).then(|| {
            let name = standing.intent.name();
            format!("{remover} removed {name} with {new} of {changes} members new")
        })
    }

    /// Nobody changes a member of somebody else's intent but to settle it.
    fn passed_by(&self) -> Option<String> {
        for (path, timeline) in &self.timelines.0 {
            let Some(("target", id)) = record_of(path) else {
                continue;
            };
            for version in &timeline.versions {
                let stands = |one: &&Standing| {
                    let time = one.from < version.order && version.order < one.until.0;
                    time && one.writer != version.operation
                        && one.intent.shares(std::slice::from_ref(&id))
                };
                let foreign = self.intents.iter().find(stands);
                if let (Some(one), false) = (
                    foreign.filter(|_| version.operation != 0),
                    self.settled(path, version),
                ) {
                    return Some(format!(
                        "{} changed {id} beside the intent of {}",
                        version.operation, one.writer
                    ));
                }
            }
        }
        None
    }

    /// Whether a dead or failed change of a group was half made when somebody
    /// else decided about one of its members. Knows nothing of intents but what
    /// they settled.
    fn half_before(&self, dead: &Entry) -> Option<String> {
        let ids = members(dead).filter(|ids| ids.len() > 1 && !dead.succeeded())?;
        let first = ids.iter().filter_map(|id| {
            let path = self.member(id)?;
            self.own(path, dead)
                .next()
                .map(|(_, version)| version.order)
        });
        let first = first.min()?;
        let over = dead.end.or(self.died[dead.process])?;
        for next in &self.history.entries {
            let Some(others) = members(next).filter(|_| next.begin > over) else {
                continue;
            };
            if !others.iter().any(|id| ids.contains(id)) {
                continue;
            }
            let Some(when) = self.decided(next, others) else {
                continue;
            };
            let sides: Vec<Side> = ids
                .iter()
                .map(|id| self.side(id, dead, first, when))
                .collect();
            if sides.contains(&Side::New) && sides.contains(&Side::Old) {
                let (dead, next) = (dead.operation, next.operation);
                return Some(format!("{dead} was half made when {next} decided"));
            }
        }
        None
    }

    /// What an operation published of its own accord.
    fn own<'a>(
        &'a self,
        path: &'a [u8],
        entry: &Entry,
    ) -> impl Iterator<Item = (usize, &'a Version)> + 'a {
        let mine = self.timelines.0[path].by(entry.operation);
        mine.filter(move |(_, version)| !self.settled(path, version))
    }

    /// When a call decided: before its first own change, or before it answered.
    fn decided(&self, entry: &Entry, ids: &[String]) -> Option<u64> {
        let own = ids.iter().filter_map(|id| {
            let path = self.member(id)?;
            self.own(path, entry)
                .next()
                .map(|(_, version)| version.order)
        });
        if let Some(order) = own.min() {
            return Some(order);
        }
        let end = entry.end.filter(|_| entry.succeeded())?;
        let all = self.timelines.0.values().flat_map(|one| &one.versions);
        let until = all
            .filter(|version| version.call <= end)
            .map(|version| version.order);
        until.max().map(|order| order + 1)
    }

    /// What a member is at a time, against a change of it that began at `first`.
    fn side(&self, id: &str, dead: &Entry, first: u64, when: u64) -> Side {
        let Some(path) = self.member(id) else {
            return Side::Old;
        };
        let timeline = &self.timelines.0[path];
        let old = timeline.before(first);
        let now = timeline.before(when);
        // What a power cut left is the last that said the same.
        let mut back = (0..=now).rev();
        let found = back.find(|at| {
            let version = &timeline.versions[*at];
            version.operation != 0 && version.bytes == timeline.versions[now].bytes
        });
        let now = found.unwrap_or(0);
        let new = self.own(path, dead).last().map(|(at, _)| at);
        if now <= old {
            return Side::Old;
        }
        let version = &timeline.versions[now];
        let is = |at: usize| timeline.versions[at].bytes == version.bytes;
        let counts = version.operation == dead.operation || self.settled(path, version);
        match new {
            _ if !counts => Side::Other,
            Some(new) if is(new) && !is(old) => Side::New,
            _ if is(old) => Side::Old,
            _ => Side::Other,
        }
    }

    /// The last record of a member, for messages and groups.
    pub(super) fn record(&self, path: &[u8], at: usize) -> Option<&Lease> {
        self.leases[path][at].as_ref()
    }
}
