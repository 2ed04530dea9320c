//! A write-ahead transaction over several shards (C5).

use super::number::python_float;
use super::reader::{Reader, Step};
use super::shard::{quoted, Shard, FILE_LIMIT};
use sha2::{Digest, Sha256};

/// Where the digest stands in a line with sorted keys: last.
const DIGEST_FIELD: &str = ",\"transaction_sha256\":";

/// What a transaction file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transaction {
    /// Shards of the whole map.
    pub shard_count: u32,
    /// Who wrote it.
    pub coordinator: String,
    /// When.
    pub created: f64,
    /// The shards as they shall be, in rising order.
    pub records: Vec<Shard>,
    /// How many bits each candidate brought.
    pub novel_by_candidate: Vec<u64>,
}

impl Transaction {
    /// Reads a file's bytes, or says why they are no such transaction.
    pub fn parse(shard_count: u32, bytes: &[u8]) -> Result<Transaction, String> {
        if bytes.len() > FILE_LIMIT {
            return Err("larger than 64 MiB".to_string());
        }
        let mut reader = Reader::new(bytes)?;
        let mut found = Transaction::default();
        let (mut fields, mut digest, mut schema) = (0, String::new(), 0);
        let mut digest_at = 0;
        reader.object(|reader, key| {
            fields += 1;
            match key.as_str() {
                "coordinator" => found.coordinator = reader.string()?,
                "created" => found.created = reader.time()?,
                "novel_by_candidate" => found.novel_by_candidate = counts(reader)?,
                "records" => found.records = records(reader, shard_count)?,
                "schema" => schema = reader.unsigned()?,
                "shard_count" => found.shard_count = reader.small()?,
                "transaction_sha256" => {
                    digest_at = reader.position();
                    digest = reader.string()?;
                }
                _ => return Err(reader.wrong(&format!("the unknown field {key:?}"))),
            }
            Ok(())
        })?;
        reader.end()?;
        if fields != 7 {
            return Err("a field is missing".to_string());
        }
        if schema != 1 {
            return Err("not schema 1".to_string());
        }
        if found.shard_count != shard_count {
            return Err(format!("made for {} shards", found.shard_count));
        }
        if !line_matches(bytes, digest_at, &digest) && found.sha256() != digest {
            return Err("transaction_sha256 is not that of its content".to_string());
        }
        Ok(found)
    }

    /// The file's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut line = self.content();
        let digest = hex(line.as_bytes());
        line.pop();
        line.push_str(DIGEST_FIELD);
        line.push_str(&quoted(&digest));
        line.push_str("}\n");
        line.into_bytes()
    }

    /// The file's name.
    pub fn file_name(&self) -> String {
        self.sha256() + ".json"
    }

    fn sha256(&self) -> String {
        hex(self.content().as_bytes())
    }

    /// The canonical text of everything but the digest.
    fn content(&self) -> String {
        let novel: Vec<String> = self.novel_by_candidate.iter().map(u64::to_string).collect();
        let mut out = format!(
            "{{\"coordinator\":{},\"created\":{},\"novel_by_candidate\":[{}],\"records\":[",
            quoted(&self.coordinator),
            python_float(self.created),
            novel.join(","),
        );
        for (place, record) in self.records.iter().enumerate() {
            if place > 0 {
                out.push(',');
            }
            record.write(&mut out);
        }
        out.push_str(&format!(
            "],\"schema\":1,\"shard_count\":{}}}",
            self.shard_count
        ));
        out
    }
}

/// Whether the digest is that of the line as it was written: a peer may print
/// a time as an integer, which is another text than ours.
fn line_matches(bytes: &[u8], digest_at: usize, digest: &str) -> bool {
    let tail = format!("{}}}", quoted(digest));
    let Some(head) = bytes[..digest_at].strip_suffix(DIGEST_FIELD.as_bytes()) else {
        return false;
    };
    if bytes[digest_at..].trim_ascii_end() != tail.as_bytes() {
        return false;
    }
    let hash = Sha256::new().chain_update(head).chain_update(b"}");
    lower_hex(&hash.finalize()) == digest
}

fn hex(bytes: &[u8]) -> String {
    lower_hex(&Sha256::digest(bytes))
}

fn lower_hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn counts(reader: &mut Reader) -> Step<Vec<u64>> {
    let (mut counts, mut first) = (Vec::new(), true);
    reader.expect(b'[')?;
    while reader.more(&mut first, b']')? {
        counts.push(reader.unsigned()?);
    }
    Ok(counts)
}

fn records(reader: &mut Reader, shard_count: u32) -> Step<Vec<Shard>> {
    let (mut records, mut first) = (Vec::<Shard>::new(), true);
    reader.expect(b'[')?;
    while reader.more(&mut first, b']')? {
        let record = Shard::read(reader, shard_count)?;
        if records
            .last()
            .is_some_and(|last| last.shard >= record.shard)
        {
            return Err(reader.wrong("shards that do not rise"));
        }
        records.push(record);
    }
    Ok(records)
}

/// The shard after recovery: a logged record ORed into what is there, or None
/// where that changes nothing. Never takes bits away.
pub fn union(base: &Shard, logged: &Shard) -> Option<Shard> {
    let entries = or(&base.entries, &logged.entries);
    let newer = logged.epoch > base.epoch;
    if !newer && entries == base.entries {
        return None;
    }
    let (mut shard, other) = if newer {
        (logged.clone(), base)
    } else {
        (base.clone(), logged)
    };
    for (name, count) in &other.contributors {
        let mine = shard.contributors.entry(name.clone()).or_default();
        *mine = (*mine).max(*count);
    }
    for (key, text) in &other.unknown {
        shard.unknown.entry(key.clone()).or_insert(text.clone());
    }
    if !newer {
        shard.epoch = shard.epoch.saturating_add(1);
    }
    shard.entries = entries;
    Some(shard)
}

/// The OR of two rising lists, in one walk.
pub fn or(left: &[(u32, u8)], right: &[(u32, u8)]) -> Vec<(u32, u8)> {
    let mut out = Vec::with_capacity(left.len() + right.len());
    let (mut a, mut b) = (0, 0);
    while a < left.len() && b < right.len() {
        let ((at, bits), (other, more)) = (left[a], right[b]);
        let index = at.min(other);
        let mine = if at == index { bits } else { 0 };
        let theirs = if other == index { more } else { 0 };
        out.push((index, mine | theirs));
        a += usize::from(at == index);
        b += usize::from(other == index);
    }
    out.extend_from_slice(&left[a..]);
    out.extend_from_slice(&right[b..]);
    out
}
