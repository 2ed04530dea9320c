//! The mutation check: each guard is switched off in turn, and the simulation
//! must then see a broken promise. Exits with 1 where one is not noticed.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::Instant;

use clap::Parser;
use simulation::check::{check, Violation};
use simulation::plan::Plan;
use simulation::scenario::scenarios;
use simulation::world::World;
use symlease::guard::{restore, switch_off, Guard};

/// Switches each guard off in turn and runs the scenarios, then seeds 0, 1, 2 ...
/// until the checker sees a broken promise. Prints what noticed it.
#[derive(Parser)]
#[command(name = "scripts/mutations")]
struct Settings {
    /// How many seeds are run for a guard
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    seeds: u64,
    /// Threads; 0: one for each processor
    #[arg(long, default_value_t = 0, value_name = "N")]
    jobs: usize,
    /// Seeds even where a scenario has noticed
    #[arg(long)]
    both: bool,
    /// These guards only
    #[arg(value_name = "GUARD", value_parser = known)]
    guards: Vec<String>,
}

fn known(name: &str) -> Result<String, String> {
    let found = Guard::ALL.iter().find(|guard| format!("{guard:?}") == name);
    found.map_or(Err("no such guard".to_string()), |_| Ok(name.to_string()))
}

/// Seeds that are run with all guards on first: a checker that is never content
/// notices nothing.
const BASE: u64 = 2000;

/// What noticed that a guard is off.
struct Caught {
    violation: Violation,
    by: String,
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

/// Seeds from 0 on, until one of them breaks a promise.
fn seeds(settings: &Settings, most: u64) -> Option<Caught> {
    let (next, found) = (AtomicU64::new(0), Mutex::new(None::<(u64, Violation)>));
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        let over = found.lock().is_ok_and(|found| found.is_some());
        if seed >= most || over {
            return;
        }
        let plan = Plan::new(seed);
        let violation = broken(|| check(&plan, &World::new(&plan, false).run()));
        if let (Some(violation), Ok(mut found)) = (violation, found.lock()) {
            if found.as_ref().is_none_or(|(other, _)| seed < *other) {
                *found = Some((seed, violation));
            }
        }
    };
    let jobs = match settings.jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        jobs => jobs,
    };
    std::thread::scope(|scope| {
        (0..jobs).for_each(|_| {
            scope.spawn(work);
        });
    });
    let found = found.into_inner().unwrap_or_default();
    found.map(|(seed, violation)| Caught {
        violation,
        by: format!("seed {seed}"),
    })
}

/// What noticed that a guard is off; nothing: nobody did.
fn noticed(guard: Guard, settings: &Settings) -> Vec<Caught> {
    switch_off(guard);
    let mut found: Vec<Caught> = directed(false).into_iter().collect();
    if found.is_empty() || settings.both {
        found.extend(seeds(settings, settings.seeds));
    }
    restore();
    found
}

fn main() -> ExitCode {
    let settings = Settings::parse();
    std::panic::set_hook(Box::new(|_| {}));
    let begin = Instant::now();
    if let Some(Caught { violation, by }) = directed(true) {
        let Violation { id, text } = violation;
        println!("with all guards on, {by}: {id}: {text}");
        return ExitCode::FAILURE;
    }
    if let Some(Caught { violation, by }) = seeds(&settings, BASE) {
        let Violation { id, text } = violation;
        println!("with all guards on, {by}: {id}: {text}");
        return ExitCode::FAILURE;
    }
    let (mut missed, mut count) = (Vec::new(), 0);
    println!("| guard | for | what it does | its absence breaks | in |");
    println!("| --- | --- | --- | --- | --- |");
    for guard in Guard::ALL {
        let name = format!("{guard:?}");
        if !settings.guards.is_empty() && !settings.guards.contains(&name) {
            continue;
        }
        count += 1;
        let found = noticed(*guard, &settings);
        let ids: Vec<&str> = found.iter().map(|caught| caught.violation.id).collect();
        let by: Vec<&str> = found.iter().map(|caught| caught.by.as_str()).collect();
        let (ids, by) = (ids.join(", "), by.join(", "));
        println!(
            "| {name} | {} | {} | {ids} | {by} |",
            guard.ids(),
            guard.what()
        );
        if !settings.guards.is_empty() {
            found
                .iter()
                .for_each(|caught| println!("{}", caught.violation.text));
        }
        if found.is_empty() {
            missed.push(name);
        }
    }
    let (noticed, seconds) = (count - missed.len(), begin.elapsed().as_secs());
    println!("\n{noticed} of {count} guards: their absence is noticed ({seconds} s)");
    for name in &missed {
        println!("NOT NOTICED: {name}");
    }
    ExitCode::from(u8::from(!missed.is_empty()))
}
