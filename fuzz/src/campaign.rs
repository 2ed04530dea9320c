//! Two handles on one temporary campaign, through the C calls.

use std::ffi::{c_void, CStr, CString};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use symlease::ffi::campaign::{symlease_close, symlease_open};
use symlease::ffi::constants::*;
use symlease::ffi::library::{symlease_last_error, symlease_options_init};
use symlease::ffi::types::*;

/// Seconds: what both handles' records get, and are judged by.
pub const TTL: f64 = 10.0;
/// The owners of the two handles.
pub const OWNERS: [&str; 2] = ["a", "b"];

/// The time that the clock of both handles shows, as bits of a float.
static NOW: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn clock(_: *mut c_void) -> f64 {
    f64::from_bits(NOW.load(Ordering::Relaxed))
}

/// The campaign and who uses it.
pub struct Bench {
    place: tempfile::TempDir,
    /// Open handles.
    pub handles: [*mut symlease_campaign; 2],
    /// Unix seconds.
    pub now: f64,
}

impl Bench {
    /// A new, empty campaign in memory where there is such a place.
    pub fn new() -> Bench {
        let memory = std::path::Path::new("/dev/shm");
        let builder = tempfile::Builder::new();
        let place = match memory.is_dir() {
            true => builder.tempdir_in(memory),
            false => builder.tempdir(),
        };
        let mut bench = Bench {
            place: place.expect("a temporary directory"),
            handles: [null_mut(); 2],
            now: 0.0,
        };
        bench.advance(1.7e9);
        bench.reopen(0);
        bench.reopen(1);
        bench
    }

    /// Where the campaign lies.
    pub fn path(&self) -> &std::path::Path {
        self.place.path()
    }

    /// Lets time pass.
    pub fn advance(&mut self, seconds: f64) {
        self.now += seconds;
        NOW.store(self.now.to_bits(), Ordering::Relaxed);
    }

    /// Closes a handle and opens it again, as a restarted program.
    pub fn reopen(&mut self, which: usize) {
        let root = self.place.path().to_str().expect("UTF-8");
        let root = CString::new(root).expect("no NUL");
        let owner = CString::new(OWNERS[which]).expect("no NUL");
        // SAFETY: a struct of numbers and pointers; the call fills it.
        let mut options: symlease_options = unsafe { std::mem::zeroed() };
        let size = std::mem::size_of::<symlease_options>();
        // SAFETY: valid for writes of `size` bytes.
        unsafe { symlease_options_init(&mut options, size) };
        options.owner = owner.as_ptr();
        options.work_ttl = TTL;
        options.clock = Some(clock);
        options.lease_shards = 2;
        options.coverage_shards = 3;
        options.durability = SYMLEASE_DURABLE_PROCESS;
        options.session = SYMLEASE_SESSION_NONE;
        // SAFETY: the handle was made by the library, or is NULL; used by nobody else.
        unsafe { symlease_close(self.handles[which]) };
        // SAFETY: all pointers live until the call is over.
        let status = unsafe { symlease_open(root.as_ptr(), &options, &mut self.handles[which]) };
        assert_eq!(status, SYMLEASE_OK, "{}", last_error());
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for handle in self.handles {
            // SAFETY: made by the library, closed once.
            unsafe { symlease_close(handle) };
        }
    }
}

/// The last error's words.
pub fn last_error() -> String {
    // SAFETY: never NULL; valid until this thread's next call.
    let text = unsafe { CStr::from_ptr(symlease_last_error()) };
    text.to_string_lossy().into_owned()
}

/// A lease with this id and token alone, as a restarted program has it.
pub fn lease_of(id: &str, token: &str) -> symlease_lease {
    // SAFETY: a struct of numbers.
    let mut lease: symlease_lease = unsafe { std::mem::zeroed() };
    put(&mut lease.id, id);
    put(&mut lease.token, token);
    lease
}

/// A group with these targets and this token alone.
pub fn group_of(targets: &[u64], token: &str) -> symlease_group {
    // SAFETY: a struct of numbers.
    let mut group: symlease_group = unsafe { std::mem::zeroed() };
    group.targets[..targets.len()].copy_from_slice(targets);
    group.count = targets.len() as u32;
    put(&mut group.token, token);
    group
}

/// Claim options of nothing but defaults.
pub fn claim_options() -> symlease_claim_options {
    symlease_claim_options {
        struct_size: std::mem::size_of::<symlease_claim_options>(),
        owner: null(),
        ttl: 0.0,
        new_ttl: 0.0,
        now: 0.0,
        worker: 0,
        flags: 0,
    }
}

/// A C array's text.
pub fn text(array: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = array.iter().map(|byte| *byte as u8).collect();
    let text = CStr::from_bytes_until_nul(&bytes).expect("an end");
    text.to_str().expect("UTF-8").to_string()
}

fn put(array: &mut [std::ffi::c_char], value: &str) {
    for (to, from) in array.iter_mut().zip(value.bytes()) {
        *to = from as std::ffi::c_char;
    }
}
