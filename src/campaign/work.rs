//! Work leases: one result of one exact execution counts once.

use super::remembered::Call;
use super::{checked_id, checked_time, checked_ttl, decode, held};
use super::{Answer, Campaign, ClaimOptions, Held, Holder};
use crate::engine::{Change, Table};
use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};
use crate::model::lease::{self as model, Claim, Evidence, Request, Step};
use crate::record::lease::{canonical_object, Lease};

/// Payloads and manifests: 1 MiB each (`format.md`).
const OBJECT_MAX: usize = 1 << 20;

/// The answer to one entry of a batch of heartbeats.
pub type Renewed = Result<(Answer, Option<Held>)>;

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Claimed {
    /// Taken.
    Lease(Held),
    /// Refused, and by whom.
    Refused(Answer, Holder),
}

impl Campaign {
    /// Claims work.
    pub fn claim(
        &self,
        id: &str,
        payload: Option<&str>,
        options: &ClaimOptions,
    ) -> Result<Claimed> {
        checked_id(id)?;
        let payload = payload
            .map(|text| checked_object(text, "payload"))
            .transpose()?;
        let claim = Prepared::new(self, Table::Work, options)?;
        let call = Call {
            name: "claim",
            table: Table::Work,
            keys: &[id.to_string()],
            words: &[&claim.words(), payload.as_deref().unwrap_or_default()],
        };
        let claimed = self.transact(&call, &mut |reads| {
            let record = decode(id, &reads[0])?;
            let request = claim.request(payload.as_deref());
            let evidence = claim.evidence(self, Table::Work, record.as_ref());
            if let Some(refused) = refusal(record.as_ref(), &request, &evidence, 0) {
                let done =
                    matches!(refused, Claimed::Refused(Answer::Done, _)) && on(Guard::DoneDurable);
                let change = if done { Change::Rely } else { Change::Keep };
                return Ok((vec![change], refused));
            }
            let previous = record.as_ref().and_then(Lease::fence).unwrap_or(0);
            let fence = model::next_fence(previous, request.fence_floor, request.judge.now)?;
            let next = model::claimed(id, record.as_ref(), &request, fence);
            let lease = Claimed::Lease(held(&next, claim.new_ttl));
            Ok((vec![Change::Put(checked_size(id, &next)?)], lease))
        })?;
        Ok(claimed.0)
    }

    /// Renews a lease.
    pub fn heartbeat(&self, id: &str, token: &str) -> Result<(Answer, Option<Held>)> {
        checked_id(id)?;
        let now = self.now()?;
        let session = self.engine.session(Table::Work)?;
        let mut answer = None;
        let keys = [id.to_string()];
        self.engine.transact(Table::Work, &keys, &mut |reads| {
            let record = decode(id, &reads[0])?;
            let step = model::heartbeat(record.as_ref(), token, now, session.as_deref());
            let (what, lease, change) = outcome(id, record.as_ref(), step, self.settings.work_ttl)?;
            answer = Some((what, lease));
            Ok(vec![change])
        })?;
        answer.ok_or_else(|| Error::new(Kind::Internal, "heartbeat: no decision was made"))
    }

    /// Renews many leases with shared syncs. One answer an entry, in order.
    pub fn heartbeat_many(&self, leases: &[(String, String)]) -> Result<Vec<Renewed>> {
        self.heartbeat_many_until(self.engine.deadline(), leases)
    }

    /// The same, waiting for locks until a time of the engine's clock.
    pub fn heartbeat_many_until(
        &self,
        deadline: u64,
        leases: &[(String, String)],
    ) -> Result<Vec<Renewed>> {
        let now = self.now()?;
        // One that cannot be made is every entry's error (H3).
        let session = match leases {
            [] => Ok(None),
            _ => self.engine.session(Table::Work),
        };
        let mut order: Vec<usize> = (0..leases.len()).collect();
        order.sort_by(|a, b| leases[*a].0.cmp(&leases[*b].0));
        let missing = || {
            Err(Error::new(
                Kind::Internal,
                "heartbeat: no decision was made",
            ))
        };
        let mut answers: Vec<Result<_>> = leases.iter().map(|_| missing()).collect();
        // The same id under two tokens is judged twice: each round has an id once.
        while !order.is_empty() {
            let mut round: Vec<usize> = Vec::new();
            let mut later = Vec::new();
            for entry in order {
                match round.last() {
                    Some(last) if leases[*last].0 == leases[entry].0 => later.push(entry),
                    _ => round.push(entry),
                }
            }
            self.heartbeat_round(deadline, leases, &round, now, &session, &mut answers);
            order = later;
        }
        Ok(answers)
    }

    fn heartbeat_round(
        &self,
        deadline: u64,
        leases: &[(String, String)],
        round: &[usize],
        now: f64,
        session: &Result<Option<String>>,
        answers: &mut [Renewed],
    ) {
        let (good, bad): (Vec<usize>, Vec<usize>) = round
            .iter()
            .partition(|entry| checked_id(&leases[**entry].0).is_ok());
        for entry in bad {
            answers[entry] = Err(Error::new(
                Kind::Invalid,
                "id: not 64 lower-case hex digits",
            ));
        }
        let keys: Vec<String> = good.iter().map(|entry| leases[*entry].0.clone()).collect();
        let default = self.settings.work_ttl;
        let outcomes =
            self.engine
                .batch_until(deadline, Table::Work, &keys, &mut |position, read| {
                    let entry = good[position];
                    let (id, token) = &leases[entry];
                    let record = decode(id, read)?;
                    let session = session.as_ref().map_err(Clone::clone)?.as_deref();
                    let step = model::heartbeat(record.as_ref(), token, now, session);
                    let (answer, lease, change) = outcome(id, record.as_ref(), step, default)?;
                    answers[entry] = Ok((answer, lease));
                    Ok(change)
                });
        for (position, outcome) in outcomes.into_iter().enumerate() {
            if let Err(error) = outcome {
                answers[good[position]] = Err(error);
            }
        }
    }

    /// Gives work back untried.
    pub fn abandon(&self, id: &str, token: &str) -> Result<Answer> {
        let fresh = self.token(&self.settings.owner, self.settings.worker)?;
        let step = |record: Option<&Lease>| Ok(model::abandon(record, token, &fresh));
        Ok(self.step("abandon", id, &[token], step)?.0)
    }

    /// Begins the commit with its manifest.
    pub fn begin_commit(&self, id: &str, token: &str, manifest: &str) -> Result<Answer> {
        Ok(self.begin(id, token, manifest)?.0)
    }

    /// The same, and whether it only made sure of what this handle had begun.
    pub(super) fn begin(&self, id: &str, token: &str, manifest: &str) -> Result<(Answer, bool)> {
        checked_id(id)?;
        let manifest = checked_object(manifest, "manifest")?;
        let session = self.engine.session(Table::Work)?;
        let session = session.as_deref();
        let step =
            |record: Option<&Lease>| Ok(model::begin_commit(record, token, &manifest, session));
        self.step("begin commit", id, &[token, &manifest], step)
    }

    /// Notes in a committing record that its commit is taken up again.
    pub(super) fn take_up(&self, id: &str, token: &str, manifest: &str) -> Result<Answer> {
        let manifest = checked_object(manifest, "manifest")?;
        let step = |record: Option<&Lease>| Ok(model::taken_up(record, token, &manifest));
        Ok(self.step("take up", id, &[token, &manifest], step)?.0)
    }

    /// Ends the work.
    pub fn complete(&self, id: &str, token: &str) -> Result<Answer> {
        let now = self.now()?;
        let step = |record: Option<&Lease>| Ok(model::complete(record, token, now));
        Ok(self.step("complete", id, &[token], step)?.0)
    }

    /// Shows a committing record to `publish`, under its lock, and ends it. It
    /// may run more than once.
    pub fn replay(
        &self,
        id: &str,
        token: &str,
        publish: &mut dyn FnMut(&Lease) -> Result<()>,
    ) -> Result<Answer> {
        let now = self.now()?;
        let mut step = |record: Option<&Lease>| {
            let step = model::replay(record, token, now);
            if let (Step::Publish(_), Some(lease)) = (&step, record) {
                publish(lease)?;
            }
            Ok(step)
        };
        Ok(self.step("replay", id, &[token], &mut step)?.0)
    }

    /// Where a lease stands; reads only.
    pub fn verify(&self, id: &str, token: &str) -> Result<(Answer, Option<Held>)> {
        let (answer, lease, bytes) = self.look(id, token)?;
        if answer == Answer::Already && on(Guard::VerifyDurable) {
            self.engine.rely(Table::Work, id, &bytes)?;
        }
        Ok((answer, lease))
    }

    /// The same as it was read, durable or not; and the record's bytes.
    pub(super) fn look(&self, id: &str, token: &str) -> Result<(Answer, Option<Held>, Vec<u8>)> {
        checked_id(id)?;
        let read = self.engine.read(Table::Work, id);
        let record = decode(id, &read)?;
        let step = model::verify(record.as_ref(), token);
        let (answer, lease, _) = outcome(id, record.as_ref(), step, self.settings.work_ttl)?;
        Ok((answer, lease, read?.unwrap_or_default()))
    }

    /// Runs one decision over one record under its lock. Also answers whether
    /// it was a change of this handle that is made sure of.
    fn step(
        &self,
        name: &'static str,
        id: &str,
        words: &[&str],
        mut decide: impl FnMut(Option<&Lease>) -> Result<Step>,
    ) -> Result<(Answer, bool)> {
        checked_id(id)?;
        let call = Call {
            name,
            table: Table::Work,
            keys: &[id.to_string()],
            words,
        };
        self.transact(&call, &mut |reads| {
            let record = decode(id, &reads[0])?;
            let step = decide(record.as_ref())?;
            let (what, _, change) = outcome(id, record.as_ref(), step, self.settings.work_ttl)?;
            Ok((vec![change], what))
        })
    }
}

/// A claim's inputs, checked once, before any lock.
pub(super) struct Prepared {
    owner: String,
    worker: u32,
    token: String,
    pub(super) new_ttl: f64,
    takeover: bool,
    fence_floor: u64,
    judge: model::Judge,
    session: Option<String>,
}

impl Prepared {
    pub(super) fn new(campaign: &Campaign, table: Table, options: &ClaimOptions) -> Result<Self> {
        let now = match options.now {
            Some(now) => checked_time(now, "options.now")?,
            None => campaign.now()?,
        };
        let ttl = options
            .ttl
            .map(|ttl| checked_ttl(ttl, "options.ttl"))
            .transpose()?;
        let new_ttl = match options.new_ttl {
            Some(ttl) => checked_ttl(ttl, "options.new_ttl")?,
            None => campaign.default_ttl(table),
        };
        let owner = options
            .owner
            .clone()
            .unwrap_or_else(|| campaign.settings.owner.clone());
        if owner.len() > 255 {
            return Err(Error::new(
                Kind::Limit,
                "options.owner: more than 255 bytes",
            ));
        }
        let worker = options.worker.unwrap_or(campaign.settings.worker);
        let token = campaign.token(&owner, worker)?;
        let judge = campaign.judge(table, now, ttl);
        let fence_floor = campaign.engine.fence_floor(table)?;
        Ok(Prepared {
            owner,
            worker,
            token,
            new_ttl,
            takeover: options.takeover,
            fence_floor,
            judge,
            session: campaign.engine.session(table)?,
        })
    }

    /// What makes two claims the same call; the clock and the token differ.
    pub(super) fn words(&self) -> String {
        let ttl = self.judge.ttl.unwrap_or_default();
        format!(
            "{} {} {} {ttl} {}",
            self.worker, self.takeover, self.new_ttl, self.owner
        )
    }

    pub(super) fn request<'a>(&'a self, payload: Option<&'a str>) -> Request<'a> {
        Request {
            owner: &self.owner,
            worker: self.worker,
            token: &self.token,
            new_ttl: self.new_ttl,
            takeover: self.takeover,
            payload,
            fence_floor: self.fence_floor,
            judge: self.judge,
            session: self.session.as_deref(),
        }
    }

    /// What is known of the record that is there. A takeover asks nobody.
    pub(super) fn evidence(
        &self,
        campaign: &Campaign,
        table: Table,
        record: Option<&Lease>,
    ) -> Evidence {
        match record.filter(|_| !self.takeover) {
            Some(lease) => campaign.evidence(table, lease, &self.judge),
            None => Evidence::default(),
        }
    }
}

/// Why a record cannot be claimed, if it cannot.
pub(super) fn refusal(
    record: Option<&Lease>,
    request: &Request<'_>,
    evidence: &Evidence,
    target: u64,
) -> Option<Claimed> {
    let (answer, owner, remaining) =
        match model::claimable(record, request.takeover, &request.judge, evidence) {
            Claim::Free => return None,
            Claim::Held { owner, remaining } => (Answer::Held, owner, remaining),
            Claim::Committing { owner } => (Answer::Committing, owner, 0.0),
            Claim::Done { owner } => (Answer::Done, owner, 0.0),
        };
    Some(Claimed::Refused(
        answer,
        Holder {
            owner,
            remaining,
            target,
        },
    ))
}

/// A JSON object from the caller, canonical, its numbers as written (F21).
pub(super) fn checked_object(text: &str, what: &str) -> Result<String> {
    canonical_object(text, what, OBJECT_MAX)
        .map_err(|(limit, why)| Error::new(if limit { Kind::Limit } else { Kind::Invalid }, why))
}

/// The record's bytes, refused beyond 4 MiB before anything changes.
pub(super) fn checked_size(id: &str, lease: &Lease) -> Result<Vec<u8>> {
    let bytes = lease.to_bytes();
    if bytes.len() > 4 << 20 {
        let text = format!("record {id}: {} bytes, more than 4 MiB", bytes.len());
        return Err(Error::new(Kind::Limit, text));
    }
    Ok(bytes)
}

/// A step as answer, lease and change.
fn outcome(
    id: &str,
    record: Option<&Lease>,
    step: Step,
    default_ttl: f64,
) -> Result<(Answer, Option<Held>, Change)> {
    let lease = || record.map(|lease| held(lease, default_ttl));
    Ok(match step {
        Step::Publish(next) => (
            Answer::Ok,
            Some(held(&next, default_ttl)),
            Change::Put(checked_size(id, &next)?),
        ),
        Step::Unchanged if !on(Guard::BegunDurable) => (Answer::Ok, lease(), Change::Keep),
        Step::Unchanged => (Answer::Ok, lease(), Change::Rely),
        Step::Committing => (Answer::Committing, lease(), Change::Keep),
        Step::Already if !on(Guard::AlreadyDurable) => (Answer::Already, lease(), Change::Keep),
        Step::Already => (Answer::Already, lease(), Change::Rely),
        Step::Conflict => (Answer::Conflict, None, Change::Keep),
        Step::Stale => (Answer::Stale, None, Change::Keep),
    })
}
