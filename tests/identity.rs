//! M1, M3, M4: what belongs to the campaign is fixed at its first change.

mod common;

use std::path::Path;
use std::sync::{Arc, Mutex};

use common::{campaign, coverage, files, options, Faulty};
use symlease::campaign::ClaimOptions;
use symlease::engine::files::{Files, Named};
use symlease::engine::{Change, Engine, Table};
use symlease::error::{Kind, Result};
use symlease::record::id::sha256_hex;
use symlease::record::identity::Identity;
use symlease::sys::Linux;

fn open(root: &Path, named: Named) -> Result<Files> {
    let options = symlease::engine::files::Options {
        named,
        ..options(root)
    };
    Files::open(Arc::new(Linux::new()), options)
}

fn put(engine: &Files, id: &str) -> Result<()> {
    engine.transact(Table::Work, &[id.to_string()], &mut |_| {
        Ok(vec![Change::Put(b"x".to_vec())])
    })
}

#[test]
fn a_campaign_is_fixed_at_its_first_change() {
    let root = tempfile::tempdir().unwrap();
    let id = sha256_hex(b"a");
    let named = Named {
        shards: Some(7),
        file_mode: Some(0o660),
        durable: Some(false),
    };
    let first = open(root.path(), named).unwrap();
    let late = open(root.path(), Named::default()).unwrap();
    assert_eq!(first.read(Table::Work, &id).unwrap(), None);
    assert_eq!(
        std::fs::read_dir(root.path()).unwrap().count(),
        0,
        "M4: open makes nothing"
    );
    put(&first, &id).unwrap();
    let path = root.path().join(".work_lease_table/symlease.json");
    let bytes = std::fs::read(&path).unwrap();
    let identity = Identity::parse(&bytes).unwrap();
    assert_eq!(
        (identity.shards, identity.mode, identity.durable),
        (7, 0o660, false)
    );
    assert_eq!(identity.to_bytes(), bytes);
    assert!(
        !root.path().join(".target_lease_table").exists(),
        "M3: each root by itself"
    );
    // What is not named is taken; what is named must agree.
    let second = open(root.path(), Named::default()).unwrap();
    assert_eq!(second.read(Table::Work, &id).unwrap().unwrap(), b"x");
    for wrong in [
        Named {
            shards: Some(8),
            ..Named::default()
        },
        Named {
            file_mode: Some(0o600),
            ..Named::default()
        },
        Named {
            durable: Some(true),
            ..Named::default()
        },
    ] {
        let error = open(root.path(), wrong).err().expect("a mismatch");
        assert_eq!(error.kind, Kind::Mismatch);
        assert!(error.text.contains(&*path.to_string_lossy()), "{error}");
    }
    // Opened before it was made, with other defaults: no change under a wrong count.
    assert_eq!(put(&late, &id).unwrap_err().kind, Kind::Mismatch);
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "it never changes");
}

#[test]
fn many_that_start_together_agree() {
    let root = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for shards in [3u32, 3, 3, 5, 5, 5, 3, 5] {
            let root = root.path();
            scope.spawn(move || {
                let named = Named {
                    shards: Some(shards),
                    ..Named::default()
                };
                match open(root, named).and_then(|engine| put(&engine, &sha256_hex(b"x"))) {
                    Ok(()) => {}
                    Err(error) => assert_eq!(error.kind, Kind::Mismatch, "{error}"),
                }
            });
        }
    });
    let place = root.path().join(".work_lease_table");
    let names = std::fs::read_dir(&place)
        .unwrap()
        .map(|e| e.unwrap().file_name());
    assert_eq!(
        names.count(),
        2,
        "one identity, one folder, no temporary (H4)"
    );
    assert_eq!(files(root.path()).len(), 1);
}

/// A directory that peers filled with another shard count is not adopted.
#[test]
fn records_in_foreign_folders_are_a_mismatch() {
    let root = tempfile::tempdir().unwrap();
    let id = sha256_hex(b"peer");
    let folder = |shards: u32| format!("{:03}", symlease::record::id::shard_of(&id, shards));
    let table = root.path().join(".work_lease_table");
    std::fs::create_dir_all(table.join(folder(4096))).unwrap();
    std::fs::write(table.join(folder(4096)).join(format!("{id}.json")), b"{}").unwrap();
    let before = files(root.path());
    for shards in [16, 256] {
        let engine = open(
            root.path(),
            Named {
                shards: Some(shards),
                ..Named::default()
            },
        )
        .unwrap();
        assert_eq!(put(&engine, &id).unwrap_err().kind, Kind::Mismatch);
    }
    assert_eq!(files(root.path()), before);
    assert!(!table.join("symlease.json").exists());
    put(
        &open(
            root.path(),
            Named {
                shards: Some(4096),
                ..Named::default()
            },
        )
        .unwrap(),
        &id,
    )
    .unwrap();
}

/// Damaged is CORRUPT, never made anew; a later schema is read and not changed.
#[test]
fn damaged_and_newer_identities() {
    let root = tempfile::tempdir().unwrap();
    let id = sha256_hex(b"a");
    put(&open(root.path(), Named::default()).unwrap(), &id).unwrap();
    let path = root.path().join(".work_lease_table/symlease.json");
    let whole = std::fs::read_to_string(&path).unwrap();
    for cut in 0..whole.len() - 1 {
        std::fs::write(&path, &whole[..cut]).unwrap();
        assert_eq!(
            open(root.path(), Named::default()).err().unwrap().kind,
            Kind::Corrupt
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), whole[..cut]);
    }
    std::fs::write(&path, whole.replace("\"files\"", "\"log\"")).unwrap();
    assert_eq!(
        open(root.path(), Named::default()).err().unwrap().kind,
        Kind::Mismatch
    );
    std::fs::write(
        &path,
        whole.replace("\"schema\":1", "\"new\":[],\"schema\":2"),
    )
    .unwrap();
    let newer = open(root.path(), Named::default()).unwrap();
    assert_eq!(newer.read(Table::Work, &id).unwrap().unwrap(), b"x");
    assert_eq!(put(&newer, &id).unwrap_err().kind, Kind::Unsupported);
}

/// F30: over records that were removed for good the root's floor carries the
/// fence, whatever the clock says.
#[test]
fn the_fence_floor_carries_over_removed_records() {
    use symlease::campaign::work::Claimed;
    let root = tempfile::tempdir().unwrap();
    let clock = Arc::new(std::sync::Mutex::new(1.0));
    let open = || common::campaign(root.path(), "a", &clock, Arc::new(Linux::new()));
    let claim = |name: &[u8]| {
        let default = symlease::campaign::ClaimOptions::default();
        match open().claim(&sha256_hex(name), None, &default) {
            Ok(Claimed::Lease(held)) => Ok(held.fence),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.kind),
        }
    };
    assert_eq!(claim(b"one"), Ok(1_000_000_000));
    let floor = root.path().join(".work_lease_table/fence.json");
    std::fs::write(&floor, b"{\"floor\":5000000000,\"schema\":1}\n").unwrap();
    assert_eq!(claim(b"two"), Ok(5_000_000_001));
    std::fs::write(&floor, b"{\"floor\":18446744073709551614,\"schema\":1}\n").unwrap();
    assert_eq!(claim(b"three"), Err(Kind::Limit), "2^64-1 is never issued");
    for bad in [
        "",
        "{}",
        "{\"floor\":-1,\"schema\":1}",
        "{\"floor\":1,\"schema\":2}",
    ] {
        std::fs::write(&floor, bad).unwrap();
        assert_eq!(claim(b"four"), Err(Kind::Corrupt), "{bad}");
    }
}

/// M1: a root that somebody removed under an open handle gets its identity
/// again before any record.
#[test]
fn a_removed_root_is_made_whole_again() {
    let place = tempfile::tempdir().unwrap();
    let clock = Arc::new(Mutex::new(1_000_000.0));
    let a = campaign(place.path(), "a", &clock, Faulty::new());
    let claim = |number: u32| {
        let id = symlease::record::id::sha256_hex(&number.to_be_bytes());
        a.claim(&id, None, &ClaimOptions::default()).unwrap()
    };
    claim(1);
    let root = place.path().join(".work_lease_table");
    std::fs::remove_dir_all(&root).unwrap();
    claim(1);
    assert!(root.join("symlease.json").exists());
}

/// H4: what a death leaves while it makes a file that never changes goes with
/// the next sweep; found by a power cut.
#[test]
fn private_names_of_identities_are_swept() {
    let root = tempfile::tempdir().unwrap();
    let sys: Arc<dyn symlease::sys::Sys> = Arc::new(Linux::new());
    let engine = open(root.path(), Named::default())
        .and_then(|files| files.with_coverage(sys, coverage(root.path())))
        .unwrap();
    let tables = [
        ".work_lease_table",
        ".target_lease_table",
        ".coverage_owner",
    ];
    let mut left = Vec::new();
    for table in tables {
        let table = root.path().join(table);
        std::fs::create_dir(&table).unwrap();
        left.push(table.join("symlease.json.77.0123456789abcdef.tmp"));
    }
    left.push(
        root.path()
            .join(".coverage_owner/map.json.77.0123456789abcdef.tmp"),
    );
    left.iter()
        .for_each(|path| std::fs::write(path, b"half").unwrap());

    for path in &left {
        let name = path.to_str().unwrap().split(".json.").next().unwrap();
        std::fs::write(format!("{name}.json.tmp"), b"not ours").unwrap();
    }
    assert_eq!(engine.sweep().unwrap(), 4);
    assert!(!left.iter().any(|path| path.exists()));
    assert!(root.path().join(".coverage_owner/map.json.tmp").exists());
}

/// H4: a living writer whose private name is swept writes it again, or has lost
/// the race, no more.
#[test]
fn a_sweep_before_the_link_is_a_lost_race() {
    let root = tempfile::tempdir().unwrap();
    let (id, place) = (sha256_hex(b"a"), root.path().to_path_buf());
    let sys = Faulty::new();
    let slow = Files::open(sys.clone(), options(root.path())).unwrap();
    let other = id.clone();
    *sys.before_link.lock().unwrap() = Some(Box::new(move || {
        let quick = open(
            &place,
            Named {
                shards: Some(16),
                ..Named::default()
            },
        )
        .unwrap();
        put(&quick, &other).unwrap();
        assert_eq!(
            quick.sweep().unwrap(),
            1,
            "the private name of the slow one"
        );
    }));
    put(&slow, &id).unwrap();
    assert!(
        sys.before_link.lock().unwrap().is_none(),
        "the race was run"
    );
}
