//! The commands that only look: probe, fsck, ls, show, status.

mod common;

use std::os::unix::fs::PermissionsExt;

use common::{
    claim, ends, held_by_another_process, hold, id, json, lines, stderr, symlease, varied, Ground,
    Holder,
};

/// What a child process holds; in the test run itself it does nothing.
#[test]
fn holder() {
    let Some((what, root)) = held_by_another_process() else {
        return;
    };
    let campaign = common::campaign(&root, &what, |_| ());
    claim(&campaign, 1);
    campaign.publish_counters().unwrap();
    hold();
}

#[test]
fn probe_says_what_it_proved() {
    let ground = Ground::new();
    let words = ends(&ground.run(&["probe"]), 0);
    assert!(words.contains("exclusion across processes"), "{words}");
    let report = json(&ends(&ground.run(&["probe", "--json"]), 0));
    assert_eq!(report["usable"], true);
    assert_eq!(
        std::fs::read_dir(ground.root()).unwrap().count(),
        0,
        "gone again"
    );
    let none = symlease()
        .args(["probe", "/nowhere/at-all"])
        .output()
        .unwrap();
    ends(&none, 3);
    assert!(
        stderr(&none).contains("/nowhere/at-all: ENOENT"),
        "{}",
        stderr(&none)
    );
    ends(&ground.run(&["probe", "--timeout", "nan"]), 3);
    let wrong = symlease().args(["probe"]).output().unwrap();
    ends(&wrong, 2);
}

/// The proof is the digest: names, inodes, modes, times, contents.
#[test]
fn looking_changes_nothing() {
    let ground = Ground::new();
    let handles = varied(&ground);
    std::fs::write(ground.work(1), b"{").unwrap();
    let before = ground.digest();
    let commands: [&[&str]; 9] = [
        &["fsck"],
        &["fsck", "--json"],
        &["ls"],
        &["ls", "--table", "target", "--json"],
        &["show", &id(2)],
        &["show", "--table", "coverage", "1"],
        &["show", "t:11", "--table", "target"],
        &["status"],
        &["status", "--json"],
    ];
    for command in commands {
        let output = ground.run(command);
        assert!(
            output.status.code().unwrap() < 2,
            "{command:?}: {}",
            stderr(&output)
        );
        assert!(ground.digest() == before, "{command:?}");
    }
    drop(handles);
}

#[test]
fn a_read_only_directory_can_be_looked_at() {
    let ground = Ground::new();
    drop(varied(&ground));
    let mut rest = vec![ground.root().to_path_buf()];
    let mut all = Vec::new();
    while let Some(path) = rest.pop() {
        if path.is_dir() {
            rest.extend(
                std::fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
        all.push(path);
    }
    let modes = |bits: u32| {
        for path in &all {
            let mode = if path.is_dir() {
                0o500 | bits
            } else {
                0o400 | bits
            };
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    modes(0);
    let before = ground.digest();
    for command in [&["fsck"][..], &["status"], &["ls"]] {
        ends(&ground.run(command), 0);
    }
    assert!(ground.digest() == before);
    modes(0o200);
}

#[test]
fn ls_and_show() {
    let ground = Ground::new();
    let _handles = varied(&ground);
    let states = |arguments: &[&str]| -> Vec<String> {
        let mut states: Vec<String> = lines(&ends(&ground.run(arguments), 0))
            .iter()
            .map(|line| line["state"].as_str().unwrap().to_string())
            .collect();
        states.sort();
        states
    };
    assert_eq!(
        states(&["ls", "--json"]),
        ["abandoned", "committing", "done", "live"]
    );
    assert_eq!(
        states(&["ls", "--json", "--state", "done,live"]),
        ["done", "live"]
    );
    assert_eq!(states(&["ls", "--json", "--owner", "nobody"]), [""; 0]);
    assert_eq!(
        states(&["ls", "--json", "--table", "target"]),
        ["live", "live"]
    );
    assert_eq!(states(&["ls", "--json", "--limit", "1"]).len(), 1);
    let table = ends(&ground.run(&["ls"]), 0);
    assert_eq!(table.lines().count(), 5, "{table}");
    let words = ends(&ground.run(&["show", &id(1)[..8]]), 0);
    assert!(
        words.contains("live") && words.contains("{\"seed\":7}"),
        "{words}"
    );
    let raw = ends(&ground.run(&["show", &id(1), "--raw"]), 0);
    assert_eq!(
        raw,
        String::from_utf8(std::fs::read(ground.work(1)).unwrap()).unwrap()
    );
    let shard = json(&ends(&ground.run(&["show", "--table", "coverage", "2"]), 0));
    assert_eq!(shard["shard"], 2);
    ends(&ground.run(&["show", "--table", "coverage", "63"]), 1);
    ends(&ground.run(&["show", "--table", "coverage", "64"]), 3);
    ends(&ground.run(&["show", &"0".repeat(64)]), 1);
    ends(&ground.run(&["show", "0000000"]), 1);
    ends(&ground.run(&["show", "NOTHEX"]), 3);
    ends(&ground.run(&["show", "t:12", "--table", "target"]), 0);
    std::fs::write(ground.work(1), b"nonsense").unwrap();
    ends(&ground.run(&["show", &id(1)]), 3);
    assert!(states(&["ls", "--json"]).contains(&"damaged".to_string()));
}

/// D1 in the operator's eyes: the killed one's lease is free at once.
#[test]
fn status_sees_a_killed_holder() {
    let ground = Ground::new();
    let mut holder = Holder::start(ground.root(), "victim");
    let now = json(&ends(&ground.run(&["status", "--json"]), 0));
    assert_eq!(
        (&now["work"]["live"], &now["alive"]),
        (&1.into(), &1.into()),
        "{now}"
    );
    assert_eq!(now["lock_waits"]["living"]["handles"], 1);
    assert!(now["lock_waits"]["living"]["locks"].as_u64().unwrap() >= 1);
    assert_eq!(now["processes"][0]["owner"], "victim");
    holder.kill();
    let now = json(&ends(&ground.run(&["status", "--json"]), 0));
    assert_eq!(
        (&now["work"]["dead"], &now["alive"]),
        (&1.into(), &0.into()),
        "{now}"
    );
    assert_eq!(now["lock_waits"]["ended"]["handles"], 1);
    let words = ends(&ground.run(&["status"]), 0);
    assert!(
        words.contains("victim") && words.contains("gone"),
        "{words}"
    );
}

#[test]
fn status_sums_up() {
    let ground = Ground::new();
    let _handles = varied(&ground);
    let now = json(&ends(&ground.run(&["status", "--json"]), 0));
    assert_eq!(now["coverage"]["bits"], 4);
    assert_eq!(now["coverage"]["edges"], 3);
    assert_eq!(now["target"]["live"], 2);
    assert_eq!(now["owners"]["one"]["work"]["done"], 1);
    assert_eq!(now["coordinators"][0]["live"], true);
    std::fs::write(ground.root().join(".coverage_owner/state/0002.json"), b"[]").unwrap();
    std::fs::write(ground.work(1), b"nonsense").unwrap();
    let now = json(&ends(&ground.run(&["status", "--json"]), 0));
    assert_eq!(now["coverage"]["bits"], 2, "what is whole counts");
    assert_eq!(now["coverage"]["damaged"].as_array().unwrap().len(), 1);
    assert_eq!(now["work"]["damaged"], 1);
    let words = ends(&ground.run(&["status"]), 0);
    assert!(
        words.contains(&id(1)) && words.contains("coverage shard 2"),
        "{words}"
    );
}

/// A Python coordinator's records have none of our own fields, and may hold
/// text that a terminal would obey.
#[test]
fn peers_records() {
    let ground = Ground::new();
    let bare = format!(
        "{{\"attempts\":-1,\"id\":\"{}\",\"owner\":\"\\u001b[31mred\",\"payload\":{{}},\"schema\":1,\
         \"status\":\"committing\",\"token\":\"a\\u0000b\",\"updated\":1}}\n",
        id(1)
    );
    let path = ground.work(1);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bare).unwrap();
    let worse = format!(
        "{{\"completed\":\"x\",\"id\":\"{}\",\"owner\":7,\"payload\":{{\"n\":1e999}},\"schema\":1,\
         \"status\":\"done\",\"targets\":[-1],\"target\":1.5,\"session\":[],\"token\":\"t\",\
         \"updated\":1e300,\"worker\":\"x\"}}\n",
        id(2)
    );
    let path = ground.work(2);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, worse).unwrap();
    let commands: [&[&str]; 8] = [
        &["fsck"],
        &["fsck", "--json"],
        &["ls"],
        &["ls", "--json"],
        &["show", &id(1)],
        &["show", &id(2)],
        &["status"],
        &["status", "--json"],
    ];
    for command in commands {
        let words = ends(&ground.run(command), 0);
        assert!(!words.contains('\u{1b}'), "{command:?}: {words:?}");
    }
    let words = ends(&ground.run(&["fsck"]), 0);
    assert!(
        words.contains("without a manifest: nobody can replay it"),
        "{words}"
    );
}

#[test]
fn no_campaign_is_an_error_in_words() {
    let ground = Ground::new();
    for command in [&["fsck"][..], &["status"], &["ls"], &["show", "00"]] {
        let output = ground.run(command);
        ends(&output, 3);
        assert!(
            stderr(&output).contains("no campaign in"),
            "{}",
            stderr(&output)
        );
    }
    assert_eq!(std::fs::read_dir(ground.root()).unwrap().count(), 0);
}

#[test]
fn colours_only_on_a_terminal() {
    let ground = Ground::new();
    let _handles = varied(&ground);
    assert!(!ends(&ground.run(&["status"]), 0).contains('\u{1b}'));
    let mut forced = ground.command(&["status"]);
    let forced = forced.env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(ends(&forced, 0).contains('\u{1b}'));
}

/// Whoever reads may stop reading.
#[test]
fn a_closed_pipe_is_no_error() {
    let ground = Ground::new();
    let _handles = varied(&ground);
    let mut child = ground.command(&["ls"]);
    let mut child = child.stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
