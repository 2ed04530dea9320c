//! Counters beside the sessions, for those who watch: when they are published,
//! by whom, and that they go with their session.

mod common;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use common::{campaign, fast_root, with_session, Faulty};
use symlease::campaign::{Campaign, ClaimOptions};
use symlease::engine::Table;
use symlease::record::id::sha256_hex;

const SECOND: u64 = 1_000_000_000;

struct Ground {
    root: tempfile::TempDir,
    sys: Arc<Faulty>,
}

impl Ground {
    fn new() -> Ground {
        let (root, sys) = (fast_root(), Faulty::new());
        sys.frozen.store(true, Ordering::SeqCst);
        sys.ahead.store(100 * SECOND, Ordering::SeqCst);
        Ground { root, sys }
    }

    fn own(&self, owner: &str) -> Campaign {
        let clock = Arc::new(Mutex::new(1000.0));
        with_session(self.root.path(), owner, &clock, self.sys.clone())
    }

    /// What lies in a root's folder of sessions under such an ending.
    fn ending(&self, root: &str, ending: &str) -> Vec<String> {
        let place = self.root.path().join(root).join(".sessions");
        let names = std::fs::read_dir(place).into_iter().flatten();
        let mut names: Vec<String> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(ending))
            .collect();
        names.sort();
        names
    }

    fn stats(&self) -> Vec<String> {
        self.ending(".work_lease_table", ".stats")
    }
}

fn claim(campaign: &Campaign, number: u32) {
    let id = sha256_hex(&number.to_be_bytes());
    let options = ClaimOptions::default();
    campaign.claim(&id, None, &options).unwrap();
}

fn locks(campaign: &Campaign) -> u64 {
    let sessions = campaign.sessions().unwrap();
    let counters = sessions[0].counters.as_ref();
    counters.map_or(0, |counters| counters.value("locks"))
}

/// With the heartbeats, but rarely; and when the handle is closed.
#[test]
fn counters_are_published_now_and_then_and_at_the_close() {
    let ground = Ground::new();
    let (a, b) = (ground.own("a"), ground.own("b"));
    a.publish_counters().unwrap();
    assert_eq!(ground.stats().len(), 0, "no change yet, so no session");
    ground.sys.ahead.fetch_add(4 * SECOND, Ordering::SeqCst);
    claim(&a, 1);
    a.publish_counters().unwrap();
    assert_eq!(locks(&b), 1);
    claim(&a, 2);
    a.publish_counters().unwrap();
    assert_eq!(locks(&b), 1, "no sooner than every few seconds");
    ground.sys.ahead.fetch_add(4 * SECOND, Ordering::SeqCst);
    a.publish_counters().unwrap();
    assert_eq!(locks(&b), 2);
    claim(&a, 3);
    let name = a.sessions().unwrap()[0].name.clone();
    drop(a);
    assert_eq!(locks(&b), 3, "the last word");
    let session = &b.sessions().unwrap()[0];
    assert_eq!((session.table, session.owner.as_str()), (Table::Work, "a"));
    assert_eq!(ground.stats(), [format!("{name}.stats")]);
}

/// A handle that has sessions in two roots says in both that it is one.
#[test]
fn a_handle_is_one_in_all_of_its_roots() {
    let ground = Ground::new();
    let a = ground.own("a");
    claim(&a, 1);
    let members = symlease::campaign::group::Members::new(&[7]).unwrap();
    a.group_claim(&members, None, &ClaimOptions::default())
        .unwrap();
    a.publish_counters().unwrap();
    let sessions = a.sessions().unwrap();
    let handles: Vec<&str> = sessions
        .iter()
        .map(|session| session.counters.as_ref().unwrap().handle.as_str())
        .collect();
    assert_eq!(handles.len(), 2);
    assert_eq!(handles[0], handles[1]);
}

/// Who has no session publishes nothing: a target, a reader, a fork's child (D3).
#[test]
fn without_a_session_nothing_is_published() {
    let ground = Ground::new();
    let clock = Arc::new(Mutex::new(1000.0));
    let plain = campaign(ground.root.path(), "plain", &clock, ground.sys.clone());
    claim(&plain, 1);
    drop(plain);
    let parent = ground.own("parent");
    claim(&parent, 2);
    ground.sys.pid.store(4711, Ordering::SeqCst);
    parent.publish_counters().unwrap();
    drop(parent);
    assert_eq!(ground.stats(), [""; 0]);
}

/// They go when their session goes, and not before.
#[test]
fn a_sweep_takes_counters_whose_session_is_gone() {
    let ground = Ground::new();
    let (a, b) = (ground.own("a"), ground.own("b"));
    claim(&a, 1);
    claim(&b, 2);
    a.publish_counters().unwrap();
    b.publish_counters().unwrap();
    b.engine().sweep().unwrap();
    assert_eq!(ground.stats().len(), 2);
    drop(a);
    ground.sys.ahead.fetch_add(SECOND, Ordering::SeqCst);
    b.engine().sweep().unwrap();
    assert_eq!(ground.stats().len(), 2, "a record names the dead session");
    claim(&b, 1);
    // What its writer left before it was named.
    let sessions = ground.root.path().join(".work_lease_table/.sessions");
    let left = format!("{}.tmp", ground.stats()[0]);
    let gone = ground.ending(".work_lease_table", "");
    std::fs::write(sessions.join("h.b.1.2.ff.stats.tmp"), b"").unwrap();
    std::fs::write(sessions.join(&left), b"").unwrap();
    b.engine().sweep().unwrap();
    let names = ground.ending(".work_lease_table", "");
    assert_eq!(ground.stats().len(), 1, "{names:?} of {gone:?}");
    let own = b.sessions().unwrap()[0].name.clone();
    assert!(names.iter().all(|name| name.starts_with(&own)), "{names:?}");
}

/// H4: what a kill left before the counters had their name goes with the next
/// sweep, although a record still names the session; a living writer's stays.
#[test]
fn a_sweep_takes_the_temporaries_of_the_dead() {
    let ground = Ground::new();
    let (a, b) = (ground.own("a"), ground.own("b"));
    claim(&a, 1);
    claim(&b, 2);
    a.publish_counters().unwrap();
    b.publish_counters().unwrap();
    let sessions = ground.root.path().join(".work_lease_table/.sessions");
    for name in ground.stats() {
        std::fs::write(sessions.join(format!("{name}.tmp")), b"{").unwrap();
    }
    let all = ground.ending(".work_lease_table", "");
    b.engine().sweep().unwrap();
    assert_eq!(ground.ending(".work_lease_table", ""), all, "both live");
    let dead = a.sessions().unwrap();
    let dead = dead.iter().find(|session| session.owner == "a").unwrap();
    let left = format!("{}.stats.tmp", dead.name);
    drop(a);
    assert!(sessions.join(&left).exists(), "a close leaves it alone");
    b.engine().sweep().unwrap();
    let mut expected = all;
    expected.retain(|name| *name != left);
    assert_eq!(ground.ending(".work_lease_table", ""), expected);
    // In a copy of the directory no lock proves a death.
    let session = sessions.join(&dead.name);
    std::fs::copy(&session, sessions.join("copy")).unwrap();
    std::fs::rename(sessions.join("copy"), &session).unwrap();
    std::fs::write(sessions.join(&left), b"{").unwrap();
    b.engine().sweep().unwrap();
    assert_eq!(ground.ending(".work_lease_table", ""), expected);
}

/// Watching costs those who work neither syncs nor locks.
#[test]
fn publishing_neither_syncs_nor_locks() {
    let ground = Ground::new();
    let a = ground.own("a");
    claim(&a, 1);
    let before = a.engine().counters();
    assert!(before.syncs > 0 && before.locks > 0);
    a.publish_counters().unwrap();
    let after = a.engine().counters();
    assert_eq!(ground.stats().len(), 1);
    assert_eq!((after.syncs, after.locks), (before.syncs, before.locks));
}

/// A failure at any call leaves the old counters or the new, and no temporary.
#[test]
fn a_failure_leaves_nothing_behind() {
    let ground = Ground::new();
    let a = ground.own("a");
    claim(&a, 1);
    a.publish_counters().unwrap();
    let before = ground.stats();
    let mut failures = 0;
    for call in 1.. {
        assert!(call < 50, "publishing ends");
        ground.sys.ahead.fetch_add(4 * SECOND, Ordering::SeqCst);
        ground.sys.arm(call, libc::EIO);
        let done = a.publish_counters();
        ground.sys.arm(0, 0);
        assert_eq!(ground.stats(), before);
        assert_eq!(ground.ending(".work_lease_table", ".tmp"), [""; 0]);
        assert!(a.sessions().unwrap()[0].counters.is_some());
        if done.is_ok() {
            break;
        }
        failures += 1;
    }
    assert!(failures >= 3, "open, write, rename: {failures}");
}

/// What a peer or a bad disk left there is no counters, and stops nobody.
#[test]
fn damaged_counters_are_none() {
    let ground = Ground::new();
    let a = ground.own("a");
    claim(&a, 1);
    a.publish_counters().unwrap();
    let path = ground.root.path().join(".work_lease_table/.sessions");
    let path: &Path = &path.join(&ground.stats()[0]);
    for bytes in [&b""[..], b"{", b"{\"handle\":1}", &[0xff; 5000]] {
        std::fs::write(path, bytes).unwrap();
        assert_eq!(a.sessions().unwrap()[0].counters, None);
    }
}
