//! G1, F33: a group change whose process dies, or meets an error, at any of its
//! calls is wholly old or wholly new before the next group call that shares a
//! member decides, whichever call that is.

mod common;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier, Mutex};

use common::{campaign, fast_root, files, Clock, Faulty};
use symlease::campaign::group::Members;
use symlease::campaign::work::Claimed;
use symlease::campaign::{Answer, Campaign, ClaimOptions};
use symlease::engine::Table;
use symlease::error::{Kind, Result};
use symlease::record::id::target_id;
use symlease::record::intent::Intent;
use symlease::sys::Linux;

const NOW: f64 = 1_786_060_800.25;

/// The call that dies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    /// Of targets that nobody had.
    Fresh,
    /// Of an expired group.
    Steal,
    Heartbeat,
    Release,
}

const CHANGES: [Change; 4] = [
    Change::Fresh,
    Change::Steal,
    Change::Heartbeat,
    Change::Release,
];

/// The call that comes next, by another handle.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    Claim,
    /// Of one target alone, which needs no intent itself.
    ClaimOne,
    Heartbeat,
    Release,
}

const NEXTS: [Next; 4] = [Next::Claim, Next::ClaimOne, Next::Heartbeat, Next::Release];

/// A campaign in which `change` is about to be made to n targets.
struct Ground {
    root: tempfile::TempDir,
    clock: Clock,
    sys: Arc<Faulty>,
    dying: Campaign,
    members: Members,
    token: String,
    old: Vec<Option<Vec<u8>>>,
}

impl Ground {
    fn new(change: Change, n: u64) -> Ground {
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

    fn targets(&self) -> u64 {
        self.members.unique.len() as u64
    }

    fn path(&self, target: u64) -> PathBuf {
        record(self.root.path(), target)
    }

    fn records(&self) -> Vec<Option<Vec<u8>>> {
        let read = |target| std::fs::read(self.path(target)).ok();
        (1..=self.targets()).map(read).collect()
    }

    fn run(&self, change: Change) -> Result<()> {
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

    fn other(&self) -> Campaign {
        campaign(
            self.root.path(),
            "other",
            &self.clock,
            Arc::new(Linux::new()),
        )
    }

    fn intents(&self) -> Vec<String> {
        paths(self.root.path(), |path| path.contains("/.intents/"))
    }

    fn temporaries(&self) -> Vec<String> {
        paths(self.root.path(), |path| path.ends_with(".tmp"))
    }
}

fn paths(root: &Path, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let all = files(root).into_iter().map(|(path, _)| path);
    all.filter(|path| wanted(path)).collect()
}

fn record(root: &Path, target: u64) -> PathBuf {
    let id = target_id(target);
    let folder = format!("{:03}", symlease::record::id::shard_of(&id, 16));
    root.join(".target_lease_table")
        .join(folder)
        .join(id + ".json")
}

fn group_claim(campaign: &Campaign, members: &Members) -> Result<String> {
    match campaign.group_claim(members, None, &ClaimOptions::default())? {
        Claimed::Lease(held) => Ok(held.token),
        Claimed::Refused(answer, holder) => panic!("{answer:?} {holder:?}"),
    }
}

/// The bytes of one field in a record.
fn field<'a>(record: &'a [u8], name: &str) -> &'a str {
    let text = std::str::from_utf8(record).unwrap();
    let rest = text.split_once(&format!("\"{name}\":")).unwrap().1;
    rest.split(',').next().unwrap()
}

/// Whether the records are wholly what `change` makes of the old ones.
fn wholly_new(change: Change, old: &[Option<Vec<u8>>], now: &[Option<Vec<u8>>]) -> bool {
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

fn calls(change: Change, n: u64) -> u64 {
    let ground = Ground::new(change, n);
    ground.sys.die(u64::MAX);
    ground.run(change).unwrap();
    assert!(wholly_new(change, &ground.old, &ground.records()));
    assert!(ground.intents().is_empty() && ground.temporaries().is_empty());
    ground.sys.calls.load(Ordering::SeqCst)
}

/// Runs the next call over one member, and a target that is nobody's.
fn next(ground: &Ground, next: Next, target: u64) {
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
fn assert_whole(ground: &Ground, change: Change, next: Next, target: u64, what: &str) {
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

/// Deaths at every call, each followed by every kind of call.
fn deaths(n: u64) {
    for change in CHANGES {
        let calls = calls(change, n);
        let mut halves = 0;
        for (turn, after) in NEXTS.into_iter().enumerate() {
            // The largest group meets one kind of call after each death.
            let all = |at: &u64| n < 5 || *at as usize % 4 == turn;
            for at in (1..=calls).filter(all) {
                let ground = Ground::new(change, n);
                ground.sys.die(at);
                let died = ground.run(change);
                let now = ground.records();
                let half = now != ground.old && !wholly_new(change, &ground.old, &now);
                halves += usize::from(half);
                // Looking repairs nothing (M4).
                let other = ground.other();
                other.counts(Table::Target).unwrap();
                other.group_verify(&ground.members, &ground.token).unwrap();
                assert_eq!(ground.records(), now);
                let target = 1 + at % n;
                next(&ground, after, target);
                let what = format!("{change:?} of {n} died at {at}, then {after:?} of {target}");
                assert_whole(&ground, change, after, target, &what);
                if died.is_ok() {
                    assert!(now != ground.old, "{what}: an answer was lost");
                }
                ground.other().engine().sweep().unwrap();
                assert!(ground.temporaries().is_empty(), "H4, {what}");
                assert!(ground.intents().is_empty(), "{what}");
            }
        }
        // Half done is what this is about: without any the test shows nothing.
        assert!(halves >= n as usize - 1, "{change:?}: {halves}");
        println!("{change:?} of {n}: {calls} calls, {halves} deaths half way");
    }
}

#[test]
fn a_death_in_a_pair_is_settled() {
    deaths(2);
}

#[test]
fn a_death_in_three_is_settled() {
    deaths(3);
}

#[test]
fn a_death_in_five_is_settled() {
    deaths(5);
}

/// H2, H4, F16, F17: with an error in place of a death the group is whole at
/// once, and only one whose durability is unknown leaves its intent.
#[test]
fn an_error_at_any_call_leaves_the_group_whole() {
    for (n, errno) in [(2, libc::EIO), (3, libc::ENOSPC), (5, libc::EIO)] {
        for change in CHANGES {
            for at in 1.. {
                let ground = Ground::new(change, n);
                ground.sys.arm(at, errno);
                let Err(error) = ground.run(change) else {
                    assert!(at > 25, "only {at} calls");
                    break;
                };
                ground.sys.arm(0, 0);
                let what = format!("{change:?} of {n}, {errno} at {at}: {error}");
                let now = ground.records();
                match error.kind {
                    Kind::Indeterminate => {
                        assert!(wholly_new(change, &ground.old, &now), "{what}")
                    }
                    _ => {
                        assert_eq!(now, ground.old, "{what}");
                        assert!(ground.intents().is_empty(), "{what}");
                    }
                }
                assert!(ground.temporaries().is_empty(), "H4, {what}");
                next(&ground, Next::Heartbeat, 1);
                assert_whole(&ground, change, Next::Heartbeat, 1, &what);
            }
        }
    }
}

/// The first call that cannot be undone: an intent that cannot be removed is
/// E_INDETERMINATE, and the next call, whose ever, removes it.
#[test]
fn an_intent_that_stays_is_removed_by_the_next_call() {
    for change in CHANGES {
        let ground = Ground::new(change, 3);
        // A release unlinks its members first.
        let before = if change == Change::Release { 3 } else { 0 };
        ground
            .sys
            .fail_unlink_at
            .store(before + 1, Ordering::SeqCst);
        let error = ground.run(change).unwrap_err();
        assert_eq!(error.kind, Kind::Indeterminate, "{change:?}: {error}");
        assert_eq!(ground.intents().len(), 1);
        let made = ground.records();
        assert!(wholly_new(change, &ground.old, &made));
        next(&ground, Next::Release, 2);
        assert_eq!(ground.records(), made, "all new: nothing is taken back");
        assert!(ground.intents().is_empty());
    }
}

/// Leaves a dead claim of `targets` of which the first `made` members changed.
fn half_done(ground: &Ground, targets: &[u64], made: u64) {
    let sys = Faulty::new();
    let dying = campaign(ground.root.path(), "half", &ground.clock, sys.clone());
    let members = Members::new(targets).unwrap();
    // The intent's rename is the first.
    sys.die_at_rename.store(made + 2, Ordering::SeqCst);
    dying
        .group_claim(&members, None, &ClaimOptions::default())
        .unwrap_err();
    let changed = targets.iter().filter(|target| {
        let bytes = std::fs::read(ground.path(**target));
        bytes.is_ok_and(|bytes| field(&bytes, "owner") == "\"half\"")
    });
    assert_eq!(changed.count() as u64, made);
}

/// A member that a peer wrote in between is left alone; those that hold the
/// dead claim's record get their old one back.
#[test]
fn a_peer_in_between_is_left_alone() {
    let ground = Ground::new(Change::Steal, 3);
    half_done(&ground, &[1, 2, 3], 0);
    let intent = ground.intents();
    assert_eq!(intent.len(), 1);
    let parsed = Intent::parse(&std::fs::read(&intent[0]).unwrap()).unwrap();
    let id = |target| target_id(target);
    let new = |target| {
        let mut members = parsed.members().iter();
        let member = members.find(|one| one.id == id(target)).unwrap();
        member.new.clone().unwrap()
    };
    // One made, one not, one of a peer's.
    std::fs::write(ground.path(1), new(1)).unwrap();
    let peer = new(2).replace("\"half\"", "\"peer\"");
    std::fs::write(ground.path(2), &peer).unwrap();
    next(&ground, Next::Heartbeat, 3);
    let now = ground.records();
    assert_eq!(now[0], ground.old[0]);
    assert_eq!(now[1].as_deref(), Some(peer.as_bytes()));
    assert_eq!(now[2], ground.old[2]);
    assert!(ground.intents().is_empty());
}

/// Two dead groups that one call touches are settled one after the other; one
/// that it does not share is left to others, and to the sweep.
#[test]
fn several_intents_are_settled_by_one_call() {
    let ground = Ground::new(Change::Steal, 6);
    half_done(&ground, &[1, 2], 0);
    half_done(&ground, &[3, 4], 0);
    half_done(&ground, &[5, 6], 0);
    assert_eq!(ground.intents().len(), 3);
    let both = Members::new(&[2, 3]).unwrap();
    let other = ground.other();
    assert_eq!(
        other.group_release(&both, "nobody's").unwrap(),
        Answer::Stale
    );
    assert_eq!(ground.intents().len(), 1);
    other.engine().sweep().unwrap();
    assert!(ground.intents().is_empty() && ground.temporaries().is_empty());
    assert_eq!(ground.records(), ground.old);
}

/// A living writer's intent is nobody's to settle: a sweep passes it by.
#[test]
fn a_living_writers_intent_is_left_alone() {
    let ground = Ground::new(Change::Steal, 2);
    half_done(&ground, &[1, 2], 0);
    let kept = ground.intents();
    let engine = ground.other();
    let mut id = [target_id(1), target_id(2)];
    id.sort();
    // Somebody holds a member's lock, as the writer would.
    let path = ground.root.path().join(".target_lease_table");
    let folder = format!("{:03}", symlease::record::id::shard_of(&id[1], 16));
    let lock = path.join(folder).join(format!("{}.json.lock", id[1]));
    let file = std::fs::File::open(lock).unwrap();
    file.lock().unwrap();
    engine.engine().sweep().unwrap();
    assert_eq!(ground.intents(), kept);
    file.unlock().unwrap();
    engine.engine().sweep().unwrap();
    assert!(ground.intents().is_empty());
}

/// An unreadable intent is CORRUPT for group calls, and for nobody else; its
/// bytes stay (F19, F27).
#[test]
fn an_unreadable_intent_stops_group_calls() {
    let ground = Ground::new(Change::Heartbeat, 2);
    half_done_heartbeat(&ground);
    let place = &ground.intents()[0];
    let good = std::fs::read(place).unwrap();
    let moved = place.replace(&target_id(1), &"0".repeat(64));
    let moved = moved.replace(&target_id(2), &"0".repeat(64));
    for bad in [&good[..good.len() - 2], b"", &good[1..]] {
        std::fs::write(place, bad).unwrap();
        assert_corrupt(&ground, place, bad);
    }
    // The name tells whose lock its writer held: it must be true.
    std::fs::remove_file(place).unwrap();
    std::fs::write(&moved, &good).unwrap();
    assert_corrupt(&ground, &moved, &good);
    std::fs::remove_file(&moved).unwrap();
    next(&ground, Next::Claim, 1);
}

fn half_done_heartbeat(ground: &Ground) {
    ground.sys.fail_unlink_at.store(1, Ordering::SeqCst);
    ground.run(Change::Heartbeat).unwrap_err();
}

fn assert_corrupt(ground: &Ground, place: &str, bytes: &[u8]) {
    let other = ground.other();
    let far = Members::new(&[77]).unwrap();
    let claim = other.group_claim(&far, None, &ClaimOptions::default());
    assert_eq!(claim.unwrap_err().kind, Kind::Corrupt);
    let beat = other.group_heartbeat(&ground.members, &ground.token);
    assert_eq!(beat.unwrap_err().kind, Kind::Corrupt);
    let release = other.group_release(&ground.members, &ground.token);
    assert_eq!(release.unwrap_err().kind, Kind::Corrupt);
    assert_eq!(other.engine().sweep().unwrap_err().kind, Kind::Corrupt);
    // Work leases, and looking, need no intents.
    let id = symlease::record::id::sha256_hex(bytes);
    other.claim(&id, None, &ClaimOptions::default()).unwrap();
    other.counts(Table::Target).unwrap();
    assert_eq!(std::fs::read(place).unwrap(), bytes);
}

/// Two handles meet one dead group at once, by different members: both calls
/// end, and the group is whole.
#[test]
fn two_handles_settle_at_once() {
    for round in 0..150 {
        let change = CHANGES[round % 4];
        let ground = Ground::new(change, 3);
        let calls = 3 + round as u64 % 60;
        ground.sys.die(calls);
        let _ = ground.run(change);
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            for target in [1, 3] {
                let (ground, start) = (&ground, &start);
                scope.spawn(move || {
                    let other = ground.other();
                    let shared = Members::new(&[target, 1000]).unwrap();
                    start.wait();
                    let answer = other.group_release(&shared, "nobody's").unwrap();
                    assert_eq!(answer, Answer::Stale);
                });
            }
        });
        assert_whole(&ground, change, Next::Release, 1, &format!("round {round}"));
    }
}

/// What is settled is durable before the intent is gone: each folder of a
/// member is synced by the call that settles, and the intent's directory after.
#[test]
fn settling_is_synced() {
    let ground = Ground::new(Change::Steal, 5);
    half_done(&ground, &[1, 2, 3, 4, 5], 0);
    let sys = Faulty::new();
    let other = campaign(ground.root.path(), "other", &ground.clock, sys.clone());
    let far = Members::new(&[1, 99]).unwrap();
    other.group_release(&far, "nobody's").unwrap();
    let folders: std::collections::BTreeSet<PathBuf> = (1..=5)
        .map(|target| ground.path(target).parent().unwrap().to_path_buf())
        .collect();
    // Beside them the new target's folder with its parent, at the most.
    let syncs = sys.directory_syncs.load(Ordering::SeqCst);
    assert!(syncs > folders.len() as u64, "{syncs} syncs");
    // A failing sync of any of them leaves the intent where it is.
    for at in 1.. {
        let ground = Ground::new(Change::Steal, 3);
        half_done(&ground, &[1, 2, 3], 0);
        let sys = Faulty::new();
        let other = campaign(ground.root.path(), "other", &ground.clock, sys.clone());
        let far = Members::new(&[1, 2]).unwrap();
        sys.arm(at, libc::EIO);
        let first = other.group_release(&far, "nobody's");
        sys.arm(0, 0);
        if first.is_ok() {
            assert!(at > 20, "only {at} calls");
            return;
        }
        let again = other.group_release(&far, "nobody's");
        assert_eq!(again.unwrap(), Answer::Stale, "error at {at}");
        assert_eq!(ground.records(), ground.old, "error at {at}");
        assert!(ground.intents().is_empty(), "error at {at}");
    }
}
