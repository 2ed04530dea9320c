//! `symlease run`: a work lease around any command.

mod child;
mod keep;
mod work;

use std::io::Write;
use std::time::{Duration, Instant};

use symlease::campaign::open::Request;
use symlease::campaign::work::Claimed;
use symlease::campaign::{Answer, Campaign, ClaimOptions, Held, Holder};
use symlease::error::{Error, Kind};

use crate::arguments::{OnFailure, Run};
use crate::open::{request, there, Failure, Outcome, FINE};
use crate::text::{clean, span};
use child::{Ended, Running};
use keep::Passing;
use work::Work;

pub use child::exec_under;

/// Somebody else holds the work (EX_TEMPFAIL of sysexits).
const HELD: u8 = 75;
/// Somebody else took it.
const LOST: u8 = 76;
/// How often an answer that says neither done nor not done is asked for again.
const SETTLE_TRIES: u32 = 10;
/// More sessions than this are swept at the end of a run.
const SESSIONS_MAX: usize = 64;
/// The longest pause between two looks at work that somebody holds.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub fn run(asked: &Run) -> Outcome {
    run_at_all(asked).map_err(|failure| match failure {
        coded @ Failure::Coded(..) => coded,
        other => Failure::Coded(child::FAILED, other.to_string()),
    })
}

fn run_at_all(asked: &Run) -> Outcome {
    for (name, seconds) in [("--wait", asked.wait), ("--grace", asked.grace)] {
        if !(0.0..=1e9).contains(&seconds) {
            let words = format!("{name}: {seconds} is not within 0 and 1e9 seconds");
            return Err(Failure::Words(words));
        }
    }
    let work = Work::of(asked)?;
    let campaign = there(Request {
        existing: !asked.create,
        owner: asked.owner.clone(),
        work_ttl: asked.ttl.unwrap_or(0.0),
        ..request(&asked.place)?
    })?;
    let held = match claim(asked, &campaign, &work)? {
        Ok(held) => held,
        Err(code) => return Ok(code),
    };
    say(
        asked,
        &format!("{} is ours, fence {}", work.short(), held.fence),
    );
    let signals = Passing::new();
    let running = match Running::start(asked, &work, &held) {
        Ok(running) => running,
        Err(failure) => {
            // Untried: as if it had not been claimed.
            let _ = campaign.abandon(&work.id, &held.token);
            return Err(failure);
        }
    };
    let ended = keep::until_it_ends(asked, &campaign, &work, &held, &running, signals);
    let code = finish(asked, &campaign, &work, &held, ended);
    tidy(&campaign);
    code
}

/// Each run leaves a session (D1) and its counters. No coordinator may be there
/// to sweep them, so that one run in many does; whether it can is no matter.
fn tidy(campaign: &Campaign) {
    let many = campaign
        .sessions()
        .is_ok_and(|all| all.len() > SESSIONS_MAX);
    if many {
        let _ = campaign.engine().sweep();
    }
}

/// The lease, or the exit code where there is none to have.
fn claim(asked: &Run, campaign: &Campaign, work: &Work) -> Result<Result<Held, u8>, Failure> {
    let end = Instant::now() + Duration::from_secs_f64(asked.wait);
    let mut told = false;
    loop {
        let options = ClaimOptions::default();
        let claimed = settle(|| campaign.claim(&work.id, work.payload.as_deref(), &options))?;
        let (answer, holder) = match claimed {
            Claimed::Lease(held) => return Ok(Ok(held)),
            Claimed::Refused(answer, holder) => (answer, holder),
        };
        if answer == Answer::Done {
            let who = clean(&holder.owner);
            say(
                asked,
                &format!("{} was done before, by {who}", work.short()),
            );
            return Ok(Err(FINE));
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || !told {
            say(asked, &refused(work, answer, &holder));
            told = true;
        }
        if left.is_zero() {
            return Ok(Err(HELD));
        }
        std::thread::sleep(pause(&holder).min(left));
    }
}

fn refused(work: &Work, answer: Answer, holder: &Holder) -> String {
    let (id, who) = (work.short(), clean(&holder.owner));
    match answer {
        Answer::Committing => format!("{id}: the commit of {who} has begun"),
        _ => format!(
            "{id}: held by {who} for {} more",
            span(holder.remaining.max(0.0))
        ),
    }
}

/// A holder's process may die long before its TTL ends (D1).
fn pause(holder: &Holder) -> Duration {
    let remaining = Duration::try_from_secs_f64(holder.remaining).unwrap_or_default();
    remaining.clamp(Duration::from_millis(50), LOOK_EVERY)
}

/// Ends the work, or gives it back; answers the exit code.
fn finish(asked: &Run, campaign: &Campaign, work: &Work, held: &Held, ended: Ended) -> Outcome {
    if ended.lost {
        say_loud(&format!(
            "{}: somebody else took it meanwhile",
            work.short()
        ));
        return Ok(LOST);
    }
    let failed = ended.code != 0;
    let hopeless = asked.attempts != 0 && held.attempts >= asked.attempts;
    // Who was interrupted has not failed.
    let ends =
        !failed || !ended.interrupted && (hopeless || asked.on_failure == OnFailure::Complete);
    let answer = match ends {
        true => settle(|| campaign.complete(&work.id, &held.token))?,
        false => settle(|| campaign.abandon(&work.id, &held.token))?,
    };
    // ALREADY: an earlier try of ours.
    if !matches!(answer, Answer::Ok | Answer::Already) {
        say_loud(&format!(
            "{}: somebody else took it; what was done does not count",
            work.short()
        ));
        return Ok(LOST);
    }
    match (failed, ends) {
        (false, _) => say(asked, &format!("{} is done", work.short())),
        (true, false) => say(asked, &format!("{} is given back", work.short())),
        (true, true) => say_loud(&format!(
            "{} failed (exit {}) at claim {}: ended, and not tried again",
            work.short(),
            ended.code,
            held.attempts
        )),
    }
    Ok(ended.code)
}

/// Repeats a call whose outcome is unknown: the same call settles it.
fn settle<T>(mut call: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 1..SETTLE_TRIES {
        match call() {
            Err(error) if matches!(error.kind, Kind::Indeterminate | Kind::Unsettled) => {
                std::thread::sleep(Duration::from_millis(100));
            }
            other => return other,
        }
    }
    call()
}

/// The standard output is the command's.
fn say(asked: &Run, words: &str) {
    if !asked.quiet {
        say_loud(words);
    }
}

fn say_loud(words: &str) {
    let _ = writeln!(std::io::stderr(), "symlease: {words}");
}
