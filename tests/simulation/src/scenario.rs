//! Directed schedules: what random ones meet too seldom, or cannot make at all
//! (damaged files, lock files that somebody removes, a host that closes our
//! descriptors). Each answers the promises that it saw broken.

use crate::check::Violation;

/// One of them: its name, and what runs it.
pub type Scenario = (&'static str, fn() -> Vec<Violation>);

/// All of them.
pub const SCENARIOS: &[Scenario] = &[];
