//! Every content that a name ever had, in order.

use std::collections::BTreeMap;

use symlease::sys::sim::disk::Bytes;
use symlease::sys::sim::Change;

use crate::history::Cut;

/// One content of a name.
#[derive(Clone, Debug)]
pub struct Version {
    /// The content; `None`: not there.
    pub bytes: Option<Bytes>,
    /// The operation that published it; 0: a power cut left it.
    pub operation: u64,
    /// The kernel's count of calls.
    pub call: u64,
    /// True time.
    pub now: u64,
    /// Power cuts before it.
    pub epoch: usize,
    /// Its place among all changes and cuts: counts of calls may be equal.
    pub order: u64,
    /// Whether its writer held its lock; `None`: it has no lock file.
    pub locked: Option<bool>,
}

/// A name's contents, the first one being its absence.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// In order.
    pub versions: Vec<Version>,
}

impl Timeline {
    /// The versions that were current at some time within two counts of calls.
    pub fn within(&self, begin: u64, end: u64) -> impl Iterator<Item = (usize, &Version)> {
        let last = self.versions.len() - 1;
        self.versions
            .iter()
            .enumerate()
            .filter(move |(at, version)| {
                let until = match *at == last {
                    true => u64::MAX,
                    false => self.versions[at + 1].call,
                };
                version.call <= end && until >= begin
            })
    }

    /// The version that was current just before a place among all changes.
    pub fn before(&self, order: u64) -> usize {
        let after = self
            .versions
            .partition_point(|version| version.order < order);
        after.saturating_sub(1)
    }

    /// The versions that an operation published.
    pub fn by(&self, operation: u64) -> impl Iterator<Item = (usize, &Version)> {
        let mine = move |(_, version): &(usize, &Version)| version.operation == operation;
        self.versions.iter().enumerate().filter(mine)
    }
}

/// All names.
#[derive(Clone, Debug, Default)]
pub struct Timelines(pub BTreeMap<Vec<u8>, Timeline>);

impl Timelines {
    /// From the kernel's journal and the power cuts.
    pub fn new(journal: &[Change], cuts: &[Cut]) -> Timelines {
        let mut all = Timelines::default();
        let mut epoch = 0;
        for (at, change) in journal.iter().enumerate() {
            while cuts.get(epoch).is_some_and(|cut| cut.journal <= at) {
                all.recover(&cuts[epoch], epoch + 1);
                epoch += 1;
            }
            // Counters promise nothing: not synced, and published at a close.
            if change.path.ends_with(b".stats") {
                continue;
            }
            let absent = Version {
                bytes: None,
                operation: 0,
                call: 0,
                now: 0,
                epoch,
                order: 0,
                locked: None,
            };
            let timeline = all
                .0
                .entry(change.path.clone())
                .or_insert_with(|| Timeline {
                    versions: vec![absent],
                });
            timeline.versions.push(Version {
                bytes: change.bytes.clone(),
                operation: change.operation,
                call: change.call,
                now: change.now,
                epoch,
                order: 2 * at as u64 + 2,
                locked: change.locked,
            });
        }
        for (number, cut) in cuts.iter().enumerate().skip(epoch) {
            all.recover(cut, number + 1);
        }
        all
    }

    fn recover(&mut self, cut: &Cut, epoch: usize) {
        for (path, timeline) in &mut self.0 {
            let found = cut.files.binary_search_by(|(name, _)| name.cmp(path));
            timeline.versions.push(Version {
                bytes: found.ok().map(|at| Bytes::clone(&cut.files[at].1)),
                operation: 0,
                call: cut.call,
                now: cut.now,
                epoch,
                order: 2 * cut.journal as u64 + 1,
                locked: None,
            });
        }
    }
}
