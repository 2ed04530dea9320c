//! Bytes <-> records: formats, limits, validity. Pure: no file, clock,
//! environment or thread is known here.

pub mod counters;
pub mod id;
pub mod identity;
pub mod intent;
pub mod json;
pub mod lease;
pub mod manifest;
pub mod map;
pub mod number;
pub mod path;
pub mod reader;
pub mod session;
pub mod shard;
pub mod transaction;
