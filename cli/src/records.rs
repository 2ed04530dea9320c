//! `symlease ls` and `symlease show`.

use std::io::Write;

use indicatif::ProgressBar;
use serde_json::{json, Value};
use symlease::campaign::look::Found;
use symlease::campaign::survey::{commit_of, Commit};
use symlease::campaign::Campaign;
use symlease::engine::Table;
use symlease::model::lease::{Judge, Life, Presence};
use symlease::record::id::{is_id, target_id};
use symlease::record::lease::{Lease, Status};

use crate::arguments::{self, Leases, List, Show, State};
use crate::open::{to_look, Failure, Outcome, FINE, FOUND};
use crate::text::{clean, path, progress, span, styled, table, HEAD};

/// A record, judged.
pub struct Judged<'a> {
    pub lease: &'a Lease,
    pub state: State,
    pub presence: Presence,
    /// Seconds until its TTL; below 0: past.
    pub remaining: f64,
}

/// Judges a record as every coordinator would.
pub fn judge<'a>(campaign: &Campaign, table: Table, judge: &Judge, lease: &'a Lease) -> Judged<'a> {
    let evidence = campaign.evidence(table, lease, judge);
    let state = match (lease.status(), judge.life(lease, &evidence)) {
        (Status::Done, _) => State::Done,
        (Status::Committing, _) => State::Committing,
        (_, Life::Live) => State::Live,
        (_, Life::Expired) => State::Expired,
        (_, Life::Abandoned) => State::Abandoned,
        (_, Life::Dead) => State::Dead,
        (_, Life::Future) => State::Future,
    };
    Judged {
        lease,
        state,
        presence: evidence.presence,
        remaining: judge.remaining(lease, &evidence),
    }
}

/// A state as it is written.
pub fn word(state: State) -> &'static str {
    match state {
        State::Live => "live",
        State::Expired => "expired",
        State::Abandoned => "abandoned",
        State::Dead => "dead",
        State::Future => "future",
        State::Committing => "committing",
        State::Done => "done",
        State::Damaged => "damaged",
    }
}

pub fn table_of(leases: Leases) -> Table {
    match leases {
        Leases::Work => Table::Work,
        Leases::Target => Table::Target,
    }
}

pub fn list(asked: &List, out: &mut dyn Write) -> Outcome {
    let campaign = to_look(&asked.place)?;
    let table = table_of(asked.table);
    let judge_of = campaign.judge(table, campaign.now()?, None);
    let mut rows = Vec::new();
    let (mut shown, mut failed) = (0, Ok(()));
    // Rows come one by one where they are JSON: no bar among them.
    let bar = match asked.json {
        true => ProgressBar::hidden(),
        false => progress("records"),
    };
    let scanned = campaign.scan(table, None, &mut |found| {
        bar.inc(1);
        let judged = match &found.record {
            Ok(lease) => Some(judge(&campaign, table, &judge_of, lease)),
            Err(_) => None,
        };
        if !wanted(asked, judged.as_ref()) {
            return true;
        }
        shown += 1;
        if asked.json {
            failed = writeln!(out, "{}", object(&found, judged.as_ref()));
        } else {
            rows.push(row(&found, judged.as_ref(), judge_of.now));
        }
        failed.is_ok() && (asked.limit == 0 || shown < asked.limit)
    });
    bar.finish_and_clear();
    scanned?;
    failed?;
    if !asked.json {
        let mut head = vec!["ID", "STATE", "OWNER", "AGE", "LEFT", "CLAIMS", "FENCE"];
        if table == Table::Target {
            head.push("TARGET");
        }
        write!(out, "{}", self::table(&head, &[3, 4, 5, 6, 7], &rows))?;
    }
    Ok(FINE)
}

fn wanted(asked: &List, judged: Option<&Judged<'_>>) -> bool {
    let state = judged.map_or(State::Damaged, |judged| judged.state);
    let owned = |owner: &String| judged.is_some_and(|judged| judged.lease.owner() == *owner);
    (asked.state.is_empty() || asked.state.contains(&state))
        && asked.owner.as_ref().is_none_or(owned)
}

fn row(found: &Found, judged: Option<&Judged<'_>>, now: f64) -> Vec<String> {
    let id = found.id[..16].to_string();
    let Some(judged) = judged else {
        return vec![id, word(State::Damaged).to_string()];
    };
    let lease = judged.lease;
    let leased = lease.status() == Status::Leased && lease.updated() != 0.0;
    let age = match lease.updated() {
        0.0 => "-".to_string(),
        updated => span((now - updated).max(0.0)),
    };
    let left = match leased && judged.remaining > 0.0 {
        true => span(judged.remaining),
        false => "-".to_string(),
    };
    let fence = lease
        .fence()
        .map_or("-".to_string(), |fence| fence.to_string());
    let mut row = vec![
        id,
        word(judged.state).to_string(),
        clean(&lease.owner()),
        age,
        left,
        lease.attempts().to_string(),
        fence,
    ];
    row.extend(lease.target().map(|target| target.to_string()));
    row
}

/// One record for programs.
fn object(found: &Found, judged: Option<&Judged<'_>>) -> Value {
    let judged = match (judged, &found.record) {
        (Some(judged), _) => judged,
        (None, Err(why)) => {
            return json!({"id": found.id, "state": "damaged", "why": why.text});
        }
        (None, Ok(_)) => return json!({"id": found.id}),
    };
    let lease = judged.lease;
    json!({
        "id": found.id,
        "state": word(judged.state),
        "owner": lease.owner(),
        "previous_owner": lease.previous_owner(),
        "worker": lease.worker(),
        "updated": lease.updated(),
        "remaining": judged.remaining,
        "ttl": lease.ttl(),
        "attempts": lease.attempts(),
        "steals": lease.steals(),
        "fence": lease.fence(),
        "completed": lease.completed(),
        "session": lease.session(),
        "holder": presence(judged.presence),
        "target": lease.target(),
    })
}

fn presence(presence: Presence) -> &'static str {
    match presence {
        Presence::Alive => "alive",
        Presence::Dead => "dead",
        Presence::Unknown => "unknown",
    }
}

pub fn show(asked: &Show, out: &mut dyn Write) -> Outcome {
    let campaign = to_look(&asked.place)?;
    let table = match asked.table {
        arguments::Table::Work => Table::Work,
        arguments::Table::Target => Table::Target,
        arguments::Table::Coverage => return show_shard(asked, &campaign, out),
    };
    let Some(id) = resolve(&campaign, table, &asked.id)? else {
        writeln!(
            std::io::stderr(),
            "symlease: no record {}",
            clean(&asked.id)
        )?;
        return Ok(FOUND);
    };
    let Some(text) = campaign.record(table, &id)? else {
        writeln!(std::io::stderr(), "symlease: no record {id}")?;
        return Ok(FOUND);
    };
    if asked.raw {
        writeln!(out, "{text}")?;
        return Ok(FINE);
    }
    let lease = Lease::parse(&id, text.as_bytes())
        .map_err(|why| Failure::Words(format!("record {id}: {why}")))?;
    let judge_of = campaign.judge(table, campaign.now()?, None);
    people(
        &campaign,
        &judge(&campaign, table, &judge_of, &lease),
        judge_of.now,
        out,
    )?;
    Ok(FINE)
}

fn show_shard(asked: &Show, campaign: &Campaign, out: &mut dyn Write) -> Outcome {
    let number = asked
        .id
        .parse()
        .map_err(|_| Failure::Words(format!("{}: not a shard's number", clean(&asked.id))))?;
    match campaign.shard_record(number)? {
        Some(text) => writeln!(out, "{text}")?,
        None => {
            writeln!(
                std::io::stderr(),
                "symlease: nobody has written shard {number}"
            )?;
            return Ok(FOUND);
        }
    }
    Ok(FINE)
}

/// The one id that is meant.
pub fn resolve(campaign: &Campaign, table: Table, given: &str) -> Result<Option<String>, Failure> {
    if is_id(given) {
        return Ok(Some(given.to_string()));
    }
    if let Some(target) = given.strip_prefix("t:") {
        let wrong = |_| Failure::Words(format!("{}: not t:NUMBER", clean(given)));
        return Ok(Some(target_id(target.parse().map_err(wrong)?)));
    }
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if given.is_empty() || given.len() > 64 || !given.bytes().all(hex) {
        let words = format!(
            "{}: an id is 64 lower-case hex digits, or their start",
            clean(given)
        );
        return Err(Failure::Words(words));
    }
    let all = campaign.engine().list(table)?;
    let mut fitting = all.into_iter().filter(|id| id.starts_with(given));
    match (fitting.next(), fitting.next()) {
        (Some(one), Some(other)) => {
            let words = format!("{given}: more than one record begins so: {one}, {other}");
            Err(Failure::Words(words))
        }
        (one, _) => Ok(one),
    }
}

fn people(
    campaign: &Campaign,
    judged: &Judged<'_>,
    now: f64,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let lease = judged.lease;
    let mut line = |name: &str, value: String| -> std::io::Result<()> {
        match value.is_empty() {
            true => Ok(()),
            false => writeln!(out, "{}  {value}", styled(HEAD, &format!("{name:<14}"))),
        }
    };
    let ago = |time: f64| match time {
        0.0 => "never, or given back".to_string(),
        time if time > now => format!("{} ahead of this clock", span(time - now)),
        time => format!("{} ago", span(now - time)),
    };
    line("id", lease.id().to_string())?;
    line("state", word(judged.state).to_string())?;
    line("owner", clean(&lease.owner()))?;
    line("worker", lease.worker().to_string())?;
    line("before", clean(&lease.previous_owner()))?;
    line("heartbeat", ago(lease.updated()))?;
    if lease.status() == Status::Leased && lease.updated() != 0.0 {
        let words = if judged.remaining > 0.0 {
            "left"
        } else {
            "past"
        };
        line(
            "ttl",
            format!("{}, {} {words}", ttl(lease), span(judged.remaining)),
        )?;
    }
    line(
        "session",
        lease.session().map_or(String::new(), |name| {
            format!("{} ({})", clean(&name), presence(judged.presence))
        }),
    )?;
    line(
        "claims",
        format!(
            "{}, {} of them by another",
            lease.attempts(),
            lease.steals()
        ),
    )?;
    line(
        "fence",
        lease
            .fence()
            .map_or(String::new(), |fence| fence.to_string()),
    )?;
    line("token", clean(lease.token().unwrap_or_default()))?;
    line(
        "target",
        lease
            .target()
            .map_or(String::new(), |target| target.to_string()),
    )?;
    line(
        "group",
        lease.targets().map_or(String::new(), |all| {
            all.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
        }),
    )?;
    line("completed", lease.completed().map_or(String::new(), ago))?;
    if lease.commit().is_some() {
        line("commit", commit(campaign, lease))?;
    }
    line("payload", clean(lease.payload()))
}

fn ttl(lease: &Lease) -> String {
    lease.ttl().map_or("the reader's".to_string(), span)
}

fn commit(campaign: &Campaign, lease: &Lease) -> String {
    match commit_of(lease) {
        Commit::Missing => String::new(),
        Commit::Foreign => format!(
            "of another program: {}",
            clean(lease.commit().unwrap_or(""))
        ),
        Commit::Damaged(why) => format!("damaged: {}", clean(&why)),
        Commit::Replayable(manifest) => {
            let into = path(&campaign.path_of(&manifest.corpus));
            let mut words = format!("{} results into {into}", manifest.results.len());
            for result in &manifest.results {
                words.push_str(&format!(
                    "\n{:16}{} ({} bytes)",
                    "",
                    path(&result.name),
                    result.size
                ));
            }
            words
        }
    }
}
