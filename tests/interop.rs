//! A Python peer, written from the description of the format alone, and the
//! library on one campaign (`tests/interop/`).

use std::path::Path;
use std::process::Command;

#[test]
fn a_python_peer_and_the_library_share_a_campaign() {
    // As in `c_programs.rs`: the library beside this test is the fresh one.
    let test = std::env::current_exe().unwrap();
    let library = test.parent().unwrap().join("libsymlease.so");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/run.py");
    let output = Command::new("python3")
        .arg(script)
        .env("SYMLEASE_LIBRARY", library)
        .output()
        .expect("python3 runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    print!("{said}");
}
