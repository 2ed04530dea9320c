//! The coverage authority: the monotone OR of all bits, each credited once.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::Campaign;
use crate::engine::{Change, Read, Side};
use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};
use crate::model::coverage::{
    bits_in, edges_of, heartbeat_bytes, merge_candidates, normalise, parse_heartbeat,
    preferred_owner, shards_of, stamp, unknown, Heartbeat,
};
use crate::record::map::MapInfo;
use crate::record::shard::{Edge, Shard, INDEX_LIMIT};

/// What a merge offers: a list, and the dense map's length where it was one.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Rising, each index once.
    pub edges: Vec<Edge>,
    /// Bytes of the dense map; `None`: a list, whose size nobody knows.
    pub map_size: Option<u64>,
}

impl Candidate {
    /// A dense map of bucket bits.
    pub fn dense(map: &[u8]) -> Result<Candidate> {
        if map.is_empty() || map.len() as u64 > u64::from(INDEX_LIMIT) {
            let text = format!("map: {} bytes, not 1 to {INDEX_LIMIT}", map.len());
            return Err(Error::new(Kind::Limit, text));
        }
        Ok(Candidate {
            edges: edges_of(map),
            map_size: Some(map.len() as u64),
        })
    }

    /// A list in any order.
    pub fn sparse(edges: &[Edge]) -> Result<Candidate> {
        if let Some((index, _)) = edges.iter().find(|(index, _)| *index >= INDEX_LIMIT) {
            let text = format!("edges: index {index} is not below {INDEX_LIMIT}");
            return Err(Error::new(Kind::Limit, text));
        }
        Ok(Candidate {
            edges: normalise(edges),
            map_size: None,
        })
    }
}

/// What pulls of a handle have given so far: shard -> its entries.
pub type Given = BTreeMap<u32, Vec<Edge>>;

/// Takes what a pull gives: shard and new bits.
pub type Take<'a> = dyn FnMut(&[(u32, Vec<Edge>)]) -> Result<()> + 'a;

impl Campaign {
    /// Merges candidates in order, with at most one write a shard. Answers the
    /// bits of each that were new to everybody (C4).
    pub fn merge(&self, candidates: &[Candidate]) -> Result<Vec<Vec<Edge>>> {
        if self.all_known(candidates)? {
            return Ok(vec![Vec::new(); candidates.len()]);
        }
        let learner = self.learner();
        let novel = self.merge_again(candidates)?.0;
        self.learn(learner, candidates);
        Ok(novel)
    }

    /// The same, and whether bits are in the answer that an earlier call of
    /// this handle merged, and could not answer for.
    pub(super) fn merge_again(&self, candidates: &[Candidate]) -> Result<(Vec<Vec<Edge>>, bool)> {
        let count = self.engine.coverage_shards()?;
        let now = self.now()?;
        self.fit(candidates)?;
        let lists: Vec<Vec<Edge>> = candidates.iter().map(|one| one.edges.clone()).collect();
        let shards = shards_of(lists.iter().flatten(), count);
        if shards.is_empty() {
            return Ok((vec![Vec::new(); candidates.len()], false));
        }
        let live = self.live_coordinators(now)?;
        self.transact_merge(&lists, &shards, &mut |reads| {
            let mut at_hand = decode_all(&shards, count, reads)?;
            let novel = merge_candidates(&mut at_hand, &lists, count);
            let touched = shards_of(novel.iter().flatten(), count);
            let change = |shard: &u32| {
                if touched.binary_search(shard).is_err() {
                    // All of its bits are known: that is for ever.
                    return match on(Guard::KnownDurable) {
                        true => Change::Rely,
                        false => Change::Keep,
                    };
                }
                let mut next = at_hand
                    .remove(shard)
                    .unwrap_or_else(|| Shard::empty(*shard));
                let (index, owner) = self.owner_among(*shard, &live);
                stamp(&mut next, &owner, index, &self.settings.owner, now);
                Change::Put(next.to_bytes())
            };
            Ok((shards.iter().map(change).collect(), novel))
        })
    }

    /// How many bits of a list the authority does not have. Marks nothing. A
    /// bit counts as known only when it was read under its shard's lock (C8).
    pub fn unknown_bits(&self, candidate: &Candidate) -> Result<u64> {
        let count = self.engine.coverage_shards()?;
        self.agree(std::slice::from_ref(candidate))?;
        let edges = &candidate.edges;
        let shards = shards_of(edges.iter(), count);
        let reads: Vec<Read> = shards
            .iter()
            .map(|shard| self.engine.read_shard(*shard))
            .collect();
        let seen = unknown(&decode_all(&shards, count, &reads)?, edges, count);
        if seen == bits_in(edges) || !on(Guard::KnownUnderLock) {
            // Nothing is claimed to be known: no lock is needed, nothing is made.
            return Ok(seen);
        }
        let mut answer = seen;
        self.engine.merge(&shards, &mut |reads| {
            answer = unknown(&decode_all(&shards, count, reads)?, edges, count);
            // One by one: memcheck takes a copied variant's padding for a fault.
            let change = |_| match on(Guard::KnownDurable) {
                true => Change::Rely,
                false => Change::Keep,
            };
            Ok((reads.iter().map(change).collect(), Vec::new()))
        })?;
        Ok(answer)
    }

    /// The whole authority, logged merges included. Makes and locks nothing.
    pub fn authority(&self) -> Result<Vec<Shard>> {
        let count = self.engine.coverage_shards()?;
        // Logged merges first: one that is settled meanwhile is in the shards.
        let first = on(Guard::TransactionFirst);
        let mut pending = if first {
            self.engine.pending()?
        } else {
            Vec::new()
        };
        let shards: Vec<u32> = (0..count).collect();
        let reads: Vec<Read> = shards
            .iter()
            .map(|shard| self.engine.read_shard(*shard))
            .collect();
        let mut all = decode_all(&shards, count, &reads)?;
        if !first {
            pending = self.engine.pending()?;
        }
        for record in pending.into_iter().filter(|_| on(Guard::TransactionRead)) {
            if let Some(shard) = all.get_mut(&record.shard) {
                shard.add(record.entries.into_iter());
            }
        }
        Ok(all.into_values().collect())
    }

    /// What pulls of this handle have not given yet, own merges included; a
    /// list a shard. `take` gets it; the position moves only when it is happy.
    pub fn pull(&self, take: &mut Take<'_>) -> Result<u64> {
        let authority = self.authority()?;
        // Never waited for: whoever finds it taken (another thread, or one that
        // a fork lost) starts anew, and gives some bits twice.
        let mut given = self
            .given
            .try_lock()
            .ok()
            .map(|mut kept| std::mem::take(&mut *kept));
        let position = given.get_or_insert_with(Given::new);
        let fresh: Vec<(u32, Vec<Edge>)> = authority
            .iter()
            .map(|shard| {
                (
                    shard.shard,
                    newer(position.get(&shard.shard), &shard.entries),
                )
            })
            .filter(|(_, edges)| !edges.is_empty())
            .collect();
        let taken = take(&fresh);
        if taken.is_ok() || !on(Guard::PullTaken) {
            position.extend(
                authority
                    .into_iter()
                    .map(|shard| (shard.shard, shard.entries)),
            );
        }
        if let (Some(given), Ok(mut kept)) = (given, self.given.try_lock()) {
            *kept = given;
        }
        taken?;
        Ok(fresh.iter().map(|(_, edges)| bits_in(edges)).sum())
    }

    /// One shard's text, as it stands, without its newline; `None`: absent.
    pub fn shard_record(&self, shard: u32) -> Result<Option<String>> {
        let count = self.engine.coverage_shards()?;
        if shard >= count {
            let text = format!("shard: {shard} is not below {count}");
            return Err(Error::new(Kind::Invalid, text));
        }
        let read = self.engine.read_shard(shard);
        decode_all(&[shard], count, std::slice::from_ref(&read))?;
        let bytes = read?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).trim_end().to_string()))
    }

    /// The map's size and build, where somebody fixed them.
    pub fn map_info(&self) -> Result<Option<MapInfo>> {
        let Some(bytes) = self.engine.read_side(Side::Map)? else {
            return Ok(None);
        };
        let parsed = MapInfo::parse(&bytes);
        parsed
            .map(Some)
            .map_err(|why| Error::new(Kind::Corrupt, format!("map.json: {why}")))
    }

    /// Renews this coordinator's heartbeat.
    pub fn coverage_heartbeat(&self) -> Result<()> {
        let settings = &self.settings;
        let beat = Heartbeat {
            count: settings.coordinator_count,
            id: settings.owner.clone(),
            index: settings.coordinator_index,
            updated: self.now()?,
        };
        let bytes = heartbeat_bytes(&beat).map_err(|why| Error::new(Kind::Invalid, why))?;
        self.engine
            .write_side(Side::Coordinator(settings.coordinator_index), &bytes)
    }

    /// A shard's preferred owner: for locality and display; anyone may merge.
    pub fn coverage_owner(&self, shard: u32) -> Result<(u32, String)> {
        let count = self.engine.coverage_shards()?;
        if shard >= count {
            let text = format!("shard: {shard} is not below {count}");
            return Err(Error::new(Kind::Invalid, text));
        }
        Ok(self.owner_among(shard, &self.live_coordinators(self.now()?)?))
    }

    fn owner_among(&self, shard: u32, live: &BTreeMap<u32, String>) -> (u32, String) {
        let me = (
            self.settings.coordinator_index,
            self.settings.owner.as_str(),
        );
        preferred_owner(shard, self.settings.coordinator_count, live, me)
    }

    /// Coordinators whose heartbeat is fresh. A bad one only removes itself (C3).
    pub(super) fn live_coordinators(&self, now: f64) -> Result<BTreeMap<u32, String>> {
        let mut live = BTreeMap::new();
        for index in 0..self.settings.coordinator_count {
            let read = self.engine.read_side(Side::Coordinator(index));
            let beat = read
                .ok()
                .flatten()
                .and_then(|bytes| parse_heartbeat(&bytes).ok());
            let fresh = |beat: &Heartbeat| beat.index == index && self.fresh(beat, now);
            live.extend(beat.filter(fresh).map(|beat| (index, beat.id)));
        }
        Ok(live)
    }

    /// Whether a coordinator's heartbeat counts.
    pub(super) fn fresh(&self, beat: &Heartbeat, now: f64) -> bool {
        now - beat.updated < self.settings.coverage_ttl
            && beat.updated - now <= self.settings.clock_skew
    }

    /// Refuses candidates of another size or build (C6, F37), and fixes both
    /// where this call is the first that knows them.
    pub(super) fn fit(&self, candidates: &[Candidate]) -> Result<()> {
        let named = self.settings.map_size;
        let Some(size) = self.agree(candidates)? else {
            return Ok(());
        };
        let fitted = self.fitted.load(Ordering::Relaxed) == size || !on(Guard::MapDurable);
        if self.map_info()?.is_some() && fitted {
            return Ok(());
        }
        debug_assert!(named == 0 || named == size);
        // Indices beyond the size that are there already would stay for ever.
        let highest = self
            .authority()?
            .iter()
            .filter_map(|shard| shard.entries.last())
            .max()
            .copied();
        if let Some((index, _)) =
            highest.filter(|(index, _)| u64::from(*index) >= size && on(Guard::MapBeyond))
        {
            let text = format!("map: index {index} is set, beyond the size {size}");
            return Err(Error::new(Kind::Mismatch, text));
        }
        let identity = self.settings.map_identity.clone().unwrap_or_default();
        self.engine
            .write_side(Side::Map, &MapInfo { identity, size }.to_bytes())?;
        // Another may have been first, with another size.
        self.agree(candidates)?;
        self.fitted.store(size, Ordering::Relaxed);
        Ok(())
    }

    /// The size that all who know one agree on.
    pub(super) fn agree(&self, candidates: &[Candidate]) -> Result<Option<u64>> {
        let there = self.map_info()?;
        let mismatch = |text: String| Err(Error::new(Kind::Mismatch, text));
        if let (Some(there), Some(named)) = (&there, &self.settings.map_identity) {
            if there.identity != *named && on(Guard::MapIdentity) {
                let text = format!("map identity: \"{}\", not \"{named}\"", there.identity);
                return mismatch(text);
            }
        }
        let named = Some(self.settings.map_size).filter(|size| *size > 0);
        let mut size = there.map(|there| there.size);
        for next in named
            .into_iter()
            .chain(candidates.iter().filter_map(|one| one.map_size))
        {
            if let Some(size) = size.filter(|size| *size != next && on(Guard::MapSize)) {
                return mismatch(format!("map size: {size} bytes, not {next}"));
            }
            size = Some(next);
        }
        let highest = candidates
            .iter()
            .filter_map(|one| one.edges.last())
            .map(|edge| edge.0)
            .max();
        match (size, highest) {
            (Some(size), Some(index)) if u64::from(index) >= size && on(Guard::MapIndex) => {
                mismatch(format!(
                    "edges: index {index} is beyond the map's {size} bytes"
                ))
            }
            _ => Ok(size),
        }
    }
}

/// Entries with the bits that `given` does not have.
fn newer(given: Option<&Vec<Edge>>, entries: &[Edge]) -> Vec<Edge> {
    let given = given.map_or(&[][..], |given| &given[..]);
    let mut at = 0;
    let fresh = |(index, bits): &Edge| {
        while given.get(at).is_some_and(|known| known.0 < *index) {
            at += 1;
        }
        let known = given
            .get(at)
            .filter(|known| known.0 == *index)
            .map_or(0, |known| known.1);
        Some((*index, bits & !known)).filter(|(_, bits)| *bits != 0)
    };
    entries.iter().filter_map(fresh).collect()
}

/// Only absence is an empty shard (C1).
fn decode_all(shards: &[u32], count: u32, reads: &[Read]) -> Result<BTreeMap<u32, Shard>> {
    let decode = |(number, read): (&u32, &Read)| {
        let shard = match read {
            Err(_) if !on(Guard::DamagedShard) => Shard::empty(*number),
            Err(error) => return Err(error.clone()),
            Ok(None) => Shard::empty(*number),
            Ok(Some(bytes)) => match Shard::parse(*number, count, bytes) {
                Ok(shard) => shard,
                Err(_) if !on(Guard::DamagedShard) => Shard::empty(*number),
                Err(why) => {
                    let text = format!("coverage shard {number}: {why}");
                    return Err(Error::new(Kind::Corrupt, text));
                }
            },
        };
        Ok((*number, shard))
    };
    shards.iter().zip(reads).map(decode).collect()
}
