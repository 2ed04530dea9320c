//! What `symlease status --watch --json` wrote, read back.

use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::Value;

use crate::open::Failure;

/// One line of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Look {
    pub at: f64,
    pub bits: f64,
    pub edges: f64,
    pub alive: f64,
    pub live: f64,
    /// What waits to be taken over: expired, dead.
    pub left: f64,
    pub done: f64,
    pub locks: f64,
    pub contended: f64,
}

/// All lines, by time.
pub fn read(path: &Path) -> Result<Vec<Look>, Failure> {
    let named = |why: String| Failure::Words(format!("--history {}: {why}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| named(error.to_string()))?;
    let (mut all, mut cut) = (Vec::new(), None);
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|error| named(error.to_string()))?;
        // Whoever wrote it may have been killed in its last line.
        if let Some(before) = cut {
            return Err(named(format!("line {before}: not a line of status --json")));
        }
        match look(&line) {
            Some(look) => all.push(look),
            None if line.trim().is_empty() => {}
            None => cut = Some(number + 1),
        }
    }
    if all.is_empty() {
        return Err(named("no line of status --json in it".to_string()));
    }
    all.sort_by(|a, b| a.at.total_cmp(&b.at));
    Ok(all)
}

fn look(line: &str) -> Option<Look> {
    let value: Value = serde_json::from_str(line).ok()?;
    if value["schema"] != 1 {
        return None;
    }
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let sum = |name: &str| {
        let waits = &value["lock_waits"];
        number(&waits["living"][name]) + number(&waits["ended"][name])
    };
    let work = &value["work"];
    Some(Look {
        at: value["at"].as_f64()?,
        bits: number(&value["coverage"]["bits"]),
        edges: number(&value["coverage"]["edges"]),
        alive: number(&value["alive"]),
        live: number(&work["live"]),
        left: number(&work["expired"]) + number(&work["dead"]),
        done: number(&work["done"]),
        locks: sum("locks"),
        contended: sum("contended"),
    })
}

/// How much a number grew each second between two looks. A sweep takes counters
/// of the dead away: what fell grew not.
pub fn rate(looks: &[Look], value: fn(&Look) -> f64) -> Vec<(f64, f64)> {
    let pairs = looks.iter().zip(looks.iter().skip(1));
    pairs
        .filter(|(before, after)| after.at > before.at)
        .map(|(before, after)| {
            let grown = (value(after) - value(before)).max(0.0);
            (after.at, grown / (after.at - before.at))
        })
        .collect()
}
