//! The mutation check: each guard is switched off in turn, and the simulation
//! must then see a broken promise. Exits with 1 where one is not noticed.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::Instant;

use simulation::check::{check, Violation};
use simulation::plan::Plan;
use simulation::scenario::scenarios;
use simulation::world::World;
use symlease::guard::{restore, switch_off, Guard};

const HELP: &str = "\
mutations [--limit SEEDS] [--threads N] [GUARD...]
Switches each guard off (or only those named) and runs the scenarios, then seeds
0, 1, 2 ... until the checker sees a broken promise, or SEEDS (20000) have run.";

/// What was asked for.
struct Settings {
    limit: u64,
    threads: usize,
    only: Vec<String>,
}

/// What noticed that a guard is off.
struct Caught {
    violation: Violation,
    by: String,
}

fn settings() -> Result<Settings, String> {
    let threads = std::thread::available_parallelism();
    let mut settings = Settings {
        limit: 20_000,
        threads: threads.map_or(1, usize::from),
        only: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().and_then(|value| value.parse::<u64>().ok());
            value.ok_or_else(|| format!("{word}: no number follows"))
        };
        match word.as_str() {
            "--limit" => settings.limit = number()?,
            "--threads" => settings.threads = number()?.max(1) as usize,
            "--help" => return Err(HELP.to_string()),
            name => match Guard::ALL.iter().find(|one| format!("{one:?}") == name) {
                Some(_) => settings.only.push(word),
                None => return Err(format!("{name}: no such guard\n{HELP}")),
            },
        }
    }
    Ok(settings)
}

/// The first promise that a run breaks. What makes the library panic is noticed
/// too.
fn broken(run: impl FnOnce() -> Vec<Violation>) -> Option<Violation> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(violations) => violations.into_iter().next(),
        Err(_) => Some(Violation {
            id: "panic",
            text: "the library panicked".to_string(),
        }),
    }
}

/// The first promise that a scenario sees broken. With a guard off some cannot
/// be set up (`strict`: that is wrong, too).
fn directed(strict: bool) -> Option<Caught> {
    scenarios().into_iter().find_map(|(name, run)| {
        let by = format!("\"{name}\"");
        let run = || run().err().into_iter().collect();
        let found = broken(run).filter(|violation| strict || violation.id != "scenario");
        found.map(|violation| Caught { violation, by })
    })
}

/// Seeds from 0 on, until one of them breaks a promise; and how many ran.
fn seeds(settings: &Settings) -> (Option<Caught>, u64) {
    let (next, found) = (AtomicU64::new(0), Mutex::new(None));
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        let known = |found: &Mutex<Option<(u64, Violation)>>| {
            found.lock().is_ok_and(|found| found.is_some())
        };
        if seed >= settings.limit || known(&found) {
            return;
        }
        let plan = Plan::new(seed);
        let violation = broken(|| check(&plan, &World::new(&plan, false).run()));
        if let (Some(violation), Ok(mut found)) = (violation, found.lock()) {
            let first = found.as_ref().is_none_or(|(other, _)| seed < *other);
            if first {
                *found = Some((seed, violation));
            }
        }
    };
    std::thread::scope(|scope| {
        (0..settings.threads).for_each(|_| {
            scope.spawn(work);
        });
    });
    let ran = next.into_inner().min(settings.limit);
    let found = found.into_inner().unwrap_or_default();
    let caught = found.map(|(seed, violation)| Caught {
        violation,
        by: format!("seed {seed}"),
    });
    (caught, ran)
}

fn main() -> ExitCode {
    let settings = match settings() {
        Ok(settings) => settings,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    std::panic::set_hook(Box::new(|_| {}));
    let begin = Instant::now();
    if let Some(Caught { violation, by }) = directed(true) {
        let Violation { id, text } = violation;
        println!("with all guards on, {by}: {id}: {text}");
        return ExitCode::FAILURE;
    }
    let (mut uncaught, mut count) = (Vec::new(), 0);
    println!("| guard off | invariant | what | noticed as | by | seconds |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let wanted =
        |guard: &&Guard| settings.only.is_empty() || settings.only.contains(&format!("{guard:?}"));
    for guard in Guard::ALL.iter().filter(wanted) {
        let start = Instant::now();
        count += 1;
        switch_off(*guard);
        let found = directed(false).or_else(|| seeds(&settings).0);
        restore();
        let (name, ids, what) = (format!("{guard:?}"), guard.ids(), guard.what());
        let (id, by) = match &found {
            Some(caught) => (caught.violation.id, caught.by.as_str()),
            None => ("NOT NOTICED", ""),
        };
        let seconds = start.elapsed().as_secs_f64();
        println!("| {name} | {ids} | {what} | {id} | {by} | {seconds:.1} |");
        match found {
            Some(caught) if !settings.only.is_empty() => eprintln!("{}", caught.violation.text),
            Some(_) => {}
            None => uncaught.push(name),
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "\n{count} guards, {} not noticed, {seconds:.0} s",
        uncaught.len()
    );
    match uncaught.is_empty() {
        true => ExitCode::SUCCESS,
        false => {
            println!("not noticed: {}", uncaught.join(", "));
            ExitCode::FAILURE
        }
    }
}
