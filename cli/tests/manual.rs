//! Help, completions and man pages say the same as the commands.

mod common;

use std::process::Command;

use common::{ends, symlease};

const COMMANDS: [&str; 12] = [
    "probe",
    "status",
    "report",
    "ls",
    "show",
    "fsck",
    "recover",
    "gc",
    "merge",
    "run",
    "completions",
    "man",
];

fn said(arguments: &[&str]) -> String {
    ends(&symlease().args(arguments).output().unwrap(), 0)
}

#[test]
fn help_teaches() {
    let all = said(&["--help"]);
    for command in COMMANDS {
        assert!(all.contains(&format!("  {command} ")), "{command}: {all}");
        let help = said(&[command, "--help"]);
        assert!(help.contains("Examples:"), "{help}");
        assert!(help.contains(&format!("symlease {command} ")), "{help}");
        let wide = help.lines().find(|line| line.chars().count() > 100);
        assert_eq!(wide, None, "{command}");
    }
    assert!(!all.contains("exec-under"), "{all}");
}

#[test]
fn completions_are_scripts_that_shells_read() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = said(&["completions", shell]);
        for word in ["recover", "peers-stopped", "map-identity"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        assert!(!script.contains("exec-under"), "{shell}");
    }
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("symlease.bash");
    std::fs::write(&file, said(&["completions", "bash"])).unwrap();
    let script = format!(
        "source '{}' && COMP_WORDS=(symlease gc --peers) COMP_CWORD=2 && \
         _symlease symlease --peers gc && echo \"${{COMPREPLY[@]}}\"",
        file.display()
    );
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert_eq!(ends(&output, 0).trim(), "--peers-stopped");
}

#[test]
fn each_command_has_a_man_page() {
    let page = said(&["man"]);
    assert!(page.contains(".TH symlease 1"), "{page}");
    let place = tempfile::tempdir().unwrap();
    said(&["man", "--output", place.path().to_str().unwrap()]);
    let mut names: Vec<String> = std::fs::read_dir(place.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut expected: Vec<String> = COMMANDS.map(|one| format!("symlease-{one}.1")).to_vec();
    expected.push("symlease.1".to_string());
    expected.sort();
    assert_eq!(names, expected);
    for name in names {
        let page = std::fs::read_to_string(place.path().join(&name)).unwrap();
        let (_, after) = page
            .split_once(".SH \"EXAMPLES AND EXIT CODES\"\n.nf\n")
            .expect(&name);
        assert!(
            after.contains("Examples:\n") || after.contains("Examples:\r"),
            "{after}"
        );
    }
    let nowhere = ["man", "--output", "/no/such/place"];
    ends(&symlease().args(nowhere).output().unwrap(), 3);
}
