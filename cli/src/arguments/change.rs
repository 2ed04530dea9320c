//! Commands that change a campaign.

use clap::Args;

use super::Place;

/// Finish what the dead left: replay their commits, free their work
///
/// Takes away what killed processes left behind (temporaries, half group
/// changes, half merges), replays every commit that has begun and whose holder
/// is gone, and takes work off holders that are gone, so that anyone may claim
/// it at once. A holder is gone when its session's process is, or when it is
/// past its TTL and no session says that it lives. What a living coordinator
/// holds is left alone: this is safe beside a campaign that runs, and safe to
/// repeat. Coordinators do the same at their start, and now and then.
#[derive(Args)]
#[command(after_help = "\
Examples:
  symlease recover campaign --dry-run        what would be done
  symlease recover campaign                  after a crash
  symlease recover campaign --drop 4740810d  end a commit that nobody can replay

A commit cannot be replayed when its record has no manifest, one of another
program, or a damaged one. Its own program may still finish it. --drop ends it:
what it staged is not published, and the work counts as done.

Exit codes: 0 nothing is left to do; 1 something is left, and is told; 3 a replay
failed (the words say why), or the campaign could not be opened.")]
pub struct Recover {
    #[command(flatten)]
    pub place: Place,
    /// End this commit, by its id or the start of it, where it cannot be
    /// replayed; may be given more than once
    #[arg(long, value_name = "ID")]
    pub drop: Vec<String>,
    /// Say what would be done, and change nothing
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// The TTL of records that name none (default: SYMCC_WORK_LEASE_TTL, or 300)
    #[arg(long, value_name = "SECONDS")]
    pub ttl: Option<f64>,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

/// Remove what nobody needs any more
///
/// Without further words: what killed processes left (temporaries, half group
/// changes) and the sessions of processes that are gone and that no record
/// names, with the counters beside them. Safe beside a campaign that runs.
///
/// With --peers-stopped also every done work record, every lock file of the
/// lease tables, and sessions whose processes cannot be tested from here. What
/// was done is then forgotten: the same work may be claimed again, but under a
/// fence that is higher than any before (DIR/.work_lease_table/fence.json).
#[derive(Args)]
#[command(after_help = "\
Examples:
  symlease gc campaign                   beside a campaign that runs
  symlease gc campaign --peers-stopped   after it, before the next begins

--peers-stopped is your word that no coordinator and no target works here, on no
host. symlease refuses where it can see that it is not so: a session lives, a
commit has begun (`symlease recover` finishes it), or a lock is held.

Exit codes: 0 removed; 3 refused or failed (the words say why).")]
pub struct Gc {
    #[command(flatten)]
    pub place: Place,
    /// Nobody works here: done records and lock files go, too
    #[arg(long)]
    pub peers_stopped: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}
