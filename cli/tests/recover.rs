//! `symlease recover`: what dead processes left, and nothing of the living.

mod common;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use common::{
    claim, ends, held_by_another_process, hold, id, json, stderr, symlease as command, Ground,
    Holder,
};
use serde_json::Value;
use symlease::record::id::sha256_hex;
use symlease::record::manifest::{Entry, Manifest};
use symlease::record::shard::Shard;
use symlease::record::transaction::Transaction;

const CONTENT: &[u8] = b"found";

/// A result that lies staged, and what a commit says of it.
fn manifest(root: &Path) -> String {
    std::fs::create_dir_all(root.join("staged")).unwrap();
    std::fs::write(root.join("staged/one"), CONTENT).unwrap();
    let manifest = Manifest {
        corpus: b"corpus".to_vec(),
        results: vec![Entry {
            corpus: b"corpus".to_vec(),
            name: b"one".to_vec(),
            sha256: sha256_hex(CONTENT),
            size: CONTENT.len() as u64,
            staged: root.join("staged/one").as_os_str().as_bytes().to_vec(),
            ..Entry::default()
        }],
    };
    manifest.to_text()
}

/// What a child process holds; in the test run itself it does nothing.
#[test]
fn holder() {
    let Some((what, root)) = held_by_another_process() else {
        return;
    };
    let campaign = common::campaign(&root, &what, |_| ());
    claim(&campaign, 1);
    let two = claim(&campaign, 2);
    let ours = manifest(&root);
    campaign.begin_commit(&id(2), &two.token, &ours).unwrap();
    let three = claim(&campaign, 3);
    campaign
        .begin_commit(&id(3), &three.token, "{\"mine\":1}")
        .unwrap();
    hold();
}

fn lines(ground: &Ground, arguments: &[&str], code: i32) -> Vec<(String, String)> {
    let mut all = vec!["recover", "--json"];
    all.extend(arguments);
    let report = json(&ends(&ground.run(&all), code));
    let text = |value: &Value| value.as_str().unwrap().to_string();
    let records = report["records"].as_array().unwrap().iter();
    let mut lines: Vec<(String, String)> = records
        .map(|line| (text(&line["what"]), text(&line["id"])))
        .collect();
    lines.sort();
    lines
}

fn pairs(expected: &[(&str, u32)]) -> Vec<(String, String)> {
    let all = expected.iter();
    all.map(|(what, number)| (what.to_string(), id(*number)))
        .collect()
}

/// One killed process that held work, was committing, and was committing what
/// only it knows; beside it one that lives.
#[test]
fn what_a_killed_process_left_is_finished() {
    let ground = Ground::new();
    let mut holder = Holder::start(ground.root(), "victim");
    let living = ground.open("living");
    claim(&living, 4);
    let busy = [("left alone", 2), ("left alone", 3)];
    assert_eq!(lines(&ground, &[], 0), pairs(&busy), "all live");
    holder.kill();
    let left = ground
        .work(4)
        .with_extension("json.77.0123456789abcdef.tmp");
    std::fs::write(&left, b"half").unwrap();
    let before = ground.digest();
    let plan = [("stuck", 3), ("to free", 1), ("to replay", 2)];
    assert_eq!(lines(&ground, &["--dry-run"], 1), pairs(&plan));
    assert!(ground.digest() == before, "--dry-run changes nothing");
    let done = [("freed", 1), ("replayed", 2), ("stuck", 3)];
    assert_eq!(lines(&ground, &[], 1), pairs(&done));
    assert!(!left.exists());
    assert_eq!(
        std::fs::read(ground.root().join("corpus/one")).unwrap(),
        CONTENT
    );
    assert!(!ground.root().join("staged/one").exists());
    let freed = json(&ends(&ground.run(&["show", &id(1), "--raw"]), 0));
    assert_eq!(
        (&freed["updated"], &freed["attempts"]),
        (&0.into(), &1.into())
    );
    assert_eq!(lines(&ground, &[], 1), pairs(&[("stuck", 3)]));
    let start = &id(3)[..12];
    let planned = lines(&ground, &["-n", "--drop", start], 0);
    assert_eq!(planned, pairs(&[("to drop", 3)]));
    assert_eq!(
        lines(&ground, &["--drop", start], 0),
        pairs(&[("dropped", 3)])
    );
    assert_eq!(
        lines(&ground, &["--drop", start], 0),
        pairs(&[("done already", 3)])
    );
    let words = ends(&ground.run(&["recover"]), 0);
    assert!(words.contains("nothing to recover"), "{words}");
    let state = json(&ends(&ground.run(&["status", "--json"]), 0));
    assert_eq!(
        (&state["work"]["done"], &state["work"]["live"]),
        (&2.into(), &1.into())
    );
}

/// --drop ends only what has begun, and whose holder is gone.
#[test]
fn the_living_are_not_dropped() {
    let ground = Ground::new();
    let living = ground.open("living");
    claim(&living, 1);
    let two = claim(&living, 2);
    living
        .begin_commit(&id(2), &two.token, "{\"mine\":1}")
        .unwrap();
    let before = std::fs::read(ground.work(2)).unwrap();
    let refused = lines(&ground, &["--drop", &id(1), "--drop", &id(2)], 1);
    let expected = [("left alone", 2), ("stuck", 1), ("stuck", 2)];
    let mut expected = pairs(&expected);
    expected.sort();
    assert_eq!(refused, expected);
    assert_eq!(std::fs::read(ground.work(2)).unwrap(), before);
    let none = ground.run(&["recover", "--drop", &"0".repeat(64)]);
    ends(&none, 1);
    let none = ground.run(&["recover", "--drop", "0000"]);
    ends(&none, 3);
    assert!(stderr(&none).contains("--drop 0000"), "{}", stderr(&none));
    ends(&ground.run(&["recover", "--ttl", "nan"]), 3);
}

/// A replay that fails says why, and changes nothing; the next one may succeed.
#[test]
fn a_failed_replay_can_be_repeated() {
    let ground = Ground::new();
    let one = ground.open("one");
    let held = claim(&one, 2);
    let ours = manifest(ground.root());
    one.begin_commit(&id(2), &held.token, &ours).unwrap();
    drop(one);
    std::fs::write(ground.root().join("corpus"), b"no folder").unwrap();
    let failed = ground.run(&["recover"]);
    let words = ends(&failed, 3);
    assert!(
        words.contains("not replayed") && words.contains("corpus"),
        "{words}"
    );
    assert!(ground.root().join("staged/one").exists());
    std::fs::remove_file(ground.root().join("corpus")).unwrap();
    assert_eq!(lines(&ground, &[], 0), pairs(&[("replayed", 2)]));
}

/// A merge over several shards that died after its log was written (C5).
#[test]
fn half_merges_are_settled() {
    let ground = Ground::new();
    drop(common::varied(&ground));
    let logged = Transaction {
        shard_count: 64,
        coordinator: "dead".to_string(),
        created: 1.0,
        records: [(5, 4), (6, 4)]
            .map(|(index, bits)| {
                let mut shard = Shard::empty(index);
                shard.epoch = 1;
                shard.add([(index, bits)].into_iter());
                shard
            })
            .to_vec(),
        novel_by_candidate: vec![2],
    };
    let log = ground.root().join(".coverage_owner/claim-transactions");
    std::fs::create_dir_all(&log).unwrap();
    let path = log.join(logged.file_name());
    std::fs::write(&path, logged.to_bytes()).unwrap();
    let report = json(&ends(&ground.run(&["recover", "--json"]), 1));
    assert_eq!(report["settled_shards"], 2, "{report}");
    assert!(!path.exists());
    let shard = json(&ends(&ground.run(&["show", "--table", "coverage", "5"]), 0));
    assert_eq!(shard["entries"], json("[[5,4]]"));
}

/// A damaged record is told and left; the others are recovered all the same.
#[test]
fn damage_stops_nothing_else() {
    let ground = Ground::new();
    let one = ground.open("one");
    claim(&one, 1);
    claim(&one, 2);
    drop(one);
    std::fs::write(ground.work(1), b"{").unwrap();
    let done = [("freed", 2), ("stuck", 1)];
    assert_eq!(lines(&ground, &[], 1), pairs(&done));
    assert_eq!(std::fs::read(ground.work(1)).unwrap(), b"{");
    let none = tempfile::tempdir().unwrap();
    let output = command().arg("recover").arg(none.path()).output().unwrap();
    ends(&output, 3);
    assert!(stderr(&output).contains("no campaign in"));
}
