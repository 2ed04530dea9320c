//! The authority: it only grows, each bit is credited at most once, and nothing
//! that was merged is lost (C4, C5).

use std::collections::BTreeMap;

use symlease::error::Kind;
use symlease::model::coverage::bits_in;
use symlease::record::shard::{Edge, Shard};
use symlease::record::transaction::Transaction;
use symlease::sys::sim::disk::Bytes;

use super::{shard_of, show, Checker};
use crate::history::{Asked, Cut, Entry, Got};

/// Bits by index.
pub type Bits = BTreeMap<u32, u8>;

/// Adds bits; answers those that were there.
pub fn add(bits: &mut Bits, edges: &[Edge]) -> Option<Edge> {
    let mut twice = None;
    for (index, mask) in edges {
        let there = bits.entry(*index).or_default();
        if *there & mask != 0 {
            twice = Some((*index, *there & mask));
        }
        *there |= mask;
    }
    twice
}

/// Bits of `edges` that `bits` does not have.
pub fn missing(bits: &Bits, edges: &[Edge]) -> Option<Edge> {
    let lacks = |(index, mask): &Edge| {
        let left = mask & !bits.get(index).copied().unwrap_or(0);
        (left != 0).then_some((*index, left))
    };
    edges.iter().find_map(lacks)
}

/// The bits of a logged merge.
pub fn logged(path: &[u8], bytes: &[u8], count: u32) -> Vec<Edge> {
    let place = b"/c/.coverage_owner/claim-transactions/";
    if !path.starts_with(place) || !path.ends_with(b".json") {
        return Vec::new();
    }
    let found = Transaction::parse(count, bytes);
    let records = found.map_or(Vec::new(), |found| found.records);
    records
        .into_iter()
        .flat_map(|record| record.entries)
        .collect()
}

/// What a call brings: a list a candidate.
fn brings(entry: &Entry) -> Vec<Vec<Edge>> {
    match &entry.asked {
        Asked::Merge(candidates) => candidates.iter().map(|one| one.edges.clone()).collect(),
        Asked::Commit(_, _, offers) => {
            let maps = offers.iter().filter_map(|offer| offer.map.clone());
            maps.collect()
        }
        _ => Vec::new(),
    }
}

impl Checker<'_> {
    /// The authority's history.
    pub(super) fn coverage(&mut self) {
        self.shards_grow();
        self.credited_once();
        for cut in &self.history.cuts.clone() {
            self.kept(cut);
        }
        let cuts = &self.history.cuts;
        let half = self.history.entries.iter().filter_map(|entry| {
            let cut = cuts.iter().find(|cut| cut.call >= entry.begin)?;
            self.half(entry, &self.recovered(cut))
        });
        let half: Vec<String> = half.collect();
        for text in half {
            self.broken("C5", text);
        }
    }

    /// C5: a merge whose caller died is made whole, or not at all: of what it
    /// brought into the shards nothing is there while something is missing.
    fn half(&self, entry: &Entry, there: &Bits) -> Option<String> {
        let (Asked::Merge(candidates), None) = (&entry.asked, &entry.got) else {
            return None;
        };
        let whole: Vec<Edge> = candidates
            .iter()
            .flat_map(|one| one.edges.clone())
            .collect();
        let lost = missing(there, &whole)?;
        // What others offer too may be theirs, settled by this call.
        let mut own = Bits::new();
        add(&mut own, &whole);
        let others = self.history.entries.iter();
        for other in others.filter(|other| other.operation != entry.operation) {
            for (index, bits) in brings(other).concat() {
                own.entry(index).and_modify(|own| *own &= !bits);
            }
        }
        for (path, timeline) in &self.timelines.0 {
            let Some(number) = shard_of(path) else {
                continue;
            };
            let mut mine = timeline.by(entry.operation);
            let Some((first, version)) = mine.next() else {
                continue;
            };
            let last = mine.last().map_or(version, |(_, version)| version);
            let (before, after) = (&timeline.versions[first - 1], last);
            let read = |bytes: &Option<Bytes>| -> Bits {
                let count = self.plan.coverage_shards;
                let shard = bytes
                    .as_deref()
                    .map(|bytes| Shard::parse(number, count, bytes));
                let shard = shard.and_then(Result::ok).unwrap_or_default();
                shard.entries.into_iter().collect()
            };
            let (before, after) = (read(&before.bytes), read(&after.bytes));
            let brought = after.iter().find_map(|(index, bits)| {
                let old = before.get(index).copied().unwrap_or(0);
                let now = there.get(index).copied().unwrap_or(0);
                let own = own.get(index).copied().unwrap_or(0);
                let new = bits & !old & now & own;
                (new != 0).then_some((*index, new))
            });
            if let Some(brought) = brought {
                let operation = entry.operation;
                return Some(format!(
                    "{operation} is half made: {brought:?}, not {lost:?}"
                ));
            }
        }
        None
    }

    /// A shard's bits only grow from one operation to the next. One that fails
    /// may take back what it has just written.
    fn shards_grow(&mut self) {
        let mut broken = Vec::new();
        for (path, timeline) in &self.timelines.0 {
            let Some(number) = shard_of(path) else {
                continue;
            };
            let mut before: Vec<Edge> = Vec::new();
            for (at, version) in timeline.versions.iter().enumerate() {
                let next = timeline.versions.get(at + 1);
                if next.is_some_and(|next| next.operation == version.operation) {
                    continue;
                }
                let parsed = version
                    .bytes
                    .as_deref()
                    .map_or(Ok(Shard::empty(number)), |bytes| {
                        Shard::parse(number, self.plan.coverage_shards, bytes)
                    });
                let shard = match parsed {
                    Ok(shard) => shard,
                    Err(why) => {
                        broken.push(("C1", format!("{}: {why}", show(path))));
                        continue;
                    }
                };
                let now: Bits = shard.entries.iter().copied().collect();
                // What a power cut takes is looked at by `kept`.
                if version.operation != 0 {
                    if let Some(lost) = missing(&now, &before) {
                        let by = version.operation;
                        broken.push(("C4", format!("{} by {by} lost {lost:?}", show(path))));
                    }
                }
                before = shard.entries;
            }
        }
        for (id, text) in broken {
            self.broken(id, text);
        }
    }

    fn credited_once(&mut self) {
        let mut credited = Bits::new();
        let mut broken = Vec::new();
        for entry in &self.history.entries {
            let Some(Got::Novel(lists)) = &entry.got else {
                continue;
            };
            for edges in lists {
                if let Some(twice) = add(&mut credited, edges) {
                    broken.push(format!("{twice:?} again by operation {}", entry.operation));
                }
            }
        }
        for text in broken {
            self.broken("C4", text);
        }
    }

    /// After a power cut all that callers were told of is in the shards, or in
    /// transactions that are still to be rolled forward.
    fn kept(&mut self, cut: &Cut) {
        let bits = self.recovered(cut);
        let mut broken = Vec::new();
        for entry in &self.history.entries {
            if entry.end.is_none_or(|end| end > cut.call) {
                continue;
            }
            let told: Vec<Vec<Edge>> = match (&entry.asked, &entry.got) {
                // New or known: either is told for ever.
                (Asked::Merge(candidates), Some(Got::Novel(_))) => {
                    candidates.iter().map(|one| one.edges.clone()).collect()
                }
                _ => continue,
            };
            for edges in told {
                if let Some(lost) = missing(&bits, &edges) {
                    broken.push(format!("{lost:?} of operation {} lost", entry.operation));
                }
            }
        }
        for text in broken {
            self.broken("power", text);
        }
    }

    /// At the end: the exact OR of what was offered, and no more credit than
    /// there are bits.
    pub(super) fn final_map(&mut self, map: &Bits) {
        let (mut offered, mut credited, mut uncertain) = (Bits::new(), Bits::new(), Bits::new());
        let mut total = 0;
        let mut lost = Vec::new();
        let settled = |entry: &Entry| {
            let certain = entry.error() == Some(Kind::Indeterminate);
            let again = |other: &&Entry| other.repeats == Some(entry.operation);
            let again = self.history.entries.iter().find(again);
            certain && again.is_some_and(Entry::succeeded)
        };
        for entry in &self.history.entries {
            let lists = brings(entry);
            if lists.is_empty() {
                continue;
            }
            for edges in &lists {
                add(&mut offered, edges);
            }
            match &entry.got {
                Some(Got::Novel(novel)) => {
                    for edges in novel {
                        total += bits_in(edges);
                        add(&mut credited, edges);
                        if let Some(one) = missing(map, edges) {
                            lost.push(format!("{one:?} of operation {}", entry.operation));
                        }
                    }
                }
                Some(Got::Commit(_, bits)) => {
                    total += bits;
                    for edges in &lists {
                        add(&mut uncertain, edges);
                    }
                }
                // A clean failure brought nothing, and what its repetition
                // answered was credited there.
                Some(Got::Failed(_))
                    if matches!(entry.asked, Asked::Merge(_))
                        && (!entry.unknown() || settled(entry)) => {}
                _ => {
                    for edges in &lists {
                        add(&mut uncertain, edges);
                    }
                }
            }
        }
        if self.history.cuts.is_empty() {
            let half = self.history.entries.iter();
            let half: Vec<String> = half.filter_map(|entry| self.half(entry, map)).collect();
            for text in half {
                self.broken("C5", text);
            }
        }
        let all: Vec<Edge> = map.iter().map(|(index, bits)| (*index, *bits)).collect();
        if let Some(strange) = missing(&offered, &all) {
            self.broken("C4", format!("{strange:?} was never offered"));
        }
        if total > bits_in(&all) {
            self.broken("C4", format!("{total} bits credited of {}", bits_in(&all)));
        }
        for text in lost {
            self.broken("C4", format!("{text} is not in the final map"));
        }
        // Exactly once: a bit without credit belongs to a call that did not
        // live to read its answer, or to a commit.
        let explained = |(index, bits): &Edge| {
            let known = |from: &Bits| from.get(index).copied().unwrap_or(0);
            bits & !known(&credited) & !known(&uncertain) == 0
        };
        if let Some(edge) = all.iter().find(|edge| !explained(edge)) {
            self.broken("C4", format!("{edge:?} was credited to nobody"));
        }
    }
}
