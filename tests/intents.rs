//! G1, F33: a group change whose process dies, or meets an error, at any of its
//! calls is wholly old or wholly new before the next group call that shares a
//! member decides, whichever call that is.

mod common;
#[path = "intents/ground.rs"]
mod ground;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::Barrier;

use common::{campaign, Faulty};
use ground::{assert_whole, calls, field, next, wholly_new, Change, Ground, Next, CHANGES, NEXTS};
use symlease::campaign::group::Members;
use symlease::campaign::{Answer, ClaimOptions};
use symlease::engine::Table;
use symlease::error::Kind;
use symlease::record::id::target_id;
use symlease::record::intent::Intent;

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
            let mut standing = 0;
            for at in 1.. {
                let ground = Ground::new(change, n);
                ground.sys.arm(at, errno);
                let Err(error) = ground.run(change) else {
                    assert!(at > 25, "only {at} calls");
                    // A power cut may keep some of its renames: it stands for that.
                    assert!(standing > 0, "{change:?}: no intent stood");
                    break;
                };
                ground.sys.arm(0, 0);
                let what = format!("{change:?} of {n}, {errno} at {at}: {error}");
                let now = ground.records();
                match error.kind {
                    Kind::Indeterminate => {
                        assert!(wholly_new(change, &ground.old, &now), "{what}");
                        let count = ground.intents().len();
                        // Its own removal may be what was not synced.
                        let removed = error.text.contains(".intents");
                        assert!(count == 1 || removed, "{what}");
                        standing += usize::from(!removed);
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
    // All new: published again, for the dead writer's syncs may have failed.
    for change in CHANGES {
        let ground = Ground::new(change, 3);
        let before = if change == Change::Release { 3 } else { 0 };
        ground
            .sys
            .fail_unlink_at
            .store(before + 1, Ordering::SeqCst);
        ground.run(change).unwrap_err();
        let sys = Faulty::new();
        let other = campaign(ground.root.path(), "other", &ground.clock, sys.clone());
        other.group_release(&far, "nobody's").unwrap();
        assert_eq!(sys.renames.load(Ordering::SeqCst), 3, "{change:?}");
        assert!(wholly_new(change, &ground.old, &ground.records()));
    }
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
