//! What an operator does in the place of holders that are gone.

mod common;

use std::sync::{Arc, Mutex};

use common::{campaign, files, with_session, Clock};
use symlease::campaign::work::Claimed;
use symlease::campaign::{Answer, Campaign, ClaimOptions, Held};
use symlease::record::id::sha256_hex;
use symlease::sys::Linux;

const NOW: f64 = 1_786_060_800.25;

struct Ground {
    root: tempfile::TempDir,
    clock: Clock,
}

impl Ground {
    fn new() -> Ground {
        Ground {
            root: tempfile::tempdir().unwrap(),
            clock: Arc::new(Mutex::new(NOW)),
        }
    }

    /// A handle without a session: its TTL of 10 s decides.
    fn plain(&self, owner: &str) -> Campaign {
        campaign(self.root.path(), owner, &self.clock, Arc::new(Linux::new()))
    }

    fn own(&self, owner: &str) -> Campaign {
        with_session(self.root.path(), owner, &self.clock, Arc::new(Linux::new()))
    }

    fn at(&self, seconds: f64) {
        *self.clock.lock().unwrap() = NOW + seconds;
    }
}

fn id() -> String {
    sha256_hex(b"one")
}

fn claim(campaign: &Campaign) -> Held {
    let options = ClaimOptions::default();
    match campaign.claim(&id(), Some("{\"n\":1}"), &options).unwrap() {
        Claimed::Lease(held) => held,
        refused => panic!("{refused:?}"),
    }
}

/// Nothing of the record changes but that it is free: attempts above all.
#[test]
fn an_expired_lease_is_taken_off_its_holder() {
    let ground = Ground::new();
    let (a, operator) = (ground.plain("a"), ground.plain("operator"));
    assert_eq!(operator.reclaim(&id()).unwrap(), Answer::Absent);
    let held = claim(&a);
    let before = files(ground.root.path());
    ground.at(9.9);
    assert_eq!(operator.reclaim(&id()).unwrap(), Answer::Held);
    assert_eq!(files(ground.root.path()), before);
    ground.at(10.0);
    assert_eq!(operator.reclaim(&id()).unwrap(), Answer::Ok);
    assert_eq!(a.heartbeat(&id(), &held.token).unwrap().0, Answer::Stale);
    let before = files(ground.root.path());
    assert_eq!(operator.reclaim(&id()).unwrap(), Answer::Stale);
    assert_eq!(files(ground.root.path()), before, "nobody holds it");
    let next = claim(&ground.plain("b"));
    assert_eq!(next.attempts, 2, "the operator's is no attempt");
    assert!(next.fence > held.fence);
}

/// A session that lives says so whatever the TTL; a dead one is enough.
#[test]
fn sessions_decide_first() {
    let ground = Ground::new();
    let (a, operator) = (ground.own("a"), ground.plain("operator"));
    claim(&a);
    ground.at(1000.0);
    assert_eq!(operator.reclaim(&id()).unwrap(), Answer::Held);
    ground.at(0.0);
    drop(a);
    std::thread::sleep(std::time::Duration::from_millis(20)); // D5: looked at anew
    assert_eq!(operator.reclaim(&id()).unwrap(), Answer::Ok);
}

#[test]
fn commits_are_no_leases() {
    let ground = Ground::new();
    let (a, operator) = (ground.plain("a"), ground.plain("operator"));
    let held = claim(&a);
    assert_eq!(operator.end_commit(&id()).unwrap(), Answer::Stale);
    a.begin_commit(&id(), &held.token, "{\"mine\":1}").unwrap();
    ground.at(5.0);
    assert_eq!(operator.end_commit(&id()).unwrap(), Answer::Held);
    ground.at(11.0);
    assert_eq!(operator.reclaim(&id()).unwrap(), Answer::Committing);
    assert_eq!(operator.end_commit(&id()).unwrap(), Answer::Ok);
    assert_eq!(operator.end_commit(&id()).unwrap(), Answer::Done);
    assert_eq!(operator.reclaim(&id()).unwrap(), Answer::Done);
    let ended = a.complete(&id(), &held.token).unwrap();
    assert_eq!(ended, Answer::Already, "its holder does not count it");
}

#[test]
fn ids_are_checked() {
    let ground = Ground::new();
    let operator = ground.plain("operator");
    assert!(operator.reclaim("x").unwrap_err().text.contains("id"));
    assert!(operator.end_commit("x").unwrap_err().text.contains("id"));
}
