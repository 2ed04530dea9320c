//! The command.
use std::collections::BTreeMap;

use simulation::check::check;
use simulation::plan::Plan;
use simulation::world::World;

fn main() {
    let number = |at: usize, other: u64| {
        std::env::args()
            .nth(at)
            .map_or(other, |a| a.parse().unwrap())
    };
    let (n, from) = (number(1, 100), number(2, 0));
    let trace = n == 1;
    let mut kinds: BTreeMap<&str, (u64, u64, String)> = BTreeMap::new();
    for seed in from..from + n {
        let plan = Plan::new(seed);
        let run = World::new(&plan, trace).run();
        if trace {
            println!("{plan:#?}");
            for line in run.kernel.state().trace.take().unwrap() {
                println!("{line}");
            }
            for entry in &run.history.borrow().entries {
                println!("{entry:?}");
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        for broken in check(&plan, &run) {
            if trace {
                println!("{broken:?}");
            }
            if seen.insert(broken.id) {
                let kind = kinds.entry(broken.id).or_insert((0, seed, broken.text));
                kind.0 += 1;
            }
        }
    }
    for (id, (count, seed, text)) in kinds {
        println!("{count} x {id}: seed {seed}: {text}");
    }
}
