//! Decisions: (record, event, now) -> what to do. Pure.

pub mod coverage;
pub mod lease;
