//! P12: under a fork server every run forks. What a handle adds to a fork is
//! counted in page faults of the child, which do not depend on the machine's load.
#![allow(unsafe_code)]

mod common;

use std::sync::Arc;

use common::options;
use symlease::engine::files::Files;
use symlease::engine::{Change, Engine, Table};
use symlease::record::id::sha256_hex;
use symlease::sys::Linux;

/// The least faults that a child takes which does nothing, of several.
fn faults_of_a_child() -> i64 {
    let one = || {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        let mut state = 0;
        // SAFETY: the child leaves at once; wait4 fills `usage`.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(0);
            }
            assert!(child > 0);
            assert_eq!(libc::wait4(child, &mut state, 0, usage.as_mut_ptr()), child);
            usage.assume_init().ru_minflt
        }
    };
    (0..20).map(|_| one()).min().unwrap()
}

#[test]
fn a_handle_adds_few_page_faults_to_a_fork() {
    let root = tempfile::tempdir().unwrap();
    let without = faults_of_a_child();
    let engine = Files::open(Arc::new(Linux::new()), options(root.path())).unwrap();
    engine
        .transact(Table::Work, &[sha256_hex(b"work")], &mut |_| {
            Ok(vec![Change::Put(b"{}".to_vec())])
        })
        .unwrap();
    let with = faults_of_a_child();
    drop(engine);
    // The table of held descriptors alone has 24 pages.
    assert!(
        with <= without + 8,
        "{with} faults with a handle, {without} without"
    );
}
