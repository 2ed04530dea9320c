//! What an operator does in the place of holders that are gone.

use super::remembered::Call;
use super::work::checked_size;
use super::{checked_id, decode, Answer, Campaign};
use crate::engine::{Change, Table};
use crate::error::Result;
use crate::model::lease::{self as model, Judge, Life, Presence, Step};
use crate::record::lease::{Lease, Status};

impl Campaign {
    /// Takes leased work off a holder that is gone: its session is dead, or it
    /// is past its TTL and no session says that it lives. The record is then as
    /// after an abandon: anyone may claim at once, peers that know of no
    /// sessions too, and the attempts are as they were. HELD: the holder may be
    /// at work; STALE: nobody holds it.
    pub fn reclaim(&self, id: &str) -> Result<Answer> {
        let fresh = self.token(&self.settings.owner, self.settings.worker)?;
        self.in_place_of_holder("reclaim", id, &mut |judge, lease| {
            if lease.status() != Status::Leased || lease.updated() == 0.0 {
                return Err(match lease.status() {
                    Status::Leased => Answer::Stale,
                    Status::Committing => Answer::Committing,
                    Status::Done => Answer::Done,
                });
            }
            if !self.gone(judge, lease) {
                return Err(Answer::Held);
            }
            let token = lease.token().unwrap_or_default();
            Ok(model::abandon(Some(lease), token, &fresh))
        })
    }

    /// Ends, without publishing anything, a commit that has begun and whose
    /// holder is gone: for one that nobody can replay. HELD: the holder may be
    /// at work; STALE: no commit has begun.
    pub fn end_commit(&self, id: &str) -> Result<Answer> {
        let now = self.now()?;
        self.in_place_of_holder("end commit", id, &mut |judge, lease| {
            match lease.status() {
                Status::Leased => return Err(Answer::Stale),
                Status::Done => return Err(Answer::Done),
                Status::Committing => {}
            }
            let evidence = self.evidence(Table::Work, lease, judge);
            if judge.holder_lives(lease, &evidence) {
                return Err(Answer::Held);
            }
            let token = lease.token().unwrap_or_default();
            Ok(model::complete(Some(lease), token, now))
        })
    }

    /// Whether nothing says that the holder of a lease lives.
    fn gone(&self, judge: &Judge, lease: &Lease) -> bool {
        let evidence = self.evidence(Table::Work, lease, judge);
        match judge.life(lease, &evidence) {
            Life::Dead => true,
            Life::Expired => evidence.presence != Presence::Alive,
            Life::Live | Life::Future | Life::Abandoned => false,
        }
    }

    /// Judges a record anew under its lock, and publishes what is decided.
    fn in_place_of_holder(
        &self,
        name: &'static str,
        id: &str,
        decide: &mut dyn FnMut(&Judge, &Lease) -> std::result::Result<Step, Answer>,
    ) -> Result<Answer> {
        checked_id(id)?;
        let judge = self.judge(Table::Work, self.now()?, None);
        let call = Call {
            name,
            table: Table::Work,
            keys: &[id.to_string()],
            words: &[],
        };
        let answer = self.transact(&call, &mut |reads| {
            let Some(lease) = decode(id, &reads[0])? else {
                return Ok((vec![Change::Keep], Answer::Absent));
            };
            Ok(match decide(&judge, &lease) {
                Ok(Step::Publish(next)) => {
                    (vec![Change::Put(checked_size(id, &next)?)], Answer::Ok)
                }
                Ok(_) => (vec![Change::Keep], Answer::Stale),
                Err(refused @ Answer::Done) => (vec![Change::Rely], refused),
                Err(refused) => (vec![Change::Keep], refused),
            })
        })?;
        Ok(answer.0)
    }
}
