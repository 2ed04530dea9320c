//! `symlease status`.

pub mod snapshot;
mod watch;

use std::io::Write;

use symlease::model::lease::Presence;

use crate::arguments::{State, Status};
use crate::open::{to_look, Outcome, FINE};
use crate::text::{clean, number, progress, span, styled, table, BAD, DIM, GOOD, HEAD, WARN};
use snapshot::{presence, Counts, Snapshot, Waits};

/// Troubles that are told; `fsck` tells all.
const TROUBLES: usize = 5;

pub fn run(asked: &Status, out: &mut dyn Write) -> Outcome {
    if asked.watch {
        return watch::run(asked, out);
    }
    let campaign = to_look(&asked.place)?;
    let bar = progress("records");
    let now = Snapshot::counting(&campaign, &bar);
    bar.finish_and_clear();
    let now = now?;
    if asked.json {
        writeln!(out, "{}", now.json())?;
    } else {
        people(&now, out)?;
    }
    Ok(FINE)
}

fn people(now: &Snapshot, out: &mut dyn Write) -> std::io::Result<()> {
    write!(out, "{}", leases(now))?;
    writeln!(out)?;
    if let Some(coverage) = &now.coverage {
        let size = coverage
            .map_size
            .map_or("a map of no fixed size".to_string(), |size| {
                format!("a map of {} bytes", number(size))
            });
        writeln!(
            out,
            "{}  {} edges, {} bits in {size}; {} of {} shards written",
            styled(HEAD, "coverage"),
            number(coverage.edges),
            number(coverage.bits),
            coverage.written,
            coverage.shards,
        )?;
    }
    writeln!(out, "{}  {}", styled(HEAD, "locks   "), waits(&now.waits))?;
    if let Some(first) = now.expiries.first() {
        let (left, owner) = (span(first.remaining), clean(&first.owner));
        let id = &first.id[..16];
        writeln!(
            out,
            "{}  the next in {left}: {id} of {owner}",
            styled(HEAD, "expiries")
        )?;
    }
    writeln!(out)?;
    if !now.processes.is_empty() {
        write!(out, "{}", processes(now))?;
    }
    for one in &now.coordinators {
        let age = span((now.at - one.beat.updated).max(0.0));
        let id = clean(&one.beat.id);
        let (style, words) = if one.live {
            (GOOD, "fresh")
        } else {
            (DIM, "stale")
        };
        let place = format!("{} of {}", one.beat.index, one.beat.count);
        let words = styled(style, words);
        writeln!(
            out,
            "coordinator {place}: {id}, heartbeat {age} ago, {words}"
        )?;
    }
    troubles(now, out)
}

/// Records by owner and state; the sums come last.
fn leases(now: &Snapshot) -> String {
    let used = |state: State, pick: fn(&Snapshot) -> &Counts| pick(now).of(state) > 0;
    let mut columns: Vec<State> = vec![State::Live, State::Committing, State::Done];
    for state in snapshot::STATES {
        let anywhere = used(state, |now| &now.work) || used(state, |now| &now.target);
        if anywhere && !columns.contains(&state) && state != State::Damaged {
            columns.insert(columns.len() - 2, state);
        }
    }
    let mut head = vec!["OWNER", "TABLE"];
    head.extend(columns.iter().map(|state| crate::records::word(*state)));
    let right: Vec<usize> = (2..head.len()).collect();
    let mut rows = Vec::new();
    let mut row = |name: &str, table: &str, counts: &Counts| {
        if counts.total() == 0 {
            return;
        }
        let mut cells = vec![clean(name), table.to_string()];
        cells.extend(columns.iter().map(|state| match counts.of(*state) {
            0 => "-".to_string(),
            many => number(many),
        }));
        rows.push(cells);
    };
    for (name, owner) in &now.owners {
        row(name, "work", &owner.work);
        row(name, "target", &owner.target);
    }
    row("all", "work", &now.work);
    row("all", "target", &now.target);
    if rows.is_empty() {
        return "no lease records\n".to_string();
    }
    table(&head, &right, &rows)
}

fn waits(waits: &[Waits; 2]) -> String {
    let words = |waits: &Waits| {
        format!(
            "{} taken, {} waited for ({}), {} given up",
            number(waits.locks),
            number(waits.contended),
            span(waits.wait_ns as f64 / 1e9),
            number(waits.timeouts),
        )
    };
    match (waits[0].handles, waits[1].handles) {
        (0, 0) => "no coordinator has published counters".to_string(),
        (_, 0) => words(&waits[0]),
        (0, _) => format!("{} (by coordinators that ended)", words(&waits[1])),
        _ => format!(
            "{}; by coordinators that ended: {}",
            words(&waits[0]),
            words(&waits[1])
        ),
    }
}

fn processes(now: &Snapshot) -> String {
    let rows: Vec<Vec<String>> = now
        .processes
        .iter()
        .map(|one| {
            let counted = |value: fn(&Waits) -> u64| {
                one.waits
                    .as_ref()
                    .map_or("-".to_string(), |waits| number(value(waits)))
            };
            vec![
                clean(&one.owner),
                clean(&one.host),
                one.process.to_string(),
                presence(one.presence).to_string(),
                counted(|waits| waits.locks),
                counted(|waits| waits.contended),
                one.waits
                    .map_or("-".to_string(), |waits| span(waits.wait_ns as f64 / 1e9)),
                one.told
                    .map_or("-".to_string(), |ago| format!("{} ago", span(ago))),
            ]
        })
        .collect();
    let head = [
        "COORDINATOR",
        "HOST",
        "PID",
        "PROCESS",
        "LOCKS",
        "WAITED",
        "FOR",
        "TOLD",
    ];
    table(&head, &[2, 4, 5, 6, 7], &rows)
}

fn troubles(now: &Snapshot, out: &mut dyn Write) -> std::io::Result<()> {
    let coverage = now.coverage.iter().flat_map(|coverage| &coverage.damaged);
    let all: Vec<&String> = now.troubles.iter().chain(coverage).collect();
    for trouble in all.iter().take(TROUBLES) {
        writeln!(out, "{}  {}", styled(BAD, "damaged"), clean(trouble))?;
    }
    if all.len() > TROUBLES {
        let more = number((all.len() - TROUBLES) as u64);
        writeln!(
            out,
            "{}  {more} more; `symlease fsck` lists them",
            styled(BAD, "damaged")
        )?;
    }
    let unknown = now
        .processes
        .iter()
        .filter(|one| one.presence == Presence::Unknown)
        .count();
    if unknown > 0 {
        let words = "no lock proves here whether they live: their TTLs decide";
        writeln!(
            out,
            "{}  {unknown} of the coordinators: {words}",
            styled(WARN, "unknown")
        )?;
    }
    Ok(())
}
