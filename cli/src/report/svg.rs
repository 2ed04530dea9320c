//! Plots as SVG: lines over time, and bars. Colours come from the page's style,
//! so that they follow a dark or a light screen.

use std::fmt::Write;

use super::page::escape;
use crate::text::{number, span};

/// Series with colours of their own; the rest share the last.
pub const COLOURS: usize = 8;
/// Points of a line that are drawn.
const POINTS_MAX: usize = 600;
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 260.0;
/// Around the plot: left, right, top, bottom.
const EDGE: (f64, f64, f64, f64) = (64.0, 16.0, 12.0, 34.0);
const BAR: f64 = 22.0;

/// A line: its name, and values at times in seconds.
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// Lines from `start` to `end`, all from zero. `step`: a value holds until the
/// next one.
pub fn lines(series: &[Series], start: f64, end: f64, step: bool, what: &str) -> String {
    let top = series
        .iter()
        .flat_map(|one| &one.points)
        .map(|(_, value)| *value)
        .fold(0.0, f64::max);
    let grid = ticks(top.max(1.0), 5);
    let top = grid.last().copied().unwrap_or(1.0);
    let length = (end - start).max(1.0);
    let (left, right, above, below) = EDGE;
    let (inside, tall) = (WIDTH - left - right, HEIGHT - above - below);
    let x = |time: f64| left + (time - start) / length * inside;
    let y = |value: f64| above + tall - value / top * tall;
    let mut out = open(HEIGHT, what);
    for value in &grid {
        let at = y(*value);
        let _ = write!(
            out,
            "<line class=grid x1={left} x2={:.1} y1={at:.1} y2={at:.1} />\
             <text class=tick text-anchor=end x={:.1} y={:.1}>{}</text>",
            WIDTH - right,
            left - 8.0,
            at + 4.0,
            label(*value)
        );
    }
    for seconds in time_ticks(length) {
        let at = x(start + seconds);
        let _ = write!(
            out,
            "<text class=tick text-anchor=middle x={at:.1} y={:.1}>{}</text>",
            HEIGHT - 12.0,
            escape(&span_tick(seconds))
        );
    }
    for (place, one) in series.iter().enumerate() {
        let colour = place.min(COLOURS - 1);
        let mut path = String::new();
        let mut last: Option<f64> = None;
        for (time, value) in thin(&one.points) {
            let (x, y) = (x(time), y(value));
            match last {
                None => write!(path, "M{x:.1} {y:.1}"),
                Some(before) if step => write!(path, "L{x:.1} {before:.1}L{x:.1} {y:.1}"),
                Some(_) => write!(path, "L{x:.1} {y:.1}"),
            }
            .unwrap_or_default();
            last = Some(y);
        }
        let name = escape(&one.name);
        let _ = write!(
            out,
            "<path class=\"line c{colour}\" d=\"{path}\"><title>{name}</title></path>"
        );
    }
    out.push_str("</svg>");
    out + &legend(series)
}

/// Named bars, one below the other.
pub fn bars(rows: &[(String, u64)], what: &str) -> String {
    let most = rows
        .iter()
        .map(|(_, value)| *value)
        .max()
        .unwrap_or(0)
        .max(1);
    let height = BAR * rows.len() as f64 + 8.0;
    let left = 210.0;
    let inside = WIDTH - left - 90.0;
    let mut out = open(height, what);
    for (place, (name, value)) in rows.iter().enumerate() {
        let y = 4.0 + BAR * place as f64;
        let width = *value as f64 / most as f64 * inside;
        let short = shorten(name, 28);
        let _ = write!(
            out,
            "<text class=name text-anchor=end x={:.1} y={:.1}><title>{}</title>{}</text>\
             <rect class=bar x={left} y={:.1} width={:.1} height={:.1} rx=2 />\
             <text class=tick x={:.1} y={:.1}>{}</text>",
            left - 8.0,
            y + BAR * 0.65,
            escape(name),
            escape(&short),
            y + 3.0,
            width.max(if *value > 0 { 1.0 } else { 0.0 }),
            BAR - 6.0,
            left + width + 6.0,
            y + BAR * 0.65,
            number(*value)
        );
    }
    out.push_str("</svg>");
    out
}

fn open(height: f64, what: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=img aria-label=\"{}\">",
        escape(what)
    )
}

/// Only where there is more than one line to tell apart.
fn legend(series: &[Series]) -> String {
    if series.len() < 2 {
        return String::new();
    }
    let mut out = String::from("<p class=legend>");
    for (place, one) in series.iter().enumerate() {
        let colour = place.min(COLOURS - 1);
        let name = escape(&one.name);
        let _ = write!(out, "<span><i class=c{colour}></i>{name}</span> ");
    }
    out + "</p>"
}

fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_string();
    }
    let kept: String = text.chars().take(most - 1).collect();
    format!("{kept}…")
}

/// At most so many points; the first and the last stay.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let every = points.len().div_ceil(POINTS_MAX).max(1);
    let mut kept: Vec<(f64, f64)> = points.iter().copied().step_by(every).collect();
    if kept.last() != points.last() {
        kept.extend(points.last());
    }
    kept
}

/// Round numbers from 0 to at least `most`.
fn ticks(most: f64, about: usize) -> Vec<f64> {
    let rough = most / about as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough)
        .unwrap_or(rough)
        .max(if most <= 5.0 { 1.0 } else { 0.0 });
    let count = (most / step).ceil() as usize;
    (0..=count).map(|place| place as f64 * step).collect()
}

fn label(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e4 => format!("{}k", value / 1e3),
        value => number(value as u64),
    }
}

const STEPS: [f64; 17] = [
    1.0,
    2.0,
    5.0,
    10.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    1800.0,
    3600.0,
    7200.0,
    21_600.0,
    43_200.0,
    86_400.0,
    604_800.0,
    2_592_000.0,
];

/// Times that people count in.
fn time_ticks(length: f64) -> Vec<f64> {
    let step = STEPS.into_iter().find(|step| length / step <= 8.0);
    let step = step.unwrap_or(length / 8.0);
    (0..=8)
        .map(|place| f64::from(place) * step)
        .filter(|time| *time <= length)
        .collect()
}

fn span_tick(seconds: f64) -> String {
    match seconds as u64 {
        0 => "0".to_string(),
        whole if whole < 60 => format!("{whole} s"),
        whole if whole < 3600 && whole % 60 == 0 => format!("{} min", whole / 60),
        whole if whole < 86_400 && whole % 3600 == 0 => format!("{} h", whole / 3600),
        whole if whole % 86_400 == 0 => format!("{} d", whole / 86_400),
        _ => span(seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_the_top() {
        for most in [1.0, 3.0, 7.0, 10.0, 99.0, 101.0, 12_345.0, 9e8] {
            let all = ticks(most, 5);
            assert!(
                all.len() <= 8 && *all.last().unwrap() >= most,
                "{most}: {all:?}"
            );
            assert_eq!(all[0], 0.0);
        }
        assert_eq!(ticks(1.0, 5), [0.0, 1.0]);
        assert_eq!(ticks(100.0, 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
    }

    #[test]
    fn time_is_told_in_units_of_people() {
        let words =
            |length| -> Vec<String> { time_ticks(length).into_iter().map(span_tick).collect() };
        assert_eq!(
            words(35.0),
            ["0", "5 s", "10 s", "15 s", "20 s", "25 s", "30 s", "35 s"]
        );
        assert_eq!(words(7300.0), ["0", "30 min", "1 h", "1 h 30 min", "2 h"]);
        assert_eq!(words(86_400.0 * 3.0).last().unwrap(), "3 d");
        assert!(words(1e10).len() <= 9);
    }

    #[test]
    fn a_thousand_lines_are_few_points() {
        let points: Vec<(f64, f64)> = (0..100_001).map(|n| (f64::from(n), f64::from(n))).collect();
        let kept = thin(&points);
        assert!(kept.len() <= POINTS_MAX + 1);
        assert_eq!(
            (kept[0], *kept.last().unwrap()),
            (points[0], points[100_000])
        );
    }

    #[test]
    fn names_are_text() {
        let one = Series {
            name: "<script>\"&".to_string(),
            points: vec![(0.0, 1.0), (1.0, f64::from(2))],
        };
        let other = Series {
            name: "b".to_string(),
            points: Vec::new(),
        };
        let all = lines(&[one, other], 0.0, 1.0, true, "x") + &bars(&[("<b>".into(), 3)], "y");
        assert!(!all.contains("<script>") && !all.contains("<b>"), "{all}");
        assert!(all.contains("&lt;script&gt;&quot;&amp;"));
    }
}
