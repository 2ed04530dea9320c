//! The real system calls. The only module that makes them.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::raw::c_int;

use super::held::{self, forget, pid, remember};
use super::machine;
use super::quiet::Quiet;
use super::{waiters, Answer, Errno, Fd, FileKind, Open, Stat, Sys};

/// Linux, as it is.
#[derive(Clone, Copy, Debug)]
pub struct Linux(());

impl Linux {
    /// The system. The first call registers the fork handler.
    pub fn new() -> Linux {
        held::start();
        Linux(())
    }
}

impl Default for Linux {
    fn default() -> Self {
        Linux::new()
    }
}

pub(super) fn errno() -> Errno {
    // SAFETY: the location of errno is always valid for the calling thread.
    Errno(unsafe { *libc::__errno_location() })
}

/// Runs a call that answers -1 on failure, again when a signal interrupts it.
fn retry(mut call: impl FnMut() -> i64) -> Answer<i64> {
    super::retried(|| match call() {
        answer if answer >= 0 => Ok(answer),
        _ => Err(errno()),
    })
}

fn done(call: impl FnMut() -> i64) -> Answer<()> {
    retry(call).map(|_| ())
}

fn at(dir: Option<Fd>) -> c_int {
    dir.map_or(libc::AT_FDCWD, |fd| fd.0)
}

/// Moves a descriptor off the numbers that belong to the host: standard input
/// to error, and the AFL fork server's 198 and 199 (F6).
pub(super) fn place(fd: c_int) -> Answer<Fd> {
    if fd > 2 && fd != 198 && fd != 199 {
        return Ok(Fd(fd));
    }
    let low = if fd < 3 { 3 } else { 200 };
    // SAFETY: duplicating and closing a descriptor that was just opened here.
    let moved = retry(|| unsafe { i64::from(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, low)) });
    // SAFETY: as above; nobody else knows this descriptor.
    unsafe { libc::close(fd) };
    let moved = moved? as c_int;
    if moved == 198 || moved == 199 {
        return place(moved);
    }
    Ok(Fd(moved))
}

fn to_stat(raw: &libc::stat) -> Stat {
    let kind = match raw.st_mode & libc::S_IFMT {
        libc::S_IFREG => FileKind::Regular,
        libc::S_IFDIR => FileKind::Directory,
        _ => FileKind::Other,
    };
    Stat {
        device: raw.st_dev,
        inode: raw.st_ino,
        size: raw.st_size.max(0) as u64,
        kind,
    }
}

/// Takes a lock without waiting. Remembered before it is taken: a fork in
/// between must find it.
fn flock(fd: Fd, how: c_int, forks: Option<u64>) -> Answer<()> {
    if !remember(fd.0) {
        return Err(Errno(libc::ENOLCK));
    }
    // Asked after it is remembered, and before it is locked: the child of any
    // later fork closes its copy, and whoever is killed here has locked nothing.
    let taken = match super::unforked(forks, held::forks()) {
        // SAFETY: a plain call on a descriptor of the caller.
        true => done(|| unsafe { i64::from(libc::flock(fd.0, how | libc::LOCK_NB)) }),
        false => Err(Errno(libc::ECHILD)),
    };
    if taken.is_err() {
        forget(fd.0);
    }
    taken
}

impl Sys for Linux {
    fn open(&self, dir: Option<Fd>, path: &CStr, how: Open, mode: u32) -> Answer<Fd> {
        let flags = libc::O_CLOEXEC
            | match how {
                Open::Read => libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK,
                Open::Write => libc::O_RDWR | libc::O_NOFOLLOW | libc::O_NONBLOCK,
                Open::Create => libc::O_RDWR | libc::O_CREAT | libc::O_NOFOLLOW | libc::O_NONBLOCK,
                Open::CreateNew => libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW,
                Open::Directory => libc::O_RDONLY | libc::O_DIRECTORY,
                Open::Folder => libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW,
            };
        // SAFETY: `path` is a valid C string for the call's duration.
        let fd = retry(|| unsafe {
            i64::from(libc::openat(
                at(dir),
                path.as_ptr(),
                flags,
                mode as libc::c_uint,
            ))
        })?;
        place(fd as c_int)
    }

    fn close(&self, fd: Fd) {
        // SAFETY: callers own the descriptor they pass.
        unsafe { libc::close(fd.0) };
    }

    fn close_written(&self, fd: Fd) -> Answer<()> {
        // SAFETY: callers own the descriptor they pass. Interrupted or failed, it
        // is closed: a second close could hit another thread's descriptor.
        match unsafe { libc::close(fd.0) } {
            0 => Ok(()),
            _ => Some(errno())
                .filter(|error| error.0 != libc::EINTR)
                .map_or(Ok(()), Err),
        }
    }

    fn stat(&self, fd: Fd) -> Answer<Stat> {
        let mut raw = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: `raw` has room for one stat.
        done(|| unsafe { i64::from(libc::fstat(fd.0, raw.as_mut_ptr())) })?;
        // SAFETY: a successful fstat filled it.
        Ok(to_stat(unsafe { raw.assume_init_ref() }))
    }

    fn stat_at(&self, dir: Fd, name: &CStr) -> Answer<Stat> {
        let mut raw = MaybeUninit::<libc::stat>::uninit();
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        // SAFETY: `name` is a valid C string and `raw` has room for one stat.
        done(|| unsafe {
            i64::from(libc::fstatat(dir.0, name.as_ptr(), raw.as_mut_ptr(), flags))
        })?;
        // SAFETY: a successful fstatat filled it.
        Ok(to_stat(unsafe { raw.assume_init_ref() }))
    }

    fn read_at(&self, fd: Fd, bytes: &mut [u8], offset: u64) -> Answer<usize> {
        let place = i64::try_from(offset).map_err(|_| Errno(libc::EINVAL))?;
        // SAFETY: the buffer is valid for its length.
        let count = retry(|| unsafe {
            libc::pread(fd.0, bytes.as_mut_ptr().cast(), bytes.len(), place) as i64
        })?;
        Ok(count as usize)
    }

    fn write(&self, fd: Fd, bytes: &[u8]) -> Answer<usize> {
        let quiet = Quiet::new();
        // SAFETY: the buffer is valid for its length.
        let count =
            retry(|| unsafe { libc::write(fd.0, bytes.as_ptr().cast(), bytes.len()) as i64 });
        drop(quiet);
        Ok(count? as usize)
    }

    fn sync(&self, fd: Fd) -> Answer<()> {
        // SAFETY: a plain call on a descriptor of the caller.
        done(|| unsafe { i64::from(libc::fsync(fd.0)) })
    }

    fn rename(&self, dir: Fd, from: &CStr, to: &CStr) -> Answer<()> {
        // SAFETY: both names are valid C strings.
        done(|| unsafe { i64::from(libc::renameat(dir.0, from.as_ptr(), dir.0, to.as_ptr())) })
    }

    fn link(&self, from_dir: Fd, from: &CStr, to_dir: Fd, to: &CStr) -> Answer<()> {
        let (from, to) = (from.as_ptr(), to.as_ptr());
        // SAFETY: both names are valid C strings.
        done(|| unsafe { i64::from(libc::linkat(from_dir.0, from, to_dir.0, to, 0)) })
    }

    fn unlink(&self, dir: Fd, name: &CStr) -> Answer<()> {
        // SAFETY: the name is a valid C string.
        done(|| unsafe { i64::from(libc::unlinkat(dir.0, name.as_ptr(), 0)) })
    }

    fn make_directory(&self, dir: Option<Fd>, path: &CStr, mode: u32) -> Answer<()> {
        // SAFETY: the path is a valid C string.
        done(|| unsafe { i64::from(libc::mkdirat(at(dir), path.as_ptr(), mode)) })
    }

    fn set_mode(&self, fd: Fd, mode: u32) -> Answer<()> {
        // SAFETY: a plain call on a descriptor of the caller.
        done(|| unsafe { i64::from(libc::fchmod(fd.0, mode)) })
    }

    fn lock(&self, fd: Fd, forks: Option<u64>) -> Answer<()> {
        flock(fd, libc::LOCK_EX, forks)
    }

    fn lock_shared(&self, fd: Fd, forks: Option<u64>) -> Answer<()> {
        flock(fd, libc::LOCK_SH, forks)
    }

    fn keep(&self, fd: Fd, stat: &Stat) {
        held::keep(fd.0, stat.device, stat.inode);
    }

    fn disown(&self, fd: Fd, stat: &Stat) {
        held::disown(fd.0, stat.device, stat.inode);
    }

    fn forks(&self) -> Option<u64> {
        held::forks()
    }

    fn waiters(&self, contended: bool) -> Option<&'static waiters::Page> {
        waiters::page(contended)
    }

    fn unlock(&self, fd: Fd) {
        // In a forked child the handler closed it; the number may be the host's now.
        if !held::is_held(fd.0) {
            return;
        }
        if held::is_ours() {
            // SAFETY: the descriptor is this process's. LOCK_UN frees the lock
            // even while a just-forked child still has a copy.
            unsafe { libc::flock(fd.0, libc::LOCK_UN) };
        }
        // Forgotten last: a child forked until here closes its copy.
        if forget(fd.0) {
            self.close(fd);
        }
    }

    fn names(&self, dir: Fd) -> Answer<Vec<Vec<u8>>> {
        let own = self.open(Some(dir), c".", Open::Directory, 0)?;
        // SAFETY: `own` is a fresh directory descriptor, which the stream takes.
        let stream = unsafe { libc::fdopendir(own.0) };
        if stream.is_null() {
            let error = errno();
            self.close(own);
            return Err(error);
        }
        let mut names = Vec::new();
        let end = loop {
            // SAFETY: errno's location is valid; readdir tells an error from
            // the end by it alone.
            unsafe { *libc::__errno_location() = 0 };
            // SAFETY: the stream is open and used by this thread only.
            let entry = unsafe { libc::readdir(stream) };
            if entry.is_null() {
                break errno();
            }
            // SAFETY: an entry's name is a C string until the next readdir.
            let name = unsafe { CStr::from_ptr((*entry).d_name.as_ptr()) }.to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        };
        // SAFETY: closes the stream and its descriptor once.
        unsafe { libc::closedir(stream) };
        if end.0 != 0 {
            return Err(end);
        }
        Ok(names)
    }

    fn monotonic(&self) -> u64 {
        monotonic()
    }

    fn realtime(&self) -> f64 {
        let (seconds, nanoseconds) = clock(libc::CLOCK_REALTIME);
        seconds as f64 + nanoseconds as f64 / 1e9
    }

    fn sleep(&self, nanoseconds: u64) {
        let time = libc::timespec {
            tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
            tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: `time` is valid; the rest is not wanted.
        unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
    }

    fn random(&self, bytes: &mut [u8]) -> Answer<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            let rest = &mut bytes[filled..];
            // SAFETY: the buffer is valid for its length.
            let count = retry(|| unsafe {
                libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) as i64
            })?;
            filled += count as usize;
        }
        Ok(())
    }

    fn host(&self) -> String {
        let mut name = [0u8; 256];
        // SAFETY: the buffer is valid for one less than its length: it ends in NUL.
        unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(0);
        String::from_utf8_lossy(&name[..end]).into_owned()
    }

    fn process(&self) -> u32 {
        pid() as u32
    }

    fn boot(&self) -> String {
        machine::boot(self)
    }

    fn on_block_device(&self, device: u64) -> bool {
        machine::on_block_device(self, device)
    }
}

/// CLOCK_MONOTONIC in nanoseconds.
pub(super) fn monotonic() -> u64 {
    let (seconds, nanoseconds) = clock(libc::CLOCK_MONOTONIC);
    (seconds.max(0) as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds as u64)
}

fn clock(which: libc::clockid_t) -> (i64, i64) {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` has room for the answer; both clocks exist on Linux.
    unsafe { libc::clock_gettime(which, &mut time) };
    (time.tv_sec, time.tv_nsec)
}
