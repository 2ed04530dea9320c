//! The manifest of a commit, and paths in it as Python's surrogateescape has them.

use symlease::record::id::is_id;
use symlease::record::json::{parse, Numbers};
use symlease::record::manifest::{Entry, Manifest, RESULTS_MAX};
use symlease::record::path::{from_text, is_component, to_text};

use crate::oracle::{ask, Opinion};

/// A manifest's text; bytes that are no text make paths for one.
pub fn check(data: &[u8]) {
    made_of(data);
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(Some(manifest)) = Manifest::parse(text) else {
        return;
    };
    assert!(manifest.results.len() <= RESULTS_MAX);
    for entry in &manifest.results {
        assert!(is_component(&entry.name) && !entry.staged.is_empty());
        assert!(is_id(&entry.sha256) && (entry.map.is_empty() || is_id(&entry.map)));
    }
    round(&manifest);
}

fn round(manifest: &Manifest) {
    let text = manifest.to_text();
    let canonical = parse(text.as_bytes())
        .expect("JSON")
        .canonical(Numbers::AsWritten);
    assert_eq!(canonical.as_ref(), Ok(&text));
    assert_eq!(Manifest::parse(&text).as_ref(), Ok(&Some(manifest.clone())));
}

/// Any path comes back as it was, and stands in the text as Python writes it.
fn made_of(data: &[u8]) {
    assert_eq!(from_text(&to_text(data)), data);
    let (corpus, rest) = data.split_at(data.len() / 3);
    let (staged, name) = rest.split_at(rest.len() / 2);
    if !is_component(name) || staged.is_empty() {
        return;
    }
    let manifest = Manifest {
        corpus: corpus.to_vec(),
        results: vec![Entry {
            corpus: corpus.to_vec(),
            keep: data.len() % 2 == 0,
            map: String::new(),
            name: name.to_vec(),
            sha256: crate::lease::ID.to_string(),
            size: data.len() as u64,
            staged: staged.to_vec(),
        }],
    };
    round(&manifest);
    let Opinion::Accepted(python) = ask(b'p', staged) else {
        panic!("surrogateescape takes any bytes");
    };
    assert!(manifest
        .to_text()
        .contains(&format!("\"staged\":{python}}}")));
}
