//! What lies in a campaign's directories, piece by piece, for those who look
//! after it: records, and everything that calls leave beside them.

use super::Table;
use crate::model::lease::Presence;
use crate::record::counters::Published;
use crate::record::lease::Lease;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A root's `symlease.json`.
    Identity,
    /// A root's `fence.json`.
    FenceFloor,
    /// The coverage map's size and build.
    Map,
    /// A lease record.
    Record(Table),
    /// A lock file.
    Lock,
    /// A file that was not published: a living writer's, or left by a dead one.
    Temporary,
    /// A session, and whether its process lives.
    Session(Presence),
    /// Counters that a session publishes.
    Counters,
    /// A group change under way, or left half done.
    Intent,
    /// A coverage shard.
    Shard,
    /// A merge over several shards under way, or left half done.
    Transaction,
    /// A coordinator's heartbeat.
    Coordinator,
    /// A directory; told when it has been gone through, or could not be.
    Folder,
    /// Nothing of ours.
    Foreign,
}

/// One name that was found.
#[derive(Debug)]
pub struct Piece {
    /// Its absolute path.
    pub path: Vec<u8>,
    /// What it stands for.
    pub what: What,
    /// Why it is not what it should be.
    pub damage: Option<String>,
    /// The record, where it is a whole one.
    pub lease: Option<Box<Lease>>,
}

/// Called with every piece; no lock is held.
pub type Survey<'a> = dyn FnMut(Piece) + 'a;

/// One session of a root.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Its file's name.
    pub name: String,
    /// The table whose root it is in.
    pub table: Table,
    /// Whether its process lives.
    pub presence: Presence,
    /// The coordinator; empty where the file does not say.
    pub owner: String,
    /// The machine; empty where the file does not say.
    pub host: String,
    /// The process, there.
    pub process: u32,
    /// The counters it published last.
    pub counters: Option<Published>,
}
