//! One shard of the coverage map as a file.

use super::number::python_float;
use super::reader::{compact, quote, Reader, Step};
use crate::guard::{on, Guard};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The largest shard or transaction file.
pub const FILE_LIMIT: usize = 64 << 20;
/// Indices lie below it.
pub const INDEX_LIMIT: u32 = 1 << 23;

/// An index and its bucket bits.
pub type Edge = (u32, u8);

/// What a shard file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shard {
    /// Which shard.
    pub shard: u32,
    /// Raised at each change.
    pub epoch: u64,
    /// Index and bucket bits, strictly rising, no zero bits.
    pub entries: Vec<(u32, u8)>,
    /// How many changes each identity made.
    pub contributors: BTreeMap<String, u64>,
    /// The owner's place among the coordinators.
    pub owner_index: Option<u32>,
    /// The preferred owner at the last change.
    pub owner: Option<String>,
    /// Who changed it last.
    pub last_writer: Option<String>,
    /// When.
    pub updated: Option<f64>,
    /// Fields that this version does not know, as JSON texts.
    pub unknown: BTreeMap<String, String>,
}

impl Shard {
    /// A shard that nobody wrote yet.
    pub fn empty(number: u32) -> Shard {
        Shard {
            shard: number,
            ..Shard::default()
        }
    }

    /// Reads a file's bytes, or says why they are no such shard (C1, C2, C3).
    pub fn parse(number: u32, shard_count: u32, bytes: &[u8]) -> Result<Shard, String> {
        if bytes.len() > FILE_LIMIT {
            return Err("larger than 64 MiB".to_string());
        }
        let mut reader = Reader::new(bytes)?;
        let shard = Shard::read(&mut reader, shard_count)?;
        reader.end()?;
        if shard.shard != number {
            return Err(format!("says it is shard {}", shard.shard));
        }
        Ok(shard)
    }

    /// ORs rising edges in; answers the bits that were new, rising.
    pub fn add(&mut self, edges: impl Iterator<Item = Edge>) -> Vec<Edge> {
        let edges: Vec<Edge> = edges.filter(|edge| edge.1 != 0).collect();
        let mut novel = Vec::new();
        for (index, bits) in &edges {
            let found = self.entries.binary_search_by_key(index, |entry| entry.0);
            let known = found.map_or(0, |at| self.entries[at].1);
            let new = bits & if on(Guard::NewBits) { !known } else { 255 };
            if new != 0 {
                novel.push((*index, new));
            }
        }
        if !novel.is_empty() {
            self.entries = super::transaction::or(&self.entries, &novel);
        }
        novel
    }

    /// Reads one record where it stands, whatever its number.
    pub(super) fn read(reader: &mut Reader, shard_count: u32) -> Step<Shard> {
        let mut shard = Shard::default();
        // schema, shard, epoch, entries, contributors.
        let mut needed = 0u8;
        reader.object(|reader, key| {
            match key.as_str() {
                "schema" => {
                    needed |= 1;
                    if reader.unsigned()? != 1 {
                        return Err(reader.wrong("not schema 1"));
                    }
                }
                "shard" => {
                    needed |= 2;
                    shard.shard = reader.small()?;
                }
                "epoch" => {
                    needed |= 4;
                    shard.epoch = reader.unsigned()?;
                }
                "entries" => {
                    needed |= 8;
                    shard.entries = entries(reader)?;
                }
                "contributors" => {
                    needed |= 16;
                    shard.contributors = contributors(reader)?;
                }
                "owner_index" => shard.owner_index = Some(reader.small()?),
                "owner" => shard.owner = Some(reader.string()?),
                "last_writer" => shard.last_writer = Some(reader.string()?),
                "updated" => shard.updated = Some(reader.time()?),
                _ => {
                    let range = reader.skip()?;
                    shard.unknown.insert(key, compact(reader.slice(range)));
                }
            }
            Ok(())
        })?;
        if needed != 31 {
            return Err("a field is missing".to_string());
        }
        shard.check(shard_count)?;
        Ok(shard)
    }

    /// Whether every index belongs here (C2).
    fn check(&self, shard_count: u32) -> Step<()> {
        if self.shard >= shard_count {
            return Err(format!("shard {} of {shard_count}", self.shard));
        }
        let foreign =
            |(index, _): &&(u32, u8)| index % shard_count != self.shard && on(Guard::ForeignIndex);
        match self.entries.iter().find(foreign) {
            Some((index, _)) => Err(format!("index {index} belongs to another shard")),
            None => Ok(()),
        }
    }

    /// The file's bytes: one line, keys sorted, ASCII.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = String::with_capacity(self.entries.len() * 13 + 512);
        self.write(&mut out);
        out.push('\n');
        out.into_bytes()
    }

    /// Appends the record without a final newline.
    pub(super) fn write(&self, out: &mut String) {
        let mut fields: BTreeMap<&str, String> = BTreeMap::new();
        for (key, text) in &self.unknown {
            fields.insert(key, text.clone());
        }
        fields.insert("contributors", written_contributors(&self.contributors));
        fields.insert("entries", written_entries(&self.entries));
        fields.insert("epoch", self.epoch.to_string());
        fields.insert("schema", "1".to_string());
        fields.insert("shard", self.shard.to_string());
        if let Some(index) = self.owner_index {
            fields.insert("owner_index", index.to_string());
        }
        for (key, text) in [("owner", &self.owner), ("last_writer", &self.last_writer)] {
            if let Some(text) = text {
                fields.insert(key, quoted(text));
            }
        }
        if let Some(updated) = self.updated {
            fields.insert("updated", python_float(updated));
        }
        let mut before = '{';
        for (key, text) in fields {
            out.push(before);
            quote(key, out);
            out.push(':');
            out.push_str(&text);
            before = ',';
        }
        out.push('}');
    }
}

pub(super) fn quoted(text: &str) -> String {
    let mut out = String::new();
    quote(text, &mut out);
    out
}

fn entries(reader: &mut Reader) -> Step<Vec<(u32, u8)>> {
    let (mut entries, mut first) = (Vec::new(), true);
    let mut least = 0;
    reader.expect(b'[')?;
    while reader.more(&mut first, b']')? {
        reader.expect(b'[')?;
        let index = reader.small()?;
        reader.expect(b',')?;
        let mask = reader.small()?;
        reader.expect(b']')?;
        if index < least || index >= INDEX_LIMIT {
            return Err(reader.wrong("an index that does not rise or is too large"));
        }
        match u8::try_from(mask) {
            Ok(mask @ 1..) => entries.push((index, mask)),
            _ => return Err(reader.wrong("a mask beyond 1..255")),
        }
        least = index + 1;
    }
    Ok(entries)
}

fn contributors(reader: &mut Reader) -> Step<BTreeMap<String, u64>> {
    let mut contributors = BTreeMap::new();
    reader.object(|reader, name| {
        if name.is_empty() {
            return Err(reader.wrong("a contributor without a name"));
        }
        contributors.insert(name, reader.unsigned()?);
        Ok(())
    })?;
    Ok(contributors)
}

fn written_contributors(contributors: &BTreeMap<String, u64>) -> String {
    let members: Vec<String> = contributors
        .iter()
        .map(|(name, count)| format!("{}:{count}", quoted(name)))
        .collect();
    format!("{{{}}}", members.join(","))
}

fn written_entries(entries: &[(u32, u8)]) -> String {
    let mut out = String::with_capacity(entries.len() * 13 + 2);
    out.push('[');
    for (place, (index, mask)) in entries.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(out, "{comma}[{index},{mask}]");
    }
    out.push(']');
    out
}
