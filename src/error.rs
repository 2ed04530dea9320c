//! One error type for the whole crate: what went wrong, in words and as a kind.

use std::fmt;

/// The kinds of failure, one for each negative status of the C interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An argument is wrong; the text names it.
    Invalid,
    /// A lock was not free before the deadline.
    Timeout,
    /// The system refused; `errno` says why.
    Io,
    /// A file is not what its format says.
    Corrupt,
    /// Not possible here, or not in this version.
    Unsupported,
    /// A size or a number is beyond its limit.
    Limit,
    /// A bug in this library.
    Internal,
    /// The other side does not answer.
    Unavailable,
    /// The campaign was made with other settings.
    Mismatch,
    /// The change was made, its durability is unknown; the same call settles it.
    Indeterminate,
    /// The change may or may not have happened, or may yet; the same call
    /// settles it. To callers the same answer as [`Kind::Indeterminate`].
    Unsettled,
    /// The caller's callback refused.
    Callback,
}

/// A failure: its kind, the system's error number (0: none), and a sentence
/// that names the path, id or argument and the step that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What kind of failure.
    pub kind: Kind,
    /// The system's error number, or 0.
    pub errno: i32,
    /// The failure in words.
    pub text: String,
}

/// A result whose error is [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error without a system error number.
    pub fn new(kind: Kind, text: impl Into<String>) -> Error {
        Error {
            kind,
            errno: 0,
            text: text.into(),
        }
    }

    /// An error that a system call answered.
    pub fn system(kind: Kind, errno: i32, text: impl Into<String>) -> Error {
        Error {
            kind,
            errno,
            text: text.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::error::Error for Error {}
