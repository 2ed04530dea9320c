//! What work a command is.

use std::os::unix::ffi::OsStrExt;

use symlease::record::id::{is_id, work_id};
use symlease::record::json::quote;
use symlease::record::path::to_text;

use crate::arguments::Run;
use crate::open::Failure;
use crate::text::clean;

/// The work's id, and the payload that a record gets of it.
pub struct Work {
    pub id: String,
    pub payload: Option<String>,
}

impl Work {
    pub fn of(asked: &Run) -> Result<Work, Failure> {
        if let Some(id) = &asked.id {
            if !is_id(id) {
                let words = format!("--id {}: not 64 lower-case hex digits", clean(id));
                return Err(Failure::Words(words));
            }
            let payload = Some(command_payload(asked));
            return Ok(Work {
                id: id.clone(),
                payload,
            });
        }
        let payload = match (&asked.payload, &asked.name) {
            (Some(payload), _) => payload.clone(),
            (None, Some(name)) => format!("{{\"name\":{}}}", quoted(name.as_bytes())),
            (None, None) => command_payload(asked),
        };
        let id = work_id(payload.as_bytes())
            .map_err(|why| Failure::Words(format!("--payload: {why}")))?;
        Ok(Work {
            id,
            payload: Some(payload),
        })
    }

    /// The start of the id, for people.
    pub fn short(&self) -> String {
        format!("work {}", &self.id[..16])
    }
}

/// `{"command":[…]}`; bytes that are no UTF-8 as Python writes them.
fn command_payload(asked: &Run) -> String {
    let words: Vec<String> = asked
        .command
        .iter()
        .map(|word| quoted(word.as_bytes()))
        .collect();
    format!("{{\"command\":[{}]}}", words.join(","))
}

fn quoted(bytes: &[u8]) -> String {
    let mut out = String::new();
    quote(&to_text(bytes), &mut out);
    out
}
