//! Looking at records: scans, lists, counts. Reads only.

use std::ffi::{c_char, c_void, CString};

use super::argument::{flags, give, invalid, optional_id, text, Out};
use super::campaign::open_handle;
use super::constants::*;
use super::error::{answer, guard, set_last};
use super::types::{
    symlease_campaign, symlease_counters, symlease_counts, symlease_status, symlease_view,
    symlease_view_fn,
};
use crate::campaign::look::Found;
use crate::campaign::Campaign;
use crate::engine::Table;
use crate::error::Result;
use crate::model::lease::{Evidence, Judge, Life, Presence};
use crate::record::lease::{Lease, Status};

/// Shows records of a lease table in id order, each once, from behind the id
/// `after_id` (NULL: from the first), at most `limit` (0: all) of those in
/// `scan_mask` (SYMLEASE_SCAN_*; 0 is E_INVALID). A damaged record is shown
/// only with SYMLEASE_SCAN_CORRUPT and never ends the scan. `visit` runs with
/// no lock held; non-zero stops: OK. Coverage cannot be scanned: E_INVALID.
///
/// # Safety
/// `campaign` is open; `after_id` is NULL or ends in NUL; `visit` is callable.
#[no_mangle]
pub unsafe extern "C" fn symlease_scan(
    campaign: *mut symlease_campaign,
    table: i32,
    scan_mask: u32,
    after_id: *const c_char,
    limit: usize,
    visit: symlease_view_fn,
    user: *mut c_void,
) -> symlease_status {
    guard("symlease_scan", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, after) =
            unsafe { (open_handle(campaign)?, optional_id(after_id, "after_id")?) };
        let table = table_of(table)?;
        if flags(scan_mask, SYMLEASE_SCAN_ALL, "scan_mask")? == 0 {
            return Err(invalid("scan_mask", "0 shows nothing"));
        }
        let visitor = Visitor::new(visit, user, "visit")?;
        let judge = campaign.judge(table, campaign.now()?, None);
        let mut shown = 0;
        campaign.scan(table, after, &mut |found| {
            if kind(&found) as u32 & scan_mask == 0 {
                return true;
            }
            shown += 1;
            let evidence = found.record.as_ref().ok();
            let evidence = evidence.map(|lease| campaign.evidence(table, lease, &judge));
            visitor.show(&found, &judge, &evidence.unwrap_or_default())
                && (limit == 0 || shown < limit)
        })?;
        Ok(SYMLEASE_OK)
    })
}

/// Shows work records that are leased and not live, oldest first, ties by id,
/// abandoned ones last; at most `limit` (0: all). `ttl` in seconds judges them:
/// SYMLEASE_TTL_RECORD each record's own, 0 all leased ones.
///
/// # Safety
/// `campaign` is open; `visit` is callable.
#[no_mangle]
pub unsafe extern "C" fn symlease_list_expired(
    campaign: *mut symlease_campaign,
    ttl: f64,
    limit: usize,
    visit: symlease_view_fn,
    user: *mut c_void,
) -> symlease_status {
    guard("symlease_list_expired", || {
        // SAFETY: the caller's contract, as above.
        let campaign = unsafe { open_handle(campaign)? };
        let ttl = match ttl {
            SYMLEASE_TTL_RECORD => None,
            ttl if ttl.is_finite() && ttl >= 0.0 => Some(ttl),
            _ => {
                return Err(invalid(
                    "ttl",
                    "neither SYMLEASE_TTL_RECORD nor finite and >= 0",
                ))
            }
        };
        let visitor = Visitor::new(visit, user, "visit")?;
        let judge = campaign.judge(Table::Work, campaign.now()?, ttl);
        visitor.show_all(campaign, campaign.expired(ttl)?, limit, &judge);
        Ok(SYMLEASE_OK)
    })
}

/// Shows work records whose commit has begun, oldest first, ties by id; at
/// most `limit` (0: all).
///
/// # Safety
/// `campaign` is open; `visit` is callable.
#[no_mangle]
pub unsafe extern "C" fn symlease_list_commits(
    campaign: *mut symlease_campaign,
    limit: usize,
    visit: symlease_view_fn,
    user: *mut c_void,
) -> symlease_status {
    guard("symlease_list_commits", || {
        // SAFETY: the caller's contract, as above.
        let campaign = unsafe { open_handle(campaign)? };
        let visitor = Visitor::new(visit, user, "visit")?;
        let judge = campaign.judge(Table::Work, campaign.now()?, None);
        visitor.show_all(campaign, campaign.committing()?, limit, &judge);
        Ok(SYMLEASE_OK)
    })
}

/// One record's JSON as it stands; free it with symlease_string_free. ABSENT.
/// E_CORRUPT: damaged. SYMLEASE_TABLE_COVERAGE: `id` is a shard's number in
/// decimal.
///
/// # Safety
/// `campaign` is open; `id` ends in NUL; `json` is valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_read_record(
    campaign: *mut symlease_campaign,
    table: i32,
    id: *const c_char,
    json: *mut *mut c_char,
) -> symlease_status {
    guard("symlease_read_record", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, id, json) = unsafe {
            (
                open_handle(campaign)?,
                text(id, "id")?,
                Out::required(json, "json")?,
            )
        };
        let record = if table == SYMLEASE_TABLE_COVERAGE {
            let wrong = |_| invalid("id", "no shard's number, and the table is coverage");
            campaign.shard_record(id.parse().map_err(wrong)?)?
        } else {
            campaign.record(table_of(table)?, id)?
        };
        match record {
            Some(text) => {
                json.put(give(text)?);
                Ok(SYMLEASE_OK)
            }
            None => answer(SYMLEASE_ABSENT, &format!("record {id}: not there")),
        }
    })
}

/// How many records of a lease table are in which state; `expired` is part of
/// `leased`. Reads every record.
///
/// # Safety
/// `campaign` is open, `counts` valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_read_counts(
    campaign: *mut symlease_campaign,
    table: i32,
    counts: *mut symlease_counts,
) -> symlease_status {
    guard("symlease_read_counts", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, out) = unsafe { (open_handle(campaign)?, Out::required(counts, "counts")?) };
        let counts = campaign.counts(table_of(table)?)?;
        out.put(symlease_counts {
            leased: counts.leased,
            committing: counts.committing,
            expired: counts.expired,
            done: counts.done,
            corrupt: counts.corrupt,
            reserved: [0; 8],
        });
        Ok(SYMLEASE_OK)
    })
}

/// This handle's counters since it was opened. Any thread.
///
/// # Safety
/// `campaign` is open, `counters` valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_read_counters(
    campaign: *mut symlease_campaign,
    counters: *mut symlease_counters,
) -> symlease_status {
    guard("symlease_read_counters", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, out) =
            unsafe { (open_handle(campaign)?, Out::required(counters, "counters")?) };
        let now = campaign.engine().counters();
        out.put(symlease_counters {
            locks: now.locks,
            contended: now.contended,
            timeouts: now.timeouts,
            wait_ns: now.wait_ns,
            retries: now.retries,
            syncs: now.syncs,
            cache_hits: 0,
            indeterminate: now.indeterminate,
            reserved: [0; 8],
        });
        Ok(SYMLEASE_OK)
    })
}

fn table_of(table: i32) -> Result<Table> {
    match table {
        SYMLEASE_TABLE_WORK => Ok(Table::Work),
        SYMLEASE_TABLE_TARGET => Ok(Table::Target),
        _ => Err(invalid(
            "table",
            "neither SYMLEASE_TABLE_WORK nor SYMLEASE_TABLE_TARGET",
        )),
    }
}

fn kind(found: &Found) -> i32 {
    match found.record.as_ref().map(Lease::status) {
        Err(_) => SYMLEASE_SCAN_CORRUPT as i32,
        Ok(Status::Leased) => SYMLEASE_SCAN_LEASED as i32,
        Ok(Status::Committing) => SYMLEASE_SCAN_COMMITTING as i32,
        Ok(Status::Done) => SYMLEASE_SCAN_DONE as i32,
    }
}

fn life(life: Life) -> i32 {
    match life {
        Life::Live => SYMLEASE_LIFE_LIVE,
        Life::Expired => SYMLEASE_LIFE_EXPIRED,
        Life::Abandoned => SYMLEASE_LIFE_ABANDONED,
        Life::Dead => SYMLEASE_LIFE_DEAD,
        Life::Future => SYMLEASE_LIFE_FUTURE,
    }
}

fn holder(presence: Presence) -> i32 {
    match presence {
        Presence::Unknown => SYMLEASE_HOLDER_UNKNOWN,
        Presence::Alive => SYMLEASE_HOLDER_ALIVE,
        Presence::Dead => SYMLEASE_HOLDER_DEAD,
    }
}

/// The caller's function and its own pointer.
pub(super) struct Visitor {
    call: unsafe extern "C" fn(*mut c_void, *const symlease_view) -> std::ffi::c_int,
    user: *mut c_void,
}

impl Visitor {
    pub(super) fn new(visit: symlease_view_fn, user: *mut c_void, name: &str) -> Result<Visitor> {
        let call = visit.ok_or_else(|| invalid(name, "is NULL"))?;
        Ok(Visitor { call, user })
    }

    fn show_all(&self, campaign: &Campaign, leases: Vec<Lease>, limit: usize, judge: &Judge) {
        let limit = if limit == 0 { usize::MAX } else { limit };
        for lease in leases.into_iter().take(limit) {
            let evidence = campaign.evidence(Table::Work, &lease, judge);
            let found = Found {
                id: lease.id().to_string(),
                record: Ok(lease),
            };
            if !self.show(&found, judge, &evidence) {
                break;
            }
        }
    }

    /// Shows one record; answers whether to go on.
    pub(super) fn show(&self, found: &Found, judge: &Judge, evidence: &Evidence) -> bool {
        // A peer's text is cut at a NUL, which C could not see past anyway.
        let text = |text: &str| CString::new(text.split('\0').next().unwrap_or("")).ok();
        let lease = found.record.as_ref().ok();
        if let Err(error) = &found.record {
            set_last(&error.text, error.errno);
        }
        let id = text(&found.id);
        let owner = lease.and_then(|lease| text(&lease.owner()));
        let previous = lease.and_then(|lease| text(&lease.previous_owner()));
        let token = lease.and_then(Lease::token).and_then(text);
        let payload = lease.and_then(|lease| text(lease.payload()));
        let manifest = lease.and_then(Lease::commit).and_then(text);
        let json = lease.and_then(|lease| {
            text(String::from_utf8_lossy(&lease.to_bytes()).trim_end_matches('\n'))
        });
        let session = lease.and_then(Lease::session).and_then(|name| text(&name));
        let at = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |t| t.as_ptr());
        let view = symlease_view {
            struct_size: size_of::<symlease_view>(),
            id: at(&id),
            owner: at(&owner),
            previous_owner: at(&previous),
            token: at(&token),
            payload: at(&payload),
            manifest: at(&manifest),
            json: at(&json),
            session: at(&session),
            fence: lease.and_then(Lease::fence).unwrap_or(0),
            target: lease.and_then(Lease::target).unwrap_or(0),
            updated: lease.map_or(0.0, Lease::updated),
            ttl: lease.map_or(0.0, |lease| judge.ttl_of(lease)),
            remaining: lease.map_or(0.0, |lease| judge.remaining(lease, evidence)),
            worker: lease.map_or(0, Lease::worker),
            attempts: lease.map_or(0, Lease::attempts),
            steals: lease.map_or(0, Lease::steals),
            status: kind(found),
            life: lease.map_or(0, |lease| life(judge.life(lease, evidence))),
            holder: holder(evidence.presence),
        };
        // SAFETY: the caller's function, with strings that live until it returns.
        unsafe { (self.call)(self.user, &view) == 0 }
    }
}
