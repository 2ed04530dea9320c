//! Opening and closing a campaign.

use std::ffi::{c_char, OsString};
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use super::argument::{flags, invalid, optional_bytes, optional_text, reference, sized, Out};
use super::constants::*;
use super::error::{guard, guard_plain};
use super::types::{symlease_campaign, symlease_options, symlease_status};
use crate::campaign::{checked_ttl, Campaign, Clock, Settings};
use crate::engine::files::{Files, Named, Options};
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
/// are used. `options` may be NULL: defaults. `*out` is the caller's until
/// symlease_close. Any thread.
///
/// E_INVALID: an argument is wrong. E_UNSUPPORTED: "etcd://", another engine
/// than files, SYMLEASE_EXPIRY_OBSERVED and a read-only handle are not in this
/// version.
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
        let campaign = open(root, options.as_ref())?;
        out.put(Box::into_raw(Box::new(symlease_campaign::new(campaign))));
        Ok(SYMLEASE_OK)
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

fn open(root: Option<&[u8]>, options: Option<&symlease_options>) -> Result<Campaign> {
    let unsupported = |what: &str| Err(Error::new(Kind::Unsupported, what));
    if root.is_some_and(|root| root.starts_with(b"etcd://")) {
        return unsupported("root: the etcd engine is not in this version");
    }
    if let Some(options) = options {
        check(options)?;
    }
    // SAFETY: options' strings are NULL or valid, by symlease_open's contract.
    let text = |name: &str, pick: fn(&symlease_options) -> *const c_char| unsafe {
        options.map_or(Ok(None), |options| optional_bytes(pick(options), name))
    };
    let work = place(
        root,
        text("options.work_root", |o| o.work_root)?,
        ".work_lease_table",
    )?;
    let target = place(
        root,
        text("options.target_root", |o| o.target_root)?,
        ".target_lease_table",
    )?;
    if work.is_none() && target.is_none() {
        return Err(invalid("root", "NULL, and the options name no root"));
    }
    let number = |pick: fn(&symlease_options) -> f64| options.map_or(0.0, pick);
    let work_ttl = ttl(number(|o| o.work_ttl), "options.work_ttl", 300.0)?;
    let target_ttl = ttl(number(|o| o.target_ttl), "options.target_ttl", work_ttl)?;
    let sys: Arc<dyn Sys> = Arc::new(Linux::new());
    let files = Options {
        work_root: work,
        target_root: target,
        named: named(options)?,
        lock_timeout: lock_timeout(number(|o| o.lock_timeout))?,
    };
    let settings = Settings {
        owner: owner(options, &sys)?,
        worker: options.map_or(0, |o| o.worker),
        work_ttl,
        target_ttl,
    };
    let source = Arc::clone(&sys);
    let random = Box::new(move |bytes: &mut [u8]| {
        source
            .random(bytes)
            .map_err(|e| Error::system(Kind::Io, e.0, "getrandom failed"))
    });
    let clock = clock(options, Arc::clone(&sys));
    Ok(Campaign::new(
        Box::new(Files::open(sys, files)?),
        settings,
        clock,
        random,
    ))
}

/// What the options name of the campaign; the rest is taken as it is there (M1).
fn named(options: Option<&symlease_options>) -> Result<Named> {
    let Some(options) = options else {
        return Ok(Named::default());
    };
    let shards = match options.lease_shards {
        0 => None,
        count @ 1..=4096 => Some(count),
        count => {
            return Err(invalid(
                "options.lease_shards",
                &format!("{count} is beyond 4096"),
            ))
        }
    };
    let file_mode = match options.file_mode {
        0 => None,
        mode if mode & !0o660 == 0 && mode & 0o600 == 0o600 => Some(mode),
        mode => {
            return Err(invalid(
                "options.file_mode",
                &format!("{mode:o} is not 600 to 660"),
            ))
        }
    };
    let durable = match options.durability {
        SYMLEASE_DURABLE_POWER => Some(true),
        SYMLEASE_DURABLE_PROCESS => Some(false),
        _ => None,
    };
    Ok(Named {
        shards,
        file_mode,
        durable,
    })
}

fn check(options: &symlease_options) -> Result<()> {
    let known = SYMLEASE_OPEN_EXISTING | SYMLEASE_OPEN_READ_ONLY;
    let unsupported = |what: &str| Err(Error::new(Kind::Unsupported, what));
    if flags(options.flags, known, "options.flags")? != 0 {
        return unsupported("options.flags: SYMLEASE_OPEN_* are not in this version");
    }
    match options.engine {
        SYMLEASE_ENGINE_ANY | SYMLEASE_ENGINE_FILES => {}
        SYMLEASE_ENGINE_LOG => return unsupported("options.engine: log is not in this version"),
        _ => return Err(invalid("options.engine", "no SYMLEASE_ENGINE_*")),
    }
    match options.expiry {
        SYMLEASE_EXPIRY_WALL => {}
        SYMLEASE_EXPIRY_OBSERVED => {
            return unsupported("options.expiry: observed is not in this version")
        }
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

/// A root, absolute: what the options name, else the default below `root`.
fn place(root: Option<&[u8]>, named: Option<&[u8]>, below: &str) -> Result<Option<Vec<u8>>> {
    let mut path = match (named, root) {
        (Some(named), _) => named.to_vec(),
        (None, Some(root)) => [root, b"/", below.as_bytes()].concat(),
        (None, None) => return Ok(None),
    };
    if path.first() != Some(&b'/') {
        // Resolved once, here: a later chdir changes nothing (F11).
        let here = std::env::current_dir()
            .map_err(|error| Error::new(Kind::Io, format!("current directory: {error}")))?;
        path = [&*OsString::from(here).into_vec(), b"/", &*path].concat();
    }
    Ok(Some(path))
}

fn ttl(seconds: f64, name: &str, otherwise: f64) -> Result<f64> {
    if seconds == 0.0 {
        return Ok(otherwise);
    }
    checked_ttl(seconds, name)
}

/// Seconds as nanoseconds: 0 the default, negative one try (F35).
fn lock_timeout(seconds: f64) -> Result<u64> {
    if !seconds.is_finite() {
        return Err(invalid("options.lock_timeout", "not finite"));
    }
    let seconds = if seconds == 0.0 { 60.0 } else { seconds };
    // The cast saturates: 1e300 seconds is for ever, negative is none.
    Ok((seconds * 1e9) as u64)
}

fn owner(options: Option<&symlease_options>, sys: &Arc<dyn Sys>) -> Result<String> {
    let pointer = options.map_or(std::ptr::null(), |options| options.owner);
    // SAFETY: NULL or a valid string, by symlease_open's contract.
    let named = unsafe { optional_text(pointer, "options.owner")? };
    let owner = match named {
        Some(owner) => owner.to_string(),
        None => match std::env::var("SYMCC_MASTER_ID") {
            Ok(owner) if !owner.is_empty() => owner,
            _ => format!("{}:{}", sys.host(), sys.process()),
        },
    };
    if owner.is_empty() || owner.len() > 255 {
        return Err(invalid("options.owner", "not 1 to 255 bytes"));
    }
    Ok(owner)
}

fn clock(options: Option<&symlease_options>, sys: Arc<dyn Sys>) -> Clock {
    match options.and_then(|options| options.clock.map(|clock| (clock, options.clock_user))) {
        None => Box::new(move || sys.realtime()),
        Some((clock, user)) => {
            let user = User(user);
            Box::new(move || {
                let user = &user;
                // SAFETY: the caller's function and its own pointer.
                unsafe { clock(user.0) }
            })
        }
    }
}
