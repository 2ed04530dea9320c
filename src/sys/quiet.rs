//! Writing without SIGXFSZ.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use super::linux::errno;

/// While it lives, a write beyond RLIMIT_FSIZE answers EFBIG without killing
/// the host: SIGXFSZ is blocked for this thread, taken back if it came, and the
/// mask is as before afterwards (F8).
pub(super) struct Quiet {
    before: libc::sigset_t,
    set: libc::sigset_t,
    pending: bool,
}

impl Quiet {
    pub(super) fn new() -> Quiet {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the calls initialise the sets they are given room for;
        // pthread_sigmask and sigpending only touch this thread.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGXFSZ);
            let mut waiting = MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigemptyset(waiting.as_mut_ptr());
            libc::sigpending(waiting.as_mut_ptr());
            libc::sigemptyset(before.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
            let pending = libc::sigismember(waiting.as_ptr(), libc::SIGXFSZ) == 1;
            Quiet {
                before: before.assume_init(),
                set: set.assume_init(),
                pending,
            }
        }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // A failing write's errno must outlive the clean-up.
        let kept = errno();
        let none = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: all sets are initialised. One that was pending before is the
        // host's and stays.
        unsafe {
            if !self.pending {
                libc::sigtimedwait(&self.set, std::ptr::null_mut(), &none);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut());
            *libc::__errno_location() = kept.0;
        }
    }
}
