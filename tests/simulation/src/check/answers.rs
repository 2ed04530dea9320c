//! Answers about single records: each was true at some time while the call ran.

use symlease::campaign::work::Claimed;
use symlease::campaign::Answer;
use symlease::error::Kind;
use symlease::record::lease::{Lease, Status};

use super::Checker;
use crate::client::TTL;
use crate::history::{Asked, Entry, Got};

type Broken = Option<(&'static str, String)>;

impl Checker<'_> {
    /// Every answer of a call about one work record.
    pub(super) fn answers(&mut self) {
        let mut broken = Vec::new();
        for entry in &self.history.entries {
            let found = match (&entry.asked, &entry.got) {
                (Asked::Claim(id, options), Some(Got::Claim(claimed))) => {
                    self.claimed(entry, id, options.new_ttl, claimed)
                }
                (
                    Asked::Heartbeat(id, token)
                    | Asked::Abandon(id, token)
                    | Asked::Begin(id, token, _)
                    | Asked::Complete(id, token)
                    | Asked::Replay(id, token)
                    | Asked::Verify(id, token),
                    Some(Got::Step(answer)),
                ) => self.stepped(entry, id, token, *answer),
                (Asked::Commit(id, token, _), Some(Got::Commit(answer, _))) => {
                    self.stepped(entry, id, token, *answer)
                }
                (Asked::HeartbeatMany(leases), Some(Got::Many(answers))) => leases
                    .iter()
                    .zip(answers)
                    .find_map(|((id, token), answer)| match answer {
                        Ok(answer) => self.stepped(entry, id, token, *answer),
                        Err(Kind::Indeterminate | Kind::Unsettled) => None,
                        Err(_) => self.unchanged(entry, id, leases),
                    }),
                (
                    Asked::Claim(id, _)
                    | Asked::Heartbeat(id, _)
                    | Asked::Abandon(id, _)
                    | Asked::Begin(id, _, _)
                    | Asked::Complete(id, _)
                    | Asked::Replay(id, _)
                    | Asked::Verify(id, _),
                    Some(Got::Failed(_)),
                ) if !entry.unknown() => self.unchanged(entry, id, &[]),
                _ => None,
            };
            broken.extend(
                found.map(|(id, text)| (id, format!("operation {}: {text}", entry.operation))),
            );
            if matches!(&entry.got, Some(Got::Failed(error)) if error.kind == Kind::Internal) {
                broken.push(("internal", format!("{entry:?}")));
            }
            let corrupt = |kind: &Kind| *kind == Kind::Corrupt;
            let bad = match &entry.got {
                Some(Got::Failed(error)) => corrupt(&error.kind),
                Some(Got::Replayed(_, Some(kind))) => corrupt(kind),
                Some(Got::Many(answers)) => {
                    answers.iter().any(|one| one.as_ref().is_err_and(corrupt))
                }
                _ => false,
            };
            if bad {
                broken.push(("corrupt", format!("{entry:?}")));
            }
        }
        for (id, text) in broken {
            self.broken(id, text);
        }
    }

    /// The record's versions, with what they were read as.
    fn versions(&self, id: &str) -> Option<(&super::Timeline, &Vec<Option<Lease>>)> {
        let place = |path: &&Vec<u8>| super::record_of(path).is_some_and(|(_, found)| found == id);
        let path = self.leases.keys().find(place)?;
        Some((&self.timelines.0[path], &self.leases[path]))
    }

    /// Versions that an operation published.
    fn published(&self, entry: &Entry, id: &str) -> Vec<&Lease> {
        let Some((timeline, leases)) = self.versions(id) else {
            return Vec::new();
        };
        let mine = timeline.by(entry.operation);
        mine.filter_map(|(at, _)| leases[at].as_ref()).collect()
    }

    /// Whether the record was so at some time while the call ran.
    fn ever(&self, entry: &Entry, id: &str, so: &dyn Fn(Option<&Lease>) -> bool) -> bool {
        let Some((timeline, leases)) = self.versions(id) else {
            return so(None);
        };
        let mut current = timeline.within(entry.begin, entry.end.unwrap_or(u64::MAX));
        current.any(|(at, _)| so(leases[at].as_ref()))
    }

    fn claimed(&self, entry: &Entry, id: &str, new_ttl: Option<f64>, claimed: &Claimed) -> Broken {
        let status = |wanted: Status| {
            move |lease: Option<&Lease>| lease.is_some_and(|lease| lease.status() == wanted)
        };
        let right = match claimed {
            Claimed::Lease(held) => {
                let own = self.published(entry, id);
                own.len() == 1
                    && own[0].token() == Some(&held.token)
                    && own[0].fence() == Some(held.fence)
                    && own[0].ttl() == Some(new_ttl.unwrap_or(TTL))
            }
            Claimed::Refused(Answer::Held, holder) => self.ever(entry, id, &|lease| {
                let held = lease.filter(|lease| lease.status() == Status::Leased);
                held.is_some_and(|lease| lease.updated() != 0.0 && lease.owner() == holder.owner)
            }),
            Claimed::Refused(Answer::Committing, _) => {
                self.ever(entry, id, &status(Status::Committing))
            }
            Claimed::Refused(Answer::Done, _) => self.ever(entry, id, &status(Status::Done)),
            Claimed::Refused(..) => false,
        };
        (!right).then(|| ("claim", format!("{id} answered {claimed:?}")))
    }

    fn stepped(&self, entry: &Entry, id: &str, token: &str, answer: Answer) -> Broken {
        let state = |lease: Option<&Lease>, status: Status| {
            lease.is_some_and(|lease| lease.token() == Some(token) && lease.status() == status)
        };
        let own = self.published(entry, id);
        let last = own.last().map(|lease| lease.status());
        let right = match (answer, &entry.asked) {
            (Answer::Ok, Asked::Heartbeat(..) | Asked::HeartbeatMany(_)) => {
                own.iter().any(|lease| lease.token() == Some(token))
            }
            (Answer::Ok, Asked::Abandon(..)) => own.len() == 1,
            (Answer::Ok, Asked::Begin(_, _, manifest)) => self.ever(entry, id, &|lease| {
                state(lease, Status::Committing)
                    && lease.is_some_and(|lease| lease.commit() == Some(manifest))
            }),
            // Whoever is told OK wrote `done`: it counts once.
            (Answer::Ok, Asked::Complete(..) | Asked::Replay(..) | Asked::Commit(..)) => {
                last == Some(Status::Done)
            }
            (Answer::Ok, _) => self.ever(entry, id, &|lease| state(lease, Status::Leased)),
            (Answer::Committing, _) => {
                self.ever(entry, id, &|lease| state(lease, Status::Committing))
            }
            (Answer::Already | Answer::Done, _) => {
                self.ever(entry, id, &|lease| state(lease, Status::Done))
            }
            (Answer::Stale, _) => {
                let wrong = |lease: Option<&Lease>| lease.and_then(Lease::token) != Some(token);
                let done = |lease: Option<&Lease>| state(lease, Status::Done);
                self.ever(entry, id, &|lease| wrong(lease) || done(lease))
            }
            (Answer::Conflict, _) => self.ever(entry, id, &|lease| {
                lease.and_then(Lease::token) == Some(token)
            }),
            (Answer::Held | Answer::Absent, _) => false,
        };
        // Two leases of one record may be in one batch.
        let batch = matches!(entry.asked, Asked::HeartbeatMany(_) | Asked::Commit(..));
        let quiet = answer == Answer::Ok || batch || own.is_empty();
        (!right || !quiet).then(|| ("answer", format!("{id} answered {answer:?}")))
    }

    /// A failed call changed nothing.
    fn unchanged(&self, entry: &Entry, id: &str, batch: &[(String, String)]) -> Broken {
        let twice = batch.iter().filter(|(lease, _)| lease == id).count() > 1;
        let published = self.published(entry, id).len();
        (published > 0 && !twice).then(|| ("closed", format!("{id} changed by a call that failed")))
    }
}
