//! A campaign in which each kind of call is about to be made.

use std::path::Path;
use std::sync::{Arc, Mutex};

use symlease::campaign::commit::{Offer, Outcome};
use symlease::campaign::coverage::Candidate;
use symlease::campaign::group::Members;
use symlease::campaign::work::Claimed;
use symlease::campaign::{Answer, Campaign, ClaimOptions};
use symlease::error::Result;
use symlease::model::coverage::bits_in;
use symlease::record::id::{sha256_hex, shard_of};
use symlease::sys::Linux;

use crate::common::{campaign, fast_root, files, Clock, Faulty};

const NOW: f64 = 1_786_060_800.25;
const MANIFEST: &str = "{\"r\":[1]}";

pub struct Ground {
    pub root: tempfile::TempDir,
    pub clock: Clock,
    pub sys: Arc<Faulty>,
    pub a: Campaign,
    pub id: String,
    pub token: String,
    pub members: Members,
    pub group: String,
}

/// The calls that change something, and their answers in words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Act {
    Claim,
    Heartbeat,
    Abandon,
    Begin,
    Complete,
    Replay,
    ClaimGroup,
    ClaimTarget,
    HeartbeatGroup,
    Release,
    ReleaseTarget,
    Merge,
    MergeOne,
    Commit,
}

/// Each call, the answer of one repeat, and of those that follow.
pub const ACTS: [(Act, &str, &str); 14] = [
    (Act::Claim, "lease 1", "Held"),
    (Act::Heartbeat, "Ok", "Ok"),
    (Act::Abandon, "Ok", "Stale"),
    (Act::Begin, "Ok", "Ok"),
    (Act::Complete, "Ok", "Already"),
    (Act::Replay, "Ok", "Already"),
    (Act::ClaimGroup, "lease 1", "Held"),
    (Act::ClaimTarget, "lease 1", "Held"),
    (Act::HeartbeatGroup, "Ok", "Ok"),
    (Act::Release, "Ok", "Stale"),
    (Act::ReleaseTarget, "Ok", "Stale"),
    (Act::Merge, "[5, 2]", "[0, 0]"),
    (Act::MergeOne, "[2, 0]", "[0, 0]"),
    (Act::Commit, "Ok 3 0 published", "Done"),
];

pub fn lease(claimed: Claimed) -> String {
    match claimed {
        Claimed::Lease(held) => held.token,
        Claimed::Refused(answer, _) => panic!("{answer:?}"),
    }
}

pub fn plain(campaign: &Campaign, id: &str) -> Result<Claimed> {
    campaign.claim(id, None, &ClaimOptions::default())
}

pub fn merged(campaign: &Campaign, lists: &[&[(u32, u8)]]) -> Result<Vec<u64>> {
    let candidates: Vec<Candidate> = lists
        .iter()
        .map(|list| Candidate::sparse(list).unwrap())
        .collect();
    let novel = campaign.merge(&candidates)?;
    Ok(novel.iter().map(|edges| bits_in(edges)).collect())
}

pub fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().to_vec()
}

impl Ground {
    /// Everything is there that `act` needs, and every directory.
    pub fn new(act: Act) -> Ground {
        let root = fast_root();
        let clock: Clock = Arc::new(Mutex::new(NOW));
        let sys = Faulty::new();
        let a = campaign(root.path(), "a", &clock, sys.clone());
        let id = sha256_hex(b"work");
        let mut token = String::new();
        let one = [Act::ClaimTarget, Act::ReleaseTarget].contains(&act);
        let members = Members::new(if one { &[7] } else { &[7, 8, 9] }).unwrap();
        let mut group = lease(
            a.group_claim(&members, None, &ClaimOptions::default())
                .unwrap(),
        );
        match act {
            Act::Claim => {
                // Its folder is there.
                let spare = spare(&id);
                lease(plain(&a, &spare).unwrap());
            }
            _ => token = lease(plain(&a, &id).unwrap()),
        }
        match act {
            Act::Replay => {
                assert_eq!(a.begin_commit(&id, &token, MANIFEST).unwrap(), Answer::Ok);
            }
            Act::ClaimGroup | Act::ClaimTarget => {
                assert_eq!(a.group_release(&members, &group).unwrap(), Answer::Ok);
                group.clear();
            }
            Act::Commit => std::fs::create_dir(root.path().join("corpus")).unwrap(),
            _ => {}
        }
        assert_eq!(
            merged(&a, &[&[(0, 1), (1, 1), (2, 1), (3, 1)]]).unwrap(),
            [4]
        );
        Ground {
            root,
            clock,
            sys,
            a,
            id,
            token,
            members,
            group,
        }
    }

    pub fn run(&self, act: Act) -> Result<String> {
        let (a, id, token) = (&self.a, &*self.id, &*self.token);
        let word = |answer: Answer| format!("{answer:?}");
        let claimed = |claimed| match claimed {
            Claimed::Lease(held) => format!("lease {}", held.attempts),
            Claimed::Refused(answer, _) => format!("{answer:?}"),
        };
        let default = ClaimOptions::default();
        Ok(match act {
            Act::Claim => claimed(plain(a, id)?),
            Act::Heartbeat => word(a.heartbeat(id, token)?.0),
            Act::Abandon => word(a.abandon(id, token)?),
            Act::Begin => word(a.begin_commit(id, token, MANIFEST)?),
            Act::Complete => word(a.complete(id, token)?),
            Act::Replay => word(a.replay(id, token, &mut |_| Ok(()))?),
            Act::ClaimGroup | Act::ClaimTarget => {
                claimed(a.group_claim(&self.members, None, &default)?)
            }
            Act::HeartbeatGroup => word(a.group_heartbeat(&self.members, &self.group)?.0),
            Act::Release | Act::ReleaseTarget => word(a.group_release(&self.members, &self.group)?),
            Act::Merge => format!("{:?}", merged(a, &[&MANY, &[(7, 1), (9, 2)]])?),
            Act::MergeOne => format!("{:?}", merged(a, &[&[(4, 3)], &[(4, 1)]])?),
            Act::Commit => self.commit()?,
        })
    }

    pub fn commit(&self) -> Result<String> {
        let offer = |content: &str, edges: &[(u32, u8)]| {
            let staged = self.root.path().join(content);
            if !staged.exists()
                && !self
                    .root
                    .path()
                    .join("corpus")
                    .join(sha256_hex(content.as_bytes()))
                    .exists()
            {
                std::fs::write(&staged, content).unwrap();
            }
            Offer {
                staged: bytes(&staged),
                name: None,
                corpus: None,
                map: Some(Candidate::sparse(edges).unwrap()),
                keep: false,
            }
        };
        let offers = [offer("new", &MANY[..3]), offer("known", &[(0, 1)])];
        let corpus = self.root.path().join("corpus");
        let (answer, outcomes) = self
            .a
            .commit(&self.id, &self.token, &bytes(&corpus), &offers)?;
        if answer != Answer::Ok {
            return Ok(format!("{answer:?}"));
        }
        let show = |one: &Outcome| one.novel_bits.to_string();
        let bits: Vec<String> = outcomes.iter().map(show).collect();
        let fates: Vec<bool> = outcomes.iter().map(|one| one.fate.is_some()).collect();
        assert_eq!(fates, [true, false], "what is not novel is not published");
        Ok(format!("Ok {} published", bits.join(" ")))
    }

    pub fn other(&self) -> Campaign {
        campaign(self.root.path(), "b", &self.clock, Arc::new(Linux::new()))
    }

    /// What others see, intents and transactions left out.
    pub fn records(&self) -> Vec<(String, Vec<u8>)> {
        let all = files(self.root.path()).into_iter();
        let kept = |path: &str| !path.contains("/.intents/") && !path.contains("transactions");
        all.filter(|(path, _)| kept(path)).collect()
    }
}

pub const MANY: [(u32, u8); 5] = [(0, 1), (4, 3), (5, 1), (6, 1), (7, 2)];

/// An id in the same folder.
pub fn spare(id: &str) -> String {
    let others = (0..).map(|n: u32| sha256_hex(&n.to_le_bytes()));
    let same = |other: &String| shard_of(other, 16) == shard_of(id, 16);
    others.into_iter().find(same).unwrap()
}
