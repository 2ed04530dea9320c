//! `<session>.stats`: what a coordinator publishes of its handle for those who
//! watch. Nothing is decided by it.

use super::json::quote;
use super::number::python_float;
use super::reader::{Reader, Step};

/// The counters' names, sorted.
pub const NAMES: [&str; 8] = [
    "contended",
    "indeterminate",
    "locks",
    "retries",
    "syncs",
    "timeouts",
    "unsynced",
    "wait_ns",
];

/// Slots of the wait histogram that are read.
const WAITS_MAX: usize = 64;

/// A handle's counters at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    /// Random, the same in every root of the handle: counted once.
    pub handle: String,
    /// The coordinator, for people.
    pub owner: String,
    /// Unix seconds.
    pub updated: f64,
    /// In the order of [`NAMES`].
    pub values: [u64; NAMES.len()],
    /// Waits for locks by length: slot `n` counts those of 2^n microseconds up
    /// to the next power.
    pub waits: Vec<u64>,
}

impl Published {
    /// One counter by its name; 0: there is none of this name.
    pub fn value(&self, name: &str) -> u64 {
        let place = NAMES.iter().position(|known| *known == name);
        place.map_or(0, |place| self.values[place])
    }

    /// One line of JSON. `updated` is finite.
    pub fn to_bytes(&self) -> Vec<u8> {
        let text = |text: &str| {
            let mut out = String::new();
            quote(text.as_bytes(), &mut out);
            out
        };
        let waits: Vec<String> = self.waits.iter().map(u64::to_string).collect();
        let mut members = vec![
            ("handle", text(&self.handle)),
            ("owner", text(&self.owner)),
            ("schema", "1".to_string()),
            ("updated", python_float(self.updated)),
            ("waits", format!("[{}]", waits.join(","))),
        ];
        let values = NAMES.iter().zip(&self.values);
        members.extend(values.map(|(name, value)| (*name, value.to_string())));
        members.sort();
        let members: Vec<String> = members
            .iter()
            .map(|(name, value)| format!("\"{name}\":{value}"))
            .collect();
        format!("{{{}}}\n", members.join(",")).into_bytes()
    }

    /// Reads it, or says why the bytes are none. Counters that a later version
    /// adds are passed over, those that it dropped are 0.
    pub fn parse(bytes: &[u8]) -> Result<Published, String> {
        let (mut all, mut schema, mut updated) = (Published::default(), None, None);
        let mut reader = Reader::new(bytes)?;
        reader.object(|reader, key| {
            match key.as_str() {
                "handle" => all.handle = reader.string()?,
                "owner" => all.owner = reader.string()?,
                "schema" => schema = Some(reader.unsigned()?),
                "updated" => updated = Some(reader.time()?),
                "waits" => all.waits = waits(reader)?,
                key => match NAMES.iter().position(|name| *name == key) {
                    Some(place) => all.values[place] = reader.unsigned()?,
                    None => {
                        reader.skip()?;
                    }
                },
            }
            Ok(())
        })?;
        reader.end()?;
        match (schema, updated) {
            (Some(1), Some(updated)) if !all.handle.is_empty() => Ok(Published { updated, ..all }),
            _ => Err("handle, schema or updated is missing or wrong".to_string()),
        }
    }
}

fn waits(reader: &mut Reader<'_>) -> Step<Vec<u64>> {
    let (mut all, mut first) = (Vec::new(), true);
    reader.expect(b'[')?;
    while reader.more(&mut first, b']')? {
        let value = reader.unsigned()?;
        if all.len() >= WAITS_MAX {
            return Err(reader.wrong("too many waits"));
        }
        all.push(value);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let one = Published {
            handle: "00ff".to_string(),
            owner: "a \"b\" ü".to_string(),
            updated: 12.5,
            values: [1, 2, 3, 4, 5, 6, 7, u64::MAX],
            waits: vec![0, 3, 1],
        };
        let bytes = one.to_bytes();
        assert_eq!(Published::parse(&bytes).unwrap(), one);
        assert_eq!(one.value("wait_ns"), u64::MAX);
        assert_eq!(one.value("contended"), 1);
        let keys: Vec<&str> = std::str::from_utf8(&bytes)
            .unwrap()
            .split('"')
            .filter(|word| NAMES.contains(word))
            .collect();
        assert!(keys.is_sorted(), "{keys:?}");
        for cut in 0..bytes.len() - 1 {
            assert!(Published::parse(&bytes[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn later_versions_and_damage() {
        let read = |text: &str| Published::parse(text.as_bytes());
        let later = read("{\"handle\":\"a\",\"new\":{\"x\":[1]},\"schema\":1,\"updated\":0}");
        assert_eq!(later.unwrap().values, [0; NAMES.len()]);
        for text in [
            "{}",
            "[]",
            "{\"handle\":\"\",\"schema\":1,\"updated\":0}",
            "{\"handle\":\"a\",\"schema\":2,\"updated\":0}",
            "{\"handle\":\"a\",\"schema\":1,\"updated\":NaN}",
            "{\"handle\":\"a\",\"locks\":-1,\"schema\":1,\"updated\":0}",
            "{\"handle\":\"a\",\"locks\":1.5,\"schema\":1,\"updated\":0}",
            "{\"handle\":\"a\",\"schema\":1,\"updated\":0} x",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        let many = "1,".repeat(WAITS_MAX) + "1";
        let text = format!("{{\"handle\":\"a\",\"schema\":1,\"updated\":0,\"waits\":[{many}]}}");
        assert!(read(&text).unwrap_err().contains("too many"));
    }
}
