//! Every variable of `format.md`, "Environment": default, both bounds, nonsense.

use symlease::environment::Environment;

fn read(set: &[(&str, &str)]) -> Environment {
    let find = |name: &str| {
        let found = set.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| value.as_bytes().to_vec())
    };
    Environment::read(&find)
}

type Get = fn(&Environment) -> f64;

/// Variable, what it sets, default, low, high.
const NUMBERS: [(&str, Get, f64, f64, f64); 12] = [
    (
        "SYMCC_MULTI_MASTER_LEASE_SHARDS",
        |e| e.lease_shards.map_or(256.0, f64::from),
        256.0,
        1.0,
        4096.0,
    ),
    (
        "SYMCC_COVERAGE_OWNER_SHARDS",
        |e| e.coverage_shards.map_or(64.0, f64::from),
        64.0,
        1.0,
        4096.0,
    ),
    ("SYMCC_WORK_LEASE_TTL", |e| e.work_ttl, 300.0, 1.0, 86400.0),
    (
        "SYMCC_MULTI_MASTER_TARGET_LEASE_TTL",
        |e| e.target_ttl.unwrap_or(300.0),
        300.0,
        1.0,
        86400.0,
    ),
    (
        "SYMCC_MULTI_MASTER_LOCK_ACQUIRE_TIMEOUT",
        |e| e.lease_lock_timeout,
        60.0,
        0.001,
        3600.0,
    ),
    (
        "SYMCC_COVERAGE_OWNER_LOCK_ACQUIRE_TIMEOUT",
        |e| e.coverage_lock_timeout,
        60.0,
        0.001,
        3600.0,
    ),
    (
        "SYMCC_MULTI_MASTER_LOCK_TTL",
        |e| e.lock_ttl,
        30.0,
        1.0,
        3600.0,
    ),
    (
        "SYMCC_COVERAGE_OWNER_TTL",
        |e| e.coverage_ttl,
        30.0,
        3.0,
        3600.0,
    ),
    (
        "SYMCC_COORDINATOR_INDEX",
        |e| f64::from(e.coordinator_index),
        0.0,
        0.0,
        4095.0,
    ),
    (
        "SYMCC_COORDINATOR_COUNT",
        |e| f64::from(e.coordinator_count),
        1.0,
        1.0,
        4096.0,
    ),
    (
        "SYMCC_SHARED_STATE_FS_PROBE_TIMEOUT",
        |e| e.probe_timeout,
        5.0,
        0.001,
        60.0,
    ),
    (
        "SYMCC_SHARED_STATE_FS_PROBE",
        |e| f64::from(u8::from(e.probe)),
        1.0,
        0.0,
        1.0,
    ),
];

#[test]
fn numbers_are_clamped_and_nonsense_is_the_default() {
    for (variable, get, default, low, high) in NUMBERS {
        assert_eq!(get(&read(&[])), default, "{variable}");
        assert_eq!(
            get(&read(&[(variable, "")])),
            default,
            "{variable}: empty is not set"
        );
        for (text, wanted) in [
            (low, low),
            (high, high),
            (low - 1.0, low),
            (high + 1.0, high),
        ] {
            let environment = read(&[(variable, &text.to_string())]);
            assert_eq!(get(&environment), wanted, "{variable}={text}");
            assert_eq!(
                environment.corrected.is_empty(),
                text == wanted,
                "{variable}={text}"
            );
        }
        for text in ["NaN", "inf", "-inf", "1e999", "five", "0x10", "1,5", "--1"] {
            let environment = read(&[(variable, text)]);
            assert_eq!(get(&environment), default, "{variable}={text}");
            let correction = &environment.corrected[0];
            assert_eq!(
                (correction.variable.as_str(), correction.given.as_str()),
                (variable, text)
            );
        }
    }
}

#[test]
fn the_count_follows_the_index_and_the_target_ttl_the_work_ttl() {
    let environment = read(&[("SYMCC_COORDINATOR_INDEX", "7")]);
    assert_eq!(
        (environment.coordinator_index, environment.coordinator_count),
        (7, 8)
    );
    let both = [
        ("SYMCC_COORDINATOR_INDEX", "7"),
        ("SYMCC_COORDINATOR_COUNT", "3"),
    ];
    assert_eq!(read(&both).coordinator_count, 8);
    assert_eq!(read(&both).corrected.len(), 1);
    assert_eq!(read(&[("SYMCC_WORK_LEASE_TTL", "20")]).target_ttl, None);
    let nonsense = [
        ("SYMCC_WORK_LEASE_TTL", "20"),
        ("SYMCC_MULTI_MASTER_TARGET_LEASE_TTL", "x"),
    ];
    assert_eq!(read(&nonsense).target_ttl, Some(20.0));
    let half = read(&[("SYMCC_SHARED_STATE_FS_PROBE", "0.5")]);
    assert!(!half.probe && half.corrected.len() == 1);
}

#[test]
fn owners_and_directories() {
    assert_eq!(
        read(&[("SYMCC_MASTER_ID", "me")]).owner.as_deref(),
        Some("me")
    );
    let long = "x".repeat(256);
    assert_eq!(read(&[("SYMCC_MASTER_ID", &long)]).owner, None);
    let raw = |_: &str| Some(vec![b'/', 0xff]);
    let environment = Environment::read(&raw);
    assert_eq!(environment.owner, None);
    assert_eq!(
        environment.work_root,
        Some(vec![b'/', 0xff]),
        "F11: bytes, not UTF-8"
    );
}
