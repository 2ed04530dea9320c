//! The manifest of a commit, and the sparse map that stands beside a staged
//! result (`format.md`).

use super::json::{parse, quote, Numbers};
use super::path::{from_text, is_component, to_text};
use super::reader::Reader;
use super::shard::{Edge, INDEX_LIMIT};

/// The manifest's schema.
pub const SCHEMA: &str = "symlease-commit-v1";

/// The most results of one commit.
pub const RESULTS_MAX: usize = 4096;

/// One result. Paths are as written: relative to the work root's parent, or
/// absolute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The corpus it goes to.
    pub corpus: Vec<u8>,
    /// Published even if nothing in it is new.
    pub keep: bool,
    /// SHA-256 of the map's file; empty: its coverage is not known.
    pub map: String,
    /// Its name in the corpus.
    pub name: Vec<u8>,
    /// SHA-256 of its bytes.
    pub sha256: String,
    /// Bytes.
    pub size: u64,
    /// Where it is staged.
    pub staged: Vec<u8>,
}

/// What a commit is about to publish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The commit's corpus.
    pub corpus: Vec<u8>,
    /// The results.
    pub results: Vec<Entry>,
}

impl Manifest {
    /// Canonical JSON.
    pub fn to_text(&self) -> String {
        let path = |path: &[u8]| {
            let mut out = String::new();
            quote(&to_text(path), &mut out);
            out
        };
        let entry = |entry: &Entry| {
            format!(
                "{{\"corpus\":{},\"keep\":{},\"map\":\"{}\",\"name\":{},\"sha256\":\"{}\",\
                 \"size\":{},\"staged\":{}}}",
                path(&entry.corpus),
                entry.keep,
                entry.map,
                path(&entry.name),
                entry.sha256,
                entry.size,
                path(&entry.staged)
            )
        };
        let results: Vec<String> = self.results.iter().map(entry).collect();
        format!(
            "{{\"corpus\":{},\"results\":[{}],\"schema\":\"{SCHEMA}\"}}",
            path(&self.corpus),
            results.join(",")
        )
    }

    /// Reads a manifest. `None`: of another schema, which is left alone.
    pub fn parse(text: &str) -> Result<Option<Manifest>, String> {
        let members = parse(text.as_bytes())?
            .members()
            .ok_or("not a JSON object")?;
        let schema = members.iter().find(|(key, _)| key == b"schema");
        if schema.is_none_or(|(_, text)| *text != format!("\"{SCHEMA}\"")) {
            return Ok(None);
        }
        let (mut corpus, mut results) = (None, None);
        for (key, text) in members {
            match &key[..] {
                b"corpus" => corpus = Some(path_of(&text)?),
                b"results" => results = Some(entries(&text)?),
                _ => {}
            }
        }
        Ok(Some(Manifest {
            corpus: corpus.ok_or("corpus is missing")?,
            results: results.ok_or("results is missing")?,
        }))
    }
}

fn path_of(text: &str) -> Result<Vec<u8>, String> {
    let doc = parse(text.as_bytes())?;
    doc.text()
        .map(from_text)
        .ok_or_else(|| format!("{text} is no path"))
}

fn entries(text: &str) -> Result<Vec<Entry>, String> {
    let mut reader = Reader::new(text.as_bytes())?;
    let mut entries = Vec::new();
    let mut first = true;
    reader.expect(b'[')?;
    while reader.more(&mut first, b']')? {
        let range = reader.skip()?;
        entries.push(entry(reader.slice(range))?);
    }
    reader.end()?;
    if entries.len() > RESULTS_MAX {
        return Err(format!(
            "{} results, more than {RESULTS_MAX}",
            entries.len()
        ));
    }
    Ok(entries)
}

fn entry(text: &str) -> Result<Entry, String> {
    let doc = parse(text.as_bytes())?;
    let mut entry = Entry::default();
    for (key, text) in doc.members().ok_or("a result is no object")? {
        match &key[..] {
            b"corpus" => entry.corpus = path_of(&text)?,
            b"staged" => entry.staged = path_of(&text)?,
            b"name" => entry.name = path_of(&text)?,
            b"keep" => entry.keep = text == "true",
            b"map" => entry.map = text.trim_matches('"').to_string(),
            b"sha256" => entry.sha256 = text.trim_matches('"').to_string(),
            b"size" => entry.size = text.parse().map_err(|_| "size is no integer >= 0")?,
            _ => {}
        }
    }
    let digest = super::id::is_id(&entry.sha256);
    let map = entry.map.is_empty() || super::id::is_id(&entry.map);
    if !digest || !map || !is_component(&entry.name) || entry.staged.is_empty() {
        let text = doc.canonical(Numbers::AsWritten).unwrap_or_default();
        return Err(format!("a result is not valid: {text}"));
    }
    Ok(entry)
}

/// A map as the bytes of its file: little-endian pairs of u32 index and u8
/// bits, rising.
pub fn map_bytes(edges: &[Edge]) -> Vec<u8> {
    edges
        .iter()
        .flat_map(|(index, bits)| {
            let [a, b, c, d] = index.to_le_bytes();
            [a, b, c, d, *bits]
        })
        .collect()
}

/// The map behind such bytes.
pub fn map_edges(bytes: &[u8]) -> Result<Vec<Edge>, String> {
    let rows = bytes.chunks_exact(5);
    if !rows.remainder().is_empty() {
        return Err("the last pair is cut".to_string());
    }
    let edges: Vec<Edge> = rows
        .map(|row| (u32::from_le_bytes([row[0], row[1], row[2], row[3]]), row[4]))
        .collect();
    let rising = edges.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let valid = edges
        .iter()
        .all(|(index, bits)| *index < INDEX_LIMIT && *bits != 0);
    match rising && valid {
        true => Ok(edges),
        false => Err("the pairs do not rise, or are out of range".to_string()),
    }
}
