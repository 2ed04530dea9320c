//! The README's programs compile and run as they stand.

use std::path::Path;
use std::process::Command;

fn block(language: &str) -> String {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(home.join("README.md")).unwrap();
    let start = text
        .split_once(&format!("```{language}\n"))
        .expect("a program")
        .1;
    start.split_once("```").expect("its end").0.to_string()
}

fn run(compiler: &str, standard: &str, language: &str) -> String {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let test = std::env::current_exe().unwrap();
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join(format!("readme.{language}"));
    std::fs::write(&source, block(language)).unwrap();
    let program = place.path().join("readme");
    let compiled = Command::new(compiler)
        .args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
        .arg(home.join("include"))
        .arg(&source)
        .arg(test.parent().unwrap().join("libsymlease.a"))
        .args([
            "-lgcc_s",
            "-lutil",
            "-lrt",
            "-lpthread",
            "-lm",
            "-ldl",
            "-o",
        ])
        .arg(&program)
        .output()
        .unwrap();
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let mut said = String::new();
    for _ in 0..2 {
        let output = Command::new(&program)
            .current_dir(place.path())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        said.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    said
}

#[test]
fn the_c_program_runs() {
    let program = block("c");
    assert!(program.lines().count() <= 40, "it is to be short");
    let said = run("cc", "-std=c99", "c");
    assert!(said.starts_with("counted once, fence "), "{said}");
    assert!(said.ends_with("done before\n"), "{said}");
}

#[test]
fn the_cpp_program_runs() {
    let said = run("g++", "-std=c++17", "cpp");
    assert!(said.starts_with("counted once, fence "), "{said}");
}
