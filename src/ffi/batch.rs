//! Many heartbeats in one call.

use super::argument::{optional_slice_mut, slice_mut, Out};
use super::campaign::open_handle;
use super::constants::*;
use super::error::{fail, guard};
use super::types::{
    symlease_campaign, symlease_group, symlease_heartbeat_stats, symlease_lease, symlease_status,
};
use super::{group, work};
use crate::campaign::Campaign;
use crate::error::Result;

/// Renews many leases with shared syncs. `results[i]` is written for every
/// entry, as symlease_heartbeat would answer it; one that fails never stops
/// another (H3). OK when every entry was answered, an entry's error included.
/// Any thread.
///
/// # Safety
/// `campaign` is open; both arrays have `n` entries.
#[no_mangle]
pub unsafe extern "C" fn symlease_heartbeat_many(
    campaign: *mut symlease_campaign,
    leases: *mut symlease_lease,
    n: usize,
    results: *mut symlease_status,
) -> symlease_status {
    guard("symlease_heartbeat_many", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, leases, results) = unsafe {
            (
                open_handle(campaign)?,
                slice_mut(leases, n, "leases")?,
                optional_slice_mut(results, n, "results")?,
            )
        };
        write(
            results,
            &renew(campaign, campaign.engine().deadline(), leases)?,
        );
        Ok(SYMLEASE_OK)
    })
}

/// Renews everything a coordinator holds: `n` leases with shared syncs, then
/// `m` groups, each on its own. The counts in `*stats` add up to n + m (H3).
/// `lease_results`, `group_results` and `stats` may be NULL. OK when every
/// entry was answered. Any thread.
///
/// # Safety
/// `campaign` is open; the arrays have `n` and `m` entries.
#[no_mangle]
pub unsafe extern "C" fn symlease_heartbeat_all(
    campaign: *mut symlease_campaign,
    leases: *mut symlease_lease,
    n: usize,
    groups: *mut symlease_group,
    m: usize,
    lease_results: *mut symlease_status,
    group_results: *mut symlease_status,
    stats: *mut symlease_heartbeat_stats,
) -> symlease_status {
    guard("symlease_heartbeat_all", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, leases, groups, lease_results, group_results, stats) = unsafe {
            (
                open_handle(campaign)?,
                slice_mut(leases, n, "leases")?,
                slice_mut(groups, m, "groups")?,
                optional_slice_mut(lease_results, n, "lease_results")?,
                optional_slice_mut(group_results, m, "group_results")?,
                Out::optional(stats, "stats")?,
            )
        };
        // One for the whole call (L3): who comes after it still tries once.
        let deadline = campaign.engine().deadline();
        let work = renew(campaign, deadline, leases)?;
        let beat = |group: &mut symlease_group| {
            let status = group::heartbeat(campaign, deadline, group);
            status.unwrap_or_else(|error| fail(&error))
        };
        let target: Vec<symlease_status> = groups.iter_mut().map(beat).collect();
        let good = |all: &[symlease_status]| all.iter().filter(|s| **s == SYMLEASE_OK).count();
        stats.put(symlease_heartbeat_stats {
            work_ok: good(&work) as u64,
            work_failed: (n - good(&work)) as u64,
            target_ok: good(&target) as u64,
            target_failed: (m - good(&target)) as u64,
            reserved: [0; 8],
        });
        write(lease_results, &work);
        write(group_results, &target);
        // Only for those who watch: the renewals stand whatever comes of it (H3).
        let _ = campaign.publish_counters();
        Ok(SYMLEASE_OK)
    })
}

fn write(results: Option<&mut [symlease_status]>, all: &[symlease_status]) {
    if let Some(results) = results {
        results.copy_from_slice(all);
    }
}

/// One status an entry. An entry whose own fields are wrong fails alone.
fn renew(
    campaign: &Campaign,
    deadline: u64,
    leases: &mut [symlease_lease],
) -> Result<Vec<symlease_status>> {
    let mut statuses = vec![SYMLEASE_E_INTERNAL; leases.len()];
    let mut asked = Vec::with_capacity(leases.len());
    let mut places = Vec::with_capacity(leases.len());
    for (place, lease) in leases.iter().enumerate() {
        match work::names(lease) {
            Ok(names) => {
                asked.push(names);
                places.push(place);
            }
            Err(error) => statuses[place] = fail(&error),
        }
    }
    let answers = campaign.heartbeat_many_until(deadline, &asked)?;
    for ((place, names), answer) in places.into_iter().zip(&asked).zip(answers) {
        let renewed =
            answer.and_then(|(what, held)| work::renew(&mut leases[place], what, &names.0, held));
        statuses[place] = renewed.unwrap_or_else(|error| fail(&error));
    }
    Ok(statuses)
}
