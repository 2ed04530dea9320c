//! The page that waiters of one host and user share, and the futex in it. It
//! lies under /dev/shm, never in the campaign: a file that somebody truncates
//! kills whoever has it mapped. Everything in it is a hint: flock decides.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::mem::{size_of, MaybeUninit};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

use super::linux::{errno, monotonic, place};
use super::{Errno, Fd, Linux, Open, Sys};

/// How many can wait in the page at once, for all locks together.
pub const SLOTS: usize = 256;

/// The layout below; another one has another name.
const VERSION: u32 = 1;
const MAGIC: u64 = u64::from_ne_bytes(*b"symlease");

/// The file's bytes: whole pages, all of them written when it is made.
const FILE: usize = size_of::<Page>().next_multiple_of(4096);

/// A process that never met contention maps the page at this look all the same
/// (two looks a lock): one that retakes a lock at once meets none (F34).
const EAGER: u32 = 16;

/// After a failure nothing is tried for so many nanoseconds.
const AGAIN: u64 = 10_000_000_000;

/// One waiter.
#[repr(C, align(64))]
pub struct Slot {
    /// A random number of the waiter; 0: free.
    pub owner: AtomicU64,
    /// When it came; the oldest is served first.
    pub ticket: AtomicU64,
    /// When it last showed that it runs.
    pub stamp: AtomicU64,
    /// When it was told that the lock is free; 0: not.
    pub grant: AtomicU64,
    /// What it sleeps on; changed before each wake.
    pub word: AtomicU32,
}

/// The page. Other processes write to it at any time, anything.
#[repr(C)]
pub struct Page {
    magic: AtomicU64,
    version: AtomicU32,
    count: AtomicU32,
    boot: [AtomicU64; 2],
    /// Which lock each slot's owner waits for; 0: none.
    pub keys: [AtomicU64; SLOTS],
    /// The waiters.
    pub slots: [Slot; SLOTS],
}

impl Slot {
    /// Sleeps while `word` is `seen`, so many nanoseconds at the most. False
    /// where the whole time passed.
    pub fn sleep(&self, seen: u32, nanoseconds: u64) -> bool {
        let time = libc::timespec {
            tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
            tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
        };
        let none: *const u32 = std::ptr::null();
        // SAFETY: the word is valid for the program's life, the time for the call's.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.word.as_ptr(),
                libc::FUTEX_WAIT,
                seen,
                &time as *const libc::timespec,
                none,
                0,
            )
        };
        match if answer < 0 { errno().0 } else { 0 } {
            0 | libc::EAGAIN | libc::EINTR => true,
            libc::ETIMEDOUT => false,
            // A sandbox without futexes must not make this a busy loop.
            _ => {
                Linux::new().sleep(nanoseconds);
                false
            }
        }
    }

    /// Wakes its owner.
    pub fn wake(&self) {
        self.word.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the word is valid; waking whoever waits there is harmless.
        unsafe { libc::syscall(libc::SYS_futex, self.word.as_ptr(), libc::FUTEX_WAKE, 1) };
    }
}

/// The mapping, once there is one. Children inherit it; it is never unmapped.
static PAGE: AtomicPtr<Page> = AtomicPtr::new(std::ptr::null_mut());
/// When mapping it last failed.
static FAILED: AtomicU64 = AtomicU64::new(0);
static LOOKS: AtomicU32 = AtomicU32::new(0);
static FOLDER: OnceLock<CString> = OnceLock::new();

/// For tests: another directory than /dev/shm, before the first wait.
#[doc(hidden)]
pub fn place_in(folder: CString) {
    let _ = FOLDER.set(folder);
}

/// The page, mapped at the first contention.
pub(super) fn page(contended: bool) -> Option<&'static Page> {
    let known = PAGE.load(Ordering::Acquire);
    if !known.is_null() {
        // SAFETY: only `map`'s answer is stored, and it is never unmapped.
        return Some(unsafe { &*known });
    }
    if !contended && LOOKS.fetch_add(1, Ordering::Relaxed) % 4096 != EAGER {
        return None;
    }
    let failed = FAILED.load(Ordering::Relaxed);
    if failed != 0 && monotonic().saturating_sub(failed) < AGAIN {
        return None;
    }
    let Ok(mapped) = map() else {
        FAILED.store(monotonic().max(1), Ordering::Relaxed);
        return None;
    };
    let null = std::ptr::null_mut();
    let first = PAGE.compare_exchange(null, mapped, Ordering::AcqRel, Ordering::Acquire);
    let kept = first.map_or_else(
        |other| {
            // SAFETY: this thread's own mapping, which nobody else has seen.
            unsafe { libc::munmap(mapped.cast(), FILE) };
            other
        },
        |_| mapped,
    );
    // SAFETY: as above.
    Some(unsafe { &*kept })
}

const REFUSED: Errno = Errno(libc::EPERM);

/// Opens or makes the file, maps it and closes it.
fn map() -> Result<*mut Page, Errno> {
    let boot = boot()?;
    let folder = FOLDER.get().map_or(c"/dev/shm", CString::as_c_str);
    let sys = Linux::new();
    // SAFETY: geteuid has no precondition.
    let user = unsafe { libc::geteuid() };
    let folder = sys.open(None, folder, Open::Directory, 0)?;
    let text = format!("symlease-{VERSION}-{user}-{:016x}", boot[0] ^ boot[1]);
    let name = CString::new(text).unwrap_or_default();
    let fd = match sys.open(Some(folder), &name, Open::Write, 0) {
        Err(Errno(libc::ENOENT)) => make(&sys, folder, &name, boot),
        other => other,
    };
    sys.close(folder);
    let fd = fd?;
    let mapped = map_open(fd, user, boot);
    sys.close(fd);
    mapped
}

fn map_open(fd: Fd, user: u32, boot: [u64; 2]) -> Result<*mut Page, Errno> {
    let mut raw = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `raw` has room for one stat.
    if unsafe { libc::fstat(fd.0, raw.as_mut_ptr()) } != 0 {
        return Err(errno());
    }
    // SAFETY: a successful fstat filled it.
    let stat = unsafe { raw.assume_init_ref() };
    let ours = stat.st_mode == libc::S_IFREG | 0o600 && stat.st_uid == user && stat.st_nlink == 1;
    if !ours || stat.st_size != FILE as i64 {
        return Err(REFUSED);
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at a place that the kernel chooses.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            FILE,
            access,
            libc::MAP_SHARED,
            fd.0,
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(errno());
    }
    let mapped = at.cast::<Page>();
    // SAFETY: page-aligned, long enough, and all fields are atomics, for which
    // every bit pattern is valid.
    let page = unsafe { &*mapped };
    let right = page.magic.load(Ordering::Relaxed) == MAGIC
        && page.version.load(Ordering::Relaxed) == VERSION
        && page.count.load(Ordering::Relaxed) == SLOTS as u32
        && [0, 1].map(|half| page.boot[half].load(Ordering::Relaxed)) == boot;
    if !right {
        // SAFETY: this mapping alone; `page` is not used again.
        unsafe { libc::munmap(at, FILE) };
        return Err(REFUSED);
    }
    Ok(mapped)
}

/// Makes the file without a name, writes all of it, so that no later access
/// can find the file system full (SIGBUS), and only then names it. Who comes
/// second takes the first one's.
fn make(sys: &Linux, folder: Fd, name: &CStr, boot: [u64; 2]) -> Result<Fd, Errno> {
    let flags = libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC;
    let mode: libc::c_uint = 0o600;
    // SAFETY: a valid C string.
    let fd = unsafe { libc::openat(folder.0, c".".as_ptr(), flags, mode) };
    if fd < 0 {
        return Err(errno());
    }
    let fd = place(fd)?;
    let mut bytes = Vec::with_capacity(FILE);
    bytes.extend_from_slice(&MAGIC.to_ne_bytes());
    bytes.extend_from_slice(&VERSION.to_ne_bytes());
    bytes.extend_from_slice(&(SLOTS as u32).to_ne_bytes());
    bytes.extend(boot.iter().flat_map(|half| half.to_ne_bytes()));
    bytes.resize(FILE, 0);
    let named = fill(sys, fd, &bytes).and_then(|()| {
        let own = CString::new(format!("/proc/self/fd/{}", fd.0)).unwrap_or_default();
        let (from, follow) = (own.as_ptr(), libc::AT_SYMLINK_FOLLOW);
        // SAFETY: both names are valid C strings.
        let linked = unsafe { libc::linkat(libc::AT_FDCWD, from, folder.0, name.as_ptr(), follow) };
        match if linked < 0 { errno().0 } else { 0 } {
            0 => Ok(true),
            libc::EEXIST => Ok(false),
            other => Err(Errno(other)),
        }
    });
    if named == Ok(true) {
        return Ok(fd);
    }
    sys.close(fd);
    named?;
    sys.open(Some(folder), name, Open::Write, 0)
}

fn fill(sys: &Linux, fd: Fd, bytes: &[u8]) -> Result<(), Errno> {
    sys.set_mode(fd, 0o600)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        match sys.write(fd, rest)? {
            0 => return Err(Errno(libc::ENOSPC)),
            count => rest = &rest[count..],
        }
    }
    Ok(())
}

/// The identity of this boot: stamps of another one mean nothing.
fn boot() -> Result<[u64; 2], Errno> {
    let sys = Linux::new();
    let fd = sys.open(None, c"/proc/sys/kernel/random/boot_id", Open::Read, 0)?;
    let mut text = [0u8; 64];
    let count = sys.read_at(fd, &mut text, 0);
    sys.close(fd);
    let digits = text[..count?].iter().filter(|byte| **byte != b'-');
    let number = digits
        .map_while(|byte| char::from(*byte).to_digit(16))
        .fold(0u128, |number, digit| number << 4 | u128::from(digit));
    if number == 0 {
        return Err(REFUSED);
    }
    Ok([(number >> 64) as u64, number as u64])
}
