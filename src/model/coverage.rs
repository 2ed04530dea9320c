//! Coverage decisions.
