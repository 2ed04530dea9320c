//! The coverage authority.

use std::ffi::{c_char, c_void};

use super::argument::{array, give, invalid, optional_slice_mut, slice, slice_mut, Out};
use super::campaign::open_handle;
use super::constants::*;
use super::error::{answer, guard};
use super::types::{
    symlease_campaign, symlease_edge, symlease_map, symlease_novel_fn, symlease_sparse,
    symlease_status,
};
use crate::campaign::coverage::Candidate;
use crate::campaign::Campaign;
use crate::error::{Error, Kind, Result};
use crate::model::coverage::{bits_in, classify};
use crate::record::shard::Edge;

/// Classifies raw hit counts and merges them: the call for inside a target.
/// `*novel_bits`, unless NULL, is how many bits were new to everybody. Errors
/// as symlease_coverage_merge. Any thread.
///
/// # Safety
/// `campaign` is open; `counts` has `len` bytes; `novel_bits` is NULL or valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_coverage_merge_counts(
    campaign: *mut symlease_campaign,
    counts: *const u8,
    len: usize,
    novel_bits: *mut u64,
) -> symlease_status {
    guard("symlease_coverage_merge_counts", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, counts, novel) = unsafe {
            (
                open_handle(campaign)?,
                slice(counts, len, "counts")?,
                Out::optional(novel_bits, "novel_bits")?,
            )
        };
        let mut bits = vec![0; counts.len()];
        classify(counts, &mut bits);
        merge_map(campaign, &bits, &novel)
    })
}

/// ORs a dense map of bucket bits (raw counts go to
/// symlease_coverage_merge_counts) into the authority. `*novel_bits`, unless
/// NULL, is how many bits were new to everybody: each bit is credited once.
/// After any error treat the candidate as novel.
///
/// E_MISMATCH: another map size or build than the campaign's; the first merge
/// that knows them fixes both. E_CORRUPT: a shard is damaged; nothing was
/// changed. E_LIMIT: `len` is 0 or above 2^23. E_INDETERMINATE. Any thread.
///
/// # Safety
/// `campaign` is open; `map` has `len` bytes; `novel_bits` is NULL or valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_coverage_merge(
    campaign: *mut symlease_campaign,
    map: *const u8,
    len: usize,
    novel_bits: *mut u64,
) -> symlease_status {
    guard("symlease_coverage_merge", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, map, novel) = unsafe {
            (
                open_handle(campaign)?,
                slice(map, len, "map")?,
                Out::optional(novel_bits, "novel_bits")?,
            )
        };
        merge_map(campaign, map, &novel)
    })
}

/// As symlease_coverage_merge, for a list in any order; duplicates are ORed.
/// An index of 2^23 or more is E_LIMIT.
///
/// # Safety
/// `campaign` is open; `edges` has `n` entries; `novel_bits` is NULL or valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_coverage_merge_sparse(
    campaign: *mut symlease_campaign,
    edges: *const symlease_edge,
    n: usize,
    novel_bits: *mut u64,
) -> symlease_status {
    guard("symlease_coverage_merge_sparse", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, edges, novel) = unsafe {
            (
                open_handle(campaign)?,
                slice(edges, n, "edges")?,
                Out::optional(novel_bits, "novel_bits")?,
            )
        };
        let pairs = edges.iter().map(|edge| (edge.index, edge.bits));
        if campaign.list_is_known(pairs)? {
            novel.put(0);
            return Ok(SYMLEASE_OK);
        }
        merge_one(campaign, list(edges)?, &novel)
    })
}

/// Merges `n` dense maps in order, as if one by one, with at most one write a
/// shard. `novel_bits`, unless NULL, has `n` places. Errors as
/// symlease_coverage_merge; on an error nothing was credited.
///
/// # Safety
/// `campaign` is open; the arrays have `n` entries; each map is valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_coverage_merge_many(
    campaign: *mut symlease_campaign,
    maps: *const symlease_map,
    n: usize,
    novel_bits: *mut u64,
) -> symlease_status {
    guard("symlease_coverage_merge_many", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, maps, novel) = unsafe {
            (
                open_handle(campaign)?,
                slice(maps, n, "maps")?,
                optional_slice_mut(novel_bits, n, "novel_bits")?,
            )
        };
        let dense = |map: &symlease_map| {
            // SAFETY: each map is valid for its length, by the contract.
            Candidate::dense(unsafe { slice(map.bytes, map.len, "maps[].bytes")? })
        };
        let candidates = maps.iter().map(dense).collect::<Result<Vec<_>>>()?;
        count_into(novel, &campaign.merge(&candidates)?);
        Ok(SYMLEASE_OK)
    })
}

/// As symlease_coverage_merge_many, for lists. `novel`, unless NULL, is shown
/// the new bits of each candidate that has any, with no lock held; non-zero
/// stops the visit.
///
/// # Safety
/// `campaign` is open; the arrays have `n` entries; each list is valid;
/// `novel` is NULL or callable.
#[no_mangle]
pub unsafe extern "C" fn symlease_coverage_merge_sparse_many(
    campaign: *mut symlease_campaign,
    lists: *const symlease_sparse,
    n: usize,
    novel_bits: *mut u64,
    novel: symlease_novel_fn,
    user: *mut c_void,
) -> symlease_status {
    guard("symlease_coverage_merge_sparse_many", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, lists, counts) = unsafe {
            (
                open_handle(campaign)?,
                slice(lists, n, "lists")?,
                optional_slice_mut(novel_bits, n, "novel_bits")?,
            )
        };
        let sparse = |one: &symlease_sparse| {
            // SAFETY: each list is valid for its count, by the contract.
            list(unsafe { slice(one.edges, one.count, "lists[].edges")? })
        };
        let candidates = lists.iter().map(sparse).collect::<Result<Vec<_>>>()?;
        let merged = campaign.merge(&candidates)?;
        count_into(counts, &merged);
        for (candidate, edges) in merged.iter().enumerate().filter(|(_, e)| !e.is_empty()) {
            if !show(novel, user, candidate, edges) {
                break;
            }
        }
        Ok(SYMLEASE_OK)
    })
}

/// How many bits of a list the authority does not have; marks nothing.
///
/// # Safety
/// `campaign` is open; `edges` has `n` entries; `unknown_bits` is valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_coverage_known(
    campaign: *mut symlease_campaign,
    edges: *const symlease_edge,
    n: usize,
    unknown_bits: *mut u64,
) -> symlease_status {
    guard("symlease_coverage_known", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, edges, unknown) = unsafe {
            (
                open_handle(campaign)?,
                slice(edges, n, "edges")?,
                Out::required(unknown_bits, "unknown_bits")?,
            )
        };
        unknown.put(campaign.unknown_bits(&list(edges)?)?);
        Ok(SYMLEASE_OK)
    })
}

/// ORs into `map` what pulls of this handle have not given yet, own merges
/// included. `*new_bits`, unless NULL, is how many those were. E_MISMATCH: an
/// index that is set lies beyond `len`; the position did not move.
///
/// # Safety
/// `campaign` is open; `map` has `len` bytes; `new_bits` is NULL or valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_coverage_pull(
    campaign: *mut symlease_campaign,
    map: *mut u8,
    len: usize,
    new_bits: *mut u64,
) -> symlease_status {
    guard("symlease_coverage_pull", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, map, new) = unsafe {
            (
                open_handle(campaign)?,
                slice_mut(map, len, "map")?,
                Out::optional(new_bits, "new_bits")?,
            )
        };
        let bits = campaign.pull(&mut |shards| {
            let last = shards.iter().filter_map(|(_, edges)| edges.last()).max();
            if let Some((index, _)) = last.filter(|(index, _)| *index as usize >= len) {
                let text = format!("map: index {index} is set, beyond len {len}");
                return Err(Error::new(Kind::Mismatch, text));
            }
            for (index, bits) in shards.iter().flat_map(|(_, edges)| edges) {
                map[*index as usize] |= bits;
            }
            Ok(())
        })?;
        new.put(bits);
        Ok(SYMLEASE_OK)
    })
}

/// As symlease_coverage_pull, as lists: `visit` is shown the new bits of each
/// shard that has any (`candidate` is the shard's number). Non-zero stops the
/// visit: the position does not move, and the call is OK with `*new_bits` 0.
///
/// # Safety
/// `campaign` is open; `visit` is callable; `new_bits` is NULL or valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_coverage_pull_sparse(
    campaign: *mut symlease_campaign,
    visit: symlease_novel_fn,
    user: *mut c_void,
    new_bits: *mut u64,
) -> symlease_status {
    guard("symlease_coverage_pull_sparse", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, new) =
            unsafe { (open_handle(campaign)?, Out::optional(new_bits, "new_bits")?) };
        if visit.is_none() {
            return Err(invalid("visit", "NULL"));
        }
        let mut stopped = false;
        let pulled = campaign.pull(&mut |shards| {
            stopped = !shards
                .iter()
                .all(|(shard, edges)| show(visit, user, *shard as usize, edges));
            match stopped {
                true => Err(Error::new(Kind::Callback, "visit: stopped")),
                false => Ok(()),
            }
        });
        new.put(if stopped { 0 } else { pulled? });
        Ok(SYMLEASE_OK)
    })
}

/// The map's size in bytes and its build identity (free it with
/// symlease_string_free); `identity` may be NULL. ABSENT while nobody fixed
/// them.
///
/// # Safety
/// `campaign` is open; `bytes` is valid; `identity` is NULL or valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_coverage_map_info(
    campaign: *mut symlease_campaign,
    bytes: *mut u64,
    identity: *mut *mut c_char,
) -> symlease_status {
    guard("symlease_coverage_map_info", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, bytes, identity) = unsafe {
            (
                open_handle(campaign)?,
                Out::required(bytes, "bytes")?,
                Out::optional(identity, "identity")?,
            )
        };
        let Some(info) = campaign.map_info()? else {
            return answer(SYMLEASE_ABSENT, "map: nobody fixed its size yet");
        };
        if identity.wanted() {
            identity.put(give(info.identity)?);
        }
        bytes.put(info.size);
        Ok(SYMLEASE_OK)
    })
}

/// How many indices and how many bits are set in the authority.
///
/// # Safety
/// `campaign` is open; both outputs are valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_coverage_totals(
    campaign: *mut symlease_campaign,
    edges: *mut u64,
    bits: *mut u64,
) -> symlease_status {
    guard("symlease_coverage_totals", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, edges, bits) = unsafe {
            (
                open_handle(campaign)?,
                Out::required(edges, "edges")?,
                Out::required(bits, "bits")?,
            )
        };
        let all = campaign.authority()?;
        edges.put(all.iter().map(|shard| shard.entries.len() as u64).sum());
        bits.put(all.iter().map(|shard| bits_in(&shard.entries)).sum());
        Ok(SYMLEASE_OK)
    })
}

/// Renews this coordinator's heartbeat file: call it by time, well within
/// `coverage_ttl`. It only decides who is shown as a shard's owner.
///
/// # Safety
/// `campaign` is open.
#[no_mangle]
pub unsafe extern "C" fn symlease_coverage_heartbeat(
    campaign: *mut symlease_campaign,
) -> symlease_status {
    guard("symlease_coverage_heartbeat", || {
        // SAFETY: the caller's contract, as above.
        unsafe { open_handle(campaign)? }.coverage_heartbeat()?;
        Ok(SYMLEASE_OK)
    })
}

/// A shard's preferred owner: the first live coordinator from `shard mod
/// count` on, the caller itself where none lives. For locality and display;
/// anyone may merge. `index` and `owner` may be NULL.
///
/// # Safety
/// `campaign` is open; outputs are NULL or valid.
///
/// cbindgen:ptrs-as-arrays=[[owner; SYMLEASE_OWNER_SIZE]]
#[no_mangle]
pub unsafe extern "C" fn symlease_coverage_owner(
    campaign: *mut symlease_campaign,
    shard: u32,
    index: *mut u32,
    owner: *mut c_char,
) -> symlease_status {
    guard("symlease_coverage_owner", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, index, owner) = unsafe {
            (
                open_handle(campaign)?,
                Out::optional(index, "index")?,
                Out::<[c_char; SYMLEASE_OWNER_SIZE]>::optional(owner.cast(), "owner")?,
            )
        };
        let (place, name) = campaign.coverage_owner(shard)?;
        index.put(place);
        owner.put(array(&name));
        Ok(SYMLEASE_OK)
    })
}

/// A map that brings nothing needs not even be made a list.
fn merge_map(campaign: &Campaign, map: &[u8], novel: &Out<u64>) -> Result<symlease_status> {
    if campaign.map_is_known(map)? {
        novel.put(0);
        return Ok(SYMLEASE_OK);
    }
    merge_one(campaign, Candidate::dense(map)?, novel)
}

fn merge_one(
    campaign: &Campaign,
    candidate: Candidate,
    novel: &Out<u64>,
) -> Result<symlease_status> {
    let merged = campaign.merge(&[candidate])?;
    novel.put(merged.iter().map(|edges| bits_in(edges)).sum());
    Ok(SYMLEASE_OK)
}

fn list(edges: &[symlease_edge]) -> Result<Candidate> {
    let edges: Vec<Edge> = edges.iter().map(|edge| (edge.index, edge.bits)).collect();
    Candidate::sparse(&edges)
}

fn count_into(counts: Option<&mut [u64]>, merged: &[Vec<Edge>]) {
    for (count, edges) in counts.into_iter().flatten().zip(merged) {
        *count = bits_in(edges);
    }
}

/// Shows bits; answers whether to go on.
fn show(visit: symlease_novel_fn, user: *mut c_void, candidate: usize, edges: &[Edge]) -> bool {
    let Some(visit) = visit else { return true };
    let edge = |(index, bits): &Edge| symlease_edge {
        index: *index,
        bits: *bits,
    };
    let edges: Vec<symlease_edge> = edges.iter().map(edge).collect();
    // SAFETY: the caller's function; the edges live until it returns.
    unsafe { visit(user, candidate, edges.as_ptr(), edges.len()) == 0 }
}
