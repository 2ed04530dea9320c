//! A session's file: its name says which process of which boot keeps it
//! locked, its one line which file it is (D2).

use super::id::hex;
use super::json::{parse, quote};
use super::number::unsigned;

/// The longest name that is looked at, in bytes.
const NAME_MAX: usize = 255;

/// The longest host that goes into a name, in bytes.
const HOST_MAX: usize = 64;

/// The largest session file that is read, in bytes.
pub const SESSION_MAX: u64 = 4096;

/// The parts of a session's name that a reader needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The boot of the kernel that holds its lock.
    pub boot: String,
    /// Its process, there.
    pub process: u32,
}

/// A new session's name: `<host>.<boot>.<pid>.<start>.<random>`.
pub fn name(host: &str, boot: &str, process: u32, start: u64, random: &[u8]) -> String {
    let (host, boot) = (word(host), word(boot));
    format!("{host}.{boot}.{process}.{start}.{}", hex(random))
}

/// Letters, digits and dashes; anything else becomes a dash, nothing `unknown`.
fn word(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let word: String = text.chars().take(HOST_MAX).map(plain).collect();
    if word.is_empty() {
        return "unknown".to_string();
    }
    word
}

/// The boot as it stands in names.
pub fn boot_word(boot: &str) -> String {
    word(boot)
}

/// Reads a name out of a record; `None`: it names no session file of ours.
pub fn parse_name(name: &str) -> Option<Name> {
    let plain = |part: &&str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let parts: Vec<&str> = name.split('.').collect();
    if name.len() > NAME_MAX || parts.len() != 5 || !parts.iter().all(plain) {
        return None;
    }
    Some(Name {
        boot: parts[1].to_string(),
        process: parts[2].parse().ok()?,
    })
}

/// What a session file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The host's name, for people.
    pub host: String,
    /// The boot.
    pub boot: String,
    /// The device that the file lay on for who made it.
    pub device: u64,
    /// The file's number there.
    pub inode: u64,
    /// The coordinator, for people.
    pub owner: String,
}

impl Header {
    /// One line of JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        let text = |text: &str| {
            let mut out = String::new();
            quote(text.as_bytes(), &mut out);
            out
        };
        format!(
            "{{\"boot\":{},\"device\":{},\"host\":{},\"inode\":{},\"owner\":{},\"schema\":1}}\n",
            text(&self.boot),
            self.device,
            text(&self.host),
            self.inode,
            text(&self.owner)
        )
        .into_bytes()
    }

    /// Reads it, or says why the bytes are none.
    pub fn parse(bytes: &[u8]) -> Result<Header, String> {
        let members = parse(bytes)?.members().ok_or("not a JSON object")?;
        let field = |key: &str| {
            let found = members.iter().find(|(name, _)| name == key.as_bytes());
            let found = found.map(|(_, text)| text.as_str());
            found.ok_or_else(|| format!("{key} is missing"))
        };
        let text = |key: &str| {
            let doc = parse(field(key)?.as_bytes())?;
            let bytes = doc.text().ok_or_else(|| format!("{key} is no text"))?;
            Ok::<String, String>(String::from_utf8_lossy(bytes).into_owned())
        };
        let number =
            |key: &str| unsigned(field(key)?).ok_or_else(|| format!("{key} is no integer >= 0"));
        Ok(Header {
            host: text("host")?,
            boot: text("boot")?,
            device: number("device")?,
            inode: number("inode")?,
            owner: text("owner")?,
        })
    }
}
