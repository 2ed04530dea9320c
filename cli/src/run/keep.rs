//! While the command runs: heartbeats, and signals on their way to it.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::iterator::{Handle, SignalsInfo};
use signal_hook::low_level::siginfo::Cause;
use symlease::campaign::{Answer, Campaign, Held};

use super::child::{Ended, Running, FAILED};
use super::work::Work;
use super::{say, say_loud};
use crate::arguments::Run;
use crate::text::clean;

/// Renewals in one TTL.
const RENEWALS: f64 = 3.0;
/// After a renewal that failed, but not by losing the lease.
const AGAIN: Duration = Duration::from_secs(1);
/// What is passed on.
const PASSED_ON: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// Runs until the command has ended.
pub fn until_it_ends(
    asked: &Run,
    campaign: &Campaign,
    work: &Work,
    held: &Held,
    running: &Running,
    signals: Option<Passing>,
) -> Ended {
    let (stop, stopped) = channel();
    std::thread::scope(|scope| {
        let handle = signals.map(|signals| {
            let handle = signals.handle();
            scope.spawn(move || pass_on(signals, running));
            handle
        });
        scope.spawn(move || renew(asked, campaign, work, held, running, &stopped));
        let ended = running.wait();
        drop(stop);
        if let Some(handle) = handle {
            handle.close();
        }
        ended.unwrap_or_else(|error| {
            say_loud(&format!("waiting for the command: {error}"));
            Ended {
                code: FAILED,
                lost: false,
                interrupted: true,
            }
        })
    })
}

/// The signals that somebody may send us.
pub struct Passing(SignalsInfo<WithOrigin>);

impl Passing {
    /// From now on they are kept for the command, which is started after this.
    /// What is ignored here (nohup) stays ignored, in the command too.
    pub fn new() -> Option<Passing> {
        let ignored = ignored();
        let wanted = PASSED_ON
            .iter()
            .filter(|signal| ignored >> (**signal - 1) & 1 == 0);
        match SignalsInfo::new(wanted) {
            Ok(signals) => Some(Passing(signals)),
            Err(error) => {
                say_loud(&format!("signals are not passed on: {error}"));
                None
            }
        }
    }

    fn handle(&self) -> Handle {
        self.0.handle()
    }
}

fn pass_on(mut signals: Passing, running: &Running) {
    for origin in signals.0.forever() {
        if origin.signal != SIGUSR1 && origin.signal != SIGUSR2 {
            running.interrupted.store(true, Ordering::SeqCst);
        }
        // What the terminal sends it sends to the command, too.
        let from_terminal = matches!(origin.cause, Cause::Kernel);
        if !from_terminal {
            running.signal(origin.signal);
        }
    }
}

/// The signals that this process ignores, as bits.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// Renews the lease until the command has ended; ends the command when the
/// lease is somebody else's.
fn renew(
    asked: &Run,
    campaign: &Campaign,
    work: &Work,
    held: &Held,
    running: &Running,
    stopped: &Receiver<()>,
) {
    let every = Duration::from_secs_f64((held.ttl / RENEWALS).max(0.01));
    let (mut pause, mut troubled) = (every, false);
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        pause = match campaign.heartbeat(&work.id, &held.token) {
            Ok((Answer::Ok | Answer::Committing | Answer::Already, _)) => {
                if troubled {
                    say(asked, &format!("{}: renewed again", work.short()));
                }
                troubled = false;
                every
            }
            Ok(_) => {
                say_loud(&format!(
                    "{}: somebody else took it; the command is ended",
                    work.short()
                ));
                running.lost.store(true, Ordering::SeqCst);
                return end(asked, running, stopped);
            }
            Err(error) => {
                if !troubled {
                    let why = clean(&error.text);
                    say_loud(&format!(
                        "{}: not renewed: {why}; tried again",
                        work.short()
                    ));
                }
                troubled = true;
                AGAIN.min(every)
            }
        };
        // For those who watch.
        let _ = campaign.publish_counters();
    }
}

/// SIGTERM, and SIGKILL when the grace is over.
fn end(asked: &Run, running: &Running, stopped: &Receiver<()>) {
    running.signal(SIGTERM);
    let grace = Duration::from_secs_f64(asked.grace);
    if stopped.recv_timeout(grace) == Err(RecvTimeoutError::Timeout) {
        running.signal(SIGKILL);
    }
}
