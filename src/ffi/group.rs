//! Target groups.

use std::ffi::c_char;

use super::argument::{
    array, invalid, optional_text, reference, reference_mut, reserved_zero, slice, token_field, Out,
};
use super::campaign::open_handle;
use super::constants::*;
use super::error::{answer, guard};
use super::types::{
    symlease_campaign, symlease_claim_options, symlease_group, symlease_holder, symlease_status,
};
use super::work::{claim_options, fitting, holder_of, said, status, word};
use crate::campaign::group::{damaged_target, Members};
use crate::campaign::work::Claimed;
use crate::campaign::{Answer, Campaign, Held};
use crate::error::{Kind, Result};

/// Claims targets as one group: symlease_group_claim_with without options.
///
/// # Safety
/// As symlease_group_claim_with.
#[no_mangle]
pub unsafe extern "C" fn symlease_group_claim(
    campaign: *mut symlease_campaign,
    targets: *const u64,
    n: usize,
    payload: *const c_char,
    group: *mut symlease_group,
    holder: *mut symlease_holder,
) -> symlease_status {
    let none = std::ptr::null();
    // SAFETY: the caller's contract is the same.
    unsafe { symlease_group_claim_with(campaign, targets, n, payload, none, group, holder) }
}

/// Claims all of `targets` under one token, or none. Zeros and duplicates are
/// dropped; then more than SYMLEASE_GROUP_MAX is E_LIMIT and none E_INVALID.
/// OK: `*group` is written, primary first. HELD: `*holder`, unless NULL, says
/// who holds which target. E_CORRUPT: `holder->target` is the damaged one. Any
/// thread.
///
/// # Safety
/// `campaign` is open; `targets` has `n` numbers; other pointers are NULL or
/// valid; strings end in NUL.
#[no_mangle]
pub unsafe extern "C" fn symlease_group_claim_with(
    campaign: *mut symlease_campaign,
    targets: *const u64,
    n: usize,
    payload: *const c_char,
    options: *const symlease_claim_options,
    group: *mut symlease_group,
    holder: *mut symlease_holder,
) -> symlease_status {
    guard("symlease_group_claim", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, targets, payload, options, group, holder) = unsafe {
            (
                open_handle(campaign)?,
                slice(targets, n, "targets")?,
                optional_text(payload, "payload")?,
                claim_options(options)?,
                Out::required(group, "group")?,
                Out::optional(holder, "holder")?,
            )
        };
        let members = Members::new(targets)?;
        match campaign.group_claim(&members, payload, &options) {
            Ok(Claimed::Lease(held)) => {
                group.put(group_of(&members, &held)?);
                Ok(SYMLEASE_OK)
            }
            Ok(Claimed::Refused(what, who)) => {
                let words = format!("target {}: {} by {}", who.target, word(what), who.owner);
                holder.put(holder_of(&who));
                answer(status(what), &words)
            }
            Err(error) => {
                let damaged = damaged_target(&members, &error);
                if let Some(who) = damaged.filter(|_| error.kind == Kind::Corrupt) {
                    holder.put(holder_of(&who));
                }
                Err(error)
            }
        }
    })
}

/// Renews all members with one common time, or none (H1, H2). OK: `*group` is
/// filled. STALE: at least one member is not this token's. Any thread.
///
/// # Safety
/// `campaign` is open, `group` valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_group_heartbeat(
    campaign: *mut symlease_campaign,
    group: *mut symlease_group,
) -> symlease_status {
    guard("symlease_group_heartbeat", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, group) = unsafe { (open_handle(campaign)?, reference_mut(group, "group")?) };
        heartbeat(campaign, campaign.engine().deadline(), group)
    })
}

/// Removes all members, or none. STALE: at least one is not this token's. Any
/// thread.
///
/// # Safety
/// `campaign` is open, `group` valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_group_release(
    campaign: *mut symlease_campaign,
    group: *const symlease_group,
) -> symlease_status {
    guard("symlease_group_release", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, group) = unsafe { (open_handle(campaign)?, reference(group, "group")?) };
        let (members, token) = names(group)?;
        said(
            campaign.group_release(&members, &token)?,
            &name_of(&members),
        )
    })
}

/// Whether every member still carries the token; reads only. OK fills
/// `*group`; STALE leaves it. Any thread.
///
/// # Safety
/// `campaign` is open, `group` valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_group_verify(
    campaign: *mut symlease_campaign,
    group: *mut symlease_group,
) -> symlease_status {
    guard("symlease_group_verify", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, group) = unsafe { (open_handle(campaign)?, reference_mut(group, "group")?) };
        let (members, token) = names(group)?;
        let (what, held) = campaign.group_verify(&members, &token)?;
        renew(group, &members, what, held)
    })
}

pub(super) fn heartbeat(
    campaign: &Campaign,
    deadline: u64,
    group: &mut symlease_group,
) -> Result<symlease_status> {
    let (members, token) = names(group)?;
    let (what, held) = campaign.group_heartbeat_until(deadline, &members, &token)?;
    renew(group, &members, what, held)
}

fn names(group: &symlease_group) -> Result<(Members, String)> {
    reserved_zero(&group.reserved, "group.reserved")?;
    let count = group.count as usize;
    let targets = group
        .targets
        .get(..count)
        .filter(|targets| !targets.is_empty())
        .ok_or_else(|| {
            invalid(
                "group.count",
                &format!("{count} is not 1 to SYMLEASE_GROUP_MAX"),
            )
        })?;
    Ok((
        Members::new(targets)?,
        token_field(&group.token, "group.token")?.to_string(),
    ))
}

/// A group in words: its primary target, and how many more.
fn name_of(members: &Members) -> String {
    match members.unique[..] {
        [one] => format!("group of target {one}"),
        [first, ref rest @ ..] => format!("group of target {first} and {} more", rest.len()),
        [] => "group".to_string(),
    }
}

fn group_of(members: &Members, held: &Held) -> Result<symlease_group> {
    let mut targets = [0; SYMLEASE_GROUP_MAX];
    targets[..members.unique.len()].copy_from_slice(&members.unique);
    Ok(symlease_group {
        targets,
        count: members.unique.len() as u32,
        token: array(fitting(&held.token, "group")?),
        fence: held.fence,
        updated: held.updated,
        ttl: held.ttl,
        reserved: [0; 8],
    })
}

fn renew(
    group: &mut symlease_group,
    members: &Members,
    what: Answer,
    held: Option<Held>,
) -> Result<symlease_status> {
    if let Some(held) = held {
        *group = group_of(members, &held)?;
    }
    said(what, &name_of(members))
}
