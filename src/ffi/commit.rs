//! Whole results, and replay.

use std::ffi::{c_char, c_void};

use super::argument::{
    array, bytes, flags, id_text, invalid, optional_bytes, reference, reserved_zero, slice,
    slice_mut, text, Out,
};
use super::campaign::{absolute, open_handle};
use super::constants::*;
use super::error::{answer, guard, in_callback, set_last, status_of};
use super::look::Visitor;
use super::types::{
    symlease_campaign, symlease_lease, symlease_result, symlease_status, symlease_view_fn,
};
use super::work::{names, said};
use crate::campaign::commit::{Offer, Outcome};
use crate::campaign::coverage::Candidate;
use crate::campaign::look::Found;
use crate::campaign::Answer;
use crate::engine::corpus::Fate;
use crate::engine::Table;
use crate::error::{Error, Kind, Result};
use crate::record::shard::Edge;

/// Commits results under a lease: stages their maps, begins the commit, merges
/// the maps, publishes what is novel (or kept, or of unknown coverage) into the
/// corpus (made where missing, mode 0700 or the campaign's) without replacing
/// anything, removes the rest, completes. Each result must be a regular file of
/// its own, not in the corpus under its name yet, on the corpus's file system.
/// It is gone afterwards, and so is `<staged>.map` where it has a map: that name
/// is symlease's, and a file there is replaced. `n` = 0 is valid, and common.
///
/// OK: this caller completed the work, its results count; `results[]` says what
/// became of each (`outcome`, `novel_bits`, `digest`; a negative `status`: its
/// map was damaged, it was published as of unknown coverage). DONE: somebody
/// else completed it. STALE: the lease is lost, nothing was published.
/// E_MISMATCH also where the commit began with a manifest of the caller's own:
/// symlease_replay ends that one. On an error (E_IO, E_CORRUPT, E_MISMATCH, E_TIMEOUT, E_INDETERMINATE) the same call
/// again, or anybody's symlease_replay_commits, goes on. E_INVALID: an entry is
/// wrong, named twice, or (EXDEV) not on its corpus's file system; nothing was
/// changed. Relative
/// paths are those of the working directory. Any thread; heartbeats may go on.
///
/// # Safety
/// `campaign` is open; `lease` is valid; `results` has `n` entries whose
/// pointers are NULL or valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_commit(
    campaign: *mut symlease_campaign,
    lease: *const symlease_lease,
    corpus: *const c_char,
    results: *mut symlease_result,
    n: usize,
) -> symlease_status {
    guard("symlease_commit", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, lease, corpus, results) = unsafe {
            (
                open_handle(campaign)?,
                reference(lease, "lease")?,
                bytes(corpus, "corpus")?,
                slice_mut(results, n, "results")?,
            )
        };
        let (id, token) = names(lease)?;
        let corpus = absolute(corpus, "corpus")?;
        // SAFETY: each entry's pointers are valid, by the contract.
        let offers = results.iter().map(|result| unsafe { offer(result) });
        let offers = offers.enumerate().map(|(place, offer)| {
            offer.map_err(|error| Error {
                text: format!("results[{place}].{}", error.text),
                ..error
            })
        });
        let offers = offers.collect::<Result<Vec<_>>>()?;
        let (what, outcomes) = campaign.commit(&id, &token, &corpus, &offers)?;
        for (result, outcome) in results.iter_mut().zip(&outcomes) {
            write(result, outcome);
        }
        said(what, &id)
    })
}

/// Finishes commits that dead coordinators left: removes their temporaries,
/// merges what they staged, publishes everything still staged, completes. Only
/// records whose holder's session is dead or whose TTL is over, with a manifest
/// of symlease_commit for this `corpus`: the same absolute path, links and `..`
/// not resolved, so on several hosts the corpus lies at one path. At most `limit` (0: all). `*replayed` is always written: how many
/// this call completed. Goes on past a bad record and returns the first error
/// at the end. Call it at start and regularly. Any thread.
///
/// # Safety
/// `campaign` is open; `corpus` ends in NUL; `replayed` is valid.
#[no_mangle]
pub unsafe extern "C" fn symlease_replay_commits(
    campaign: *mut symlease_campaign,
    corpus: *const c_char,
    limit: usize,
    replayed: *mut u64,
) -> symlease_status {
    guard("symlease_replay_commits", || {
        // SAFETY: the caller's contract, as above.
        let out = unsafe { Out::required(replayed, "replayed")? };
        out.put(0);
        // SAFETY: as above.
        let (campaign, corpus) = unsafe { (open_handle(campaign)?, bytes(corpus, "corpus")?) };
        let (count, first) = campaign.replay_commits(&absolute(corpus, "corpus")?, limit);
        out.put(count);
        first.map(|()| SYMLEASE_OK)
    })
}

/// Finishes one commit whose manifest is the caller's own: `publish` is shown
/// the record, under its lock, and returns 0 when all of it is published; then
/// the record is `done`. It may run more than once, must be idempotent, must
/// not throw and must not call symlease (E_INVALID at once). ALREADY, STALE as
/// symlease_complete. CONFLICT: its commit has not begun, or it has no
/// manifest. E_CALLBACK: `publish` refused; the record stays `committing`.
///
/// # Safety
/// `campaign` is open; strings end in NUL; `publish` is callable.
#[no_mangle]
pub unsafe extern "C" fn symlease_replay(
    campaign: *mut symlease_campaign,
    id: *const c_char,
    token: *const c_char,
    publish: symlease_view_fn,
    user: *mut c_void,
) -> symlease_status {
    guard("symlease_replay", || {
        // SAFETY: the caller's contract, as above.
        let (campaign, id, token) = unsafe {
            (
                open_handle(campaign)?,
                id_text(id, "id")?,
                text(token, "token")?,
            )
        };
        let visitor = Visitor::new(publish, user, "publish")?;
        let judge = campaign.judge(Table::Work, campaign.now()?, None);
        let what = campaign.replay(id, token, &mut |lease| {
            let found = Found {
                id: id.to_string(),
                record: Ok(lease.clone()),
            };
            let evidence = campaign.evidence(Table::Work, lease, &judge);
            match in_callback(|| visitor.show(&found, &judge, &evidence)) {
                true => Ok(()),
                false => {
                    let text = format!("replay {id}: the publish callback refused");
                    Err(Error::new(Kind::Callback, text))
                }
            }
        })?;
        match what {
            Answer::Conflict => {
                let text = format!("{id}: its commit has not begun, or has no manifest");
                answer(SYMLEASE_CONFLICT, &text)
            }
            other => said(other, id),
        }
    })
}

/// # Safety
/// The result's pointers are NULL or valid.
unsafe fn offer(result: &symlease_result) -> Result<Offer> {
    reserved_zero(&result.reserved, "reserved")?;
    let known = flags(result.flags, SYMLEASE_RESULT_KEEP, "flags")?;
    // SAFETY: the caller's contract.
    let (staged, name, corpus) = unsafe {
        (
            bytes(result.staged, "staged")?,
            optional_bytes(result.name, "name")?,
            optional_bytes(result.corpus, "corpus")?,
        )
    };
    let map = match result.map_kind {
        SYMLEASE_MAP_NONE => None,
        SYMLEASE_MAP_DENSE => {
            // SAFETY: the caller's contract.
            let map = unsafe { slice(result.map.bytes, result.map.len, "map")? };
            Some(Candidate::dense(map)?)
        }
        SYMLEASE_MAP_SPARSE => {
            // SAFETY: the caller's contract.
            let edges = unsafe { slice(result.edges, result.edge_count, "edges")? };
            let edges: Vec<Edge> = edges.iter().map(|edge| (edge.index, edge.bits)).collect();
            Some(Candidate::sparse(&edges)?)
        }
        _ => return Err(invalid("map_kind", "no SYMLEASE_MAP_*")),
    };
    Ok(Offer {
        staged: absolute(staged, "staged")?,
        name: name.map(<[u8]>::to_vec),
        corpus: corpus
            .map(|corpus| absolute(corpus, "corpus"))
            .transpose()?,
        map,
        keep: known != 0,
    })
}

fn write(result: &mut symlease_result, outcome: &Outcome) {
    result.novel_bits = outcome.novel_bits;
    result.digest = array(&outcome.digest);
    result.status = outcome.error.as_ref().map_or(SYMLEASE_OK, |error| {
        set_last(&error.text, error.errno);
        status_of(error.kind)
    });
    result.outcome = match outcome.fate {
        None => SYMLEASE_RESULT_NOT_NOVEL,
        Some(Fate::Published) => SYMLEASE_RESULT_PUBLISHED,
        Some(Fate::ByDigest) => SYMLEASE_RESULT_PUBLISHED_BY_DIGEST,
        Some(Fate::AlreadyThere) => SYMLEASE_RESULT_ALREADY_THERE,
        Some(Fate::Lost) => SYMLEASE_RESULT_LOST,
    };
}
