//! Work leases.

use std::ffi::c_char;

use super::argument::{
    array, fits, flags, id_field, id_text, invalid, optional_text, reference, reference_mut,
    reserved_zero, sized, text, token_field, Out,
};
use super::campaign::open_handle;
use super::constants::*;
use super::error::{answer, guard};
use super::types::{
    symlease_campaign, symlease_claim_options, symlease_holder, symlease_lease, symlease_status,
};
use crate::campaign::work::Claimed;
use crate::campaign::{Answer, ClaimOptions, Held, Holder};
use crate::error::{Error, Kind, Result};

/// Claims work: symlease_claim_with without options.
///
/// # Safety
/// As symlease_claim_with.
#[no_mangle]
pub unsafe extern "C" fn symlease_claim(
    campaign: *mut symlease_campaign,
    id: *const c_char,
    payload: *const c_char,
    lease: *mut symlease_lease,
    holder: *mut symlease_holder,
) -> symlease_status {
    // SAFETY: the caller's contract is the same.
    unsafe { symlease_claim_with(campaign, id, payload, std::ptr::null(), lease, holder) }
}

/// Claims the work `id` (64 lower-case hex digits) with a JSON object as its
/// payload (NULL keeps what is there). OK: `*lease` is written. HELD,
/// COMMITTING, DONE: `*holder`, unless NULL, says who. E_CORRUPT: the record is
/// damaged and was left alone. E_TIMEOUT: its lock was not free in time. Any
/// thread.
///
/// # Safety
/// `campaign` is open; other pointers are NULL or valid; strings end in NUL.
#[no_mangle]
pub unsafe extern "C" fn symlease_claim_with(
    campaign: *mut symlease_campaign,
    id: *const c_char,
    payload: *const c_char,
    options: *const symlease_claim_options,
    lease: *mut symlease_lease,
    holder: *mut symlease_holder,
) -> symlease_status {
    guard("symlease_claim", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, id, payload, options, lease, holder) = unsafe {
            (
                open_handle(campaign)?,
                id_text(id, "id")?,
                optional_text(payload, "payload")?,
                claim_options(options)?,
                Out::required(lease, "lease")?,
                Out::optional(holder, "holder")?,
            )
        };
        match campaign.claim(id, payload, &options)? {
            Claimed::Lease(held) => {
                lease.put(lease_of(id, &held)?);
                Ok(SYMLEASE_OK)
            }
            Claimed::Refused(what, who) => {
                let words = format!("claim {id}: {} by {}", word(what), who.owner);
                holder.put(holder_of(&who));
                answer(status(what), &words)
            }
        }
    })
}

/// Where a lease stands; reads only. OK, COMMITTING or ALREADY fill the rest of
/// `*lease`; STALE leaves it. Any thread.
///
/// # Safety
/// `campaign` is open, `lease` valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_verify(
    campaign: *mut symlease_campaign,
    lease: *mut symlease_lease,
) -> symlease_status {
    guard("symlease_verify", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, lease) = unsafe { (open_handle(campaign)?, reference_mut(lease, "lease")?) };
        let (id, token) = names(lease)?;
        let (what, held) = campaign.verify(&id, &token)?;
        renew(lease, what, &id, held)
    })
}

/// Renews a lease for another TTL. OK: `*lease` is filled. ALREADY: this token
/// completed it. STALE: somebody else's, or gone. A lease past its TTL that
/// nobody took is still its holder's. Any thread.
///
/// # Safety
/// `campaign` is open, `lease` valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_heartbeat(
    campaign: *mut symlease_campaign,
    lease: *mut symlease_lease,
) -> symlease_status {
    guard("symlease_heartbeat", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, lease) = unsafe { (open_handle(campaign)?, reference_mut(lease, "lease")?) };
        let (id, token) = names(lease)?;
        let (what, held) = campaign.heartbeat(&id, &token)?;
        renew(lease, what, &id, held)
    })
}

/// Gives work back that was not tried: anyone may claim it at once. COMMITTING:
/// its commit has begun. STALE. Any thread.
///
/// # Safety
/// `campaign` is open, `lease` valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_abandon(
    campaign: *mut symlease_campaign,
    lease: *const symlease_lease,
) -> symlease_status {
    guard("symlease_abandon", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, lease) = unsafe { (open_handle(campaign)?, reference(lease, "lease")?) };
        let (id, token) = names(lease)?;
        said(campaign.abandon(&id, &token)?, &id)
    })
}

/// Begins the commit with a manifest, a JSON object. Irreversible: neither TTL
/// nor death makes it stealable. The same manifest again is OK, another
/// CONFLICT. STALE. Any thread.
///
/// # Safety
/// `campaign` is open, `lease` and `manifest` valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_begin_commit(
    campaign: *mut symlease_campaign,
    lease: *const symlease_lease,
    manifest: *const c_char,
) -> symlease_status {
    guard("symlease_begin_commit", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, lease, manifest) = unsafe {
            (
                open_handle(campaign)?,
                reference(lease, "lease")?,
                text(manifest, "manifest")?,
            )
        };
        let (id, token) = names(lease)?;
        said(campaign.begin_commit(&id, &token, manifest)?, &id)
    })
}

/// Ends the work. ALREADY: this token ended it before. STALE. Any thread.
///
/// # Safety
/// `campaign` is open, `lease` valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_complete(
    campaign: *mut symlease_campaign,
    lease: *const symlease_lease,
) -> symlease_status {
    guard("symlease_complete", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, lease) = unsafe { (open_handle(campaign)?, reference(lease, "lease")?) };
        let (id, token) = names(lease)?;
        said(campaign.complete(&id, &token)?, &id)
    })
}

/// # Safety
/// `pointer` is NULL or valid as its size says.
pub(super) unsafe fn claim_options(pointer: *const symlease_claim_options) -> Result<ClaimOptions> {
    // SAFETY: the caller's contract.
    let Some(given) = (unsafe { sized(pointer, "options")? }) else {
        return Ok(ClaimOptions::default());
    };
    let known = flags(given.flags, SYMLEASE_CLAIM_TAKEOVER, "options.flags")?;
    // SAFETY: NULL or a valid string, by the caller's contract.
    let owner = unsafe { optional_text(given.owner, "options.owner")? };
    if owner.is_some_and(|owner| owner.is_empty() || owner.len() > 255) {
        return Err(invalid("options.owner", "not 1 to 255 bytes"));
    }
    let named = |value: f64| (value != 0.0).then_some(value);
    Ok(ClaimOptions {
        owner: owner.map(str::to_string),
        ttl: named(given.ttl),
        new_ttl: named(given.new_ttl),
        now: named(given.now),
        worker: (given.worker != 0).then_some(given.worker),
        takeover: known != 0,
    })
}

pub(super) fn names(lease: &symlease_lease) -> Result<(String, String)> {
    reserved_zero(&lease.reserved, "lease.reserved")?;
    let id = id_field(&lease.id, "lease.id")?.to_string();
    Ok((id, token_field(&lease.token, "lease.token")?.to_string()))
}

fn lease_of(id: &str, held: &Held) -> Result<symlease_lease> {
    Ok(symlease_lease {
        id: array(id),
        token: array(fitting(&held.token, id)?),
        fence: held.fence,
        attempts: held.attempts,
        steals: held.steals,
        updated: held.updated,
        ttl: held.ttl,
        reserved: [0; 8],
    })
}

/// A token that a C struct can hold, whole.
pub(super) fn fitting<'a>(token: &'a str, of: &str) -> Result<&'a str> {
    if fits::<SYMLEASE_TOKEN_SIZE>(token) {
        return Ok(token);
    }
    Err(Error::new(
        Kind::Unsupported,
        format!("{of}: its token does not fit symlease_lease.token"),
    ))
}

pub(super) fn holder_of(who: &Holder) -> symlease_holder {
    symlease_holder {
        owner: array(&who.owner),
        remaining: who.remaining,
        target: who.target,
        reserved: [0; 8],
    }
}

pub(super) fn renew(
    lease: &mut symlease_lease,
    what: Answer,
    id: &str,
    held: Option<Held>,
) -> Result<symlease_status> {
    if let Some(held) = held {
        *lease = lease_of(id, &held)?;
    }
    said(what, id)
}

pub(super) fn said(what: Answer, id: &str) -> Result<symlease_status> {
    match what {
        Answer::Ok => Ok(SYMLEASE_OK),
        other => answer(status(other), &format!("{id}: {}", word(other))),
    }
}

pub(super) fn status(what: Answer) -> symlease_status {
    match what {
        Answer::Ok => SYMLEASE_OK,
        Answer::Held => SYMLEASE_HELD,
        Answer::Committing => SYMLEASE_COMMITTING,
        Answer::Done => SYMLEASE_DONE,
        Answer::Stale => SYMLEASE_STALE,
        Answer::Already => SYMLEASE_ALREADY,
        Answer::Conflict => SYMLEASE_CONFLICT,
        Answer::Absent => SYMLEASE_ABSENT,
    }
}

pub(super) fn word(what: Answer) -> &'static str {
    match what {
        Answer::Ok => "done",
        Answer::Held => "held",
        Answer::Committing => "its commit has begun",
        Answer::Done => "finished",
        Answer::Stale => "the token is not the current one",
        Answer::Already => "this token completed it before",
        Answer::Conflict => "the commit began with another manifest",
        Answer::Absent => "not there",
    }
}
