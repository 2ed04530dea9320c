//! What the tests share: a campaign in a temporary directory with a clock that
//! the test sets, on a system that can be made to fail.
#![allow(dead_code)]

use std::ffi::CStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use symlease::campaign::{Campaign, Settings};
use symlease::engine::corpus::Store;
use symlease::engine::files::{Coverage, Files, Named, Options};
use symlease::sys::{Answer, Errno, Fd, FileKind, Linux, Open, Stat, Sys};

/// What other processes do.
pub type Others = Box<dyn FnOnce() + Send>;

/// The real system, failing at its `at`-th changing call with `errno`.
pub struct Faulty {
    inner: Linux,
    pub calls: AtomicU64,
    pub fail_at: AtomicU64,
    pub errno: AtomicU64,
    /// From this call on every one fails: the process is dead.
    pub die_at: AtomicU64,
    /// This unlink from now on fails with EIO; 0: none.
    pub fail_unlink_at: AtomicU64,
    /// Renames so far.
    pub renames: AtomicU64,
    /// This rename from now on fails with EIO; 0: none.
    pub fail_rename_at: AtomicU64,
    /// This directory sync from now on fails with EIO; 0: none.
    pub fail_directory_at: AtomicU64,
    /// The rename before which the process dies; 0: none.
    pub die_at_rename: AtomicU64,
    /// Directory syncs so far, those that fail included.
    pub directory_syncs: AtomicU64,
    /// What every directory sync answers; 0: as it is.
    pub directory_errno: AtomicU64,
    /// Another process's id than this one's; 0: its own.
    pub pid: AtomicU64,
    /// Runs once, between a lock file's opening and its being locked.
    pub before_lock: Mutex<Option<fn()>>,
    /// Runs once, at the call of this number: what others do meanwhile.
    pub meanwhile: Mutex<Option<(u64, Others)>>,
    /// Runs once, before a name is linked.
    pub before_link: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Shared locks tried: looks at sessions (D5).
    pub shared_locks: AtomicU64,
    /// Another boot than this machine's.
    pub boot: Mutex<Option<String>>,
    /// Whether devices are this machine's; `None`: as they are.
    pub own_device: Mutex<Option<bool>>,
    /// Nanoseconds that the monotonic clock is ahead of the machine's.
    pub ahead: AtomicU64,
    /// The machine's clock stands still: only `ahead` moves it.
    pub frozen: AtomicBool,
}

/// In place of an errno: the call panics.
pub(crate) const PANIC: i32 = -4711;

impl Faulty {
    pub fn new() -> Arc<Faulty> {
        Arc::new(Faulty {
            inner: Linux::new(),
            calls: AtomicU64::new(0),
            fail_at: AtomicU64::new(0),
            errno: AtomicU64::new(0),
            die_at: AtomicU64::new(0),
            fail_unlink_at: AtomicU64::new(0),
            renames: AtomicU64::new(0),
            fail_rename_at: AtomicU64::new(0),
            fail_directory_at: AtomicU64::new(0),
            die_at_rename: AtomicU64::new(0),
            directory_syncs: AtomicU64::new(0),
            directory_errno: AtomicU64::new(0),
            pid: AtomicU64::new(0),
            before_lock: Mutex::new(None),
            meanwhile: Mutex::new(None),
            before_link: Mutex::new(None),
            shared_locks: AtomicU64::new(0),
            boot: Mutex::new(None),
            own_device: Mutex::new(None),
            ahead: AtomicU64::new(0),
            frozen: AtomicBool::new(false),
        })
    }

    /// From now on the `at`-th call fails; 0: none. Starts counting anew.
    pub fn arm(&self, at: u64, errno: i32) {
        self.calls.store(0, Ordering::SeqCst);
        self.fail_at.store(at, Ordering::SeqCst);
        self.errno.store(errno as u64, Ordering::SeqCst);
    }

    /// From its `at`-th call on nothing happens any more; 0: it lives.
    pub fn die(&self, at: u64) {
        self.arm(0, 0);
        self.die_at.store(at, Ordering::SeqCst);
    }

    fn step(&self) -> Answer<()> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let due = self
            .meanwhile
            .lock()
            .unwrap()
            .take_if(|(at, _)| *at == call);
        if let Some((_, others)) = due {
            others();
        }
        let death = self.die_at.load(Ordering::SeqCst);
        if death != 0 && call >= death {
            return Err(Errno(libc::EIO));
        }
        if call == self.fail_at.load(Ordering::SeqCst) {
            assert!(
                self.errno.load(Ordering::SeqCst) as i32 != PANIC,
                "a test's panic"
            );
            return Err(Errno(self.errno.load(Ordering::SeqCst) as i32));
        }
        Ok(())
    }
}

/// Counts down to the call that fails.
fn counted(left: &AtomicU64) -> Answer<()> {
    let now = left.load(Ordering::SeqCst);
    left.store(now.saturating_sub(1), Ordering::SeqCst);
    match now {
        1 => Err(Errno(libc::EIO)),
        _ => Ok(()),
    }
}

impl Sys for Faulty {
    fn open(&self, dir: Option<Fd>, path: &CStr, how: Open, mode: u32) -> Answer<Fd> {
        self.step()?;
        self.inner.open(dir, path, how, mode)
    }
    fn close(&self, fd: Fd) {
        self.inner.close(fd);
    }
    fn stat(&self, fd: Fd) -> Answer<Stat> {
        self.step()?;
        self.inner.stat(fd)
    }
    fn stat_at(&self, dir: Fd, name: &CStr) -> Answer<Stat> {
        self.inner.stat_at(dir, name)
    }
    fn read_at(&self, fd: Fd, bytes: &mut [u8], offset: u64) -> Answer<usize> {
        self.step()?;
        self.inner.read_at(fd, bytes, offset)
    }
    fn write(&self, fd: Fd, bytes: &[u8]) -> Answer<usize> {
        self.step()?;
        // Short writes are legal; half of what is asked keeps the loop honest.
        self.inner.write(fd, &bytes[..bytes.len().div_ceil(2)])
    }
    fn sync(&self, fd: Fd) -> Answer<()> {
        let directory = self.inner.stat(fd)?.kind == FileKind::Directory;
        if directory {
            self.directory_syncs.fetch_add(1, Ordering::SeqCst);
            counted(&self.fail_directory_at)?;
        }
        self.step()?;
        match self.directory_errno.load(Ordering::SeqCst) {
            errno if directory && errno != 0 => Err(Errno(errno as i32)),
            _ => self.inner.sync(fd),
        }
    }
    fn rename(&self, dir: Fd, from: &CStr, to: &CStr) -> Answer<()> {
        let count = self.renames.fetch_add(1, Ordering::SeqCst) + 1;
        if count == self.die_at_rename.load(Ordering::SeqCst) {
            self.die(1);
        }
        counted(&self.fail_rename_at)?;
        self.step()?;
        self.inner.rename(dir, from, to)
    }
    fn link(&self, from_dir: Fd, from: &CStr, to_dir: Fd, to: &CStr) -> Answer<()> {
        self.step()?;
        if let Some(hook) = self.before_link.lock().unwrap().take() {
            hook();
        }
        self.inner.link(from_dir, from, to_dir, to)
    }
    fn unlink(&self, dir: Fd, name: &CStr) -> Answer<()> {
        let (call, death) = (
            self.calls.load(Ordering::SeqCst),
            self.die_at.load(Ordering::SeqCst),
        );
        if death != 0 {
            // Clean-up of a dead process does not happen; counted as a call.
            self.calls.fetch_add(1, Ordering::SeqCst);
            if call + 1 >= death {
                return Err(Errno(libc::EIO));
            }
        }
        counted(&self.fail_unlink_at)?;
        self.inner.unlink(dir, name)
    }
    fn make_directory(&self, dir: Option<Fd>, path: &CStr, mode: u32) -> Answer<()> {
        self.step()?;
        self.inner.make_directory(dir, path, mode)
    }
    fn set_mode(&self, fd: Fd, mode: u32) -> Answer<()> {
        self.inner.set_mode(fd, mode)
    }
    fn lock(&self, fd: Fd, forks: Option<u64>) -> Answer<()> {
        self.step()?;
        if let Some(run) = self.before_lock.lock().unwrap().take() {
            run();
        }
        self.inner.lock(fd, forks)
    }
    fn lock_shared(&self, fd: Fd, forks: Option<u64>) -> Answer<()> {
        self.shared_locks.fetch_add(1, Ordering::SeqCst);
        self.inner.lock_shared(fd, forks)
    }
    fn keep(&self, fd: Fd, stat: &Stat) {
        self.inner.keep(fd, stat);
    }
    fn disown(&self, fd: Fd, stat: &Stat) {
        self.inner.disown(fd, stat);
    }
    fn boot(&self) -> String {
        let boot = self.boot.lock().unwrap().clone();
        boot.unwrap_or_else(|| self.inner.boot())
    }
    fn on_block_device(&self, device: u64) -> bool {
        let own = *self.own_device.lock().unwrap();
        own.unwrap_or_else(|| self.inner.on_block_device(device))
    }
    fn forks(&self) -> Option<u64> {
        self.inner.forks()
    }
    fn unlock(&self, fd: Fd) {
        self.inner.unlock(fd);
    }
    fn names(&self, dir: Fd) -> Answer<Vec<Vec<u8>>> {
        self.inner.names(dir)
    }
    fn monotonic(&self) -> u64 {
        let frozen = self.frozen.load(Ordering::SeqCst);
        let machine = if frozen { 1 } else { self.inner.monotonic() };
        machine + self.ahead.load(Ordering::SeqCst)
    }
    fn realtime(&self) -> f64 {
        self.inner.realtime()
    }
    fn sleep(&self, nanoseconds: u64) {
        self.inner.sleep(nanoseconds);
    }
    fn random(&self, bytes: &mut [u8]) -> Answer<()> {
        self.inner.random(bytes)
    }
    fn host(&self) -> String {
        self.inner.host()
    }
    fn process(&self) -> u32 {
        match self.pid.load(Ordering::SeqCst) {
            0 => self.inner.process(),
            pid => pid as u32,
        }
    }
}

pub fn coverage(root: &Path) -> Coverage {
    Coverage {
        root: root
            .join(".coverage_owner")
            .into_os_string()
            .into_encoded_bytes(),
        named: Named {
            shards: Some(4),
            ..Named::default()
        },
        shards: 64,
        coordinator: "test".to_string(),
        lock_timeout: 20_000_000_000,
        read_only: false,
    }
}

pub fn options(root: &Path) -> Options {
    let below = |name: &str| Some(root.join(name).into_os_string().into_encoded_bytes());
    Options {
        work_root: below(".work_lease_table"),
        target_root: below(".target_lease_table"),
        named: Named {
            shards: Some(16),
            ..Named::default()
        },
        shards: 256,
        lock_timeout: 20_000_000_000,
        read_only: false,
    }
}

fn engine(root: &Path, sys: &Arc<dyn Sys>) -> Files {
    let files = Files::open(Arc::clone(sys), options(root)).expect("open");
    files
        .with_coverage(Arc::clone(sys), coverage(root))
        .expect("open")
}

/// A clock that the test sets.
pub type Clock = Arc<Mutex<f64>>;

pub fn campaign(root: &Path, owner: &str, clock: &Clock, sys: Arc<dyn Sys>) -> Campaign {
    over(engine(root, &sys), settings(root, owner), clock, sys)
}

/// The same, with a session (D1).
pub fn with_session(root: &Path, owner: &str, clock: &Clock, sys: Arc<dyn Sys>) -> Campaign {
    let engine = engine(root, &sys).with_sessions(owner);
    over(engine, settings(root, owner), clock, sys)
}

/// One that waits for no lock.
pub fn impatient(root: &Path, owner: &str, clock: &Clock, sys: Arc<dyn Sys>) -> Campaign {
    let (mut leases, mut authority) = (options(root), coverage(root));
    leases.lock_timeout = 0;
    authority.lock_timeout = 0;
    let engine = Files::open(Arc::clone(&sys), leases).expect("open");
    let engine = engine.with_coverage(Arc::clone(&sys), authority);
    over(engine.expect("open"), settings(root, owner), clock, sys)
}

/// The same without one, judging by observation.
pub fn observing(root: &Path, owner: &str, clock: &Clock, sys: Arc<dyn Sys>) -> Campaign {
    let settings = Settings {
        observed: true,
        ..settings(root, owner)
    };
    over(engine(root, &sys), settings, clock, sys)
}

fn settings(root: &Path, owner: &str) -> Settings {
    Settings {
        owner: owner.to_string(),
        worker: 0,
        work_ttl: 10.0,
        target_ttl: 10.0,
        base: root.as_os_str().as_encoded_bytes().to_vec(),
        ..Settings::default()
    }
}

fn over(engine: Files, settings: Settings, clock: &Clock, sys: Arc<dyn Sys>) -> Campaign {
    let clock = Arc::clone(clock);
    Campaign::new(
        Box::new(engine),
        settings,
        Store::new(Arc::clone(&sys), true, 0o600),
        Box::new(move || *clock.lock().unwrap()),
        Box::new(move |bytes| {
            sys.random(bytes).expect("getrandom");
            Ok(())
        }),
    )
}

/// A directory on tmpfs where there is one: sweeps over every call sync often.
pub fn fast_root() -> tempfile::TempDir {
    match Path::new("/dev/shm").is_dir() {
        true => tempfile::tempdir_in("/dev/shm").unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

/// Every file below `root`, with its bytes; lock files and identities left out.
pub fn files(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut rest = vec![root.to_path_buf()];
    while let Some(directory) = rest.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else {
            continue;
        };
        for entry in entries.map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                rest.push(entry.path());
            } else if !entry.path().to_string_lossy().ends_with(".lock")
                && entry.file_name() != "symlease.json"
            {
                let bytes = std::fs::read(entry.path()).unwrap();
                found.push((entry.path().to_string_lossy().into_owned(), bytes));
            }
        }
    }
    found.sort();
    found
}
