//! Coverage shards, transactions and merges: vectors and properties.

use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use symlease::model::coverage::*;
use symlease::record::shard::Shard;
use symlease::record::transaction::{union, Transaction};

type Edges = Vec<(u32, u8)>;

fn vectors() -> Value {
    let here = env!("CARGO_MANIFEST_DIR");
    let places = ["../shared/spec/vectors.json", "tests/data/vectors.json"];
    let text = places
        .iter()
        .find_map(|place| std::fs::read_to_string(format!("{here}/{place}")).ok())
        .expect("vectors.json");
    serde_json::from_str::<Value>(&text).expect("JSON")["coverage_shards"].clone()
}

/// F19, C1-C3.
#[test]
fn vectors_hold() {
    let cases = vectors();
    for case in cases["valid"].as_array().unwrap() {
        let text = case.as_str().unwrap();
        let shard = Shard::parse(5, 64, text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(shard.to_bytes()).unwrap(), text);
        // All but the final newline is needed.
        for cut in 0..text.len() - 1 {
            assert!(Shard::parse(5, 64, &text.as_bytes()[..cut]).is_err());
        }
    }
    for case in cases["invalid"].as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        assert!(Shard::parse(5, 64, text.as_bytes()).is_err(), "{case}");
    }
}

/// F19: no crash, whatever stands there.
#[test]
fn damage_is_refused() {
    let good = Shard::empty(5).to_bytes();
    let with = |before: &[u8], after: &[u8]| [before, &good[..], after].concat();
    let unknown = |value: &str| {
        let text = String::from_utf8(good.clone()).unwrap();
        text.replacen('{', &format!("{{\"a\":{value},"), 1)
            .into_bytes()
    };
    let bad = [
        with(b"\xef\xbb\xbf", b""),
        with(b"", b"\0"),
        with(b"", &good),
        vec![0xff; 100],
        vec![b'['; 100_000],
        unknown(&"[".repeat(100_000)),
        unknown("1,\"a\":1"),
        unknown("{\"b\":1,\"b\":1}"),
        unknown("01"),
        unknown("[1,]"),
        b"[]".to_vec(),
    ];
    for bytes in bad {
        assert!(Shard::parse(5, 64, &bytes).is_err());
    }
    let kept = unknown("[ {\"\u{e9}\":[]}, -1.50e1, \"\\ud800\" ]");
    let kept = Shard::parse(5, 64, &kept).unwrap();
    assert_eq!(kept.unknown["a"], "[{\"\\u00e9\":[]},-1.50e1,\"\\ud800\"]");
    assert_eq!(Shard::parse(5, 64, &kept.to_bytes()), Ok(kept));
}

/// C3.
#[test]
fn heartbeats() {
    let mut beat = Heartbeat {
        count: 2,
        id: "h:1".into(),
        index: 1,
        updated: 5.0,
    };
    let bytes = heartbeat_bytes(&beat).unwrap();
    assert_eq!(parse_heartbeat(&bytes), Ok(beat.clone()));
    beat.updated = f64::NAN;
    assert!(heartbeat_bytes(&beat).is_err());
    let text = String::from_utf8(bytes).unwrap();
    for time in ["-1", "1e999", "NaN", "true"] {
        assert!(parse_heartbeat(text.replace("5.0", time).as_bytes()).is_err());
    }
}

fn edges() -> impl Strategy<Value = Edges> {
    proptest::collection::vec((0u32..300, any::<u8>()), 0..80).prop_map(|list| normalise(&list))
}

fn merged(lists: &[Edges]) -> (BTreeMap<u32, Shard>, Vec<Edges>) {
    let mut base = (0..4)
        .map(|number| (number, Shard::empty(number)))
        .collect();
    let novel = merge_candidates(&mut base, lists, 4);
    (base, novel)
}

proptest! {
    /// C4, F38, F39.
    #[test]
    fn merges_are_exact(lists in proptest::collection::vec(edges(), 1..5)) {
        let (mut base, novel) = merged(&lists);
        let backwards: Vec<Edges> = lists.iter().rev().cloned().collect();
        prop_assert_eq!(&merged(&backwards).0, &base);
        let flat = |base: &BTreeMap<u32, Shard>| -> Edges {
            normalise(&base.values().flat_map(|s| s.entries.clone()).collect::<Edges>())
        };
        prop_assert_eq!(flat(&base), normalise(&lists.concat()));
        let credited: u64 = novel.iter().map(|list| bits_in(list)).sum();
        prop_assert_eq!(credited, bits_in(&flat(&base)));
        let again = merge_candidates(&mut base, &lists, 4);
        prop_assert!(again.iter().all(Vec::is_empty));
    }

    /// C5: round trip, tampering, and no bit is ever taken away.
    #[test]
    fn transactions(a in edges(), b in edges(), old in 0u64..4, new in 0u64..4) {
        let mut records: Vec<Shard> = merged(&[a]).0.into_values().collect();
        records.iter_mut().for_each(|record| {
            record.epoch = new;
            stamp(record, "o", 0, "w", 1.5);
        });
        let made = Transaction {
            shard_count: 4, coordinator: "h:1".into(), created: 2.25,
            records, novel_by_candidate: vec![3],
        };
        let bytes = made.to_bytes();
        prop_assert_eq!(Transaction::parse(4, &bytes), Ok(made.clone()));
        let text = String::from_utf8(bytes).unwrap();
        prop_assert!(Transaction::parse(4, text.replace("2.25", "2.5").as_bytes()).is_err());
        for (base, logged) in merged(&[b]).0.values_mut().zip(&made.records) {
            base.epoch = old;
            let after = union(base, logged).unwrap_or_else(|| base.clone());
            let both = [base.entries.clone(), logged.entries.clone()].concat();
            prop_assert_eq!(&after.entries, &normalise(&both));
            prop_assert!(after.epoch >= base.epoch.max(logged.epoch));
            prop_assert_eq!(union(&after, logged), None);
        }
    }
}
