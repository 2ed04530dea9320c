//! Directories, identities, listings, and answers that must be durable.

use symlease::campaign::work::Claimed;
use symlease::campaign::{Answer, ClaimOptions};
use symlease::engine::Table;
use symlease::error::Kind;
use symlease::record::id::shard_of;
use symlease::sys::sim::{Call, Fault};

use super::{count, failed, must, remove, Ground, Member, Outcome, Scenario};
use crate::check::Violation;
use crate::client::work_id;

pub const ALL: &[Scenario] = &[
    ("directories of the dead", directories_of_the_dead),
    ("another number of shards", another_identity),
    ("a root of a newer schema", newer_schema),
    ("a root that somebody removes", removed_root),
    ("records of another number of shards", misplaced_records),
    ("a handle that only reads", read_only),
    ("a listing while records are replaced", listing),
    ("a batch whose sync fails", batch),
    ("a repeated claim that is overtaken", overtaken),
    ("answers about what is not durable", durable_answers),
    ("a commit that began, and is not durable", begun),
    ("answers after a sync that failed", doubtful),
];

/// Whoever makes directories may die at any call: what others do in them is
/// durable all the same.
fn directories_of_the_dead() -> Outcome {
    for at in 1.. {
        let ground = Ground::new(1);
        let a = ground.member("a", 0)?;
        a.fault(&ground.kernel, at, Fault::Die);
        if a.claim(0).is_ok() {
            return Ok(());
        }
        let b = ground.member("b", 0)?;
        let held = b.claim(1)?;
        b.campaign.complete(&work_id(1), &held.token)?;
        ground.cut();
        let text = format!("done is lost, where the maker died at call {at}");
        must(is_done(&ground, 1), "M2", &text)?;
    }
    Ok(())
}

fn is_done(ground: &Ground, number: u64) -> bool {
    let paths = ground.paths(&format!("{}.json", work_id(number)));
    let bytes = paths.first().and_then(|path| ground.read(path));
    let text = bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    text.is_some_and(|text| text.contains("\"status\":\"done\""))
}

/// A root has one identity.
fn another_identity() -> Outcome {
    let ground = Ground::new(1);
    ground.member("a", 0)?.claim(0)?;
    let mut request = ground.request("b");
    request.lease_shards = 2;
    let sys = ground.kernel.start(0);
    let opened = ground.open(&sys, &request).map(|_| ());
    must(
        failed(&opened) == Some(Kind::Mismatch),
        "M1",
        &format!("{opened:?}"),
    )
}

const WORK: &str = "/c/.work_lease_table";

/// Who knows less than the root's schema changes nothing there.
fn newer_schema() -> Outcome {
    let ground = Ground::new(1);
    ground.member("a", 0)?.claim(0)?;
    let path = format!("{WORK}/symlease.json");
    let text = String::from_utf8_lossy(&ground.read(&path).unwrap_or_default()).into_owned();
    ground.write(
        &path,
        text.replace("\"schema\":1", "\"schema\":2").as_bytes(),
    );
    let claimed = ground.member("b", 0)?.claim_as(1, &ClaimOptions::default());
    let right = failed(&claimed) == Some(Kind::Unsupported);
    must(right, "M1", &format!("{claimed:?}"))
}

/// No record without an identity, even where the root goes away.
fn removed_root() -> Outcome {
    let (ground, member) = holder()?;
    remove(&ground.kernel, WORK);
    member.claim(1)?;
    let there = ground.read(&format!("{WORK}/symlease.json")).is_some();
    must(there, "M1", "records without an identity")
}

/// A peer's records say how many folders there are.
fn misplaced_records() -> Outcome {
    let ground = Ground::new(1);
    let other = (0..).find(|number| shard_of(&work_id(*number), 2) == 1);
    for path in [WORK.to_string(), format!("{WORK}/000")] {
        let made = ground.kernel.state().place_directory(path.as_bytes());
        must(made.is_ok(), "scenario", &path)?;
    }
    let id = work_id(other.unwrap_or_default());
    ground.write(&format!("{WORK}/000/{id}.json"), b"{}\n");
    let mut request = ground.request("a");
    request.lease_shards = 2;
    let claimed = ground
        .with(&request, 0)?
        .claim_as(0, &ClaimOptions::default());
    must(
        failed(&claimed) == Some(Kind::Mismatch),
        "M1",
        &format!("{claimed:?}"),
    )
}

/// A handle that only reads makes nothing.
fn read_only() -> Outcome {
    let ground = Ground::new(1);
    let mut request = ground.request("a");
    request.read_only = true;
    let member = ground.with(&request, 0)?;
    let claimed = member.claim_as(0, &ClaimOptions::default());
    must(
        failed(&claimed) == Some(Kind::Invalid),
        "M4",
        &format!("{claimed:?}"),
    )?;
    let files = ground.paths("");
    must(files.is_empty(), "M4", &format!("{files:?}"))
}

/// A listing may give a name twice that is replaced meanwhile.
fn listing() -> Outcome {
    for _ in 0..20 {
        let make = || {
            let ground = Ground::new(1);
            let a = ground.member("a", 0)?;
            a.claim(0)?;
            Ok((ground, a))
        };
        let act = |member: &Member| drop(member.campaign.engine().list(Table::Work));
        let at = count(&make, &act, Call::Listed, 0)?;
        let (ground, a) = make()?;
        let b = ground.member("b", 0)?;
        let options = ClaimOptions {
            takeover: true,
            ..ClaimOptions::default()
        };
        for _ in 0..10 {
            let list = |member: &Member| member.campaign.engine().list(Table::Work);
            let take = || drop(b.claim_as(0, &options));
            let found = a.interrupted(&ground.kernel, at, list, take)??;
            must(
                found.len() < 2,
                "F23",
                &format!("{} times the same", found.len()),
            )?;
        }
    }
    Ok(())
}

/// A coordinator with a lease, and its own session.
fn holder() -> Result<(Ground, Member), Violation> {
    let ground = Ground::new(1);
    let member = ground.member("a", 0)?;
    member.claim(0)?;
    Ok((ground, member))
}

fn token(member: &Member) -> String {
    let found = member.campaign.record(Table::Work, &work_id(0));
    let text = found.ok().flatten().unwrap_or_default();
    let rest = text.split("\"token\":\"").nth(1).unwrap_or_default();
    rest.split('"').next().unwrap_or_default().to_string()
}

fn batch() -> Outcome {
    let run = |member: &Member| {
        let leases = [(work_id(0), token(member))];
        let answers = member.campaign.heartbeat_many(&leases);
        answers.map(|mut answers| answers.remove(0))
    };
    let at = count(&holder, &|member| drop(run(member)), Call::Sync, 1)?;
    let (ground, member) = holder()?;
    member.fault(&ground.kernel, at, Fault::Error(libc::EIO));
    let renewed = run(&member)?;
    let right = failed(&renewed) == Some(Kind::Indeterminate);
    must(right, "E_INDETERMINATE", &format!("{renewed:?}"))
}

/// A claim ends E_INDETERMINATE, and somebody takes the lease before it is
/// repeated.
fn overtaken() -> Outcome {
    let make = || {
        let (ground, member) = holder()?;
        Ok((ground, member))
    };
    let claim = |member: &Member| member.claim_as(1, &ClaimOptions::default());
    let at = count(&make, &|member| drop(claim(member)), Call::Sync, 1)?;
    let (ground, a) = make()?;
    a.fault(&ground.kernel, at, Fault::Error(libc::EIO));
    let first = claim(&a);
    must(
        failed(&first) == Some(Kind::Indeterminate),
        "E_INDETERMINATE",
        &format!("{first:?}"),
    )?;
    let options = ClaimOptions {
        takeover: true,
        ..ClaimOptions::default()
    };
    let b = ground.member("b", 0)?;
    b.claim_as(1, &options)?;
    let second = claim(&a)?;
    let right = matches!(second, Claimed::Refused(Answer::Held, _));
    must(
        right,
        "E_INDETERMINATE",
        &format!("the repetition was told {second:?}"),
    )
}

/// `done` that its writer, who died, has not synced.
fn unsynced_done() -> Result<(Ground, String), Violation> {
    let act = |member: &Member| drop(member.campaign.complete(&work_id(0), &token(member)));
    let at = count(&holder, &act, Call::Sync, 1)?;
    let (ground, member) = holder()?;
    let token = token(&member);
    member.fault(&ground.kernel, at, Fault::Die);
    act(&member);
    let dead = !ground.kernel.state().processes[member.sys.number()].alive;
    must(
        dead && is_done(&ground, 0),
        "scenario",
        "not done, or its writer lives",
    )?;
    Ok((ground, token))
}

/// How somebody is told that work is done.
type Telling = fn(&Member, &str) -> bool;

const TELLINGS: [(&str, Telling); 3] = [
    ("claim", |member, _| {
        let claimed = member.claim_as(0, &ClaimOptions::default());
        matches!(claimed, Ok(Claimed::Refused(Answer::Done, _)))
    }),
    ("heartbeat", |member, token| {
        let renewed = member.campaign.heartbeat(&work_id(0), token);
        matches!(renewed, Ok((Answer::Already, _)))
    }),
    ("verify", |member, token| {
        let seen = member.campaign.verify(&work_id(0), token);
        matches!(seen, Ok((Answer::Already, _)))
    }),
];

/// DONE and ALREADY are for ever.
fn durable_answers() -> Outcome {
    for (what, told) in TELLINGS {
        let (ground, token) = unsynced_done()?;
        must(told(&ground.member("b", 0)?, &token), "answer", what)?;
        ground.cut();
        must(
            is_done(&ground, 0),
            "durable",
            &format!("{what} told of lost work"),
        )?;
    }
    Ok(())
}

/// A commit has begun, and whoever began it died before that was durable. Its
/// beginning is told again only when it is.
fn begun() -> Outcome {
    let begin = |member: &Member, token: &str| {
        let begun = member
            .campaign
            .begin_commit(&work_id(0), token, "{\"n\":1}");
        matches!(begun, Ok(Answer::Ok))
    };
    let act = |member: &Member| _ = begin(member, &token(member));
    let at = count(&holder, &act, Call::Sync, 1)?;
    let (ground, member) = holder()?;
    let token = token(&member);
    member.fault(&ground.kernel, at, Fault::Die);
    act(&member);
    let mut request = ground.request("b");
    request.no_session = true;
    must(
        begin(&ground.with(&request, 0)?, &token),
        "answer",
        "not begun",
    )?;
    ground.cut();
    let path = ground.paths(&format!("{}.json", work_id(0))).remove(0);
    let text = String::from_utf8_lossy(&ground.read(&path).unwrap_or_default()).into_owned();
    let there = text.contains("\"status\":\"committing\"");
    must(there, "durable", "a commit that had begun is lost")
}

/// A sync that failed is not made up for by one that succeeds.
fn doubtful() -> Outcome {
    let make = || {
        let (ground, _) = unsynced_done()?;
        ground.kernel.state().disk.forgets = true;
        let mut request = ground.request("b");
        request.no_session = true;
        let member = ground.with(&request, 0)?;
        Ok((ground, member))
    };
    let told = TELLINGS[0].1;
    let mut syncs = 0;
    while let Ok(at) = count(&make, &|member| _ = told(member, ""), Call::Sync, syncs) {
        let (ground, member) = make()?;
        member.fault(&ground.kernel, at, Fault::Error(libc::EIO));
        must(!told(&member, ""), "F17", "an answer after a failed sync")?;
        must(told(&member, ""), "F17", "no answer at the second time")?;
        ground.cut();
        must(
            is_done(&ground, 0),
            "F17",
            "told of what a failed sync lost",
        )?;
        syncs += 1;
    }
    must(syncs > 0, "scenario", "nothing was synced")
}
