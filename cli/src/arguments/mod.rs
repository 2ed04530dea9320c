//! What can be asked for.

mod change;
mod manual;
mod merge;
mod run;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use change::{Gc, Recover};
pub use manual::{Completions, Man};
pub use merge::{Format, Merge};
pub use run::{OnFailure, Run};

/// Looks at a symlease campaign, mends it, and runs work under a lease.
///
/// A campaign is one directory that many coordinators share. Commands that only
/// look (probe aside) never make or change a file: they also work on a read-only
/// mount, and beside a campaign that runs.
#[derive(Parser)]
#[command(name = "symlease", version, max_term_width = 100, after_help = TOUR)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const TOUR: &str = "\
Examples:
  symlease probe /mnt/shared              is this directory fit for a campaign?
  symlease status campaign                who works on what
  symlease fsck campaign                  is every file what it should be?
  symlease ls campaign --state expired    what nobody works on any more
  symlease show campaign 4740810d         one record, by the start of its id
  symlease recover campaign               finish what killed coordinators left
  symlease run campaign -- ./job seed-7   this command, once, whoever else tries
  symlease merge campaign fuzz_bitmap     AFL++'s coverage into the authority
  symlease report campaign -o page.html   what became of it, as one page

Exit codes: 0 all is well; 1 something was found that is not well; 2 the command
line is wrong; 3 the command could not do its work (the words say why). `run` has
its own.";

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    Probe(Probe),
    Status(Status),
    Report(Report),
    Ls(List),
    Show(Show),
    Fsck(Fsck),
    Recover(Recover),
    Gc(Gc),
    Merge(Merge),
    Run(Run),
    Completions(Completions),
    Man(Man),
}

/// Where a campaign is.
#[derive(Args, Clone)]
pub struct Place {
    /// The campaign's directory
    pub dir: PathBuf,
    /// Work leases that lie elsewhere than in DIR/.work_lease_table
    #[arg(long, value_name = "DIR", help_heading = "Tables that lie elsewhere")]
    pub work_root: Option<PathBuf>,
    /// Target leases that lie elsewhere than in DIR/.target_lease_table
    #[arg(long, value_name = "DIR", help_heading = "Tables that lie elsewhere")]
    pub target_root: Option<PathBuf>,
    /// Coverage that lies elsewhere than in DIR/.coverage_owner
    #[arg(long, value_name = "DIR", help_heading = "Tables that lie elsewhere")]
    pub coverage_root: Option<PathBuf>,
}

/// Try whether a directory keeps what a campaign needs
///
/// Makes a private folder in DIR, tries file and directory sync, replacing,
/// linking, unlinking, and locks between processes, and removes it again. Child
/// processes do the work: a mount whose calls block is found, not waited for.
#[derive(Args)]
#[command(after_help = "\
Examples:
  symlease probe /mnt/shared && start-the-campaign
  symlease probe --json /mnt/shared | jq .proven

Exit code 1: DIR is not fit. One host cannot show exclusion across hosts.")]
pub struct Probe {
    /// The directory to try; it must be there
    pub dir: PathBuf,
    /// Seconds until a call that does not come back counts as blocked (at most 60)
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub timeout: f64,
    /// The findings as one line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Which lease table.
#[derive(Clone, Copy, Default, PartialEq, ValueEnum)]
pub enum Leases {
    /// Work leases
    #[default]
    Work,
    /// Target leases
    Target,
}

/// Which table.
#[derive(Clone, Copy, Default, PartialEq, ValueEnum)]
pub enum Table {
    /// Work leases
    #[default]
    Work,
    /// Target leases
    Target,
    /// Coverage shards, by number
    Coverage,
}

/// States of records.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum State {
    /// Somebody's, and nothing says that it is not worked on
    Live,
    /// Past its TTL
    Expired,
    /// Given back untried
    Abandoned,
    /// Its holder's process is gone
    Dead,
    /// Dated further ahead than clocks may differ
    Future,
    /// Its commit has begun
    Committing,
    /// Finished
    Done,
    /// Not what a record should be
    Damaged,
}

/// List records
#[derive(Args)]
#[command(after_help = "\
Examples:
  symlease ls campaign                             all work
  symlease ls campaign --state dead,expired        what can be taken over
  symlease ls campaign --table target --owner m0   which branch targets m0 holds
  symlease ls campaign --json | jq -r .id          one JSON object a line

A damaged record is listed as `damaged`; why, says `symlease fsck`.")]
pub struct List {
    #[command(flatten)]
    pub place: Place,
    /// Which records
    #[arg(long, value_enum, default_value_t)]
    pub table: Leases,
    /// Only records in one of these states
    #[arg(long, value_enum, value_delimiter = ',')]
    pub state: Vec<State>,
    /// Only records of this owner
    #[arg(long)]
    pub owner: Option<String>,
    /// At most so many (0: all)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub limit: u64,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Show one record
#[derive(Args)]
#[command(after_help = "\
Examples:
  symlease show campaign 4740810d               by the start of its id
  symlease show campaign 4740810d --raw | jq .  the record as it stands
  symlease show campaign --table coverage 7     shard 7 of the coverage authority

Exit code 1: no such record.")]
pub struct Show {
    #[command(flatten)]
    pub place: Place,
    /// The record's id, or its first digits where only one record begins so;
    /// a shard's number with --table coverage; a target's number as t:NUMBER
    pub id: String,
    /// Which record
    #[arg(long, value_enum, default_value_t)]
    pub table: Table,
    /// The record's bytes, as they stand
    #[arg(long)]
    pub raw: bool,
}

/// Check every file of a campaign; changes nothing
///
/// Damaged files come with their path and the reason. What calls leave beside
/// the records is listed as a fact: temporaries, group changes (intents), merges
/// over several shards (transactions), commits that have begun. While the
/// campaign runs these come and go; in one that stands still their writers died,
/// and `symlease recover` settles them.
#[derive(Args)]
#[command(after_help = "\
Examples:
  symlease fsck campaign || mail -s 'look at the campaign' operator
  symlease fsck campaign --json | jq -r 'select(.damage) | .path'

Exit codes: 0 every file is what it should be (facts do not count); 1 damage was
found; 3 something could not be looked at.")]
pub struct Fsck {
    #[command(flatten)]
    pub place: Place,
    /// Only damage, no facts
    #[arg(long, short)]
    pub quiet: bool,
    /// One JSON object a line for each piece of damage and each fact, and a last
    /// one with the sums
    #[arg(long)]
    pub json: bool,
}

/// Show who works on what, and how far the campaign is
#[derive(Args)]
#[command(after_help = "\
Examples:
  symlease status campaign
  symlease status campaign --watch
  symlease status campaign --json | jq .coverage.bits
  symlease status campaign --watch --interval 60 --json >> growth.jsonl

Keys of --watch: q quits, p pauses, r looks now, + and - change the interval, the
arrows scroll.")]
pub struct Status {
    #[command(flatten)]
    pub place: Place,
    /// A full-screen view that is kept up to date
    #[arg(long, short)]
    pub watch: bool,
    /// Seconds between two looks of --watch
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub interval: f64,
    /// One JSON object; with --watch one a line, again and again
    #[arg(long)]
    pub json: bool,
}

/// Write one page about a campaign: work, coverage, waits, over time
///
/// The page is one HTML file with its plots in it: nothing is loaded, it can be
/// mailed and kept. What the campaign's files say is plotted over time: work that
/// was finished, results, the corpora's files. Coverage keeps no past: to plot its
/// growth, have it written down while the campaign runs (see the examples) and name
/// that file with --history.
#[derive(Args)]
#[command(after_help = "\
Examples:
  symlease report campaign -o campaign.html
  symlease status campaign --watch --interval 60 --json >> growth.jsonl &
  symlease report campaign --history growth.jsonl -o campaign.html")]
pub struct Report {
    #[command(flatten)]
    pub place: Place,
    /// Where the page goes; replaced when it is whole (default: standard output)
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// What `symlease status --watch --json` wrote
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// The page's title (default: the directory's name)
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// Every example of the help is a command line that is understood.
    #[test]
    fn examples_are_understood() {
        let mut command = Arguments::command();
        let commands = command.get_subcommands_mut().map(|one| one.clone());
        let mut tried = 0;
        for one in commands.collect::<Vec<_>>().iter().chain([&command]) {
            let help = one.get_after_help().map(ToString::to_string);
            for line in help.unwrap_or_default().lines() {
                let Some(line) = line.strip_prefix("  symlease ") else {
                    continue;
                };
                // Without what the shell takes, and the words beside it.
                let line = line.split("  ").next().unwrap_or_default();
                let line = line.split([';', '&', '|', '>']).next().unwrap_or_default();
                let words = std::iter::once("symlease").chain(line.split_whitespace());
                if let Err(error) = Arguments::try_parse_from(words) {
                    panic!("{line}: {error}");
                }
                tried += 1;
            }
        }
        assert!(tried > 30, "{tried}");
    }
}
