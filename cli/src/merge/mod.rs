//! `symlease merge`.

mod read;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use serde_json::json;
use symlease::campaign::coverage::Candidate;
use symlease::campaign::open::Request;
use symlease::campaign::Campaign;
use symlease::model::coverage::bits_in;

use crate::arguments::Merge;
use crate::open::{request, there, Failure, Outcome, FINE};
use crate::text::{clean, count, number, progress_of, styled, DIM, GOOD};

/// Candidates that go in one call.
const BATCH: usize = 64;

/// What a file brings: edges and bits that are in it, bits that are new.
struct Brought {
    file: String,
    edges: u64,
    bits: u64,
    new: u64,
}

pub fn run(asked: &Merge, out: &mut dyn Write) -> Outcome {
    let files = candidates(asked)?;
    let campaign = there(Request {
        existing: !asked.create,
        no_session: true,
        read_only: asked.dry_run,
        owner: Some(asked.owner.clone()),
        map_size: asked.map_size.unwrap_or(0),
        map_identity: asked.map_identity.clone(),
        ..request(&asked.place)?
    })?;
    let mut all = Vec::with_capacity(files.len());
    fit(asked, &campaign, &files)?;
    let bar = progress_of(files.len() as u64, "files");
    let mut known = match asked.dry_run {
        true => Some(map_of(&campaign)?),
        false => None,
    };
    for batch in files.chunks(BATCH) {
        let offered: Vec<Candidate> = batch.iter().map(|(_, one)| one.clone()).collect();
        let new: Vec<u64> = match &mut known {
            Some(known) => offered.iter().map(|one| add(known, one)).collect(),
            None => match campaign.merge(&offered) {
                Ok(credited) => credited.iter().map(|edges| bits_in(edges)).collect(),
                Err(error) => {
                    // What was credited so far is told nowhere else.
                    tell(asked, &campaign, &all, out)?;
                    return Err(error.into());
                }
            },
        };
        for ((file, candidate), new) in batch.iter().zip(new) {
            all.push(Brought {
                file: file.clone(),
                edges: candidate.edges.len() as u64,
                bits: bits_in(&candidate.edges),
                new,
            });
        }
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    tell(asked, &campaign, &all, out)?;
    Ok(FINE)
}

/// Every file, before anything is merged.
fn candidates(asked: &Merge) -> Result<Vec<(String, Candidate)>, Failure> {
    if asked
        .files
        .iter()
        .filter(|file| *file == Path::new("-"))
        .count()
        > 1
    {
        return Err(Failure::Words("-: the standard input is read once".into()));
    }
    let bar = progress_of(asked.files.len() as u64, "files");
    let read = |file: &std::path::PathBuf| {
        bar.inc(1);
        let name = file.display().to_string();
        match read::read(file, asked.format) {
            Ok(candidate) => Ok((name, candidate)),
            Err(why) => Err(Failure::Words(format!("{name}: {why}; nothing was merged"))),
        }
    };
    let all = asked.files.iter().map(read).collect();
    bar.finish_and_clear();
    all
}

/// Whether all files are of one size, the campaign's: told before the first
/// batch is merged, with the file's name.
fn fit(asked: &Merge, campaign: &Campaign, files: &[(String, Candidate)]) -> Result<(), Failure> {
    let there = campaign.map_info()?;
    let mut size = there.map(|map| (map.size, "the campaign's map".to_string()));
    if size.is_none() {
        size = asked.map_size.map(|size| (size, "--map-size".to_string()));
    }
    for (name, candidate) in files {
        let highest = candidate
            .edges
            .last()
            .map_or(0, |(index, _)| u64::from(*index) + 1);
        match (&size, candidate.map_size) {
            (Some((size, whose)), Some(own)) if own != *size => {
                let words = format!(
                    "{name}: a map of {own} bytes, but {whose} has {size}; nothing was merged"
                );
                return Err(Failure::Words(words));
            }
            (Some((size, whose)), None) if highest > *size => {
                let words = format!(
                    "{name}: number {}, but {whose} has {size} bytes; nothing was merged",
                    highest - 1
                );
                return Err(Failure::Words(words));
            }
            (None, Some(own)) => size = Some((own, name.clone())),
            _ => {}
        }
    }
    Ok(())
}

fn map_of(campaign: &Campaign) -> Result<BTreeMap<u32, u8>, Failure> {
    let shards = campaign.authority()?;
    Ok(shards.into_iter().flat_map(|shard| shard.entries).collect())
}

/// What `merge` would credit.
fn add(known: &mut BTreeMap<u32, u8>, candidate: &Candidate) -> u64 {
    let mut new = 0;
    for (index, bits) in &candidate.edges {
        let there = known.entry(*index).or_default();
        new += u64::from((bits & !*there).count_ones());
        *there |= bits;
    }
    new
}

fn tell(
    asked: &Merge,
    campaign: &Campaign,
    all: &[Brought],
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let new: u64 = all.iter().map(|one| one.new).sum();
    let now = campaign.coverage_overview()?;
    if asked.json {
        for one in all {
            let line = json!({
                "file": one.file, "edges": one.edges, "bits": one.bits, "new": one.new,
            });
            writeln!(out, "{line}")?;
        }
        let sums = json!({
            "files": all.len(), "new": new, "dry_run": asked.dry_run,
            "authority": {"edges": now.edges, "bits": now.bits},
        });
        writeln!(out, "{sums}")?;
        return Ok(());
    }
    for one in all.iter().filter(|one| one.new > 0) {
        let what = styled(GOOD, &count(one.new, "new bit ", "new bits"));
        let (edges, bits) = (number(one.edges), number(one.bits));
        let file = clean(&one.file);
        writeln!(out, "{what}  {file} ({edges} edges, {bits} bits)")?;
    }
    let old = all.iter().filter(|one| one.new == 0).count() as u64;
    if old > 0 {
        let words = format!("nothing new in {}", count(old, "file", "files"));
        writeln!(out, "{}", styled(DIM, &words))?;
    }
    let words = match asked.dry_run {
        true => "would be new",
        false => "merged",
    };
    writeln!(
        out,
        "{} {words}; the authority has {} edges, {} bits",
        count(new, "bit", "bits"),
        number(now.edges),
        number(now.bits)
    )?;
    Ok(())
}
