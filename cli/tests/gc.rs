//! `symlease gc`: what nobody needs goes, and only that.

mod common;

use std::path::PathBuf;

use common::{claim, ends, held_by_another_process, hold, id, json, stderr, Ground, Holder};

/// What a child process holds; in the test run itself it does nothing.
#[test]
fn holder() {
    let Some((what, root)) = held_by_another_process() else {
        return;
    };
    let campaign = common::campaign(&root, &what, |_| ());
    claim(&campaign, 1);
    hold();
}

fn finish(ground: &Ground, number: u32) -> u64 {
    let one = ground.with("one", |request| request.no_session = true);
    let held = claim(&one, number);
    one.complete(&id(number), &held.token).unwrap();
    held.fence
}

fn fence(ground: &Ground, number: u32) -> u64 {
    let one = ground.with("one", |request| request.no_session = true);
    claim(&one, number).fence
}

fn files(ground: &Ground, ending: &str) -> Vec<PathBuf> {
    let all = ground.digest().into_keys();
    all.filter(|path| path.to_str().unwrap().ends_with(ending))
        .collect()
}

#[test]
fn gc_beside_a_campaign_that_runs() {
    let ground = Ground::new();
    finish(&ground, 2);
    let mut holder = Holder::start(ground.root(), "victim");
    let left = ground
        .work(1)
        .with_extension("json.77.0123456789abcdef.tmp");
    std::fs::write(&left, b"half").unwrap();
    let gone = json(&ends(&ground.run(&["gc", "--json"]), 0));
    assert_eq!(
        (&gone["leftovers"], &gone["records"]),
        (&1.into(), &0.into())
    );
    let list = ends(&ground.run(&["ls", "--json"]), 0);
    assert_eq!(list.lines().count(), 2, "{list}");
    let refused = ground.run(&["gc", "--peers-stopped"]);
    ends(&refused, 3);
    assert!(stderr(&refused).contains("at work"), "{}", stderr(&refused));
    assert!(ground.work(2).exists());
    holder.kill();
    let sessions = || {
        files(&ground, "").into_iter().filter(|path| {
            let place = path.parent().and_then(|place| place.file_name());
            place.is_some_and(|place| place == ".sessions")
        })
    };
    ends(&ground.run(&["gc"]), 0);
    assert_eq!(sessions().count(), 1, "its lease names it");
    claim(&ground.with("two", |request| request.no_session = true), 1);
    let gone = json(&ends(&ground.run(&["gc", "--json"]), 0));
    assert_eq!(gone["leftovers"], 1, "its session: {gone}");
    assert_eq!(sessions().count(), 0);
}

#[test]
fn gc_after_a_campaign() {
    let ground = Ground::new();
    let before = finish(&ground, 1).max(finish(&ground, 2));
    drop(common::varied(&Ground::new()));
    let words = ends(&ground.run(&["gc", "--peers-stopped"]), 0);
    assert!(words.contains("2 done records, 2 lock files"), "{words}");
    assert!(files(&ground, ".lock").is_empty());
    let floor = ground.root().join(".work_lease_table/fence.json");
    let floor = json(&std::fs::read_to_string(floor).unwrap());
    assert!(floor["floor"].as_u64().unwrap() >= before);
    assert!(fence(&ground, 1) > before);
    let whole = ends(&ground.run(&["fsck"]), 0);
    assert!(whole.contains("fence floor 1"), "{whole}");
    let empty = Ground::new();
    ends(&empty.run(&["gc"]), 3);
}

#[test]
fn gc_leaves_commits_to_recover() {
    let ground = Ground::new();
    drop(common::varied(&ground));
    let before = ground.digest().len();
    let refused = ground.run(&["gc", "--peers-stopped"]);
    ends(&refused, 3);
    assert!(
        stderr(&refused).contains("recover it first"),
        "{}",
        stderr(&refused)
    );
    assert_eq!(ground.digest().len(), before);
    ends(&ground.run(&["recover", "--drop", &id(2)]), 0);
    let gone = json(&ends(&ground.run(&["gc", "--peers-stopped", "--json"]), 0));
    assert_eq!(gone["records"], 2, "{gone}");
}
