//! Groups whose writers die or fail half way, and what others do meanwhile.

use symlease::campaign::group::Members;
use symlease::campaign::work::Claimed;
use symlease::campaign::{Answer, ClaimOptions};
use symlease::error::{Error, Kind};
use symlease::record::id::target_id;
use symlease::sys::sim::{Call, Fault, Random};

use super::{count, failed, must, Ground, Member, Outcome, Scenario};
use crate::check::Violation;

pub const ALL: &[Scenario] = &[
    ("a group change that fails", failing),
    ("a power cut after a group change failed", cut_after_failing),
    ("a group change whose intent stays", intent_stays),
    ("an intent that comes back after a power cut", comes_back),
    ("an intent that is settled meanwhile", settled_meanwhile),
    ("a peer between a death and its settling", peer_in_between),
    ("a damaged intent", damaged),
    ("a whole change whose sync never came", whole_unsynced),
    ("a power cut in the middle of a group", cut_in_the_middle),
];

/// Two targets in the order of their records.
fn pair() -> (u64, u64) {
    match target_id(1) < target_id(2) {
        true => (1, 2),
        false => (2, 1),
    }
}

/// A coordinator that has made its session and the intents' directory.
fn warm() -> Result<(Ground, Member), Violation> {
    let ground = Ground::new(1);
    let member = ground.member("a", 0)?;
    claim(&member, &[7, 8], false)?;
    Ok((ground, member))
}

fn claim(member: &Member, targets: &[u64], takeover: bool) -> Result<Claimed, Error> {
    let options = ClaimOptions {
        takeover,
        ..ClaimOptions::default()
    };
    let members = Members::new(targets)?;
    member.campaign.group_claim(&members, Some("{}"), &options)
}

fn both(member: &Member) {
    drop(claim(member, &[1, 2], false));
}

/// A target's record.
fn record(ground: &Ground, target: u64) -> Option<Vec<u8>> {
    let path = ground.paths(&format!("{}.json", target_id(target)));
    let path = path.into_iter().find(|path| !path.contains("/.intents/"))?;
    ground.read(&path)
}

fn intents(ground: &Ground) -> Vec<String> {
    let mut all = ground.paths(".json");
    all.retain(|path| path.contains("/.intents/"));
    all
}

/// A writer of both targets that meets a fault; its renames are the intent's,
/// the first record's and the second record's.
fn faulty(kind: Call, nth: usize, fault: Fault) -> Result<(Ground, Member), Violation> {
    let at = count(&warm, &both, kind, nth)?;
    let (ground, member) = warm()?;
    member.fault(&ground.kernel, at, fault);
    both(&member);
    Ok((ground, member))
}

/// H2: the members carry their old records again.
fn failing() -> Outcome {
    let (ground, _member) = faulty(Call::Rename, 2, Fault::Error(libc::EIO))?;
    let left = record(&ground, 1).is_some() || record(&ground, 2).is_some();
    must(!left, "H2", "a failed claim left a member")?;
    must(
        intents(&ground).is_empty(),
        "H2",
        "a failed claim left its intent",
    )
}

/// What was given back is there after a power cut, whatever it keeps.
fn cut_after_failing() -> Outcome {
    let make = || {
        let fault = Fault::Error(libc::EIO);
        let (ground, _member) = faulty(Call::Rename, 2, fault)?;
        Ok(ground)
    };
    any_cut(&make, "half of a change that failed came back")
}

/// A claim that is made, but whose intent could not be removed.
fn intent_stays() -> Outcome {
    let at = count(&warm, &both, Call::Unlink, 0)?;
    let (ground, member) = warm()?;
    member.fault(&ground.kernel, at, Fault::Error(libc::EIO));
    let claimed = claim(&member, &[1, 2], false);
    let right = failed(&claimed) == Some(Kind::Indeterminate);
    must(right, "E_INDETERMINATE", &format!("{claimed:?}"))
}

/// A coordinator without a session, whose leases outlive it.
fn without_session() -> Result<(Ground, Member), Violation> {
    let ground = Ground::new(1);
    let mut request = ground.request("a");
    request.no_session = true;
    let member = ground.with(&request, 0)?;
    claim(&member, &[7, 8], false)?;
    Ok((ground, member))
}

/// A group was claimed and told so, then one of its members taken over. Were
/// its intent to come back, the other member would get its old record.
fn comes_back() -> Outcome {
    let (ground, member) = without_session()?;
    claim(&member, &[1, 2], false)?;
    let (first, second) = pair();
    let other = ground.member("z", 0)?;
    claim(&other, &[first], true)?;
    ground.cut();
    let claimed = claim(&ground.member("x", 0)?, &[second], false)?;
    let held = matches!(claimed, Claimed::Refused(Answer::Held, _));
    must(
        held,
        "G1",
        "a claim that was told is taken back by its intent",
    )
}

/// Somebody finds an intent and lets go of its locks to settle it; meanwhile
/// another settles it, and takes one of the members.
fn settled_meanwhile() -> Outcome {
    let make = || {
        let (ground, _writer) = faulty(Call::Unlink, 0, Fault::Error(libc::EIO))?;
        let member = ground.member("x", 0)?;
        claim(&member, &[9], false)?;
        Ok((ground, member))
    };
    let (first, second) = pair();
    let act = move |member: &Member| drop(claim(member, &[first], false));
    let at = count(&make, &act, Call::Lock, 1)?;
    let (ground, member) = make()?;
    must(intents(&ground).len() == 1, "scenario", "no intent stands")?;
    let other = ground.member("y", 0)?;
    let before = record(&ground, second);
    let act = move |member: &Member| claim(member, &[first], false);
    let take = || drop(claim(&other, &[first], true));
    let claimed = member.interrupted(&ground.kernel, at, act, take)??;
    let held = matches!(claimed, Claimed::Refused(Answer::Held, _));
    must(held, "G1", &format!("{claimed:?}"))?;
    let same = record(&ground, second) == before;
    must(same, "G1", "what was settled once was settled again")
}

/// A Python peer, which knows nothing of intents, takes the member that is new.
fn peer_in_between() -> Outcome {
    let (ground, _dead) = faulty(Call::Rename, 2, Fault::Die)?;
    let (first, second) = pair();
    let path = ground.paths(&format!("{}.json", target_id(first)));
    let path = path.into_iter().find(|path| !path.contains("/.intents/"));
    let path = path.unwrap_or_default();
    let text = String::from_utf8_lossy(&ground.read(&path).unwrap_or_default()).into_owned();
    let session = text
        .split("\"session\":\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let peers = text.replace("\"owner\":\"a\"", "\"owner\":\"peer\"");
    let peers = peers.replace(&format!("\"session\":\"{}\",", session.unwrap_or("?")), "");
    ground.write(&path, peers.as_bytes());
    let claimed = claim(&ground.member("x", 0)?, &[first, second], false)?;
    let held = matches!(claimed, Claimed::Refused(Answer::Held, _));
    must(held, "G1", &format!("{claimed:?} over a peer's lease"))?;
    let same = ground.read(&path).as_deref() == Some(peers.as_bytes());
    must(same, "G1", "settling changed what a peer wrote")
}

/// What it says is not known: nobody decides beside it.
fn damaged() -> Outcome {
    let (ground, _dead) = faulty(Call::Rename, 2, Fault::Die)?;
    ground.write(&intents(&ground).remove(0), b"{}\n");
    let claimed = claim(&ground.member("x", 0)?, &[1], false);
    must(
        failed(&claimed) == Some(Kind::Corrupt),
        "G1",
        &format!("{claimed:?}"),
    )
}

/// Whether one of two records is a claim's, and the other is not there, while
/// no intent says so.
fn half(ground: &Ground) -> bool {
    let one = record(ground, 1).is_some();
    one != record(ground, 2).is_some() && intents(ground).is_empty()
}

/// A power cut that keeps any subset of what was not synced.
fn any_cut(make: &dyn Fn() -> Result<Ground, Violation>, what: &str) -> Outcome {
    for seed in 0..64 {
        let ground = make()?;
        let mut random = Random::new(seed);
        ground.kernel.state().power_cut(&mut || random.chance(500));
        must(!half(&ground), "G1", what)?;
    }
    Ok(())
}

/// A writer dies before it syncs its records; somebody settles its intent, and
/// is told that the members are held.
fn whole_unsynced() -> Outcome {
    let at = count(&without_session, &both, Call::Sync, 4)?;
    let make = || -> Result<Ground, Violation> {
        let (ground, member) = without_session()?;
        member.fault(&ground.kernel, at, Fault::Die);
        both(&member);
        let whole = record(&ground, 1).is_some() && record(&ground, 2).is_some();
        must(
            whole && intents(&ground).len() == 1,
            "scenario",
            "not whole",
        )?;
        claim(&ground.member("x", 0)?, &[1], false)?;
        must(intents(&ground).is_empty(), "scenario", "not settled")?;
        Ok(ground)
    };
    any_cut(&make, "half of a settled change is lost")
}

/// A writer dies between two records, and then the power goes.
fn cut_in_the_middle() -> Outcome {
    let make = || faulty(Call::Rename, 2, Fault::Die).map(|(ground, _)| ground);
    any_cut(&make, "half of a change is durable, and its intent is not")
}
