//! The state of a campaign for those who watch it. A damaged piece is counted,
//! and hides nothing else. Reads only.

use std::collections::BTreeMap;

use super::Campaign;
use crate::engine::Side;
use crate::error::{Error, Kind, Result};
use crate::model::coverage::{bits_in, parse_heartbeat, Heartbeat};
use crate::record::shard::{Edge, Shard};

/// What the coverage authority holds.
#[derive(Debug, Default)]
pub struct Coverage {
    /// Indices with a bit at least.
    pub edges: u64,
    /// Bits.
    pub bits: u64,
    /// Changes of all shards so far.
    pub changes: u64,
    /// Shards that somebody has written.
    pub written: u32,
    /// Shards.
    pub shards: u32,
    /// Shards with a logged merge that is perhaps not published whole; its bits
    /// are counted.
    pub pending: u64,
    /// What could not be read; its bits are not counted.
    pub damaged: Vec<Error>,
}

/// A coordinator's heartbeat.
#[derive(Clone, Debug, PartialEq)]
pub struct Coordinator {
    /// What it says.
    pub beat: Heartbeat,
    /// Whether it is fresh.
    pub live: bool,
}

impl Campaign {
    /// Sums the authority up, logged merges included.
    pub fn coverage_overview(&self) -> Result<Coverage> {
        let count = self.engine.coverage_shards()?;
        let mut all = Coverage {
            shards: count,
            ..Coverage::default()
        };
        // Logged merges first: one that is settled meanwhile is in the shards.
        let mut pending: BTreeMap<u32, Vec<Edge>> = BTreeMap::new();
        match self.engine.pending() {
            Ok(records) => {
                for record in records {
                    pending
                        .entry(record.shard)
                        .or_default()
                        .extend(record.entries);
                }
            }
            Err(error) => all.damaged.push(error),
        }
        all.pending = pending.len() as u64;
        for number in 0..count {
            let read = self.engine.read_shard(number);
            let parsed = read.and_then(|bytes| match bytes {
                None => Ok(Shard::empty(number)),
                Some(bytes) => Shard::parse(number, count, &bytes).map_err(|why| {
                    Error::new(Kind::Corrupt, format!("coverage shard {number}: {why}"))
                }),
            });
            match parsed {
                Ok(mut shard) => {
                    all.written += u32::from(shard.epoch > 0);
                    all.changes = all.changes.saturating_add(shard.epoch);
                    let logged = pending.remove(&number).unwrap_or_default();
                    shard.add(logged.into_iter());
                    all.edges += shard.entries.len() as u64;
                    all.bits += bits_in(&shard.entries);
                }
                Err(error) => all.damaged.push(error),
            }
        }
        Ok(all)
    }

    /// Every coordinator that has left a heartbeat, by its index, and how many
    /// of these files are damaged (C3).
    pub fn coordinators(&self) -> Result<(Vec<Coordinator>, u64)> {
        let now = self.now()?;
        let (mut all, mut damaged) = (Vec::new(), 0);
        for index in self.engine.coordinators()? {
            let read = match self.engine.read_side(Side::Coordinator(index)) {
                Ok(None) => continue,
                other => other.ok().flatten(),
            };
            let beat = read.and_then(|bytes| parse_heartbeat(&bytes).ok());
            match beat.filter(|beat| beat.index == index) {
                Some(beat) => all.push(Coordinator {
                    live: self.fresh(&beat, now),
                    beat,
                }),
                None => damaged += 1,
            }
        }
        Ok((all, damaged))
    }
}
