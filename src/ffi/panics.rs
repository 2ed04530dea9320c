//! F10: a panic anywhere inside, while the host's stderr cannot be written.

#[path = "../../tests/common/mod.rs"]
mod common;

use std::ffi::{c_char, CStr};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use super::argument::array;
use super::campaign::symlease_close;
use super::constants::*;
use super::coverage::symlease_coverage_merge_sparse;
use super::group::{symlease_group_claim, symlease_group_heartbeat, symlease_group_release};
use super::library::symlease_last_error;
use super::types::*;
use super::work::{symlease_claim, symlease_complete, symlease_heartbeat};

type Call<'a> = &'a mut dyn FnMut() -> symlease_status;

/// Panics at each system call of a call in turn: E_INTERNAL each time, and then
/// the same call works. Answers how often.
fn at_each_call(faulty: &common::Faulty, call: Call<'_>) -> u64 {
    for at in 1.. {
        faulty.arm(at, common::PANIC);
        let status = call();
        faulty.arm(0, 0);
        if status != SYMLEASE_E_INTERNAL {
            assert_eq!(status, SYMLEASE_OK);
            return at - 1;
        }
        // SAFETY: never NULL, and valid until this thread's next failure.
        let words = unsafe { CStr::from_ptr(symlease_last_error()) };
        assert!(words.to_string_lossy().contains("a bug in symlease"));
    }
    0
}

/// For a process of its own, whose stderr is full. Every call is one that may
/// be repeated, whatever a panic left: its own token stands.
#[test]
#[ignore = "run by the test below, with its stderr full"]
fn panics_everywhere() {
    let root = tempfile::tempdir().expect("a directory");
    let faulty = common::Faulty::new();
    let clock = Arc::new(Mutex::new(1_786_060_800.25));
    let campaign = common::campaign(root.path(), "a", &clock, faulty.clone());
    let handle = Box::into_raw(Box::new(symlease_campaign::new(campaign)));
    let id: [c_char; SYMLEASE_ID_SIZE] = array(&"5".repeat(64));
    let targets = [7u64, 9];
    let edges = [1, 2, 3].map(|index| symlease_edge { index, bits: 1 });
    // SAFETY: plain structs, for which zero is valid; the handle and the arrays
    // live until the end of this function.
    unsafe {
        let mut lease: symlease_lease = std::mem::zeroed();
        let mut group: symlease_group = std::mem::zeroed();
        let none = std::ptr::null();
        let nobody = std::ptr::null_mut();
        let claimed = symlease_claim(handle, id.as_ptr(), none, &mut lease, nobody);
        assert_eq!(claimed, SYMLEASE_OK);
        let claimed = symlease_group_claim(handle, targets.as_ptr(), 2, none, &mut group, nobody);
        assert_eq!(claimed, SYMLEASE_OK);
        let mut all = at_each_call(&faulty, &mut || symlease_heartbeat(handle, &mut lease));
        all += at_each_call(&faulty, &mut || {
            symlease_group_heartbeat(handle, &mut group)
        });
        all += at_each_call(&faulty, &mut || {
            symlease_coverage_merge_sparse(handle, edges.as_ptr(), 3, std::ptr::null_mut())
        });
        assert!(all > 60, "{all}");
        // Usable, by another thread too: no lock is left, in memory or on disk.
        assert_eq!(symlease_group_release(handle, &group), SYMLEASE_OK);
        assert_eq!(symlease_complete(handle, &lease), SYMLEASE_OK);
        symlease_close(handle);
    }
}

#[test]
fn f10_a_panic_anywhere_and_a_full_stderr() {
    let status = Command::new("sh")
        .args(["-c", "exec \"$0\" \"$@\" 2>/dev/full"])
        .arg(std::env::current_exe().expect("this program"))
        .args([
            "--ignored",
            "--exact",
            "--nocapture",
            "ffi::panics::panics_everywhere",
        ])
        .stdout(Stdio::null())
        .status()
        .expect("a child");
    assert!(status.success(), "{status}");
}
