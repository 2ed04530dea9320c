//! The steps of a plan: what a coordinator calls, and with what, comes from
//! the step's own number.

use symlease::campaign::coverage::Candidate;
use symlease::campaign::ClaimOptions;
use symlease::record::shard::Edge;
use symlease::sys::sim::Random;
use symlease::sys::Sys;

use crate::calls::{Found, Pair};
use crate::client::{work_id, Client};
use crate::plan::Op;

/// Indices of the coverage map that candidates come from.
const EDGES: u64 = 14;

/// Some edges: mostly of the first few indices, so that candidates overlap.
fn edges(random: &mut Random) -> Vec<Edge> {
    (0..random.within(1, 5))
        .map(|_| (random.below(EDGES) as u32, 1 << random.below(3)))
        .collect()
}

fn candidate(random: &mut Random) -> Candidate {
    Candidate::sparse(&edges(random)).unwrap_or_else(|error| panic!("{error}"))
}

/// Mostly the newest; old ones stay, and are used now and then.
fn pick<T: Clone>(all: &[T], random: &mut Random) -> Option<T> {
    let back = match random.chance(700) {
        true => 0,
        false => random.below(all.len() as u64),
    };
    all.iter().rev().nth(back as usize).cloned()
}

impl Client {
    /// One step of the plan.
    pub fn step(&mut self, op: Op, number: u64) {
        let random = &mut Random::new(number);
        match op {
            Op::Claim | Op::Takeover => self.claim_any(op, random),
            Op::Heartbeat
            | Op::Abandon
            | Op::BeginCommit
            | Op::Complete
            | Op::Replay
            | Op::Verify => match self.pick_lease(random) {
                Some(pair) => {
                    let manifest = format!("{{\"n\":{}}}", random.below(2));
                    self.lease(op, &pair, &manifest);
                }
                None => self.claim_any(Op::Claim, random),
            },
            Op::HeartbeatMany => self.heartbeat_many(None),
            Op::HeartbeatAll => self.heartbeat_all(),
            Op::Commit => match self.pick_lease(random) {
                Some(pair) => self.commit_any(&pair, random),
                None => self.claim_any(Op::Claim, random),
            },
            Op::GroupClaim => self.group_claim_any(random),
            Op::GroupHeartbeat | Op::GroupRelease | Op::GroupVerify => {
                match pick(&self.groups, random) {
                    Some((targets, token)) => self.group(op, &targets, &token),
                    None => self.group_claim_any(random),
                }
            }
            Op::Merge => self.merge(&[candidate(random)]),
            Op::MergeMany => {
                let count = random.within(2, 4);
                let candidates: Vec<_> = (0..count).map(|_| candidate(random)).collect();
                self.merge(&candidates);
            }
            Op::Unknown => self.unknown(&candidate(random)),
            Op::Rest => self.sys.sleep(random.within(1, 8_000) * 1_000_000),
            _ => self.other(op),
        }
    }

    fn pick_lease(&self, random: &mut Random) -> Option<Pair> {
        pick(&self.leases, random)
    }

    fn claim_any(&mut self, op: Op, random: &mut Random) {
        let id = work_id(random.below(self.plan.ids));
        let options = ClaimOptions {
            takeover: op == Op::Takeover,
            ttl: random.chance(50).then_some(2.0),
            new_ttl: random.chance(100).then_some(20.0),
            ..ClaimOptions::default()
        };
        self.claim(&id, &options);
    }

    fn commit_any(&mut self, pair: &Pair, random: &mut Random) {
        let unique = self.history.borrow().entries.len();
        let count = random.below(4);
        let again = random.chance(700);
        let found = |number| Found {
            content: match random.chance(200) {
                true => format!("common {}", random.below(3)),
                false => format!("result {unique}-{number}"),
            },
            map: random.chance(700).then(|| candidate(random)),
            keep: random.chance(100),
            name: random.chance(300).then(|| format!("n{}", random.below(3))),
        };
        let results = (0..count).map(found).collect();
        self.commit(pair, results, again);
    }

    fn group_claim_any(&mut self, random: &mut Random) {
        let count = random.within(1, 4);
        let targets: Vec<u64> = (0..count)
            .map(|_| random.within(1, self.plan.targets))
            .collect();
        self.group_claim(&targets);
    }
}
