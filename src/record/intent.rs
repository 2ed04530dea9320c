//! A group change under way: every member's old and new record (G1).

use sha2::{Digest, Sha256};

use super::id::{hex, is_id};
use super::lease::RECORD_MAX;
use super::reader::{quote, Reader, Step};

/// The largest intent, in bytes: a whole group fits whose payloads keep to
/// 1 MiB, even where every byte of them is escaped.
pub const INTENT_MAX: usize = 512 << 20;

/// The most members of a group.
const MEMBERS_MAX: usize = 64;

/// One record of the group: its text before and after, `None` where there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The record's id.
    pub id: String,
    /// What it was.
    pub old: Option<String>,
    /// What it shall be.
    pub new: Option<String>,
}

/// What an intent file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// In id order, each once.
    members: Vec<Member>,
}

impl Intent {
    /// An intent over 2 to 64 members in id order.
    pub fn new(members: Vec<Member>) -> Result<Intent, String> {
        if members.len() < 2 || members.len() > MEMBERS_MAX {
            let count = members.len();
            return Err(format!("{count} members, not 2 to {MEMBERS_MAX}"));
        }
        if let Some(bad) = members.iter().find(|member| !is_id(&member.id)) {
            return Err(format!("the id {:?}", bad.id));
        }
        if members.windows(2).any(|pair| pair[0].id >= pair[1].id) {
            return Err("ids that do not rise".to_string());
        }
        let large = |text: &Option<String>| text.as_ref().is_some_and(|t| t.len() > RECORD_MAX);
        if members.iter().any(|one| large(&one.old) || large(&one.new)) {
            return Err(format!("a record of more than {RECORD_MAX} bytes"));
        }
        Ok(Intent { members })
    }

    /// The members, in id order.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The file's name without its ending: the first member's id. Whoever
    /// writes it holds that member's lock, so there is one at a time, and the
    /// name of a temporary says whose lock proves its writer gone (H4).
    pub fn name(&self) -> &str {
        &self.members[0].id
    }

    /// Whether one of the ids is a member.
    pub fn shares(&self, ids: &[String]) -> bool {
        let member = |id: &String| {
            let found = self.members.binary_search_by(|member| member.id.cmp(id));
            found.is_ok()
        };
        ids.iter().any(member)
    }

    /// Reads a file's bytes, or says why they are no intent. Only the exact
    /// text that [`Intent::to_bytes`] writes is one: what is put back from here
    /// must be what was there.
    pub fn parse(bytes: &[u8]) -> Result<Intent, String> {
        if bytes.len() > INTENT_MAX {
            return Err("larger than 512 MiB".to_string());
        }
        let mut reader = Reader::new(bytes)?;
        let (mut found, mut schema) = (Vec::new(), 0);
        reader.object(|reader, key| {
            match key.as_str() {
                "intent_sha256" => drop(reader.string()?),
                "members" => found = members(reader)?,
                "schema" => schema = reader.unsigned()?,
                _ => return Err(reader.wrong(&format!("the unknown field {key:?}"))),
            }
            Ok(())
        })?;
        reader.end()?;
        if schema != 1 {
            return Err("not schema 1".to_string());
        }
        let intent = Intent::new(found)?;
        if intent.to_bytes() != bytes {
            return Err("not the text that its content and digest make".to_string());
        }
        Ok(intent)
    }

    /// One sorted line and a newline.
    pub fn to_bytes(&self) -> Vec<u8> {
        let content = self.content();
        let digest = hex(&Sha256::digest(content.as_bytes()));
        let rest = &content[1..];
        format!("{{\"intent_sha256\":\"{digest}\",{rest}\n").into_bytes()
    }

    /// The canonical text of everything but the digest.
    fn content(&self) -> String {
        let mut out = String::from("{\"members\":[");
        for (place, member) in self.members.iter().enumerate() {
            if place > 0 {
                out.push(',');
            }
            out.push_str(&format!("{{\"id\":\"{}\",\"new\":", member.id));
            write(&member.new, &mut out);
            out.push_str(",\"old\":");
            write(&member.old, &mut out);
            out.push('}');
        }
        out.push_str("],\"schema\":1}");
        out
    }
}

fn write(record: &Option<String>, out: &mut String) {
    match record {
        Some(text) => quote(text, out),
        None => out.push_str("null"),
    }
}

fn members(reader: &mut Reader) -> Step<Vec<Member>> {
    let (mut members, mut first) = (Vec::new(), true);
    reader.expect(b'[')?;
    while reader.more(&mut first, b']')? {
        let (mut id, mut old, mut new) = (String::new(), None, None);
        reader.object(|reader, key| {
            match key.as_str() {
                "id" => id = reader.string()?,
                "new" => new = record(reader)?,
                "old" => old = record(reader)?,
                _ => return Err(reader.wrong(&format!("the unknown field {key:?}"))),
            }
            Ok(())
        })?;
        members.push(Member { id, old, new });
        if members.len() > MEMBERS_MAX {
            return Err(reader.wrong("more members than a group has"));
        }
    }
    Ok(members)
}

fn record(reader: &mut Reader) -> Step<Option<String>> {
    if reader.peek() == b'"' {
        return reader.string().map(Some);
    }
    let range = reader.skip()?;
    match reader.slice(range) {
        "null" => Ok(None),
        _ => Err(reader.wrong("neither a record's text nor null")),
    }
}
