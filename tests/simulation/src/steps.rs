//! The steps of a plan, as a coordinator does them.

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
use symlease::record::shard::Edge;
use symlease::sys::sim::Random;
use symlease::sys::{Open, Sys};

use crate::client::{work_id, Client, CORPUS, STAGED};
use crate::history::{Asked, Got, Offered};
use crate::plan::Op;

/// Indices of the coverage map that candidates come from.
const EDGES: u64 = 14;

fn answered<T>(result: Result<T>, got: impl FnOnce(T) -> Got) -> Got {
    match result {
        Ok(value) => got(value),
        Err(error) => Got::Failed(error),
    }
}

/// Some edges: mostly of the first few indices, so that candidates overlap.
fn edges(random: &mut Random) -> Vec<Edge> {
    (0..random.within(1, 5))
        .map(|_| (random.below(EDGES) as u32, 1 << random.below(3)))
        .collect()
}

fn candidate(random: &mut Random) -> Candidate {
    Candidate::sparse(&edges(random)).unwrap_or_else(|error| panic!("{error}"))
}

impl Client {
    /// One step of the plan.
    pub fn step(&mut self, op: Op, number: u64) {
        let mut random = Random::new(number);
        match op {
            Op::Claim | Op::Takeover => self.claim(op, &mut random),
            Op::Heartbeat
            | Op::Abandon
            | Op::BeginCommit
            | Op::Complete
            | Op::Replay
            | Op::Verify => self.lease(op, &mut random),
            Op::HeartbeatMany => self.heartbeat_many(None),
            Op::HeartbeatAll => self.heartbeat_all(),
            Op::Commit => self.commit(&mut random),
            Op::GroupClaim => self.group_claim(&mut random),
            Op::GroupHeartbeat | Op::GroupRelease | Op::GroupVerify => self.group(op, &mut random),
            Op::Merge | Op::MergeMany | Op::Unknown => self.merge(op, &mut random),
            Op::Rest => self.sys.sleep(random.within(1, 8_000) * 1_000_000),
            _ => self.other(op),
        }
    }

    fn claim(&mut self, op: Op, random: &mut Random) {
        let id = work_id(random.below(self.plan.ids));
        let options = ClaimOptions {
            takeover: op == Op::Takeover,
            ttl: random.chance(50).then_some(2.0),
            new_ttl: random.chance(100).then_some(20.0),
            ..ClaimOptions::default()
        };
        let asked = Asked::Claim(id.clone(), options.clone());
        let run = |campaign: &Campaign| {
            answered(
                campaign.claim(&id, Some("{\"seed\":1}"), &options),
                Got::Claim,
            )
        };
        if let Some(Got::Claim(Claimed::Lease(held))) = self.call(asked, run) {
            self.leases.push((id, held.token));
        }
    }

    /// One of the leases it has or had.
    fn pick(&self, random: &mut Random) -> Option<(String, String)> {
        // Mostly the newest; stale ones stay, and are used now and then.
        let count = self.leases.len() as u64;
        let back = if random.chance(700) {
            0
        } else {
            random.below(count)
        };
        self.leases.iter().rev().nth(back as usize).cloned()
    }

    fn lease(&mut self, op: Op, random: &mut Random) {
        let Some((id, token)) = self.pick(random) else {
            return self.claim(Op::Claim, random);
        };
        let pair = (id.clone(), token.clone());
        let manifest = format!("{{\"n\":{}}}", random.below(2));
        let asked = match op {
            Op::Heartbeat => Asked::Heartbeat(pair.0, pair.1),
            Op::Abandon => Asked::Abandon(pair.0, pair.1),
            Op::BeginCommit => Asked::Begin(pair.0, pair.1, manifest.clone()),
            Op::Complete => Asked::Complete(pair.0, pair.1),
            Op::Replay => Asked::Replay(pair.0, pair.1),
            _ => Asked::Verify(pair.0, pair.1),
        };
        self.call(asked, |campaign| {
            let answer = match op {
                Op::Heartbeat => campaign.heartbeat(&id, &token).map(|(answer, _)| answer),
                Op::Abandon => campaign.abandon(&id, &token),
                Op::BeginCommit => campaign.begin_commit(&id, &token, &manifest),
                Op::Complete => campaign.complete(&id, &token),
                Op::Replay => campaign.replay(&id, &token, &mut |_| Ok(())),
                _ => campaign.verify(&id, &token).map(|(answer, _)| answer),
            };
            answered(answer, Got::Step)
        });
    }

    /// As the C interface does it: one deadline for the leases and all groups.
    fn heartbeat_all(&mut self) {
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

    fn heartbeat_many(&mut self, deadline: Option<u64>) {
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

    fn commit(&mut self, random: &mut Random) {
        let Some((id, token)) = self.pick(random) else {
            return self.claim(Op::Claim, random);
        };
        let (mut offers, mut offered) = (Vec::new(), Vec::new());
        let unique = self.history.borrow().entries.len();
        for number in 0..random.below(4) {
            let content = match random.chance(200) {
                true => format!("common {}", random.below(3)),
                false => format!("result {unique}-{number}"),
            };
            let staged = format!("{STAGED}/{unique}-{number}");
            if !self.stage(&staged, content.as_bytes()) {
                continue;
            }
            let map = random.chance(700).then(|| candidate(random));
            let keep = random.chance(100);
            offered.push(Offered {
                content: content.into_bytes(),
                map: map.as_ref().map(|map| map.edges.clone()),
                keep,
            });
            offers.push(Offer {
                staged: staged.into_bytes(),
                name: random
                    .chance(300)
                    .then(|| format!("n{}", random.below(3)).into_bytes()),
                corpus: None,
                map,
                keep,
            });
        }
        let asked = Asked::Commit(id.clone(), token.clone(), offered);
        let mut run = |campaign: &Campaign| {
            let done = campaign.commit(&id, &token, CORPUS.as_bytes(), &offers);
            answered(done, |(answer, outcomes)| {
                Got::Commit(answer, outcomes.iter().map(|one| one.novel_bits).sum())
            })
        };
        let first = self.call(asked.clone(), &mut run);
        // Who gets an error asks once more, as a coordinator would.
        if matches!(first, Some(Got::Failed(_))) && random.chance(700) {
            self.call(asked, &mut run);
        }
    }

    fn group_claim(&mut self, random: &mut Random) {
        let count = random.within(1, 4);
        let targets: Vec<u64> = (0..count)
            .map(|_| random.within(1, self.plan.targets))
            .collect();
        let Ok(members) = Members::new(&targets) else {
            return;
        };
        let run = |campaign: &Campaign| {
            let claimed = campaign.group_claim(&members, Some("{}"), &ClaimOptions::default());
            answered(claimed, Got::Claim)
        };
        if let Some(Got::Claim(Claimed::Lease(held))) =
            self.call(Asked::GroupClaim(ids(&members.unique)), run)
        {
            self.groups.push((members.unique, held.token));
        }
    }

    fn group(&mut self, op: Op, random: &mut Random) {
        let count = self.groups.len() as u64;
        let back = if random.chance(700) {
            0
        } else {
            random.below(count)
        };
        let Some((targets, token)) = self.groups.iter().rev().nth(back as usize).cloned() else {
            return self.group_claim(random);
        };
        let Ok(members) = Members::new(&targets) else {
            return;
        };
        let names = ids(&targets);
        let asked = match op {
            Op::GroupHeartbeat => Asked::GroupHeartbeat(names, token.clone()),
            Op::GroupRelease => Asked::GroupRelease(names, token.clone()),
            _ => Asked::GroupVerify(names, token.clone()),
        };
        self.call(asked, |campaign| {
            let answer = match op {
                Op::GroupHeartbeat => {
                    let renewed = campaign.group_heartbeat(&members, &token);
                    renewed.map(|(answer, _)| answer)
                }
                Op::GroupRelease => campaign.group_release(&members, &token),
                _ => campaign
                    .group_verify(&members, &token)
                    .map(|(answer, _)| answer),
            };
            answered(answer, Got::Step)
        });
    }

    fn merge(&mut self, op: Op, random: &mut Random) {
        if op == Op::Unknown {
            let one = candidate(random);
            self.call(Asked::Unknown(one.clone()), |campaign| {
                answered(campaign.unknown_bits(&one), Got::Count)
            });
            return;
        }
        let count = if op == Op::Merge {
            1
        } else {
            random.within(2, 4)
        };
        let candidates: Vec<Candidate> = (0..count).map(|_| candidate(random)).collect();
        self.call(Asked::Merge(candidates.clone()), |campaign| {
            answered(campaign.merge(&candidates), Got::Novel)
        });
    }

    fn other(&mut self, op: Op) {
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
