//! Merges over coverage shards, and those that died half way.

use std::path::Path;
use std::sync::Arc;

use symlease::engine::files::{Coverage, Files, Named};
use symlease::engine::{Change, Engine};
use symlease::error::Kind;
use symlease::record::id::sha256_hex;
use symlease::record::shard::Shard;
use symlease::record::transaction::Transaction;
use symlease::sys::Linux;

use crate::common::files;
use crate::engine;

fn authority(root: &Path) -> Files {
    let coverage = Coverage {
        root: root
            .join(".coverage_owner")
            .into_os_string()
            .into_encoded_bytes(),
        named: Named {
            shards: Some(4),
            ..Named::default()
        },
        shards: 64,
        read_only: false,
        coordinator: "test".to_string(),
        lock_timeout: 10_000_000_000,
    };
    engine(root, 1000)
        .with_coverage(Arc::new(Linux::new()), coverage)
        .unwrap()
}

fn shard(number: u32, epoch: u32, entries: &str) -> Vec<u8> {
    format!(
        "{{\"contributors\":{{\"test\":1}},\"entries\":[{entries}],\"epoch\":{epoch},\
         \"schema\":1,\"shard\":{number}}}\n"
    )
    .into_bytes()
}

fn entries(root: &Path, number: u32) -> serde_json::Value {
    let file = format!(".coverage_owner/state/{number:04}.json");
    let bytes = std::fs::read(root.join(file)).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    value["entries"].clone()
}

fn parsed(number: u32, bytes: &[u8]) -> Shard {
    Shard::parse(number, 4, bytes).unwrap()
}

/// A merge over several shards: each shard whole, no transaction left.
#[test]
fn a_merge_leaves_no_transaction() {
    let root = tempfile::tempdir().unwrap();
    let engine = authority(root.path());
    engine
        .merge(&[1, 2], &mut |reads| {
            assert!(reads.iter().all(|read| *read == Ok(None)));
            let changes = vec![
                Change::Put(shard(1, 1, "[1,3]")),
                Change::Put(shard(2, 1, "[2,1],[6,1]")),
            ];
            Ok((changes, vec![4]))
        })
        .unwrap();
    assert_eq!(entries(root.path(), 1), serde_json::json!([[1, 3]]));
    assert_eq!(entries(root.path(), 2), serde_json::json!([[2, 1], [6, 1]]));
    assert_eq!(files(&root.path().join(".coverage_owner")).len(), 2);
    let error = engine.merge(&[4], &mut |_| unreachable!()).unwrap_err();
    assert_eq!(error.kind, Kind::Invalid);
}

/// C5: a merge that died after its transaction was durable, under the present
/// and the older name, is settled before the next change of one of its shards;
/// one that touches other shards only is left to its writer.
#[test]
fn a_pending_merge_is_settled_first() {
    for old_name in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let engine = authority(root.path());
        let first = Change::Put(shard(1, 1, "[1,1]"));
        engine
            .merge(&[1], &mut |_| Ok((vec![first.clone()], vec![1])))
            .unwrap();
        let pending = Transaction {
            shard_count: 4,
            coordinator: "dead".to_string(),
            created: 1.0,
            records: vec![
                parsed(1, &shard(1, 2, "[1,3],[5,1]")),
                parsed(2, &shard(2, 1, "[2,7]")),
            ],
            novel_by_candidate: Vec::new(),
        };
        let top = root.path().join(".coverage_owner");
        let log = top.join("claim-transactions");
        std::fs::create_dir_all(&log).unwrap();
        let place = if old_name {
            top.join(".coverage-claim-transaction.json")
        } else {
            log.join(pending.file_name())
        };
        std::fs::write(&place, pending.to_bytes()).unwrap();
        let keep = |_: &[_]| Ok((vec![Change::Keep], Vec::new()));
        engine.merge(&[3], &mut { keep }).unwrap();
        assert!(place.exists());
        let mut seen = Vec::new();
        engine
            .merge(&[2], &mut |reads| {
                seen = reads[0].clone().unwrap().unwrap();
                Ok((vec![Change::Keep], Vec::new()))
            })
            .unwrap();
        assert!(!place.exists());
        assert!(String::from_utf8(seen).unwrap().contains("[2,7]"));
        assert_eq!(entries(root.path(), 1), serde_json::json!([[1, 3], [5, 1]]));
        assert_eq!(entries(root.path(), 2), serde_json::json!([[2, 7]]));
    }
}

/// C1: a damaged transaction or shard fails closed, its bytes unchanged.
#[test]
fn damaged_coverage_is_never_passed_by() {
    let root = tempfile::tempdir().unwrap();
    let engine = authority(root.path());
    let keep = |_: &[_]| Ok((vec![Change::Keep], Vec::new()));
    engine.merge(&[0], &mut { keep }).unwrap();
    let top = root.path().join(".coverage_owner");
    let log = top.join("claim-transactions");
    std::fs::create_dir_all(&log).unwrap();
    let bad = log.join(format!("{}.json", sha256_hex(b"bad")));
    std::fs::write(&bad, b"{").unwrap();
    let error = engine.merge(&[0], &mut { keep }).unwrap_err();
    assert_eq!(error.kind, Kind::Corrupt, "{error}");
    assert_eq!(std::fs::read(&bad).unwrap(), b"{");
    std::fs::remove_file(&bad).unwrap();
    // A temporary of a dead writer goes at the next sweep.
    let left = log.join(format!("{}.json.1.ff.tmp", sha256_hex(b"bad")));
    std::fs::write(&left, b"{").unwrap();
    std::fs::write(top.join("state/0000.json.1.2.ff.tmp"), b"{").unwrap();
    assert_eq!(engine.sweep().unwrap(), 2);
    assert!(files(&top).is_empty());
}
