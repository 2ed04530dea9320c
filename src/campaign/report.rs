//! What a handle and a directory say of themselves, as JSON.

use super::Campaign;
use crate::engine::Counters;
use crate::environment::Correction;
use crate::error::Result;
use crate::record::json::quote;
use crate::record::number::python_float;
use crate::sys::errno_name;
use crate::sys::probe::{Finding, Step, STEPS};

/// Seconds that a probe's findings are good for: mounts change.
const PROBE_GOOD_FOR: f64 = 86_400.0;

/// Text as JSON.
fn text(text: &str) -> String {
    let mut out = String::new();
    quote(text.as_bytes(), &mut out);
    out
}

/// An object of names and JSON, in the order given.
fn object(members: &[(&str, String)]) -> String {
    let members: Vec<String> = members
        .iter()
        .map(|(name, value)| format!("{}:{value}", text(name)))
        .collect();
    format!("{{{}}}", members.join(","))
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

impl Campaign {
    /// Counters, waits, settings in force, what was corrected, and the other
    /// coordinators that live.
    pub fn stats(&self) -> Result<String> {
        let settings = &self.settings;
        let shards = self.engine.coverage_shards().ok();
        let live = match shards {
            Some(_) => self.live_coordinators(self.now()?)?,
            None => Default::default(),
        };
        let others = live
            .iter()
            .filter(|(index, _)| **index != settings.coordinator_index);
        let coordinators =
            others.map(|(index, id)| object(&[("id", text(id)), ("index", index.to_string())]));
        let mut in_force = vec![
            ("clock_skew", python_float(settings.clock_skew)),
            ("coordinator_count", settings.coordinator_count.to_string()),
            ("coordinator_index", settings.coordinator_index.to_string()),
            (
                "coverage_shards",
                shards.map_or("null".to_string(), |count| count.to_string()),
            ),
            ("coverage_ttl", python_float(settings.coverage_ttl)),
            (
                "map_identity",
                settings
                    .map_identity
                    .as_deref()
                    .map_or("null".to_string(), text),
            ),
            ("map_size", settings.map_size.to_string()),
            ("owner", text(&settings.owner)),
            ("target_ttl", python_float(settings.target_ttl)),
            ("work_ttl", python_float(settings.work_ttl)),
            (
                "expiry",
                text(if settings.observed {
                    "observed"
                } else {
                    "wall"
                }),
            ),
            ("worker", settings.worker.to_string()),
        ];
        in_force.extend(self.engine.settings());
        in_force.sort();
        Ok(object(&[
            ("coordinators", list(coordinators)),
            ("corrected", list(settings.corrected.iter().map(correction))),
            ("counters", counters(&self.engine.counters())),
            ("schema", "1".to_string()),
            ("settings", object(&in_force)),
            ("version", text(env!("CARGO_PKG_VERSION"))),
        ]))
    }
}

fn correction(one: &Correction) -> String {
    object(&[
        ("given", text(&one.given)),
        ("used", text(&one.used)),
        ("variable", text(&one.variable)),
    ])
}

fn counters(counters: &Counters) -> String {
    let last = counters
        .waits
        .iter()
        .rposition(|count| *count > 0)
        .map_or(0, |last| last + 1);
    object(&[
        ("contended", counters.contended.to_string()),
        ("indeterminate", counters.indeterminate.to_string()),
        ("locks", counters.locks.to_string()),
        ("retries", counters.retries.to_string()),
        ("syncs", counters.syncs.to_string()),
        ("timeouts", counters.timeouts.to_string()),
        ("unsynced", counters.unsynced.to_string()),
        ("wait_ns", counters.wait_ns.to_string()),
        // Slot n: waits of 2^n microseconds and more, up to the next slot.
        (
            "waits",
            list(counters.waits[..last].iter().map(u64::to_string)),
        ),
    ])
}

/// A probe's findings as JSON: what was proven, what was not, and until when.
/// Nothing is inferred from a file system's name.
pub fn probe_report(root: &str, host: &str, now: f64, findings: &[Finding]) -> String {
    let named = |wanted: &dyn Fn(&Finding) -> bool| {
        let pairs = STEPS
            .iter()
            .zip(findings)
            .filter(|(_, finding)| wanted(finding));
        list(pairs.map(|(step, _)| text(step_name(*step))))
    };
    let failed = STEPS
        .iter()
        .zip(findings)
        .filter_map(|(step, finding)| match finding {
            Finding::Failed(number) => Some(object(&[
                ("errno", number.to_string()),
                (
                    "error",
                    text(if *number == 0 {
                        "wrong result"
                    } else {
                        errno_name(*number)
                    }),
                ),
                ("what", text(step_name(*step))),
            ])),
            _ => None,
        });
    let usable = findings.iter().all(|finding| *finding == Finding::Proven);
    object(&[
        ("blocked", named(&|finding| *finding == Finding::Blocked)),
        ("checked", python_float(now)),
        ("failed", list(failed)),
        ("good_until", python_float(now + PROBE_GOOD_FOR)),
        ("host", text(host)),
        (
            "not_proven",
            list(
                ["exclusion across hosts", "power loss"]
                    .into_iter()
                    .map(text),
            ),
        ),
        ("proven", named(&|finding| *finding == Finding::Proven)),
        ("root", text(root)),
        ("schema", "1".to_string()),
        ("skipped", named(&|finding| *finding == Finding::Skipped)),
        ("usable", usable.to_string()),
    ])
}

fn step_name(step: Step) -> &'static str {
    match step {
        Step::MakeDirectory => "make a directory",
        Step::FileSync => "file sync",
        Step::DirectorySync => "directory sync",
        Step::Replace => "same-directory replace",
        Step::Link => "hard link",
        Step::NoReplace => "link without replacing",
        Step::Unlink => "unlink",
        Step::Exclusion => "exclusion across processes",
        Step::Release => "release when a holder is killed",
    }
}
