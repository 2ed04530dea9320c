//! Tries a directory before it is used.

use std::ffi::CString;

use super::report::probe_report;
use crate::error::{Error, Kind, Result};
use crate::record::id::hex;
use crate::sys::{errno_name, probe, Linux, Open, Sys};

/// Tries the directory at an absolute path for at most `seconds`, and answers
/// what was proven, as one line of JSON (`symlease_probe` says what is in it).
pub fn probe_directory(path: &[u8], seconds: f64) -> Result<String> {
    let sys = Linux::new();
    let shown = String::from_utf8_lossy(path).into_owned();
    let path =
        CString::new(path).map_err(|_| Error::new(Kind::Invalid, "root: holds a NUL byte"))?;
    let mut random = [0u8; 8];
    let failed = |step: &str, errno: i32| {
        let text = format!("{step} {shown}: {} ({errno})", errno_name(errno));
        Error::system(Kind::Io, errno, text)
    };
    sys.random(&mut random)
        .map_err(|errno| failed("getrandom for", errno.0))?;
    let there = sys.open(None, &path, Open::Directory, 0);
    sys.close(there.map_err(|errno| failed("open directory", errno.0))?);
    let name = format!("{}.{}", sys.process(), hex(&random));
    let findings = probe::run(&path, &name, (seconds * 1e9) as u64)
        .map_err(|errno| failed("start a child to probe", errno))?;
    Ok(probe_report(&shown, &sys.host(), sys.realtime(), &findings))
}
