//! The list of faults is a table of tests, `docs/fault-model.md`: each row has
//! one, each one is in the tree and has its row.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The rows that stand; F41 and F43 come later.
fn rows() -> BTreeSet<u32> {
    (1..=40).chain([42]).collect()
}

/// `f17_fsync_fails_once`: its row.
fn row_of(name: &str) -> Option<u32> {
    let (number, rest) = name.strip_prefix('f')?.split_once('_')?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let known = number.parse().ok()?;
    (rest.len() > 5 && rest.chars().all(plain)).then_some(known)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// Every function in the tests that is named after a row.
fn in_the_tree() -> BTreeSet<String> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut rest: Vec<PathBuf> = ["tests", "c-tests", "src/ffi"]
        .map(|at| top.join(at))
        .into();
    let mut found = BTreeSet::new();
    while let Some(place) = rest.pop() {
        for entry in std::fs::read_dir(&place).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let ending = path.extension().and_then(|ending| ending.to_str());
            if path.is_dir() {
                rest.push(path);
            } else if matches!(ending, Some("rs" | "c" | "cpp")) {
                let text = std::fs::read_to_string(&path).unwrap();
                let begins = ["fn ", "static void ", "static int "];
                for line in text.lines() {
                    let Some(line) = begins.iter().find_map(|begin| line.strip_prefix(begin))
                    else {
                        continue;
                    };
                    let name = words(line).next().unwrap_or_default();
                    found.extend(row_of(name).map(|_| name.to_string()));
                }
            }
        }
    }
    found
}

/// The table's tests by row.
fn in_the_table() -> BTreeMap<u32, BTreeSet<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/fault-model.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mut table = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| F")) {
        let row = line[3..].split(' ').next().unwrap().parse().unwrap();
        let names = words(line).filter(|word| row_of(word).is_some());
        let names: BTreeSet<String> = names.map(str::to_string).collect();
        assert!(names.iter().all(|name| row_of(name) == Some(row)), "{line}");
        assert!(table.insert(row, names).is_none(), "twice: F{row}");
    }
    table
}

#[test]
fn every_row_has_its_test_and_every_test_its_row() {
    let (tree, table) = (in_the_tree(), in_the_table());
    assert_eq!(table.keys().copied().collect::<BTreeSet<u32>>(), rows());
    for (row, names) in &table {
        assert!(!names.is_empty(), "F{row} has no test");
    }
    let named: BTreeSet<String> = table.into_values().flatten().collect();
    assert_eq!(named, tree);
}

/// Each C test of the list is also run: it stands in its program's table.
#[test]
fn every_c_test_is_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("c-tests/faults");
    let mut tests = 0;
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let text = std::fs::read_to_string(entry.path()).unwrap();
        for line in text.lines() {
            let Some(line) = line.strip_prefix("static void f") else {
                continue;
            };
            let name = format!("f{}", words(line).next().unwrap());
            if row_of(&name).is_some() {
                assert!(text.contains(&format!("FAULT({name})")), "{name}");
                tests += 1;
            }
        }
    }
    assert!(tests > 30, "{tests}");
}
