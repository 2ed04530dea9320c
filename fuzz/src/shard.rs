//! The coverage shard (C1, C2, C3).

use symlease::record::json::{parse, Numbers};
use symlease::record::shard::{Shard, INDEX_LIMIT};

use crate::oracle::{ask, Opinion};

/// Shards of the whole map here, and in `oracle.py`.
pub const SHARDS: u32 = 4;

/// One file, read as shard 1.
pub fn check(data: &[u8]) {
    let shard = Shard::parse(1, SHARDS, data);
    match (&shard, ask(b's', data)) {
        (_, Opinion::None) | (Ok(_), Opinion::Accepted(_)) | (Err(_), Opinion::Refused) => {}
        (ours, python) => panic!("Python: {python:?}; here: {ours:?}"),
    }
    let Ok(shard) = shard else { return };
    assert_eq!(shard.shard, 1);
    limits(&shard);
    let bytes = shard.to_bytes();
    assert!(bytes.is_ascii() && bytes.ends_with(b"}\n"));
    assert_eq!(Shard::parse(1, SHARDS, &bytes).as_ref(), Ok(&shard));
    unknown_fields_stay(&shard, data);
    adding_is_or(&shard, data);
}

/// What `format.md` says of any shard.
pub fn limits(shard: &Shard) {
    assert!(shard.shard < SHARDS);
    let rising = |pair: &[(u32, u8)]| pair[0].0 < pair[1].0;
    assert!(shard.entries.windows(2).all(rising));
    for (index, bits) in &shard.entries {
        assert!(*index < INDEX_LIMIT && *bits != 0 && index % SHARDS == shard.shard);
    }
    assert!(shard.contributors.keys().all(|name| !name.is_empty()));
    assert!(shard
        .updated
        .is_none_or(|time| time.is_finite() && time >= 0.0));
}

/// Each unknown field says the same afterwards, digit by digit.
fn unknown_fields_stay(shard: &Shard, data: &[u8]) {
    let source = parse(data)
        .expect("a shard is JSON")
        .members()
        .expect("an object");
    let bytes = shard.to_bytes();
    let written = parse(&bytes).expect("JSON").members().expect("an object");
    let find = |key: &[u8]| written.iter().find(|member| member.0 == key);
    for (key, text) in &source {
        let key_text = std::str::from_utf8(key).expect("no lone surrogates in keys");
        if shard.unknown.contains_key(key_text) {
            assert_eq!(find(key).map(|member| &member.1), Some(text));
        } else {
            assert!(find(key).is_some());
        }
    }
    assert_eq!(source.len(), written.len());
    // One line of sorted keys outside of what is not ours.
    if shard.unknown.is_empty() {
        let mut text = parse(&bytes)
            .expect("JSON")
            .canonical(Numbers::Python)
            .expect("finite");
        text.push('\n');
        assert_eq!(text.as_bytes(), bytes);
    }
}

/// C4: adding gives the OR, and names each new bit once.
fn adding_is_or(shard: &Shard, data: &[u8]) {
    let edges: Vec<(u32, u8)> = data
        .chunks_exact(2)
        .take(64)
        .map(|pair| (u32::from(pair[0]) * SHARDS + 1, pair[1]))
        .collect();
    let edges = symlease::model::coverage::normalise(&edges);
    let mut after = shard.clone();
    let novel = after.add(edges.iter().copied());
    limits(&after);
    let bits = |list: &[(u32, u8)], index: u32| {
        list.iter()
            .find(|entry| entry.0 == index)
            .map_or(0, |entry| entry.1)
    };
    for (index, _) in shard.entries.iter().chain(&edges) {
        let (old, add) = (bits(&shard.entries, *index), bits(&edges, *index));
        assert_eq!(bits(&after.entries, *index), old | add);
        assert_eq!(bits(&novel, *index), add & !old);
    }
    assert_eq!(after.clone().add(edges.into_iter()), Vec::new());
}
