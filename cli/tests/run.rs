//! `symlease run`: the command runs once, its lease lives as long as it does,
//! and its exit code and signals pass through.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{claim, ends, held_by_another_process, hold, id, json, stderr, Ground, Holder};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::Value;
use symlease::campaign::ClaimOptions;

/// What waiting may take on a busy machine; none of it is measured.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a child process holds; in the test run itself it does nothing.
#[test]
fn holder() {
    let Some((what, root)) = held_by_another_process() else {
        return;
    };
    let campaign = common::campaign(&root, &what, |_| ());
    claim(&campaign, 1);
    hold();
}

/// A campaign, a file that commands write to, and the work's name.
struct Bench {
    ground: Ground,
    place: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let ground = Ground::new();
        drop(ground.open("nobody").merge(&[]));
        claim(&ground.open("other"), 99);
        let place = tempfile::tempdir().unwrap();
        Bench { ground, place }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// `symlease run` of a shell script that may use $T.
    fn command(&self, options: &[&str], script: &str) -> Command {
        let mut command = self.ground.command(&["run"]);
        command
            .args(options)
            .args(["--", "sh", "-c", script])
            .env("T", self.place.path());
        command
    }

    fn run(&self, options: &[&str], script: &str, code: i32) -> String {
        let output = self.command(options, script).output().unwrap();
        ends(&output, code);
        stderr(&output)
    }

    /// Starts it, and waits until the script has said a line.
    fn start(&self, options: &[&str], script: &str) -> Child {
        let mut command = self.command(options, script);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line.trim(), "ready");
        child
    }

    /// The record of the work that is not the other's.
    fn record(&self) -> Value {
        let list = ends(&self.ground.run(&["ls", "--json"]), 0);
        let mut all = list.lines().map(json);
        let own = all.find(|record| record["id"] != id(99)).expect("a record");
        let id = own["id"].as_str().unwrap().to_string();
        let mut raw = json(&ends(&self.ground.run(&["show", &id, "--raw"]), 0));
        raw["state"] = own["state"].clone();
        raw
    }
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

fn code(mut child: Child) -> Option<i32> {
    child.wait().unwrap().code()
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_same_command_runs_once() {
    let bench = Bench::new();
    let script = "echo $SYMLEASE_ID $SYMLEASE_FENCE $SYMLEASE_ATTEMPTS >> $T/ran";
    let first = bench.run(&[], script, 0);
    assert!(first.contains("is done"), "{first}");
    let second = bench.run(&[], script, 0);
    assert!(second.contains("was done before"), "{second}");
    let ran = std::fs::read_to_string(bench.file("ran")).unwrap();
    let record = bench.record();
    let text = |name: &str| record[name].as_str().unwrap().to_string();
    let expected = format!("{} {} 1\n", text("id"), record["fence"]);
    assert_eq!(ran, expected);
    assert_eq!(
        (text("status"), &record["payload"]["command"][2]),
        ("done".into(), &script.into())
    );
    // Another name is another work; --quiet says nothing.
    let quiet = bench.run(&["--name", "again", "-q"], script, 0);
    assert_eq!(quiet, "");
    assert_eq!(
        std::fs::read_to_string(bench.file("ran"))
            .unwrap()
            .lines()
            .count(),
        2
    );
    bench.run(&["--payload", "{\"a\": 1.0}"], script, 0);
    bench.run(&["--payload", "{ \"a\":1.0 }"], script, 0);
    assert_eq!(
        std::fs::read_to_string(bench.file("ran"))
            .unwrap()
            .lines()
            .count(),
        3
    );
}

/// The exit code passes through; what fails again and again is ended.
#[test]
fn failures_are_tried_again_and_then_ended() {
    let bench = Bench::new();
    for attempt in 1..3 {
        let words = bench.run(&[], "exit 7", 7);
        assert!(words.contains("is given back"), "{words}");
        let record = bench.record();
        assert_eq!(
            (&record["state"], &record["attempts"]),
            (&"abandoned".into(), &attempt.into())
        );
    }
    let words = bench.run(&[], "exit 7", 7);
    assert!(
        words.contains("failed (exit 7) at claim 3: ended"),
        "{words}"
    );
    assert_eq!(bench.record()["state"], "done");
    bench.run(&[], "exit 7", 0);
    bench.run(&["--on-failure", "complete"], "exit 8", 8);
    bench.run(&["--on-failure", "complete"], "exit 8", 0);
    bench.run(&[], "kill -9 $$", 128 + 9);
}

#[test]
fn what_cannot_be_run_is_given_back() {
    let bench = Bench::new();
    for (command, code) in [("/no/such/command", 127), ("/", 126)] {
        let output = bench.ground.run(&["run", "--", command]);
        ends(&output, code);
        assert!(stderr(&output).contains(command), "{}", stderr(&output));
    }
    assert_eq!(bench.record()["state"], "abandoned");
    let wrong: [&[&str]; 5] = [
        &["run", "--id", "xyz", "--", "true"],
        &["run", "--payload", "{", "--", "true"],
        &["run", "--wait", "nan", "--", "true"],
        &["run", "--ttl=-1", "--", "true"],
        &["run", "--owner", "", "--", "true"],
    ];
    for arguments in wrong {
        let output = bench.ground.run(arguments);
        ends(&output, 125);
        let named = arguments[1].trim_matches(['-', '=', '1']);
        assert!(stderr(&output).contains(named), "{}", stderr(&output));
    }
    let empty = Ground::new();
    ends(&empty.run(&["run", "--", "true"]), 125);
    ends(&empty.run(&["run", "--create", "--", "true"]), 0);
    ends(&bench.ground.run(&["run", "true"]), 2);
}

/// Who holds the work keeps it; whoever waits has it as soon as the holder dies.
#[test]
fn held_work_is_left_alone_or_waited_for() {
    let bench = Bench::new();
    let mut holder = Holder::start(bench.ground.root(), "victim");
    let one = id(1);
    let words = bench.run(&["--id", &one], "touch $T/ran", 75);
    assert!(words.contains("held by victim"), "{words}");
    assert!(!bench.file("ran").exists());
    let mut waiting = bench.command(&["--id", &one, "--wait", "1000"], "touch $T/ran");
    let mut waiting = waiting.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut told = BufReader::new(waiting.stderr.take().unwrap());
    told.read_line(&mut line).unwrap();
    assert!(line.contains("held by victim"), "{line}");
    holder.kill();
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
    assert!(bench.file("ran").exists());
}

/// A TTL far shorter than the command: only heartbeats keep it.
#[test]
fn the_lease_is_renewed_while_the_command_runs() {
    let bench = Bench::new();
    let script = "echo ready; while [ ! -e $T/go ]; do sleep 0.05; done";
    let child = bench.start(&["--ttl", "0.6"], script);
    let version = || bench.record()["version"].as_u64().unwrap();
    let first = version();
    until("renewed", || version() >= first + 6);
    let now = json(&ends(&bench.ground.run(&["status", "--json"]), 0));
    assert_eq!(
        now["lock_waits"]["living"]["handles"], 1,
        "published: {now}"
    );
    std::fs::write(bench.file("go"), b"").unwrap();
    assert_eq!(code(child), Some(0));
    let record = bench.record();
    assert_eq!(
        (&record["state"], &record["attempts"]),
        (&"done".into(), &1.into())
    );
}

/// SIGTERM reaches the command, whose code is ours; who was interrupted has not
/// failed, however often.
#[test]
fn signals_reach_the_command() {
    let bench = Bench::new();
    let script = "trap 'exit 42' TERM; echo ready; while :; do sleep 0.05; done";
    let child = bench.start(&["--attempts", "1"], script);
    send(&child, Signal::SIGTERM);
    assert_eq!(code(child), Some(42));
    assert_eq!(bench.record()["state"], "abandoned");
    let script = "trap 'exit 43' USR1; echo ready; while :; do sleep 0.05; done";
    let child = bench.start(&["--name", "usr1", "--attempts", "1"], script);
    send(&child, Signal::SIGUSR1);
    assert_eq!(code(child), Some(43), "no interruption: it failed");
    let states = ends(&bench.ground.run(&["ls", "--json"]), 0);
    assert!(states.contains("\"done\""), "{states}");
}

/// As under nohup.
#[test]
fn what_is_ignored_stays_ignored() {
    let bench = Bench::new();
    let own = assert_cmd::cargo::cargo_bin!("symlease");
    let outer = "trap '' HUP; exec \"$0\" run \"$1\" -q -- sh -c \
                 'echo ready; while [ ! -e $T/go ]; do sleep 0.05; done'";
    let mut child = Command::new("sh")
        .args(["-c", outer])
        .arg(own)
        .arg(bench.ground.root())
        .env("T", bench.place.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    send(&child, Signal::SIGHUP);
    std::fs::write(bench.file("go"), b"").unwrap();
    assert_eq!(code(child), Some(0));
    assert_eq!(bench.record()["state"], "done");
}

/// SIGKILL: the lease is free at once (D1), so the command must not go on.
#[test]
fn the_command_dies_with_symlease() {
    let bench = Bench::new();
    let script = "echo $$ > $T/pid; echo ready; while :; do sleep 0.05; done";
    let child = bench.start(&[], script);
    let pid = std::fs::read_to_string(bench.file("pid")).unwrap();
    let pid = Pid::from_raw(pid.trim().parse().unwrap());
    send(&child, Signal::SIGKILL);
    assert_eq!(code(child), None);
    assert_eq!(bench.record()["state"], "dead");
    until("it dies", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.map_or(true, |stat| stat.contains(") Z "))
    });
}

/// A holder that was overtaken stops, and does not end the other's work.
#[test]
fn a_lost_lease_ends_the_command() {
    let bench = Bench::new();
    let script = "trap 'touch $T/asked' TERM; echo ready; while :; do sleep 0.05; done";
    let child = bench.start(&["--ttl", "0.3", "--grace", "0.5"], script);
    let thief = bench.ground.open("thief");
    let work = bench.record()["id"].as_str().unwrap().to_string();
    let options = ClaimOptions {
        takeover: true,
        ..ClaimOptions::default()
    };
    thief.claim(&work, None, &options).unwrap();
    assert_eq!(code(child), Some(76));
    assert!(bench.file("asked").exists(), "SIGTERM first");
    let record = bench.record();
    assert_eq!(
        (&record["state"], &record["owner"]),
        (&"live".into(), &"thief".into())
    );
}

/// Ctrl-C: the terminal sends it to both, and symlease not once more.
#[test]
fn the_terminals_signals_come_once() {
    use portable_pty::{native_pty_system, CommandBuilder, PtySize};

    let bench = Bench::new();
    let pair = native_pty_system().openpty(PtySize::default()).unwrap();
    // Says who sent each: signals that come together may be one to a handler.
    let script = "import os, signal\n\
                  signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n\
                  print('ready', flush=True)\n\
                  while True:\n\
                  \x20   sent = signal.sigwaitinfo([signal.SIGINT]).si_pid != 0\n\
                  \x20   with open(os.environ['T'] + '/ints', 'a') as ints:\n\
                  \x20       ints.write('sent\\n' if sent else 'terminal\\n')\n\
                  \x20   if sent:\n\
                  \x20       raise SystemExit(5)\n";
    let mut command = CommandBuilder::new(assert_cmd::cargo::cargo_bin!("symlease"));
    command.arg("run");
    command.arg(bench.ground.root());
    command.args(["--", "python3", "-c", script]);
    command.env("T", bench.place.path());
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let mut lines = BufReader::new(pair.master.try_clone_reader().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("ready")));
    let mut keys = pair.master.take_writer().unwrap();
    let ints = || std::fs::read_to_string(bench.file("ints")).unwrap_or_default();
    for time in 1..=10 {
        keys.write_all(b"\x03").unwrap();
        until("it comes", || ints().lines().count() >= time);
    }
    // One that is sent to symlease alone is passed on.
    let pid = Pid::from_raw(child.process_id().unwrap() as i32);
    kill(pid, Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().exit_code(), 5);
    assert_eq!(ints(), "terminal\n".repeat(10) + "sent\n");
    assert_eq!(bench.record()["state"], "abandoned", "interrupted");
}
