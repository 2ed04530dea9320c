//! Short locks on real files: L1-L7 and the faults about lock files.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{files, options};
use symlease::engine::files::Files;
use symlease::engine::{Change, Engine, Table};
use symlease::error::Kind;
use symlease::record::id::{sha256_hex, shard_of};
use symlease::sys::Linux;

fn engine(root: &Path, milliseconds: u64) -> Files {
    let options = symlease::engine::files::Options {
        lock_timeout: milliseconds * 1_000_000,
        ..options(root)
    };
    Files::open(Arc::new(Linux::new()), options).unwrap()
}

fn put(engine: &Files, id: &str, bytes: &[u8]) -> symlease::error::Result<()> {
    let change = Change::Put(bytes.to_vec());
    engine.transact(Table::Work, &[id.to_string()], &mut |_| {
        Ok(vec![change.clone()])
    })
}

fn path(root: &Path, id: &str, ending: &str) -> PathBuf {
    let folder = format!("{:03}", shard_of(id, 16));
    root.join(".work_lease_table")
        .join(folder)
        .join(format!("{id}.json{ending}"))
}

/// The child of `killed_holders_are_followed_at_once`: holds a lock for ever.
#[test]
fn holder_process() {
    let Ok(root) = std::env::var("SYMLEASE_TEST_HOLD") else {
        return;
    };
    let engine = engine(Path::new(&root), 1000);
    let _ = engine.transact(Table::Work, &[sha256_hex(b"held")], &mut |_| {
        println!("held");
        std::io::stdout().flush().unwrap();
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
}

/// L1: 20 holders are killed while they hold; each lock is free at once.
#[test]
fn killed_holders_are_followed_at_once() {
    let root = tempfile::tempdir().unwrap();
    let engine = engine(root.path(), 10_000);
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "holder_process", "--nocapture"])
            .env("SYMLEASE_TEST_HOLD", root.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let held = output
            .lines()
            .map_while(Result::ok)
            .any(|line| line.contains("held"));
        assert!(held, "the holder never got its lock");
        child.kill().unwrap();
        let start = Instant::now();
        put(&engine, &sha256_hex(b"held"), b"x").unwrap();
        longest = longest.max(start.elapsed());
        child.wait().unwrap();
    }
    println!("20 of 20 reclaimed, the longest after {longest:?}");
    assert_eq!(engine.counters().timeouts, 0);
}

/// L2, L3: a live holder is not robbed, and the wait ends at its deadline.
#[test]
fn waiting_ends_and_nobody_is_robbed() {
    let root = tempfile::tempdir().unwrap();
    let id = sha256_hex(b"busy");
    let (holder, waiter) = (engine(root.path(), 1000), engine(root.path(), 50));
    holder
        .transact(Table::Work, std::slice::from_ref(&id), &mut |_| {
            let lock = path(root.path(), &id, ".lock");
            // However old the file looks (L2).
            let old = std::time::UNIX_EPOCH + Duration::from_secs(1);
            std::fs::File::open(&lock)
                .unwrap()
                .set_modified(old)
                .unwrap();
            let start = Instant::now();
            let error = put(&waiter, &id, b"robbed").unwrap_err();
            assert_eq!(error.kind, Kind::Timeout, "{error}");
            assert!(error.text.contains(&id));
            assert!(start.elapsed() >= Duration::from_millis(50));
            Ok(vec![Change::Put(b"mine".to_vec())])
        })
        .unwrap();
    assert_eq!(waiter.read(Table::Work, &id).unwrap().unwrap(), b"mine");
    assert_eq!(waiter.counters().timeouts, 1);
}

/// L7: threads of one handle exclude each other as processes do.
#[test]
fn threads_lose_no_update() {
    let root = tempfile::tempdir().unwrap();
    let mut options = options(root.path());
    options.named.durable = Some(false);
    let engine = Files::open(Arc::new(Linux::new()), options).unwrap();
    let keys = [sha256_hex(b"counter")];
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    engine
                        .transact(Table::Work, &keys, &mut |reads| {
                            let old = reads[0].clone()?.unwrap_or(b"0".to_vec());
                            let old: u64 = String::from_utf8(old).unwrap().parse().unwrap();
                            Ok(vec![Change::Put((old + 1).to_string().into_bytes())])
                        })
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(
        engine.read(Table::Work, &keys[0]).unwrap().unwrap(),
        b"2000"
    );
    assert_eq!(engine.counters().locks, 2000);
}

/// F1, F3, L7: a process started while a lock is held does not keep it alive.
#[test]
fn a_started_process_keeps_no_lock() {
    let root = tempfile::tempdir().unwrap();
    let engine = engine(root.path(), 200);
    let id = sha256_hex(b"spawn");
    for _ in 0..20 {
        let mut child = None;
        engine
            .transact(Table::Work, std::slice::from_ref(&id), &mut |_| {
                child = Some(Command::new("sleep").arg("5").spawn().unwrap());
                Ok(vec![Change::Put(b"x".to_vec())])
            })
            .unwrap();
        put(&engine, &id, b"y").expect("the child has no copy of the lock");
        let mut child = child.unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// L6, F13, F15: whatever else stands at a lock's name is refused at once,
/// named, and left alone.
#[test]
fn foreign_lock_files_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let engine = engine(root.path(), 10_000);
    let id = sha256_hex(b"foreign");
    put(&engine, &id, b"record").unwrap();
    let lock = path(root.path(), &id, ".lock");
    let victim = root.path().join("victim");
    std::fs::write(&victim, b"untouched").unwrap();
    let fifo = |place: &Path| {
        assert!(Command::new("mkfifo")
            .arg(place)
            .status()
            .unwrap()
            .success())
    };
    let plant: [&dyn Fn(&Path); 4] = [
        &|place| std::fs::create_dir(place).unwrap(),
        &|place| std::os::unix::fs::symlink(&victim, place).unwrap(),
        &|place| std::os::unix::fs::symlink("nowhere", place).unwrap(),
        &fifo,
    ];
    for (number, plant) in plant.iter().enumerate() {
        std::fs::remove_file(&lock).unwrap();
        plant(&lock);
        let start = Instant::now();
        let error = put(&engine, &id, b"changed").unwrap_err();
        assert_eq!(error.kind, Kind::Unsupported, "{number}: {error}");
        assert!(error.text.contains(&*lock.to_string_lossy()), "{error}");
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "not after the deadline"
        );
        assert_eq!(engine.read(Table::Work, &id).unwrap().unwrap(), b"record");
        if lock.symlink_metadata().unwrap().is_dir() {
            std::fs::remove_dir(&lock).unwrap();
            std::fs::write(&lock, b"").unwrap();
        }
    }
    assert_eq!(std::fs::read(&victim).unwrap(), b"untouched");
}

/// F12, L5: the lock file is replaced while its holder publishes: never OK.
#[test]
fn a_replaced_lock_file_is_noticed() {
    let root = tempfile::tempdir().unwrap();
    let engine = engine(root.path(), 1000);
    let id = sha256_hex(b"moved");
    let lock = path(root.path(), &id, ".lock");
    let error = engine
        .transact(Table::Work, std::slice::from_ref(&id), &mut |_| {
            std::fs::rename(&lock, root.path().join("away")).unwrap();
            std::fs::write(&lock, b"").unwrap();
            Ok(vec![Change::Put(b"x".to_vec())])
        })
        .unwrap_err();
    assert_eq!(error.kind, Kind::Indeterminate);
    assert_eq!(engine.counters().indeterminate, 1);
    put(&engine, &id, b"x").expect("the same call settles it");
}

/// F22, H4: a sweep removes temporaries, a peer's included, but none whose
/// record is locked, and nothing else.
#[test]
fn sweeps_spare_living_writers() {
    let root = tempfile::tempdir().unwrap();
    let (engine, other) = (engine(root.path(), 1000), engine(root.path(), 1000));
    let (busy, idle) = (sha256_hex(b"busy"), sha256_hex(b"idle"));
    put(&engine, &busy, b"1").unwrap();
    put(&engine, &idle, b"2").unwrap();
    for id in [&busy, &idle] {
        std::fs::write(path(root.path(), id, ".77.123456.tmp"), b"half").unwrap();
    }
    engine
        .transact(Table::Work, std::slice::from_ref(&busy), &mut |_| {
            assert_eq!(other.sweep().unwrap(), 1);
            Ok(vec![Change::Keep])
        })
        .unwrap();
    assert!(path(root.path(), &busy, ".77.123456.tmp").exists());
    assert_eq!(other.sweep().unwrap(), 1);
    assert_eq!(files(root.path()).len(), 2);
    let mut ids = vec![busy, idle];
    ids.sort();
    assert_eq!(engine.list(Table::Work).unwrap(), ids);
}

/// One stuck neighbour does not let the others of a batch expire.
#[test]
fn a_batch_goes_past_a_stuck_neighbour() {
    let root = tempfile::tempdir().unwrap();
    let (holder, batch) = (engine(root.path(), 1000), engine(root.path(), 50));
    let mut keys: Vec<String> = (0..100u32).map(|n| sha256_hex(&n.to_le_bytes())).collect();
    keys.sort();
    let stuck = keys[3].clone();
    holder
        .transact(Table::Work, std::slice::from_ref(&stuck), &mut |_| {
            let answers = batch.batch(Table::Work, &keys, &mut |position, read| {
                assert_eq!(read.clone().unwrap(), None);
                Ok(Change::Put(position.to_string().into_bytes()))
            });
            for (position, answer) in answers.iter().enumerate() {
                match answer {
                    Ok(()) => assert_ne!(position, 3),
                    Err(error) => assert_eq!((position, error.kind), (3, Kind::Timeout)),
                }
            }
            Ok(vec![Change::Keep])
        })
        .unwrap();
    assert_eq!(batch.list(Table::Work).unwrap().len(), 99);
}
