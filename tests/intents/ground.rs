//! A campaign in which a group change is about to die.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use symlease::campaign::group::Members;
use symlease::campaign::work::Claimed;
use symlease::campaign::{Answer, Campaign, ClaimOptions};
use symlease::error::Result;
use symlease::record::id::target_id;
use symlease::sys::Linux;

use crate::common::{campaign, fast_root, files, Clock, Faulty};

const NOW: f64 = 1_786_060_800.25;

/// The call that dies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Of targets that nobody had.
    Fresh,
    /// Of an expired group.
    Steal,
    Heartbeat,
    Release,
}

pub const CHANGES: [Change; 4] = [
    Change::Fresh,
    Change::Steal,
    Change::Heartbeat,
    Change::Release,
];

/// The call that comes next, by another handle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    Claim,
    /// Of one target alone, which needs no intent itself.
    ClaimOne,
    Heartbeat,
    Release,
}

pub const NEXTS: [Next; 4] = [Next::Claim, Next::ClaimOne, Next::Heartbeat, Next::Release];

/// A campaign in which `change` is about to be made to n targets.
pub struct Ground {
    pub root: tempfile::TempDir,
    pub clock: Clock,
    pub sys: Arc<Faulty>,
    pub dying: Campaign,
    pub members: Members,
    pub token: String,
    pub old: Vec<Option<Vec<u8>>>,
}

impl Ground {
    pub fn new(change: Change, n: u64) -> Ground {
        let root = fast_root();
        let clock: Clock = Arc::new(Mutex::new(NOW));
        let sys = Faulty::new();
        let dying = campaign(root.path(), "dying", &clock, sys.clone());
        let members = Members::new(&(1..=n).collect::<Vec<_>>()).unwrap();
        let mut token = String::new();
        if change == Change::Fresh {
            // Directories and identity are there, as in a campaign that runs.
            let token = group_claim(&dying, &members).unwrap();
            assert_eq!(
                dying.group_release(&members, &token).unwrap(),
                Answer::Ok,
                "{change:?}"
            );
        } else {
            let first = campaign(root.path(), "first", &clock, Arc::new(Linux::new()));
            token = group_claim(&first, &members).unwrap();
            *clock.lock().unwrap() += if change == Change::Steal { 60.0 } else { 5.0 };
        }
        let mut ground = Ground {
            root,
            clock,
            sys,
            dying,
            members,
            token,
            old: Vec::new(),
        };
        ground.old = ground.records();
        ground
    }

    pub fn targets(&self) -> u64 {
        self.members.unique.len() as u64
    }

    pub fn path(&self, target: u64) -> PathBuf {
        record(self.root.path(), target)
    }

    pub fn records(&self) -> Vec<Option<Vec<u8>>> {
        let read = |target| std::fs::read(self.path(target)).ok();
        (1..=self.targets()).map(read).collect()
    }

    pub fn run(&self, change: Change) -> Result<()> {
        match change {
            Change::Fresh | Change::Steal => group_claim(&self.dying, &self.members).map(|_| ()),
            Change::Heartbeat => {
                let done = self.dying.group_heartbeat(&self.members, &self.token)?;
                assert_eq!(done.0, Answer::Ok);
                Ok(())
            }
            Change::Release => {
                let done = self.dying.group_release(&self.members, &self.token)?;
                assert_eq!(done, Answer::Ok);
                Ok(())
            }
        }
    }

    pub fn other(&self) -> Campaign {
        campaign(
            self.root.path(),
            "other",
            &self.clock,
            Arc::new(Linux::new()),
        )
    }

    pub fn intents(&self) -> Vec<String> {
        paths(self.root.path(), |path| path.contains("/.intents/"))
    }

    pub fn temporaries(&self) -> Vec<String> {
        paths(self.root.path(), |path| path.ends_with(".tmp"))
    }
}

pub fn paths(root: &Path, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let all = files(root).into_iter().map(|(path, _)| path);
    all.filter(|path| wanted(path)).collect()
}

pub fn record(root: &Path, target: u64) -> PathBuf {
    let id = target_id(target);
    let folder = format!("{:03}", symlease::record::id::shard_of(&id, 16));
    root.join(".target_lease_table")
        .join(folder)
        .join(id + ".json")
}

pub fn group_claim(campaign: &Campaign, members: &Members) -> Result<String> {
    match campaign.group_claim(members, None, &ClaimOptions::default())? {
        Claimed::Lease(held) => Ok(held.token),
        Claimed::Refused(answer, holder) => panic!("{answer:?} {holder:?}"),
    }
}

/// The bytes of one field in a record.
pub fn field<'a>(record: &'a [u8], name: &str) -> &'a str {
    let text = std::str::from_utf8(record).unwrap();
    let rest = text.split_once(&format!("\"{name}\":")).unwrap().1;
    rest.split(',').next().unwrap()
}

/// Whether the records are wholly what `change` makes of the old ones.
pub fn wholly_new(change: Change, old: &[Option<Vec<u8>>], now: &[Option<Vec<u8>>]) -> bool {
    if change == Change::Release {
        return now.iter().all(Option::is_none);
    }
    let first = now[0].as_deref();
    let all = now.iter().zip(old).all(|(now, old)| {
        now != old
            && now.as_deref().is_some_and(|now| {
                first.is_some_and(|first| {
                    field(now, "token") == field(first, "token")
                        && field(now, "updated") == field(first, "updated")
                })
            })
    });
    all
}

pub fn calls(change: Change, n: u64) -> u64 {
    let ground = Ground::new(change, n);
    ground.sys.die(u64::MAX);
    ground.run(change).unwrap();
    assert!(wholly_new(change, &ground.old, &ground.records()));
    assert!(ground.intents().is_empty() && ground.temporaries().is_empty());
    ground.sys.calls.load(Ordering::SeqCst)
}

/// Runs the next call over one member, and a target that is nobody's.
pub fn next(ground: &Ground, next: Next, target: u64) {
    let other = ground.other();
    let shared = Members::new(&match next {
        Next::ClaimOne => vec![target],
        _ => vec![target, 1000],
    })
    .unwrap();
    match next {
        Next::Claim | Next::ClaimOne => {
            let claimed = other.group_claim(&shared, None, &ClaimOptions::default());
            claimed.unwrap();
        }
        Next::Heartbeat => {
            let answer = other.group_heartbeat(&shared, "nobody's").unwrap();
            assert_eq!(answer, (Answer::Stale, None));
        }
        Next::Release => {
            let answer = other.group_release(&shared, "nobody's").unwrap();
            assert_eq!(answer, Answer::Stale);
        }
    }
}

/// After the next call over `target` the others are wholly old or wholly new,
/// and so is that one, unless the call could claim it.
pub fn assert_whole(ground: &Ground, change: Change, next: Next, target: u64, what: &str) {
    let claimed = matches!(next, Next::Claim | Next::ClaimOne);
    let mut now = ground.records();
    let mut old = ground.old.clone();
    let seen = now[target as usize - 1].clone();
    if claimed && seen.is_some_and(|seen| field(&seen, "owner") == "\"other\"") {
        now.remove(target as usize - 1);
        old.remove(target as usize - 1);
    }
    assert!(
        now == old || wholly_new(change, &old, &now),
        "{what}: {:#?}",
        now.iter()
            .map(|one| one.as_deref().map(String::from_utf8_lossy))
            .collect::<Vec<_>>()
    );
    assert!(ground.intents().iter().all(|path| path.ends_with(".tmp")));
}
