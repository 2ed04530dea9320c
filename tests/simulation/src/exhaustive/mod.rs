//! Every operation of the library, interrupted at every one of its system
//! calls: its process is killed there, all power goes with each subset of what
//! was not synced, each error comes, or it is stopped while others take over.
//! Then the others go on, and the checker looks at all of it.

pub mod report;
mod scenes;
mod stage;

use std::fmt;

use symlease::sys::sim::{plausible, Call, Random, ERRNOS};

pub use self::scenes::{scenes, Scene};
use self::stage::Stage;
use crate::check::Violation;

/// What happens at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The process dies.
    Kill,
    /// All power goes; the choices come from a number.
    Cut(Choices),
    /// The call answers an error.
    Error(i32),
    /// The process is stopped beyond its TTL, others take over, it resumes.
    Stop,
}

/// Which unsynced effects a power cut keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choices {
    /// The effects whose bits are set, in the order in which they are asked for.
    Mask(u64),
    /// As a random sequence says.
    Seed(u64),
}

impl Choices {
    /// The subset as answers, one after another.
    pub fn answers(self) -> impl FnMut() -> bool {
        let mut random = Random::new(match self {
            Choices::Seed(seed) => seed,
            Choices::Mask(_) => 0,
        });
        let mut place = 0;
        move || {
            place += 1;
            match self {
                Choices::Mask(mask) => place <= 64 && mask >> (place - 1) & 1 == 1,
                Choices::Seed(_) => random.chance(500),
            }
        }
    }
}

/// One interruption of one operation.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The call, from 0 on.
    pub call: u64,
    /// What happens there.
    pub event: Event,
}

impl fmt::Display for Case {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:?} at call {}", self.event, self.call)
    }
}

/// What one operation came to.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// Its system calls when nothing goes wrong.
    pub calls: u64,
    /// Cases by kind: kills, power cuts, errors, stops.
    pub cases: [u64; 4],
    /// Calls at which there were more subsets than were asked for.
    pub sampled: u64,
    /// The most effects that one power cut could keep or drop.
    pub unsynced: usize,
    /// Cases that broke a promise.
    pub broken: Vec<(Case, Vec<Violation>)>,
}

impl Swept {
    fn judge(&mut self, case: Case, violations: Vec<Violation>) {
        let kind = match case.event {
            Event::Kill => 0,
            Event::Cut(_) => 1,
            Event::Error(_) => 2,
            Event::Stop => 3,
        };
        self.cases[kind] += 1;
        if !violations.is_empty() {
            self.broken.push((case, violations));
        }
    }
}

/// The subsets of so many effects: every one, or so many of them at random,
/// the empty and the full one among them.
fn subsets(effects: usize, most: u64) -> (Vec<Choices>, bool) {
    let all = effects < 63 && 1u64 << effects <= most;
    let chosen = match all {
        true => (0..1u64 << effects).map(Choices::Mask).collect(),
        false => {
            let seeds = (2..most).map(Choices::Seed);
            let ends = [Choices::Mask(0), Choices::Mask(u64::MAX)];
            ends.into_iter().chain(seeds).collect()
        }
    };
    (chosen, !all)
}

/// Runs one case from the beginning.
pub fn run(scene: &Scene, case: Case) -> Vec<Violation> {
    let mut stage = Stage::new(scene);
    match case.event {
        Event::Error(errno) => stage.fail(case.call, errno),
        Event::Kill => {
            stage.pause_at(case.call);
            stage.kill();
        }
        Event::Stop => {
            stage.pause_at(case.call);
            stage.overtake();
        }
        Event::Cut(choices) => {
            stage.pause_at(case.call);
            return stage.cut(choices);
        }
    }
    stage.end()
}

/// All cases of one operation, or those at one call; at the most so many power
/// cuts a call.
pub fn sweep(scene: &Scene, only: Option<u64>, most: u64) -> Swept {
    let kinds = Stage::new(scene).kinds();
    let mut swept = Swept {
        calls: kinds.len() as u64,
        ..Swept::default()
    };
    let wanted = |call: u64| only.is_none_or(|only| only == call);
    for (call, kind) in (0..).zip(&kinds).filter(|(call, _)| wanted(*call)) {
        for event in events(*kind) {
            let case = Case { call, event };
            swept.judge(case, run(scene, case));
        }
        cuts(scene, call, most, &mut swept);
    }
    // And right after its last call, before it has told anybody.
    if wanted(swept.calls) {
        cuts(scene, kinds.len() as u64, most, &mut swept);
    }
    swept
}

fn events(kind: Call) -> Vec<Event> {
    let errors = ERRNOS.iter().filter(|errno| plausible(kind, **errno));
    let errors = errors.map(|errno| Event::Error(*errno));
    [Event::Kill, Event::Stop]
        .into_iter()
        .chain(errors)
        .collect()
}

fn cuts(scene: &Scene, call: u64, most: u64, swept: &mut Swept) {
    let mut stage = Stage::new(scene);
    stage.pause_at(call);
    let effects = stage.unsynced();
    swept.unsynced = swept.unsynced.max(effects);
    let (chosen, sampled) = subsets(effects, most);
    swept.sampled += u64::from(sampled);
    for choices in chosen {
        let event = Event::Cut(choices);
        swept.judge(Case { call, event }, stage.cut(choices));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Few effects: every subset, each once. Many: a sample with both ends.
    #[test]
    fn subsets_are_all_or_a_sample() {
        let (all, sampled) = subsets(3, 8);
        let mut seen = std::collections::BTreeSet::new();
        for choices in all {
            let mut next = choices.answers();
            seen.insert([next(), next(), next()]);
        }
        assert_eq!((seen.len(), sampled), (8, false));
        let (some, sampled) = subsets(40, 64);
        assert_eq!((some.len(), sampled), (64, true));
        assert!(!some[0].answers()() && some[1].answers()());
    }
}
