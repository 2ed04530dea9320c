//! The calls of the library, one by one: each is noted with what it answered.

use std::ffi::CString;

use symlease::campaign::commit::Offer;
use symlease::campaign::coverage::Candidate;
use symlease::campaign::group::Members;
use symlease::campaign::work::Claimed;
use symlease::campaign::{Answer, Campaign, ClaimOptions};
use symlease::engine::Table;
use symlease::error::Result;
use symlease::model::coverage::bits_in;
use symlease::record::id::target_id;
use symlease::sys::{Open, Sys};

use crate::client::{work_id, Client, CORPUS, STAGED};
use crate::history::{Asked, Got, Offered};
use crate::plan::Op;

/// A result that is staged and then offered to a commit.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Its bytes.
    pub content: String,
    /// Its name in the corpus; `None`: its digest.
    pub name: Option<String>,
    /// Its map.
    pub map: Option<Candidate>,
    /// Published even if nothing is new.
    pub keep: bool,
}

/// A work id and the token of a lease on it.
pub type Pair = (String, String);

fn answered<T>(result: Result<T>, got: impl FnOnce(T) -> Got) -> Got {
    match result {
        Ok(value) => got(value),
        Err(error) => Got::Failed(error),
    }
}

impl Client {
    /// Claims an id; the lease is remembered.
    pub fn claim(&mut self, id: &str, options: &ClaimOptions) {
        let asked = Asked::Claim(id.to_string(), options.clone());
        let run = |campaign: &Campaign| {
            let claimed = campaign.claim(id, Some("{\"seed\":1}"), options);
            answered(claimed, Got::Claim)
        };
        if let Some(Got::Claim(Claimed::Lease(held))) = self.call(asked, run) {
            self.leases.push((id.to_string(), held.token));
        }
    }

    /// One of the calls about one lease.
    pub fn lease(&mut self, op: Op, (id, token): &Pair, manifest: &str) {
        let pair = (id.clone(), token.clone());
        let asked = match op {
            Op::Heartbeat => Asked::Heartbeat(pair.0, pair.1),
            Op::Abandon => Asked::Abandon(pair.0, pair.1),
            Op::BeginCommit => Asked::Begin(pair.0, pair.1, manifest.to_string()),
            Op::Complete => Asked::Complete(pair.0, pair.1),
            Op::Replay => Asked::Replay(pair.0, pair.1),
            _ => Asked::Verify(pair.0, pair.1),
        };
        self.call(asked, |campaign| {
            let answer = match op {
                Op::Heartbeat => campaign.heartbeat(id, token).map(|(answer, _)| answer),
                Op::Abandon => campaign.abandon(id, token),
                Op::BeginCommit => campaign.begin_commit(id, token, manifest),
                Op::Complete => campaign.complete(id, token),
                Op::Replay => campaign.replay(id, token, &mut |_| Ok(())),
                _ => campaign.verify(id, token).map(|(answer, _)| answer),
            };
            answered(answer, Got::Step)
        });
    }

    /// As the C interface does it: one deadline for the leases and all groups.
    pub fn heartbeat_all(&mut self) {
        let deadline = self.campaign.engine().deadline();
        self.heartbeat_many(Some(deadline));
        for (targets, token) in self.groups.clone() {
            let Ok(members) = Members::new(&targets) else {
                continue;
            };
            let asked = Asked::GroupHeartbeat(ids(&targets), token.clone());
            self.call(asked, |campaign| {
                let renewed = campaign.group_heartbeat_until(deadline, &members, &token);
                answered(renewed.map(|(answer, _)| answer), Got::Step)
            });
        }
    }

    /// Renews all leases it has or had.
    pub fn heartbeat_many(&mut self, deadline: Option<u64>) {
        let leases = self.leases.clone();
        self.call(Asked::HeartbeatMany(leases.clone()), |campaign| {
            let until = deadline.unwrap_or_else(|| campaign.engine().deadline());
            answered(campaign.heartbeat_many_until(until, &leases), |answers| {
                let one = |answer: Result<(Answer, _)>| {
                    answer.map(|(answer, _)| answer).map_err(|error| error.kind)
                };
                Got::Many(answers.into_iter().map(one).collect())
            })
        });
    }

    /// Writes a staged result, as a fuzzer would: not synced.
    fn stage(&self, path: &str, content: &[u8]) -> bool {
        let path = CString::new(path).unwrap_or_default();
        let Ok(fd) = self.sys.open(None, &path, Open::CreateNew, 0o600) else {
            return false;
        };
        let mut rest = content;
        while !rest.is_empty() {
            match self.sys.write(fd, rest) {
                Ok(count) if count > 0 => rest = &rest[count..],
                _ => break,
            }
        }
        self.sys.close(fd);
        rest.is_empty()
    }

    /// Stages results and commits them under a lease. Who gets an error asks
    /// once more where `again` says so, as a coordinator would.
    pub fn commit(&mut self, (id, token): &Pair, results: Vec<Found>, again: bool) {
        let (mut offers, mut offered) = (Vec::new(), Vec::new());
        let unique = self.history.borrow().entries.len();
        for (number, result) in results.into_iter().enumerate() {
            let staged = format!("{STAGED}/{unique}-{number}");
            if !self.stage(&staged, result.content.as_bytes()) {
                continue;
            }
            offered.push(Offered {
                content: result.content.into_bytes(),
                map: result.map.as_ref().map(|map| map.edges.clone()),
                keep: result.keep,
            });
            offers.push(Offer {
                staged: staged.into_bytes(),
                name: result.name.map(String::into_bytes),
                corpus: None,
                map: result.map,
                keep: result.keep,
            });
        }
        let asked = Asked::Commit(id.clone(), token.clone(), offered);
        let mut run = |campaign: &Campaign| {
            let done = campaign.commit(id, token, CORPUS.as_bytes(), &offers);
            answered(done, |(answer, outcomes)| {
                Got::Commit(answer, outcomes.iter().map(|one| one.novel_bits).sum())
            })
        };
        let first = self.call(asked.clone(), &mut run);
        if matches!(first, Some(Got::Failed(_))) && again {
            self.call(asked, &mut run);
        }
    }

    /// Claims a group; it is remembered.
    pub fn group_claim(&mut self, targets: &[u64]) {
        let Ok(members) = Members::new(targets) else {
            return;
        };
        let run = |campaign: &Campaign| {
            let claimed = campaign.group_claim(&members, Some("{}"), &ClaimOptions::default());
            answered(claimed, Got::Claim)
        };
        let asked = Asked::GroupClaim(ids(&members.unique));
        if let Some(Got::Claim(Claimed::Lease(held))) = self.call(asked, run) {
            self.groups.push((members.unique, held.token));
        }
    }

    /// One of the calls about one group.
    pub fn group(&mut self, op: Op, targets: &[u64], token: &str) {
        let Ok(members) = Members::new(targets) else {
            return;
        };
        let (names, held) = (ids(targets), token.to_string());
        let asked = match op {
            Op::GroupHeartbeat => Asked::GroupHeartbeat(names, held),
            Op::GroupRelease => Asked::GroupRelease(names, held),
            _ => Asked::GroupVerify(names, held),
        };
        self.call(asked, |campaign| {
            let answer = match op {
                Op::GroupHeartbeat => {
                    let renewed = campaign.group_heartbeat(&members, token);
                    renewed.map(|(answer, _)| answer)
                }
                Op::GroupRelease => campaign.group_release(&members, token),
                _ => {
                    let looked = campaign.group_verify(&members, token);
                    looked.map(|(answer, _)| answer)
                }
            };
            answered(answer, Got::Step)
        });
    }

    /// Merges candidates.
    pub fn merge(&mut self, candidates: &[Candidate]) {
        self.call(Asked::Merge(candidates.to_vec()), |campaign| {
            answered(campaign.merge(candidates), Got::Novel)
        });
    }

    /// Asks how many bits of a candidate nobody knows.
    pub fn unknown(&mut self, one: &Candidate) {
        self.call(Asked::Unknown(one.clone()), |campaign| {
            answered(campaign.unknown_bits(one), Got::Count)
        });
    }

    /// A call without parameters.
    pub fn other(&mut self, op: Op) {
        match op {
            Op::Pull => {
                self.call(Asked::Other("pull"), |campaign| {
                    let mut bits = Vec::new();
                    let pulled = campaign.pull(&mut |fresh| {
                        bits.extend(fresh.iter().flat_map(|(_, edges)| edges.iter().copied()));
                        Ok(())
                    });
                    answered(pulled, |count| {
                        assert_eq!(count, bits_in(&bits));
                        Got::Bits(bits)
                    })
                });
            }
            Op::Beat => {
                self.call(Asked::Other("beat"), |campaign| {
                    answered(campaign.coverage_heartbeat(), |()| Got::Nothing)
                });
            }
            Op::ReplayCommits => {
                self.call(Asked::ReplayCommits, |campaign| {
                    let (count, first) = campaign.replay_commits(CORPUS.as_bytes(), 0);
                    Got::Replayed(count, first.err().map(|error| error.kind))
                });
            }
            Op::Sweep => {
                self.call(Asked::Other("sweep"), |campaign| {
                    answered(campaign.engine().sweep(), Got::Count)
                });
            }
            Op::Look => {
                let (id, shards) = (work_id(0), self.plan.coverage_shards);
                self.call(Asked::Other("look"), |campaign| {
                    let looked = (|| {
                        campaign.record(Table::Work, &id)?;
                        campaign.counts(Table::Work)?;
                        campaign.scan(Table::Target, None, &mut |_| true)?;
                        campaign.map_info()?;
                        for shard in 0..shards {
                            campaign.coverage_owner(shard)?;
                            campaign.shard_record(shard)?;
                        }
                        campaign.authority()?;
                        campaign.stats()
                    })();
                    answered(looked, |_| Got::Nothing)
                });
            }
            Op::Scan => {
                self.call(Asked::Other("scan"), |campaign| {
                    let looked = campaign.expired(None).and_then(|_| campaign.committing());
                    let looked = looked.and_then(|_| campaign.counts(Table::Target));
                    answered(looked, |_| Got::Nothing)
                });
            }
            _ => {}
        }
    }
}

/// The records of targets.
pub fn ids(targets: &[u64]) -> Vec<String> {
    targets.iter().map(|target| target_id(*target)).collect()
}
