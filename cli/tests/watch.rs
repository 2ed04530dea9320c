//! `symlease status --watch` in a terminal of its own.

mod common;

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{claim, ends, lines, stderr, Ground};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use portable_pty::{native_pty_system, Child, CommandBuilder, MasterPty, PtySize};

/// What waiting may take on a busy machine; none of it is measured.
const PATIENCE: Duration = Duration::from_secs(60);

struct Screen {
    master: Box<dyn MasterPty + Send>,
    child: Box<dyn Child + Send + Sync>,
    keys: Box<dyn Write + Send>,
    parser: Arc<Mutex<vt100::Parser>>,
}

fn size(rows: u16, cols: u16) -> PtySize {
    PtySize {
        rows,
        cols,
        pixel_width: 0,
        pixel_height: 0,
    }
}

impl Screen {
    fn watch(ground: &Ground, rows: u16, cols: u16) -> Screen {
        let pair = native_pty_system().openpty(size(rows, cols)).unwrap();
        let mut command = CommandBuilder::new(assert_cmd::cargo::cargo_bin!("symlease"));
        command.args(["status", "--watch", "--interval", "0.2"]);
        command.arg(ground.root());
        command.env("TERM", "xterm-256color");
        let child = pair.slave.spawn_command(command).unwrap();
        let parser = Arc::new(Mutex::new(vt100::Parser::new(rows, cols, 0)));
        let (mut reader, shared) = (pair.master.try_clone_reader().unwrap(), parser.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                shared.lock().unwrap().process(&bytes[..count]);
            }
        });
        Screen {
            keys: pair.master.take_writer().unwrap(),
            master: pair.master,
            child,
            parser,
        }
    }

    fn text(&self) -> String {
        self.parser.lock().unwrap().screen().contents()
    }

    fn until(&self, holds: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let text = self.text();
            if holds(&text) {
                return text;
            }
            assert!(Instant::now() < end, "{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn press(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).unwrap();
    }

    /// The exit code; the terminal is what it was.
    fn ended(&mut self) -> u32 {
        let status = self.child.wait().unwrap();
        self.until(|_| !self.parser.lock().unwrap().screen().alternate_screen());
        status.exit_code()
    }
}

/// The view follows the campaign and the terminal's size, and leaves it as it was.
#[test]
fn the_view_follows_the_campaign() {
    let ground = Ground::new();
    let one = ground.open("one");
    let held = claim(&one, 1);
    let mut screen = Screen::watch(&ground, 40, 120);
    let text = screen.until(|text| text.contains("1 at work"));
    assert!(text.contains("coordinators: 1 alive"), "{text}");
    assert!(text.contains(&common::id(1)[..12]), "its expiry: {text}");
    one.complete(&common::id(1), &held.token).unwrap();
    screen.until(|text| text.contains("0 at work") && text.contains("1 done"));
    screen.parser.lock().unwrap().set_size(12, 50);
    screen.master.resize(size(12, 50)).unwrap();
    let text = screen.until(|text| text.contains("leases") && !text.contains("expiries"));
    assert!(
        text.lines().all(|line| line.chars().count() <= 50),
        "{text}"
    );
    drop(one);
    screen.until(|text| text.contains("0 alive"));
    screen.press(b"q");
    assert_eq!(screen.ended(), 0);
}

#[test]
fn keys_and_signals() {
    let ground = Ground::new();
    claim(&ground.open("one"), 1);
    let mut screen = Screen::watch(&ground, 30, 120);
    screen.until(|text| text.contains("every 0.2 s"));
    screen.press(b"-");
    screen.until(|text| text.contains("every 0.5 s"));
    screen.press(b"--+p");
    screen.until(|text| text.contains("paused"));
    screen.press(b"p");
    screen.until(|text| text.contains("every 1 s"));
    screen.press(b"\x03");
    assert_eq!(screen.ended(), 0, "Ctrl-C");
    let mut screen = Screen::watch(&ground, 30, 120);
    screen.until(|text| text.contains("every 0.2 s"));
    let pid = screen.child.process_id().unwrap();
    kill(Pid::from_raw(pid as i32), Signal::SIGTERM).unwrap();
    assert_eq!(screen.ended(), 0, "SIGTERM");
}

/// A campaign that goes away is said; it may come back.
#[test]
fn a_campaign_that_is_gone() {
    let ground = Ground::new();
    claim(&ground.open("one"), 1);
    let mut screen = Screen::watch(&ground, 30, 120);
    screen.until(|text| text.contains("leases"));
    let table = ground.root().join(".work_lease_table");
    std::fs::rename(&table, ground.root().join("away")).unwrap();
    screen.until(|text| text.contains("no campaign in") && text.contains("leases"));
    std::fs::rename(ground.root().join("away"), &table).unwrap();
    screen.until(|text| !text.contains("no campaign in"));
    screen.press(b"q");
    assert_eq!(screen.ended(), 0);
}

#[test]
fn without_a_terminal() {
    let ground = Ground::new();
    claim(&ground.open("one"), 1);
    let refused = ground.run(&["status", "--watch"]);
    ends(&refused, 3);
    assert!(stderr(&refused).contains("no terminal"));
    ends(&ground.run(&["status", "--watch", "--interval", "0"]), 3);
    let mut command = ground.command(&["status", "--watch", "--json", "--interval", "0.1"]);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let (mut read, mut bytes) = (String::new(), [0; 4096]);
    let mut pipe = child.stdout.take().unwrap();
    while read.lines().count() < 3 || !read.ends_with('\n') {
        let count = pipe.read(&mut bytes).unwrap();
        assert!(count > 0, "{read}");
        read.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    drop(pipe);
    assert_eq!(child.wait().unwrap().code(), Some(0), "the reader is gone");
    assert!(lines(&read).iter().all(|line| line["schema"] == 1));
}
