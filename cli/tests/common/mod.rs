//! Real campaigns, made by the library, and the command run on them.
#![allow(dead_code)] // No test program uses all of it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use serde_json::Value;
use symlease::campaign::coverage::Candidate;
use symlease::campaign::group::Members;
use symlease::campaign::open::{open, Request};
use symlease::campaign::work::Claimed;
use symlease::campaign::{Campaign, ClaimOptions, Held};
use symlease::environment::Environment;
use symlease::record::id::sha256_hex;
use symlease::sys::{Linux, Sys};

/// A campaign's directory that goes away.
pub struct Ground {
    pub place: tempfile::TempDir,
}

impl Ground {
    pub fn new() -> Ground {
        let place = tempfile::tempdir().unwrap();
        Ground { place }
    }

    pub fn root(&self) -> &Path {
        self.place.path()
    }

    /// A coordinator's handle, with a session.
    pub fn open(&self, owner: &str) -> Campaign {
        self.with(owner, |_| ())
    }

    pub fn with(&self, owner: &str, change: impl FnOnce(&mut Request)) -> Campaign {
        campaign(self.root(), owner, change)
    }

    pub fn record(&self, table: &str, id: &str) -> PathBuf {
        let shard = u32::from_str_radix(&id[..8], 16).unwrap() % 256;
        let folder = self.root().join(table).join(format!("{shard:03}"));
        folder.join(format!("{id}.json"))
    }

    pub fn work(&self, number: u32) -> PathBuf {
        self.record(".work_lease_table", &id(number))
    }

    /// Runs `symlease` on this campaign.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = symlease();
        command
            .arg(arguments[0])
            .arg(self.root())
            .args(&arguments[1..]);
        command
    }

    /// Path, inode, times and content of everything: what a reader must not change.
    pub fn digest(&self) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        let mut rest = vec![self.root().to_path_buf()];
        while let Some(path) = rest.pop() {
            let stat = std::fs::symlink_metadata(&path).unwrap();
            let mut words = format!(
                "{} {:o} {} {} {}",
                stat.ino(),
                stat.mode(),
                stat.mtime_nsec(),
                stat.ctime_nsec(),
                stat.ctime(),
            );
            if stat.is_dir() {
                rest.extend(
                    std::fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            } else if stat.is_file() {
                words.push_str(&sha256_hex(&std::fs::read(&path).unwrap()));
            }
            all.insert(path, words);
        }
        all
    }
}

pub fn campaign(root: &Path, owner: &str, change: impl FnOnce(&mut Request)) -> Campaign {
    let sys: Arc<dyn Sys> = Arc::new(Linux::new());
    let mut request = Request {
        root: Some(root.as_os_str().as_bytes().to_vec()),
        owner: Some(owner.to_string()),
        ..Request::default()
    };
    change(&mut request);
    open(&request, &Environment::read(&|_| None), &sys, None).unwrap()
}

/// The command, in an environment of its own.
pub fn symlease() -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("symlease"));
    for (name, _) in std::env::vars_os() {
        if name.as_bytes().starts_with(b"SYMCC_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

pub fn id(number: u32) -> String {
    sha256_hex(&number.to_be_bytes())
}

pub fn claim(campaign: &Campaign, number: u32) -> Held {
    let options = ClaimOptions::default();
    match campaign
        .claim(&id(number), Some("{\"seed\":7}"), &options)
        .unwrap()
    {
        Claimed::Lease(held) => held,
        other => panic!("{other:?}"),
    }
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Asserts the exit code, and answers what was printed.
pub fn ends(output: &Output, code: i32) -> String {
    let (out, err) = (stdout(output), stderr(output));
    assert_eq!(output.status.code(), Some(code), "{out}\n{err}");
    out
}

/// A process of its own that runs `holder` of this very test program (see
/// `held_by_another_process`) and says a line once it holds what it should.
pub struct Holder(pub Child);

impl Holder {
    pub fn start(root: &Path, what: &str) -> Holder {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "holder", "--nocapture", "--test-threads=1"])
            .env("SYMLEASE_TEST_HOLDER", what)
            .env("SYMLEASE_TEST_ROOT", root)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines
            .map_while(Result::ok)
            .any(|line| line.contains("holding"));
        assert!(ready, "the holder holds");
        Holder(child)
    }

    /// SIGKILL, and waited for.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// In the child: what to hold, and where. In the test itself: nothing.
pub fn held_by_another_process() -> Option<(String, PathBuf)> {
    let what = std::env::var("SYMLEASE_TEST_HOLDER").ok()?;
    Some((what, PathBuf::from(std::env::var_os("SYMLEASE_TEST_ROOT")?)))
}

/// Says that all is held, and waits to be killed.
pub fn hold() -> ! {
    println!("\nholding");
    loop {
        std::thread::sleep(std::time::Duration::from_secs(3600));
    }
}

pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub fn lines(text: &str) -> Vec<Value> {
    text.lines().map(json).collect()
}

/// A campaign with something of everything.
pub fn varied(ground: &Ground) -> [Campaign; 1] {
    let one = ground.open("one");
    claim(&one, 1);
    let two = claim(&one, 2);
    one.begin_commit(&id(2), &two.token, "{\"mine\":1}")
        .unwrap();
    let three = claim(&one, 3);
    one.complete(&id(3), &three.token).unwrap();
    let four = claim(&one, 4);
    one.abandon(&id(4), &four.token).unwrap();
    let members = Members::new(&[11, 12]).unwrap();
    one.group_claim(&members, None, &ClaimOptions::default())
        .unwrap();
    one.merge(&[Candidate::sparse(&[(1, 1), (2, 3), (70, 128)]).unwrap()])
        .unwrap();
    one.coverage_heartbeat().unwrap();
    [one]
}
