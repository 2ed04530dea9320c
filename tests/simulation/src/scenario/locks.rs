//! Lock files that move, and forks in the wrong place.

use symlease::campaign::group::Members;
use symlease::campaign::work::Claimed;
use symlease::campaign::{Answer, ClaimOptions};
use symlease::error::{Error, Kind};
use symlease::record::id::target_id;
use symlease::sys::sim::{Call, Fault, Kernel, Task};

use super::{count, failed, must, remove, Ground, Member, Outcome, Scenario};
use crate::check::Violation;
use crate::client::work_id;

pub const ALL: &[Scenario] = &[
    ("a fork while a lock is taken", fork_in_between),
    ("a fork while a session is made", fork_in_a_session),
    ("a lock file that moves before it is locked", moved_before),
    ("a lock file that moves under a publish", moved_after),
    ("a lock file that moves under a batch", moved_under_a_batch),
    ("two stopped processes with a lock each", two_stopped),
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

/// A child that was forked between the opening of a file and its locking has a
/// copy that its handler does not know, and sleeps on. Runs an act with a fork
/// before its `nth` lock.
fn forked<T: 'static>(
    (ground, member): &(Ground, Member),
    at: u64,
    act: impl FnOnce(&Member) -> T + 'static,
) -> Result<T, Violation> {
    let process = member.sys.number();
    let kernel = &ground.kernel;
    member.interrupted(kernel, at, act, || fork(kernel, process))
}

/// The parent is killed under a lock.
fn fork_in_between() -> Outcome {
    let act = |member: &Member| drop(member.claim(0));
    let at = count(&warm, &act, Call::Lock, 0)?;
    let pair = warm()?;
    pair.1.note(&pair.0.kernel);
    forked(&pair, at, act)?;
    let die = pair.1.until(&pair.0.kernel, Call::Rename, 0)?;
    let pair = warm()?;
    pair.1.fault(&pair.0.kernel, die, Fault::Die);
    forked(&pair, at, act)?;
    let claimed = pair.0.member("b", 0)?.claim(0);
    must(
        claimed.is_ok(),
        "L7",
        "a forked child keeps a killed parent's lock",
    )
}

/// The parent is killed with a session.
fn fork_in_a_session() -> Outcome {
    let make = || {
        let ground = Ground::new(1);
        let member = ground.member("a", 0)?;
        Ok((ground, member))
    };
    let act = |member: &Member| member.claim(0).map(|_| ());
    let at = count(&make, &|member| drop(act(member)), Call::Lock, 0)?;
    let pair = make()?;
    forked(&pair, at, act)??;
    pair.0.kill(&pair.1);
    pair.0.pass(0.02);
    let free = !pair.0.member("b", 0)?.finds_held(0)?;
    must(free, "D3", "a forked child keeps a killed parent's session")
}

/// An operator removes a record's lock file, and another one is made.
fn replace(kernel: &Kernel, path: &str) {
    remove(kernel, path);
    if let Err(errno) = kernel.state().place(path.as_bytes(), b"") {
        panic!("{path}: {errno:?}");
    }
}

/// Runs an act; the record's lock file moves just before one of its calls.
fn moving<T: 'static>(
    kind: Call,
    nth: usize,
    act: impl Fn(&Member) -> T + 'static,
) -> Result<(Ground, T), Violation> {
    let held = || {
        let (ground, member) = warm()?;
        member.claim(0)?;
        Ok((ground, member))
    };
    let at = count(&held, &|member| drop(act(member)), kind, nth)?;
    let (ground, member) = held()?;
    let path = ground.paths(&format!("{}.json.lock", work_id(0))).remove(0);
    let kernel = &ground.kernel;
    let answer = member.interrupted(kernel, at, act, || replace(kernel, &path))?;
    Ok((ground, answer))
}

fn token(member: &Member) -> String {
    let lease = member
        .campaign
        .record(symlease::engine::Table::Work, &work_id(0));
    let text = lease.ok().flatten().unwrap_or_default();
    let rest = text.split("\"token\":\"").nth(1).unwrap_or_default();
    rest.split('"').next().unwrap_or_default().to_string()
}

fn renew(member: &Member) -> Result<Answer, Error> {
    let renewed = member.campaign.heartbeat(&work_id(0), &token(member));
    renewed.map(|(answer, _)| answer)
}

/// Whoever locks a file that has no name any more takes the one that has it.
fn moved_before() -> Outcome {
    let (ground, renewed) = moving(Call::Lock, 0, renew)?;
    let text = format!("{renewed:?} with the lock file that was there");
    must(matches!(renewed, Ok(Answer::Ok)), "L5", &text)?;
    let journal = &ground.kernel.state().journal;
    let bare = journal.iter().any(|change| change.locked == Some(false));
    must(!bare, "L5", "published without the lock")
}

/// If it moves under a publish, nobody knows who else was in.
fn moved_after() -> Outcome {
    let (_, renewed) = moving(Call::Rename, 0, renew)?;
    must(
        failed(&renewed) == Some(Kind::Indeterminate),
        "L5",
        &format!("{renewed:?}"),
    )
}

fn moved_under_a_batch() -> Outcome {
    let batch = |member: &Member| {
        let leases = [(work_id(0), token(member))];
        let answers = member.campaign.heartbeat_many(&leases);
        answers.map(|mut answers| answers.remove(0))
    };
    let (_, renewed) = moving(Call::Rename, 0, batch)?;
    let renewed = renewed?;
    must(
        failed(&renewed) == Some(Kind::Indeterminate),
        "L5",
        &format!("{renewed:?}"),
    )
}

fn group(member: &Member, targets: &[u64]) -> Result<Claimed, Error> {
    let members = Members::new(targets)?;
    let options = ClaimOptions::default();
    member.campaign.group_claim(&members, Some("{}"), &options)
}

/// A process that is stopped under a target's lock, `ahead` calls from now.
fn stopped(ground: &Ground, member: &Member, ahead: u64, target: u64) -> Task {
    let own = member.clone();
    let mut task = Task::new(move || drop(group(&own, &[target])));
    ground.kernel.state().turn = ahead - 1;
    task.resume();
    ground.kernel.state().turn = u64::MAX;
    task
}

/// The first lock is free after most of the deadline, the second one never.
fn two_stopped() -> Outcome {
    let member = |ground: &Ground, name: &str, target: u64| {
        let member = ground.member(name, 0)?;
        group(&member, &[target])?;
        Ok::<_, Violation>(member)
    };
    let make = || {
        let ground = Ground::new(1);
        let member = member(&ground, "p", 7)?;
        Ok((ground, member))
    };
    let ahead = count(&make, &|member| drop(group(member, &[1])), Call::Rename, 0)?;
    let ground = Ground::new(1);
    let (p, q) = (member(&ground, "p", 7)?, member(&ground, "q", 8)?);
    let mut targets = [1, 2];
    targets.sort_by_key(|target| target_id(*target));
    let mut first = Some(stopped(&ground, &p, ahead, targets[0]));
    let mut second = stopped(&ground, &q, ahead, targets[1]);
    let waiting = member(&ground, "w", 9)?;
    let (own, process) = (waiting.clone(), waiting.sys.number());
    let mut task = Task::new(move || drop(group(&own, &[1, 2])));
    let start = ground.kernel.state().now;
    while task.resume() {
        let mut state = ground.kernel.state();
        state.now = state.now.max(state.processes[process].asleep);
        let late = state.now - start > 80_000_000;
        drop(state);
        if let (true, Some(mut first)) = (late, first.take_if(|_| late)) {
            while first.resume() {}
        }
    }
    ground.kill(&q);
    while second.resume() {}
    must(first.is_none(), "scenario", "nobody waited")?;
    let waited = ground.kernel.state().now - start;
    must(
        waited < 130_000_000,
        "L3",
        &format!("one call waited {waited} ns for its locks"),
    )
}
