//! `symlease fsck`: each kind of damage, and what is none.

mod common;

use std::os::unix::fs::symlink;

use common::{ends, id, lines, varied, Ground};
use serde_json::Value;

/// One line for each, with its path and its reason.
#[test]
fn fsck_finds_every_damage() {
    let ground = Ground::new();
    let _handles = varied(&ground);
    let whole = ground.run(&["fsck"]);
    assert!(ends(&whole, 0).contains("every file is what it should be"));
    let [work, target, coverage] = [
        ".work_lease_table",
        ".target_lease_table",
        ".coverage_owner",
    ]
    .map(|table| ground.root().join(table));
    let record = std::fs::read(ground.work(3)).unwrap();
    let mut expected = Vec::new();
    let mut damage = |path: std::path::PathBuf, why: &'static str| expected.push((path, why));
    std::fs::write(ground.work(1), b"").unwrap();
    damage(ground.work(1), "byte 0");
    std::fs::write(ground.work(2), [&record[..], b"x"].concat()).unwrap();
    damage(ground.work(2), "something follows");
    std::fs::write(ground.work(3), &record[..record.len() / 2]).unwrap();
    damage(ground.work(3), "byte");
    // Under another name, in another folder, as a link, a directory, too large.
    let strange = ground.work(9);
    std::fs::create_dir_all(strange.parent().unwrap()).unwrap();
    std::fs::write(&strange, &record).unwrap();
    damage(strange, "id differs from the name");
    let lost = work.join("255").join(format!("{}.json", id(3)));
    std::fs::create_dir_all(lost.parent().unwrap()).unwrap();
    std::fs::write(&lost, &record).unwrap();
    damage(lost, "belongs into folder");
    let link = ground.work(10);
    std::fs::create_dir_all(link.parent().unwrap()).unwrap();
    symlink("/dev/null", &link).unwrap();
    damage(link, "ELOOP");
    let directory = ground.work(11);
    std::fs::create_dir_all(&directory).unwrap();
    damage(directory, "not a regular file");
    let large = ground.work(12);
    std::fs::create_dir_all(large.parent().unwrap()).unwrap();
    std::fs::File::create(&large)
        .unwrap()
        .set_len(5 << 20)
        .unwrap();
    damage(large, "larger than it may be");
    let lock = ground.work(13).with_extension("json.lock");
    std::fs::create_dir_all(&lock).unwrap();
    damage(lock, "a lock that is a directory");
    let beyond = work.join("300");
    std::fs::create_dir(&beyond).unwrap();
    damage(beyond, "beyond 256 shards");
    let intent = target.join(".intents").join(format!("{}.json", id(1)));
    std::fs::write(&intent, b"{}\n").unwrap();
    damage(intent, "");
    let floor = target.join("fence.json");
    std::fs::write(&floor, b"{\"floor\":-1,\"schema\":1}\n").unwrap();
    damage(floor, "floor or schema");
    let shard = coverage.join("state/0002.json");
    std::fs::write(&shard, b"{\"schema\":1}").unwrap();
    damage(shard, "missing");
    let beat = coverage.join("coordinators/0003.json");
    std::fs::write(&beat, b"{\"updated\":NaN}").unwrap();
    damage(beat, "");
    std::fs::create_dir_all(coverage.join("claim-transactions")).unwrap();
    let transaction = coverage
        .join("claim-transactions")
        .join(format!("{}.json", id(5)));
    std::fs::write(&transaction, b"\xff").unwrap();
    damage(transaction, "UTF-8");
    let map = coverage.join("map.json");
    std::fs::write(&map, b"{}").unwrap();
    damage(map, "a field is missing");

    let words = ends(&ground.run(&["fsck"]), 1);
    let found = lines(&ends(&ground.run(&["fsck", "--json"]), 1));
    for (path, why) in &expected {
        let path = path.to_str().unwrap();
        let one: Vec<&Value> = found.iter().filter(|line| line["path"] == path).collect();
        assert_eq!(one.len(), 1, "{path}: {one:?}");
        let reason = one[0]["damage"].as_str().unwrap();
        assert!(reason.contains(why), "{path}: {reason}");
        assert!(words.contains(path), "{path}");
    }
    let sums = found.last().unwrap();
    assert_eq!(sums["damaged"], expected.len(), "nothing else: {words}");
    let quiet = ends(&ground.run(&["fsck", "-q"]), 1);
    assert_eq!(quiet.lines().count(), expected.len() + 1, "{quiet}");
}

/// A root that cannot be opened does not hide the others.
#[test]
fn a_damaged_identity_is_damage() {
    let ground = Ground::new();
    let _handles = varied(&ground);
    std::fs::write(
        ground.root().join(".target_lease_table/symlease.json"),
        b"{",
    )
    .unwrap();
    std::fs::write(ground.work(1), b"").unwrap();
    let words = ends(&ground.run(&["fsck", "-q"]), 1);
    assert!(
        words.contains("nothing else in this root was looked at"),
        "{words}"
    );
    assert!(words.contains(&id(1)), "{words}");
    ends(&ground.run(&["status"]), 3);
}

/// What is left beside the records is told, and is no damage.
#[test]
fn fsck_lists_facts() {
    let ground = Ground::new();
    let handles = varied(&ground);
    let left = ground
        .work(1)
        .with_extension("json.77.0123456789abcdef.tmp");
    std::fs::write(&left, b"half").unwrap();
    std::fs::write(ground.root().join(".work_lease_table/notes.txt"), b"x").unwrap();
    let words = ends(&ground.run(&["fsck"]), 0);
    assert!(words.contains("temporary, not published"), "{words}");
    assert!(words.contains("notes.txt: no file of symlease"), "{words}");
    let commit = "of one, with a manifest that only its own program knows";
    assert!(words.contains(commit), "{words}");
    assert!(!words.contains("gone"), "its process lives: {words}");
    drop(handles);
    let words = ends(&ground.run(&["fsck"]), 0);
    assert!(
        words.contains("session of a process that is gone"),
        "{words}"
    );
}

/// Counters are never synced: after a power cut they may be torn, which is no
/// damage, for nothing is decided by them; the next heartbeats bring new ones.
#[test]
fn torn_counters_are_a_fact() {
    let ground = Ground::new();
    let [one] = varied(&ground);
    one.publish_counters().unwrap();
    let place = ground.root().join(".work_lease_table/.sessions");
    let name = one.sessions().unwrap()[0].name.clone();
    let path = place.join(format!("{name}.stats"));
    assert!(path.exists());
    for torn in [&b""[..], &[0; 300]] {
        std::fs::write(&path, torn).unwrap();
        let words = ends(&ground.run(&["fsck"]), 0);
        assert!(words.contains("counters that cannot be read"), "{words}");
        ends(&ground.run(&["status"]), 0);
    }
}
