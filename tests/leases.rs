//! Work leases and target groups on real files.

mod common;

use std::sync::{Arc, Mutex};

use common::{campaign, files, Faulty};
use symlease::campaign::group::Members;
use symlease::campaign::work::Claimed;
use symlease::campaign::{Answer, Campaign, ClaimOptions, Held};
use symlease::engine::Table;
use symlease::error::Kind;
use symlease::record::id::sha256_hex;
use symlease::sys::Linux;

const NOW: f64 = 1_786_060_800.25;

fn lease(claimed: Claimed) -> Held {
    match claimed {
        Claimed::Lease(lease) => lease,
        Claimed::Refused(answer, holder) => panic!("refused: {answer:?} {holder:?}"),
    }
}

fn refused(claimed: Claimed) -> Answer {
    match claimed {
        Claimed::Lease(lease) => panic!("claimed: {lease:?}"),
        Claimed::Refused(answer, _) => answer,
    }
}

fn claim(campaign: &Campaign, id: &str) -> Claimed {
    campaign
        .claim(id, Some("{\"n\":1.50}"), &ClaimOptions::default())
        .unwrap()
}

/// The whole state machine, with a steal in it: the stale holder changes
/// nothing (F29), the fence rises (F30).
#[test]
fn one_result_counts_once() {
    let root = tempfile::tempdir().unwrap();
    let clock = Arc::new(Mutex::new(NOW));
    let a = campaign(root.path(), "a", &clock, Arc::new(Linux::new()));
    let b = campaign(root.path(), "b", &clock, Arc::new(Linux::new()));
    let id = sha256_hex(b"one");
    let first = lease(claim(&a, &id));
    assert_eq!((first.attempts, first.steals), (1, 0));
    assert_eq!(refused(claim(&b, &id)), Answer::Held);
    *clock.lock().unwrap() = NOW + 9.0;
    assert_eq!(a.heartbeat(&id, &first.token).unwrap().0, Answer::Ok);
    *clock.lock().unwrap() = NOW + 18.9;
    assert_eq!(refused(claim(&b, &id)), Answer::Held);
    *clock.lock().unwrap() = NOW + 19.0;
    let second = lease(claim(&b, &id));
    assert_eq!((second.attempts, second.steals), (2, 1));
    assert!(second.fence > first.fence);
    let before = files(root.path());
    assert_eq!(a.heartbeat(&id, &first.token).unwrap().0, Answer::Stale);
    assert_eq!(
        a.begin_commit(&id, &first.token, "{}").unwrap(),
        Answer::Stale
    );
    assert_eq!(a.complete(&id, &first.token).unwrap(), Answer::Stale);
    assert_eq!(a.abandon(&id, &first.token).unwrap(), Answer::Stale);
    assert_eq!(before, files(root.path()), "a stale token changes nothing");
    assert_eq!(
        b.begin_commit(&id, &second.token, "{\"r\":[1]}").unwrap(),
        Answer::Ok
    );
    assert_eq!(
        b.begin_commit(&id, &second.token, "{\"r\": [1]}").unwrap(),
        Answer::Ok
    );
    assert_eq!(
        b.begin_commit(&id, &second.token, "{\"r\":[2]}").unwrap(),
        Answer::Conflict
    );
    assert_eq!(b.abandon(&id, &second.token).unwrap(), Answer::Committing);
    *clock.lock().unwrap() = NOW + 1e6;
    let takeover = ClaimOptions {
        takeover: true,
        ..ClaimOptions::default()
    };
    assert_eq!(
        refused(a.claim(&id, None, &takeover).unwrap()),
        Answer::Committing
    );
    assert_eq!(b.verify(&id, &second.token).unwrap().0, Answer::Committing);
    assert_eq!(b.complete(&id, &second.token).unwrap(), Answer::Ok);
    assert_eq!(b.complete(&id, &second.token).unwrap(), Answer::Already);
    assert_eq!(b.heartbeat(&id, &second.token).unwrap().0, Answer::Already);
    assert_eq!(refused(claim(&a, &id)), Answer::Done);
    let record = a.record(Table::Work, &id).unwrap().unwrap();
    assert!(
        record.contains("\"payload\":{\"n\":1.50}"),
        "kept to the digit (F21): {record}"
    );
    assert_eq!(a.counts(Table::Work).unwrap().done, 1);
}

/// An abandoned lease is free at once, listed last, and its old token is stale.
#[test]
fn abandoned_work_is_free_and_listed_last() {
    let root = tempfile::tempdir().unwrap();
    let clock = Arc::new(Mutex::new(NOW));
    let a = campaign(root.path(), "a", &clock, Arc::new(Linux::new()));
    let ids: Vec<String> = (0..4u8).map(|n| sha256_hex(&[n])).collect();
    let held: Vec<Held> = ids
        .iter()
        .enumerate()
        .map(|(n, id)| {
            *clock.lock().unwrap() = NOW + n as f64;
            lease(claim(&a, id))
        })
        .collect();
    assert_eq!(a.abandon(&ids[0], &held[0].token).unwrap(), Answer::Ok);
    assert_eq!(a.abandon(&ids[0], &held[0].token).unwrap(), Answer::Stale);
    let expired: Vec<String> = a
        .expired(Some(1.0))
        .unwrap()
        .iter()
        .map(|lease| lease.id().to_string())
        .collect();
    assert_eq!(expired, [ids[1].clone(), ids[2].clone(), ids[0].clone()]);
    let again = lease(claim(&a, &ids[0]));
    assert!(again.fence > held[0].fence && again.attempts == 2 && again.steals == 0);
}

/// The TTL written in the record decides, not the reader's (F31).
#[test]
fn the_records_ttl_decides() {
    let root = tempfile::tempdir().unwrap();
    let clock = Arc::new(Mutex::new(NOW));
    let a = campaign(root.path(), "a", &clock, Arc::new(Linux::new()));
    let id = sha256_hex(b"ttl");
    let long = ClaimOptions {
        new_ttl: Some(100.0),
        ..ClaimOptions::default()
    };
    lease(a.claim(&id, None, &long).unwrap());
    *clock.lock().unwrap() = NOW + 50.0;
    assert_eq!(refused(claim(&a, &id)), Answer::Held);
    let judged = ClaimOptions {
        ttl: Some(20.0),
        ..ClaimOptions::default()
    };
    lease(a.claim(&id, None, &judged).unwrap());
}

/// F20, F32: bad input is refused by name, before anything is made.
#[test]
fn bad_input_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let clock = Arc::new(Mutex::new(NOW));
    let a = campaign(root.path(), "a", &clock, Arc::new(Linux::new()));
    let id = sha256_hex(b"x");
    let default = ClaimOptions::default();
    for (id, payload) in [
        ("x", "{}"),
        (&*id.to_uppercase(), "{}"),
        (&id, "[]"),
        (&id, "{"),
    ] {
        assert_eq!(
            a.claim(id, Some(payload), &default).unwrap_err().kind,
            Kind::Invalid
        );
    }
    for bad in [f64::NAN, f64::INFINITY, -1.0] {
        let options = ClaimOptions {
            now: Some(bad),
            ..ClaimOptions::default()
        };
        assert!(a
            .claim(&id, None, &options)
            .unwrap_err()
            .text
            .contains("options.now"));
        let options = ClaimOptions {
            new_ttl: Some(bad),
            ..ClaimOptions::default()
        };
        assert!(a
            .claim(&id, None, &options)
            .unwrap_err()
            .text
            .contains("options.new_ttl"));
    }
    assert_eq!(Members::new(&[]).unwrap_err().kind, Kind::Invalid);
    assert_eq!(Members::new(&[0]).unwrap_err().kind, Kind::Invalid);
    assert_eq!(
        Members::new(&(1..=65).collect::<Vec<_>>())
            .unwrap_err()
            .kind,
        Kind::Limit
    );
    assert_eq!(Members::new(&[5, 5, 0]).unwrap().unique, [5]);
    assert_eq!(a.counts(Table::Work).unwrap(), Default::default());
    assert_eq!(files(root.path()), [], "M4: looking makes nothing");
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}

/// H1; all or nothing; overlapping groups meet at the same record.
#[test]
fn groups_are_whole() {
    let root = tempfile::tempdir().unwrap();
    let clock = Arc::new(Mutex::new(NOW));
    let a = campaign(root.path(), "a", &clock, Arc::new(Linux::new()));
    let b = campaign(root.path(), "b", &clock, Arc::new(Linux::new()));
    let targets: Vec<u64> = (1..=64).collect();
    let mine = Members::new(&targets).unwrap();
    let held = lease(
        a.group_claim(&mine, None, &ClaimOptions::default())
            .unwrap(),
    );
    let overlapping = Members::new(&[u64::MAX, 64]).unwrap();
    match b
        .group_claim(&overlapping, None, &ClaimOptions::default())
        .unwrap()
    {
        Claimed::Refused(Answer::Held, holder) => {
            assert_eq!((holder.target, &*holder.owner), (64, "a"))
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        b.record(Table::Target, &symlease::record::id::target_id(u64::MAX))
            .unwrap(),
        None
    );
    *clock.lock().unwrap() = NOW + 5.0;
    assert_eq!(a.group_heartbeat(&mine, &held.token).unwrap().0, Answer::Ok);
    let stamp = format!("\"updated\":{}", NOW + 5.0);
    let records = files(root.path());
    assert_eq!(records.len(), 64);
    assert!(records
        .iter()
        .all(|(_, bytes)| String::from_utf8_lossy(bytes).contains(&stamp)));
    assert_eq!(b.group_release(&mine, "another").unwrap(), Answer::Stale);
    assert_eq!(a.group_verify(&mine, &held.token).unwrap().0, Answer::Ok);
    assert_eq!(a.group_release(&mine, &held.token).unwrap(), Answer::Ok);
    assert_eq!(files(root.path()), []);
    lease(
        b.group_claim(&overlapping, None, &ClaimOptions::default())
            .unwrap(),
    );
}

/// H2, H4, F16, F17, F33: every call of a group heartbeat fails in turn. The
/// group is wholly old afterwards, or wholly new where only its durability is
/// unknown; nothing private is left; the next call works.
#[test]
fn an_error_at_any_call_leaves_the_group_whole() {
    let root = tempfile::tempdir().unwrap();
    let clock = Arc::new(Mutex::new(NOW));
    let sys = Faulty::new();
    let a = campaign(root.path(), "a", &clock, sys.clone());
    let members = Members::new(&[1, 2, 3, 4, 5]).unwrap();
    let held = lease(
        a.group_claim(&members, None, &ClaimOptions::default())
            .unwrap(),
    );
    sys.arm(0, 0);
    assert_eq!(
        a.group_heartbeat(&members, &held.token).unwrap().0,
        Answer::Ok
    );
    let calls = sys.calls.load(std::sync::atomic::Ordering::SeqCst);
    assert!(calls > 40, "only {calls} calls were counted");
    let mut now = NOW;
    let updated = || -> Vec<String> {
        let split = |bytes: &Vec<u8>| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            text.split("\"updated\":")
                .nth(1)
                .unwrap()
                .split(',')
                .next()
                .unwrap()
                .to_string()
        };
        // The intent of a group whose durability is unknown stays for the next call.
        let records = files(root.path()).into_iter();
        let records =
            records.filter(|(path, _)| !path.contains("/.intents/") || path.ends_with(".tmp"));
        records.map(|(_, bytes)| split(&bytes)).collect()
    };
    for errno in [libc::EIO, libc::ENOSPC, libc::EDQUOT] {
        for at in 1..=calls {
            let before = updated();
            now += 1.0;
            *clock.lock().unwrap() = now;
            sys.arm(at, errno);
            let error = a
                .group_heartbeat(&members, &held.token)
                .expect_err("an armed call failed");
            sys.arm(0, 0);
            let after = updated();
            assert_eq!(after.len(), 5, "H4, call {at}: {:?}", files(root.path()));
            assert!(
                after.iter().all(|one| *one == after[0]),
                "H2, call {at}: {after:?}"
            );
            let changed = after != before;
            assert_eq!(
                changed,
                error.kind == Kind::Indeterminate,
                "call {at}: {error}"
            );
            assert_eq!(
                a.group_heartbeat(&members, &held.token).unwrap().0,
                Answer::Ok
            );
        }
    }
}

/// H3 and the batch rules: one damaged record and one stale lease do not stop
/// the others; each directory is synced once.
#[test]
fn a_batch_renews_what_it_can() {
    let root = tempfile::tempdir().unwrap();
    let clock = Arc::new(Mutex::new(NOW));
    let a = campaign(root.path(), "a", &clock, Arc::new(Linux::new()));
    let ids: Vec<String> = (0..200u32).map(|n| sha256_hex(&n.to_le_bytes())).collect();
    let mut leases: Vec<(String, String)> = ids
        .iter()
        .map(|id| (id.clone(), lease(claim(&a, id)).token))
        .collect();
    let damaged = files(root.path())
        .into_iter()
        .find(|(path, _)| path.contains(&ids[7]))
        .unwrap();
    std::fs::write(&damaged.0, b"{").unwrap();
    leases[9].1 = "stale".to_string();
    leases.push((ids[11].clone(), "another".to_string()));
    leases.push(("no id".to_string(), "t".to_string()));
    *clock.lock().unwrap() = NOW + 5.0;
    let syncs = a.engine().counters().syncs;
    let answers = a.heartbeat_many(&leases).unwrap();
    let spent = a.engine().counters().syncs - syncs;
    assert_eq!(answers.len(), 202);
    for (entry, answer) in answers.iter().enumerate() {
        match (entry, answer) {
            (7, Err(error)) => assert_eq!(error.kind, Kind::Corrupt),
            (201, Err(error)) => assert_eq!(error.kind, Kind::Invalid),
            (9 | 200, Ok((answer, None))) => assert_eq!(*answer, Answer::Stale),
            (_, Ok((Answer::Ok, Some(lease)))) => assert_eq!(lease.updated, NOW + 5.0),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        std::fs::read(&damaged.0).unwrap(),
        b"{",
        "F19: bytes unchanged"
    );
    // 198 renewals, chunks of 64 over 16 folders: four chunks, at most 16 each.
    assert!((198 + 16..=198 + 64).contains(&spent), "{spent} syncs");
}
