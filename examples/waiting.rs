//! P10: processes that share one lock, held 200 us: the library beside blocking
//! flock, one after the other in the same run. `docs/waiting.md` has the command.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use symlease::engine::files::{Files, Named, Options};
use symlease::engine::{Change, Engine, Table};
use symlease::record::id::sha256_hex;
use symlease::sys::Linux;

const HOLD: Duration = Duration::from_micros(200);

fn hold() {
    let start = Instant::now();
    while start.elapsed() < HOLD {
        std::hint::spin_loop();
    }
}

/// One lock through the library; how long it took to get it.
fn library(engine: &Files, key: &[String]) -> Duration {
    let (start, mut waited) = (Instant::now(), Duration::ZERO);
    let change = engine.transact(Table::Work, key, &mut |_| {
        waited = start.elapsed();
        hold();
        Ok(vec![Change::Keep])
    });
    change.expect("a lock");
    waited
}

/// The same with a call that blocks in the kernel; it reads a record, too.
fn blocking(lock: &Path, record: &Path) -> Duration {
    let start = Instant::now();
    let file = OpenOptions::new().read(true).write(true).open(lock);
    let file = file.expect("a lock file");
    // SAFETY: a plain call on an open descriptor.
    assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }, 0);
    let _ = File::open(record);
    let waited = start.elapsed();
    hold();
    waited
}

fn cpu() -> f64 {
    // SAFETY: rusage is plain numbers, and there is room for one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn child(root: &Path, kind: &str, think: u64, seconds: f64) {
    let below = |name: &str| Some(root.join(name).into_os_string().into_encoded_bytes());
    let options = Options {
        work_root: below("work"),
        target_root: below("target"),
        named: Named {
            durable: Some(false),
            ..Named::default()
        },
        shards: 1,
        lock_timeout: 60_000_000_000,
        read_only: false,
    };
    let engine = Files::open(Arc::new(Linux::new()), options).expect("a campaign");
    let key = [sha256_hex(b"one lock")];
    let (lock, record) = (root.join("lock"), root.join("record"));
    let mut waits = Vec::new();
    let (start, spent) = (Instant::now(), cpu());
    while start.elapsed().as_secs_f64() < seconds {
        waits.push(match kind {
            "library" => library(&engine, &key),
            _ => blocking(&lock, &record),
        });
        if think > 0 {
            std::thread::sleep(Duration::from_millis(think));
        }
    }
    let held = waits.len() as f64 * HOLD.as_secs_f64();
    println!("{}", (cpu() - spent - held) / start.elapsed().as_secs_f64());
    let waits = waits.iter().map(|wait| wait.as_nanos().to_string());
    println!("{}", waits.collect::<Vec<_>>().join(" "));
}

struct Outcome {
    rate: f64,
    share: f64,
    p99: f64,
    longest: f64,
    cpu: f64,
}

fn run(root: &Path, kind: &str, think: u64, seconds: f64) -> Outcome {
    let program = std::env::current_exe().expect("a path");
    let start = |_| {
        Command::new(&program)
            .arg(root)
            .args([kind, &think.to_string(), &seconds.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process")
    };
    let children: Vec<_> = (0..8).map(start).collect();
    let (mut waits, mut counts, mut cpu) = (Vec::new(), Vec::new(), 0f64);
    for child in children {
        let output = child.wait_with_output().expect("an end");
        let text = String::from_utf8(output.stdout).expect("text");
        let (first, rest) = text.split_once('\n').expect("two lines");
        cpu = cpu.max(first.parse().expect("a number"));
        let before = waits.len();
        waits.extend(
            rest.split_whitespace()
                .map(|part| part.parse::<u64>().expect("a number")),
        );
        counts.push((waits.len() - before) as f64);
    }
    waits.sort_unstable();
    Outcome {
        rate: waits.len() as f64 / seconds,
        share: counts.iter().fold(0f64, |a, b| a.max(*b))
            / counts.iter().fold(1e9, |a: f64, b| a.min(*b)),
        p99: waits[waits.len() * 99 / 100] as f64 / 1e6,
        longest: *waits.last().expect("waits") as f64 / 1e6,
        cpu: cpu * 100.0,
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [root, kind, think, seconds] = &arguments[..] {
        let (think, seconds) = (think.parse().expect("ms"), seconds.parse().expect("s"));
        return child(Path::new(root), kind, think, seconds);
    }
    let seconds = arguments
        .first()
        .map_or(3.0, |text| text.parse().expect("seconds"));
    let root = tempfile::tempdir().expect("a directory");
    File::create(root.path().join("lock")).expect("a lock file");
    println!(
        "think ms | kind | locks/s | max/min share | p99 ms | longest ms | CPU beside holding %"
    );
    for think in [0, 1, 3] {
        let [flock, ours] = ["flock", "library"].map(|kind| {
            let found = run(root.path(), kind, think, seconds);
            println!(
                "{think} | {kind} | {:.0} | {:.3} | {:.2} | {:.2} | {:.2}",
                found.rate, found.share, found.p99, found.longest, found.cpu
            );
            found
        });
        println!(
            "{think} | ratio | {:.2} | | {:.2} |",
            ours.rate / flock.rate,
            ours.p99 / flock.p99
        );
    }
}
