//! What a report is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use symlease::campaign::survey::{commit_of, Commit};
use symlease::campaign::Campaign;
use symlease::engine::Table;
use symlease::record::lease::{Lease, Status};

use crate::open::Failure;
use crate::status::snapshot::Snapshot;
use crate::text::progress;

/// A peer's clock may be ahead; what lies further ahead is no time.
const AHEAD: f64 = 3600.0;
/// The earliest time that is believed: in 2001. Tests and damage date lower.
const EARLIEST: f64 = 1e9;
/// Longer than any work.
const WORK_MAX: f64 = 30.0 * 86_400.0;

/// Work that was finished.
pub struct Done {
    pub at: f64,
    pub owner: String,
    pub results: u64,
    /// Seconds since its last claim.
    pub took: Option<f64>,
    pub attempts: u32,
}

/// All of it.
pub struct Facts {
    pub now: Snapshot,
    /// By time.
    pub done: Vec<Done>,
    pub steals: u64,
    /// Corpora that commits name, and when each of their files was written.
    pub corpora: BTreeMap<String, Vec<f64>>,
    /// Merges that brought something, by contributor.
    pub contributors: BTreeMap<String, u64>,
    /// Bits by hit-count bucket.
    pub buckets: [u64; 8],
    /// Waits for locks by length, as published: slot n from 2^n microseconds on.
    pub waits: Vec<u64>,
}

impl Facts {
    pub fn gather(campaign: &Campaign) -> Result<Facts, Failure> {
        let now = Snapshot::take(campaign)?;
        let mut all = Facts {
            now,
            done: Vec::new(),
            steals: 0,
            corpora: BTreeMap::new(),
            contributors: BTreeMap::new(),
            buckets: [0; 8],
            waits: Vec::new(),
        };
        all.records(campaign)?;
        all.coverage(campaign);
        // A handle with sessions in several roots says the same in each; later
        // words are larger.
        let mut handles: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for counters in campaign
            .sessions()?
            .into_iter()
            .filter_map(|one| one.counters)
        {
            let sum = |waits: &[u64]| waits.iter().fold(0u64, |sum, one| sum.saturating_add(*one));
            let there = handles.entry(counters.handle).or_default();
            if sum(&counters.waits) > sum(there) {
                *there = counters.waits;
            }
        }
        handles
            .into_values()
            .for_each(|waits| all.add_waits(&waits));
        Ok(all)
    }

    fn records(&mut self, campaign: &Campaign) -> Result<(), Failure> {
        let (mut corpora, bar) = (BTreeSet::new(), progress("records"));
        let scanned = campaign.scan(Table::Work, None, &mut |found| {
            bar.inc(1);
            if let Ok(lease) = &found.record {
                self.steals += u64::from(lease.steals());
                self.record(campaign, lease, &mut corpora);
            }
            true
        });
        bar.finish_and_clear();
        match scanned {
            Err(error) if error.kind == symlease::error::Kind::Invalid => {}
            other => other?,
        }
        self.done.sort_by(|a, b| a.at.total_cmp(&b.at));
        for path in corpora {
            let times = written(Path::new(OsStr::from_bytes(&path)), self.now.at);
            self.corpora.insert(crate::text::path(&path), times);
        }
        Ok(())
    }

    fn record(&mut self, campaign: &Campaign, lease: &Lease, corpora: &mut BTreeSet<Vec<u8>>) {
        let mut results = 0;
        if let Commit::Replayable(manifest) = commit_of(lease) {
            results = manifest.results.len() as u64;
            corpora.insert(campaign.path_of(&manifest.corpus));
            let own = manifest.results.iter().map(|result| &result.corpus);
            corpora.extend(own.map(|corpus| campaign.path_of(corpus)));
        }
        let at = lease.completed().filter(|at| believed(*at, self.now.at));
        if let (Status::Done, Some(at)) = (lease.status(), at) {
            // A fence is the claim's clock in nanoseconds, unless one was ahead.
            let claimed = lease.fence().map(|fence| fence as f64 / 1e9);
            let took = claimed.map(|claimed| at - claimed);
            self.done.push(Done {
                at,
                owner: lease.owner(),
                results,
                took: took.filter(|took| (0.0..WORK_MAX).contains(took)),
                attempts: lease.attempts(),
            });
        }
    }

    /// What is damaged is told by the snapshot.
    fn coverage(&mut self, campaign: &Campaign) {
        let Ok(count) = campaign.engine().coverage_shards() else {
            return;
        };
        for number in 0..count {
            let read = campaign.engine().read_shard(number).ok().flatten();
            let shard = read.and_then(|bytes| {
                symlease::record::shard::Shard::parse(number, count, &bytes).ok()
            });
            let Some(shard) = shard else { continue };
            for (name, many) in shard.contributors {
                *self.contributors.entry(name).or_default() += many;
            }
            for (_, bits) in shard.entries {
                for (bucket, sum) in self.buckets.iter_mut().enumerate() {
                    *sum += u64::from(bits >> bucket & 1);
                }
            }
        }
    }

    fn add_waits(&mut self, waits: &[u64]) {
        if self.waits.len() < waits.len() {
            self.waits.resize(waits.len(), 0);
        }
        for (sum, many) in self.waits.iter_mut().zip(waits) {
            *sum = sum.saturating_add(*many);
        }
    }

    /// When the first and the last of it happened.
    pub fn range(&self) -> (f64, f64) {
        let corpora = self.corpora.values().flatten().copied();
        let times = self.done.iter().map(|done| done.at).chain(corpora);
        let first = times.clone().fold(f64::INFINITY, f64::min);
        let last = times.fold(f64::NEG_INFINITY, f64::max);
        match first.is_finite() {
            true => (first, last),
            false => (self.now.at, self.now.at),
        }
    }
}

fn believed(time: f64, now: f64) -> bool {
    (EARLIEST..now + AHEAD).contains(&time)
}

/// When the files of a corpus were written, by time.
fn written(place: &Path, now: f64) -> Vec<f64> {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    let time = |entry: std::fs::DirEntry| {
        let stat = entry.metadata().ok().filter(|stat| stat.is_file())?;
        let since = stat.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(since.as_secs_f64()).filter(|time| believed(*time, now))
    };
    let hidden = |entry: &std::fs::DirEntry| entry.file_name().as_bytes().starts_with(b".");
    let mut all: Vec<f64> = entries
        .filter(|one| !hidden(one))
        .filter_map(time)
        .collect();
    all.sort_by(f64::total_cmp);
    all
}
