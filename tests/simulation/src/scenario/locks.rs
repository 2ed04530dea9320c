//! Lock files that move, and forks in the wrong place.

use std::sync::Arc;

use symlease::campaign::Answer;
use symlease::error::Kind;
use symlease::sys::sim::{Call, Fault, Kernel};

use super::{count, failed, must, remove, Ground, Member, Outcome, Scenario};
use crate::check::Violation;
use crate::client::work_id;

pub const ALL: &[Scenario] = &[
    ("a fork while a lock is taken", fork_in_between),
    ("a lock file that moves before it is locked", moved_before),
    ("a lock file that moves under a publish", moved_after),
    ("a lock file that moves under a batch", moved_under_a_batch),
];

/// A coordinator that has made its session, and everything around it.
fn warm() -> Result<(Ground, Member), Violation> {
    let ground = Ground::new(1);
    let member = ground.member("a", 0)?;
    member.claim(9)?;
    Ok((ground, member))
}

/// The process forks, and the child has run its fork handler.
fn fork(kernel: &Kernel, process: usize) {
    let mut state = kernel.state();
    state.processes[process].forks += 1;
    let child = state.fork(process);
    state.forked(child);
}

/// A child that was forked between the opening of a lock file and its locking
/// has a copy that its handler does not know. It sleeps on; the parent is killed
/// under the lock.
fn fork_in_between() -> Outcome {
    let act = |member: &Member| drop(member.claim(0));
    let at = count(&warm, &act, Call::Lock, 0)?;
    let forking = || {
        let (ground, member) = warm()?;
        let (kernel, process) = (ground.kernel.clone(), member.sys.number());
        member.before(&ground.kernel, at, move || fork(&kernel, process));
        Ok((ground, member))
    };
    let die = count(&forking, &act, Call::Rename, 0)?;
    let (ground, member) = forking()?;
    member.fault(&ground.kernel, die, Fault::Die);
    let _ = member.claim(0);
    let claimed = ground.member("b", 0)?.claim(0);
    must(
        claimed.is_ok(),
        "L7",
        "a forked child keeps a killed parent's lock",
    )
}

/// An operator removes a record's lock file, and another one is made.
fn replace(kernel: &Kernel, path: &str) {
    remove(kernel, path);
    if let Err(errno) = kernel.state().place(path.as_bytes(), b"") {
        panic!("{path}: {errno:?}");
    }
}

/// The record's lock file moves just before a call of the act.
fn moving(kind: Call, nth: usize, act: &dyn Fn(&Member)) -> Result<(Ground, Member), Violation> {
    let held = || {
        let (ground, member) = warm()?;
        member.claim(0)?;
        Ok((ground, member))
    };
    let at = count(&held, act, kind, nth)?;
    let (ground, member) = held()?;
    let path = ground.paths(&format!("{}.json.lock", work_id(0))).remove(0);
    let kernel = ground.kernel.clone();
    member.before(&ground.kernel, at, move || replace(&kernel, &path));
    Ok((ground, member))
}

fn token(member: &Member) -> String {
    let lease = member
        .campaign
        .record(symlease::engine::Table::Work, &work_id(0));
    let text = lease.ok().flatten().unwrap_or_default();
    let rest = text.split("\"token\":\"").nth(1).unwrap_or_default();
    rest.split('"').next().unwrap_or_default().to_string()
}

/// Whoever locks a file that has no name any more takes the one that has it.
fn moved_before() -> Outcome {
    let act = |member: &Member| drop(member.campaign.heartbeat(&work_id(0), &token(member)));
    let (ground, member) = moving(Call::Lock, 0, &act)?;
    let renewed = member.campaign.heartbeat(&work_id(0), &token(&member));
    let right = matches!(renewed, Ok((Answer::Ok, _)));
    must(
        right,
        "L5",
        &format!("{renewed:?} with the lock file that was there"),
    )?;
    let journal = &ground.kernel.state().journal;
    let bare = journal.iter().any(|change| change.locked == Some(false));
    must(!bare, "L5", "published without the lock")
}

/// If it moves under a publish, nobody knows who else was in.
fn moved_after() -> Outcome {
    let act = |member: &Member| drop(member.campaign.heartbeat(&work_id(0), &token(member)));
    let (_ground, member) = moving(Call::Rename, 0, &act)?;
    let renewed = member.campaign.heartbeat(&work_id(0), &token(&member));
    must(
        failed(&renewed) == Some(Kind::Indeterminate),
        "L5",
        &format!("{renewed:?}"),
    )
}

fn moved_under_a_batch() -> Outcome {
    let batch = |member: &Member| {
        let leases = [(work_id(0), token(member))];
        let campaign = Arc::clone(&member.campaign);
        campaign
            .heartbeat_many(&leases)
            .map(|mut answers| answers.remove(0))
    };
    let (_ground, member) = moving(Call::Rename, 0, &|member| drop(batch(member)))?;
    let renewed = batch(&member)?;
    must(
        failed(&renewed) == Some(Kind::Indeterminate),
        "L5",
        &format!("{renewed:?}"),
    )
}
