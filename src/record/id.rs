//! Ids and folders (`format.md`, "Leases").

use sha2::{Digest, Sha256};

use super::json::{parse, Numbers};

/// Bytes as lower-case hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 in lower-case hex digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The record id of a branch target: the same whatever job wants it.
pub fn target_id(target: u64) -> String {
    sha256_hex(format!("target:{target}").as_bytes())
}

/// The work id of a payload: SHA-256 of its canonical JSON as Python prints it.
pub fn work_id(payload: &[u8]) -> Result<String, String> {
    Ok(sha256_hex(
        parse(payload)?.canonical(Numbers::Python)?.as_bytes(),
    ))
}

/// Whether `text` is 64 lower-case hex digits.
pub fn is_id(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The shard of an id: its first 8 hex digits modulo `count`.
pub fn shard_of(id: &str, count: u32) -> u32 {
    let head = id
        .get(..8)
        .and_then(|head| u32::from_str_radix(head, 16).ok())
        .unwrap_or(0);
    head % count.max(1)
}

/// A lease shard's folder: three digits at least.
pub fn folder(shard: u32) -> String {
    format!("{shard:03}")
}
