//! Tries a real directory in child processes: what the protocol needs of a file
//! system, and whether a call blocks in the kernel (L3). A child may only make
//! system calls: the host can have threads that hold any lock at the fork.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::os::raw::c_int;

use super::linux::{monotonic, place};

/// What is tried, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Step {
    /// A directory is made.
    MakeDirectory,
    /// A file is written and synced.
    FileSync,
    /// A directory is synced.
    DirectorySync,
    /// A rename replaces a file in the same directory, whole.
    Replace,
    /// A file gets a second name.
    Link,
    /// A link never replaces a file.
    NoReplace,
    /// A name goes away.
    Unlink,
    /// Another process cannot take a lock that is held.
    Exclusion,
    /// A lock is free once its holder was killed.
    Release,
}

/// All steps, in order.
pub const STEPS: [Step; 9] = [
    Step::MakeDirectory,
    Step::FileSync,
    Step::DirectorySync,
    Step::Replace,
    Step::Link,
    Step::NoReplace,
    Step::Unlink,
    Step::Exclusion,
    Step::Release,
];

/// What a step showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It holds.
    Proven,
    /// It does not; the error number, or 0 where nothing failed but it is wrong.
    Failed(i32),
    /// The call did not come back in time.
    Blocked,
    /// Not tried: an earlier step did not come back.
    Skipped,
}

/// The names of one probe, made before any child: a child may not allocate.
struct Names {
    directory: CString,
    first: CString,
    second: CString,
    lock: CString,
}

/// Tries `root` for at most `timeout` nanoseconds. `random` makes the names
/// unique. Answers one finding a step, or an error number where no child could
/// be made.
pub fn run(root: &CStr, random: &str, timeout: u64) -> Result<[Finding; STEPS.len()], i32> {
    let at = |name: &str| {
        let path = [
            root.to_bytes(),
            b"/.symlease-probe.",
            random.as_bytes(),
            name.as_bytes(),
        ];
        CString::new(path.concat()).map_err(|_| libc::EINVAL)
    };
    let names = Names {
        directory: at("")?,
        first: at("/a")?,
        second: at("/b")?,
        lock: at("/lock")?,
    };
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors.
    call(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    for end in &mut ends {
        *end = place(*end).map_err(|errno| errno.0)?.0;
    }
    let child = fork();
    if child == 0 {
        run_steps(&names, ends[1]);
        exit(0);
    }
    close(ends[1]);
    let findings = match child {
        -1 => Err(errno()),
        child => {
            let findings = collect(ends[0], monotonic().saturating_add(timeout));
            // A child that the kernel holds cannot be waited for, and its files
            // cannot be touched without being held as well.
            if end(child) {
                clean(&names);
            }
            Ok(findings)
        }
    };
    close(ends[0]);
    findings
}

/// Reads findings until the child ends or the time is over.
fn collect(from: c_int, deadline: u64) -> [Finding; STEPS.len()] {
    let mut findings = [Finding::Skipped; STEPS.len()];
    for finding in &mut findings {
        let left = deadline.saturating_sub(monotonic()) / 1_000_000;
        let mut poll = libc::pollfd {
            fd: from,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid pollfd.
        let ready = unsafe { libc::poll(&mut poll, 1, left.min(60_000) as c_int) };
        let mut record = [0u8; 4];
        if ready <= 0 {
            *finding = Finding::Blocked;
            break;
        }
        // SAFETY: the buffer has four bytes; a pipe's writes of four are whole.
        if unsafe { libc::read(from, record.as_mut_ptr().cast(), 4) } != 4 {
            *finding = Finding::Failed(libc::ECHILD);
            break;
        }
        *finding = match i32::from_ne_bytes(record) {
            -1 => Finding::Proven,
            number => Finding::Failed(number),
        };
    }
    findings
}

/// In the child: every step, its finding written as four bytes.
fn run_steps(names: &Names, to: c_int) {
    for step in STEPS {
        let found: c_int = match try_step(step, names) {
            Ok(()) => -1,
            Err(number) => number,
        };
        let record = found.to_ne_bytes();
        // SAFETY: four valid bytes.
        unsafe { libc::write(to, record.as_ptr().cast(), 4) };
    }
}

fn try_step(step: Step, names: &Names) -> Result<(), c_int> {
    let (first, second) = (names.first.as_ptr(), names.second.as_ptr());
    // SAFETY: every pointer below is a C string of `names`; these calls only
    // touch the probe's own files.
    unsafe {
        match step {
            Step::MakeDirectory => call(libc::mkdir(names.directory.as_ptr(), 0o700)),
            Step::FileSync => write_file(&names.first, b'1'),
            Step::DirectorySync => {
                let fd = open(&names.directory, libc::O_RDONLY | libc::O_DIRECTORY)?;
                let synced = call(libc::fsync(fd));
                close(fd);
                synced
            }
            Step::Replace => {
                write_file(&names.second, b'2')?;
                call(libc::rename(second, first))?;
                let fd = open(&names.first, libc::O_RDONLY)?;
                let mut byte = [0u8];
                let count = libc::read(fd, byte.as_mut_ptr().cast(), 1);
                close(fd);
                expect(count == 1 && byte == *b"2")
            }
            Step::Link => call(libc::link(first, second)),
            Step::NoReplace => match call(libc::link(first, second)) {
                Err(libc::EEXIST) => Ok(()),
                other => other.and(Err(0)),
            },
            Step::Unlink => {
                call(libc::unlink(second))?;
                expect(libc::access(second, libc::F_OK) != 0 && errno() == libc::ENOENT)
            }
            Step::Exclusion => exclusion(names),
            Step::Release => release(names),
        }
    }
}

/// While this process holds the lock, another must be told EAGAIN or EACCES.
fn exclusion(names: &Names) -> Result<(), c_int> {
    let fd = open(&names.lock, libc::O_RDWR | libc::O_CREAT)?;
    // SAFETY: a plain call on our own descriptor.
    call(unsafe { libc::flock(fd, libc::LOCK_EX | libc::LOCK_NB) })?;
    let other = fork();
    if other == 0 {
        // Its own open file description: an inherited one would share the lock.
        let taken = open(&names.lock, libc::O_RDWR).and_then(|fd| {
            // SAFETY: as above.
            call(unsafe { libc::flock(fd, libc::LOCK_EX | libc::LOCK_NB) })
        });
        exit(match taken {
            Err(libc::EAGAIN | libc::EACCES) => 1,
            _ => 2,
        });
    }
    let told = wait(other);
    close(fd);
    expect(told == Some(1))
}

/// A holder is killed; its lock must be free within the probe's time.
fn release(names: &Names) -> Result<(), c_int> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors.
    call(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    let holder = fork();
    if holder == 0 {
        let held = open(&names.lock, libc::O_RDWR).and_then(|fd| {
            // SAFETY: a plain call on its own descriptor.
            call(unsafe { libc::flock(fd, libc::LOCK_EX | libc::LOCK_NB) })
        });
        let byte = [u8::from(held.is_ok())];
        // SAFETY: one valid byte.
        unsafe { libc::write(ends[1], byte.as_ptr().cast(), 1) };
        loop {
            // SAFETY: waits to be killed.
            unsafe { libc::pause() };
        }
    }
    let mut byte = [0u8];
    // SAFETY: one valid byte.
    unsafe { libc::read(ends[0], byte.as_mut_ptr().cast(), 1) };
    end(holder);
    close(ends[0]);
    close(ends[1]);
    expect(byte == [1])?;
    let fd = open(&names.lock, libc::O_RDWR)?;
    loop {
        // SAFETY: a plain call on our own descriptor.
        match call(unsafe { libc::flock(fd, libc::LOCK_EX | libc::LOCK_NB) }) {
            Err(libc::EAGAIN | libc::EACCES) => pause(),
            other => return other,
        }
    }
}

fn write_file(path: &CStr, byte: u8) -> Result<(), c_int> {
    let fd = open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL)?;
    // SAFETY: one valid byte, our own descriptor.
    let written = unsafe {
        match libc::write(fd, [byte].as_ptr().cast(), 1) {
            1 => call(libc::fsync(fd)),
            _ => Err(errno()),
        }
    };
    close(fd);
    written
}

fn open(path: &CStr, flags: c_int) -> Result<c_int, c_int> {
    let mode: libc::c_uint = 0o600;
    // SAFETY: a valid C string.
    let fd = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, mode) };
    call(fd).map(|()| fd)
}

fn close(fd: c_int) {
    // SAFETY: callers own the descriptor.
    unsafe { libc::close(fd) };
}

fn clean(names: &Names) {
    // SAFETY: every pointer is a C string; missing files do not matter.
    unsafe {
        for path in [&names.first, &names.second, &names.lock] {
            libc::unlink(path.as_ptr());
        }
        libc::rmdir(names.directory.as_ptr());
    }
}

/// A child that sends the host no SIGCHLD, runs no fork handler, and ends with
/// its parent. It may only make system calls.
fn fork() -> libc::pid_t {
    let none: usize = 0;
    // SAFETY: clone without any flag copies the process, as fork does.
    let child = unsafe { libc::syscall(libc::SYS_clone, none, none, none, none, none) };
    if child == 0 {
        // SAFETY: a plain call.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    }
    child as libc::pid_t
}

/// Kills and buries a child; false where it did not end within 100 ms.
fn end(child: libc::pid_t) -> bool {
    // SAFETY: our own child, not yet waited for.
    unsafe { libc::kill(child, libc::SIGKILL) };
    for _ in 0..100 {
        let mut status = 0;
        // SAFETY: `status` has room; __WALL also finds children without a signal.
        let found = unsafe { libc::waitpid(child, &mut status, libc::__WALL | libc::WNOHANG) };
        if found == child || (found < 0 && errno() != libc::EINTR) {
            return true;
        }
        pause();
    }
    false
}

/// A millisecond.
fn pause() {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    // SAFETY: a valid time; the rest is not wanted.
    unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
}

/// A child's exit status; `None` where it was killed.
fn wait(child: libc::pid_t) -> Option<c_int> {
    let mut status = 0;
    // SAFETY: `status` has room; __WALL also finds children without a signal.
    while unsafe { libc::waitpid(child, &mut status, libc::__WALL) } < 0 {
        if errno() != libc::EINTR {
            return None;
        }
    }
    libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status))
}

fn exit(status: c_int) -> ! {
    // SAFETY: ends this child at once, without the host's exit handlers.
    unsafe { libc::_exit(status) }
}

fn call(answer: c_int) -> Result<(), c_int> {
    if answer < 0 {
        return Err(errno());
    }
    Ok(())
}

fn expect(holds: bool) -> Result<(), c_int> {
    if holds {
        return Ok(());
    }
    Err(0)
}

fn errno() -> c_int {
    super::linux::errno().0
}
