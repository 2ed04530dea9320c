//! C1, C4, C5, F16, F17, F40: a merge over several shards meets an error, or its
//! process dies, at every one of its calls.

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use common::{campaign, files, Clock, Faulty};
use symlease::campaign::coverage::Candidate;
use symlease::campaign::Campaign;
use symlease::model::coverage::bits_in;
use symlease::sys::Linux;

const OLD: [(u32, u8); 3] = [(0, 1), (1, 1), (9, 4)];
const NEW: [(u32, u8); 5] = [(0, 3), (2, 1), (5, 8), (7, 1), (9, 4)];

struct Ground {
    root: tempfile::TempDir,
    clock: Clock,
    sys: Arc<Faulty>,
    merger: Campaign,
}

/// A campaign of four shards with [`OLD`] in it, and one who will merge [`NEW`].
fn ground() -> Ground {
    let root = tempfile::tempdir().unwrap();
    let clock: Clock = Arc::new(Mutex::new(1_786_060_800.25));
    let sys = Faulty::new();
    let merger = campaign(root.path(), "merger", &clock, sys.clone());
    assert_eq!(merge(&merger, &OLD).unwrap(), 3);
    Ground {
        root,
        clock,
        sys,
        merger,
    }
}

fn other(ground: &Ground) -> Campaign {
    campaign(
        ground.root.path(),
        "other",
        &ground.clock,
        Arc::new(Linux::new()),
    )
}

fn merge(campaign: &Campaign, edges: &[(u32, u8)]) -> symlease::error::Result<u64> {
    let novel = campaign.merge(&[Candidate::sparse(edges).unwrap()])?;
    Ok(novel.iter().map(|edges| bits_in(edges)).sum())
}

fn all(campaign: &Campaign) -> BTreeMap<u32, u8> {
    campaign
        .authority()
        .unwrap()
        .into_iter()
        .flat_map(|shard| shard.entries)
        .collect()
}

fn union() -> BTreeMap<u32, u8> {
    let mut map = BTreeMap::from(OLD);
    for (index, bits) in NEW {
        *map.entry(index).or_default() |= bits;
    }
    map
}

fn calls() -> u64 {
    let ground = ground();
    ground.sys.die(u64::MAX);
    assert_eq!(merge(&ground.merger, &NEW).unwrap(), 4);
    assert_eq!(all(&other(&ground)), union());
    ground.sys.calls.load(Ordering::SeqCst)
}

#[test]
fn an_error_at_any_call_loses_and_repeats_nothing() {
    let calls = calls();
    assert!(calls > 40, "only {calls} calls were counted");
    for errno in [libc::EIO, libc::ENOSPC] {
        for at in 1..=calls {
            let ground = ground();
            ground.sys.arm(at, errno);
            let first = merge(&ground.merger, &NEW);
            ground.sys.arm(0, 0);
            let again = merge(&ground.merger, &NEW).unwrap();
            // A bit is credited at most once: what the failed call published is
            // nobody's, and what it did not is the second call's.
            let credited = first.clone().unwrap_or(0) + again;
            assert!(credited <= 4, "call {at}: {credited} bits");
            assert_eq!(all(&other(&ground)), union(), "call {at}");
            assert_eq!(merge(&other(&ground), &NEW).unwrap(), 0, "call {at}");
            let left: Vec<String> = files(ground.root.path())
                .into_iter()
                .map(|(path, _)| path)
                .collect();
            let bad = |path: &String| path.ends_with(".tmp") || path.contains("claim-transactions");
            assert!(!left.iter().any(bad), "call {at}: {left:?}");
        }
    }
    println!("a merge over four shards: {calls} calls, two errors at each");
}

#[test]
fn a_death_at_any_call_is_settled_by_the_next() {
    for at in 1..=calls() {
        let ground = ground();
        ground.sys.die(at);
        let first = merge(&ground.merger, &NEW);
        // A reader sees all of the old, whatever half of the new there is.
        let seen = all(&other(&ground));
        assert!(
            OLD.iter().all(|(index, bits)| seen[index] & bits == *bits),
            "death at {at}"
        );
        let next = other(&ground);
        let credited = first.unwrap_or(0) + merge(&next, &NEW).unwrap();
        assert!(credited <= 4, "death at {at}: {credited} bits");
        assert_eq!(all(&next), union(), "death at {at}");
        next.engine().sweep().unwrap();
        let left: Vec<String> = files(ground.root.path())
            .into_iter()
            .map(|(path, _)| path)
            .collect();
        assert!(
            !left.iter().any(|path| path.ends_with(".tmp")),
            "death at {at}: {left:?}"
        );
    }
}
