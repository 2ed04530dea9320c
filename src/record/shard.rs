//! Coverage shards.
