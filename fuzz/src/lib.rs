//! What must hold for any bytes, one function a target. No fuzzing engine is
//! known here: `engines/` drives these, and `tests/fuzz_corpus.rs` of the
//! library replays the corpus with them.

pub mod calls;
pub mod campaign;
pub mod json;
pub mod lease;
pub mod manifest;
pub mod model;
pub mod oracle;
pub mod shard;
pub mod small;
pub mod transaction;

/// A target by its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 7] = [
    ("json", json::check),
    ("lease", lease::check),
    ("shard", shard::check),
    ("transaction", transaction::check),
    ("manifest", manifest::check),
    ("small", small::check),
    ("calls", calls::check),
];
