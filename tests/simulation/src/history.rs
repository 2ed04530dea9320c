//! What was asked and answered, in the order of the kernel's calls.

use symlease::campaign::coverage::Candidate;
use symlease::campaign::work::Claimed;
use symlease::campaign::{Answer, ClaimOptions};
use symlease::error::{Error, Kind};
use symlease::record::shard::Edge;
use symlease::sys::sim::disk::Bytes;

/// A result offered to a commit.
#[derive(Clone, Debug)]
pub struct Offered {
    /// Its bytes.
    pub content: Vec<u8>,
    /// Its map, where it is known.
    pub map: Option<Vec<Edge>>,
    /// Published even if nothing is new.
    pub keep: bool,
}

/// What was asked.
#[derive(Clone, Debug)]
pub enum Asked {
    /// claim.
    Claim(String, ClaimOptions),
    /// heartbeat.
    Heartbeat(String, String),
    /// heartbeat_many.
    HeartbeatMany(Vec<(String, String)>),
    /// abandon.
    Abandon(String, String),
    /// begin_commit with a manifest.
    Begin(String, String, String),
    /// complete.
    Complete(String, String),
    /// replay.
    Replay(String, String),
    /// verify.
    Verify(String, String),
    /// group_claim.
    GroupClaim(Vec<String>),
    /// group_heartbeat.
    GroupHeartbeat(Vec<String>, String),
    /// group_release.
    GroupRelease(Vec<String>, String),
    /// group_verify.
    GroupVerify(Vec<String>, String),
    /// merge.
    Merge(Vec<Candidate>),
    /// unknown_bits.
    Unknown(Candidate),
    /// commit.
    Commit(String, String, Vec<Offered>),
    /// replay_commits.
    ReplayCommits,
    /// Anything else.
    Other(&'static str),
}

/// What was answered.
#[derive(Clone, Debug)]
pub enum Got {
    /// A claim's answer.
    Claim(Claimed),
    /// A step's answer.
    Step(Answer),
    /// One answer an entry.
    Many(Vec<Result<Answer, Kind>>),
    /// New bits a candidate.
    Novel(Vec<Vec<Edge>>),
    /// A commit's answer, and the new bits it counted.
    Commit(Answer, u64),
    /// How many commits were completed, and the first error.
    Replayed(u64, Option<Kind>),
    /// Bits that a pull gave.
    Bits(Vec<Edge>),
    /// A number.
    Count(u64),
    /// Nothing more to say.
    Nothing,
    /// The call failed.
    Failed(Error),
}

/// One call of the library.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its number; in the kernel's journal too.
    pub operation: u64,
    /// The process.
    pub process: usize,
    /// The kernel's count of calls when it began.
    pub begin: u64,
    /// The count when it returned; `None`: it never did.
    pub end: Option<u64>,
    /// Errors that the kernel gave it.
    pub failed: u64,
    /// Nanoseconds that it slept.
    pub slept: u64,
    /// The opening of the campaign that it was made on.
    pub opening: usize,
    /// The call before it that ended E_INDETERMINATE, and that it repeats.
    pub repeats: Option<u64>,
    /// What was asked.
    pub asked: Asked,
    /// What was answered, where it returned.
    pub got: Option<Got>,
}

impl Entry {
    /// Whether it returned without an error.
    pub fn succeeded(&self) -> bool {
        matches!(&self.got, Some(got) if !matches!(got, Got::Failed(_)))
    }

    /// Whether it ended E_INDETERMINATE.
    pub fn unknown(&self) -> bool {
        let unknown = |kind: &Kind| matches!(kind, Kind::Indeterminate | Kind::Unsettled);
        match &self.got {
            Some(Got::Failed(error)) => unknown(&error.kind),
            Some(Got::Replayed(_, Some(kind))) => unknown(kind),
            _ => false,
        }
    }

    /// The kind of its error.
    pub fn error(&self) -> Option<Kind> {
        match &self.got {
            Some(Got::Failed(error)) => Some(error.kind),
            _ => None,
        }
    }
}

/// A power cut: everything that was there afterwards.
#[derive(Clone, Debug)]
pub struct Cut {
    /// The kernel's count of calls.
    pub call: u64,
    /// True time.
    pub now: u64,
    /// Entries of the kernel's journal before it.
    pub journal: usize,
    /// Every file, by path.
    pub files: Vec<(Vec<u8>, Bytes)>,
}

/// One opening of the campaign.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// The process.
    pub process: usize,
    /// Whether it knows the map's size.
    pub sized: bool,
    /// Whether it judges leases by observation.
    pub observed: bool,
    /// The count of calls when it was closed, or its process died.
    pub ended: Option<u64>,
}

/// All of it. Operation `n` is entry `n - 1`.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Calls of the library.
    pub entries: Vec<Entry>,
    /// Power cuts.
    pub cuts: Vec<Cut>,
    /// Openings.
    pub openings: Vec<Opening>,
}

impl History {
    /// The entry of an operation; 0 is nobody's.
    pub fn of(&self, operation: u64) -> Option<&Entry> {
        self.entries.get((operation as usize).checked_sub(1)?)
    }
}
