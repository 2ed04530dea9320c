//! The descriptors on which this process holds flocks, for the child of a fork
//! to close: flock belongs to the open file description, which the child
//! shares, so a child that lives on would keep a killed parent's lock, and its
//! session, alive (F1, L7, D3).
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::os::raw::c_int;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::Once;

use crate::guard::{on, Guard};

/// How many locks and sessions a process may hold at once and still be sure
/// that a forked child drops its copies of them.
const HELD_MAX: usize = 4096;

struct Slot {
    fd: AtomicI32,
    /// What a descriptor that is kept between calls must still be, for the host
    /// may have closed it and opened something else (F7); 0: within a call.
    device: AtomicU64,
    inode: AtomicU64,
}

static HELD: [Slot; HELD_MAX] = [const {
    Slot {
        fd: AtomicI32::new(-1),
        device: AtomicU64::new(0),
        inode: AtomicU64::new(0),
    }
}; HELD_MAX];

/// How many slots, from the first one on, were ever used. Only those are looked at:
/// under a fork server every run forks, and each page that the child touches of the
/// rest would be copied for nothing (P12).
static USED: AtomicUsize = AtomicUsize::new(0);

/// Forks begun and ended. A lock file opened before one and remembered after it
/// has a copy in the child that the table does not know.
static FORKS: AtomicU64 = AtomicU64::new(0);
static FORKED: AtomicU64 = AtomicU64::new(0);

/// The process that the table belongs to.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// Registers the fork handlers, once.
pub(super) fn start() {
    static FORK: Once = Once::new();
    FORK.call_once(|| {
        OWNER.store(pid(), Ordering::SeqCst);
        // SAFETY: the handlers only use atomics and call close, fstat and
        // getpid, which are async-signal-safe; the library is never unloaded
        // (`-z nodelete`), so the pointers stay good.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    });
}

extern "C" fn before_fork() {
    FORKS.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn after_fork() {
    FORKED.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn in_child() {
    // The other threads' forks do not run here.
    FORKED.store(FORKS.load(Ordering::SeqCst), Ordering::SeqCst);
    OWNER.store(pid(), Ordering::SeqCst);
    for slot in used() {
        let fd = slot.fd.load(Ordering::SeqCst);
        if fd < 0 {
            continue; // a free one names no file: nothing to write, no page to copy
        }
        if slot.still(fd) && on(Guard::ChildCloses) {
            // SAFETY: the descriptor was this library's in the parent, and the
            // child has run nothing yet that could have closed it.
            unsafe { libc::close(fd) };
        }
        slot.clear(fd);
    }
}

/// The slots that may hold anything.
fn used() -> &'static [Slot] {
    &HELD[..USED.load(Ordering::SeqCst).min(HELD_MAX)]
}

impl Slot {
    fn is(&self, fd: c_int) -> bool {
        self.fd.load(Ordering::SeqCst) == fd
    }

    /// Empties the slot; the next one to use it finds no file named.
    fn clear(&self, fd: c_int) -> bool {
        self.inode.store(0, Ordering::SeqCst);
        let free = self
            .fd
            .compare_exchange(fd, -1, Ordering::SeqCst, Ordering::Relaxed);
        free.is_ok()
    }

    /// Whether the descriptor is still the file that was remembered.
    fn still(&self, fd: c_int) -> bool {
        let inode = self.inode.load(Ordering::SeqCst);
        if inode == 0 {
            return true;
        }
        let mut raw = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: `raw` has room for one stat.
        if unsafe { libc::fstat(fd, raw.as_mut_ptr()) } != 0 {
            return false;
        }
        // SAFETY: a successful fstat filled it.
        let raw = unsafe { raw.assume_init() };
        raw.st_ino == inode && raw.st_dev == self.device.load(Ordering::SeqCst)
    }
}

/// The calling process.
pub(super) fn pid() -> i32 {
    // SAFETY: getpid has no precondition.
    unsafe { libc::getpid() }
}

/// Whether the table is this process's: a child that was made without the
/// handlers has its parent's.
pub(super) fn is_ours() -> bool {
    OWNER.load(Ordering::SeqCst) == pid()
}

/// How many times this process has begun to fork; `None` while a fork runs.
pub(super) fn forks() -> Option<u64> {
    let ended = FORKED.load(Ordering::SeqCst);
    Some(FORKS.load(Ordering::SeqCst)).filter(|begun| *begun == ended)
}

/// Puts a descriptor into the table. A full table refuses: a lock that a child
/// would keep alive is worse than none.
pub(super) fn remember(fd: c_int) -> bool {
    HELD.iter().enumerate().any(|(at, slot)| {
        // First: a fork right after the exchange must find it.
        USED.fetch_max(at + 1, Ordering::SeqCst);
        slot.fd
            .compare_exchange(-1, fd, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    })
}

/// From now on the descriptor is kept between calls, as this file.
pub(super) fn keep(fd: c_int, device: u64, inode: u64) {
    let within = |slot: &&Slot| slot.is(fd) && slot.inode.load(Ordering::SeqCst) == 0;
    if let Some(slot) = used().iter().find(within) {
        slot.device.store(device, Ordering::SeqCst);
        slot.inode.store(inode, Ordering::SeqCst);
    }
}

/// The host has closed what was kept as this file. The number may stand in the
/// table once more by now, as another file.
pub(super) fn disown(fd: c_int, device: u64, inode: u64) {
    let kept = |slot: &&Slot| {
        slot.is(fd)
            && slot.inode.load(Ordering::SeqCst) == inode
            && slot.device.load(Ordering::SeqCst) == device
    };
    if let Some(slot) = used().iter().find(kept) {
        slot.clear(fd);
    }
}

/// Whether the descriptor is in the table. Not in a child that has closed it.
pub(super) fn is_held(fd: c_int) -> bool {
    used().iter().any(|slot| slot.is(fd))
}

/// Takes it out again: the entry of a call, else the kept one. False in a child
/// that has closed it already.
pub(super) fn forget(fd: c_int) -> bool {
    let within = |slot: &&Slot| slot.is(fd) && slot.inode.load(Ordering::SeqCst) == 0;
    let found = used().iter().find(within);
    let found = found.or_else(|| used().iter().find(|slot| slot.is(fd)));
    found.is_some_and(|slot| slot.clear(fd))
}
