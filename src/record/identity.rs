//! A root's `symlease.json`: what belongs to the campaign and not to the
//! process (M1).

use super::json::parse;
use super::number::unsigned;

/// The schema that this version writes.
pub const SCHEMA: u64 = 1;

/// What a campaign's root says of itself. It never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// 32 lower-case hex digits, random.
    pub campaign: String,
    /// Whether an answer of OK survives power loss.
    pub durable: bool,
    /// The engine's name.
    pub engine: String,
    /// The mode of files.
    pub mode: u32,
    /// Above [`SCHEMA`]: may be read, not changed.
    pub schema: u64,
    /// Folders of the root.
    pub shards: u32,
}

impl Identity {
    /// The file's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let durability = if self.durable { "power" } else { "process" };
        format!(
            "{{\"campaign\":\"{}\",\"durability\":\"{durability}\",\"engine\":\"{}\",\
             \"mode\":\"{:04o}\",\"schema\":{},\"shards\":{}}}\n",
            self.campaign, self.engine, self.mode, self.schema, self.shards
        )
        .into_bytes()
    }

    /// Reads it, or says why the bytes are none. Fields that a later schema
    /// adds are passed over.
    pub fn parse(bytes: &[u8]) -> Result<Identity, String> {
        let members = parse(bytes)?.members().ok_or("not a JSON object")?;
        let field = |key: &str| {
            let found = members.iter().find(|(name, _)| name == key.as_bytes());
            found
                .map(|(_, text)| text.as_str())
                .ok_or_else(|| format!("{key} is missing"))
        };
        let text = |key: &str| {
            let raw = field(key)?;
            let inner = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"'));
            inner
                .map(str::to_string)
                .ok_or_else(|| format!("{key} is no text"))
        };
        let number =
            |key: &str| unsigned(field(key)?).ok_or_else(|| format!("{key} is no integer >= 0"));
        let campaign = text("campaign")?;
        if campaign.len() != 32 || !campaign.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err("campaign is not 32 hex digits".to_string());
        }
        let durable = match text("durability")?.as_str() {
            "power" => true,
            "process" => false,
            other => return Err(format!("durability {other} is neither power nor process")),
        };
        let mode = u32::from_str_radix(&text("mode")?, 8)
            .ok()
            .filter(|mode| *mode <= 0o777);
        let shards = u32::try_from(number("shards")?)
            .ok()
            .filter(|n| (1..=4096).contains(n));
        let schema = number("schema")?;
        if schema == 0 {
            return Err("schema is 0".to_string());
        }
        Ok(Identity {
            campaign,
            durable,
            engine: text("engine")?,
            mode: mode.ok_or("mode is not octal, 0000 to 0777")?,
            schema,
            shards: shards.ok_or("shards is not 1 to 4096")?,
        })
    }
}

/// The bytes of a root's `fence.json`.
pub fn floor_bytes(floor: u64) -> Vec<u8> {
    format!("{{\"floor\":{floor},\"schema\":1}}\n").into_bytes()
}

/// The floor in a root's `fence.json`: every fence of a record that was removed
/// for good is at most this.
pub fn parse_floor(bytes: &[u8]) -> Result<u64, String> {
    let members = parse(bytes)?.members().ok_or("not a JSON object")?;
    let number = |key: &[u8]| {
        let found = members.iter().find(|(name, _)| name == key);
        found.and_then(|(_, text)| unsigned(text))
    };
    match (number(b"schema"), number(b"floor")) {
        (Some(1), Some(floor)) => Ok(floor),
        _ => Err("floor or schema is missing or wrong".to_string()),
    }
}
