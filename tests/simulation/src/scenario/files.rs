//! Directories, identities, listings, and answers that must be durable.

use std::sync::Arc;

use symlease::campaign::work::Claimed;
use symlease::campaign::{Answer, ClaimOptions};
use symlease::engine::Table;
use symlease::error::Kind;
use symlease::sys::sim::{Call, Fault};

use super::{count, failed, must, Ground, Member, Outcome, Scenario};
use crate::check::Violation;
use crate::client::work_id;

pub const ALL: &[Scenario] = &[
    ("directories of the dead", directories_of_the_dead),
    ("another number of shards", another_identity),
    ("a listing while records are replaced", listing),
    ("a batch whose sync fails", batch),
    ("a repeated claim that is overtaken", overtaken),
    ("answers about what is not durable", durable_answers),
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
            let (campaign, options) = (Arc::clone(&b.campaign), options.clone());
            a.before(&ground.kernel, at, move || {
                let _ = campaign.claim(&work_id(0), None, &options);
            });
            let found = a.campaign.engine().list(Table::Work)?;
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
