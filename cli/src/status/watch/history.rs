//! What a watcher has seen so far: growth and rates.

use crate::status::snapshot::Snapshot;

/// Points of the growth curve that are kept; beyond, every other one goes.
const POINTS_MAX: usize = 720;
/// Seconds over which rates are taken.
const RATE_OVER: f64 = 60.0;

/// One look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Unix seconds.
    pub at: f64,
    pub bits: u64,
    pub done: u64,
    pub locks: u64,
    pub contended: u64,
    pub wait_ns: u64,
}

impl Point {
    pub fn of(now: &Snapshot) -> Point {
        let waits = &now.waits;
        let both = |value: fn(&super::super::snapshot::Waits) -> u64| {
            value(&waits[0]).saturating_add(value(&waits[1]))
        };
        Point {
            at: now.at,
            bits: now.coverage.as_ref().map_or(0, |coverage| coverage.bits),
            done: now.work.of(crate::arguments::State::Done),
            locks: both(|waits| waits.locks),
            contended: both(|waits| waits.contended),
            wait_ns: both(|waits| waits.wait_ns),
        }
    }
}

/// All looks, oldest first.
#[derive(Default)]
pub struct History {
    points: Vec<Point>,
    /// How many of the last looks are not yet a point of their own.
    skipped: u32,
    every: u32,
    last: Option<Point>,
}

impl History {
    pub fn add(&mut self, point: Point) {
        // A clock that was set back would draw a curve that goes back.
        if self.last.is_some_and(|last| point.at <= last.at) {
            return;
        }
        self.last = Some(point);
        self.skipped += 1;
        if self.skipped < self.every {
            return;
        }
        self.skipped = 0;
        self.points.push(point);
        if self.points.len() > POINTS_MAX {
            let mut keep = false;
            self.points.retain(|_| {
                keep = !keep;
                keep
            });
            self.every = self.every.max(1) * 2;
        }
    }

    /// Seconds since the first look, and bits; the last look comes last.
    pub fn growth(&self) -> Vec<(f64, f64)> {
        let Some(first) = self.points.first() else {
            return Vec::new();
        };
        let place = |point: &Point| (point.at - first.at, point.bits as f64);
        let mut all: Vec<(f64, f64)> = self.points.iter().map(place).collect();
        if self.points.last() != self.last.as_ref() {
            all.extend(self.last.as_ref().map(place));
        }
        all
    }

    /// How much a number grew each second, over the last minute; `None`: not
    /// seen long enough. A number that fell (a sweep took counters) grew not.
    pub fn rate(&self, value: fn(&Point) -> u64) -> Option<f64> {
        let last = self.last.as_ref()?;
        let recent = |point: &&Point| last.at - point.at <= RATE_OVER;
        let first = self.points.iter().find(recent)?;
        let seconds = last.at - first.at;
        (seconds > 0.0).then(|| value(last).saturating_sub(value(first)) as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at: f64, bits: u64) -> Point {
        Point {
            at,
            bits,
            done: 0,
            locks: 2 * bits,
            contended: 0,
            wait_ns: 0,
        }
    }

    #[test]
    fn growth_keeps_its_ends_however_long_it_is() {
        let mut all = History::default();
        for second in 0..10_000 {
            all.add(point(f64::from(second), u64::from(second as u32)));
            let growth = all.growth();
            assert!(growth.len() <= POINTS_MAX + 2);
            assert_eq!(growth[0], (0.0, 0.0));
            assert_eq!(
                *growth.last().unwrap(),
                (f64::from(second), f64::from(second))
            );
            assert!(growth.is_sorted());
        }
        assert_eq!(all.rate(|point| point.locks), Some(2.0));
    }

    #[test]
    fn rates_need_two_looks_and_never_fall_below_zero() {
        let mut all = History::default();
        assert_eq!(all.rate(|point| point.bits), None);
        all.add(point(5.0, 10));
        assert_eq!(all.rate(|point| point.bits), None);
        all.add(point(7.0, 20));
        assert_eq!(all.rate(|point| point.bits), Some(5.0));
        all.add(point(6.0, 1000));
        assert_eq!(all.growth().len(), 2, "a clock that went back");
        all.add(point(9.0, 0));
        assert_eq!(all.rate(|point| point.bits), Some(0.0));
    }
}
