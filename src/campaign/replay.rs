//! The sweep that ends commits of the dead (C7).

use super::commit::parse;
use super::remembered::{is_unknown, Call};
use super::{Answer, Campaign};
use crate::engine::Table;
use crate::error::Result;
use crate::guard::{on, Guard};
use crate::record::lease::Lease;
use crate::record::path::absolute;

/// Replays of earlier sweeps that may have ended.
const REPLAYS: Call<'static> = Call {
    name: "replays",
    table: Table::Work,
    keys: &[],
    words: &[],
};

impl Campaign {
    /// Replays commits of the dead: committing records past their TTL, with a
    /// manifest of ours for `corpus`. Goes on past a bad one. Answers how many
    /// this call completed, and the first error. `limit` 0: all.
    pub fn replay_commits(&self, corpus: &[u8], limit: usize) -> (u64, Result<()>) {
        let mut first = self.engine.sweep().map(|_| ());
        self.store.sweep();
        let mut unknown = Vec::new();
        let mut replayed = self.end_replays(&mut unknown, &mut first);
        let found = self.committing().and_then(|found| Ok((found, self.now()?)));
        let (found, now) = match found {
            Ok(found) => found,
            Err(error) => {
                self.keep_replays(unknown);
                return (replayed, first.and(Err(error)));
            }
        };
        let judge = self.judge(Table::Work, now, None);
        let lives = |lease: &Lease| {
            let evidence = self.evidence(Table::Work, lease, &judge);
            judge.holder_lives(lease, &evidence) && on(Guard::ReplayLiving)
        };
        let dead = found.iter().filter(|lease| !lives(lease));
        for lease in dead {
            if limit != 0 && replayed >= limit as u64 {
                break;
            }
            let (Some(text), Some(token)) = (lease.commit(), lease.token()) else {
                continue;
            };
            let outcome = self.replay_one(lease.id(), token, text, corpus);
            match outcome {
                Ok(done) => replayed += u64::from(done),
                Err(error) => {
                    if is_unknown(&error) {
                        unknown.push((lease.id().to_string(), token.to_string()));
                    }
                    first = first.and(Err(error));
                }
            }
        }
        self.keep_replays(unknown);
        (replayed, first)
    }

    /// Ends the replays whose `done` an earlier sweep wrote without knowing
    /// whether it is durable: they count now. Answers how many.
    fn end_replays(&self, unknown: &mut Vec<(String, String)>, first: &mut Result<()>) -> u64 {
        let mut ended = 0;
        let earlier: Option<Vec<(String, String)>> = self.recall(&REPLAYS);
        for (id, token) in earlier.into_iter().flatten() {
            // Where it had not come to that, the record is committing still.
            let Some(outcomes) = self.ending(&id, &token) else {
                continue;
            };
            match self.end(&id, &token, outcomes, true) {
                Ok((answer, _)) => ended += u64::from(answer == Answer::Ok),
                Err(error) => {
                    unknown.push((id, token));
                    if first.is_ok() {
                        *first = Err(error);
                    }
                }
            }
        }
        ended
    }

    fn keep_replays(&self, unknown: Vec<(String, String)>) {
        if !unknown.is_empty() {
            self.remember(&REPLAYS, 500 * unknown.len(), unknown);
        }
    }

    fn replay_one(&self, id: &str, token: &str, text: &str, corpus: &[u8]) -> Result<bool> {
        let Some(manifest) = parse(id, text)? else {
            return Ok(false);
        };
        if absolute(&self.settings.base, &manifest.corpus) != corpus {
            return Ok(false);
        }
        Ok(self.proceed(id, token, &manifest, text)?.0 == Answer::Ok)
    }
}
