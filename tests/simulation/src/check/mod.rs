//! The checker: what the journal and the answers say, against the protocol's
//! invariants by their ids.

mod answers;
mod audit;
mod coverage;
mod files;
mod groups;
mod intents;
mod lease;
mod once;
mod power;
mod timeline;

use std::collections::BTreeMap;

use symlease::record::lease::Lease;

use self::intents::Standing;
pub use self::timeline::{Timeline, Timelines, Version};
use crate::history::History;
use crate::plan::Plan;
use crate::world::Run;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The invariant.
    pub id: &'static str,
    /// What was seen.
    pub text: String,
}

/// One schedule under the checker.
pub struct Checker<'a> {
    plan: &'a Plan,
    history: &'a History,
    timelines: Timelines,
    leases: BTreeMap<Vec<u8>, Vec<Option<Lease>>>,
    /// Group changes that stood written (G1).
    intents: Vec<Standing>,
    /// Session names to openings.
    sessions: BTreeMap<String, usize>,
    /// When each process died, by the kernel's count of calls.
    died: Vec<Option<u64>>,
    violations: Vec<Violation>,
}

/// Everything that a run broke. The audit runs in the run's kernel.
pub fn check(plan: &Plan, run: &Run) -> Vec<Violation> {
    if !run.ended {
        let text = "the schedule does not end".to_string();
        return vec![Violation { id: "L3", text }];
    }
    let history = run.history.borrow();
    let mut checker = Checker {
        plan,
        history: &history,
        timelines: Timelines::new(&run.journal, &history.cuts),
        leases: BTreeMap::new(),
        intents: Vec::new(),
        sessions: BTreeMap::new(),
        died: run
            .kernel
            .state()
            .processes
            .iter()
            .map(|one| one.died)
            .collect(),
        violations: Vec::new(),
    };
    checker.standing();
    checker.transitions();
    checker.answers();
    checker.groups();
    checker.whole_again();
    checker.once();
    checker.repeated();
    checker.quiet();
    checker.locked();
    checker.bounded();
    checker.made_once();
    checker.failures();
    checker.temporaries(&run.kernel);
    checker.power();
    checker.durable_answers();
    checker.coverage();
    checker.audit(&run.kernel);
    checker.violations
}

impl Checker<'_> {
    fn broken(&mut self, id: &'static str, text: String) {
        // One is enough to look; a thousand of the same help nobody.
        if self.violations.len() < 8 {
            self.violations.push(Violation { id, text });
        }
    }
}

/// The table of a record and its id, by its path.
pub fn record_of(path: &[u8]) -> Option<(&'static str, String)> {
    let text = std::str::from_utf8(path).ok()?;
    let rest = text.strip_prefix("/c/")?;
    let (table, rest) = rest.split_once('/')?;
    let table = match table {
        ".work_lease_table" => "work",
        ".target_lease_table" => "target",
        _ => return None,
    };
    let (folder, name) = rest.split_once('/')?;
    // Intents are called after a member.
    folder.parse::<u32>().ok()?;
    let id = name.strip_suffix(".json")?;
    (id.len() == 64).then(|| (table, id.to_string()))
}

/// The number of a coverage shard, by its path.
pub fn shard_of(path: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(path).ok()?;
    let name = text.strip_prefix("/c/.coverage_owner/state/")?;
    name.strip_suffix(".json")?.parse().ok()
}

/// A path in words.
pub fn show(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
