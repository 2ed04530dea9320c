//! What many schedules came to: so that a clean run says what it has seen.

use std::collections::BTreeMap;
use std::fmt;

use crate::history::{Asked, Got};
use crate::plan::{Plan, Upset};
use crate::world::Run;

/// Counts over schedules.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Schedules.
    pub schedules: u64,
    /// Schedules in which something went wrong.
    pub upset: u64,
    /// Processes that ran.
    pub processes: u64,
    /// Calls of the library.
    pub operations: u64,
    /// Calls that never returned: their process died in them.
    pub cut_short: u64,
    /// Calls that ended E_INDETERMINATE.
    pub indeterminate: u64,
    /// Simulated system calls.
    pub system_calls: u64,
    /// Simulated seconds.
    pub seconds: f64,
    /// What went wrong, by kind.
    pub upsets: BTreeMap<&'static str, u64>,
    /// Calls of the library that returned, by name: without an error, and with one.
    pub calls: BTreeMap<&'static str, (u64, u64)>,
}

fn kind(upset: &Upset) -> &'static str {
    match upset {
        Upset::Kill(_) => "kill",
        Upset::Stop(..) => "stop",
        Upset::Error(..) | Upset::Fail(..) => "error",
        Upset::Clock(..) => "clock step",
        Upset::Reboot(_) => "reboot",
        Upset::PowerCut(_) => "power cut",
        Upset::Full(_) => "disk full",
        Upset::Fork(_) => "fork",
    }
}

/// A call's name in the C interface, without its prefix.
pub fn name(asked: &Asked) -> &'static str {
    match asked {
        Asked::Claim(..) => "claim",
        Asked::Heartbeat(..) => "heartbeat",
        Asked::HeartbeatMany(_) => "heartbeat_many",
        Asked::Abandon(..) => "abandon",
        Asked::Begin(..) => "begin_commit",
        Asked::Complete(..) => "complete",
        Asked::Replay(..) => "replay",
        Asked::Verify(..) => "verify",
        Asked::GroupClaim(_) => "group_claim",
        Asked::GroupHeartbeat(..) => "group_heartbeat",
        Asked::GroupRelease(..) => "group_release",
        Asked::GroupVerify(..) => "group_verify",
        Asked::Merge(_) => "coverage_merge",
        Asked::Unknown(_) => "coverage_known",
        Asked::Commit(..) => "commit",
        Asked::ReplayCommits => "replay_commits",
        Asked::Other(what) => what,
    }
}

impl Tally {
    /// Counts one schedule.
    pub fn add(&mut self, plan: &Plan, run: &Run) {
        let state = run.kernel.state();
        self.schedules += 1;
        self.upset += u64::from(run.upsets > 0);
        self.processes += state.processes.len() as u64;
        self.system_calls += state.calls;
        self.seconds += state.now as f64 / 1e9;
        for (_, upset) in plan.upsets.iter().take(run.upsets) {
            *self.upsets.entry(kind(upset)).or_default() += 1;
        }
        for entry in &run.history.borrow().entries {
            self.operations += 1;
            self.indeterminate += u64::from(entry.unknown());
            let Some(got) = &entry.got else {
                self.cut_short += 1;
                continue;
            };
            let count = self.calls.entry(name(&entry.asked)).or_default();
            match matches!(got, Got::Failed(_) | Got::Replayed(_, Some(_))) {
                true => count.1 += 1,
                false => count.0 += 1,
            }
        }
    }

    /// Adds another's counts.
    pub fn join(&mut self, other: &Tally) {
        self.schedules += other.schedules;
        self.upset += other.upset;
        self.processes += other.processes;
        self.operations += other.operations;
        self.cut_short += other.cut_short;
        self.indeterminate += other.indeterminate;
        self.system_calls += other.system_calls;
        self.seconds += other.seconds;
        for (kind, count) in &other.upsets {
            *self.upsets.entry(kind).or_default() += count;
        }
        for (name, (good, bad)) in &other.calls {
            let mine = self.calls.entry(name).or_default();
            *mine = (mine.0 + good, mine.1 + bad);
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = 100.0 * self.upset as f64 / self.schedules.max(1) as f64;
        writeln!(
            to,
            "{} schedules, {} of them ({share:.1} %) with something going wrong",
            self.schedules, self.upset
        )?;
        writeln!(
            to,
            "{} processes, {} simulated system calls, {:.0} simulated seconds",
            self.processes, self.system_calls, self.seconds
        )?;
        writeln!(
            to,
            "{} calls of the library; {} were cut short by a death, {} ended E_INDETERMINATE",
            self.operations, self.cut_short, self.indeterminate
        )?;
        let upsets = self
            .upsets
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"));
        writeln!(to, "went wrong: {}", upsets.collect::<Vec<_>>().join(", "))?;
        let calls = self.calls.iter();
        let calls = calls.map(|(name, (good, bad))| format!("{name} {good}+{bad}"));
        write!(
            to,
            "returned (good+failed): {}",
            calls.collect::<Vec<_>>().join(", ")
        )
    }
}
