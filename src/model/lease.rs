//! Lease decisions.
