//! The authority: sizes, damage, and merges whose writers die half way.

use symlease::campaign::coverage::Candidate;
use symlease::error::{Error, Kind};
use symlease::record::shard::{Edge, Shard};
use symlease::record::transaction::Transaction;
use symlease::sys::sim::{Call, Fault, Random};

use super::{count, failed, must, remove, Ground, Member, Outcome, Scenario};
use crate::check::Violation;

pub const ALL: &[Scenario] = &[
    ("maps of other sizes and builds", other_maps),
    ("a map's size that its maker did not sync", unsynced_size),
    ("damaged shards", damaged_shards),
    ("a merge that is being taken back", taken_back),
    ("known bits that nobody synced", unsynced_bits),
    ("a pull while a merge is settled", pulled_meanwhile),
    ("a pull that its taker refuses", refused_pull),
    ("a power cut in the middle of a merge", cut_in_the_middle),
    ("a merge that comes back after a power cut", comes_back),
    ("a peer's merge behind another", peers_merge),
];

const STATE: &str = "/c/.coverage_owner/state";

fn merge(member: &Member, edges: &[Edge]) -> Result<Vec<Edge>, Error> {
    let candidate = Candidate::sparse(edges)?;
    Ok(member.campaign.merge(&[candidate])?.concat())
}

/// A coordinator that has merged into both shards, so that all of it is made.
fn warm() -> Result<(Ground, Member), Violation> {
    let ground = Ground::new(1);
    let member = ground.member("a", 0)?;
    merge(&member, &[(12, 1), (13, 1)])?;
    Ok((ground, member))
}

fn bits(member: &Member) -> Result<Vec<Edge>, Error> {
    let shards = member.campaign.authority()?;
    Ok(shards.into_iter().flat_map(|shard| shard.entries).collect())
}

/// C6: maps of different sizes or builds do not mix.
fn other_maps() -> Outcome {
    let ground = Ground::new(1);
    let mut request = ground.request("a");
    (request.map_size, request.map_identity) = (16, Some("one".to_string()));
    let a = ground.with(&request, 0)?;
    let b = ground.member("b", 0)?;
    merge(&a, &[(1, 1)])?;
    let beyond = merge(&b, &[(20, 1)]);
    must(
        failed(&beyond) == Some(Kind::Mismatch),
        "C6",
        &format!("index 20 of 16: {beyond:?}"),
    )?;
    for (size, build) in [(32, None), (16, Some("two".to_string()))] {
        (request.map_size, request.map_identity) = (size, build);
        let opened = ground.with(&request, 0).map(|_| ());
        must(
            opened.is_err(),
            "C6",
            &format!("opened as {size} bytes of another build"),
        )?;
    }
    // Indices beyond the size are there before anybody knows it.
    let ground = Ground::new(1);
    merge(&ground.member("b", 0)?, &[(20, 1)])?;
    (request.map_size, request.map_identity) = (16, None);
    let fixed = merge(&ground.with(&request, 0)?, &[(1, 1)]);
    must(
        failed(&fixed) == Some(Kind::Mismatch),
        "C6",
        &format!("size 16 beyond 20: {fixed:?}"),
    )
}

/// C6: once a merge was told the size is fixed, whoever fixed it.
fn unsynced_size() -> Outcome {
    let dense = |member: &Member| {
        let candidate = Candidate::dense(&[1; 16]);
        candidate.and_then(|candidate| member.campaign.merge(&[candidate]))
    };
    let at = count(&warm, &|member| drop(dense(member)), Call::Unlink, 0)?;
    for dies in [true, false] {
        let (ground, a) = warm()?;
        let b = ground.member("b", 0)?;
        merge(&b, &[(2, 1), (3, 1)])?;
        if dies {
            a.fault(&ground.kernel, at, Fault::Die);
            let _ = dense(&a);
            let there = ground.read("/c/.coverage_owner/map.json").is_some();
            must(there, "scenario", "no size when its maker died")?;
        }
        dense(&b)?;
        ground.cut();
        let there = ground.read("/c/.coverage_owner/map.json").is_some();
        must(
            there,
            "C6",
            &format!("no size after a cut, its maker died: {dies}"),
        )?;
    }
    Ok(())
}

/// C1, C2: damaged is not empty; nothing is changed.
fn damaged_shards() -> Outcome {
    let harms = [
        ("[12,1]", "[13,1]"),
        ("[12,1]", "[12,0]"),
        ("\"schema\":1", "\"schema\":2"),
    ];
    for (from, to) in harms {
        let (ground, member) = warm()?;
        let path = format!("{STATE}/0000.json");
        let text = String::from_utf8_lossy(&ground.read(&path).unwrap_or_default()).into_owned();
        let harmed = text.replace(from, to);
        must(
            harmed != text,
            "scenario",
            &format!("nothing was harmed in {text}"),
        )?;
        ground.write(&path, harmed.as_bytes());
        let merged = merge(&member, &[(0, 2), (1, 2)]);
        must(
            failed(&merged) == Some(Kind::Corrupt),
            "C1",
            &format!("{to}: {merged:?}"),
        )?;
        let same = ground.read(&path).as_deref() == Some(harmed.as_bytes());
        must(same, "C1", "a damaged shard was changed")?;
    }
    Ok(())
}

/// C8: a merge fails at its second shard, and takes the first one back. Nobody
/// is told meanwhile that its bits are known.
fn taken_back() -> Outcome {
    let act = |member: &Member| drop(merge(member, &[(0, 1), (1, 1)]));
    let at = count(&warm, &act, Call::Rename, 2)?;
    let (ground, a) = warm()?;
    let b = ground.member("b", 0)?;
    let mut told = None;
    a.fault(&ground.kernel, at, Fault::Error(libc::EIO));
    let act = |member: &Member| merge(member, &[(0, 1), (1, 1)]);
    let failed = a.interrupted(&ground.kernel, at, act, || {
        let unknown = Candidate::sparse(&[(0, 1)]).and_then(|one| b.campaign.unknown_bits(&one));
        told = unknown.ok();
    })?;
    must(failed.is_err(), "scenario", "the merge did not fail")?;
    must(
        told != Some(0),
        "C8",
        "told that bits are known which were taken back",
    )?;
    // A clean failure stays one: the bits are new to whoever brings them.
    ground.cut();
    let again = merge(&ground.member("c", 0)?, &[(0, 1), (1, 1)])?;
    must(
        again.len() == 2,
        "C5",
        &format!("a clean failure came back: {again:?}"),
    )
}

/// Known bits are for ever, whoever merged them.
fn unsynced_bits() -> Outcome {
    let at = count(
        &warm,
        &|member| drop(merge(member, &[(0, 1)])),
        Call::Sync,
        1,
    )?;
    for merging in [true, false] {
        let (ground, a) = warm()?;
        a.fault(&ground.kernel, at, Fault::Die);
        let _ = merge(&a, &[(0, 1)]);
        let b = ground.member("b", 0)?;
        let known = match merging {
            true => merge(&b, &[(0, 1)])?.is_empty(),
            false => b.campaign.unknown_bits(&Candidate::sparse(&[(0, 1)])?)? == 0,
        };
        must(known, "scenario", "the bits are not known")?;
        ground.cut();
        let there = bits(&ground.member("c", 0)?)?;
        must(
            there.contains(&(0, 1)),
            "durable",
            &format!("known bits are lost: {there:?}"),
        )?;
    }
    Ok(())
}

/// A merge of the dead stands written; it is settled between two looks of
/// somebody who only reads.
fn pulled_meanwhile() -> Outcome {
    let act = |member: &Member| drop(merge(member, &[(0, 1), (1, 1)]));
    let dies = count(&warm, &act, Call::Rename, 1)?;
    let standing = || {
        let (ground, dead) = warm()?;
        dead.fault(&ground.kernel, dies, Fault::Die);
        act(&dead);
        let member = ground.member("b", 0)?;
        Ok((ground, member))
    };
    // Before the listing, and after it.
    for kind in [Call::List, Call::Read] {
        let at = count(&standing, &|member| drop(bits(member)), kind, 0)?;
        let (ground, member) = standing()?;
        let other = ground.member("c", 0)?;
        let settle = || drop(merge(&other, &[(0, 4), (1, 4)]));
        let seen = member.interrupted(&ground.kernel, at, bits, settle)??;
        let whole = [0, 1].iter().all(|index| {
            seen.iter()
                .any(|(found, mask)| found == index && mask & 1 != 0)
        });
        must(whole, "C5", &format!("half of a merge was read: {seen:?}"))?;
    }
    Ok(())
}

/// What was not taken is given again.
fn refused_pull() -> Outcome {
    let (_ground, member) = warm()?;
    let refuse = |_: &[(u32, Vec<Edge>)]| Err(Error::new(Kind::Callback, "not now"));
    let first = member.campaign.pull(&mut { refuse });
    must(first.is_err(), "scenario", "nothing was refused")?;
    let count = member.campaign.pull(&mut |_| Ok(()))?;
    must(count == 2, "pull", &format!("{count} bits after a refusal"))
}

/// C5: a merge over two shards is made whole, or not at all.
fn cut_in_the_middle() -> Outcome {
    let act = |member: &Member| drop(merge(member, &[(0, 1), (1, 1)]));
    let at = count(&warm, &act, Call::Rename, 2)?;
    for seed in 0..64 {
        let (ground, member) = warm()?;
        member.fault(&ground.kernel, at, Fault::Die);
        act(&member);
        let mut random = Random::new(seed);
        ground.kernel.state().power_cut(&mut || random.chance(500));
        let b = ground.member("b", 0)?;
        merge(&b, &[(2, 1), (3, 1)])?;
        let there = bits(&b)?;
        let whole = there.contains(&(0, 1)) == there.contains(&(1, 1));
        must(
            whole,
            "C5",
            &format!("half a merge after a power cut: {there:?}"),
        )?;
    }
    Ok(())
}

/// A transaction whose removal was not durable comes back, when its shards have
/// gone on: it is rolled forward once more, and takes nothing away.
fn comes_back() -> Outcome {
    let act = |member: &Member| drop(merge(member, &[(0, 1), (1, 1)]));
    let unlink = count(&warm, &act, Call::Unlink, 0)?;
    let (ground, a) = warm()?;
    a.fault(&ground.kernel, unlink + 1, Fault::Die);
    act(&a);
    let b = ground.member("b", 0)?;
    merge(&b, &[(0, 2)])?;
    ground.cut();
    must(
        ground
            .paths(".json")
            .iter()
            .any(|path| path.contains("/claim-transactions/")),
        "scenario",
        "none came back",
    )?;
    let c = ground.member("c", 0)?;
    merge(&c, &[(3, 2)])?;
    let there = bits(&c)?;
    must(
        there.contains(&(0, 3)),
        "C5",
        &format!("a merge came back, and took bits: {there:?}"),
    )
}

/// A transaction of a Python peer, in its one place.
fn peers(numbers: &[u32], mask: u8) -> Vec<u8> {
    let record = |number: &u32| Shard {
        entries: vec![(*number, mask)],
        epoch: 1,
        ..Shard::empty(*number)
    };
    let transaction = Transaction {
        shard_count: 3,
        coordinator: "peer".to_string(),
        created: 1.0,
        records: numbers.iter().map(record).collect(),
        novel_by_candidate: vec![numbers.len() as u64],
    };
    transaction.to_bytes()
}

/// Somebody finds a dead peer's merge and lets go of its locks to settle it;
/// meanwhile another peer settles it, writes its own into the same place, and
/// dies.
fn peers_merge() -> Outcome {
    let place = "/c/.coverage_owner/.coverage-claim-transaction.json";
    let make = || {
        let ground = Ground::new(1);
        let mut request = ground.request("a");
        request.coverage_shards = 3;
        let member = ground.with(&request, 0)?;
        merge(&member, &[(12, 1), (13, 1), (14, 1)])?;
        ground.write(place, &peers(&[0, 1], 2));
        Ok((ground, member))
    };
    let act = |member: &Member| drop(merge(member, &[(0, 4)]));
    let at = count(&make, &act, Call::Lock, 1)?;
    let (ground, member) = make()?;
    let kernel = &ground.kernel;
    let act = |member: &Member| merge(member, &[(0, 4)]);
    member.interrupted(kernel, at, act, || {
        remove(kernel, place);
        ground.write(place, &peers(&[0, 2], 64));
    })??;
    let there = bits(&member)?;
    let merged = [0, 2].iter().all(|index| {
        there
            .iter()
            .any(|(found, mask)| found == index && mask & 64 != 0)
    });
    must(merged, "C5", &format!("a peer's merge is lost: {there:?}"))
}
