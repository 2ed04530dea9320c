//! The lease record: accepted exactly where `format.md` says valid; every field
//! survives, digit by digit (F19, F20, F21).

use symlease::record::json::{parse, Numbers};
use symlease::record::lease::{Lease, Status};

use crate::oracle::{ask, Opinion};

/// The id that inputs are read for; `oracle.py` has the same.
pub const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// One file.
pub fn check(data: &[u8]) {
    let lease = Lease::parse(ID, data);
    match (&lease, ask(b'l', data)) {
        (_, Opinion::None) | (Ok(_), Opinion::Accepted(_)) | (Err(_), Opinion::Refused) => {}
        (ours, python) => panic!("Python: {python:?}; here: {ours:?}"),
    }
    let Ok(lease) = lease else { return };
    let source = parse(data).expect("a record is JSON");
    let mut text = source
        .canonical(Numbers::AsWritten)
        .expect("digits are kept");
    text.push('\n');
    let bytes = lease.to_bytes();
    assert_eq!(String::from_utf8_lossy(&bytes), text);
    assert_eq!(Lease::parse(ID, &bytes).as_ref(), Ok(&lease));
    limits(&lease);
    fields_stay(&lease, &source);
}

fn limits(lease: &Lease) {
    assert!(lease.updated().is_finite() && lease.updated() >= 0.0);
    assert!(lease.ttl().is_none_or(|ttl| ttl > 0.0 && ttl <= 86_400.0));
    assert!(lease
        .completed()
        .is_none_or(|time| time.is_finite() && time >= 0.0));
    assert!(lease
        .token()
        .is_none_or(|token| !token.is_empty() && !token.contains('\0')));
    assert!(lease.payload().starts_with('{'));
    // Whatever a peer wrote there, these are read without a panic.
    let _ = (
        lease.targets(),
        lease.target(),
        lease.session(),
        lease.worker(),
    );
    let _ = (
        lease.attempts(),
        lease.steals(),
        lease.version(),
        lease.owner(),
    );
}

/// A heartbeat's and a completion's writes leave every other field as it was.
fn fields_stay(lease: &Lease, source: &symlease::record::json::Doc) {
    let mut next = lease.clone();
    next.set_float("updated", 1.5);
    next.set_text("status", Status::Done.as_str());
    let after = Lease::parse(ID, &next.to_bytes()).expect("still a record");
    assert_eq!(after.status(), Status::Done);
    let after = parse(&after.to_bytes()).expect("JSON").members();
    let after = after.expect("an object");
    let before = source.members().expect("an object");
    let kept = |key: &[u8]| key != b"updated" && key != b"status";
    assert_eq!(after.len(), before.len());
    for (old, new) in before.iter().zip(&after) {
        assert_eq!(old.0, new.0);
        assert!(!kept(&old.0) || old.1 == new.1, "{old:?} became {new:?}");
    }
}
