//! `symlease run`.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use super::Place;

/// What becomes of work whose command failed.
#[derive(Clone, Copy, Default, PartialEq, ValueEnum)]
pub enum OnFailure {
    /// Given back: anyone may claim it at once; ended after --attempts claims
    #[default]
    Abandon,
    /// Ended: it counts as done
    Complete,
}

/// Run a command as work that is done once
///
/// Claims a work lease, runs the command while it renews the lease, and ends the
/// work when the command succeeds: many may start the same command on one
/// campaign, one runs it. Where somebody holds the work, or it was done before,
/// nothing is run.
///
/// The work is named by the command and its arguments, or by --name, --payload
/// or --id. The command finds SYMLEASE_ID, SYMLEASE_FENCE, SYMLEASE_TOKEN and
/// SYMLEASE_ATTEMPTS in its environment: give the fence to whatever stores its
/// results, which then can refuse those of a holder that was overtaken.
///
/// Signals that are sent to symlease reach the command. When symlease itself is
/// killed its lease is free at once, and the command is killed with it (not the
/// processes that it started). When somebody else takes the lease, which needs a
/// missed TTL, the command is ended.
#[derive(Args)]
#[command(after_help = "\
Examples:
  symlease run campaign -- ./fuzz-one seed-17 build-7
  symlease run campaign --name nightly --wait 600 -- make -C corpus minimise
  parallel -j 8 symlease run campaign -- ./job {} ::: jobs/*

Exit codes: the command's own (128 + N where signal N ended it); 0 also where the
work was done before; 75 somebody else holds it; 76 somebody else took it, and
what the command did does not count; 125 symlease failed; 126 the command cannot
be run; 127 there is no such command.")]
pub struct Run {
    #[command(flatten)]
    pub place: Place,
    /// Names the work; the command may differ
    #[arg(long, value_name = "TEXT", group = "named")]
    pub name: Option<String>,
    /// Names the work by a JSON object, as coordinators do
    #[arg(long, value_name = "JSON", group = "named")]
    pub payload: Option<String>,
    /// Names the work by its id: 64 lower-case hex digits
    #[arg(long, value_name = "ID", group = "named")]
    pub id: Option<String>,
    /// Who is named as the holder (default: SYMCC_MASTER_ID, or HOST:PID)
    #[arg(long, value_name = "NAME")]
    pub owner: Option<String>,
    /// The lease's TTL; renewed three times in it (default: SYMCC_WORK_LEASE_TTL,
    /// or 300)
    #[arg(long, value_name = "SECONDS")]
    pub ttl: Option<f64>,
    /// Wait so long for work that somebody else holds
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub wait: f64,
    /// What becomes of the work when the command fails
    #[arg(long, value_enum, default_value_t)]
    pub on_failure: OnFailure,
    /// With so many claims behind it, failed work is ended (0: never)
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub attempts: u32,
    /// Between asking a command to end (SIGTERM) that lost its lease, and killing it
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub grace: f64,
    /// Begin a campaign where none is
    #[arg(long)]
    pub create: bool,
    /// Nothing but errors
    #[arg(long, short)]
    pub quiet: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
