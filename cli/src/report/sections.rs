//! What the page says, part by part.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use super::gather::Facts;
use super::history::{rate, Look};
use super::page::Page;
use super::svg::{bars, lines, Series, COLOURS};
use crate::arguments::State;
use crate::records::word;
use crate::status::snapshot::{presence, STATES};
use crate::text::{count, number, span};

/// Rows of a list; the smallest are summed up.
const ROWS: usize = 20;
/// Troubles that are told; `fsck` tells all.
const TROUBLES: usize = 20;
const BUCKETS: [&str; 8] = ["1", "2", "3", "4-7", "8-15", "16-31", "32-127", "128+"];

pub fn page(title: &str, place: &str, facts: &Facts, looks: &[Look]) -> String {
    let (first, last) = facts.range();
    let mut below = vec![format!("{place}, looked at {}", utc(facts.now.at))];
    if last > first {
        let length = span(last - first);
        below.push(format!("from {} on, for {length}", utc(first)));
    }
    let mut page = Page::new(title, &below);
    numbers(&mut page, facts);
    troubles(&mut page, facts);
    work(&mut page, facts);
    results(&mut page, facts);
    coverage(&mut page, facts, looks);
    coordinators(&mut page, facts, looks);
    page.into_html()
}

/// A time that everybody reads the same way.
fn utc(seconds: f64) -> String {
    let since = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let time = UNIX_EPOCH.checked_add(since.min(Duration::from_secs(253_402_300_799)));
    let text = humantime::format_rfc3339_seconds(time.unwrap_or(UNIX_EPOCH)).to_string();
    text.replace('T', " ").replace('Z', " UTC")
}

fn numbers(page: &mut Page, facts: &Facts) {
    let now = &facts.now;
    let mut all = vec![
        (number(now.work.of(State::Done)), "work done"),
        (number(now.work.of(State::Live)), "at work"),
        (number(facts.steals), "takeovers"),
    ];
    if let Some(coverage) = &now.coverage {
        all.push((number(coverage.edges), "edges"));
        all.push((number(coverage.bits), "coverage bits"));
    }
    let files: usize = facts.corpora.values().map(Vec::len).sum();
    all.push((number(files as u64), "corpus files"));
    all.push((now.alive().to_string(), "alive now"));
    page.numbers(&all);
}

fn troubles(page: &mut Page, facts: &Facts) {
    let now = &facts.now;
    let coverage = now.coverage.iter().flat_map(|coverage| &coverage.damaged);
    let all: Vec<&String> = now.troubles.iter().chain(coverage).collect();
    if all.is_empty() {
        return;
    }
    page.head("Damaged");
    for trouble in all.iter().take(TROUBLES) {
        page.say("bad", trouble);
    }
    if all.len() > TROUBLES {
        let more = number((all.len() - TROUBLES) as u64);
        page.say("bad", &format!("{more} more; `symlease fsck` lists them"));
    }
}

/// Sums that grow, one line for each of the largest names.
fn grow(events: &[(f64, &str, u64)], end: f64) -> Vec<Series> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, name, many) in events {
        *sums.entry(name).or_default() += many;
    }
    let mut names: Vec<(&str, u64)> = sums.into_iter().collect();
    names.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let others = names.len() > COLOURS;
    let own = if others { COLOURS - 1 } else { names.len() };
    let mut all: Vec<Series> = names[..own]
        .iter()
        .map(|(name, _)| Series {
            name: (*name).to_string(),
            points: Vec::new(),
        })
        .collect();
    if others {
        all.push(Series {
            name: format!("{} others", names.len() - own),
            points: Vec::new(),
        });
    }
    let mut sums = vec![0.0; all.len()];
    for (at, name, many) in events {
        let place = names[..own].iter().position(|(one, _)| one == name);
        let place = place.unwrap_or(own);
        sums[place] += *many as f64;
        all[place].points.push((*at, sums[place]));
    }
    for (series, sum) in all.iter_mut().zip(sums) {
        series.points.push((end, sum));
    }
    all
}

fn work(page: &mut Page, facts: &Facts) {
    page.head("Work");
    let rows: Vec<Vec<String>> = [("work", &facts.now.work), ("target", &facts.now.target)]
        .into_iter()
        .filter(|(_, counts)| counts.total() > 0)
        .map(|(table, counts)| {
            let cells = STATES.iter().map(|state| number(counts.of(*state)));
            std::iter::once(table.to_string()).chain(cells).collect()
        })
        .collect();
    if rows.is_empty() {
        page.say("dim", "no lease records");
        return;
    }
    let mut head = vec!["leases"];
    head.extend(STATES.iter().map(|state| word(*state)));
    page.table(&head, &rows);
    if facts.done.is_empty() {
        return;
    }
    let (first, last) = facts.range();
    let events: Vec<(f64, &str, u64)> = facts
        .done
        .iter()
        .map(|done| (done.at, done.owner.as_str(), 1))
        .collect();
    page.head("Work done over time, by who finished it");
    page.plot(&lines(
        &grow(&events, last),
        first,
        last,
        true,
        "work done over time",
    ));
    let took: Vec<f64> = facts.done.iter().filter_map(|done| done.took).collect();
    if !took.is_empty() {
        page.head("From the last claim to done");
        page.plot(&bars(&durations(&took), "time from claim to done"));
    }
    let again = facts.done.iter().filter(|done| done.attempts > 1).count() as u64;
    if again > 0 {
        let words = count(again, "work item", "work items");
        page.say("dim", &format!("{words} done after more than one claim"));
    }
}

/// Lengths in powers of ten and their halves.
fn durations(all: &[f64]) -> Vec<(String, u64)> {
    let edges = [0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 600.0, 3600.0, 36_000.0];
    let mut sums = vec![0; edges.len() + 1];
    for seconds in all {
        let place = edges.iter().position(|edge| seconds < edge);
        sums[place.unwrap_or(edges.len())] += 1;
    }
    let names = edges.iter().map(|edge| format!("under {}", span(*edge)));
    let last = format!("{} and more", span(edges[edges.len() - 1]));
    let rows: Vec<(String, u64)> = names.chain([last]).zip(sums).collect();
    let used = |(_, many): &(String, u64)| *many > 0;
    let start = rows.iter().position(used).unwrap_or(0);
    let end = rows.iter().rposition(used).map_or(0, |end| end + 1);
    rows[start..end].to_vec()
}

fn results(page: &mut Page, facts: &Facts) {
    let (first, last) = facts.range();
    let offered: Vec<(f64, &str, u64)> = facts
        .done
        .iter()
        .filter(|done| done.results > 0)
        .map(|done| (done.at, done.owner.as_str(), done.results))
        .collect();
    if !offered.is_empty() {
        page.head("Results of finished commits over time");
        let plot = lines(
            &grow(&offered, last),
            first,
            last,
            true,
            "results over time",
        );
        page.plot(&plot);
        page.say(
            "dim",
            "Those that brought no new coverage are not published.",
        );
    }
    let files = facts.corpora.iter().flat_map(|(corpus, times)| {
        let one = move |at: &f64| (*at, corpus.as_str(), 1);
        times.iter().map(one)
    });
    let mut files: Vec<(f64, &str, u64)> = files.collect();
    if files.is_empty() {
        return;
    }
    files.sort_by(|a, b| a.0.total_cmp(&b.0));
    page.head("Files in the corpora over time");
    let plot = lines(
        &grow(&files, last),
        first,
        last,
        true,
        "corpus files over time",
    );
    page.plot(&plot);
    let names: Vec<&str> = facts.corpora.keys().map(String::as_str).collect();
    page.say("dim", &names.join(", "));
}

fn coverage(page: &mut Page, facts: &Facts, looks: &[Look]) {
    let Some(coverage) = &facts.now.coverage else {
        return;
    };
    page.head("Coverage");
    let size = coverage
        .map_size
        .map_or("of no fixed size".to_string(), |size| {
            format!("of {} bytes", number(size))
        });
    let build = coverage.map_identity.clone().filter(|one| !one.is_empty());
    let build = build.map_or(String::new(), |build| format!(", build {build}"));
    let words = format!(
        "a map {size}{build}; {} of {} shards written, {} changes",
        coverage.written,
        coverage.shards,
        number(coverage.changes)
    );
    page.say("dim", &words);
    if let (Some(first), Some(last)) = (looks.first(), looks.last()) {
        page.head("Coverage over time");
        let line = |name: &str, value: fn(&Look) -> f64| Series {
            name: name.to_string(),
            points: looks.iter().map(|look| (look.at, value(look))).collect(),
        };
        let both = [
            line("bits", |look| look.bits),
            line("edges", |look| look.edges),
        ];
        page.plot(&lines(
            &both,
            first.at,
            last.at,
            false,
            "coverage over time",
        ));
    }
    if facts.buckets.iter().any(|bits| *bits > 0) {
        page.head("Bits by hit count");
        let named = BUCKETS.iter().map(|name| (*name).to_string());
        let rows: Vec<(String, u64)> = named.zip(facts.buckets).collect();
        page.plot(&bars(&rows, "bits by hit count"));
    }
    if !facts.contributors.is_empty() {
        page.head("Shard changes, by contributor");
        let all = facts.contributors.iter();
        let rows = largest(all.map(|(name, many)| (name.clone(), *many)).collect());
        page.plot(&bars(&rows, "changes by contributor"));
    }
}

fn largest(mut rows: Vec<(String, u64)>) -> Vec<(String, u64)> {
    rows.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    if rows.len() > ROWS {
        let rest = rows.split_off(ROWS - 1);
        let sum = rest.iter().map(|(_, many)| many).sum();
        rows.push((format!("{} others", rest.len()), sum));
    }
    rows
}

fn coordinators(page: &mut Page, facts: &Facts, looks: &[Look]) {
    page.head("Coordinators");
    if let (Some(first), Some(last)) = (looks.first(), looks.last()) {
        let line = |name: &str, value: fn(&Look) -> f64| Series {
            name: name.to_string(),
            points: looks.iter().map(|look| (look.at, value(look))).collect(),
        };
        let all = [
            line("coordinators alive", |look| look.alive),
            line("leases at work", |look| look.live),
            line("leases of the dead, or expired", |look| look.left),
        ];
        page.plot(&lines(
            &all,
            first.at,
            last.at,
            true,
            "coordinators over time",
        ));
        page.head("Locks taken, and waited for, each second");
        let both = [
            ("taken", rate(looks, |look| look.locks)),
            ("waited for", rate(looks, |look| look.contended)),
        ];
        let both = both.map(|(name, points)| Series {
            name: name.to_string(),
            points,
        });
        page.plot(&lines(&both, first.at, last.at, false, "locks over time"));
    }
    let processes = &facts.now.processes;
    if processes.is_empty() {
        page.say(
            "dim",
            "no sessions: none works here, or all work without one",
        );
    } else {
        let rows: Vec<Vec<String>> = processes.iter().take(ROWS).map(process).collect();
        let head = [
            "coordinator",
            "host",
            "pid",
            "process",
            "locks",
            "waited for",
            "for",
        ];
        page.table(&head, &rows);
    }
    if processes.len() > ROWS {
        let more = count(
            (processes.len() - ROWS) as u64,
            "more process",
            "more processes",
        );
        page.say("dim", &format!("and {more}"));
    }
    if facts.waits.iter().any(|many| *many > 0) {
        page.head("Waits for locks, by length");
        let rows: Vec<(String, u64)> = facts
            .waits
            .iter()
            .enumerate()
            .skip_while(|(_, many)| **many == 0)
            .map(|(slot, many)| {
                (
                    format!("{} and more", microseconds(1 << slot.min(62))),
                    *many,
                )
            })
            .collect();
        page.plot(&bars(&rows, "waits for locks by length"));
    }
}

fn microseconds(value: u64) -> String {
    match value {
        value if value < 1000 => format!("{value} µs"),
        value if value < 1_000_000 => format!("{} ms", value / 1000),
        value => span((value / 1_000_000) as f64),
    }
}

fn process(one: &crate::status::snapshot::Process) -> Vec<String> {
    let waits = |value: &dyn Fn(&crate::status::snapshot::Waits) -> String| {
        one.waits.as_ref().map_or("-".to_string(), value)
    };
    vec![
        one.owner.clone(),
        one.host.clone(),
        one.process.to_string(),
        presence(one.presence).to_string(),
        waits(&|waits| number(waits.locks)),
        waits(&|waits| number(waits.contended)),
        waits(&|waits| span(waits.wait_ns as f64 / 1e9)),
    ]
}
