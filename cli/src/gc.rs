//! `symlease gc`.

use std::io::Write;

use serde_json::json;
use symlease::campaign::open::Request;
use symlease::engine::Collected;

use crate::arguments::Gc;
use crate::open::{request, there, Outcome, FINE};
use crate::text::{busy, count, styled, GOOD};

pub fn run(asked: &Gc, out: &mut dyn Write) -> Outcome {
    let campaign = there(Request {
        no_session: true,
        ..request(&asked.place)?
    })?;
    let bar = busy("removing");
    let removed = campaign.engine().sweep().and_then(|swept| {
        let gone = match asked.peers_stopped {
            true => campaign.collect()?,
            false => Collected::default(),
        };
        Ok((swept, gone))
    });
    bar.finish_and_clear();
    let (swept, gone) = removed?;
    if asked.json {
        let all = json!({
            "leftovers": swept, "records": gone.records, "locks": gone.locks,
            "sessions": gone.sessions, "peers_stopped": asked.peers_stopped,
        });
        writeln!(out, "{all}")?;
        return Ok(FINE);
    }
    let removed = styled(GOOD, "removed");
    let leftovers = "leftover of dead processes";
    writeln!(
        out,
        "{removed}  {}",
        count(swept, leftovers, "leftovers of dead processes")
    )?;
    if asked.peers_stopped {
        let records = count(gone.records, "done record", "done records");
        let locks = count(gone.locks, "lock file", "lock files");
        let sessions = count(gone.sessions, "session", "sessions");
        writeln!(out, "{removed}  {records}, {locks}, {sessions}")?;
    }
    Ok(FINE)
}
