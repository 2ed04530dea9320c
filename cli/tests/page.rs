//! docs/cli.md: its commands are run as they are printed, in one shell, and say
//! what is printed below them.

mod common;

use std::path::Path;

use common::symlease;

struct Step {
    command: String,
    expected: Vec<String>,
}

/// The commands of all `console` blocks.
fn steps(text: &str) -> Vec<Step> {
    let mut all: Vec<Step> = Vec::new();
    for block in text.split("```console\n").skip(1) {
        for line in block.split("```").next().unwrap().lines() {
            match line.strip_prefix("$ ") {
                Some(command) => all.push(Step {
                    command: command.to_string(),
                    expected: Vec::new(),
                }),
                None => all.last_mut().unwrap().expected.push(line.to_string()),
            }
        }
    }
    all
}

/// Whether a line is as printed: `…` stands for anything.
fn fits(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let mut open = false;
    for part in parts {
        open = true;
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty() || open && pattern.ends_with('…')
}

/// The same for lines; one that is `…` alone stands for any number of them.
fn all_fit(patterns: &[String], lines: &[&str]) -> bool {
    match patterns.split_first() {
        None => lines.is_empty(),
        Some((first, rest)) if first == "…" => {
            (0..=lines.len()).any(|skipped| all_fit(rest, &lines[skipped..]))
        }
        Some((first, rest)) => lines
            .split_first()
            .is_some_and(|(line, more)| fits(first, line) && all_fit(rest, more)),
    }
}

#[test]
fn the_page_is_true() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli.md");
    let steps = steps(&std::fs::read_to_string(page).unwrap());
    assert!(steps.len() > 20, "{}", steps.len());
    let place = tempfile::tempdir().unwrap();
    let mut script = String::from("exec 2>/dev/null\n");
    for (number, step) in steps.iter().enumerate() {
        // A background job must not keep the file open: its output is none.
        script.push_str(&format!("{{ {}\n}} >../said.{number} 2>&1\n", step.command));
    }
    let work = place.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let own = Path::new(symlease().get_program())
        .parent()
        .unwrap()
        .to_path_buf();
    let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap());
    let mut shell = symlease();
    // The environment that `symlease` is given in tests, and bash in its place.
    let envs: Vec<_> = shell.get_envs().map(|(name, _)| name.to_owned()).collect();
    shell = std::process::Command::new("bash");
    for name in envs {
        shell.env_remove(name);
    }
    shell
        .args(["-c", &script])
        .current_dir(&work)
        .env("PATH", path);
    assert!(shell.status().unwrap().success());
    for (number, step) in steps.iter().enumerate() {
        let said = std::fs::read_to_string(place.path().join(format!("said.{number}"))).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        let expected = &step.expected;
        assert!(
            all_fit(expected, &lines),
            "$ {}\n{said}\nis not as printed:\n{}",
            step.command,
            expected.join("\n")
        );
    }
}

#[test]
fn what_differs_is_found() {
    let patterns =
        |all: &[&str]| -> Vec<String> { all.iter().map(|one| one.to_string()).collect() };
    assert!(fits("a … c", "a b c") && fits("…", "") && fits("x…", "xyz") && fits("x", "x"));
    assert!(!fits("a … c", "a b d") && !fits("x", "xy") && !fits("x … y", "x y z"));
    assert!(all_fit(&patterns(&["a", "…", "b"]), &["a", "x", "y", "b"]));
    assert!(all_fit(&patterns(&["a", "…"]), &["a"]));
    assert!(!all_fit(&patterns(&["a"]), &["a", "b"]));
    assert!(!all_fit(&patterns(&["a", "b"]), &["a"]));
}
