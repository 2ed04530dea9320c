//! Lease records.
