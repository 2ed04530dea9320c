//! The system calls that the directory engines make, as one trait, so that a
//! simulated kernel can stand in for the real one.

mod held;
pub mod known;
mod linux;
mod machine;
pub mod probe;
mod quiet;
mod scan;
#[cfg(feature = "simulation")]
pub mod sim;
pub mod waiters;

pub use linux::Linux;
use std::ffi::CStr;

use crate::guard::{on, Guard};

/// An open descriptor. Copying it does not duplicate it; who opened it closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fd(pub i32);

/// An error number of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// The answer of a system call.
pub type Answer<T> = std::result::Result<T, Errno>;

/// What kind of file a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// Anything else: symbolic link, FIFO, socket, device.
    Other,
}

/// What the engines need to know of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The device it lies on.
    pub device: u64,
    /// Its number there; with the device, its identity (L5).
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// What it is.
    pub kind: FileKind,
}

/// How a file is opened. Never follows a symbolic link in the last component
/// (L6), never blocks on a FIFO, never survives `exec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// For reading.
    Read,
    /// For reading and writing; it must exist (F25).
    Write,
    /// For reading and writing; made when absent.
    Create,
    /// For writing; must not exist.
    CreateNew,
    /// A directory; a link to one will do.
    Directory,
    /// A directory, and no link to one (F13).
    Folder,
}

/// The system. All paths are absolute, or relative to `dir`.
pub trait Sys: Send + Sync {
    /// openat(2). Never answers a descriptor below 3, nor 198 or 199 (F6).
    fn open(&self, dir: Option<Fd>, path: &CStr, how: Open, mode: u32) -> Answer<Fd>;
    /// close(2) of what was not written: there is nothing to go wrong.
    fn close(&self, fd: Fd);
    /// close(2) of a file that was written: where nothing syncs, a network file
    /// system may say only here that the bytes were not taken (F16).
    fn close_written(&self, fd: Fd) -> Answer<()> {
        self.close(fd);
        Ok(())
    }
    /// fstat(2).
    fn stat(&self, fd: Fd) -> Answer<Stat>;
    /// fstatat(2) without following links.
    fn stat_at(&self, dir: Fd, name: &CStr) -> Answer<Stat>;
    /// One pread(2) at `offset`; 0 at the end.
    fn read_at(&self, fd: Fd, bytes: &mut [u8], offset: u64) -> Answer<usize>;
    /// One write(2); may be short. Raises no SIGXFSZ (F8).
    fn write(&self, fd: Fd, bytes: &[u8]) -> Answer<usize>;
    /// fsync(2). Never called again on a descriptor on which it failed (F17).
    fn sync(&self, fd: Fd) -> Answer<()>;
    /// renameat(2) within one directory.
    fn rename(&self, dir: Fd, from: &CStr, to: &CStr) -> Answer<()>;
    /// linkat(2): gives a file a second name, never over another.
    fn link(&self, from_dir: Fd, from: &CStr, to_dir: Fd, to: &CStr) -> Answer<()>;
    /// unlinkat(2).
    fn unlink(&self, dir: Fd, name: &CStr) -> Answer<()>;
    /// mkdirat(2) and, where `mode` asks for more than the umask left, chmod.
    fn make_directory(&self, dir: Option<Fd>, path: &CStr, mode: u32) -> Answer<()>;
    /// fchmod(2).
    fn set_mode(&self, fd: Fd, mode: u32) -> Answer<()>;
    /// flock(2), exclusive, without waiting. ECHILD, and nothing locked, when
    /// this process began to fork since `forks`, which [`Sys::forks`] answered
    /// before the descriptor was opened: the child's copy of it would keep the
    /// lock alive (F1).
    fn lock(&self, fd: Fd, forks: Option<u64>) -> Answer<()>;
    /// flock(2), shared, without waiting: only for looking whether a session
    /// lives (D2).
    fn lock_shared(&self, fd: Fd, forks: Option<u64>) -> Answer<()> {
        self.lock(fd, forks)
    }
    /// The lock on this descriptor is kept between calls. The host may close
    /// it: nothing is done to the descriptor once it is another file (F7).
    fn keep(&self, _fd: Fd, _stat: &Stat) {}
    /// The descriptor is not ours any more: the host closed it (F7).
    fn disown(&self, _fd: Fd, _stat: &Stat) {}
    /// How many times this process has begun to fork; `None` while a fork runs.
    fn forks(&self) -> Option<u64> {
        Some(0)
    }
    /// The page in which waiters queue, where there is one (L8). Without
    /// contention no system call is made for it, but one time in each process.
    fn waiters(&self, _contended: bool) -> Option<&'static waiters::Page> {
        None
    }
    /// Frees the lock and closes. In a forked child it only closes (F2).
    fn unlock(&self, fd: Fd);
    /// All names in a directory, `.` and `..` left out.
    fn names(&self, dir: Fd) -> Answer<Vec<Vec<u8>>>;
    /// CLOCK_MONOTONIC in nanoseconds.
    fn monotonic(&self) -> u64;
    /// CLOCK_REALTIME in seconds.
    fn realtime(&self) -> f64;
    /// Sleeps so many nanoseconds, or less when a signal comes.
    fn sleep(&self, nanoseconds: u64);
    /// getrandom(2).
    fn random(&self, bytes: &mut [u8]) -> Answer<()>;
    /// gethostname(2), as text.
    fn host(&self) -> String;
    /// getpid(2).
    fn process(&self) -> u32;
    /// The kernel's boot id, random at each boot; empty where there is none.
    fn boot(&self) -> String {
        String::new()
    }
    /// Whether a device number is a block device of this machine, so that no
    /// other machine's processes can have files on it open.
    fn on_block_device(&self, _device: u64) -> bool {
        false
    }
}

/// Makes a call again when a signal interrupts it.
fn retried<T>(mut call: impl FnMut() -> Answer<T>) -> Answer<T> {
    loop {
        match call() {
            Err(Errno(libc::EINTR)) if on(Guard::Interrupted) => {}
            other => return other,
        }
    }
}

/// Whether no fork has begun between two looks at how many there were.
fn unforked(then: Option<u64>, now: Option<u64>) -> bool {
    then.is_some() && then == now || !on(Guard::LockForked)
}

/// The name of an error number, where it is one that these calls give.
pub fn errno_name(errno: i32) -> &'static str {
    match errno {
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::EINTR => "EINTR",
        libc::EIO => "EIO",
        libc::EBADF => "EBADF",
        libc::EAGAIN => "EAGAIN",
        libc::ENOMEM => "ENOMEM",
        libc::EACCES => "EACCES",
        libc::EEXIST => "EEXIST",
        libc::EXDEV => "EXDEV",
        libc::ENOTDIR => "ENOTDIR",
        libc::EISDIR => "EISDIR",
        libc::EINVAL => "EINVAL",
        libc::ENFILE => "ENFILE",
        libc::EMFILE => "EMFILE",
        libc::EFBIG => "EFBIG",
        libc::ENOSPC => "ENOSPC",
        libc::EROFS => "EROFS",
        libc::ENAMETOOLONG => "ENAMETOOLONG",
        libc::ENOLCK => "ENOLCK",
        libc::ENOSYS => "ENOSYS",
        libc::ENOTEMPTY => "ENOTEMPTY",
        libc::ELOOP => "ELOOP",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::ESTALE => "ESTALE",
        libc::EDQUOT => "EDQUOT",
        libc::ENXIO => "ENXIO",
        _ => "an error without a name here",
    }
}
