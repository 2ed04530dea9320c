//! What can go wrong at a system call.

/// The kinds of system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// openat of what is there.
    Open,
    /// openat that may make a file.
    Create,
    /// close.
    Close,
    /// fstat, fstatat.
    Stat,
    /// pread.
    Read,
    /// write.
    Write,
    /// fsync.
    Sync,
    /// renameat.
    Rename,
    /// linkat.
    Link,
    /// unlinkat.
    Unlink,
    /// mkdirat.
    MakeDirectory,
    /// fchmod.
    SetMode,
    /// flock.
    Lock,
    /// flock with LOCK_UN, and close.
    Unlock,
    /// A listing begins.
    List,
    /// A listing ends.
    Listed,
    /// getrandom.
    Random,
    /// nanosleep.
    Sleep,
}

/// What happens at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails, without effect.
    Error(i32),
    /// A write takes only a part.
    Short,
    /// The process dies before it.
    Die,
}

/// The error numbers that a schedule may ask for.
pub const ERRNOS: [i32; 12] = [
    libc::EIO,
    libc::ENOSPC,
    libc::EDQUOT,
    libc::EINTR,
    libc::EMFILE,
    libc::ENFILE,
    libc::ENOMEM,
    libc::EACCES,
    libc::EROFS,
    libc::ENOLCK,
    libc::ESTALE,
    libc::EAGAIN,
];

/// Whether a kernel could answer this error to that call.
pub fn plausible(call: Call, errno: i32) -> bool {
    let space = matches!(errno, libc::ENOSPC | libc::EDQUOT);
    let table = matches!(errno, libc::EMFILE | libc::ENFILE | libc::ENOMEM);
    let access = matches!(errno, libc::EACCES | libc::EROFS);
    let always = matches!(errno, libc::EIO | libc::ESTALE);
    match call {
        Call::Open => always || table || errno == libc::EACCES || errno == libc::EINTR,
        Call::Create => always || table || access || space || errno == libc::EINTR,
        Call::Stat | Call::Read => always || errno == libc::ENOMEM || errno == libc::EINTR,
        Call::Write => always || space || errno == libc::EINTR,
        Call::Sync => errno == libc::EIO || space || errno == libc::EINTR,
        Call::Rename | Call::Link | Call::MakeDirectory => always || space || access,
        Call::Unlink => always || access,
        Call::SetMode => always || errno == libc::EROFS,
        Call::Lock => {
            matches!(errno, libc::ENOLCK | libc::EAGAIN | libc::EINTR) || errno == libc::EIO
        }
        Call::List => always || table || errno == libc::EACCES,
        Call::Random => errno == libc::EINTR || errno == libc::EIO,
        Call::Close | Call::Unlock | Call::Listed | Call::Sleep => false,
    }
}
