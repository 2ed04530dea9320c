//! `symlease fsck`: every file, and nothing changed.

use std::collections::BTreeMap;
use std::io::Write;

use indicatif::ProgressBar;
use serde_json::json;
use symlease::campaign::survey::{commit_of, survey, Commit};
use symlease::engine::survey::{Piece, What};
use symlease::engine::Table;
use symlease::model::lease::Presence;
use symlease::record::lease::Status;

use crate::arguments::Fsck;
use crate::open::{no_campaign, request, surroundings, Outcome, FINE, FOUND};
use crate::text::{count, number, path, progress, styled, BAD, DIM, GOOD, WARN};

/// What was seen, by its words.
#[derive(Default)]
struct Sums {
    damaged: u64,
    facts: BTreeMap<&'static str, u64>,
    seen: BTreeMap<&'static str, u64>,
}

pub fn run(asked: &Fsck, out: &mut dyn Write) -> Outcome {
    let asks = request(&asked.place)?;
    let (sys, environment) = surroundings();
    let bar = match asked.json {
        true => ProgressBar::hidden(),
        false => progress("files"),
    };
    let (mut sums, mut failed) = (Sums::default(), Ok(()));
    let absent = survey(&asks, &environment, &sys, &mut |piece| {
        bar.inc(1);
        if failed.is_ok() {
            failed = bar.suspend(|| tell(asked, &piece, &mut sums, out));
        }
    });
    bar.finish_and_clear();
    let absent = absent?;
    failed?;
    if sums.seen.is_empty() && absent.len() == 3 {
        return Err(no_campaign(&asks));
    }
    conclude(asked, &sums, &absent, out)?;
    Ok(if sums.damaged == 0 { FINE } else { FOUND })
}

fn tell(asked: &Fsck, piece: &Piece, sums: &mut Sums, out: &mut dyn Write) -> std::io::Result<()> {
    let what = word(piece.what);
    if piece.what != What::Folder {
        *sums.seen.entry(what).or_default() += 1;
    }
    let place = path(&piece.path);
    // Counters are never synced and decide nothing: a power cut may tear them.
    let damage = piece.damage.as_ref();
    if let Some(why) = damage.filter(|_| piece.what != What::Counters) {
        sums.damaged += 1;
        let why = crate::text::clean(why);
        return match asked.json {
            true => writeln!(
                out,
                "{}",
                json!({"damage": why, "path": place, "what": what})
            ),
            false => writeln!(out, "{}  {place}: {why}", styled(BAD, "damaged")),
        };
    }
    let Some((fact, more)) = fact(piece) else {
        return Ok(());
    };
    *sums.facts.entry(fact).or_default() += 1;
    match (asked.quiet, asked.json) {
        (true, _) => Ok(()),
        (_, true) => {
            let line = json!({"fact": fact, "more": more, "path": place, "what": what});
            writeln!(out, "{line}")
        }
        _ => {
            let more = if more.is_empty() {
                more
            } else {
                format!(": {more}")
            };
            writeln!(out, "{}  {place}: {fact}{more}", styled(WARN, "fact   "))
        }
    }
}

fn word(what: What) -> &'static str {
    match what {
        What::Identity => "identity",
        What::FenceFloor => "fence floor",
        What::Map => "map size",
        What::Record(Table::Work) => "work record",
        What::Record(Table::Target) => "target record",
        What::Lock => "lock file",
        What::Temporary => "temporary",
        What::Session(_) => "session",
        What::Counters => "counters",
        What::Intent => "intent",
        What::Shard => "coverage shard",
        What::Transaction => "transaction",
        What::Coordinator => "coordinator",
        What::Folder => "folder",
        What::Foreign => "foreign file",
    }
}

/// What whoever looks after the campaign wants to know of a whole piece.
fn fact(piece: &Piece) -> Option<(&'static str, String)> {
    let plain = |fact| Some((fact, String::new()));
    match piece.what {
        What::Temporary => plain("temporary, not published"),
        What::Intent => plain("group change that has not ended"),
        What::Transaction => plain("merge that has not ended"),
        What::Counters if piece.damage.is_some() => plain("counters that cannot be read"),
        What::Session(Presence::Dead) => plain("session of a process that is gone"),
        What::Foreign => plain("no file of symlease"),
        What::Record(_) => {
            let lease = piece.lease.as_ref()?;
            if lease.status() != Status::Committing {
                return None;
            }
            let owner = crate::text::clean(&lease.owner());
            Some(match commit_of(lease) {
                Commit::Replayable(manifest) => {
                    let results = count(manifest.results.len() as u64, "result", "results");
                    (
                        "commit that has not ended",
                        format!("of {owner}, {results}"),
                    )
                }
                Commit::Foreign => {
                    let more =
                        format!("of {owner}, with a manifest that only its own program knows");
                    ("commit that has not ended", more)
                }
                Commit::Missing => {
                    let more = format!("of {owner}, without a manifest: nobody can replay it");
                    ("commit that has not ended", more)
                }
                Commit::Damaged(why) => {
                    let more = format!("of {owner}, its manifest is damaged: {why}");
                    ("commit that has not ended", more)
                }
            })
        }
        _ => None,
    }
}

fn conclude(
    asked: &Fsck,
    sums: &Sums,
    absent: &[Vec<u8>],
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let absent: Vec<String> = absent.iter().map(|root| path(root)).collect();
    if asked.json {
        let line = json!({
            "absent": absent, "damaged": sums.damaged, "facts": sums.facts, "seen": sums.seen,
        });
        return writeln!(out, "{line}");
    }
    if !asked.quiet {
        for root in &absent {
            writeln!(out, "{}", styled(DIM, &format!("not there: {root}")))?;
        }
        let seen: Vec<String> = sums
            .seen
            .iter()
            .map(|(what, many)| format!("{what} {}", number(*many)))
            .collect();
        writeln!(
            out,
            "{}",
            styled(DIM, &format!("looked at: {}", seen.join(", ")))
        )?;
    }
    match sums.damaged {
        0 if asked.quiet => Ok(()),
        0 => writeln!(out, "{}", styled(GOOD, "every file is what it should be")),
        many => {
            let words = count(many, "damaged file", "damaged files");
            writeln!(out, "{}", styled(BAD, &words))
        }
    }
}
