//! A schedule with parts left out: how a failing one shrinks, and how the rest
//! is written on a command line.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::plan::Plan;

/// The parts of a plan that stay, by their places in the whole plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Steps, as slot and place.
    pub steps: BTreeSet<(usize, usize)>,
    /// Upsets.
    pub upsets: BTreeSet<usize>,
}

/// One part.
#[derive(Clone, Copy, Debug)]
enum Part {
    Step(usize, usize),
    Upset(usize),
}

impl Keep {
    /// Everything.
    pub fn all(plan: &Plan) -> Keep {
        let slots = plan.slots.iter().enumerate();
        Keep {
            steps: slots
                .flat_map(|(slot, all)| (0..all.steps.len()).map(move |step| (slot, step)))
                .collect(),
            upsets: (0..plan.upsets.len()).collect(),
        }
    }

    /// The plan without the rest. Slots stay, even empty: a process's host and
    /// its way of opening follow from its slot.
    pub fn apply(&self, plan: &Plan) -> Plan {
        let mut left = plan.clone();
        for (number, slot) in left.slots.iter_mut().enumerate() {
            let mut place = 0;
            slot.steps.retain(|_| {
                place += 1;
                self.steps.contains(&(number, place - 1))
            });
        }
        let mut place = 0;
        left.upsets.retain(|_| {
            place += 1;
            self.upsets.contains(&(place - 1))
        });
        left
    }

    fn parts(&self) -> Vec<Part> {
        let upsets = self.upsets.iter().map(|upset| Part::Upset(*upset));
        let steps = self
            .steps
            .iter()
            .map(|(slot, step)| Part::Step(*slot, *step));
        upsets.chain(steps).collect()
    }

    fn without(&self, parts: &[Part]) -> Keep {
        let mut rest = self.clone();
        for part in parts {
            match part {
                Part::Step(slot, step) => rest.steps.remove(&(*slot, *step)),
                Part::Upset(upset) => rest.upsets.remove(upset),
            };
        }
        rest
    }

    /// Leaves out what `fails` does not need: first halves, then ever smaller
    /// pieces, until no single part can go.
    pub fn shrink(mut self, fails: &mut dyn FnMut(&Keep) -> bool) -> Keep {
        let mut size = self.parts().len().div_ceil(2);
        while size > 0 {
            let before = self.parts().len();
            for piece in self.parts().chunks(size) {
                let rest = self.without(piece);
                if fails(&rest) {
                    self = rest;
                }
            }
            let gone = before > self.parts().len();
            size = match (size, gone) {
                (1, true) => 1,
                _ => size / 2,
            };
        }
        self
    }
}

fn ranges(numbers: impl Iterator<Item = usize>) -> String {
    let mut all: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match all.last_mut() {
            Some((_, end)) if *end + 1 == number => *end = number,
            _ => all.push((number, number)),
        }
    }
    let text = all.iter().map(|(start, end)| match start == end {
        true => format!("{start}"),
        false => format!("{start}-{end}"),
    });
    text.collect::<Vec<_>>().join(",")
}

/// `<slot>:<steps>/…/upsets:<upsets>`, numbers and ranges with commas.
impl fmt::Display for Keep {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slots: BTreeSet<usize> = self.steps.iter().map(|(slot, _)| *slot).collect();
        for slot in slots {
            let mine = self.steps.iter().filter(|(one, _)| *one == slot);
            write!(to, "{slot}:{}/", ranges(mine.map(|(_, step)| *step)))?;
        }
        write!(to, "upsets:{}", ranges(self.upsets.iter().copied()))
    }
}

impl FromStr for Keep {
    type Err = String;

    fn from_str(text: &str) -> Result<Keep, String> {
        let mut keep = Keep::default();
        for part in text.split('/') {
            let wrong = |what: &str| format!("--keep: {part:?}: {what}");
            let (name, numbers) = part.split_once(':').ok_or_else(|| wrong("no colon"))?;
            for range in numbers.split(',').filter(|range| !range.is_empty()) {
                let (start, end) = range.split_once('-').unwrap_or((range, range));
                let number = |text: &str| text.parse().map_err(|_| wrong("not a number"));
                let (start, end): (usize, usize) = (number(start)?, number(end)?);
                if name == "upsets" {
                    keep.upsets.extend(start..=end);
                } else {
                    let slot = name.parse().map_err(|_| wrong("no such slot"))?;
                    keep.steps.extend((start..=end).map(|step| (slot, step)));
                }
            }
        }
        Ok(keep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is printed is what is read, and nothing is left out of the whole.
    #[test]
    fn printed_and_read_again() {
        for seed in 0..50 {
            let plan = Plan::new(seed);
            let all = Keep::all(&plan);
            assert_eq!(all.to_string().parse::<Keep>().unwrap(), all);
            let whole = all.apply(&plan);
            assert_eq!(format!("{whole:?}"), format!("{plan:?}"));
        }
        assert!("1:x".parse::<Keep>().is_err());
        assert!("nothing".parse::<Keep>().is_err());
    }

    /// Down to the parts that matter, wherever they stand.
    #[test]
    fn shrinks_to_what_is_needed() {
        let plan = Plan::new(7);
        let all = Keep::all(&plan);
        let wanted: Vec<(usize, usize)> = all.steps.iter().copied().step_by(9).collect();
        let found = all.shrink(&mut |keep| wanted.iter().all(|step| keep.steps.contains(step)));
        assert_eq!(found.steps.into_iter().collect::<Vec<_>>(), wanted);
        assert!(found.upsets.is_empty());
    }
}
