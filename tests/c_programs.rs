//! C programs that know only the header, linked with the shared and the static
//! library, and the shared library's name and symbols.

use std::path::{Path, PathBuf};
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

fn compile(source: &str, library: &Path, more: &[&str], out: &Path) {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    run(Command::new("cc")
        .args([
            "-std=c11",
            "-D_GNU_SOURCE",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-g",
        ])
        .arg("-I")
        .arg(home.join("include"))
        .arg(home.join("c-tests").join(source))
        .arg(library)
        .args(more)
        .arg("-o")
        .arg(out));
}

/// Builds a program against both libraries and runs each in a fresh directory.
fn build_and_run(source: &str) {
    let place = tempfile::tempdir().unwrap();
    let shared = place.path().join("shared");
    compile(source, &built().join("libsymlease.so"), &[], &shared);
    let fixed = place.path().join("static");
    let needs = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];
    compile(source, &built().join("libsymlease.a"), &needs, &fixed);
    // The soname ends in .0; the build folder has the plain name.
    let library = place.path().join("libsymlease.so.0");
    std::fs::copy(built().join("libsymlease.so"), library).unwrap();
    for program in [&shared, &fixed] {
        let root = tempfile::tempdir().unwrap();
        let said = run(Command::new(program)
            .arg(root.path())
            .env("LD_LIBRARY_PATH", place.path()));
        print!("{said}");
    }
}

#[test]
fn work_leases_from_c() {
    build_and_run("work.c");
}

#[test]
fn coverage_from_c() {
    build_and_run("coverage.c");
}

/// F42: the shared library has its SONAME and exports nothing but symlease_*.
#[test]
fn only_our_symbols_are_exported() {
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
