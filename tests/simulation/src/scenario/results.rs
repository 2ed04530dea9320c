//! Commits that end in other hands.

use std::ffi::CString;

use symlease::campaign::commit::Offer;
use symlease::campaign::coverage::Candidate;
use symlease::record::manifest::map_bytes;
use symlease::sys::sim::{Call, Fault, Random};
use symlease::sys::{Open, Sys};

use super::{count, must, Ground, Member, Outcome, Scenario};
use crate::check::Violation;
use crate::client::{work_id, CORPUS, STAGED};

pub const ALL: &[Scenario] = &[
    ("a power cut after a commit began", cut_after_beginning),
    ("a commit each of whose syncs fails once", failing_syncs),
    ("another map in the place of a staged one", another_map),
    ("a replayer that dies with the credit", credit_of_the_dead),
];

const CONTENT: &[u8] = b"what nobody has a copy of";

/// A coordinator with a lease and a staged result, that has merged before.
fn staged() -> Result<(Ground, Member), Violation> {
    let ground = Ground::new(1);
    let member = ground.member("a", 0)?;
    member.claim(0)?;
    member
        .campaign
        .merge(&[Candidate::sparse(&[(12, 1), (13, 1)])?])?;
    let path = CString::new(format!("{STAGED}/one")).unwrap_or_default();
    let written = member.sys.open(None, &path, Open::CreateNew, 0o600);
    let written = written.and_then(|fd| {
        let count = member.sys.write(fd, CONTENT);
        member.sys.close(fd);
        count
    });
    must(
        written == Ok(CONTENT.len()),
        "scenario",
        "nothing was staged",
    )?;
    Ok((ground, member))
}

fn commit(member: &Member, token: &str, map: Option<Candidate>) {
    let offer = Offer {
        staged: format!("{STAGED}/one").into_bytes(),
        name: Some(b"kept".to_vec()),
        corpus: None,
        map,
        keep: false,
    };
    let _ = member
        .campaign
        .commit(&work_id(0), token, CORPUS.as_bytes(), &[offer]);
}

fn token(member: &Member) -> String {
    let found = member
        .campaign
        .record(symlease::engine::Table::Work, &work_id(0));
    let text = found.ok().flatten().unwrap_or_default();
    let rest = text.split("\"token\":\"").nth(1).unwrap_or_default();
    rest.split('"').next().unwrap_or_default().to_string()
}

/// A sync that failed once, and then would succeed over lost bytes.
fn failing_syncs() -> Outcome {
    let act = |member: &Member| commit(member, &token(member), None);
    let mut syncs = 0;
    while let Ok(at) = count(&staged, &act, Call::Sync, syncs) {
        for seed in 0..4 {
            let (ground, member) = staged()?;
            ground.kernel.state().random = Random::new(seed);
            member.fault(&ground.kernel, at, Fault::Error(libc::EIO));
            act(&member);
            act(&member);
            ground.cut();
            must(kept(&ground), "F17", "a result is lost after a failed sync")?;
        }
        syncs += 1;
    }
    must(syncs > 4, "scenario", "too few syncs")
}

fn kept(ground: &Ground) -> bool {
    ground.read(&format!("{CORPUS}/kept")).as_deref() == Some(CONTENT)
}

/// What was staged is durable, name and bytes, before the commit begins.
fn cut_after_beginning() -> Outcome {
    let act = |member: &Member| commit(member, &token(member), None);
    let at = count(&staged, &act, Call::Link, 0)?;
    let (ground, member) = staged()?;
    member.fault(&ground.kernel, at, Fault::Die);
    act(&member);
    ground.cut();
    let b = ground.member("b", 0)?;
    let (replayed, outcome) = b.campaign.replay_commits(CORPUS.as_bytes(), 0);
    outcome?;
    must(
        replayed == 1,
        "C7",
        "the commit of the dead was not replayed",
    )?;
    must(kept(&ground), "C7", "a staged result is lost")
}

/// The manifest says which map is staged: another one is not merged.
fn another_map() -> Outcome {
    let act = |member: &Member| {
        let map = Candidate::sparse(&[(0, 1)]).ok();
        commit(member, &token(member), map);
    };
    let at = count(&staged, &act, Call::Lock, 1)?;
    let (ground, member) = staged()?;
    member.fault(&ground.kernel, at, Fault::Die);
    act(&member);
    let path = format!("{STAGED}/one.map");
    must(ground.read(&path).is_some(), "scenario", "no map is staged")?;
    ground.write(&path, &map_bytes(&[(1, 1)]));
    let b = ground.member("b", 0)?;
    b.campaign.replay_commits(CORPUS.as_bytes(), 0).1?;
    let shards = b.campaign.authority()?;
    let foreign = shards.iter().any(|shard| shard.entries.contains(&(1, 1)));
    must(!foreign, "C7", "a map that nobody committed was merged")?;
    must(kept(&ground), "C7", "its result is lost")
}

/// The committer is stopped for longer than its TTL. A replayer merges, which
/// takes the credit, and dies before it publishes. What the committer then finds
/// known is nobody's: it publishes.
fn credit_of_the_dead() -> Outcome {
    let act = |member: &Member| {
        let map = Candidate::sparse(&[(0, 1)]).ok();
        commit(member, &token(member), map);
    };
    let at = count(&staged, &act, Call::Lock, 1)?;
    // Once to count the replayer's calls until its first link, and once more.
    let stopped = |dies: Option<u64>| {
        let (ground, member) = staged()?;
        let replayer = ground.member("b", 0)?;
        let kernel = &ground.kernel;
        member.interrupted(kernel, at, act, || {
            kernel.state().now += 11_000_000_000;
            match dies {
                Some(ahead) => replayer.fault(kernel, ahead, Fault::Die),
                None => replayer.note(kernel),
            }
            let _ = replayer.campaign.replay_commits(CORPUS.as_bytes(), 0);
        })?;
        Ok::<_, Violation>((ground, replayer))
    };
    let (ground, replayer) = stopped(None)?;
    let dies = replayer.until(&ground.kernel, Call::Link, 0)?;
    let (ground, replayer) = stopped(Some(dies))?;
    let dead = !ground.kernel.state().processes[replayer.sys.number()].alive;
    must(dead, "scenario", "the replayer lives")?;
    must(
        kept(&ground),
        "C7",
        "a result is lost with the credit of the dead",
    )
}
