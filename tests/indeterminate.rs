//! E_INDETERMINATE where it is the truth, and settled by the same call again:
//! that call publishes the change once more, and answers as the first would
//! have. Later ones answer as anybody's.

mod common;
#[path = "indeterminate/ground.rs"]
mod ground;

use std::sync::atomic::Ordering;

use common::{campaign, files, Faulty};
use ground::{bytes, lease, merged, plain, Act, Ground, ACTS, MANY};
use symlease::campaign::group::Members;
use symlease::campaign::work::Claimed;
use symlease::campaign::{Answer, ClaimOptions};
use symlease::engine::Table;
use symlease::error::Kind;
use symlease::record::id::{sha256_hex, shard_of};

/// A sync that fails after the rename, at every call where that can be: the
/// same call again answers, later ones as anybody's.
#[test]
fn the_same_call_again_settles_it() {
    for (act, answer, later) in ACTS {
        let mut unknown = 0;
        for at in 1.. {
            let ground = Ground::new(act);
            ground.sys.arm(at, libc::EIO);
            let error = match ground.run(act) {
                Err(error) => error,
                Ok(said) => {
                    // Past the last call, or one whose failure does not matter.
                    if ground.sys.calls.load(Ordering::SeqCst) < at {
                        assert_eq!(said, answer, "{act:?}");
                        break;
                    }
                    continue;
                }
            };
            ground.sys.arm(0, 0);
            if error.kind != Kind::Indeterminate {
                continue;
            }
            unknown += 1;
            assert!(ground.a.engine().counters().indeterminate > 0);
            let made = ground.records();
            let renames = ground.sys.renames.load(Ordering::SeqCst);
            let what = format!("{act:?}, call {at}: {error}");
            assert_eq!(ground.run(act).unwrap(), answer, "{what}");
            let again = ground.sys.renames.load(Ordering::SeqCst) - renames;
            assert!(again > 0, "{what}: it is published again, not only synced");
            let self_settling = [Act::Heartbeat, Act::HeartbeatGroup, Act::Commit];
            if !self_settling.contains(&act) {
                // A merge of which only the transaction stood is rolled forward.
                let settled = act != Act::Merge || made == ground.records();
                assert!(
                    settled || error.text.contains("claim-transactions"),
                    "{what}"
                );
            }
            assert_eq!(ground.run(act).unwrap(), later, "{what}");
            assert_eq!(ground.run(act).unwrap(), later, "{what}");
            let left = files(ground.root.path());
            let bad = |path: &str| {
                path.ends_with(".tmp")
                    || path.contains(".intents/")
                    || path.contains("transactions/")
            };
            assert!(left.iter().all(|(path, _)| !bad(path)), "{what}: {left:?}");
        }
        assert!(unknown > 0, "{act:?} was never indeterminate");
        println!("{act:?}: {unknown} calls whose failure is indeterminate");
    }
}

/// Every directory sync fails for a while: the call stays E_INDETERMINATE or
/// fails, and is still remembered when the disk is well again.
#[test]
fn a_repeat_that_fails_too_is_remembered() {
    for (act, answer, later) in ACTS {
        if act == Act::Commit {
            // It cannot stage anything while no directory can be synced.
            continue;
        }
        let ground = Ground::new(act);
        let last = last_sync(act);
        ground.sys.arm(last, libc::EIO);
        assert_eq!(
            ground.run(act).unwrap_err().kind,
            Kind::Indeterminate,
            "{act:?}"
        );
        ground.sys.arm(0, 0);
        for errno in [libc::EIO, libc::ENOSPC, libc::EIO] {
            ground
                .sys
                .directory_errno
                .store(errno as u64, Ordering::SeqCst);
            ground.run(act).unwrap_err();
            // Nor does a call that does not get its lock forget.
            ground.sys.arm(1, libc::EIO);
            ground.run(act).unwrap_err();
            ground.sys.arm(0, 0);
        }
        ground.sys.directory_errno.store(0, Ordering::SeqCst);
        assert_eq!(ground.run(act).unwrap(), answer, "{act:?}");
        assert_eq!(ground.run(act).unwrap(), later, "{act:?}");
    }
}

/// The last call whose failure is E_INDETERMINATE.
fn last_sync(act: Act) -> u64 {
    let mut last = 0;
    for at in 1.. {
        let ground = Ground::new(act);
        ground.sys.arm(at, libc::EIO);
        match ground.run(act) {
            Err(error) if error.kind == Kind::Indeterminate => last = at,
            Ok(_) if ground.sys.calls.load(Ordering::SeqCst) < at => return last,
            _ => {}
        }
    }
    unreachable!()
}

/// Makes `act` once, E_INDETERMINATE.
fn unknown(act: Act) -> Ground {
    let ground = Ground::new(act);
    ground.sys.arm(last_sync(act), libc::EIO);
    assert_eq!(ground.run(act).unwrap_err().kind, Kind::Indeterminate);
    ground.sys.arm(0, 0);
    ground
}

/// Another process came in between: the repeat answers as anybody's.
#[test]
fn a_change_by_another_in_between_is_respected() {
    let ground = unknown(Act::Claim);
    *ground.clock.lock().unwrap() += 100.0;
    lease(plain(&ground.other(), &ground.id).unwrap());
    assert_eq!(ground.run(Act::Claim).unwrap(), "Held");

    let ground = unknown(Act::Abandon);
    lease(plain(&ground.other(), &ground.id).unwrap());
    let before = ground.records();
    assert_eq!(ground.run(Act::Abandon).unwrap(), "Stale");
    assert_eq!(ground.records(), before);

    let ground = unknown(Act::Release);
    lease(
        ground
            .other()
            .group_claim(&Members::new(&[8]).unwrap(), None, &ClaimOptions::default())
            .unwrap(),
    );
    assert_eq!(ground.run(Act::Release).unwrap(), "Stale");
    assert_eq!(ground.other().counts(Table::Target).unwrap().leased, 1);
}

/// Another call, of another kind or with other arguments, takes nothing.
#[test]
fn only_the_same_call_takes_it() {
    let ground = unknown(Act::Claim);
    let options = [
        ClaimOptions {
            worker: Some(5),
            ..ClaimOptions::default()
        },
        ClaimOptions {
            new_ttl: Some(3.0),
            ..ClaimOptions::default()
        },
        ClaimOptions {
            owner: Some("else".to_string()),
            ..ClaimOptions::default()
        },
    ];
    for options in &options {
        let claimed = ground.a.claim(&ground.id, None, options).unwrap();
        assert!(matches!(claimed, Claimed::Refused(Answer::Held, _)));
    }
    let claimed = ground
        .a
        .claim(&ground.id, Some("{}"), &ClaimOptions::default());
    assert!(matches!(claimed, Ok(Claimed::Refused(Answer::Held, _))));
    assert_eq!(ground.run(Act::Claim).unwrap(), "lease 1");

    // Nor does a forked child: its parent will ask.
    let ground = unknown(Act::MergeOne);
    ground.sys.pid.store(1, Ordering::SeqCst);
    assert_eq!(ground.run(Act::MergeOne).unwrap(), "[0, 0]");
    ground.sys.pid.store(0, Ordering::SeqCst);
    assert_eq!(ground.run(Act::MergeOne).unwrap(), "[2, 0]");
    // Another handle is anybody.
    let ground = unknown(Act::Complete);
    let other = ground.other();
    assert_eq!(
        other.complete(&ground.id, &ground.token).unwrap(),
        Answer::Already
    );
    assert_eq!(ground.run(Act::Complete).unwrap(), "Ok");
}

/// C4: a bit is credited once. Merges by others in between neither take the
/// credit nor end it.
#[test]
fn credit_survives_other_merges() {
    let ground = unknown(Act::Merge);
    let other = ground.other();
    assert_eq!(merged(&other, &[&[(4, 7), (5, 3)]]).unwrap(), [2]);
    assert_eq!(merged(&other, &[&MANY]).unwrap(), [0]);
    assert_eq!(ground.run(Act::Merge).unwrap(), "[5, 2]");
    assert_eq!(ground.run(Act::Merge).unwrap(), "[0, 0]");
    // A merge that dies in its transaction credits nobody but who asks again.
    let mut logged = 0;
    for at in 1.. {
        let ground = Ground::new(Act::Merge);
        ground.sys.arm(at, libc::EIO);
        let first = ground.run(Act::Merge);
        let calls = ground.sys.calls.load(Ordering::SeqCst);
        ground.sys.arm(0, 0);
        let Err(error) = first else {
            if calls < at {
                break;
            }
            continue;
        };
        let other = merged(&ground.other(), &[&MANY, &[(7, 1), (9, 2)]]).unwrap();
        let again = ground.run(Act::Merge).unwrap();
        match (error.kind, &other[..]) {
            (Kind::Indeterminate, [0, 0]) => {
                assert_eq!(again, "[5, 2]", "call {at}");
                logged += 1;
            }
            // A clean failure: the bits are the other's.
            (Kind::Io | Kind::Unsupported, [5, 2]) => assert_eq!(again, "[0, 0]", "call {at}"),
            found => panic!("call {at}: {found:?}"),
        }
    }
    assert!(logged > 2, "{logged}");
}

/// C4: a merge that was taken back, but may come again after a power loss, is
/// E_INDETERMINATE too; its bits are whose merge is made first, once.
#[test]
fn a_merge_that_was_taken_back_is_nobodys() {
    for other_first in [true, false] {
        let ground = Ground::new(Act::Merge);
        // The transaction's rename, a shard's; then the transaction's removal,
        // after its own sync and the restored shards', is not synced.
        ground.sys.fail_rename_at.store(3, Ordering::SeqCst);
        ground.sys.fail_directory_at.store(3, Ordering::SeqCst);
        let before = ground.records();
        let error = ground.run(Act::Merge).unwrap_err();
        assert_eq!(error.kind, Kind::Unsettled, "{error}");
        assert_eq!(ground.records(), before);
        assert_eq!(ground.a.engine().counters().indeterminate, 1);
        if other_first {
            let other = merged(&ground.other(), &[&MANY, &[(7, 1), (9, 2)]]);
            assert_eq!(other.unwrap(), [5, 2]);
            assert_eq!(ground.run(Act::Merge).unwrap(), "[0, 0]");
        } else {
            assert_eq!(ground.run(Act::Merge).unwrap(), "[5, 2]");
        }
        assert_eq!(ground.run(Act::Merge).unwrap(), "[0, 0]");
    }
}

/// L5, F12: a lock file that moves under a publish; the same call again, under
/// the lock that is there now, settles it.
#[test]
fn a_moved_lock_is_settled_by_the_same_call() {
    let ground = Ground::new(Act::Replay);
    let folder = format!("{:03}", shard_of(&ground.id, 16));
    let lock = ground.root.path().join(".work_lease_table").join(folder);
    let lock = lock.join(format!("{}.json.lock", ground.id));
    let mut runs = 0;
    let mut publish = |_: &symlease::record::lease::Lease| {
        runs += 1;
        std::fs::remove_file(&lock).unwrap();
        std::fs::write(&lock, b"").unwrap();
        Ok(())
    };
    let first = ground.a.replay(&ground.id, &ground.token, &mut publish);
    assert_eq!(first.unwrap_err().kind, Kind::Indeterminate);
    let again = ground.a.replay(&ground.id, &ground.token, &mut publish);
    assert_eq!(again.unwrap(), Answer::Ok);
    let later = ground.a.replay(&ground.id, &ground.token, &mut publish);
    assert_eq!(later.unwrap(), Answer::Already);
    assert_eq!(runs, 1, "it was published by the first");
}

/// The memory is bounded; the oldest calls go first, and then answer as
/// anybody's.
#[test]
fn the_memory_is_bounded() {
    let ground = Ground::new(Act::Claim);
    let ids: Vec<String> = (0..300u64).map(|n| sha256_hex(&n.to_le_bytes())).collect();
    // Folders first: they too are synced.
    for id in &ids {
        let token = lease(plain(&ground.a, id).unwrap());
        assert_eq!(ground.a.abandon(id, &token).unwrap(), Answer::Ok);
    }
    ground
        .sys
        .directory_errno
        .store(libc::EIO as u64, Ordering::SeqCst);
    for id in &ids {
        assert_eq!(plain(&ground.a, id).unwrap_err().kind, Kind::Indeterminate);
    }
    ground.sys.directory_errno.store(0, Ordering::SeqCst);
    let kept = |id: &&String| matches!(plain(&ground.a, id), Ok(Claimed::Lease(_)));
    assert_eq!(ids[..44].iter().filter(kept).count(), 0);
    assert_eq!(ids[44..].iter().filter(kept).count(), 256);
}

/// A commit that dies at its `at`-th call.
fn dead_commit(at: u64) -> Ground {
    let ground = Ground::new(Act::Commit);
    ground.sys.die(at);
    let _ = ground.commit();
    *ground.clock.lock().unwrap() += 1000.0;
    ground
}

/// A replay sweep whose `done` is perhaps not durable counts it when the next
/// sweep has made sure of it.
#[test]
fn a_sweep_counts_what_it_ended() {
    let begun = |at: &u64| {
        let counts = dead_commit(*at).other().counts(Table::Work);
        counts.unwrap().committing == 1
    };
    let begun = (1..).find(begun).unwrap();
    let mut unknown = 0;
    for at in 1.. {
        let ground = dead_commit(begun);
        let corpus = bytes(&ground.root.path().join("corpus"));
        let sys = Faulty::new();
        let b = campaign(ground.root.path(), "b", &ground.clock, sys.clone());
        sys.arm(at, libc::EIO);
        let (count, outcome) = b.replay_commits(&corpus, 0);
        let calls = sys.calls.load(Ordering::SeqCst);
        sys.arm(0, 0);
        if calls < at {
            assert_eq!((count, outcome), (1, Ok(())));
            break;
        }
        // A record that cannot be read does not end a sweep, and is left out.
        let kind = outcome.err().map(|error| error.kind);
        unknown += usize::from(kind == Some(Kind::Indeterminate));
        let (again, outcome) = b.replay_commits(&corpus, 0);
        outcome.unwrap();
        assert_eq!(count + again, 1, "call {at}: {kind:?}");
        assert_eq!(b.replay_commits(&corpus, 0), (0, Ok(())), "call {at}");
        assert_eq!(b.counts(Table::Work).unwrap().done, 1);
    }
    assert!(unknown > 1, "{unknown}");
}
