//! The only place that spells a file name (`format.md`).

use std::ffi::{CStr, CString};

use crate::error::{Error, Kind, Result};
use crate::record::id::{folder, hex, is_id, shard_of};

/// The longest path, in bytes.
const PATH_MAX: usize = 4095;

/// A root's identity.
pub const IDENTITY: &CStr = c"symlease.json";

/// A coverage root's shards.
pub const STATE: &[u8] = b"/state";

/// A coverage root's pending transactions.
pub const TRANSACTIONS: &[u8] = b"/claim-transactions";

/// A lease root's intents.
pub const INTENTS: &[u8] = b"/.intents";

/// A root's fence floor.
pub const FENCE: &CStr = c"fence.json";

/// The same without its ending.
pub const FENCE_ID: &str = "fence";

/// Any other file's private name before it gets its own.
pub fn temporary_of(name: &str, process: u32, random: &[u8]) -> String {
    format!("{name}.{process}.{}.tmp", hex(random))
}

/// What stands between a staged result's name and its copy's own ending: the
/// directory is the caller's, and has the caller's names in it.
const COPY: &str = ".symlease.";

/// A staged result's fresh copy before it takes its place.
pub fn copy_name(staged: &[u8], process: u32, random: &[u8]) -> Vec<u8> {
    let ending = format!("{COPY}{process}.{}.tmp", hex(random));
    [staged, ending.as_bytes()].concat()
}

/// Whether a name in a directory of staged results is such a copy's.
pub fn is_copy(name: &[u8]) -> bool {
    let text = String::from_utf8_lossy(name);
    let Some((_, ending)) = text.rsplit_once(COPY) else {
        return false;
    };
    own_temporary(format!("x.json.{ending}").as_bytes()).is_some()
}

/// The name without ending behind a temporary of ours: `<name>.json.<pid>.<16
/// hex digits>.tmp`.
pub fn own_temporary(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?.strip_suffix(".tmp")?;
    let (name, rest) = name.split_once(".json.")?;
    let (process, random) = rest.split_once('.')?;
    let number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    let hex = random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    (number && hex).then_some(name)
}

/// The number behind a folder's name.
pub fn folder_number(name: &[u8]) -> Option<u32> {
    let number = std::str::from_utf8(name).ok()?.parse().ok()?;
    (folder(number).as_bytes() == name).then_some(number)
}

/// A lease shard's directory below its root.
pub fn shard_path(root: &[u8], id: &str, shards: u32) -> Result<CString> {
    folder_path(root, shard_of(id, shards))
}

/// A lease root's folder by its number.
pub fn folder_path(root: &[u8], shard: u32) -> Result<CString> {
    let mut path = root.to_vec();
    path.push(b'/');
    path.extend(folder(shard).bytes());
    c_path(path)
}

/// `<id>.json`.
pub fn record_name(id: &str) -> String {
    format!("{id}.json")
}

/// `<id>.json.lock`: empty, stable, never read or written.
pub fn lock_name(id: &str) -> String {
    format!("{id}.json.lock")
}

/// The id behind `<id>.json.lock`.
pub fn locked_id(name: &[u8]) -> Option<&str> {
    let id = std::str::from_utf8(name).ok()?.strip_suffix(".json.lock")?;
    is_id(id).then_some(id)
}

/// `<id>.json.<pid>.<random>.tmp`.
pub fn temporary_name(id: &str, process: u32, random: &[u8]) -> String {
    format!("{id}.json.{process}.{}.tmp", hex(random))
}

/// The id behind `<id>.json`.
pub fn record_id(name: &[u8]) -> Option<&str> {
    let id = std::str::from_utf8(name).ok()?.strip_suffix(".json")?;
    is_id(id).then_some(id)
}

/// The id behind any temporary, a peer's included: `<id>.json.*.tmp`.
pub fn temporary_id(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?.strip_suffix(".tmp")?;
    let (id, rest) = name.split_once(".json.")?;
    (is_id(id) && !rest.is_empty()).then_some(id)
}

/// A coverage root's folder of shards.
pub fn state_path(root: &[u8]) -> Result<CString> {
    below(root, STATE)
}

/// A coverage root's folder of pending transactions.
pub fn transactions_path(root: &[u8]) -> Result<CString> {
    below(root, TRANSACTIONS)
}

/// A coverage root's folder of coordinators' heartbeats.
pub fn coordinators_path(root: &[u8]) -> Result<CString> {
    below(root, b"/coordinators")
}

/// A coordinator's heartbeat without its ending.
pub fn coordinator_name(index: u32) -> String {
    format!("{index:04}")
}

/// The map's size and identity, without its ending.
pub const MAP: &str = "map";

/// A lease root's folder of group changes under way.
pub fn intents_path(root: &[u8]) -> Result<CString> {
    below(root, INTENTS)
}

fn below(root: &[u8], name: &[u8]) -> Result<CString> {
    c_path([root, name].concat())
}

/// The transaction that older writers keep in the root itself, without its
/// ending.
pub const OLD_TRANSACTION: &str = ".coverage-claim-transaction";

/// A coverage shard: `<shard:04d>.json` without its ending.
pub fn shard_name(shard: u32) -> String {
    format!("{shard:04}")
}

/// A coverage shard's lock file.
pub fn shard_lock_name(shard: u32) -> String {
    format!("{shard:04}.json.lock")
}

/// The number behind `<number:04d>.json`: a shard's, or a coordinator's.
pub fn shard_number(name: &[u8]) -> Option<u32> {
    let number = std::str::from_utf8(name).ok()?.strip_suffix(".json")?;
    let shard = number.parse().ok()?;
    (shard_name(shard) == number).then_some(shard)
}

/// The shard behind a coverage temporary: `<shard:04d>.json.*.tmp`.
pub fn shard_temporary(name: &[u8]) -> Option<u32> {
    let name = std::str::from_utf8(name).ok()?.strip_suffix(".tmp")?;
    let (number, rest) = name.split_once(".json.")?;
    let shard = number.parse().ok()?;
    (shard_name(shard) == number && !rest.is_empty()).then_some(shard)
}

/// A root's folder of sessions.
pub fn sessions_path(root: &[u8]) -> Result<CString> {
    below(root, b"/.sessions")
}

/// A session before it has its name.
pub fn session_temporary(name: &str) -> String {
    format!("{name}.tmp")
}

/// The session that a temporary is to become.
pub fn temporary_session(name: &str) -> Option<&str> {
    name.strip_suffix(".tmp")
}

/// Where a session's counters are published.
pub fn session_counters(name: &str) -> String {
    format!("{name}.stats")
}

/// The session whose counters a name is.
pub fn counted_session(name: &str) -> Option<&str> {
    name.strip_suffix(".stats")
}

/// A path for the system: no NUL, not too long.
pub fn c_path(path: Vec<u8>) -> Result<CString> {
    if path.len() > PATH_MAX {
        let text = format!("path of {} bytes, more than {PATH_MAX}", path.len());
        return Err(Error::new(Kind::Limit, text));
    }
    CString::new(path).map_err(|_| Error::new(Kind::Invalid, "path: holds a NUL byte"))
}

/// A path's parent; `None` at the root of the file system.
pub fn parent(path: &[u8]) -> Option<Vec<u8>> {
    let end = path.iter().rposition(|byte| *byte == b'/')?;
    if path.len() == 1 {
        return None;
    }
    Some(if end == 0 {
        b"/".to_vec()
    } else {
        path[..end].to_vec()
    })
}
