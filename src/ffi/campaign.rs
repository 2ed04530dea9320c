//! Opening and closing a campaign.

use std::ffi::{c_char, OsString};
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use super::argument::{flags, invalid, optional_bytes, optional_text, reference, sized, Out};
use super::constants::*;
use super::error::{guard, guard_plain};
use super::types::{symlease_campaign, symlease_options, symlease_status};
use crate::campaign::open::{open, Request};
use crate::campaign::{Campaign, Clock};
use crate::environment::Environment;
use crate::error::{Error, Kind, Result};
use crate::sys::{Linux, Sys};

/// A caller's pointer that is only handed back to the caller's own function.
struct User(*mut std::ffi::c_void);
// SAFETY: the library never looks behind it; c-api.md makes the clock's thread
// safety the caller's duty when a handle is shared by threads.
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}

/// Opens a campaign in the directory `root`; nothing is made or changed before
/// the first change. `root` may be NULL when the options name the roots that
/// are used. `options` may be NULL: defaults. What the options leave open comes
/// from the environment (but the directories), then from what is there, then
/// from defaults. `*out` is the caller's until symlease_close. Any thread.
///
/// E_INVALID: an argument is wrong. E_MISMATCH: the campaign was made with
/// another shard count, mode, durability, map size or identity than is named.
/// E_UNSUPPORTED: "etcd://" and SYMLEASE_ENGINE_LOG are not in this version. E_IO: SYMLEASE_OPEN_EXISTING, and nothing is there.
///
/// # Safety
/// Pointers are NULL or valid; strings end in NUL.
#[no_mangle]
pub unsafe extern "C" fn symlease_open(
    root: *const c_char,
    options: *const symlease_options,
    out: *mut *mut symlease_campaign,
) -> symlease_status {
    guard("symlease_open", || {
        // SAFETY: the caller's contract, as above.
        let (out, root, options) = unsafe {
            (
                Out::required(out, "out")?,
                optional_bytes(root, "root")?,
                sized(options, "options")?,
            )
        };
        // SAFETY: as above.
        let request = unsafe { request(root, options.as_ref())? };
        finish(&request, &environment(), options.as_ref(), &out)
    })
}

/// Opens the campaign whose three directories the environment names
/// (SYMCC_MULTI_MASTER_LEASE_DIR, SYMCC_MULTI_MASTER_TARGET_LEASE_DIR,
/// SYMCC_COVERAGE_OWNER_DIR); a table without one cannot be used. Options win.
/// Otherwise as symlease_open.
///
/// # Safety
/// Pointers are NULL or valid; strings end in NUL.
#[no_mangle]
pub unsafe extern "C" fn symlease_open_env(
    options: *const symlease_options,
    out: *mut *mut symlease_campaign,
) -> symlease_status {
    guard("symlease_open_env", || {
        // SAFETY: the caller's contract, as above.
        let (out, options) = unsafe { (Out::required(out, "out")?, sized(options, "options")?) };
        // SAFETY: as above.
        let request = unsafe { request(None, options.as_ref())? };
        let environment = environment();
        let mut request = request.with_roots_of(&environment);
        for root in [
            &mut request.work_root,
            &mut request.target_root,
            &mut request.coverage_root,
        ] {
            let named = root.take();
            *root = named.map(|root| absolute(&root, "root")).transpose()?;
        }
        finish(&request, &environment, options.as_ref(), &out)
    })
}

/// Ends a handle; takes it from all threads. NULL: nothing happens. Leaves the
/// last error alone.
///
/// # Safety
/// `campaign` is NULL or came from symlease_open and was not closed.
#[no_mangle]
pub unsafe extern "C" fn symlease_close(campaign: *mut symlease_campaign) {
    guard_plain((), || {
        if !campaign.is_null() {
            // SAFETY: made by Box::into_raw in symlease_open, closed once.
            drop(unsafe { Box::from_raw(campaign) });
        }
    });
}

/// The campaign behind a handle.
///
/// # Safety
/// NULL, or a handle that is open.
pub(super) unsafe fn open_handle<'a>(campaign: *const symlease_campaign) -> Result<&'a Campaign> {
    // SAFETY: the caller's contract.
    Ok(unsafe { reference(campaign, "campaign")? }.campaign())
}

pub(super) fn environment() -> Environment {
    Environment::read(&|name| std::env::var_os(name).map(OsString::into_vec))
}

fn finish(
    request: &Request,
    environment: &Environment,
    options: Option<&symlease_options>,
    out: &Out<*mut symlease_campaign>,
) -> Result<symlease_status> {
    let sys: Arc<dyn Sys> = Arc::new(Linux::new());
    let campaign = open(request, environment, &sys, clock(options))?;
    out.put(Box::into_raw(Box::new(symlease_campaign::new(campaign))));
    Ok(SYMLEASE_OK)
}

/// The options as Rust has them.
///
/// # Safety
/// Strings are NULL or valid.
unsafe fn request(root: Option<&[u8]>, options: Option<&symlease_options>) -> Result<Request> {
    if root.is_some_and(|root| root.starts_with(b"etcd://")) {
        let text = "root: the etcd engine is not in this version";
        return Err(Error::new(Kind::Unsupported, text));
    }
    let root = root.map(|root| absolute(root, "root")).transpose()?;
    let Some(options) = options else {
        return Ok(Request {
            root,
            ..Request::default()
        });
    };
    check(options)?;
    let path = |pointer, name: &str| {
        // SAFETY: NULL or valid, by the contract.
        let bytes = unsafe { optional_bytes(pointer, name)? };
        bytes.map(|bytes| absolute(bytes, name)).transpose()
    };
    let text = |pointer, name: &str| {
        // SAFETY: NULL or valid, by the contract.
        let text = unsafe { optional_text(pointer, name)? };
        Ok(text.map(str::to_string))
    };
    Ok(Request {
        root,
        work_root: path(options.work_root, "options.work_root")?,
        target_root: path(options.target_root, "options.target_root")?,
        coverage_root: path(options.coverage_root, "options.coverage_root")?,
        owner: text(options.owner, "options.owner")?,
        map_identity: text(options.map_identity, "options.map_identity")?,
        map_size: options.map_size,
        work_ttl: options.work_ttl,
        target_ttl: options.target_ttl,
        lock_timeout: options.lock_timeout,
        clock_skew: options.clock_skew,
        coverage_ttl: options.coverage_ttl,
        worker: options.worker,
        lease_shards: options.lease_shards,
        coverage_shards: options.coverage_shards,
        coordinator_index: options.coordinator_index,
        coordinator_count: options.coordinator_count,
        file_mode: options.file_mode,
        durable: match options.durability {
            SYMLEASE_DURABLE_POWER => Some(true),
            SYMLEASE_DURABLE_PROCESS => Some(false),
            _ => None,
        },
        existing: options.flags & SYMLEASE_OPEN_EXISTING != 0,
        read_only: options.flags & SYMLEASE_OPEN_READ_ONLY != 0,
        observed: options.expiry == SYMLEASE_EXPIRY_OBSERVED,
        no_session: options.session == SYMLEASE_SESSION_NONE,
    })
}

fn check(options: &symlease_options) -> Result<()> {
    let known = SYMLEASE_OPEN_EXISTING | SYMLEASE_OPEN_READ_ONLY;
    let unsupported = |what: &str| Err(Error::new(Kind::Unsupported, what));
    flags(options.flags, known, "options.flags")?;
    match options.engine {
        SYMLEASE_ENGINE_ANY | SYMLEASE_ENGINE_FILES => {}
        SYMLEASE_ENGINE_LOG => return unsupported("options.engine: log is not in this version"),
        _ => return Err(invalid("options.engine", "no SYMLEASE_ENGINE_*")),
    }
    match options.expiry {
        SYMLEASE_EXPIRY_WALL | SYMLEASE_EXPIRY_OBSERVED => {}
        _ => return Err(invalid("options.expiry", "no SYMLEASE_EXPIRY_*")),
    }
    if !(SYMLEASE_DURABLE_ANY..=SYMLEASE_DURABLE_PROCESS).contains(&options.durability) {
        return Err(invalid("options.durability", "no SYMLEASE_DURABLE_*"));
    }
    if !(SYMLEASE_SESSION_OWN..=SYMLEASE_SESSION_NONE).contains(&options.session) {
        return Err(invalid("options.session", "no SYMLEASE_SESSION_*"));
    }
    if options.reserved != 0 {
        return Err(invalid("options.reserved", "must be 0"));
    }
    Ok(())
}

/// A path, absolute, without empty and `.` components: resolved once, so that a
/// later chdir changes nothing (F11). `..` stays: only the system knows it.
pub(super) fn absolute(path: &[u8], name: &str) -> Result<Vec<u8>> {
    if path.is_empty() {
        return Err(invalid(name, "an empty path"));
    }
    let mut all = Vec::new();
    if path.first() != Some(&b'/') {
        let here = std::env::current_dir().map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(0);
            Error::system(Kind::Io, errno, format!("current directory: {error}"))
        })?;
        all = OsString::from(here).into_vec();
        all.push(b'/');
    }
    all.extend(path);
    let parts = all.split(|byte| *byte == b'/');
    let kept: Vec<&[u8]> = parts
        .filter(|part| !part.is_empty() && *part != b".")
        .collect();
    Ok([b"/", &kept.join(&b'/')[..]].concat())
}

fn clock(options: Option<&symlease_options>) -> Option<Clock> {
    let options = options?;
    let (clock, user) = (options.clock?, User(options.clock_user));
    Some(Box::new(move || {
        let user = &user;
        // SAFETY: the caller's function and its own pointer.
        unsafe { clock(user.0) }
    }))
}
