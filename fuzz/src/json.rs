//! Canonical JSON is Python's `json.dumps(sort_keys=True, separators=(",", ":"))`
//! of what Python's `json.loads` read, and nothing is accepted that a strict
//! Python reader refuses (F19, F21).

use symlease::record::json::{parse, Numbers};

use crate::oracle::{ask, Opinion};

/// One document.
pub fn check(data: &[u8]) {
    let doc = parse(data);
    let python = ask(b'j', data);
    let Ok(doc) = doc else {
        assert!(
            !matches!(python, Opinion::Accepted(_)),
            "refused ({doc:?}), and Python reads {python:?}"
        );
        return;
    };
    let canonical = doc.canonical(Numbers::Python);
    match (&python, &canonical) {
        (Opinion::None, _) => {}
        (Opinion::Accepted(text), Ok(ours)) => assert_eq!(ours, text),
        // Only a float beyond 64 bits may be read and not printed.
        (Opinion::Refused, Err(why)) => assert!(why.contains("beyond the range"), "{why}"),
        _ => panic!("Python: {python:?}; here: {canonical:?}"),
    }
    // As written: the same document, and printing it again changes nothing.
    let written = doc.canonical(Numbers::AsWritten).expect("digits are kept");
    assert!(written.is_ascii());
    let again = parse(written.as_bytes()).expect("what was printed can be read");
    assert_eq!(again.canonical(Numbers::AsWritten).as_ref(), Ok(&written));
    assert_eq!(again.canonical(Numbers::Python), canonical);
}
