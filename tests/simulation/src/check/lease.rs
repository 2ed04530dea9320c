//! Records from version to version: the state machine, fences, ownership.

use symlease::campaign::work::Claimed;
use symlease::record::lease::{Lease, Status};

use super::{record_of, show, Checker, Version};
use crate::client::TTL;
use crate::history::{Asked, Entry, Got};

/// Seconds that a record may be dated ahead before observation decides.
const SKEW: f64 = 60.0;
/// Seconds that floats may differ by.
const EPSILON: f64 = 1e-3;

impl Checker<'_> {
    /// Every version follows from the one before.
    pub(super) fn transitions(&mut self) {
        self.parse();
        self.sessions();
        let mut broken = Vec::new();
        for (path, timeline) in &self.timelines.0 {
            let (Some((table, id)), Some(leases)) = (record_of(path), self.leases.get(path)) else {
                continue;
            };
            for at in 1..leases.len() {
                let (old, version) = (&timeline.versions[at - 1], &timeline.versions[at]);
                if version.operation == 0 {
                    continue;
                }
                let (before, after) = (leases[at - 1].as_ref(), leases[at].as_ref());
                let mut earlier = timeline.versions[..at].iter();
                // What one operation publishes twice is a restored member (H2):
                // the groups' check looks at it.
                let again = earlier.any(|other| {
                    other.operation == version.operation && !self.settled(path, other)
                });
                // Published again: a sync after one that failed proves nothing (F17).
                let same = old.bytes == version.bytes || self.once_more(path, version);
                let wrong = match (table, again) {
                    _ if same || self.settled(path, version) => None,
                    ("target", true) => None,
                    _ => {
                        // What it published itself, as when it takes up a commit
                        // and ends it, says nothing about the holder.
                        let others = timeline.versions[..at].iter();
                        let mut others = others.rev();
                        let seen = others.find(|one| one.operation != version.operation);
                        self.follows(table, &id, before, after, (seen.unwrap_or(old), version))
                    }
                };
                if let Some((rule, why)) = wrong {
                    let by = version.operation;
                    broken.push((rule, format!("{} version {at} by {by}: {why}", show(path))));
                }
            }
        }
        for (id, text) in broken {
            self.broken(id, text);
        }
        self.fences();
    }

    /// Reads all records once.
    fn parse(&mut self) {
        let mut broken = Vec::new();
        for (path, timeline) in &self.timelines.0 {
            let Some((_, id)) = record_of(path) else {
                continue;
            };
            let mut read = |version: &Version| match Lease::parse(&id, version.bytes.as_deref()?) {
                Ok(lease) => Some(lease),
                Err(why) => {
                    let by = version.operation;
                    broken.push(format!("{} by {by}: {why}", show(path)));
                    None
                }
            };
            let leases = timeline.versions.iter().map(&mut read).collect();
            self.leases.insert(path.clone(), leases);
        }
        for text in broken {
            self.broken("format", text);
        }
    }

    fn follows(
        &self,
        table: &str,
        id: &str,
        before: Option<&Lease>,
        after: Option<&Lease>,
        (old, version): (&Version, &Version),
    ) -> Option<(&'static str, String)> {
        let entry = self.history.of(version.operation)?;
        let Some(after) = after else {
            let released = matches!(&entry.asked, Asked::GroupRelease(_, token)
                if before.and_then(Lease::token) == Some(token));
            // A failed group claim takes its new members away again.
            let undone = matches!(&entry.asked, Asked::GroupClaim(_));
            return (!released && !undone && table == "target" || table == "work")
                .then(|| ("claim", "a record was removed".to_string()));
        };
        let Some(before) = before else {
            let claim = matches!(&entry.asked, Asked::Claim(..) | Asked::GroupClaim(_));
            let first = after.status() == Status::Leased && after.attempts() == 1;
            return (!claim || !first).then(|| ("claim", "a record out of nothing".to_string()));
        };
        if before.status() == Status::Done {
            return Some(("done", "a done record was changed".to_string()));
        }
        if before.version() + 1 != after.version() {
            let text = format!("version {} to {}", before.version(), after.version());
            return Some(("format", text));
        }
        if before.token() == after.token() {
            let replayed = matches!(entry.asked, Asked::ReplayCommits);
            let now = after.completed().filter(|_| replayed);
            let wrong = kept(id, before, after, &entry.asked);
            return wrong.or_else(|| {
                let robbed = self.robbed(entry, before, now?, before.ttl(), old, version)?;
                Some((
                    "C7",
                    format!("replayed the commit of a living holder, {robbed}"),
                ))
            });
        }
        taken(before, after, &entry.asked).or_else(|| {
            let (takeover, ttl) = match &entry.asked {
                Asked::Claim(_, options) => (options.takeover, options.ttl),
                Asked::GroupClaim(_) => (false, None),
                _ => return None,
            };
            let now = (!takeover).then_some(after.updated())?;
            let robbed = self.robbed(entry, before, now, ttl.or(before.ttl()), old, version)?;
            Some(("claim", format!("taken from a living holder, {robbed}")))
        })
    }

    /// A release that is repeated puts the record back to remove it again (F17).
    fn once_more(&self, path: &[u8], version: &Version) -> bool {
        let Some(entry) = self.history.of(version.operation) else {
            return false;
        };
        let Asked::GroupRelease(_, token) = &entry.asked else {
            return false;
        };
        let same = |other: &&Entry| {
            let asked = matches!(&other.asked, Asked::GroupRelease(_, other) if other == token);
            asked && other.unknown() && other.opening == entry.opening
        };
        let before = &self.history.entries[..entry.operation as usize - 1];
        let Some(first) = before.iter().find(same) else {
            return false;
        };
        let mut there = self.timelines.0[path].versions.iter();
        there.any(|other| other.operation < first.operation && other.bytes == version.bytes)
    }

    /// Why a record's holder was to be left alone at `now` on the caller's
    /// clock; `None`: it was abandoned, past its TTL, or its session was dead.
    fn robbed(
        &self,
        entry: &Entry,
        before: &Lease,
        now: f64,
        ttl: Option<f64>,
        old: &Version,
        new: &Version,
    ) -> Option<String> {
        let ttl = ttl.unwrap_or(TTL);
        if before.updated() == 0.0 {
            return None;
        }
        if let Some(session) = before.session() {
            let ended = self.sessions.get(&session).map(|opening| {
                let ended = self.history.openings[*opening].ended;
                ended.is_some_and(|ended| ended <= new.call)
            });
            if ended == Some(true) {
                return None;
            }
        }
        let observed = self.history.openings[entry.opening].observed;
        if observed || before.updated() > now + SKEW {
            // The slowest clock against the fastest.
            let seen = (new.now - old.now) as f64 / 1e9 * 1.06;
            return (seen < ttl).then(|| format!("seen for {seen} s at the most"));
        }
        let age = now - before.updated();
        (age < ttl - EPSILON).then(|| format!("{age} s old"))
    }

    /// Whose session is whose: a record names the session of whoever claimed,
    /// renewed or began to commit it.
    fn sessions(&mut self) {
        for (path, leases) in &self.leases {
            let mut before = None;
            for (version, lease) in self.timelines.0[path].versions.iter().zip(leases) {
                let session = lease.as_ref().and_then(Lease::session);
                let entry = self.history.of(version.operation);
                if let (Some(name), Some(entry)) = (&session, entry) {
                    if session != before {
                        self.sessions.entry(name.clone()).or_insert(entry.opening);
                    }
                }
                before = session;
            }
        }
    }

    /// Each claim that was told has a greater fence than all told before, as
    /// long as the record is not removed.
    fn fences(&mut self) {
        let mut broken = Vec::new();
        for (path, leases) in &self.leases {
            let versions = &self.timelines.0[path].versions;
            let mut highest = (0, 0);
            for (version, lease) in versions.iter().zip(leases) {
                let Some(lease) = lease else {
                    highest = (0, 0);
                    continue;
                };
                let entry = self.history.of(version.operation);
                let told = entry.is_some_and(|entry| {
                    matches!(&entry.got, Some(Got::Claim(Claimed::Lease(held)))
                        if Some(held.fence) == lease.fence())
                });
                if !told {
                    continue;
                }
                let fence = lease.fence().unwrap_or(0);
                // One call may publish its record twice: settled, and again.
                if fence <= highest.0 && version.operation != highest.1 {
                    let (by, highest) = (version.operation, highest.0);
                    broken.push(format!("{}: {fence} by {by} after {highest}", show(path)));
                }
                highest = highest.max((fence, version.operation));
            }
        }
        for text in broken {
            self.broken("fence", text);
        }
    }
}

/// A change under the same token.
fn kept(id: &str, before: &Lease, after: &Lease, asked: &Asked) -> Option<(&'static str, String)> {
    if before.fence() != after.fence() || before.attempts() != after.attempts() {
        return Some(("fence", "a fence changed under one token".to_string()));
    }
    let token = before.token().unwrap_or_default();
    let names = |who: &String, with: &String| who == id && with == token;
    let may = match (after.status(), asked) {
        (Status::Leased, Asked::Heartbeat(who, with)) => names(who, with),
        (Status::Committing, Asked::Heartbeat(who, with)) => {
            names(who, with) && before.status() == Status::Committing
        }
        (Status::Done, Asked::Heartbeat(..) | Asked::HeartbeatMany(_)) => false,
        (status, Asked::HeartbeatMany(leases)) => {
            status == before.status() && leases.iter().any(|(who, with)| names(who, with))
        }
        (Status::Leased, Asked::GroupHeartbeat(ids, with)) => {
            with == token && ids.iter().any(|who| who == id)
        }
        (Status::Committing, Asked::Begin(who, with, _) | Asked::Commit(who, with, _)) => {
            names(who, with)
        }
        (Status::Done, Asked::Complete(who, with) | Asked::Commit(who, with, _)) => {
            names(who, with)
        }
        (Status::Done, Asked::Replay(who, with)) => {
            names(who, with) && before.status() == Status::Committing
        }
        (Status::Done, Asked::ReplayCommits) => before.status() == Status::Committing,
        // Says that the commit is taken up again (C7).
        (Status::Committing, Asked::ReplayCommits) => {
            before.status() == Status::Committing && after.replays() == before.replays() + 1
        }
        _ => false,
    };
    if !may {
        return Some(("token", format!("{:?} by {asked:?}", after.status())));
    }
    if before.status() == Status::Committing && before.commit() != after.commit() {
        return Some(("commit", "a manifest changed".to_string()));
    }
    None
}

/// A change to another token: a claim, or an abandon.
fn taken(before: &Lease, after: &Lease, asked: &Asked) -> Option<(&'static str, String)> {
    if before.status() != Status::Leased || after.status() != Status::Leased {
        return Some(("commit", "a committing record changed hands".to_string()));
    }
    if let Asked::Abandon(_, token) = asked {
        let right = before.token() == Some(token)
            && after.updated() == 0.0
            && before.fence() == after.fence();
        return (!right).then(|| ("abandon", "not the holder's, or not dated 0".to_string()));
    }
    if !matches!(asked, Asked::Claim(..) | Asked::GroupClaim(_)) {
        return Some(("token", format!("changed hands by {asked:?}")));
    }
    if after.fence() <= before.fence() {
        return Some((
            "fence",
            format!("{:?} after {:?}", after.fence(), before.fence()),
        ));
    }
    if after.attempts() != before.attempts() + 1 {
        return Some(("claim", "attempts do not rise by one".to_string()));
    }
    None
}
