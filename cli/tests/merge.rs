//! `symlease merge`: files as AFL++ writes them, and files that are none.

mod common;

use common::{ends, json, lines, stderr, symlease, varied, Ground};
use serde_json::Value;

/// What afl-showmap 4.04c wrote of one run: with -r, with -b -r, with -b; and
/// fuzz_bitmap after a few seconds of afl-fuzz on the same target.
const SHOWMAP_COUNTS: &[u8] = b"000001:1\n000003:9\n000005:1\n000006:9\n000007:1\n";
const COUNTS: [u8; 8] = [0, 1, 0, 9, 0, 1, 9, 1];
const BITS: [u8; 8] = [0, 1, 0, 16, 0, 1, 16, 1];
const VIRGIN: [u8; 8] = [0xff, 0xfe, 0xff, 0x80, 0x80, 0x80, 0x80, 0xfe];
const SIZE: usize = 64;

fn map(first: &[u8], rest: u8) -> Vec<u8> {
    let mut map = first.to_vec();
    map.resize(SIZE, rest);
    map
}

/// An authority that began with something else.
fn ground() -> Ground {
    let ground = Ground::new();
    let made = ground.run(&["merge", "--create", "/dev/null"]);
    assert!(stderr(&made).contains("/dev/null: empty"));
    assert_eq!(std::fs::read_dir(ground.root()).unwrap().count(), 0);
    ground
}

fn file(ground: &Ground, name: &str, bytes: &[u8]) -> String {
    let path = ground.root().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_string()
}

fn merged(ground: &Ground, arguments: &[&str]) -> Vec<Value> {
    let all = [&["merge", "--json", "--create"], arguments].concat();
    lines(&ends(&ground.run(&all), 0))
}

fn entries(ground: &Ground) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    for shard in 0..64 {
        let shown = ground.run(&["show", "--table", "coverage", &shard.to_string()]);
        if shown.status.code() == Some(0) {
            let shard = json(&ends(&shown, 0));
            let pair = |pair: &Value| (pair[0].as_u64().unwrap(), pair[1].as_u64().unwrap());
            all.extend(shard["entries"].as_array().unwrap().iter().map(pair));
        }
    }
    all.sort_unstable();
    all
}

/// The same run in each form is the same coverage.
#[test]
fn forms_of_one_run_agree() {
    let forms: [(&str, Vec<u8>); 4] = [
        ("showmap-counts", SHOWMAP_COUNTS.to_vec()),
        ("counts", map(&COUNTS, 0)),
        ("bits", map(&BITS, 0)),
        ("virgin", map(&BITS.map(|bits| !bits), 0xff)),
    ];
    for (form, bytes) in forms {
        let ground = ground();
        let path = file(&ground, "run", &bytes);
        let told = merged(&ground, &["--format", form, &path]);
        assert_eq!(
            (&told[0]["new"], &told[0]["edges"]),
            (&5.into(), &5.into()),
            "{form}"
        );
        let expected = [(1, 1), (3, 16), (5, 1), (6, 16), (7, 1)];
        assert_eq!(entries(&ground), expected, "{form}");
    }
}

/// A bit is credited to the first file that brings it; what is merged again
/// brings nothing.
#[test]
fn each_bit_is_credited_once() {
    let ground = ground();
    let virgin = file(&ground, "out/main/fuzz_bitmap", &map(&VIRGIN, 0xff));
    let text = file(&ground, "run.txt", b"000001:1\n000006:4\n000040:8\n");
    let dry = ground.run(&["merge", "-n", &text, &virgin]);
    ends(&dry, 3);
    assert!(stderr(&dry).contains("no campaign"), "{}", stderr(&dry));
    let told = merged(&ground, &[&text, &virgin]);
    let new: Vec<&Value> = told.iter().map(|line| &line["new"]).collect();
    assert_eq!(new, [&3.into(), &28.into(), &Value::from(31)]);
    assert_eq!(told[2]["authority"]["bits"], 31);
    let again = file(&ground, "again.txt", b"000001:1\n000041:1\n000041:2\n");
    let before = ground.digest();
    let words = ends(&ground.run(&["merge", "-n", &virgin, &again, &again]), 0);
    assert!(words.contains("2 bits would be new"), "{words}");
    assert!(ground.digest() == before, "--dry-run changes nothing");
    let words = ends(&ground.run(&["merge", &virgin, &again, &again]), 0);
    assert!(words.contains("nothing new in 2 files"), "{words}");
    assert!(words.contains("2 bits merged"), "{words}");
}

/// One bad file, and nothing of any is merged.
#[test]
fn bad_files_change_nothing() {
    let ground = ground();
    let good = file(&ground, "good.txt", b"1:1\n");
    merged(&ground, &[&good]);
    let fresh = file(&ground, "fresh.txt", b"2:1\n");
    let wrong = file(&ground, "wrong.txt", b"3:1\nx\n");
    let binary = file(&ground, "binary", &map(&BITS, 0));
    let folder = ground.root().to_str().unwrap().to_string();
    let cases = [
        (vec![&fresh, &wrong], "wrong.txt: line 2"),
        (vec![&fresh, &binary], "binary: neither named fuzz_bitmap"),
        (vec![&fresh, &folder], "directory"),
    ];
    let before = ground.digest();
    for (files, why) in cases {
        let mut command = ground.command(&["merge"]);
        let output = command.args(files).output().unwrap();
        ends(&output, 3);
        let words = stderr(&output);
        assert!(
            words.contains(why) && words.contains("nothing was merged"),
            "{words}"
        );
        assert!(ground.digest() == before);
    }
}

/// C6: sizes and builds do not mix.
#[test]
fn maps_of_another_build_are_refused() {
    let ground = ground();
    let small = file(&ground, "small/fuzz_bitmap", &map(&VIRGIN, 0xff));
    let large = file(&ground, "large/fuzz_bitmap", &[0xfe; 128]);
    let beyond = file(&ground, "beyond.txt", b"64:1\n");
    merged(&ground, &["--map-identity", "build-7", &small]);
    let before = ground.digest();
    for (arguments, why) in [
        (vec!["merge", &large], "has 64"),
        (vec!["merge", &small, &beyond], "number 64"),
        (
            vec!["merge", "--map-identity", "build-8", &small],
            "E_MISMATCH",
        ),
        (vec!["merge", "--map-size", "128", &small], "E_MISMATCH"),
    ] {
        let output = ground.run(&arguments);
        ends(&output, 3);
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
        assert!(ground.digest() == before);
    }
    let fresh = Ground::new();
    let output = fresh.run(&["merge", "--create", &small, &large]);
    ends(&output, 3);
    assert_eq!(std::fs::read_dir(fresh.root()).unwrap().count(), 0);
}

#[test]
fn the_standard_input_is_a_file() {
    let ground = Ground::new();
    drop(varied(&ground));
    let run = |arguments: &[&str]| {
        let input = std::fs::File::open(ground.root().join("in")).unwrap();
        let mut command = symlease();
        command.arg("merge").arg(ground.root()).args(arguments);
        command.stdin(input).output().unwrap()
    };
    std::fs::write(ground.root().join("in"), SHOWMAP_COUNTS).unwrap();
    let words = ends(&run(&["--format", "showmap-counts", "-"]), 0);
    assert!(words.contains("4 bits merged"), "1:1 is known: {words}");
    ends(&run(&["-", "-"]), 3);
}
