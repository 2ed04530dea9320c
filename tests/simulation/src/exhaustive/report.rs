//! The exhaustive part as a command: over threads, with a table.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::{scenes, sweep, Scene, Swept};
use crate::check::Violation;

/// Broken cases of one operation that are shown.
const SHOWN: usize = 3;

/// Sweeps all operations, or those whose name has `only` in it, at all calls or
/// at one. At the most `most` power cuts a call.
pub fn run(only: Option<&str>, call: Option<u64>, most: u64, jobs: usize) -> ExitCode {
    let begun = Instant::now();
    let wanted = |scene: &Scene| only.is_none_or(|only| scene.name.contains(only));
    let scenes: Vec<Scene> = scenes().into_iter().filter(wanted).collect();
    let next = AtomicUsize::new(0);
    let found = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| loop {
                let place = next.fetch_add(1, Ordering::Relaxed);
                let Some(scene) = scenes.get(place) else {
                    break;
                };
                let swept = sweep(scene, call, most);
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.insert(place, swept);
            });
        }
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let broken = print(&scenes, &found);
    let seconds = begun.elapsed().as_secs_f64();
    println!("{broken} cases broke a promise; {seconds:.0} s on {jobs} threads");
    ExitCode::from(u8::from(broken > 0 || scenes.is_empty()))
}

fn print(scenes: &[Scene], found: &BTreeMap<usize, Swept>) -> usize {
    println!(
        "{:<44} {:>5} {:>6} {:>8} {:>6} {:>6} {:>8} {:>7}",
        "operation", "calls", "kills", "cuts", "errors", "stops", "unsynced", "sampled"
    );
    let mut total = [0; 4];
    let mut broken = 0;
    for (place, swept) in found {
        let [kills, cuts, errors, stops] = swept.cases;
        println!(
            "{:<44} {:>5} {kills:>6} {cuts:>8} {errors:>6} {stops:>6} {:>8} {:>7}",
            scenes[*place].name, swept.calls, swept.unsynced, swept.sampled
        );
        (0..4).for_each(|kind| total[kind] += swept.cases[kind]);
        broken += swept.broken.len();
    }
    let [kills, cuts, errors, stops] = total;
    println!(
        "{} operations, {kills} kills, {cuts} power cuts, {errors} errors, {stops} stops",
        found.len()
    );
    for (place, swept) in found {
        let name = scenes[*place].name;
        for (case, violations) in swept.broken.iter().take(SHOWN) {
            for Violation { id, text } in violations {
                println!("{name}: {case}: {id}: {text}");
            }
            println!(
                "  repeat: scripts/sim --exhaustive --operation '{name}' --call {}",
                case.call
            );
        }
        if swept.broken.len() > SHOWN {
            println!("{name}: {} more", swept.broken.len() - SHOWN);
        }
    }
    broken
}
