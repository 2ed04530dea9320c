//! What a directory and a handle say of themselves.

use std::ffi::c_char;

use super::argument::{bytes, finite, give, invalid, Out};
use super::campaign::{absolute, environment, open_handle};
use super::constants::*;
use super::error::guard;
use super::types::{symlease_campaign, symlease_status};
use crate::campaign::probe::probe_directory;

/// Tries a directory before it is used: file and directory sync, replace in one
/// directory, link with and without a name in the way, unlink, exclusion and
/// release across processes. At most `timeout` seconds (0: the environment's,
/// else 5; at most 60): a mount whose calls block in the kernel is found, not
/// waited for. `*report_json` is one line of JSON (free it with
/// symlease_string_free): `usable`, `proven`, `failed`, `blocked`, `skipped`,
/// `not_proven` (what one host cannot show), `good_until`. OK whenever the
/// directory could be tried, usable or not. The directory must be there; a
/// private folder is made in it and removed. Child processes do the work; they
/// send no SIGCHLD. Any thread. E_IO: no such directory, or no child.
///
/// # Safety
/// `root` ends in NUL; `report_json` is valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_probe(
    root: *const c_char,
    timeout: f64,
    report_json: *mut *mut c_char,
) -> symlease_status {
    guard("symlease_probe", || {
        // SAFETY: the caller's contract, as above.
        let (root, out) = unsafe {
            (
                bytes(root, "root")?,
                Out::required(report_json, "report_json")?,
            )
        };
        let seconds = match finite(timeout, "timeout")? {
            0.0 => environment().probe_timeout,
            seconds if seconds > 0.0 && seconds <= 60.0 => seconds,
            _ => return Err(invalid("timeout", "not 0 to 60 seconds")),
        };
        let path = absolute(root, "root")?;
        let report = probe_directory(&path, seconds)?;
        out.put(give(report)?);
        Ok(SYMLEASE_OK)
    })
}

/// This handle as one line of JSON (free it with symlease_string_free):
/// counters, the histogram of lock waits (`waits`: slot n counts waits of 2^n
/// microseconds and more), settings in force, environment values that were
/// corrected, other live coordinators.
///
/// # Safety
/// `campaign` is open; `json` is valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_read_stats(
    campaign: *mut symlease_campaign,
    json: *mut *mut c_char,
) -> symlease_status {
    guard("symlease_read_stats", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, out) = unsafe { (open_handle(campaign)?, Out::required(json, "json")?) };
        out.put(give(campaign.stats()?)?);
        Ok(SYMLEASE_OK)
    })
}
