//! `symlease merge`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Place;

/// What a file of coverage holds.
#[derive(Clone, Copy, Default, PartialEq, Debug, ValueEnum)]
pub enum Format {
    /// By the name fuzz_bitmap, or by lines `number:count`; else say it
    #[default]
    Auto,
    /// A map of hit counts, as a target leaves it (`afl-showmap -b -r`)
    Counts,
    /// A map of bucket bits (`afl-showmap -b`)
    Bits,
    /// A map of bits not yet seen (AFL++'s fuzz_bitmap): inverted
    Virgin,
    /// Lines `number:class`, classes 1 to 8 (`afl-showmap`)
    Showmap,
    /// Lines `number:count`, hit counts (`afl-showmap -r`)
    ShowmapCounts,
}

/// Merge coverage files into the authority
///
/// Every bit that the authority does not have is credited to the first file, in
/// the order given, that brings it. All files are read before anything is merged:
/// one that is not what it should be stops all. A map's size belongs to one build
/// of the target: maps of another size than the campaign's are refused.
#[derive(Args)]
#[command(after_help = "\
Examples:
  symlease merge campaign out/main/fuzz_bitmap
  afl-showmap -b -r -o seed.map -- ./target < seed
  symlease merge campaign --format counts seed.map
  symlease merge campaign maps/*.txt --json | jq -r 'select(.new > 0) | .file'
  symlease merge fresh --create --map-identity build-7 out/*/fuzz_bitmap

afl-showmap 4.04c leaves counts out of its plain text; with -r or -b it does not.

Exit codes: 0 merged, or nothing was new; 3 a file is not what it should be, or
does not fit the campaign (nothing of any is merged).")]
pub struct Merge {
    #[command(flatten)]
    pub place: Place,
    /// The files; - is the standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// What the files hold
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The size of the target's map, in bytes, where no file tells
    #[arg(long, value_name = "BYTES")]
    pub map_size: Option<u64>,
    /// The target's build; must be the campaign's where that names one
    #[arg(long, value_name = "TEXT")]
    pub map_identity: Option<String>,
    /// Who is named as the contributor
    #[arg(long, value_name = "NAME", default_value = "symlease-merge")]
    pub owner: String,
    /// Begin a campaign where none is
    #[arg(long, conflicts_with = "dry_run")]
    pub create: bool,
    /// Say what is new, and merge nothing
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// One JSON object a file, and a last one with the sums
    #[arg(long)]
    pub json: bool,
}
