//! `map.json`: the size and build of the campaign's coverage map (C6).

use super::reader::{quote, Reader};

/// What `map.json` says. It never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapInfo {
    /// The build's identity; empty where nobody named one.
    pub identity: String,
    /// Bytes.
    pub size: u64,
}

impl MapInfo {
    /// The file's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = String::from("{\"identity\":");
        quote(&self.identity, &mut text);
        text.push_str(&format!(",\"schema\":1,\"size\":{}}}\n", self.size));
        text.into_bytes()
    }

    /// Reads it, or says why the bytes are none.
    pub fn parse(bytes: &[u8]) -> Result<MapInfo, String> {
        let (mut identity, mut size, mut schema) = (None, None, None);
        let mut reader = Reader::new(bytes)?;
        reader.object(|reader, key| {
            match key.as_str() {
                "identity" => identity = Some(reader.string()?),
                "size" => size = Some(reader.unsigned()?),
                "schema" => schema = Some(reader.unsigned()?),
                _ => {
                    reader.skip()?;
                }
            }
            Ok(())
        })?;
        reader.end()?;
        match (identity, size, schema) {
            (Some(identity), Some(size), Some(1)) if size > 0 => Ok(MapInfo { identity, size }),
            _ => Err("a field is missing or wrong".to_string()),
        }
    }
}
