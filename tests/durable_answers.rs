//! DONE, ALREADY, known bits, and an OK that writes nothing are for ever: they
//! are given only from what is durable. And a file system that cannot make a
//! directory durable says so (F18).

mod common;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use common::{campaign, fast_root, Clock, Faulty};
use symlease::campaign::coverage::Candidate;
use symlease::campaign::work::Claimed;
use symlease::campaign::{Answer, Campaign, ClaimOptions};
use symlease::error::{Error, Kind, Result};
use symlease::model::coverage::bits_in;
use symlease::record::id::sha256_hex;
use symlease::sys::Linux;

const NOW: f64 = 1_786_060_800.25;
const MANIFEST: &str = "{\"r\":[1]}";
const EDGES: [(u32, u8); 3] = [(0, 1), (1, 3), (2, 1)];

struct Ground {
    root: tempfile::TempDir,
    clock: Clock,
    a: Campaign,
    id: String,
    token: String,
}

impl Ground {
    /// Another process has done work, begun a commit, and merged.
    fn new() -> Ground {
        let root = fast_root();
        let clock: Clock = Arc::new(Mutex::new(NOW));
        let a = campaign(root.path(), "a", &clock, Arc::new(Linux::new()));
        let id = sha256_hex(b"done");
        let token = claim(&a, &id);
        assert_eq!(a.complete(&id, &token).unwrap(), Answer::Ok);
        assert_eq!(merge(&a), Ok(4));
        Ground {
            root,
            clock,
            a,
            id,
            token,
        }
    }

    /// A handle that has seen to it that the directories are durable (M2), which
    /// each does once; from then on its directory syncs are counted.
    fn open(&self, sys: &Arc<Faulty>) -> Campaign {
        let b = campaign(self.root.path(), "b", &self.clock, sys.clone());
        assert_eq!(b.heartbeat(&self.id, "nobody").unwrap().0, Answer::Stale);
        b.merge(&[Candidate::sparse(&[(3, 1)]).unwrap()]).unwrap();
        sys.directory_syncs.store(0, Ordering::SeqCst);
        b
    }
}

fn claim(campaign: &Campaign, id: &str) -> String {
    match campaign.claim(id, None, &ClaimOptions::default()) {
        Ok(Claimed::Lease(held)) => held.token,
        other => panic!("{other:?}"),
    }
}

fn merge(campaign: &Campaign) -> Result<u64> {
    let novel = campaign.merge(&[Candidate::sparse(&EDGES).unwrap()])?;
    Ok(novel.iter().map(|edges| bits_in(edges)).sum())
}

/// A question whose answer is for ever: `Ok(true)` when it was that answer.
type Ask = fn(&Campaign, &Ground) -> Result<bool>;

fn done(campaign: &Campaign, ground: &Ground) -> Result<bool> {
    let claimed = campaign.claim(&ground.id, None, &ClaimOptions::default())?;
    Ok(matches!(claimed, Claimed::Refused(Answer::Done, _)))
}

fn many(campaign: &Campaign, ground: &Ground) -> Result<bool> {
    let asked = [(ground.id.clone(), ground.token.clone())];
    let answers = campaign.heartbeat_many(&asked)?;
    Ok(answers[0].clone()?.0 == Answer::Already)
}

fn committed(campaign: &Campaign, ground: &Ground) -> Result<bool> {
    let corpus = ground.root.path().join("corpus").into_os_string();
    let (answer, _) =
        campaign.commit(&ground.id, &ground.token, &corpus.into_encoded_bytes(), &[])?;
    Ok(answer == Answer::Done)
}

const ASKS: [(&str, Ask); 9] = [
    ("claim", done),
    ("heartbeat", |b, g| {
        Ok(b.heartbeat(&g.id, &g.token)?.0 == Answer::Already)
    }),
    ("many heartbeats", many),
    ("complete", |b, g| {
        Ok(b.complete(&g.id, &g.token)? == Answer::Already)
    }),
    ("replay", |b, g| {
        let answer = b.replay(&g.id, &g.token, &mut |_| panic!("it is done"))?;
        Ok(answer == Answer::Already)
    }),
    ("verify", |b, g| {
        Ok(b.verify(&g.id, &g.token)?.0 == Answer::Already)
    }),
    ("commit", committed),
    ("merge", |b, _| Ok(merge(b)? == 0)),
    ("unknown bits", |b, _| {
        Ok(b.unknown_bits(&Candidate::sparse(&EDGES).unwrap())? == 0)
    }),
];

/// A version that another process published is synced once before the answer,
/// and then known; one's own is known from its publish.
#[test]
fn an_answer_for_ever_is_synced_once() {
    for (name, ask) in ASKS {
        let ground = Ground::new();
        let sys = Faulty::new();
        let b = ground.open(&sys);
        let syncs = || sys.directory_syncs.load(Ordering::SeqCst);
        assert!(ask(&b, &ground).unwrap(), "{name}");
        assert_eq!(syncs(), 1, "{name}: the first time");
        for (other, ask) in ASKS {
            let before = syncs();
            let coverage = ["merge", "unknown bits"];
            assert!(ask(&b, &ground).unwrap(), "{name}, then {other}");
            let known = coverage.contains(&name) == coverage.contains(&other);
            if known || other == name {
                assert_eq!(syncs(), before, "{name}, then {other}");
            }
        }
        assert_eq!(syncs(), 2, "{name}: a record and the shards");
        // The same record in a new version is another one.
        *ground.clock.lock().unwrap() += 1.0;
        let own = ground.a.engine().counters().syncs;
        for (name, ask) in ASKS {
            assert!(ask(&ground.a, &ground).unwrap(), "{name}");
        }
        assert_eq!(ground.a.engine().counters().syncs, own, "one's own");
    }
}

/// While the sync fails there is no such answer; and then the record is
/// published again, for a sync after one that failed proves nothing (F17).
#[test]
fn no_answer_without_its_sync() {
    for (name, ask) in ASKS {
        let ground = Ground::new();
        let sys = Faulty::new();
        let b = ground.open(&sys);
        sys.directory_errno
            .store(libc::EIO as u64, Ordering::SeqCst);
        for _ in 0..2 {
            let error = ask(&b, &ground).unwrap_err();
            // The second call has published again, which may have been made.
            let kinds = [Kind::Io, Kind::Indeterminate];
            assert!(kinds.contains(&error.kind), "{name}: {error}");
        }
        sys.directory_errno.store(0, Ordering::SeqCst);
        let renames = sys.renames.load(Ordering::SeqCst);
        assert!(ask(&b, &ground).unwrap(), "{name}");
        if name != "verify" {
            // Looking changes nothing (M4): it can only sync.
            assert!(sys.renames.load(Ordering::SeqCst) > renames, "{name}");
            let syncs = sys.directory_syncs.load(Ordering::SeqCst);
            assert!(ask(&b, &ground).unwrap(), "{name}");
            assert_eq!(sys.directory_syncs.load(Ordering::SeqCst), syncs, "{name}");
        }
    }
}

/// A begin commit that finds itself done answers OK only when that is durable.
#[test]
fn a_commit_that_has_begun_is_durable() {
    let ground = Ground::new();
    let id = sha256_hex(b"begun");
    let token = claim(&ground.a, &id);
    assert_eq!(
        ground.a.begin_commit(&id, &token, MANIFEST).unwrap(),
        Answer::Ok
    );
    let sys = Faulty::new();
    let b = ground.open(&sys);
    sys.directory_errno
        .store(libc::EIO as u64, Ordering::SeqCst);
    b.begin_commit(&id, &token, MANIFEST).unwrap_err();
    sys.directory_errno.store(0, Ordering::SeqCst);
    assert_eq!(b.begin_commit(&id, &token, MANIFEST).unwrap(), Answer::Ok);
    let syncs = sys.directory_syncs.load(Ordering::SeqCst);
    assert!(syncs > 0);
    assert_eq!(b.begin_commit(&id, &token, MANIFEST).unwrap(), Answer::Ok);
    assert_eq!(sys.directory_syncs.load(Ordering::SeqCst), syncs);
}

/// What one handle could not make durable is not known to it by another of its
/// calls either.
#[test]
fn a_failed_sync_is_no_knowledge() {
    let ground = Ground::new();
    let sys = Faulty::new();
    let b = ground.open(&sys);
    let id = sha256_hex(b"mine");
    let token = claim(&b, &id);
    sys.directory_errno
        .store(libc::EIO as u64, Ordering::SeqCst);
    let failed = |outcome: Result<Answer>| outcome.map_err(|error: Error| error.kind);
    assert_eq!(failed(b.complete(&id, &token)), Err(Kind::Indeterminate));
    b.claim(&id, None, &ClaimOptions::default()).unwrap_err();
    b.heartbeat(&id, &token).unwrap_err();
    b.verify(&id, &token).unwrap_err();
    sys.directory_errno.store(0, Ordering::SeqCst);
    let renames = sys.renames.load(Ordering::SeqCst);
    assert_eq!(b.heartbeat(&id, &token).unwrap().0, Answer::Already);
    assert_eq!(sys.renames.load(Ordering::SeqCst), renames + 1);
    // And the call itself is still to be answered.
    assert_eq!(b.complete(&id, &token).unwrap(), Answer::Ok);
    assert_eq!(b.complete(&id, &token).unwrap(), Answer::Already);
}

/// F18: EINVAL is a file system without directory syncs: tolerated, and said.
#[test]
fn f18_a_directory_that_cannot_be_synced_is_reported() {
    let ground = Ground::new();
    let sys = Faulty::new();
    let b = ground.open(&sys);
    assert!(b.stats().unwrap().contains("\"unsynced\":0"));
    sys.directory_errno
        .store(libc::EINVAL as u64, Ordering::SeqCst);
    let token = claim(&b, &sha256_hex(b"einval"));
    let counters = b.engine().counters();
    assert!(!token.is_empty() && counters.unsynced > 0);
    assert_eq!(
        counters.unsynced,
        sys.directory_syncs.load(Ordering::SeqCst)
    );
    let said = format!("\"unsynced\":{}", counters.unsynced);
    assert!(b.stats().unwrap().contains(&said));
}
