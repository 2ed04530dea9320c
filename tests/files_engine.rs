//! The files engine on real files, without a campaign above it: publishing,
//! waiting, dying holders, batches and merges.
#![allow(unsafe_code)]

mod common;
#[path = "files_engine/coverage.rs"]
mod coverage;

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};

use common::{files, options};
use symlease::engine::files::{Files, Options};
use symlease::engine::{Change, Decide, Engine, Table};
use symlease::error::{Kind, Result};
use symlease::record::id::{sha256_hex, shard_of};
use symlease::sys::Linux;

fn engine(root: &Path, milliseconds: u64) -> Files {
    let options = Options {
        lock_timeout: milliseconds * 1_000_000,
        ..options(root)
    };
    Files::open(Arc::new(Linux::new()), options).unwrap()
}

fn change(engine: &Files, id: &str, change: &Change) -> Result<()> {
    engine.transact(Table::Work, &[id.to_string()], &mut |_| {
        Ok(vec![change.clone()])
    })
}

fn put(engine: &Files, id: &str, bytes: &[u8]) -> Result<()> {
    change(engine, id, &Change::Put(bytes.to_vec()))
}

fn path(root: &Path, id: &str, ending: &str) -> PathBuf {
    let folder = format!("{:03}", shard_of(id, 16));
    root.join(".work_lease_table")
        .join(folder)
        .join(format!("{id}.json{ending}"))
}

/// While `id` is locked by a thread of another handle, runs `body`.
fn while_held(root: &Path, id: &str, body: impl FnOnce()) {
    let (held, taken) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let keys = [id.to_string()];
            let holder = engine(root, 1000);
            let done = holder.transact(Table::Work, &keys, &mut |_| {
                held.send(()).unwrap();
                let _ = released.recv();
                Ok(vec![Change::Keep])
            });
            done.unwrap();
        });
        taken.recv().unwrap();
        body();
        drop(release);
    });
}

/// A record is put, read, listed and removed; its lock file stays (L5).
#[test]
fn a_record_comes_and_goes() {
    let root = tempfile::tempdir().unwrap();
    let engine = engine(root.path(), 1000);
    let id = sha256_hex(b"one");
    put(&engine, &id, b"first").unwrap();
    put(&engine, &id, b"second").unwrap();
    assert_eq!(engine.read(Table::Work, &id).unwrap().unwrap(), b"second");
    assert_eq!(engine.list(Table::Work).unwrap(), vec![id.clone()]);
    change(&engine, &id, &Change::Remove).unwrap();
    assert_eq!(engine.read(Table::Work, &id).unwrap(), None);
    assert!(engine.list(Table::Work).unwrap().is_empty());
    assert!(path(root.path(), &id, ".lock").is_file());
    assert!(files(root.path()).is_empty());
}

/// M4: looking makes nothing, not even the root.
#[test]
fn looking_makes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let engine = engine(root.path(), 1000);
    let id = sha256_hex(b"absent");
    assert_eq!(engine.read(Table::Work, &id).unwrap(), None);
    assert!(engine.list(Table::Target).unwrap().is_empty());
    assert_eq!(engine.sweep().unwrap(), 0);
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}

/// L7: two handles on two threads lose no update, and the waits add up (L8).
#[test]
fn two_handles_lose_no_update() {
    const EACH: u64 = 2000;
    let root = tempfile::tempdir().unwrap();
    let keys = [sha256_hex(b"counter")];
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut options = options(root.path());
                options.named.durable = Some(false);
                let engine = Files::open(Arc::new(Linux::new()), options).unwrap();
                for _ in 0..EACH {
                    let add: &mut Decide<'_> = &mut |reads| {
                        let old = reads[0].as_ref().unwrap().as_deref().unwrap_or(b"0");
                        let old: u64 = std::str::from_utf8(old).unwrap().parse().unwrap();
                        Ok(vec![Change::Put((old + 1).to_string().into_bytes())])
                    };
                    engine.transact(Table::Work, &keys, add).unwrap();
                }
                let counters = engine.counters();
                assert_eq!(counters.locks, EACH);
                assert_eq!(counters.timeouts, 0);
                assert_eq!(counters.waits.iter().sum::<u64>(), counters.contended);
            });
        }
    });
    let total = std::fs::read(path(root.path(), &keys[0], "")).unwrap();
    assert_eq!(total, (2 * EACH).to_string().into_bytes());
}

/// L2, L3, F35: a wait ends at its deadline, and the holder is not robbed.
#[test]
fn a_wait_ends_at_its_deadline() {
    let root = tempfile::tempdir().unwrap();
    let id = sha256_hex(b"held");
    put(&engine(root.path(), 1000), &id, b"old").unwrap();
    while_held(root.path(), &id, || {
        for milliseconds in [0, 80] {
            let waiter = engine(root.path(), milliseconds);
            let start = Instant::now();
            let error = put(&waiter, &id, b"robbed").unwrap_err();
            assert_eq!(error.kind, Kind::Timeout, "{error}");
            assert!(start.elapsed() >= Duration::from_millis(milliseconds));
            assert!(start.elapsed() < Duration::from_millis(milliseconds + 2000));
            assert_eq!(waiter.counters().timeouts, 1);
        }
    });
    assert_eq!(std::fs::read(path(root.path(), &id, "")).unwrap(), b"old");
}

/// L6, F13, F15: what is no regular file is refused at once and left alone.
#[test]
fn foreign_lock_files_are_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let engine = engine(root.path(), 60_000);
    let victim = root.path().join("victim");
    std::fs::write(&victim, b"untouched").unwrap();
    for kind in ["link", "dangling", "directory", "fifo"] {
        let id = sha256_hex(kind.as_bytes());
        put(&engine, &id, b"old").unwrap();
        let lock = path(root.path(), &id, ".lock");
        std::fs::remove_file(&lock).unwrap();
        match kind {
            "link" => std::os::unix::fs::symlink(&victim, &lock).unwrap(),
            "dangling" => std::os::unix::fs::symlink("/no/such", &lock).unwrap(),
            "directory" => std::fs::create_dir(&lock).unwrap(),
            _ => {
                let name = CString::new(lock.as_os_str().as_bytes()).unwrap();
                // SAFETY: the name is a valid C string.
                assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
            }
        }
        let before = std::fs::symlink_metadata(&lock).unwrap().file_type();
        let start = Instant::now();
        let error = put(&engine, &id, b"new").unwrap_err();
        assert_eq!(error.kind, Kind::Unsupported, "{kind}: {error}");
        assert!(error.text.contains(&id) && error.text.contains("remove it"));
        assert!(start.elapsed() < Duration::from_secs(10));
        let after = std::fs::symlink_metadata(&lock).unwrap().file_type();
        assert_eq!(before, after);
        assert_eq!(std::fs::read(path(root.path(), &id, "")).unwrap(), b"old");
    }
    assert_eq!(std::fs::read(&victim).unwrap(), b"untouched");
}

/// F12, L5: a waiter follows a lock file that was moved away meanwhile to the
/// one that stands there now: each try opens the path anew.
#[test]
fn a_moved_lock_file_is_opened_again() {
    let root = tempfile::tempdir().unwrap();
    let id = sha256_hex(b"moved");
    let waiter = engine(root.path(), 20_000);
    put(&waiter, &id, b"old").unwrap();
    let lock = path(root.path(), &id, ".lock");
    let away = lock.with_extension("away");
    std::thread::scope(|scope| {
        let mut waiting = None;
        while_held(root.path(), &id, || {
            waiting = Some(scope.spawn(|| put(&waiter, &id, b"new")));
            // It opened the old file once it has waited.
            while waiter.counters().contended == 0 {
                std::thread::yield_now();
            }
            std::fs::rename(&lock, &away).unwrap();
            std::fs::write(&lock, b"").unwrap();
        });
        waiting.unwrap().join().unwrap().unwrap();
    });
    assert_eq!(std::fs::read(path(root.path(), &id, "")).unwrap(), b"new");
}

/// H2, H4: a name that cannot be given leaves nothing private, and the member
/// that changed before it has its old record again.
#[test]
fn a_failed_rename_leaves_nothing_behind() {
    let root = tempfile::tempdir().unwrap();
    let engine = engine(root.path(), 1000);
    let mut keys = [sha256_hex(b"a"), sha256_hex(b"b")];
    keys.sort();
    put(&engine, &keys[0], b"old").unwrap();
    put(&engine, &keys[1], b"gone").unwrap();
    change(&engine, &keys[1], &Change::Remove).unwrap();
    let both = vec![Change::Put(b"new".to_vec()), Change::Put(b"new".to_vec())];
    let error = engine
        .transact(Table::Work, &keys, &mut |reads| {
            assert_eq!(reads[1], Ok(None));
            std::fs::create_dir(path(root.path(), &keys[1], "")).unwrap();
            Ok(both.clone())
        })
        .unwrap_err();
    assert_eq!(error.kind, Kind::Io, "{error}");
    let left = files(root.path());
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0].1, b"old");
    // What is damaged is never overwritten.
    let error = engine
        .transact(Table::Work, &keys, &mut |_| Ok(both.clone()))
        .unwrap_err();
    assert_eq!(error.kind, Kind::Corrupt, "{error}");
    assert_eq!(files(root.path()).len(), 1);
}

/// F22, H4: a sweep removes a temporary only under its record's lock.
#[test]
fn a_sweep_spares_living_writers() {
    let root = tempfile::tempdir().unwrap();
    let engine = engine(root.path(), 1000);
    let (live, dead) = (sha256_hex(b"live"), sha256_hex(b"dead"));
    for id in [&live, &dead] {
        put(&engine, id, b"record").unwrap();
        std::fs::write(path(root.path(), id, ".1.ff.tmp"), b"half").unwrap();
    }
    while_held(root.path(), &live, || {
        assert_eq!(engine.sweep().unwrap(), 1);
        assert!(path(root.path(), &live, ".1.ff.tmp").exists());
        assert!(!path(root.path(), &dead, ".1.ff.tmp").exists());
    });
    assert_eq!(engine.sweep().unwrap(), 1);
    assert_eq!(files(root.path()).len(), 2);
}

/// H3, L3: stuck neighbours cost the batch one time-out in all, and the others
/// are renewed.
#[test]
fn stuck_neighbours_share_one_deadline() {
    let root = tempfile::tempdir().unwrap();
    let engine = engine(root.path(), 300);
    let mut keys: Vec<String> = (0..80).map(|n: u32| sha256_hex(&n.to_le_bytes())).collect();
    keys.sort();
    let stuck = [keys[3].clone(), keys[40].clone(), keys[70].clone()];
    while_held(root.path(), &stuck[0], || {
        while_held(root.path(), &stuck[1], || {
            while_held(root.path(), &stuck[2], || {
                let answers = engine.batch(Table::Work, &keys, &mut |position, _| {
                    Ok(Change::Put(position.to_string().into_bytes()))
                });
                // Three deadlines of their own would wait three times 300 ms.
                assert!(engine.counters().wait_ns < 3 * 300_000_000);
                for (position, answer) in answers.iter().enumerate() {
                    match answer {
                        Ok(()) => assert!(!stuck.contains(&keys[position])),
                        Err(error) => {
                            assert_eq!(error.kind, Kind::Timeout, "{error}");
                            assert!(stuck.contains(&keys[position]));
                        }
                    }
                }
            });
        });
    });
    assert_eq!(files(root.path()).len(), 77);
}

/// Forks; the child runs `body` and ends without returning.
fn fork(body: impl FnOnce()) -> i32 {
    // SAFETY: the child runs `body` and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        body();
        // SAFETY: ends this process.
        unsafe { libc::_exit(0) };
    }
    child
}

fn kill(child: i32) {
    // SAFETY: both calls name a child of this process.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
}

fn pause() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn wait_for(mark: &Path) {
    while !mark.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// L1, F1: a holder is killed while it holds, and its own forked child, which
/// inherited everything, sleeps on: the lock is free at once.
#[test]
fn a_killed_holder_is_followed_at_once() {
    let root = tempfile::tempdir().unwrap();
    let id = sha256_hex(b"killed");
    let mark = root.path().join("mark");
    let _ = Linux::new();
    let holder = fork(|| {
        let engine = engine(root.path(), 1000);
        let keys = [id.clone()];
        let _ = engine.transact(Table::Work, &keys, &mut |_| {
            let sleeper = fork(pause);
            std::fs::write(root.path().join("part"), sleeper.to_string()).unwrap();
            std::fs::rename(root.path().join("part"), &mark).unwrap();
            pause();
            Ok(vec![Change::Keep])
        });
    });
    wait_for(&mark);
    let sleeper: i32 = std::fs::read_to_string(&mark).unwrap().parse().unwrap();
    let next = engine(root.path(), 10_000);
    assert_eq!(
        put(&engine(root.path(), 0), &id, b"x").unwrap_err().kind,
        Kind::Timeout
    );
    kill(holder);
    let start = Instant::now();
    put(&next, &id, b"mine").unwrap();
    assert!(start.elapsed() < Duration::from_secs(2));
    // SAFETY: the sleeper was made by this test; signal 0 only asks.
    assert_eq!(unsafe { libc::kill(sleeper, 0) }, 0, "the sleeper died");
    // SAFETY: as above.
    unsafe { libc::kill(sleeper, libc::SIGKILL) };
}

/// F2, L7: a forked child that drops what it inherited does not free the
/// parent's lock, and one that lives on does not keep it after the parent.
#[test]
fn a_forked_child_neither_frees_nor_keeps_a_lock() {
    let root = tempfile::tempdir().unwrap();
    let id = sha256_hex(b"forked");
    let holder = engine(root.path(), 1000);
    let other = engine(root.path(), 0);
    let mut sleeper = 0;
    let keys = [id.clone()];
    let held = holder.transact(Table::Work, &keys, &mut |_| {
        let mark = root.path().join("mark");
        sleeper = fork(|| {
            std::fs::write(&mark, b"").unwrap();
            pause();
        });
        wait_for(&mark);
        assert_eq!(put(&other, &id, b"x").unwrap_err().kind, Kind::Timeout);
        Ok(vec![Change::Put(b"mine".to_vec())])
    });
    held.unwrap();
    put(&other, &id, b"next").unwrap();
    kill(sleeper);
}
