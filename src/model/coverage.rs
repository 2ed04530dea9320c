//! Coverage decisions: buckets, and the monotone OR that credits each bit once.

use std::collections::BTreeMap;

use crate::record::number::python_float;
use crate::record::reader::{quote, Reader};
use crate::record::shard::{Edge, Shard};

/// The bucket bit of every hit count, as AFL++ has them: 1, 2, 3, 4-7, 8-15,
/// 16-31, 32-127, 128 and more.
const BUCKETS: [u8; 256] = buckets();

const fn buckets() -> [u8; 256] {
    let mut table = [0; 256];
    let mut count = 1;
    while count < 256 {
        table[count] = match count {
            1 => 1,
            2 => 2,
            3 => 4,
            4..=7 => 8,
            8..=15 => 16,
            16..=31 => 32,
            32..=127 => 64,
            _ => 128,
        };
        count += 1;
    }
    table
}

/// Turns raw hit counts into bucket bits. Lengths are equal.
pub fn classify(counts: &[u8], bits: &mut [u8]) {
    debug_assert_eq!(counts.len(), bits.len());
    for (bit, count) in bits.iter_mut().zip(counts) {
        *bit = BUCKETS[usize::from(*count)];
    }
}

/// The set bytes of a dense map. Zero words are skipped eight bytes at a time.
pub fn edges_of(map: &[u8]) -> Vec<Edge> {
    let mut edges = Vec::new();
    for (number, chunk) in map.chunks(8).enumerate() {
        if chunk.iter().all(|byte| *byte == 0) {
            continue;
        }
        let set = chunk.iter().enumerate().filter(|(_, bits)| **bits != 0);
        edges.extend(set.map(|(at, bits)| ((number * 8 + at) as u32, *bits)));
    }
    edges
}

/// A list in rising order, each index once, bits ORed, zeros dropped.
pub fn normalise(edges: &[Edge]) -> Vec<Edge> {
    let mut sorted: Vec<Edge> = edges
        .iter()
        .copied()
        .filter(|(_, bits)| *bits != 0)
        .collect();
    sorted.sort_unstable();
    sorted.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 |= next.1;
        }
        same
    });
    sorted
}

/// The shards that a list touches, rising.
pub fn shards_of<'a>(edges: impl Iterator<Item = &'a Edge>, count: u32) -> Vec<u32> {
    let mut touched = vec![false; count as usize];
    for (index, _) in edges {
        touched[(index % count) as usize] = true;
    }
    (0..count)
        .filter(|shard| touched[*shard as usize])
        .collect()
}

/// Merges candidates in order into the shards at hand, as if one by one: each
/// bit is credited to the first that has it (C4). Candidates are normalised;
/// edges of other shards are passed over. Answers each candidate's new bits.
pub fn merge_candidates(
    shards: &mut BTreeMap<u32, Shard>,
    candidates: &[Vec<Edge>],
    count: u32,
) -> Vec<Vec<Edge>> {
    let merge = |candidate: &Vec<Edge>| {
        let mut parts: BTreeMap<u32, Vec<Edge>> = BTreeMap::new();
        for edge in candidate {
            parts.entry(edge.0 % count).or_default().push(*edge);
        }
        let mut novel = Vec::new();
        for (number, part) in parts {
            if let Some(shard) = shards.get_mut(&number) {
                novel.extend(shard.add(part.into_iter()));
            }
        }
        novel.sort_unstable();
        novel
    };
    candidates.iter().map(merge).collect()
}

/// Bits of `edges` that `shards` do not have.
pub fn unknown(shards: &BTreeMap<u32, Shard>, edges: &[Edge], count: u32) -> u64 {
    let missing = |(index, bits): &Edge| {
        let known = shards.get(&(index % count)).map_or(0, |shard| {
            let found = shard.entries.binary_search_by_key(index, |entry| entry.0);
            found.map_or(0, |at| shard.entries[at].1)
        });
        u64::from((bits & !known).count_ones())
    };
    edges.iter().map(missing).sum()
}

/// Bits set in a list.
pub fn bits_in(edges: &[Edge]) -> u64 {
    edges
        .iter()
        .map(|(_, bits)| u64::from(bits.count_ones()))
        .sum()
}

/// A shard's preferred owner: the first live coordinator from `shard mod
/// count` on; `me` where none lives.
pub fn preferred_owner(
    shard: u32,
    count: u32,
    live: &BTreeMap<u32, String>,
    me: (u32, &str),
) -> (u32, String) {
    let first = shard % count.max(1);
    let order = (first..count).chain(0..first);
    let found = order.filter_map(|index| live.get_key_value(&index)).next();
    match found {
        Some((index, name)) => (*index, name.clone()),
        None => (me.0, me.1.to_string()),
    }
}

/// Notes a change in the shard. `now` is finite and >= 0.
pub fn stamp(shard: &mut Shard, owner: &str, owner_index: u32, writer: &str, now: f64) {
    shard.epoch = shard.epoch.saturating_add(1);
    let count = shard.contributors.entry(writer.to_string()).or_default();
    *count = count.saturating_add(1);
    shard.last_writer = Some(writer.to_string());
    shard.owner = Some(owner.to_string());
    shard.owner_index = Some(owner_index);
    shard.updated = Some(now);
}

/// The largest heartbeat file.
pub const HEARTBEAT_LIMIT: usize = 4096;

/// What `coordinators/<index:04d>.json` says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heartbeat {
    /// Coordinators of the campaign.
    pub count: u32,
    /// The coordinator's identity.
    pub id: String,
    /// Its place.
    pub index: u32,
    /// When it wrote this.
    pub updated: f64,
}

/// Reads a heartbeat, or says why the bytes are none (C3).
pub fn parse_heartbeat(bytes: &[u8]) -> Result<Heartbeat, String> {
    if bytes.len() > HEARTBEAT_LIMIT {
        return Err("larger than 4096 bytes".to_string());
    }
    let (mut beat, mut found, mut schema) = (Heartbeat::default(), 0, 0);
    let mut reader = Reader::new(bytes)?;
    reader.object(|reader, key| {
        found += 1;
        match key.as_str() {
            "count" => beat.count = reader.small()?,
            "id" => beat.id = reader.string()?,
            "index" => beat.index = reader.small()?,
            "schema" => schema = reader.unsigned()?,
            "updated" => beat.updated = reader.time()?,
            _ => {
                found -= 1;
                reader.skip()?;
            }
        }
        Ok(())
    })?;
    reader.end()?;
    if found != 5 || schema != 1 {
        return Err("a field is missing, or not schema 1".to_string());
    }
    check_heartbeat(&beat)?;
    Ok(beat)
}

/// A heartbeat's file.
pub fn heartbeat_bytes(beat: &Heartbeat) -> Result<Vec<u8>, String> {
    check_heartbeat(beat)?;
    let mut line = format!("{{\"count\":{},\"id\":", beat.count);
    quote(&beat.id, &mut line);
    let updated = python_float(beat.updated);
    line.push_str(&format!(
        ",\"index\":{},\"schema\":1,\"updated\":{updated}}}\n",
        beat.index
    ));
    if line.len() > HEARTBEAT_LIMIT {
        return Err("the identity is too long for a heartbeat".to_string());
    }
    Ok(line.into_bytes())
}

fn check_heartbeat(beat: &Heartbeat) -> Result<(), String> {
    if beat.id.is_empty() {
        return Err("a heartbeat without an identity".to_string());
    }
    if beat.index >= beat.count || beat.count > 4096 {
        return Err(format!("coordinator {} of {}", beat.index, beat.count));
    }
    if !beat.updated.is_finite() || beat.updated < 0.0 {
        return Err("a time that is not finite or negative".to_string());
    }
    Ok(())
}
