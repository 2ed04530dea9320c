//! L8: waiters are served. Real processes, each with a page of its own test.
#![allow(unsafe_code)]

mod common;
#[path = "fairness/worker.rs"]
mod worker;

use std::ffi::CString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{options, Faulty};
use symlease::engine::files::{Files, Options};
use symlease::engine::{Change, Engine, Table};
use symlease::error::Kind;
use symlease::record::id::{sha256_hex, shard_of};
use symlease::sys::{waiters, Linux, Sys};
use worker::Worker;

const MS: u64 = 1_000_000;

fn engine_on(root: &Path, timeout: u64, sys: Arc<dyn Sys>) -> Files {
    let mut options = Options {
        lock_timeout: timeout,
        ..options(root)
    };
    options.named.durable = Some(false);
    Files::open(sys, options).unwrap()
}

fn engine(root: &Path, timeout: u64) -> Files {
    engine_on(root, timeout, Arc::new(Linux::new()))
}

fn keys() -> [String; 1] {
    [sha256_hex(b"contended")]
}

/// Takes the lock, adds one to the record, holds it so long. Answers what the
/// record held: how many were served before.
fn step(engine: &Files, hold: Duration) -> symlease::error::Result<u64> {
    let mut before = 0;
    let done = engine.transact(Table::Work, &keys(), &mut |reads| {
        let start = Instant::now();
        let old = reads[0].clone()?.unwrap_or(b"0".to_vec());
        let old: u64 = String::from_utf8(old).unwrap().parse().unwrap();
        while start.elapsed() < hold {
            std::hint::spin_loop();
        }
        before = old;
        Ok(vec![Change::Put((old + 1).to_string().into_bytes())])
    });
    done.map(|()| before)
}

/// What the record holds, read without its lock.
fn value(engine: &Files) -> u64 {
    let bytes = engine.read(Table::Work, &keys()[0]).unwrap();
    bytes.map_or(0, |bytes| {
        String::from_utf8(bytes).unwrap().parse().unwrap()
    })
}

fn count(root: &Path) -> u64 {
    value(&engine(root, MS))
}

/// The child of most tests: steps until the time or the number is reached, and
/// prints how many, its longest wait in microseconds, and how many others were
/// served during a wait (of ten waits, nine saw no more).
#[test]
fn worker_process() {
    let Ok(text) = std::env::var("SYMLEASE_TEST_WORKER") else {
        return;
    };
    let root = PathBuf::from(std::env::var_os("SYMLEASE_TEST_ROOT").unwrap());
    let page = std::env::var_os("SYMLEASE_TEST_PAGE").unwrap();
    waiters::place_in(CString::new(page.as_bytes()).unwrap());
    let numbers: Vec<u64> = text.split(' ').map(|part| part.parse().unwrap()).collect();
    let [hold, think, most_ms, most] = numbers[..] else {
        panic!("{text}");
    };
    let engine = engine(&root, 20_000 * MS);
    println!("\nready");
    std::io::stdout().flush().unwrap();
    let (start, mut served, mut longest) = (Instant::now(), 0, Duration::ZERO);
    let mut passed = Vec::new();
    while start.elapsed() < Duration::from_millis(most_ms) && served < most {
        let (before, seen) = (Instant::now(), value(&engine));
        let at = step(&engine, Duration::from_micros(hold)).unwrap();
        longest = longest.max(before.elapsed());
        passed.push(at.saturating_sub(seen));
        served += 1;
        if think > 0 {
            std::thread::sleep(Duration::from_micros(think));
        }
    }
    passed.sort_unstable();
    let most = passed.get(passed.len() * 9 / 10).unwrap_or(&0);
    println!("\nserved {served} {} {most}", longest.as_micros());
}

fn page_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

/// Where the page lies. `SYMLEASE_TEST_NO_QUEUE` takes the queue out: the test
/// of F34 must then fail.
fn place(folder: &tempfile::TempDir) -> PathBuf {
    match std::env::var_os("SYMLEASE_TEST_NO_QUEUE") {
        Some(_) => folder.path().join("missing"),
        None => folder.path().to_path_buf(),
    }
}

/// F34: one process retakes a lock at once, for ever; eight wait.
#[test]
fn f34_nobody_starves_beside_a_greedy_process() {
    let (root, folder) = (tempfile::tempdir().unwrap(), page_folder());
    let page = place(&folder);
    let greedy = Worker::start(root.path(), &page, "200 0 4000 1000000");
    std::thread::sleep(Duration::from_millis(200));
    let waiting: Vec<Worker> = (0..8)
        .map(|_| Worker::start(root.path(), &page, "200 1000 3000 1000000"))
        .collect();
    let served: Vec<_> = waiting.into_iter().map(Worker::end).collect();
    let greedy = greedy.end();
    println!("greedy {greedy:?}, waiting {served:?}");
    let least = served.iter().map(|worker| worker.0).min().unwrap();
    assert!(least * 8 >= greedy.0, "{least} beside {}", greedy.0);
    // Nine share the lock, so eight may go first; twice that for who is not
    // awake at its turn. Turns are counted, not time: a busy machine is slow for all.
    let passed = served.iter().map(|worker| worker.2).max().unwrap();
    assert!(passed <= 16, "{passed} were served before one that waited");
    let all = served.iter().map(|worker| worker.0).sum::<u64>() + greedy.0;
    assert_eq!(count(root.path()), all, "no update is lost");
}

/// Killed and stopped waiters at the head of the queue hold nobody up, and a
/// stopped one is served when it runs again.
#[test]
fn dead_and_stopped_waiters_are_passed_over() {
    let (root, folder) = (tempfile::tempdir().unwrap(), page_folder());
    let holder = engine(root.path(), 20_000 * MS);
    for signal in [libc::SIGKILL, libc::SIGSTOP] {
        let mut workers = Vec::new();
        let mut freed = None;
        let change = holder.transact(Table::Work, &keys(), &mut |_| {
            for _ in 0..3 {
                workers.push(Worker::start(root.path(), folder.path(), "0 0 60000 1"));
            }
            std::thread::sleep(Duration::from_millis(50));
            workers.iter().for_each(|worker| worker.signal(signal));
            for _ in 0..3 {
                workers.push(Worker::start(root.path(), folder.path(), "0 0 60000 50"));
            }
            std::thread::sleep(Duration::from_millis(50));
            freed = Some(Instant::now());
            Ok(vec![Change::Keep])
        });
        change.unwrap();
        let behind = workers.split_off(3);
        for worker in behind {
            assert_eq!(worker.end().0, 50);
        }
        let spent = freed.unwrap().elapsed();
        println!("after signal {signal}: 150 steps in {spent:?}");
        assert!(spent < Duration::from_secs(20), "{spent:?}");
        if signal == libc::SIGSTOP {
            workers
                .iter()
                .for_each(|worker| worker.signal(libc::SIGCONT));
            for worker in workers {
                assert_eq!(worker.end().0, 1);
            }
        }
    }
}

/// Whatever the page holds or however it is missing, locks work.
#[test]
fn a_bad_page_costs_time_only() {
    let (root, folder) = (tempfile::tempdir().unwrap(), page_folder());
    let work = |page: &Path, text: &str| {
        let before = count(root.path());
        let workers: Vec<Worker> = (0..4)
            .map(|_| Worker::start(root.path(), page, "50 0 60000 100"))
            .collect();
        for worker in workers {
            let (served, longest, _) = worker.end();
            assert_eq!(served, 100, "{text}");
            assert!(longest < Duration::from_secs(20), "{text}: {longest:?}");
        }
        assert_eq!(count(root.path()), before + 400, "{text}");
    };
    work(folder.path(), "a good page");
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "one page, and nothing else");
    let file = names[0].as_ref().unwrap().path();
    let good = std::fs::read(&file).unwrap();
    let blocks = std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap());
    assert!(blocks * 512 >= good.len() as u64, "written out in full");
    work(folder.path(), "the same page again");

    let mut random = vec![0u8; good.len()];
    Linux::new().random(&mut random).unwrap();
    let again = |bytes: &[u8]| {
        let _ = std::fs::remove_file(&file);
        std::fs::write(&file, bytes).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    };
    again(&random);
    work(folder.path(), "garbage");
    again(&[&good[..32], &random[32..]].concat());
    work(folder.path(), "garbage behind a right header");
    again(&[&good[..32], &vec![0xff; good.len() - 32]].concat());
    work(folder.path(), "all bits set");
    again(&good[..100]);
    work(folder.path(), "truncated");
    again(&[]);
    work(folder.path(), "empty");
    again(&good);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o400)).unwrap();
    work(folder.path(), "read-only");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
    work(folder.path(), "open to everybody");
    let away = root.path().join("away");
    std::fs::write(&away, &good).unwrap();
    std::fs::remove_file(&file).unwrap();
    symlink(&away, &file).unwrap();
    work(folder.path(), "a symbolic link");
    assert_eq!(std::fs::read(&away).unwrap(), good, "left alone");
    work(&folder.path().join("missing"), "no directory");
}

/// A writer of garbage that never stops costs time, and nothing else.
#[test]
fn a_hostile_writer_costs_time_only() {
    let (root, folder) = (tempfile::tempdir().unwrap(), page_folder());
    let first = Worker::start(root.path(), folder.path(), "0 0 60000 50");
    assert_eq!(first.end().0, 50);
    let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(file.unwrap().path())
        .unwrap();
    let workers: Vec<Worker> = (0..4)
        .map(|_| Worker::start(root.path(), folder.path(), "50 0 60000 50"))
        .collect();
    let over = std::sync::atomic::AtomicBool::new(false);
    let sys = Linux::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = vec![0u8; 18 * 1024];
            while !over.load(std::sync::atomic::Ordering::SeqCst) {
                sys.random(&mut random).unwrap();
                let _ = std::os::unix::fs::FileExt::write_at(&file, &random, 32);
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        let served: Vec<_> = workers.into_iter().map(Worker::end).collect();
        over.store(true, std::sync::atomic::Ordering::SeqCst);
        println!("beside a hostile writer {served:?}");
        assert!(served.iter().all(|worker| worker.0 == 50));
    });
    assert_eq!(count(root.path()), 250);
}

const PEER: &str = r#"
import fcntl, os, sys, time
path, seconds = sys.argv[1], float(sys.argv[2])
end, served = time.monotonic() + seconds, 0
while time.monotonic() < end:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            time.sleep(0.002)
    until = time.monotonic() + 0.0002
    while time.monotonic() < until:
        pass
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)
    served += 1
    time.sleep(0.001)
print(served)
"#;

/// Peers in Python poll every 2 ms and know of no queue: both are served.
#[test]
fn polling_peers_get_their_share() {
    let (root, folder) = (tempfile::tempdir().unwrap(), page_folder());
    step(&engine(root.path(), 1000 * MS), Duration::ZERO).unwrap();
    let [id] = keys();
    let lock = root
        .path()
        .join(".work_lease_table")
        .join(format!("{:03}", shard_of(&id, 16)))
        .join(format!("{id}.json.lock"));
    assert!(lock.exists());
    let ours: Vec<Worker> = (0..3)
        .map(|_| Worker::start(root.path(), folder.path(), "200 1000 3000 1000000"))
        .collect();
    let peers: Vec<Child> = (0..3)
        .map(|_| {
            Command::new("python3")
                .args(["-c", PEER])
                .arg(&lock)
                .arg("2.5")
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let peers: Vec<u64> = peers
        .into_iter()
        .map(|peer| {
            let output = peer.wait_with_output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            text.trim().parse().expect("a number")
        })
        .collect();
    let ours: Vec<u64> = ours.into_iter().map(|worker| worker.end().0).collect();
    println!("ours {ours:?}, peers {peers:?}");
    let (most, least) = (ours.iter().max().unwrap(), peers.iter().min().unwrap());
    assert!(least * 8 >= *most, "peers {peers:?} beside {ours:?}");
    let (most, least) = (peers.iter().max().unwrap(), ours.iter().min().unwrap());
    assert!(least * 8 >= *most, "ours {ours:?} beside {peers:?}");
}

/// How long a wait of each of these timeouts went on beyond its deadline.
fn overslept(path: &Path, timeouts: &[u64]) -> Vec<Duration> {
    let wait = |timeout: u64| {
        let engine = engine(path, timeout);
        let start = Instant::now();
        let error = step(&engine, Duration::ZERO).unwrap_err();
        let (spent, least) = (start.elapsed(), Duration::from_nanos(timeout));
        assert_eq!(error.kind, Kind::Timeout);
        assert!(spent >= least, "{spent:?} for {least:?}");
        spent - least
    };
    std::thread::scope(|scope| {
        let waits: Vec<_> = timeouts
            .iter()
            .map(|timeout| scope.spawn(move || wait(*timeout)))
            .collect();
        waits.into_iter().map(|wait| wait.join().unwrap()).collect()
    })
}

/// F35: a wait ends at its deadline, in a queue too, and not much later. On a
/// busy machine anybody may be late once: the best of several tries counts.
#[test]
fn no_deadline_is_overslept() {
    const TIMEOUTS: [u64; 6] = [1_000, 1_500_000, 20 * MS, 50 * MS, 51 * MS, 120 * MS];
    let root = tempfile::tempdir().unwrap();
    let holder = engine(root.path(), 20_000 * MS);
    let path = root.path();
    let mut best = TIMEOUTS.map(|_| Duration::MAX);
    let change = holder.transact(Table::Work, &keys(), &mut |_| {
        for _ in 0..10 {
            for (best, late) in best.iter_mut().zip(overslept(path, &TIMEOUTS)) {
                *best = late.min(*best);
            }
            if best.iter().all(|late| *late < Duration::from_millis(20)) {
                break;
            }
        }
        Ok(vec![Change::Keep])
    });
    change.unwrap();
    let late = best.iter().max().unwrap();
    assert!(*late < Duration::from_millis(150), "{best:?}");
    step(&engine(path, 1_000), Duration::ZERO).expect("a short deadline still means one try");
}

/// The child of the next test: forks between the opening of a lock file and
/// its being locked, then holds the lock for ever.
#[test]
fn forking_process() {
    let Some(root) = std::env::var_os("SYMLEASE_TEST_ROOT").map(PathBuf::from) else {
        return;
    };
    if std::env::var("SYMLEASE_TEST_WORKER").as_deref() != Ok("fork") {
        return;
    }
    let sys = Faulty::new();
    let engine = engine_on(&root, 1000 * MS, Arc::clone(&sys) as Arc<dyn Sys>);
    *sys.before_lock.lock().unwrap() = Some(|| {
        // SAFETY: the child makes system calls only.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::close(1);
                libc::sleep(20);
                libc::_exit(0);
            }
            println!("\nforked {child}");
        }
    });
    let _ = engine.transact(Table::Work, &keys(), &mut |_| {
        println!("\nheld");
        std::io::stdout().flush().unwrap();
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
}

/// F1, L7: a child forked just before a lock was taken does not keep it when
/// its parent is killed.
#[test]
fn a_fork_before_the_lock_keeps_nothing() {
    let root = tempfile::tempdir().unwrap();
    let mut worker = Worker::run(
        "forking_process",
        root.path(),
        root.path(),
        "fork",
        "forked",
    );
    worker.line("held");
    drop(worker);
    step(&engine(root.path(), 2000 * MS), Duration::ZERO).expect("the lock is free");
}
