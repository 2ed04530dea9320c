//! `symlease probe`.

use std::io::Write;

use serde_json::Value;
use symlease::campaign::probe::probe_directory;

use crate::arguments::Probe;
use crate::open::{absolute, Failure, Outcome, FINE, FOUND};
use crate::text::{clean, styled, BAD, DIM, GOOD, WARN};

pub fn run(asked: &Probe, out: &mut dyn Write) -> Outcome {
    if !(asked.timeout > 0.0 && asked.timeout <= 60.0) {
        let words = format!("--timeout: {} is not within (0, 60] seconds", asked.timeout);
        return Err(Failure::Words(words));
    }
    let report = probe_directory(&absolute(&asked.dir)?, asked.timeout)?;
    let parsed: Value = serde_json::from_str(&report)
        .map_err(|error| Failure::Words(format!("the probe's report: {error}")))?;
    let usable = parsed["usable"] == Value::Bool(true);
    if asked.json {
        writeln!(out, "{report}")?;
    } else {
        people(&parsed, usable, out)?;
    }
    Ok(if usable { FINE } else { FOUND })
}

fn people(report: &Value, usable: bool, out: &mut dyn Write) -> std::io::Result<()> {
    let text = |value: &Value| clean(value.as_str().unwrap_or_default());
    let list = |name: &str| report[name].as_array().cloned().unwrap_or_default();
    writeln!(
        out,
        "{} on {}",
        text(&report["root"]),
        text(&report["host"])
    )?;
    for what in list("proven") {
        writeln!(out, "  {}  {}", styled(GOOD, "proven    "), text(&what))?;
    }
    for one in list("failed") {
        let (what, error) = (text(&one["what"]), text(&one["error"]));
        writeln!(out, "  {}  {what}: {error}", styled(BAD, "failed    "))?;
    }
    for what in list("blocked") {
        writeln!(out, "  {}  {}", styled(BAD, "blocked   "), text(&what))?;
    }
    for what in list("skipped") {
        writeln!(out, "  {}  {}", styled(WARN, "not tried "), text(&what))?;
    }
    for what in list("not_proven") {
        writeln!(out, "  {}  {}", styled(DIM, "not proven"), text(&what))?;
    }
    match usable {
        true => writeln!(
            out,
            "{}: fit for processes of this host",
            styled(GOOD, "usable")
        ),
        false => writeln!(out, "{}: not fit for a campaign", styled(BAD, "not usable")),
    }
}
