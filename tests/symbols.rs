//! F42: the shared library's name and symbols.

use std::path::PathBuf;
use std::process::Command;

/// Where cargo put the libraries for this test: its own folder. The copies one
/// level up are only renewed by `cargo build`.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_path_buf()
}

fn run(program: &mut Command) -> String {
    let output = program.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program:?}: {errors}");
    assert!(errors.is_empty(), "{program:?} printed: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// F42: the shared library has its SONAME and exports nothing but symlease_*.
#[test]
fn f42_only_our_symbols_are_exported() {
    let library = built().join("libsymlease.so");
    let dynamic = run(Command::new("readelf").arg("-d").arg(&library));
    assert!(dynamic.contains("[libsymlease.so.0]"), "{dynamic}");
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
    let symbols = run(Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(&library));
    let names: Vec<&str> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    assert!(names.contains(&"symlease_claim"));
    assert!(
        names.iter().all(|name| name.starts_with("symlease_")),
        "{names:?}"
    );
}
