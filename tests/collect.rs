//! What goes for good once a campaign's coordinators have stopped, and what
//! the fence floor keeps of it (F30).

mod common;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use common::{campaign, fast_root, files, with_session, Clock, Faulty};
use symlease::campaign::group::Members;
use symlease::campaign::work::Claimed;
use symlease::campaign::{Answer, Campaign, ClaimOptions, Held};
use symlease::engine::{Collected, Table};
use symlease::error::Kind;
use symlease::record::id::sha256_hex;

const NOW: f64 = 1_786_060_800.25;

struct Ground {
    root: tempfile::TempDir,
    clock: Clock,
    sys: Arc<Faulty>,
}

impl Ground {
    fn new() -> Ground {
        Ground {
            root: fast_root(),
            clock: Arc::new(Mutex::new(NOW)),
            sys: Faulty::new(),
        }
    }

    fn plain(&self, owner: &str) -> Campaign {
        campaign(self.root.path(), owner, &self.clock, self.sys.clone())
    }

    fn own(&self, owner: &str) -> Campaign {
        with_session(self.root.path(), owner, &self.clock, self.sys.clone())
    }

    fn named(&self, ending: &str) -> Vec<PathBuf> {
        let (mut found, mut rest) = (Vec::new(), vec![self.root.path().to_path_buf()]);
        while let Some(path) = rest.pop() {
            if path.is_dir() {
                rest.extend(
                    std::fs::read_dir(&path)
                        .unwrap()
                        .map(|one| one.unwrap().path()),
                );
            } else if path.to_str().unwrap().ends_with(ending) {
                found.push(path);
            }
        }
        found.sort();
        found
    }

    fn floor(&self) -> Option<String> {
        let path = self.root.path().join(".work_lease_table/fence.json");
        std::fs::read_to_string(path).ok()
    }
}

fn id(number: u32) -> String {
    sha256_hex(&number.to_be_bytes())
}

fn claim(campaign: &Campaign, number: u32) -> Held {
    let options = ClaimOptions::default();
    match campaign.claim(&id(number), None, &options).unwrap() {
        Claimed::Lease(held) => held,
        refused => panic!("{refused:?}"),
    }
}

fn finish(campaign: &Campaign, number: u32) -> u64 {
    let held = claim(campaign, number);
    let done = campaign.complete(&id(number), &held.token).unwrap();
    assert_eq!(done, Answer::Ok);
    held.fence
}

/// The clock goes back, and the fence rises all the same.
#[test]
fn a_fence_after_gc_is_higher_than_before() {
    let ground = Ground::new();
    let a = ground.plain("a");
    let fences = [finish(&a, 1), finish(&a, 2)];
    let kept = claim(&a, 3);
    drop(a);
    let operator = ground.plain("operator");
    let gone = operator.collect().unwrap();
    assert_eq!((gone.records, gone.locks), (2, 3));
    assert!(operator.record(Table::Work, &id(1)).unwrap().is_none());
    assert!(operator.record(Table::Work, &id(3)).unwrap().is_some());
    assert!(ground.named(".json.lock").is_empty());
    *ground.clock.lock().unwrap() = 1000.0;
    let highest = *fences.iter().max().unwrap();
    for (handle, number) in [(operator, 1), (ground.plain("later"), 2)] {
        let again = claim(&handle, number);
        assert!(again.fence > highest, "{}", ground.floor().unwrap());
        assert_eq!(again.attempts, 1, "done before, and forgotten");
    }
    let held = ground.plain("a").heartbeat(&id(3), &kept.token).unwrap();
    assert_eq!(held.0, Answer::Ok, "what was leased is untouched");
}

/// The floor never falls, and records that it does not cover stay.
#[test]
fn the_floor_only_rises() {
    let ground = Ground::new();
    let a = ground.plain("a");
    finish(&a, 1);
    let path = ground.root.path().join(".work_lease_table/fence.json");
    let high = "{\"floor\":9000000000000000000,\"schema\":1}\n";
    std::fs::write(&path, high).unwrap();
    ground.plain("operator").collect().unwrap();
    assert_eq!(ground.floor().unwrap(), high);
    // So high a fence would leave too few numbers to all others.
    finish(&a, 2);
    let [record] = ground.named(&format!("{}.json", id(2))).try_into().unwrap();
    let text = std::fs::read_to_string(&record).unwrap();
    let (before, rest) = text.split_once("\"fence\":").unwrap();
    let (_, after) = rest.split_once(',').unwrap();
    let text = format!("{before}\"fence\":18446744073709551000,{after}");
    std::fs::write(&record, text).unwrap();
    let gone = ground.plain("operator").collect().unwrap();
    assert_eq!(gone.records, 0);
    assert!(record.exists());
    assert_eq!(ground.floor().unwrap(), high);
}

/// Who is at work is not swept away under, whoever says that all have stopped.
#[test]
fn gc_refuses_while_somebody_works() {
    let ground = Ground::new();
    let (a, operator) = (ground.own("a"), ground.plain("operator"));
    finish(&a, 1);
    let before = files(ground.root.path());
    let refused = operator.collect().unwrap_err();
    assert_eq!(refused.kind, Kind::Invalid);
    assert!(refused.text.contains("at work"), "{refused}");
    assert_eq!(files(ground.root.path()), before);
    let held = claim(&a, 2);
    a.begin_commit(&id(2), &held.token, "{\"m\":1}").unwrap();
    drop(a);
    let refused = operator.collect().unwrap_err();
    assert_eq!(refused.kind, Kind::Invalid);
    assert!(refused.text.contains(&id(2)), "{refused}");
    assert_eq!(ground.floor(), None);
    operator.end_commit(&id(2)).unwrap();
    assert_eq!(operator.collect().unwrap().records, 2);
}

/// A lock that is held is a peer that did not stop, session or not.
#[test]
fn a_held_lock_stops_gc() {
    let ground = Ground::new();
    let a = ground.plain("a");
    finish(&a, 1);
    let [lock] = ground.named(".json.lock").try_into().unwrap();
    let file = std::fs::File::open(&lock).unwrap();
    file.lock().unwrap();
    let refused = ground.plain("operator").collect().unwrap_err();
    assert_eq!(refused.kind, Kind::Timeout);
    assert!(refused.text.contains(&id(1)), "{refused}");
    assert!(a.record(Table::Work, &id(1)).unwrap().is_some());
    file.unlock().unwrap();
    assert_eq!(ground.plain("operator").collect().unwrap().records, 1);
}

/// Sessions that no lock proves dead go too, unless a record names them.
#[test]
fn sessions_and_counters_go() {
    let ground = Ground::new();
    let (a, b) = (ground.own("a"), ground.own("b"));
    finish(&a, 1);
    claim(&b, 2);
    b.publish_counters().unwrap();
    let members = Members::new(&[5]).unwrap();
    a.group_claim(&members, None, &ClaimOptions::default())
        .unwrap();
    drop((a, b));
    // As on another host's network mount: another boot, no device of ours.
    *ground.sys.boot.lock().unwrap() = Some("another-boot".to_string());
    *ground.sys.own_device.lock().unwrap() = Some(false);
    let operator = ground.plain("operator");
    operator.engine().sweep().unwrap();
    assert_eq!(operator.sessions().unwrap().len(), 3);
    let gone = operator.collect().unwrap();
    assert_eq!(gone.sessions, 1, "two are named by leases");
    let mut left: Vec<String> = operator
        .sessions()
        .unwrap()
        .into_iter()
        .map(|session| session.owner)
        .collect();
    left.sort();
    assert_eq!(left, ["a", "b"]);
}

/// A failure at any call: nothing is removed over which the floor does not stand.
#[test]
fn a_failure_never_lets_a_fence_fall() {
    let mut failures = 0;
    for call in 1.. {
        assert!(call < 400, "gc ends");
        let ground = Ground::new();
        let a = ground.plain("a");
        let fence = finish(&a, 1).max(finish(&a, 2));
        drop(a);
        let operator = ground.plain("operator");
        ground.sys.arm(call, libc::EIO);
        let collected = operator.collect();
        let reached = ground.sys.calls.load(Ordering::SeqCst) >= call;
        ground.sys.arm(0, 0);
        *ground.clock.lock().unwrap() = 1000.0;
        let later = ground.plain("later");
        for number in [1, 2] {
            if later.record(Table::Work, &id(number)).unwrap().is_none() {
                assert!(claim(&later, number).fence > fence, "call {call}");
            }
        }
        assert!(ground.named(".tmp").is_empty(), "call {call}");
        if !reached {
            break;
        }
        failures += u32::from(collected.is_err());
    }
    assert!(failures > 20, "{failures}");
}

/// The same for a death.
#[test]
fn a_death_never_lets_a_fence_fall() {
    let mut deaths = 0;
    for call in 1.. {
        assert!(call < 400, "gc ends");
        let ground = Ground::new();
        let a = ground.plain("a");
        let fence = finish(&a, 1).max(finish(&a, 2));
        drop(a);
        let operator = ground.plain("operator");
        ground.sys.die(call);
        let collected = operator.collect();
        let reached = ground.sys.calls.load(Ordering::SeqCst) >= call;
        drop(operator);
        *ground.clock.lock().unwrap() = 1000.0;
        // Another process.
        let sys = Faulty::new();
        let later = campaign(ground.root.path(), "later", &ground.clock, sys);
        later.engine().sweep().unwrap();
        assert!(ground.named(".tmp").is_empty(), "call {call}");
        for number in [1, 2] {
            if later.record(Table::Work, &id(number)).unwrap().is_none() {
                assert!(claim(&later, number).fence > fence, "call {call}");
            }
        }
        if !reached {
            break;
        }
        deaths += u32::from(collected.is_err());
    }
    assert!(deaths > 20, "{deaths}");
}

#[test]
fn an_empty_campaign_is_left_alone() {
    let ground = Ground::new();
    let operator = ground.plain("operator");
    assert_eq!(operator.collect().unwrap(), Collected::default());
    assert_eq!(std::fs::read_dir(ground.root.path()).unwrap().count(), 0);
    assert_eq!(ground.sys.renames.load(Ordering::SeqCst), 0);
}
