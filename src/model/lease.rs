//! What happens to one lease record at each event. The state machine of
//! `protocol.md` ("Work leases") as functions of (record, request, now).

use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};
use crate::record::lease::{Lease, Status};

/// The latest wall-clock time, in nanoseconds, that is used as a fence: the
/// year 2262. A clock beyond it (F28) must not use up the numbers at once.
const CLOCK_FENCE_MAX: u64 = i64::MAX as u64;

/// What is known of the session that a record names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// None is named, or nothing is proven (D2).
    #[default]
    Unknown,
    /// Its process keeps it locked.
    Alive,
    /// Its process is gone (D1).
    Dead,
}

/// What a reader knows beyond the record's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Of the record's session.
    pub presence: Presence,
    /// Seconds for which this handle has seen the same bytes, on its own
    /// monotonic clock.
    pub unchanged: f64,
}

/// Where a lease stands in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Within its TTL.
    Live,
    /// Past its TTL.
    Expired,
    /// Given back.
    Abandoned,
    /// Its session is dead.
    Dead,
    /// Dated further ahead than clocks may differ; judged by observation.
    Future,
}

/// How a reader judges whether a lease lives.
#[derive(Clone, Copy, Debug)]
pub struct Judge {
    /// Unix seconds.
    pub now: f64,
    /// Seconds; `Some` overrules what the record says (a TTL given to a claim).
    pub ttl: Option<f64>,
    /// Seconds; where neither the call nor the record names one (F31).
    pub default_ttl: f64,
    /// Seconds that a clock may be ahead.
    pub skew: f64,
    /// Every record is judged by observation, whatever it is dated.
    pub observed: bool,
}

impl Judge {
    /// The TTL in force for this record, in seconds.
    pub fn ttl_of(&self, lease: &Lease) -> f64 {
        let recorded = lease.ttl().filter(|_| on(Guard::RecordTtl));
        self.ttl.or(recorded).unwrap_or(self.default_ttl)
    }

    /// Whether what this handle has seen decides, and not the record's time:
    /// a record from the future is not immortal (F28).
    pub fn by_observation(&self, lease: &Lease) -> bool {
        let observed = self.observed && on(Guard::ObservedExpiry);
        let ahead = lease.updated() > self.now + self.skew && on(Guard::RecordFromFuture);
        lease.updated() != 0.0 && (observed || ahead)
    }

    /// Seconds until the lease is past its TTL; not above 0: past.
    pub fn remaining(&self, lease: &Lease, evidence: &Evidence) -> f64 {
        if lease.updated() == 0.0 {
            return -self.now.abs();
        }
        let age = if self.by_observation(lease) {
            evidence.unchanged
        } else {
            self.now - lease.updated()
        };
        self.ttl_of(lease) - age
    }

    /// Whether whoever holds the record may still be at work: not abandoned,
    /// within its TTL, and its session not known dead.
    pub fn holder_lives(&self, lease: &Lease, evidence: &Evidence) -> bool {
        matches!(self.life(lease, evidence), Life::Live | Life::Future)
    }

    /// `leased` by a holder that may be at work.
    pub fn live(&self, lease: &Lease, evidence: &Evidence) -> bool {
        lease.status() == Status::Leased && self.holder_lives(lease, evidence)
    }

    /// Where the record stands in time.
    pub fn life(&self, lease: &Lease, evidence: &Evidence) -> Life {
        if lease.updated() == 0.0 {
            Life::Abandoned
        } else if evidence.presence == Presence::Dead && on(Guard::SessionDead) {
            Life::Dead
        } else if self.remaining(lease, evidence) <= 0.0 && on(Guard::ClaimExpired) {
            Life::Expired
        } else if lease.updated() > self.now + self.skew {
            Life::Future
        } else {
            Life::Live
        }
    }
}

/// What a claim asks for.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Who claims.
    pub owner: &'a str,
    /// The rank shown in the record.
    pub worker: u32,
    /// The new token; unique.
    pub token: &'a str,
    /// The TTL written into the record, in seconds.
    pub new_ttl: f64,
    /// Take any leased record, whatever its time.
    pub takeover: bool,
    /// Canonical JSON; `None` keeps what is there.
    pub payload: Option<&'a str>,
    /// The root's fence floor.
    pub fence_floor: u64,
    /// How the present record is judged.
    pub judge: Judge,
    /// The session that is named in the record; `None`: its TTL alone decides.
    pub session: Option<&'a str>,
}

/// The answer to a claim of one record.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// May be taken.
    Free,
    /// Somebody else's, for so many more seconds.
    Held {
        /// The holder.
        owner: String,
        /// Seconds until its TTL.
        remaining: f64,
    },
    /// Its commit has begun: irreversible.
    Committing {
        /// The holder.
        owner: String,
    },
    /// Finished.
    Done {
        /// Who finished it.
        owner: String,
    },
}

/// The answer to a call by a lease's holder.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Publish this record.
    Publish(Box<Lease>),
    /// Right as it stands; nothing to write.
    Unchanged,
    /// The token is not the current one.
    Stale,
    /// This token completed the work before.
    Already,
    /// The commit has begun under this token.
    Committing,
    /// The commit began with another manifest.
    Conflict,
}

/// Whether `record` may be claimed.
pub fn claimable(
    record: Option<&Lease>,
    takeover: bool,
    judge: &Judge,
    evidence: &Evidence,
) -> Claim {
    let Some(lease) = record else {
        return Claim::Free;
    };
    let owner = lease.owner();
    match lease.status() {
        Status::Done if on(Guard::ClaimDone) => Claim::Done { owner },
        Status::Committing if on(Guard::ClaimCommitting) => Claim::Committing { owner },
        Status::Leased if !takeover && judge.live(lease, evidence) && on(Guard::ClaimLive) => {
            Claim::Held {
                owner,
                remaining: judge.remaining(lease, evidence),
            }
        }
        _ => Claim::Free,
    }
}

/// The next fence: above the record's, the root's floor, and not below the
/// wall clock, so that it rises even over a removed record (F30).
pub fn next_fence(previous: u64, floor: u64, now: f64) -> Result<u64> {
    // A float cast saturates: a clock at 1e300 is only a large number here.
    let clock = ((now * 1e9) as u64).min(CLOCK_FENCE_MAX);
    let previous = if on(Guard::FenceRises) { previous } else { 0 };
    let floor = if on(Guard::FenceFloor) { floor } else { 0 };
    let low = previous
        .max(floor)
        .checked_add(1)
        .filter(|fence| *fence != u64::MAX || !on(Guard::FenceLimit));
    match low {
        Some(low) => Ok(low.max(clock)),
        None => Err(Error::new(
            Kind::Limit,
            "the fence has reached 2^64-1 and cannot rise",
        )),
    }
}

/// The record that a granted claim writes. `fence` comes from [`next_fence`],
/// over all members for a group.
pub fn claimed(id: &str, record: Option<&Lease>, request: &Request<'_>, fence: u64) -> Lease {
    let mut next = record.cloned().unwrap_or_else(|| Lease::new(id));
    let before = record.map(Lease::owner).unwrap_or_default();
    let attempts = record.map_or(0, Lease::attempts).saturating_add(1);
    let stolen = record.is_some() && before != request.owner;
    let steals = record
        .map_or(0, Lease::steals)
        .saturating_add(u32::from(stolen));
    for gone in ["commit", "completed", "replays"] {
        next.remove(gone);
    }
    next.name_session(request.session);
    if let Some(payload) = request.payload {
        next.set_raw("payload", payload.to_string());
    }
    next.set_text("status", Status::Leased.as_str());
    next.set_text("owner", request.owner);
    next.set_text("previous_owner", &before);
    next.set_text("token", request.token);
    next.set_integer("worker", u64::from(request.worker));
    next.set_integer("attempts", u64::from(attempts));
    next.set_integer("steals", u64::from(steals));
    next.set_integer("fence", fence);
    next.set_float("updated", request.judge.now);
    next.set_float("ttl", request.new_ttl);
    bump(&mut next);
    next
}

/// Renews a lease, which from then on follows the caller's session. A lease
/// past its TTL that nobody took is still its holder's.
pub fn heartbeat(record: Option<&Lease>, token: &str, now: f64, session: Option<&str>) -> Step {
    match holder(record, token, Guard::HeartbeatToken) {
        Err(step) => step,
        Ok((_, Status::Done)) if on(Guard::HeartbeatDone) => Step::Already,
        Ok((lease, _)) => Step::Publish(Box::new(renewed(lease, now, session))),
    }
}

/// The record with a new time, named by who renewed it: a session that did not
/// must not stay named, for it decides who lives (D1).
pub fn renewed(lease: &Lease, now: f64, session: Option<&str>) -> Lease {
    let mut next = lease.clone();
    next.set_float("updated", now);
    if on(Guard::RenewerSession) {
        next.name_session(session);
    }
    bump(&mut next);
    next
}

/// Gives the work back untried: anyone may claim at once.
pub fn abandon(record: Option<&Lease>, token: &str, fresh: &str) -> Step {
    match holder(record, token, Guard::AbandonToken) {
        Err(step) => step,
        Ok((_, Status::Committing)) if on(Guard::AbandonCommitting) => Step::Committing,
        Ok((_, Status::Done)) => Step::Stale,
        Ok((lease, _)) => {
            let mut next = lease.clone();
            next.set_integer("updated", 0);
            if on(Guard::AbandonFresh) {
                next.set_text("token", fresh);
            }
            next.remove("session");
            bump(&mut next);
            Step::Publish(Box::new(next))
        }
    }
}

/// Begins the commit: from here neither TTL nor death makes it stealable.
pub fn begin_commit(
    record: Option<&Lease>,
    token: &str,
    manifest: &str,
    session: Option<&str>,
) -> Step {
    match holder(record, token, Guard::BeginToken) {
        Err(step) => step,
        Ok((_, Status::Done)) if on(Guard::BeginDone) => Step::Stale,
        Ok((lease, Status::Committing)) => match lease.commit() {
            Some(there) if there == manifest => Step::Unchanged,
            Some(_) if on(Guard::BeginManifest) => Step::Conflict,
            _ => Step::Publish(Box::new(committing(lease, manifest, session))),
        },
        Ok((lease, _)) => Step::Publish(Box::new(committing(lease, manifest, session))),
    }
}

/// Ends the work.
pub fn complete(record: Option<&Lease>, token: &str, now: f64) -> Step {
    match holder(record, token, Guard::CompleteToken) {
        Err(step) => step,
        Ok((_, Status::Done)) if on(Guard::CompleteOnce) => Step::Already,
        Ok((lease, _)) => {
            let mut next = lease.clone();
            next.set_text("status", Status::Done.as_str());
            next.set_float("completed", now);
            next.remove("session");
            bump(&mut next);
            Step::Publish(Box::new(next))
        }
    }
}

/// Takes a commit up again. The record says so before anything is merged: the
/// coverage that the first turn then finds known may be this one's credit (C7).
pub fn taken_up(record: Option<&Lease>, token: &str, manifest: &str) -> Step {
    match holder(record, token, Guard::CompleteToken) {
        Ok((lease, Status::Committing)) if lease.commit() == Some(manifest) => {
            let mut next = lease.clone();
            next.set_integer("replays", u64::from(lease.replays().saturating_add(1)));
            bump(&mut next);
            Step::Publish(Box::new(next))
        }
        Ok((_, Status::Done)) => Step::Already,
        Ok(_) => Step::Conflict,
        Err(step) => step,
    }
}

/// Ends a commit that has begun with a manifest.
pub fn replay(record: Option<&Lease>, token: &str, now: f64) -> Step {
    match holder(record, token, Guard::CompleteToken) {
        Ok((_, Status::Leased)) if on(Guard::ReplayCommitting) => Step::Conflict,
        Ok((lease, Status::Committing)) if lease.commit().is_none() => Step::Conflict,
        _ => complete(record, token, now),
    }
}

/// Where a lease stands; never writes.
pub fn verify(record: Option<&Lease>, token: &str) -> Step {
    match holder(record, token, Guard::VerifyToken) {
        Err(step) => step,
        Ok((_, Status::Leased)) => Step::Unchanged,
        Ok((_, Status::Committing)) => Step::Committing,
        Ok((_, Status::Done)) => Step::Already,
    }
}

fn committing(lease: &Lease, manifest: &str, session: Option<&str>) -> Lease {
    let mut next = lease.clone();
    next.set_text("status", Status::Committing.as_str());
    next.set_raw("commit", manifest.to_string());
    next.name_session(session);
    bump(&mut next);
    next
}

/// The record if `token` is its current one. An absent record is STALE for its
/// former holder: somebody ended it.
fn holder<'a>(
    record: Option<&'a Lease>,
    token: &str,
    guard: Guard,
) -> std::result::Result<(&'a Lease, Status), Step> {
    match record {
        Some(lease) if lease.token() == Some(token) || !on(guard) => Ok((lease, lease.status())),
        _ => Err(Step::Stale),
    }
}

fn bump(lease: &mut Lease) {
    lease.set_integer("version", lease.version().saturating_add(1));
}
