//! The calling thread's last error, and the guard around every exported call.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};

use super::constants::*;
use super::types::symlease_status;
use crate::error::{Error, Kind, Result};

thread_local! {
    static LAST: RefCell<(CString, c_int)> = RefCell::new((CString::default(), 0));
}

/// The status that stands for a kind of failure.
pub fn status_of(kind: Kind) -> symlease_status {
    match kind {
        Kind::Invalid => SYMLEASE_E_INVALID,
        Kind::Timeout => SYMLEASE_E_TIMEOUT,
        Kind::Io => SYMLEASE_E_IO,
        Kind::Corrupt => SYMLEASE_E_CORRUPT,
        Kind::Unsupported => SYMLEASE_E_UNSUPPORTED,
        Kind::Limit => SYMLEASE_E_LIMIT,
        Kind::Internal => SYMLEASE_E_INTERNAL,
        Kind::Unavailable => SYMLEASE_E_UNAVAILABLE,
        Kind::Mismatch => SYMLEASE_E_MISMATCH,
        Kind::Indeterminate | Kind::Unsettled => SYMLEASE_E_INDETERMINATE,
        Kind::Callback => SYMLEASE_E_CALLBACK,
    }
}

/// Sets the calling thread's last error. A NUL in the text is shown as U+FFFD.
pub fn set_last(text: &str, errno: c_int) {
    let text = CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default();
    // A thread that is ending has no place for it any more; nor has anyone a use for it.
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = (text, errno);
        }
    });
}

/// The calling thread's last error in words; never NULL, valid until the
/// thread's next call that fails or answers.
pub fn last_text() -> *const c_char {
    LAST.try_with(|last| {
        last.try_borrow()
            .map_or(c"".as_ptr(), |last| last.0.as_ptr())
    })
    .unwrap_or(c"".as_ptr())
}

/// The system's number of the calling thread's last error, or 0.
pub fn last_number() -> c_int {
    LAST.try_with(|last| last.try_borrow().map_or(0, |last| last.1))
        .unwrap_or(0)
}

/// Makes `error` the last error and gives its status: for the entries of a
/// batch too.
pub fn fail(error: &Error) -> symlease_status {
    set_last(&error.text, error.errno);
    status_of(error.kind)
}

/// An answer (a positive status) with its words: what, and of which id.
pub fn answer(status: symlease_status, text: &str) -> Result<symlease_status> {
    set_last(text, 0);
    Ok(status)
}

thread_local! {
    static IN_CALLBACK: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs a callback under which symlease may not be called.
pub fn in_callback<T>(body: impl FnOnce() -> T) -> T {
    /// Resets the mark even when the body panics.
    struct Mark;
    impl Drop for Mark {
        fn drop(&mut self) {
            IN_CALLBACK.set(false);
        }
    }
    IN_CALLBACK.set(true);
    let _mark = Mark;
    body()
}

/// Runs the body of the exported call `name`: a failure becomes its status, a
/// panic E_INTERNAL; `errno` is as before. (A panic is a bug; the host's panic
/// hook, which is global and not ours to change, may print it.)
pub fn guard(name: &str, body: impl FnOnce() -> Result<symlease_status>) -> symlease_status {
    if IN_CALLBACK.get() {
        // A lock is held: waiting for it here would be waiting for ourselves.
        let text = format!("{name}: called from a publish callback");
        return fail(&Error::new(Kind::Invalid, text));
    }
    keep_errno(|| match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => fail(&error),
        Err(panic) => {
            let text = panic_text(panic);
            fail(&Error::new(
                Kind::Internal,
                format!("{name}: a bug in symlease: {text}"),
            ))
        }
    })
}

/// Runs the body of an exported call that has no status and leaves the last
/// error alone; a panic becomes `otherwise`.
pub fn guard_plain<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    keep_errno(|| match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => value,
        Err(panic) => {
            panic_text(panic);
            otherwise
        }
    })
}

/// The message of a panic. A payload of another type is leaked: its
/// destructor could panic again.
fn panic_text(panic: Box<dyn std::any::Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => match panic.downcast::<&'static str>() {
            Ok(text) => text.to_string(),
            Err(other) => {
                std::mem::forget(other);
                "a panic without words".to_string()
            }
        },
    }
}

fn keep_errno<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: the location is valid for the life of the calling thread, and no
    // other thread uses it.
    let before = unsafe { *libc::__errno_location() };
    let value = body();
    // SAFETY: as above; still the same thread.
    unsafe { *libc::__errno_location() = before };
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn last() -> String {
        // SAFETY: last_text is a NUL-terminated string, copied before it changes.
        unsafe { CStr::from_ptr(last_text()) }
            .to_str()
            .unwrap()
            .to_string()
    }

    #[test]
    fn failures_answers_and_panics_become_statuses() {
        let system = Error::system(Kind::Io, libc::EIO, "read /x\0y: EIO");
        assert_eq!(guard("call", || Err(system)), SYMLEASE_E_IO);
        assert_eq!(
            (last().as_str(), last_number()),
            ("read /x\u{fffd}y: EIO", libc::EIO)
        );
        assert_eq!(guard("call", || Ok(SYMLEASE_OK)), SYMLEASE_OK);
        assert_eq!(last_number(), libc::EIO);
        assert_eq!(
            guard("call", || answer(SYMLEASE_HELD, "held by b")),
            SYMLEASE_HELD
        );
        assert_eq!((last().as_str(), last_number()), ("held by b", 0));
        // resume_unwind: a panic that no hook prints.
        let status = guard("call", || std::panic::resume_unwind(Box::new("oops")));
        assert_eq!(status, SYMLEASE_E_INTERNAL);
        assert_eq!(last(), "call: a bug in symlease: oops");
        assert_eq!(
            guard_plain(7, || std::panic::resume_unwind(Box::new(1u8))),
            7
        );
        assert_eq!(last(), "call: a bug in symlease: oops");
    }

    #[test]
    fn errno_is_left_alone() {
        // SAFETY: this thread's errno, in every use below.
        let place = unsafe { libc::__errno_location() };
        // SAFETY: as above.
        unsafe { *place = 77 };
        guard("call", || {
            // SAFETY: as above.
            unsafe { *place = 5 };
            Ok(0)
        });
        // SAFETY: as above.
        assert_eq!(unsafe { *place }, 77);
    }

    #[test]
    fn the_last_error_is_the_threads_own() {
        set_last("mine", 3);
        std::thread::spawn(|| assert_eq!((last().as_str(), last_number()), ("", 0)))
            .join()
            .unwrap();
        assert_eq!(last(), "mine");
    }
}
