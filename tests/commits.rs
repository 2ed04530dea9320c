//! C7, F40: nothing novel is lost through a commit, whenever its process dies.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use common::{campaign, fast_root, files, impatient, Clock, Faulty};
use symlease::campaign::commit::Offer;
use symlease::campaign::coverage::Candidate;
use symlease::campaign::work::Claimed;
use symlease::campaign::{Answer, Campaign, ClaimOptions};
use symlease::engine::corpus::Fate;
use symlease::engine::Table;
use symlease::error::Kind;
use symlease::record::id::sha256_hex;
use symlease::sys::Linux;

const NOW: f64 = 1_786_060_800.25;

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().to_vec()
}

struct Ground {
    root: tempfile::TempDir,
    clock: Clock,
}

impl Ground {
    fn new() -> Ground {
        Ground::below(tempfile::tempdir().unwrap())
    }

    fn below(root: tempfile::TempDir) -> Ground {
        std::fs::create_dir(root.path().join("staged")).unwrap();
        Ground {
            root,
            clock: Arc::new(Mutex::new(NOW)),
        }
    }

    fn corpus(&self) -> PathBuf {
        self.root.path().join("corpus")
    }

    fn open(&self, owner: &str) -> Campaign {
        campaign(self.root.path(), owner, &self.clock, Arc::new(Linux::new()))
    }

    fn offer(&self, content: &str, edges: Option<&[(u32, u8)]>) -> Offer {
        let staged = self.root.path().join("staged").join(content);
        std::fs::write(&staged, content).unwrap();
        Offer {
            staged: bytes(&staged),
            name: None,
            corpus: None,
            map: edges.map(|edges| Candidate::sparse(edges).unwrap()),
            keep: false,
        }
    }

    fn published(&self) -> Vec<String> {
        let all = files(&self.corpus()).into_iter();
        let mut contents: Vec<String> = all
            .map(|(_, bytes)| String::from_utf8(bytes).unwrap())
            .collect();
        contents.sort();
        contents
    }
}

fn claim(campaign: &Campaign, id: &str) -> String {
    match campaign.claim(id, None, &ClaimOptions::default()).unwrap() {
        Claimed::Lease(held) => held.token,
        other => panic!("{other:?}"),
    }
}

fn bits(campaign: &Campaign) -> BTreeMap<u32, u8> {
    campaign
        .authority()
        .unwrap()
        .into_iter()
        .flat_map(|shard| shard.entries)
        .collect()
}

#[test]
fn novel_results_are_published_and_the_rest_is_gone() {
    let ground = Ground::new();
    let a = ground.open("a");
    let id = sha256_hex(b"one");
    let token = claim(&a, &id);
    let mut crash = ground.offer("crash", Some(&[(1, 1)]));
    crash.keep = true;
    crash.corpus = Some(bytes(&ground.root.path().join("crashes")));
    crash.name = Some(b"id:0".to_vec());
    let offers = [
        ground.offer("first", Some(&[(1, 1), (2, 3)])),
        ground.offer("same", Some(&[(1, 1)])),
        ground.offer("unknown", None),
        crash,
    ];
    let corpus = bytes(&ground.corpus());
    let (answer, outcomes) = a.commit(&id, &token, &corpus, &offers).unwrap();
    assert_eq!(answer, Answer::Ok);
    let fates: Vec<_> = outcomes
        .iter()
        .map(|one| (one.fate, one.novel_bits))
        .collect();
    let published = Some(Fate::Published);
    assert_eq!(
        fates,
        [(published, 3), (None, 0), (published, 0), (published, 0)]
    );
    assert_eq!(ground.published(), ["first", "unknown"]);
    assert_eq!(
        std::fs::read(ground.root.path().join("crashes/id:0")).unwrap(),
        b"crash"
    );
    assert!(files(&ground.root.path().join("staged")).is_empty());
    assert_eq!(
        a.commit(&id, &token, &corpus, &offers).unwrap().0,
        Answer::Done
    );
    // A commit without results is the most common one, and valid.
    let id = sha256_hex(b"two");
    let token = claim(&a, &id);
    assert_eq!(a.commit(&id, &token, &corpus, &[]).unwrap().0, Answer::Ok);
}

/// Another content under the name is never replaced; the same one counts.
#[test]
fn names_are_never_replaced() {
    let ground = Ground::new();
    let a = ground.open("a");
    std::fs::create_dir(ground.corpus()).unwrap();
    std::fs::write(ground.corpus().join("n"), "other").unwrap();
    std::fs::write(ground.corpus().join("m"), "mine").unwrap();
    let (mut taken, mut there) = (ground.offer("ours", None), ground.offer("mine", None));
    taken.name = Some(b"n".to_vec());
    there.name = Some(b"m".to_vec());
    let id = sha256_hex(b"names");
    let token = claim(&a, &id);
    let corpus = bytes(&ground.corpus());
    let (_, outcomes) = a.commit(&id, &token, &corpus, &[taken, there]).unwrap();
    assert_eq!(outcomes[0].fate, Some(Fate::ByDigest));
    assert_eq!(outcomes[1].fate, Some(Fate::AlreadyThere));
    assert_eq!(ground.published(), ["mine", "other", "ours"]);
    let by_digest = ground.corpus().join(sha256_hex(b"ours"));
    assert_eq!(std::fs::read(by_digest).unwrap(), b"ours");
}

#[test]
fn a_lost_lease_publishes_nothing() {
    let ground = Ground::new();
    let (a, b) = (ground.open("a"), ground.open("b"));
    let id = sha256_hex(b"lost");
    let token = claim(&a, &id);
    *ground.clock.lock().unwrap() += 20.0;
    claim(&b, &id);
    let offer = ground.offer("x", Some(&[(1, 1)]));
    let corpus = bytes(&ground.corpus());
    let (answer, _) = a
        .commit(&id, &token, &corpus, std::slice::from_ref(&offer))
        .unwrap();
    assert_eq!(answer, Answer::Stale);
    assert!(ground.published().is_empty() && bits(&a).is_empty());
    for bad in [&b".."[..], b"a/b", b""] {
        let offer = Offer {
            name: Some(bad.to_vec()),
            ..offer.clone()
        };
        assert_eq!(
            a.commit(&id, &token, &corpus, &[offer]).unwrap_err().kind,
            Kind::Invalid
        );
    }
}

/// Runs a commit that dies at its `at`-th call (0: never), then lets others
/// finish. Answers how many calls the commit made.
fn die_and_replay(at: u64) -> u64 {
    let ground = Ground::new();
    let sys = Faulty::new();
    let a = campaign(ground.root.path(), "a", &ground.clock, sys.clone());
    let b = ground.open("b");
    let other = sha256_hex(b"earlier");
    let token = claim(&b, &other);
    let corpus = bytes(&ground.corpus());
    let earlier = [ground.offer("earlier", Some(&[(9, 1)]))];
    assert_eq!(
        b.commit(&other, &token, &corpus, &earlier).unwrap().0,
        Answer::Ok
    );

    let id = sha256_hex(b"work");
    let token = claim(&a, &id);
    let offers = [
        ground.offer("new", Some(&[(1, 1), (2, 2), (7, 4)])),
        ground.offer("known", Some(&[(9, 1)])),
        ground.offer("unknown", None),
    ];
    sys.die(at);
    let first = a.commit(&id, &token, &corpus, &offers);
    let calls = sys.calls.load(Ordering::SeqCst);
    *ground.clock.lock().unwrap() += 1e4;
    // Two replayers, one after the other; the second finds nothing to do.
    let (replayed, outcome) = b.replay_commits(&corpus, 0);
    outcome.unwrap_or_else(|error| panic!("death at {at}: {error}"));
    assert_eq!(ground.open("c").replay_commits(&corpus, 0), (0, Ok(())));
    let record = b.record(Table::Work, &id).unwrap().unwrap();
    if record.contains("\"leased\"") {
        // It died before the fence: nothing was decided, and the work is free.
        assert_eq!(
            (replayed, ground.published()),
            (0, vec!["earlier".to_string()]),
            "at {at}"
        );
        assert_eq!(bits(&b), BTreeMap::from([(9, 1)]), "at {at}");
        let token = claim(&b, &id);
        assert_eq!(
            b.commit(&id, &token, &corpus, &offers).unwrap().0,
            Answer::Ok,
            "at {at}"
        );
    }
    let record = b.record(Table::Work, &id).unwrap().unwrap();
    assert!(record.contains("\"done\""), "death at {at}: {record}");
    // Nothing novel is lost, and what was credited is there.
    assert_eq!(
        bits(&b),
        BTreeMap::from([(1, 1), (2, 2), (7, 4), (9, 1)]),
        "at {at}"
    );
    let published = ground.published();
    for wanted in ["earlier", "new", "unknown"] {
        assert!(
            published.iter().any(|one| one == wanted),
            "death at {at}: {published:?}"
        );
    }
    let counted = u64::from(matches!(first, Ok((Answer::Ok, _)))) + replayed;
    assert!(counted <= 1, "death at {at}: counted {counted} times");
    assert!(
        files(&ground.root.path().join("staged")).is_empty(),
        "death at {at}"
    );
    let left: Vec<String> = files(ground.root.path())
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    assert!(
        !left.iter().any(|path| path.ends_with(".tmp")),
        "H4, death at {at}: {left:?}"
    );
    calls
}

#[test]
fn a_death_at_any_call_loses_nothing() {
    let calls = die_and_replay(u64::MAX);
    assert!(calls > 60, "only {calls} calls were counted");
    for at in 1..=calls {
        die_and_replay(at);
    }
    println!("a commit of three results: {calls} calls, a death at each");
}

/// F40 with an error instead of a death: the same call again goes on.
#[test]
fn an_error_at_any_call_is_settled_by_the_same_call() {
    let calls = die_and_replay(u64::MAX);
    for at in 1..=calls {
        let ground = Ground::new();
        let sys = Faulty::new();
        let a = campaign(ground.root.path(), "a", &ground.clock, sys.clone());
        let id = sha256_hex(b"work");
        let token = claim(&a, &id);
        let corpus = bytes(&ground.corpus());
        let offers = [
            ground.offer("new", Some(&[(1, 1), (2, 2)])),
            ground.offer("u", None),
        ];
        sys.arm(at, libc::ENOSPC);
        let first = a.commit(&id, &token, &corpus, &offers);
        sys.arm(0, 0);
        let (again, _) = a.commit(&id, &token, &corpus, &offers).unwrap();
        let wanted = if first.is_ok_and(|(answer, _)| answer == Answer::Ok) {
            Answer::Done
        } else {
            again // either it finished now, or the error came behind `done`
        };
        assert!(
            matches!(again, Answer::Ok | Answer::Done),
            "error at {at}: {again:?}"
        );
        assert_eq!(again, wanted, "error at {at}");
        assert_eq!(ground.published(), ["new", "u"], "error at {at}");
        assert_eq!(bits(&a), BTreeMap::from([(1, 1), (2, 2)]), "error at {at}");
    }
}

/// Replay leaves alone: the living, another corpus, another schema.
#[test]
fn replay_leaves_alone_what_is_not_its_own() {
    let ground = Ground::new();
    let a = ground.open("a");
    let corpus = bytes(&ground.corpus());
    let id = sha256_hex(b"foreign");
    let token = claim(&a, &id);
    assert_eq!(
        a.begin_commit(&id, &token, "{\"hashes\":[\"a\"]}").unwrap(),
        Answer::Ok
    );
    assert_eq!(a.replay_commits(&corpus, 0), (0, Ok(())));
    *ground.clock.lock().unwrap() += 1e4;
    assert_eq!(a.replay_commits(&corpus, 0), (0, Ok(())), "another schema");
    assert_eq!(
        a.commit(&id, &token, &corpus, &[]).unwrap_err().kind,
        Kind::Mismatch
    );

    let id = sha256_hex(b"ours");
    let token = claim(&a, &id);
    let manifest = "{\"corpus\":\"corpus\",\"results\":[],\"schema\":\"symlease-commit-v1\"}";
    assert_eq!(a.begin_commit(&id, &token, manifest).unwrap(), Answer::Ok);
    assert_eq!(
        a.replay_commits(&corpus, 0),
        (0, Ok(())),
        "its coordinator lives"
    );
    *ground.clock.lock().unwrap() += 1e4;
    let other = bytes(&ground.root.path().join("other"));
    assert_eq!(a.replay_commits(&other, 0), (0, Ok(())), "another corpus");
    assert_eq!(a.replay_commits(&corpus, 0), (1, Ok(())));
}

/// A result that is gone is LOST, and does not keep its record from `done`.
#[test]
fn a_lost_result_is_counted() {
    let ground = Ground::new();
    let sys = Faulty::new();
    let a = campaign(ground.root.path(), "a", &ground.clock, sys.clone());
    let id = sha256_hex(b"lost");
    let token = claim(&a, &id);
    let offer = ground.offer("gone", None);
    let corpus = bytes(&ground.corpus());
    let manifest = format!(
        "{{\"corpus\":\"corpus\",\"results\":[{{\"corpus\":\"corpus\",\"keep\":false,\"map\":\"\",\
         \"name\":\"n\",\"sha256\":\"{}\",\"size\":4,\"staged\":\"staged/gone\"}}],\
         \"schema\":\"symlease-commit-v1\"}}",
        sha256_hex(b"gone")
    );
    assert_eq!(a.begin_commit(&id, &token, &manifest).unwrap(), Answer::Ok);
    std::fs::remove_file(ground.root.path().join("staged/gone")).unwrap();
    let (answer, outcomes) = a.commit(&id, &token, &corpus, &[offer]).unwrap();
    assert_eq!((answer, outcomes[0].fate), (Answer::Ok, Some(Fate::Lost)));
}

/// The owner is stopped at a call, its TTL passes, a replayer takes its commit
/// up and dies at one of its calls, and the owner goes on.
fn overtaken(stop: u64, death: u64) -> (u64, u64) {
    let ground = Ground::below(fast_root());
    let (sys, other) = (Faulty::new(), Faulty::new());
    let a = campaign(ground.root.path(), "a", &ground.clock, sys.clone());
    // The owner may be stopped while it holds a lock.
    let b = impatient(ground.root.path(), "b", &ground.clock, other.clone());
    let corpus = bytes(&ground.corpus());
    let id = sha256_hex(b"work");
    let token = claim(&a, &id);
    let offers = [
        ground.offer("new", Some(&[(1, 1), (2, 2)])),
        ground.offer("also", Some(&[(3, 1)])),
    ];
    let clock = Arc::clone(&ground.clock);
    let (into, dying) = (corpus.clone(), other.clone());
    let replay = move || {
        *clock.lock().unwrap() += 1e4;
        dying.die(death);
        let _ = b.replay_commits(&into, 0);
    };
    sys.arm(0, 0);
    *sys.meanwhile.lock().unwrap() = Some((stop, Box::new(replay)));
    let _ = a.commit(&id, &token, &corpus, &offers);
    let c = ground.open("c");
    *ground.clock.lock().unwrap() += 1e4;
    let (_, outcome) = c.replay_commits(&corpus, 0);
    outcome.unwrap_or_else(|error| panic!("stop {stop}, death {death}: {error}"));
    let record = c.record(Table::Work, &id).unwrap().unwrap();
    if record.contains("\"done\"") {
        assert_eq!(
            ground.published(),
            ["also", "new"],
            "stop {stop}, death {death}"
        );
        assert_eq!(bits(&c), BTreeMap::from([(1, 1), (2, 2), (3, 1)]));
    }
    (
        sys.calls.load(Ordering::SeqCst),
        other.calls.load(Ordering::SeqCst),
    )
}

#[test]
fn a_replayer_that_dies_takes_no_credit_with_it() {
    let (calls, _) = overtaken(u64::MAX, u64::MAX);
    let mut longest = 0;
    for stop in 1..=calls {
        let (_, replay) = overtaken(stop, u64::MAX);
        longest = longest.max(replay);
    }
    assert!(longest > 60, "{longest}");
    for stop in 1..=calls {
        // Every stop meets deaths all along a replay.
        for part in 0..4 {
            overtaken(stop, 1 + (longest * part / 4 + stop) % longest);
        }
    }
}
