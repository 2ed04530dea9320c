//! `symlease recover`.

use std::collections::BTreeSet;
use std::io::Write;

use serde_json::json;
use symlease::campaign::open::Request;
use symlease::campaign::survey::{commit_of, Commit};
use symlease::campaign::{Answer, Campaign};
use symlease::engine::{Change, Table};
use symlease::error::Error;
use symlease::model::lease::{Judge, Life, Presence};
use symlease::record::lease::{Lease, Status};

use crate::arguments::Recover;
use crate::open::{request, there, Failure, Outcome, FAILED, FINE, FOUND};
use crate::records::resolve;
use crate::text::{clean, count, progress, progress_of, styled, BAD, DIM, GOOD, WARN};

/// What is to be done about one record.
enum Task {
    /// Replay it into this corpus.
    Replay(Vec<u8>),
    /// Take it off its holder.
    Free,
    /// Nobody here can do anything; why.
    Stuck(String),
    /// A holder that may be at work; why it is left alone.
    Busy(String),
}

/// One record that is neither done nor plainly somebody's.
struct Case {
    id: String,
    owner: String,
    task: Task,
}

/// What was done, in the order in which it was done.
#[derive(Default)]
struct Report {
    swept: u64,
    settled: usize,
    lines: Vec<Line>,
    failed: bool,
    stuck: bool,
}

struct Line {
    what: &'static str,
    id: String,
    owner: String,
    more: String,
}

pub fn run(asked: &Recover, out: &mut dyn Write) -> Outcome {
    let campaign = there(Request {
        no_session: true,
        read_only: asked.dry_run,
        work_ttl: asked.ttl.unwrap_or(0.0),
        ..request(&asked.place)?
    })?;
    let drop: BTreeSet<String> = asked
        .drop
        .iter()
        .map(|id| match resolve(&campaign, Table::Work, id)? {
            Some(id) => Ok(id),
            None => Err(Failure::Words(format!("--drop {id}: no such record"))),
        })
        .collect::<Result<_, _>>()?;
    let mut report = Report::default();
    if !asked.dry_run {
        sweep(&campaign, &mut report);
    }
    let cases = cases(&campaign)?;
    if asked.dry_run {
        foresee(&cases, &drop, &mut report);
    } else {
        replay(&campaign, &cases, &mut report);
        free(&campaign, &cases, &mut report);
        end(&campaign, &cases, &drop, &mut report);
        // Sessions that a record named until now.
        if !report.failed {
            sweep(&campaign, &mut report);
        }
    }
    tell(asked, &report, out)?;
    Ok(match (report.failed, report.stuck) {
        (true, _) => FAILED,
        (_, true) => FOUND,
        _ => FINE,
    })
}

/// Temporaries, sessions, half group changes, half merges.
fn sweep(campaign: &Campaign, report: &mut Report) {
    match campaign.engine().sweep() {
        Ok(swept) => report.swept += swept,
        Err(error) => report.fails("", &error),
    }
    match settle_merges(campaign) {
        Ok(settled) => report.settled += settled,
        Err(error) => report.fails("", &error),
    }
}

/// A merge over several shards is settled by whoever locks them next (C5).
fn settle_merges(campaign: &Campaign) -> symlease::error::Result<usize> {
    let engine = campaign.engine();
    if engine.coverage_shards().is_err() {
        return Ok(0);
    }
    let pending = engine.pending()?;
    let shards: BTreeSet<u32> = pending.iter().map(|record| record.shard).collect();
    let shards: Vec<u32> = shards.into_iter().collect();
    if !shards.is_empty() {
        engine.merge(&shards, &mut |reads| {
            Ok((vec![Change::Keep; reads.len()], Vec::new()))
        })?;
    }
    Ok(shards.len())
}

/// Every record that is not done, not free and not plainly at work.
fn cases(campaign: &Campaign) -> Result<Vec<Case>, Failure> {
    let judge = campaign.judge(Table::Work, campaign.now()?, None);
    let (mut all, bar) = (Vec::new(), progress("records"));
    campaign.scan(Table::Work, None, &mut |found| {
        bar.inc(1);
        let (owner, task) = match &found.record {
            Ok(lease) => (lease.owner(), task(campaign, &judge, lease)),
            Err(error) => (String::new(), Some(Task::Stuck(error.text.clone()))),
        };
        let id = found.id.clone();
        all.extend(task.map(|task| Case { id, owner, task }));
        true
    })?;
    bar.finish_and_clear();
    Ok(all)
}

fn task(campaign: &Campaign, judge: &Judge, lease: &Lease) -> Option<Task> {
    let evidence = campaign.evidence(Table::Work, lease, judge);
    let life = judge.life(lease, &evidence);
    match lease.status() {
        Status::Done => None,
        Status::Leased => match life {
            Life::Live | Life::Abandoned => None,
            Life::Dead => Some(Task::Free),
            Life::Expired if evidence.presence != Presence::Alive => Some(Task::Free),
            Life::Expired => Some(Task::Busy("past its TTL, but its process lives".into())),
            Life::Future => Some(Task::Busy("dated ahead of this clock".into())),
        },
        Status::Committing if judge.holder_lives(lease, &evidence) => {
            Some(Task::Busy("its holder may be committing it".into()))
        }
        Status::Committing => Some(match commit_of(lease) {
            Commit::Replayable(manifest) => Task::Replay(campaign.path_of(&manifest.corpus)),
            Commit::Missing => Task::Stuck("its commit has no manifest".into()),
            Commit::Foreign => Task::Stuck("only its own program knows its manifest".into()),
            Commit::Damaged(why) => Task::Stuck(format!("its manifest is damaged: {why}")),
        }),
    }
}

/// Replays by corpus, and looks what became of each.
fn replay(campaign: &Campaign, cases: &[Case], report: &mut Report) {
    let corpora: BTreeSet<&Vec<u8>> = cases
        .iter()
        .filter_map(|case| match &case.task {
            Task::Replay(corpus) => Some(corpus),
            _ => None,
        })
        .collect();
    for corpus in corpora {
        if let (_, Err(error)) = campaign.replay_commits(corpus, 0) {
            report.fails("", &error);
        }
    }
    for case in cases {
        let Task::Replay(corpus) = &case.task else {
            continue;
        };
        let into = format!("into {}", crate::text::path(corpus));
        match is_done(campaign, &case.id) {
            true => report.line("replayed", case, into),
            false => {
                report.failed = true;
                report.line("not replayed", case, into);
            }
        }
    }
}

fn is_done(campaign: &Campaign, id: &str) -> bool {
    let text = campaign.record(Table::Work, id).ok().flatten();
    let lease = text.and_then(|text| Lease::parse(id, text.as_bytes()).ok());
    lease.is_some_and(|lease| lease.status() == Status::Done)
}

fn free(campaign: &Campaign, cases: &[Case], report: &mut Report) {
    let bar = progress_of(cases.len() as u64, "records");
    for case in cases {
        bar.inc(1);
        match &case.task {
            Task::Free => match campaign.reclaim(&case.id) {
                Ok(Answer::Ok) => report.line("freed", case, String::new()),
                // Somebody has claimed, finished or freed it meanwhile.
                Ok(_) => {}
                Err(error) => report.fails(&case.id, &error),
            },
            Task::Busy(why) => report.line("left alone", case, why.clone()),
            Task::Replay(_) | Task::Stuck(_) => {}
        }
    }
    bar.finish_and_clear();
}

/// Ends what was named; tells what is stuck and was not.
fn end(campaign: &Campaign, cases: &[Case], drop: &BTreeSet<String>, report: &mut Report) {
    for case in cases {
        match &case.task {
            Task::Stuck(why) if !drop.contains(&case.id) => report.is_stuck(case, why),
            _ => {}
        }
    }
    for id in drop {
        let known = cases.iter().find(|case| case.id == *id);
        let owner = known.map_or(String::new(), |case| case.owner.clone());
        let case = Case {
            id: id.clone(),
            owner,
            task: Task::Free,
        };
        match campaign.end_commit(id) {
            Ok(Answer::Ok) => report.line("dropped", &case, String::new()),
            Ok(Answer::Done) => report.line("done already", &case, String::new()),
            Ok(Answer::Held) => report.is_stuck(&case, "not dropped: its holder may be at work"),
            Ok(_) => report.is_stuck(&case, "not dropped: no commit of it has begun"),
            Err(error) => report.fails(id, &error),
        }
    }
}

/// `--dry-run`.
fn foresee(cases: &[Case], drop: &BTreeSet<String>, report: &mut Report) {
    for case in cases {
        match &case.task {
            Task::Replay(corpus) => {
                let into = format!("into {}", crate::text::path(corpus));
                report.line("to replay", case, into);
            }
            Task::Free => report.line("to free", case, String::new()),
            Task::Busy(why) => report.line("left alone", case, why.clone()),
            Task::Stuck(why) if drop.contains(&case.id) => {
                report.line("to drop", case, why.clone());
            }
            Task::Stuck(why) => report.is_stuck(case, why),
        }
    }
}

impl Report {
    fn line(&mut self, what: &'static str, case: &Case, more: String) {
        self.lines.push(Line {
            what,
            id: case.id.clone(),
            owner: case.owner.clone(),
            more,
        });
    }

    fn is_stuck(&mut self, case: &Case, why: &str) {
        self.stuck = true;
        self.line("stuck", case, why.to_string());
    }

    fn fails(&mut self, id: &str, error: &Error) {
        self.failed = true;
        self.lines.push(Line {
            what: "failed",
            id: id.to_string(),
            owner: String::new(),
            more: format!("{} ({})", error.text, crate::open::name(error.kind)),
        });
    }
}

fn tell(asked: &Recover, report: &Report, out: &mut dyn Write) -> std::io::Result<()> {
    if asked.json {
        let lines = report.lines.iter().map(|line| {
            json!({"what": line.what, "id": line.id, "owner": line.owner, "more": line.more})
        });
        let all = json!({
            "dry_run": asked.dry_run, "swept": report.swept, "settled_shards": report.settled,
            "records": lines.collect::<Vec<_>>(),
        });
        return writeln!(out, "{all}");
    }
    for line in &report.lines {
        let style = match line.what {
            "failed" | "not replayed" => BAD,
            "stuck" => WARN,
            "left alone" | "done already" => DIM,
            _ => GOOD,
        };
        let what = styled(style, &format!("{:<12}", line.what));
        let mut words = vec![clean(&line.id)];
        words.extend((!line.owner.is_empty()).then(|| format!("of {}", clean(&line.owner))));
        words.extend((!line.more.is_empty()).then(|| clean(&line.more)));
        words.retain(|word| !word.is_empty());
        writeln!(out, "{what}  {}", words.join("  "))?;
    }
    if !asked.dry_run {
        let swept = count(report.swept, "leftover file", "leftover files");
        let settled = count(report.settled as u64, "shard", "shards");
        let words = format!("swept: {swept}; half merges settled in {settled}");
        writeln!(out, "{}", styled(DIM, &words))?;
    }
    if report.lines.iter().all(|line| line.what == "left alone") {
        writeln!(out, "{}", styled(GOOD, "nothing to recover"))?;
    }
    Ok(())
}
