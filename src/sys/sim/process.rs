//! Simulated hosts and processes.

use std::collections::{BTreeMap, VecDeque};

use super::fault::{Call, Fault};
use crate::sys::{unforked, Answer, Errno};

/// Unix seconds at which every simulation begins.
pub const EPOCH: f64 = 1_786_060_800.0;

/// One machine.
#[derive(Clone, Debug)]
pub struct Host {
    /// gethostname.
    pub name: String,
    /// Changes at each boot.
    pub boot: u64,
    /// True time at which it booted.
    pub booted: u64,
    /// Seconds that its wall clock is ahead.
    pub offset: f64,
    /// How fast its clocks run; 1.0 is right.
    pub rate: f64,
}

impl Host {
    /// A host with right clocks.
    pub fn new(number: usize) -> Host {
        Host {
            name: format!("host{number}"),
            boot: number as u64 + 1,
            booted: 0,
            offset: 0.0,
            rate: 1.0,
        }
    }

    /// CLOCK_REALTIME at a true time, in seconds.
    pub fn realtime(&self, now: u64) -> f64 {
        EPOCH + self.offset + now as f64 / 1e9 * self.rate
    }

    /// CLOCK_MONOTONIC at a true time, in nanoseconds.
    pub fn monotonic(&self, now: u64) -> u64 {
        let up = now.saturating_sub(self.booted);
        1_000_000_000 + (up as f64 * self.rate) as u64
    }

    /// It goes down and comes up again.
    pub fn reboot(&mut self, now: u64) {
        self.boot += 1000;
        self.booted = now;
    }
}

/// An open file description: what descriptors of a process and of its forked
/// children share, locks included.
#[derive(Clone, Debug)]
pub struct Description {
    /// The inode.
    pub node: usize,
    /// The host whose processes have it.
    pub host: usize,
    /// Descriptors that name it; 0: closed.
    pub users: usize,
    /// The inode's failed syncs that it has heard of.
    pub heard: u64,
}

/// One process.
#[derive(Clone, Default)]
pub struct Process {
    /// Where it runs.
    pub host: usize,
    /// getpid.
    pub id: u32,
    /// Whether it lives. The dead have no effect.
    pub alive: bool,
    /// The kernel's count of calls at its death.
    pub died: Option<u64>,
    /// Its descriptors.
    pub descriptors: BTreeMap<i32, usize>,
    /// Descriptors of the locks that it holds, as its fork handler knows them.
    pub held: Vec<i32>,
    /// System calls so far.
    pub calls: u64,
    /// The kinds of its calls, where they are recorded.
    pub kinds: Option<Vec<Call>>,
    /// What its changes belong to, for the history.
    pub operation: u64,
    /// Faults by its call number.
    pub faults: BTreeMap<u64, Fault>,
    /// Errors that come at the next calls that can answer them, of one kind
    /// where one is named.
    pub errors: VecDeque<(Option<Call>, i32)>,
    /// Errors that its calls have answered.
    pub failed: u64,
    /// True time until which it sleeps.
    pub asleep: u64,
    /// Nanoseconds that it has asked to sleep.
    pub slept: u64,
    /// True time until which it is stopped.
    pub stopped: u64,
    /// Forks begun.
    pub forks: u64,
    /// Whether a fork is under way.
    pub forking: bool,
}

impl Process {
    /// Forks begun, while none is under way.
    pub(super) fn forks(&self) -> Option<u64> {
        (!self.forking).then_some(self.forks)
    }

    /// Whether none has begun since it answered so.
    pub(super) fn since(&self, forks: Option<u64>) -> Answer<()> {
        match unforked(forks, self.forks()) {
            true => Ok(()),
            false => Err(Errno(libc::ECHILD)),
        }
    }
}
