//! D1-D5 where processes are not enough: what proves a death, and what does
//! not; sweeps; and what observation judges.
mod common;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use common::{campaign, observing, with_session, Clock, Faulty};
use symlease::campaign::group::Members;
use symlease::campaign::work::Claimed;
use symlease::campaign::{Answer, Campaign, ClaimOptions, Held};
use symlease::engine::Table;
use symlease::record::id::sha256_hex;
use symlease::record::session::{name, parse_name, Header};
use tempfile::TempDir;

const START: f64 = 1_000_000.0;
/// A session's last test counts for 10 ms (D5).
const TEST_EVERY: u64 = 10_000_000;

struct Ground {
    place: TempDir,
    clock: Clock,
    sys: Arc<Faulty>,
}

impl Ground {
    fn new() -> Ground {
        let sys = Faulty::new();
        sys.frozen.store(true, Ordering::SeqCst);
        Ground {
            place: tempfile::tempdir().unwrap(),
            clock: Arc::new(Mutex::new(START)),
            sys,
        }
    }

    fn root(&self) -> &Path {
        self.place.path()
    }

    fn own(&self, owner: &str) -> Campaign {
        with_session(self.root(), owner, &self.clock, self.sys.clone())
    }

    fn plain(&self, owner: &str) -> Campaign {
        campaign(self.root(), owner, &self.clock, self.sys.clone())
    }

    fn later(&self, nanoseconds: u64) {
        self.sys.ahead.fetch_add(nanoseconds, Ordering::SeqCst);
    }

    fn sessions(&self) -> Vec<PathBuf> {
        let place = self.root().join(".work_lease_table/.sessions");
        let Ok(entries) = std::fs::read_dir(place) else {
            return Vec::new();
        };
        let all = entries.map(|entry| entry.unwrap().path());
        // Without the counters beside them (`tests/published.rs`).
        all.filter(|path| path.extension().is_none_or(|ending| ending != "stats"))
            .collect()
    }
}

fn id(number: u32) -> String {
    sha256_hex(number.to_string().as_bytes())
}

fn claim(campaign: &Campaign, number: u32) -> Claimed {
    let id = id(number);
    campaign.claim(&id, None, &ClaimOptions::default()).unwrap()
}

fn taken(campaign: &Campaign, number: u32) -> Held {
    match claim(campaign, number) {
        Claimed::Lease(held) => held,
        refused => panic!("{refused:?}"),
    }
}

fn is_held(campaign: &Campaign, number: u32) -> bool {
    matches!(
        claim(campaign, number),
        Claimed::Refused(Answer::Held, holder) if holder.remaining > 0.0
    )
}

fn text(campaign: &Campaign, number: u32) -> String {
    let record = campaign.record(Table::Work, &id(number)).unwrap();
    record.unwrap()
}

#[test]
fn a_closed_campaigns_leases_are_free_at_once() {
    let ground = Ground::new();
    let (a, b) = (ground.own("a"), ground.own("b"));
    let held = taken(&a, 1);
    assert!(is_held(&b, 1));
    drop(a);
    // D5: the last test still counts, and then no more.
    assert!(is_held(&b, 1));
    ground.later(TEST_EVERY);
    let next = taken(&b, 1);
    assert!(next.fence > held.fence && next.steals == 1);
}

/// D4: whoever was thought dead and is not learns it at its next call.
#[test]
fn the_fence_decides_over_a_wrong_guess() {
    let ground = Ground::new();
    let (a, b) = (ground.own("a"), ground.own("b"));
    let held = taken(&a, 1);
    let file = ground.sessions().pop().unwrap();
    // Somebody copies the file over itself: another inode, whose lock is free.
    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, &bytes).unwrap();
    // Its header does not describe it: nothing is proven (D2).
    assert!(is_held(&b, 1));
    let options = ClaimOptions {
        takeover: true,
        ..ClaimOptions::default()
    };
    assert!(matches!(
        b.claim(&id(1), None, &options).unwrap(),
        Claimed::Lease(_)
    ));
    assert_eq!(a.heartbeat(&id(1), &held.token).unwrap().0, Answer::Stale);
    assert_eq!(
        a.begin_commit(&id(1), &held.token, "{}").unwrap(),
        Answer::Stale
    );
}

/// D2: what another boot's session proves depends on whose device it lies on.
#[test]
fn another_boot_counts_only_on_this_machines_devices() {
    for (own, free) in [(true, true), (false, false)] {
        let ground = Ground::new();
        *ground.sys.boot.lock().unwrap() = Some("boot-1".to_string());
        let a = ground.own("a");
        taken(&a, 1);
        *ground.sys.boot.lock().unwrap() = Some("boot-2".to_string());
        *ground.sys.own_device.lock().unwrap() = Some(own);
        let b = ground.own("b");
        // Its lock is held: alive, wherever it runs.
        assert!(is_held(&b, 1));
        drop(a);
        ground.later(TEST_EVERY);
        assert_eq!(!is_held(&b, 1), free, "own device: {own}");
    }
}

/// D2, D5: a missing, damaged or strange session proves nothing; the TTL decides.
#[test]
fn what_proves_nothing_leaves_the_ttl() {
    type Damage = fn(&Path);
    let damages: [Damage; 5] = [
        |file| std::fs::remove_file(file).unwrap(),
        |file| std::fs::write(file, b"").unwrap(),
        |file| std::fs::write(file, b"{\"boot\":\"x\"}\n").unwrap(),
        |file| {
            std::fs::remove_file(file).unwrap();
            std::os::unix::fs::symlink("/dev/null", file).unwrap();
        },
        |file| {
            std::fs::remove_file(file).unwrap();
            std::fs::create_dir(file).unwrap();
        },
    ];
    for damage in damages {
        let ground = Ground::new();
        let (a, b) = (ground.own("a"), ground.own("b"));
        taken(&a, 1);
        drop(a);
        damage(&ground.sessions().pop().unwrap());
        assert!(is_held(&b, 1));
        *ground.clock.lock().unwrap() += 10.0;
        taken(&b, 1);
    }
}

/// A record may name anything: paths do not leave the folder of sessions.
#[test]
fn names_are_checked_before_they_are_paths() {
    let good = name("ho st.x", "0f-1", 7, 9, &[1, 2]);
    assert_eq!(good, "ho-st-x.0f-1.7.9.0102");
    assert_eq!(parse_name(&good).unwrap().process, 7);
    let long = "a".repeat(300);
    for bad in [
        "",
        ".",
        "..",
        "../../etc/passwd",
        "a.b.c.d",
        "a.b.1.2.3.4",
        "a.b.x.2.3",
        "a..1.2.3",
        "a/b.c.1.2.3",
        "a.b.1.2.3\0",
        &format!("{long}.b.1.2.3"),
    ] {
        assert_eq!(parse_name(bad), None, "{bad}");
    }
    let ground = Ground::new();
    let a = ground.plain("a");
    taken(&a, 1);
    let place = ground.root().join(".work_lease_table");
    for bad in ["../symlease.json", "a.b.1.2.3"] {
        use symlease::model::lease::Presence;
        assert_eq!(
            a.engine().presence(Table::Work, bad),
            Presence::Unknown,
            "{bad}"
        );
    }
    assert!(!place.join(".sessions").exists());
}

#[test]
fn headers_read_back_and_damaged_ones_do_not() {
    let header = Header {
        host: "h\"é".to_string(),
        boot: "b".to_string(),
        device: u64::MAX,
        inode: 1,
        owner: "o\\\n".to_string(),
    };
    let bytes = header.to_bytes();
    assert_eq!(Header::parse(&bytes).unwrap(), header);
    assert!(bytes.ends_with(b"}\n") && bytes.iter().filter(|b| **b == b'\n').count() == 1);
    for cut in 0..bytes.len() - 1 {
        assert!(Header::parse(&bytes[..cut]).is_err(), "{cut}");
    }
}

/// D5: each session is tested at most once in 10 ms, however many leases name it.
#[test]
fn sessions_are_tested_rarely() {
    let ground = Ground::new();
    let (a, b) = (ground.own("a"), ground.own("b"));
    for number in 0..20 {
        taken(&a, number);
    }
    ground.sys.shared_locks.store(0, Ordering::SeqCst);
    for number in 0..20 {
        assert!(is_held(&b, number));
    }
    b.counts(Table::Work).unwrap();
    let tests = ground.sys.shared_locks.load(Ordering::SeqCst);
    assert_eq!(tests, 1);
    ground.later(TEST_EVERY);
    assert!(is_held(&b, 1));
    assert!(ground.sys.shared_locks.load(Ordering::SeqCst) > tests);
}

/// M4: nothing is made before the first change, nor by reading.
#[test]
fn a_session_is_made_at_the_first_change() {
    let ground = Ground::new();
    let a = ground.own("a");
    a.counts(Table::Work).unwrap();
    a.verify(&id(1), "x").unwrap();
    assert!(ground.sessions().is_empty());
    taken(&a, 1);
    taken(&a, 2);
    let made = ground.sessions();
    assert_eq!(made.len(), 1);
    let name = made[0].file_name().unwrap().to_str().unwrap().to_string();
    assert!(text(&a, 1).contains(&format!("\"session\":\"{name}\"")));
    let header = Header::parse(&std::fs::read(&made[0]).unwrap()).unwrap();
    assert_eq!(header.owner, "a");
}

/// The session follows who claims, heartbeats or begins to commit.
#[test]
fn a_lease_names_whoever_renewed_it() {
    let ground = Ground::new();
    let (a, b, none) = (ground.own("a"), ground.own("b"), ground.plain("none"));
    let held = taken(&a, 1);
    let names = |campaign: &Campaign| {
        let text = text(campaign, 1);
        let at = text.find("\"session\":\"")?;
        let rest = &text[at + 11..];
        Some(rest[..rest.find('"').unwrap()].to_string())
    };
    let first = names(&a).unwrap();
    b.heartbeat(&id(1), &held.token).unwrap();
    let second = names(&a).unwrap();
    assert_ne!(first, second);
    none.heartbeat(&id(1), &held.token).unwrap();
    assert_eq!(names(&a), None);
    let many = vec![(id(1), held.token.clone())];
    a.heartbeat_many(&many).unwrap();
    assert_eq!(names(&a), Some(first));
    b.begin_commit(&id(1), &held.token, "{}").unwrap();
    assert_eq!(names(&a), Some(second));
    b.complete(&id(1), &held.token).unwrap();
    assert_eq!(names(&a), None);
}

/// The records' sessions stay, the others' files go; the living ones' never.
#[test]
fn sweeps_remove_dead_sessions_that_no_record_names() {
    let ground = Ground::new();
    let (a, b, c) = (ground.own("a"), ground.own("b"), ground.own("c"));
    taken(&a, 1);
    taken(&b, 2);
    let abandoned = taken(&c, 3);
    c.abandon(&id(3), &abandoned.token).unwrap();
    drop((a, c));
    // A file that its maker left before it had a name.
    let private = ground.sessions()[0].with_file_name(name("h", "b", 1, 2, &[3]) + ".tmp");
    std::fs::write(&private, b"").unwrap();
    ground.later(TEST_EVERY);
    b.engine().sweep().unwrap();
    assert!(!private.exists());
    assert_eq!(ground.sessions().len(), 2);
    taken(&b, 1);
    b.engine().sweep().unwrap();
    assert_eq!(ground.sessions().len(), 1);
    assert!(b.heartbeat(&id(9), "x").is_ok());
    assert_eq!(ground.sessions().len(), 1);
}

/// H4: a handle with a session sweeps a folder at its first change there, and
/// only what nobody holds.
#[test]
fn the_first_change_sweeps_its_folder() {
    let ground = Ground::new();
    taken(&ground.plain("a"), 1);
    let find = || {
        let table = ground.root().join(".work_lease_table");
        let entries = std::fs::read_dir(table).unwrap().flatten();
        let mut folders = entries.filter(|e| e.file_name().to_string_lossy().len() == 3);
        folders.next().unwrap().path()
    };
    let left = find().join(format!("{}.json.77.abc.tmp", id(1)));
    std::fs::write(&left, b"half").unwrap();
    let plain = ground.plain("plain");
    assert!(is_held(&plain, 1));
    assert!(left.exists());
    let own = ground.own("own");
    assert!(is_held(&own, 1));
    assert!(!left.exists());
    // Once: later ones are the regular sweep's.
    std::fs::write(&left, b"half").unwrap();
    assert!(is_held(&own, 1));
    assert!(left.exists());
}

/// Under observation a record is past its TTL when it was seen unchanged for a
/// whole TTL, whatever the clocks say.
#[test]
fn observation_needs_no_clock() {
    let second = 1_000_000_000;
    let ground = Ground::new();
    let a = ground.plain("a");
    let held = taken(&a, 1);
    let watcher = observing(ground.root(), "w", &ground.clock, ground.sys.clone());
    // A clock that is a year ahead ends nothing.
    *ground.clock.lock().unwrap() += 3e7;
    assert!(is_held(&watcher, 1));
    ground.later(9 * second);
    assert!(is_held(&watcher, 1));
    a.heartbeat(&id(1), &held.token).unwrap();
    ground.later(9 * second);
    // It changed in between: a whole TTL from the next look on.
    assert!(is_held(&watcher, 1));
    ground.later(9 * second);
    assert!(is_held(&watcher, 1));
    assert_eq!(watcher.expired(None).unwrap().len(), 0);
    ground.later(second);
    assert_eq!(watcher.expired(None).unwrap().len(), 1);
    taken(&watcher, 1);
    // A handle that looks for the first time has seen nothing yet.
    let fresh = observing(ground.root(), "f", &ground.clock, ground.sys.clone());
    assert!(is_held(&fresh, 1));
}

/// F28: a record from the future is not immortal, under either expiry; groups
/// and commits of such holders neither.
#[test]
fn records_from_the_future_are_judged_by_observation() {
    let second = 1_000_000_000;
    for observed in [false, true] {
        let ground = Ground::new();
        let a = ground.plain("a");
        *ground.clock.lock().unwrap() = START + 1e9;
        let committing = taken(&a, 2);
        taken(&a, 1);
        a.begin_commit(&id(2), &committing.token, "{}").unwrap();
        let group = Members::new(&[5, 6]).unwrap();
        a.group_claim(&group, None, &ClaimOptions::default())
            .unwrap();
        *ground.clock.lock().unwrap() = START;
        let open = if observed { observing } else { campaign };
        let b = open(ground.root(), "b", &ground.clock, ground.sys.clone());
        assert!(is_held(&b, 1));
        let grouped = || {
            b.group_claim(&group, None, &ClaimOptions::default())
                .unwrap()
        };
        assert!(matches!(grouped(), Claimed::Refused(Answer::Held, _)));
        assert_eq!(b.counts(Table::Work).unwrap().expired, 0);
        ground.later(10 * second);
        assert_eq!(b.counts(Table::Work).unwrap().expired, 1);
        let next = taken(&b, 1);
        assert!(matches!(grouped(), Claimed::Lease(_)));
        // The fence does not fall with the clock (F30).
        assert!(next.fence > committing.fence);
    }
}
