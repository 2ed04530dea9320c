//! The command: `scripts/sim`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::Instant;

use clap::Parser;
use simulation::check::{check, Violation};
use simulation::exhaustive::report;
use simulation::keep::Keep;
use simulation::plan::Plan;
use simulation::tally::Tally;
use simulation::world::{Run, World};

/// Failing schedules that are shrunk and shown; the rest is only counted.
const SHOWN: usize = 5;

/// Seeded schedules of coordinators over a simulated kernel, each followed by a
/// checker that knows every invariant of the protocol.
#[derive(Parser)]
#[command(name = "scripts/sim")]
struct Arguments {
    /// How many schedules to run, each from a seed of its own
    #[arg(long, default_value_t = 1000, value_name = "N")]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    from: u64,
    /// Threads; 0: one for each processor
    #[arg(long, default_value_t = 0, value_name = "N")]
    jobs: usize,
    /// Run one seed again, showing all of its calls and what was broken
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "from"])]
    repeat: Option<u64>,
    /// With --repeat: the parts of the schedule that stay, as a shrunk failure prints them
    #[arg(long, value_name = "PARTS", requires = "repeat")]
    keep: Option<Keep>,
    /// Instead of seeds: every operation interrupted at every one of its system calls
    #[arg(long, conflicts_with_all = ["seeds", "from", "repeat"])]
    exhaustive: bool,
    /// With --exhaustive: power cuts a call; fewer where there are fewer subsets of unsynced effects
    #[arg(long, default_value_t = 4096, value_name = "N", requires = "exhaustive", value_parser = clap::value_parser!(u64).range(2..))]
    subsets: u64,
    /// With --exhaustive: only operations with this in their names
    #[arg(long, value_name = "NAME", requires = "exhaustive")]
    operation: Option<String>,
    /// With --exhaustive: only this call of theirs, counted from 0
    #[arg(long, value_name = "K", requires = "exhaustive")]
    call: Option<u64>,
    /// With --repeat: every simulated system call too
    #[arg(long, requires = "repeat")]
    trace: bool,
}

/// A schedule that broke a promise.
struct Failure {
    seed: u64,
    violations: Vec<Violation>,
}

fn run(plan: &Plan, trace: bool) -> (Run, Vec<Violation>) {
    let run = World::new(plan, trace).run();
    let violations = check(plan, &run);
    (run, violations)
}

fn repeat(arguments: &Arguments, seed: u64) -> ExitCode {
    let mut plan = Plan::new(seed);
    if let Some(keep) = &arguments.keep {
        plan = keep.apply(&plan);
    }
    println!("{plan:#?}");
    let (run, violations) = run(&plan, arguments.trace);
    for line in run.kernel.state().trace.take().unwrap_or_default() {
        println!("{line}");
    }
    for entry in &run.history.borrow().entries {
        println!("{entry:?}");
    }
    for Violation { id, text } in &violations {
        println!("broken: {id}: {text}");
    }
    println!("seed {seed}: {} promises broken", violations.len());
    ExitCode::from(u8::from(!violations.is_empty()))
}

/// The smallest part of a schedule that breaks the same promise.
fn shrunk(failure: &Failure) -> String {
    let plan = Plan::new(failure.seed);
    let id = failure.violations[0].id;
    let mut fails = |keep: &Keep| {
        let (_, found) = run(&keep.apply(&plan), false);
        found.iter().any(|one| one.id == id)
    };
    let keep = Keep::all(&plan).shrink(&mut fails);
    format!(
        "shrunk from {} steps and {} upsets to {} and {}\n  repeat: scripts/sim --repeat {} --keep {keep}",
        plan.steps(),
        plan.upsets.len(),
        keep.steps.len(),
        keep.upsets.len(),
        failure.seed,
    )
}

fn show(failures: &mut [Failure]) {
    failures.sort_by_key(|failure| failure.seed);
    for failure in failures.iter().take(SHOWN) {
        for Violation { id, text } in &failure.violations {
            println!("seed {}: {id}: {text}", failure.seed);
        }
        println!("  {}", shrunk(failure));
    }
    let rest = failures
        .iter()
        .skip(SHOWN)
        .map(|one| format!("{} ({})", one.seed, one.violations[0].id));
    let rest: Vec<_> = rest.collect();
    if !rest.is_empty() {
        println!("also broken: seeds {}", rest.join(", "));
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(seed) = arguments.repeat {
        return repeat(&arguments, seed);
    }
    let jobs = match arguments.jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        jobs => jobs,
    };
    if arguments.exhaustive {
        let only = arguments.operation.as_deref();
        return report::run(only, arguments.call, arguments.subsets, jobs);
    }
    let begun = Instant::now();
    let next = AtomicU64::new(arguments.from);
    let end = arguments.from.saturating_add(arguments.seeds);
    let all = Mutex::new((Tally::default(), Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                let (mut tally, mut failures) = (Tally::default(), Vec::new());
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    let plan = Plan::new(seed);
                    let (run, violations) = run(&plan, false);
                    tally.add(&plan, &run);
                    if !violations.is_empty() {
                        failures.push(Failure { seed, violations });
                    }
                }
                let mut all = all
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                all.0.join(&tally);
                all.1.append(&mut failures);
            });
        }
    });
    let (tally, mut failures) = all
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    println!("{tally}");
    show(&mut failures);
    println!(
        "seeds {} to {}: {} of {} schedules broke a promise; {:.0} s on {jobs} threads",
        arguments.from,
        end - 1,
        failures.len(),
        tally.schedules,
        begun.elapsed().as_secs_f64(),
    );
    ExitCode::from(u8::from(!failures.is_empty()))
}
