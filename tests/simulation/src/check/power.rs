//! After a power cut: what was acknowledged is there, nothing is torn.

use std::collections::BTreeSet;

use super::{record_of, shard_of, show, Checker};
use crate::client::STAGED;
use crate::history::{Asked, Entry, Got};

impl Checker<'_> {
    /// Each name holds, after each cut, a version that was once published, and
    /// none older than the last one that somebody was told of.
    pub(super) fn power(&mut self) {
        let mut broken = Vec::new();
        for (path, timeline) in &self.timelines.0 {
            // Staged results are the caller's: not synced before a commit.
            if path.starts_with(STAGED.as_bytes()) {
                continue;
            }
            // A transaction may come back: it is only rolled forward once more.
            let floor_counts = record_of(path).is_some()
                || shard_of(path).is_some()
                || path.starts_with(b"/c/corpus/");
            for (at, recovered) in timeline.versions.iter().enumerate().skip(1) {
                if recovered.operation != 0 {
                    continue;
                }
                let from = timeline.versions[..at]
                    .iter()
                    .rposition(|version| version.operation == 0)
                    .unwrap_or(0);
                let before = &timeline.versions[from..at];
                let told = before.iter().rposition(|version| {
                    let entry = self.history.of(version.operation);
                    entry.is_some_and(|entry| acknowledged(entry, path))
                });
                let told = if floor_counts { told.unwrap_or(0) } else { 0 };
                if before[told..]
                    .iter()
                    .any(|version| version.bytes == recovered.bytes)
                {
                    continue;
                }
                let known = before
                    .iter()
                    .any(|version| version.bytes == recovered.bytes);
                let by = before[told].operation;
                let (id, what) = match known {
                    true => (
                        "power",
                        format!("an older version than operation {by} was told"),
                    ),
                    false => ("power", "a content that was never published".to_string()),
                };
                broken.push((
                    id,
                    format!("{} after cut {}: {what}", show(path), recovered.epoch),
                ));
            }
        }
        for (id, text) in broken {
            self.broken(id, text);
        }
        self.identities();
        self.map_size();
    }

    /// C6: once a merge of somebody who knows the map's size was told, the size
    /// is fixed.
    fn map_size(&mut self) {
        for cut in &self.history.cuts.clone() {
            let told = self.history.entries.iter().find(|entry| {
                let merged = matches!(entry.got, Some(Got::Novel(_)));
                merged
                    && self.history.openings[entry.opening].sized
                    && entry.end.is_some_and(|end| end <= cut.call)
            });
            let there = cut
                .files
                .iter()
                .any(|(path, _)| path == b"/c/.coverage_owner/map.json");
            if let (Some(entry), false) = (told, there) {
                let text = format!(
                    "no map size after cut, operation {} fixed it",
                    entry.operation
                );
                self.broken("C6", text);
            }
        }
    }

    /// M1: a root in which something was acknowledged keeps its identity.
    fn identities(&mut self) {
        let roots = [
            ".work_lease_table",
            ".target_lease_table",
            ".coverage_owner",
        ];
        let mut broken = Vec::new();
        for (number, cut) in self.history.cuts.iter().enumerate() {
            for root in roots {
                let inside = format!("/c/{root}/");
                let identity = format!("/c/{root}/symlease.json");
                let files: BTreeSet<&[u8]> =
                    cut.files.iter().map(|(path, _)| path.as_slice()).collect();
                let told = self.timelines.0.iter().any(|(path, timeline)| {
                    path.starts_with(inside.as_bytes())
                        && timeline.versions.iter().any(|version| {
                            let entry = self.history.of(version.operation);
                            version.epoch == number
                                && version.call <= cut.call
                                && entry.is_some_and(|entry| acknowledged(entry, path))
                        })
                });
                if told && !files.contains(identity.as_bytes()) {
                    broken.push(format!("{root}: no identity after cut {}", number + 1));
                }
            }
        }
        for text in broken {
            self.broken("M1", text);
        }
    }
}

/// Whether the caller was told that what this operation published at a path
/// stands.
pub fn acknowledged(entry: &Entry, path: &[u8]) -> bool {
    let id = record_of(path).map(|(_, id)| id);
    match (&entry.asked, &entry.got) {
        (_, None | Some(Got::Failed(_))) => false,
        (Asked::HeartbeatMany(leases), Some(Got::Many(answers))) => {
            let mine = leases.iter().zip(answers);
            let mut mine = mine.filter(|((lease, _), _)| Some(lease) == id.as_ref());
            mine.all(|(_, answer)| answer.is_ok())
        }
        (_, Some(Got::Replayed(_, first))) => first.is_none(),
        _ => true,
    }
}
