//! A lease record: every field kept as its canonical text, so that what this
//! version does not know survives (`format.md`, "Leases").

use std::collections::BTreeMap;

use super::json::{parse, quote, Numbers};
use super::number::{python_float, time, unsigned};

/// The largest record, in bytes.
pub const RECORD_MAX: usize = 4 << 20;

/// A TTL above this counts as this, in seconds.
const TTL_MAX: f64 = 86_400.0;

/// Where a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Somebody works on it, or did.
    Leased,
    /// Its result is being published.
    Committing,
    /// Finished.
    Done,
}

impl Status {
    /// The word in the record.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Leased => "leased",
            Status::Committing => "committing",
            Status::Done => "done",
        }
    }
}

/// One lease record.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    id: String,
    /// Keys as WTF-8 bytes: a stranger's key may hold a lone surrogate.
    fields: BTreeMap<Vec<u8>, String>,
    status: Status,
    token: Option<String>,
}

impl Lease {
    /// A record of nothing yet; a claim fills it.
    pub fn new(id: &str) -> Lease {
        let mut lease = Lease {
            id: id.to_string(),
            fields: BTreeMap::new(),
            status: Status::Leased,
            token: None,
        };
        lease.set_integer("schema", 1);
        lease.set_text("id", id);
        lease.set_raw("payload", "{}".to_string());
        lease
    }

    /// Reads a record, or says why the bytes are none. Nothing is guessed: a
    /// record that is not valid is CORRUPT for every call.
    pub fn parse(id: &str, bytes: &[u8]) -> Result<Lease, String> {
        if bytes.len() > RECORD_MAX {
            return Err(format!("{} bytes, more than {RECORD_MAX}", bytes.len()));
        }
        let members = parse(bytes)?.members().ok_or("not a JSON object")?;
        let fields: BTreeMap<_, _> = members.into_iter().collect();
        let status = match fields.get("status".as_bytes()).map(String::as_str) {
            Some("\"leased\"") => Status::Leased,
            Some("\"committing\"") => Status::Committing,
            Some("\"done\"") => Status::Done,
            _ => return Err("status is none of leased, committing, done".to_string()),
        };
        let mut lease = Lease {
            id: id.to_string(),
            fields,
            status,
            token: None,
        };
        lease.check()?;
        lease.token = lease.decoded_token();
        Ok(lease)
    }

    fn check(&self) -> Result<(), String> {
        let field = |key: &str| self.raw(key);
        let object = |text: &str| text.starts_with('{');
        let ttl = |text: &str| time(text).is_some_and(|ttl| ttl > 0.0);
        let present_is = |key: &str, good: &dyn Fn(&str) -> bool| field(key).is_none_or(good);
        let rules = [
            (field("schema") == Some("1"), "schema is not 1"),
            (
                self.text("id").as_deref() == Some(self.id.as_str()),
                "id differs from the name",
            ),
            (field("payload").is_some_and(object), "payload is no object"),
            (
                field("token").is_some_and(|text| text.starts_with('"') && text.len() > 2),
                "token is no text, or empty",
            ),
            (
                field("updated").and_then(time).is_some(),
                "updated is no finite time >= 0",
            ),
            (present_is("commit", &object), "commit is no object"),
            (present_is("ttl", &ttl), "ttl is no finite number > 0"),
            (
                present_is("fence", &|text| unsigned(text).is_some()),
                "fence is no 64-bit integer",
            ),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, why)) => Err((*why).to_string()),
            None => Ok(()),
        }
    }

    /// One sorted line and a newline.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = String::from("{");
        for (position, (key, text)) in self.fields.iter().enumerate() {
            if position > 0 {
                out.push(',');
            }
            quote(key, &mut out);
            out.push(':');
            out.push_str(text);
        }
        out.push_str("}\n");
        out.into_bytes()
    }

    /// The record's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where it stands.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The current token; `None` where a peer's cannot be a C string.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The payload's canonical text.
    pub fn payload(&self) -> &str {
        self.raw("payload").unwrap_or("{}")
    }

    /// The manifest's canonical text.
    pub fn commit(&self) -> Option<&str> {
        self.raw("commit")
    }

    /// Who holds or held it.
    pub fn owner(&self) -> String {
        self.text("owner").unwrap_or_default()
    }

    /// Who held it before.
    pub fn previous_owner(&self) -> String {
        self.text("previous_owner").unwrap_or_default()
    }

    /// Unix seconds of the last heartbeat; 0 after an abandon.
    pub fn updated(&self) -> f64 {
        self.raw("updated").and_then(time).unwrap_or(0.0)
    }

    /// Unix seconds of the completion.
    pub fn completed(&self) -> Option<f64> {
        self.raw("completed").and_then(time)
    }

    /// The TTL written in it, in seconds.
    pub fn ttl(&self) -> Option<f64> {
        self.raw("ttl").and_then(time).map(|ttl| ttl.min(TTL_MAX))
    }

    /// The fence, where symlease wrote one.
    pub fn fence(&self) -> Option<u64> {
        self.raw("fence").and_then(unsigned)
    }

    /// Changes by symlease.
    pub fn version(&self) -> u64 {
        self.raw("version").and_then(unsigned).unwrap_or(0)
    }

    /// The branch target, in target records.
    pub fn target(&self) -> Option<u64> {
        self.raw("target").and_then(unsigned)
    }

    /// The whole group in id order, in target records; `None` where a peer
    /// wrote anything but a list of 64-bit integers.
    pub fn targets(&self) -> Option<Vec<u64>> {
        let list = self.raw("targets")?.strip_prefix('[')?.strip_suffix(']')?;
        if list.is_empty() {
            return Some(Vec::new());
        }
        list.split(',').map(unsigned).collect()
    }

    /// The session file's name.
    pub fn session(&self) -> Option<String> {
        self.text("session")
    }

    /// The rank shown; 0 where a peer wrote something else.
    pub fn worker(&self) -> u32 {
        self.count("worker")
    }

    /// How often a commit of it was taken up again.
    pub fn replays(&self) -> u32 {
        self.count("replays")
    }

    /// Claims so far.
    pub fn attempts(&self) -> u32 {
        self.count("attempts")
    }

    /// Claims that changed the owner.
    pub fn steals(&self) -> u32 {
        self.count("steals")
    }

    /// Names a session, or none.
    pub fn name_session(&mut self, name: Option<&str>) {
        match name {
            Some(name) => self.set_text("session", name),
            None => self.remove("session"),
        }
    }

    /// Writes a text field.
    pub fn set_text(&mut self, key: &str, value: &str) {
        let mut text = String::new();
        quote(value.as_bytes(), &mut text);
        self.set_raw(key, text);
    }

    /// Writes an integer field.
    pub fn set_integer(&mut self, key: &str, value: u64) {
        self.set_raw(key, value.to_string());
    }

    /// Writes a float field; the caller has checked that it is finite (F20).
    pub fn set_float(&mut self, key: &str, value: f64) {
        assert!(value.is_finite(), "{key} must be finite");
        self.set_raw(key, python_float(value));
    }

    /// Writes a field's canonical text.
    pub fn set_raw(&mut self, key: &str, text: String) {
        match (key, text.as_str()) {
            ("status", "\"leased\"") => self.status = Status::Leased,
            ("status", "\"committing\"") => self.status = Status::Committing,
            ("status", "\"done\"") => self.status = Status::Done,
            _ => {}
        }
        self.fields.insert(key.as_bytes().to_vec(), text);
        if key == "token" {
            self.token = self.decoded_token();
        }
    }

    /// Drops a field.
    pub fn remove(&mut self, key: &str) {
        self.fields.remove(key.as_bytes());
        if key == "token" {
            self.token = None;
        }
    }

    fn raw(&self, key: &str) -> Option<&str> {
        self.fields.get(key.as_bytes()).map(String::as_str)
    }

    fn decoded_token(&self) -> Option<String> {
        self.text("token").filter(|token| !token.contains('\0'))
    }

    fn text(&self, key: &str) -> Option<String> {
        let doc = parse(self.raw(key)?.as_bytes()).ok()?;
        String::from_utf8(doc.text()?.to_vec()).ok()
    }

    fn count(&self, key: &str) -> u32 {
        let number = self.raw(key).and_then(unsigned).unwrap_or(0);
        u32::try_from(number).unwrap_or(u32::MAX)
    }
}

/// A JSON object from a caller, made canonical with its numbers as written
/// (F21). The error says whether a limit was passed, and why in words.
pub fn canonical_object(text: &str, what: &str, limit: usize) -> Result<String, (bool, String)> {
    if text.len() > limit {
        return Err((
            true,
            format!("{what}: {} bytes, more than {limit}", text.len()),
        ));
    }
    let doc = parse(text.as_bytes()).map_err(|why| (false, format!("{what}: {why}")))?;
    if !doc.is_object() {
        return Err((false, format!("{what}: not a JSON object")));
    }
    let canonical = doc
        .canonical(Numbers::AsWritten)
        .map_err(|why| (false, format!("{what}: {why}")))?;
    if canonical.len() > limit {
        return Err((
            true,
            format!(
                "{what}: {} bytes as ASCII, more than {limit}",
                canonical.len()
            ),
        ));
    }
    Ok(canonical)
}
