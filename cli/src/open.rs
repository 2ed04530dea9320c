//! From a command line to a campaign, and how a command can end.

use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use symlease::campaign::open::{open, Request};
use symlease::campaign::Campaign;
use symlease::environment::Environment;
use symlease::error::{Error, Kind};
use symlease::sys::{Linux, Sys};

use crate::arguments::Place;

/// All is well.
pub const FINE: u8 = 0;
/// The command did its work and found something that is not well.
pub const FOUND: u8 = 1;
/// The command could not do its work.
pub const FAILED: u8 = 3;

/// The exit code of a command.
pub type Outcome = Result<u8, Failure>;

/// Why a command could not do its work.
pub enum Failure {
    /// The library refused.
    Library(Error),
    /// The output, or a file that was named, failed.
    Io(std::io::Error),
    /// Anything else, in words.
    Words(String),
    /// The same, with an exit code of its own.
    Coded(u8, String),
}

impl Failure {
    /// The reader of our output has gone: nothing to complain about.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Failure::Io(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Coded(code, _) => *code,
            _ => FAILED,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Library(error) => write!(out, "{} ({})", error.text, name(error.kind)),
            Failure::Io(error) => write!(out, "{error}"),
            Failure::Words(words) | Failure::Coded(_, words) => out.write_str(words),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Library(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Io(error)
    }
}

/// The status that the C interface gives a kind of error.
pub fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Invalid => "E_INVALID",
        Kind::Timeout => "E_TIMEOUT",
        Kind::Io => "E_IO",
        Kind::Corrupt => "E_CORRUPT",
        Kind::Unsupported => "E_UNSUPPORTED",
        Kind::Limit => "E_LIMIT",
        Kind::Internal => "E_INTERNAL",
        Kind::Unavailable => "E_UNAVAILABLE",
        Kind::Mismatch => "E_MISMATCH",
        Kind::Indeterminate | Kind::Unsettled => "E_INDETERMINATE",
        Kind::Callback => "E_CALLBACK",
    }
}

/// The system, and what the environment says.
pub fn surroundings() -> (Arc<dyn Sys>, Environment) {
    let sys: Arc<dyn Sys> = Arc::new(Linux::new());
    let environment = Environment::read(&|name| std::env::var_os(name).map(OsStringExt::into_vec));
    (sys, environment)
}

/// An absolute path as bytes.
pub fn absolute(path: &Path) -> Result<Vec<u8>, Failure> {
    let whole = std::path::absolute(path)
        .map_err(|error| Failure::Words(format!("{}: {error}", path.display())))?;
    Ok(whole.as_os_str().as_bytes().to_vec())
}

/// What is asked of the library for a place. Nothing is made by it.
pub fn request(place: &Place) -> Result<Request, Failure> {
    let named = |path: &Option<std::path::PathBuf>| path.as_deref().map(absolute).transpose();
    Ok(Request {
        root: Some(absolute(&place.dir)?),
        work_root: named(&place.work_root)?,
        target_root: named(&place.target_root)?,
        coverage_root: named(&place.coverage_root)?,
        existing: true,
        ..Request::default()
    })
}

/// Opens a campaign to look at it: every change is refused.
pub fn to_look(place: &Place) -> Result<Campaign, Failure> {
    there(Request {
        read_only: true,
        no_session: true,
        ..request(place)?
    })
}

/// Opens a campaign as asked; it must be there.
pub fn there(request: Request) -> Result<Campaign, Failure> {
    let (sys, environment) = surroundings();
    let opened = open(&request, &environment, &sys, None);
    opened.map_err(|error| match error.errno {
        nix::libc::ENOENT => no_campaign(&request),
        _ => Failure::Library(error),
    })
}

/// The words for a directory that holds no campaign.
pub fn no_campaign(request: &Request) -> Failure {
    let root = request.root.as_deref().unwrap_or_default();
    Failure::Words(format!(
        "no campaign in {}: neither .work_lease_table nor .target_lease_table nor .coverage_owner \
         is there (--work-root and its like name tables that lie elsewhere)",
        String::from_utf8_lossy(root)
    ))
}
