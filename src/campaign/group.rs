//! Target groups: up to 64 branch targets under one token, all or nothing.

use std::collections::BTreeMap;

use super::remembered::Call;
use super::work::{checked_object, checked_size, refusal, Claimed, Prepared};
use super::{decode, Answer, Campaign, ClaimOptions, Held, Holder};
use crate::engine::{Change, Read, Table};
use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};
use crate::model::lease as model;
use crate::record::id::target_id;
use crate::record::lease::{Lease, Status};

/// The most targets one group may have.
pub const GROUP_MAX: usize = 64;

/// A group: its targets by record id (the lock order).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    ids: Vec<String>,
    targets: Vec<u64>,
    /// The unique positive targets in the caller's order, primary first.
    pub unique: Vec<u64>,
}

impl Members {
    /// Drops duplicates and zeros; then more than 64 is LIMIT, none INVALID (F32).
    pub fn new(targets: &[u64]) -> Result<Members> {
        let mut unique = Vec::new();
        let mut sorted = BTreeMap::new();
        for target in targets.iter().copied().filter(|target| *target != 0) {
            if sorted.insert(target_id(target), target).is_none() {
                unique.push(target);
            }
            if unique.len() > GROUP_MAX {
                let text = format!("targets: more than {GROUP_MAX} different ones");
                return Err(Error::new(Kind::Limit, text));
            }
        }
        if unique.is_empty() {
            return Err(Error::new(
                Kind::Invalid,
                "targets: no positive target in the list",
            ));
        }
        let (ids, targets) = sorted.into_iter().unzip();
        Ok(Members {
            ids,
            targets,
            unique,
        })
    }
}

impl Campaign {
    /// Claims all targets under one token, or none.
    pub fn group_claim(
        &self,
        members: &Members,
        payload: Option<&str>,
        options: &ClaimOptions,
    ) -> Result<Claimed> {
        let payload = payload
            .map(|text| checked_object(text, "payload"))
            .transpose()?;
        let claim = Prepared::new(self, Table::Target, options)?;
        let call = Call {
            name: "claim",
            table: Table::Target,
            keys: &members.ids,
            words: &[&claim.words(), payload.as_deref().unwrap_or_default()],
        };
        let claimed = self.transact(&call, &mut |reads| {
            let records = decode_all(members, reads)?;
            let request = claim.request(payload.as_deref());
            // All of them, beyond the first that refuses: what is not looked
            // at now would be observed for a TTL of its own later.
            let look =
                |record: &Option<Lease>| claim.evidence(self, Table::Target, record.as_ref());
            let evidence: Vec<_> = records.iter().map(look).collect();
            let mut all = records.iter().zip(&evidence).zip(&members.targets);
            let refused = all.find_map(|((record, evidence), target)| {
                refusal(record.as_ref(), &request, evidence, *target)
            });
            if let Some(refused) = refused.filter(|_| on(Guard::ClaimTogether)) {
                return Ok((vec![Change::Keep; records.len()], refused));
            }
            // One fence for the group: above every member's.
            let previous = records
                .iter()
                .flatten()
                .filter_map(Lease::fence)
                .reduce(|one, other| match on(Guard::GroupFence) {
                    true => one.max(other),
                    false => one.min(other),
                })
                .unwrap_or(0);
            let fence = model::next_fence(previous, request.fence_floor, request.judge.now)?;
            let mut changes = Vec::with_capacity(records.len());
            let mut answer = None;
            for (position, record) in records.iter().enumerate() {
                let id = &members.ids[position];
                let mut next = model::claimed(id, record.as_ref(), &request, fence);
                next.set_integer("target", members.targets[position]);
                next.set_raw("targets", list(&members.targets));
                changes.push(Change::Put(checked_size(id, &next)?));
                answer = Some(Claimed::Lease(super::held(&next, claim.new_ttl)));
            }
            let answer = answer.ok_or_else(|| Error::new(Kind::Internal, "an empty group"))?;
            Ok((changes, answer))
        })?;
        Ok(claimed.0)
    }

    /// Renews all members with one common time (H1), or none (H2).
    pub fn group_heartbeat(
        &self,
        members: &Members,
        token: &str,
    ) -> Result<(Answer, Option<Held>)> {
        self.group_heartbeat_until(self.engine.deadline(), members, token)
    }

    /// The same, waiting for locks until a time of the engine's clock.
    pub fn group_heartbeat_until(
        &self,
        deadline: u64,
        members: &Members,
        token: &str,
    ) -> Result<(Answer, Option<Held>)> {
        let now = self.now()?;
        let session = self.engine.session(Table::Target)?;
        let mut lease = None;
        let mut answer = Answer::Stale;
        let mut renew = |id: &str, record: &Lease| {
            let next = model::renewed(record, now, session.as_deref());
            lease = Some(super::held(&next, self.settings.target_ttl));
            Ok(Change::Put(checked_size(id, &next)?))
        };
        let mut decide = |reads: &[Read]| {
            let (changes, what) = step(
                members,
                (token, Guard::GroupHeartbeatToken),
                reads,
                &mut renew,
            )?;
            answer = what;
            Ok(changes)
        };
        self.engine
            .transact_until(deadline, Table::Target, &members.ids, &mut decide)?;
        Ok((answer, lease.filter(|_| answer == Answer::Ok)))
    }

    /// Removes all members, or none.
    pub fn group_release(&self, members: &Members, token: &str) -> Result<Answer> {
        let call = Call {
            name: "release",
            table: Table::Target,
            keys: &members.ids,
            words: &[token],
        };
        let mut remove = |_: &str, _: &Lease| Ok(Change::Remove);
        let released = self.transact(&call, &mut |reads| {
            step(
                members,
                (token, Guard::GroupReleaseToken),
                reads,
                &mut remove,
            )
        })?;
        Ok(released.0)
    }

    /// Whether every member still carries the token; reads only.
    pub fn group_verify(&self, members: &Members, token: &str) -> Result<(Answer, Option<Held>)> {
        let reads: Vec<Read> = members
            .ids
            .iter()
            .map(|id| self.engine.read(Table::Target, id))
            .collect();
        let records = decode_all(members, &reads)?;
        if !all_held(&records, (token, Guard::GroupVerifyToken)) {
            return Ok((Answer::Stale, None));
        }
        let lease = records.iter().flatten().next();
        Ok((
            Answer::Ok,
            lease.map(|lease| super::held(lease, self.settings.target_ttl)),
        ))
    }
}

/// Changes every member, where all of them are held by the token.
fn step(
    members: &Members,
    token: (&str, Guard),
    reads: &[Read],
    change: &mut dyn FnMut(&str, &Lease) -> Result<Change>,
) -> Result<(Vec<Change>, Answer)> {
    let records = decode_all(members, reads)?;
    if !all_held(&records, token) {
        return Ok((vec![Change::Keep; records.len()], Answer::Stale));
    }
    let pairs = members.ids.iter().zip(records.iter().flatten());
    let changes: Result<Vec<Change>> = pairs.map(|(id, record)| change(id, record)).collect();
    Ok((changes?, Answer::Ok))
}

/// The target of the first damaged member, for the caller's `holder`.
pub fn damaged_target(members: &Members, error: &Error) -> Option<Holder> {
    let position = members
        .ids
        .iter()
        .position(|id| error.text.contains(id.as_str()))?;
    let target = members.targets[position];
    Some(Holder {
        owner: String::new(),
        remaining: 0.0,
        target,
    })
}

fn all_held(records: &[Option<Lease>], (token, guard): (&str, Guard)) -> bool {
    records.iter().all(|record| {
        record.as_ref().is_some_and(|lease| {
            let current = lease.token() == Some(token) || !on(guard);
            lease.status() == Status::Leased && current
        })
    })
}

fn decode_all(members: &Members, reads: &[Read]) -> Result<Vec<Option<Lease>>> {
    members
        .ids
        .iter()
        .zip(reads)
        .map(|(id, read)| decode(id, read))
        .collect()
}

fn list(targets: &[u64]) -> String {
    let texts: Vec<String> = targets.iter().map(u64::to_string).collect();
    format!("[{}]", texts.join(","))
}
