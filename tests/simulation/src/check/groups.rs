//! Groups are whole: H1, H2. What intents say: `intents`.

use symlease::campaign::work::Claimed;
use symlease::campaign::Answer;
use symlease::record::lease::Lease;

use super::{record_of, Checker};
use crate::history::{Asked, Entry, Got};

type Broken = Option<(&'static str, String)>;

impl Checker<'_> {
    /// Every answer of a group call.
    pub(super) fn groups(&mut self) {
        let mut broken = Vec::new();
        for entry in &self.history.entries {
            let ids = match &entry.asked {
                Asked::GroupClaim(ids)
                | Asked::GroupHeartbeat(ids, _)
                | Asked::GroupRelease(ids, _)
                | Asked::GroupVerify(ids, _) => ids,
                _ => continue,
            };
            let found = match (&entry.asked, &entry.got) {
                (_, Some(Got::Claim(Claimed::Lease(held)))) => {
                    self.whole(entry, ids, &held.token, Some(held.fence))
                }
                (Asked::GroupHeartbeat(_, token), Some(Got::Step(Answer::Ok))) => {
                    self.whole(entry, ids, token, None)
                }
                (Asked::GroupRelease(..), Some(Got::Step(Answer::Ok))) => self.gone(entry, ids),
                (Asked::GroupVerify(_, token), Some(Got::Step(Answer::Ok))) => {
                    self.held(entry, ids, token)
                }
                (_, Some(Got::Failed(_))) if !entry.unknown() => self.restored(entry, ids),
                (_, Some(Got::Failed(_)) | None) => None,
                _ => self.silent(entry, ids),
            };
            broken.extend(
                found.map(|(id, text)| (id, format!("operation {}: {text}", entry.operation))),
            );
        }
        for (id, text) in broken {
            self.broken(id, text);
        }
    }

    /// Where a member's versions are.
    pub(super) fn member(&self, id: &str) -> Option<&Vec<u8>> {
        self.leases
            .keys()
            .find(|path| record_of(path).is_some_and(|(_, found)| found == id))
    }

    /// What an operation published last for a member: a record or nothing.
    fn last_of(&self, entry: &Entry, id: &str) -> Option<Option<&Lease>> {
        let path = self.member(id)?;
        let mine = self.timelines.0[path].by(entry.operation);
        let (at, _) = mine
            .filter(|(_, version)| !self.settled(path, version))
            .last()?;
        Some(self.leases[path][at].as_ref())
    }

    /// H1: one token, one time, one fence in all members.
    fn whole(&self, entry: &Entry, ids: &[String], token: &str, fence: Option<u64>) -> Broken {
        let mut common = None;
        for id in ids {
            let Some(Some(lease)) = self.last_of(entry, id) else {
                return Some(("H1", format!("member {id} was not written")));
            };
            let seen = (lease.updated().to_bits(), lease.fence());
            if lease.token() != Some(token) || *common.get_or_insert(seen) != seen {
                return Some(("H1", format!("member {id} differs from the group")));
            }
            if fence.is_some_and(|fence| lease.fence() != Some(fence)) {
                return Some(("fence", format!("member {id} has another fence")));
            }
        }
        None
    }

    /// Every member carried the token at some time while the call looked.
    fn held(&self, entry: &Entry, ids: &[String], token: &str) -> Broken {
        let (begin, end) = (entry.begin, entry.end.unwrap_or(u64::MAX));
        let held = |id: &String| {
            self.member(id).is_some_and(|path| {
                let mut seen = self.timelines.0[path].within(begin, end);
                seen.any(|(at, _)| {
                    let lease = self.leases[path][at].as_ref();
                    lease.and_then(Lease::token) == Some(token)
                })
            })
        };
        let lost = ids.iter().find(|id| !held(id));
        lost.map(|id| ("group", format!("member {id} was not the caller's")))
    }

    fn gone(&self, entry: &Entry, ids: &[String]) -> Broken {
        let left = ids.iter().find(|id| self.last_of(entry, id) != Some(None));
        left.map(|id| ("group", format!("member {id} was not removed")))
    }

    /// H2: a failed call gave every member back what it had. Where restoring
    /// met an error too, its new record may stay.
    fn restored(&self, entry: &Entry, ids: &[String]) -> Broken {
        for id in ids {
            let Some(path) = self.member(id) else {
                continue;
            };
            let versions = &self.timelines.0[path];
            let own = versions.by(entry.operation);
            let mut own = own.filter(|(_, version)| !self.settled(path, version));
            let Some((first, _)) = own.next() else {
                continue;
            };
            let (last, _) = own.last().unwrap_or((first, &versions.versions[first]));
            let same = versions.versions[last].bytes == versions.versions[first - 1].bytes;
            if !same && entry.failed < 2 {
                return Some(("H2", format!("member {id} has not its old record")));
            }
        }
        None
    }

    fn silent(&self, entry: &Entry, ids: &[String]) -> Broken {
        let written = ids.iter().find(|id| self.last_of(entry, id).is_some());
        written.map(|id| ("group", format!("member {id} changed: {:?}", entry.got)))
    }
}
