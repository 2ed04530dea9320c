//! C8, P12: what is known is answered from memory, in every process that shares
//! it, and only while the authority is the same one.
#![allow(unsafe_code)]

mod common;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use common::{campaign, Clock, Faulty};
use symlease::campaign::coverage::Candidate;
use symlease::campaign::Campaign;
use symlease::error::Kind;
use symlease::model::coverage::bits_in;

const EDGES: [(u32, u8); 3] = [(0, 1), (9, 4), (70, 128)];
const SECOND: u64 = 1_000_000_000;

struct Ground {
    root: tempfile::TempDir,
    clock: Clock,
    sys: Arc<Faulty>,
}

impl Ground {
    fn new() -> Ground {
        let sys = Faulty::new();
        sys.frozen.store(true, Ordering::SeqCst);
        Ground {
            root: tempfile::tempdir().unwrap(),
            clock: Arc::new(Mutex::new(1_786_060_800.25)),
            sys,
        }
    }

    fn campaign(&self, owner: &str) -> Campaign {
        campaign(self.root.path(), owner, &self.clock, self.sys.clone())
    }

    fn later(&self, nanoseconds: u64) {
        self.sys.ahead.fetch_add(nanoseconds, Ordering::SeqCst);
    }
}

fn merge(campaign: &Campaign, edges: &[(u32, u8)]) -> u64 {
    let novel = campaign.merge(&[Candidate::sparse(edges).unwrap()]);
    novel.unwrap().iter().map(|edges| bits_in(edges)).sum()
}

fn dense(campaign: &Campaign, map: &[u8]) -> symlease::error::Result<u64> {
    if campaign.map_is_known(map)? {
        return Ok(0);
    }
    let novel = campaign.merge(&[Candidate::dense(map)?])?;
    Ok(novel.iter().map(|edges| bits_in(edges)).sum())
}

fn locks(campaign: &Campaign) -> u64 {
    campaign.engine().counters().locks
}

/// How many locks a merge of nothing new takes.
fn locks_of(campaign: &Campaign, edges: &[(u32, u8)]) -> u64 {
    let before = locks(campaign);
    assert_eq!(merge(campaign, edges), 0);
    locks(campaign) - before
}

/// A merger that knows [`EDGES`].
fn learned(ground: &Ground) -> Campaign {
    let merger = ground.campaign("merger");
    assert_eq!(merge(&merger, &EDGES), 3); // makes the authority
    assert!(locks_of(&merger, &EDGES) > 0); // read under the locks: known from now on
    merger
}

#[test]
fn nothing_new_takes_no_lock() {
    let ground = Ground::new();
    let merger = learned(&ground);
    assert_eq!(locks_of(&merger, &EDGES), 0);
    assert_eq!(locks_of(&merger, &EDGES[1..]), 0);
    assert_eq!(merge(&merger, &[(9, 4), (9, 2)]), 1);
    assert_eq!(locks_of(&merger, &[(9, 6), (0, 1)]), 0);
    // What another merges is known here once it was met.
    let other = ground.campaign("other");
    assert_eq!(merge(&other, &[(5, 1)]), 1);
    assert!(locks_of(&merger, &[(5, 1)]) > 0);
    assert_eq!(locks_of(&merger, &[(5, 1)]), 0);
}

#[test]
fn a_map_s_size_is_still_checked() {
    let ground = Ground::new();
    let merger = ground.campaign("merger");
    let mut map = vec![0u8; 128];
    map[9] = 4;
    assert_eq!(dense(&merger, &map).unwrap(), 1);
    assert!(!merger.map_is_known(&map).unwrap());
    assert_eq!(dense(&merger, &map).unwrap(), 0);
    assert!(merger.map_is_known(&map).unwrap());
    let before = locks(&merger);
    assert_eq!(dense(&merger, &map).unwrap(), 0);
    assert_eq!(locks(&merger), before);
    for size in [64, 127, 129, 256] {
        map.resize(size, 0);
        assert!(!merger.map_is_known(&map).unwrap());
        assert_eq!(dense(&merger, &map).unwrap_err().kind, Kind::Mismatch);
    }
    // The clock is judged all the same (F20).
    map.resize(128, 0);
    *ground.clock.lock().unwrap() = f64::NAN;
    assert_eq!(dense(&merger, &map).unwrap_err().kind, Kind::Invalid);
    assert_eq!(
        merger
            .merge(&[Candidate::sparse(&[(9, 4)]).unwrap()])
            .unwrap_err()
            .kind,
        Kind::Invalid
    );
}

fn clear(root: &Path) {
    for entry in std::fs::read_dir(root).unwrap().map(Result::unwrap) {
        std::fs::remove_dir_all(entry.path()).unwrap();
    }
}

#[test]
fn another_authority_is_noticed_within_a_second() {
    let ground = Ground::new();
    let merger = learned(&ground);
    clear(ground.root.path());
    let other = ground.campaign("other");
    assert_eq!(merge(&other, &[(70, 1)]), 1);
    ground.later(SECOND - 1);
    assert_eq!(locks_of(&merger, &EDGES), 0);
    ground.later(1);
    assert_eq!(merge(&merger, &EDGES), 3);
    assert!(locks_of(&merger, &EDGES) > 0);
    assert!(locks_of(&merger, &EDGES) > 0, "it learns no more");
}

/// A cleared one that nobody has made anew: nothing is known either.
#[test]
fn a_cleared_authority_is_noticed() {
    let ground = Ground::new();
    let merger = learned(&ground);
    clear(ground.root.path());
    ground.later(SECOND);
    assert_eq!(merge(&merger, &EDGES), 3);
}

fn in_child(run: impl FnOnce() -> bool) -> bool {
    let mut state = 0;
    // SAFETY: the child runs `run` and leaves by `_exit`; it is waited for.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let fine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            libc::_exit(i32::from(fine.ok() != Some(true)));
        }
        assert_eq!(libc::waitpid(child, &mut state, 0), child);
    }
    state == 0
}

/// A handle opened before a fork server: one run learns, the next one knows.
#[test]
fn children_learn_for_those_after_them() {
    let ground = Ground::new();
    assert_eq!(merge(&ground.campaign("before"), &EDGES), 3);
    let parent = ground.campaign("parent");
    assert!(in_child(|| locks_of(&parent, &EDGES) > 0));
    assert!(in_child(|| locks_of(&parent, &EDGES) == 0));
    assert_eq!(locks_of(&parent, &EDGES), 0);
}
