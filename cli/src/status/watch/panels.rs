//! The panels of the full-screen view.

use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph, Row, Table};
use ratatui::Frame;
use symlease::model::lease::Presence;

use super::history::History;
use crate::arguments::State;
use crate::records::word;
use crate::status::snapshot::{presence, Counts, Expiry, Process, Snapshot, Waits, STATES};
use crate::text::{clean, number, span};

pub const GOOD: Style = Style::new().fg(Color::Green);
pub const WARN: Style = Style::new().fg(Color::Yellow);
pub const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
pub const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);

/// Cut to a width, with a sign that it was.
pub fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_string();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    if width == 0 {
        kept
    } else {
        format!("{kept}…")
    }
}

/// A state's column is no narrower.
const STATE_MIN: usize = 5;

/// A number in at most so many columns, as exactly as they allow.
fn compact(value: u64, width: usize) -> String {
    let whole = number(value);
    if whole.len() <= width {
        return whole;
    }
    let units = [
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
    ];
    let fitting = units.into_iter().map(|(unit, by)| {
        let part = value as f64 / by;
        let digits = usize::from(part < 10.0);
        format!("{part:.digits$}{unit}")
    });
    let mut all = fitting.filter(|text| text.len() <= width && text.len() <= 4);
    all.next().unwrap_or_else(|| "…".to_string())
}

fn block(title: String) -> Block<'static> {
    Block::bordered().title(Span::styled(format!(" {title} "), HEAD))
}

/// Rows of a list that fit, from the one that was scrolled to; and how many
/// there are below.
fn window<T>(all: &[T], scroll: usize, room: usize) -> (&[T], usize) {
    let start = scroll.min(all.len().saturating_sub(room));
    let end = all.len().min(start + room);
    (&all[start..end], all.len() - end)
}

fn titled(title: &str, more: usize) -> String {
    match more {
        0 => title.to_string(),
        more => format!("{title} ({more} more below)"),
    }
}

/// Owners and tables that have records, and the sums.
fn lease_table(now: &Snapshot) -> Vec<(String, &'static str, Counts)> {
    let mut rows = Vec::new();
    let sums = [("all", "work", now.work), ("all", "target", now.target)];
    rows.extend(sums.map(|(name, table, counts)| (name.to_string(), table, counts)));
    for (name, owner) in &now.owners {
        rows.push((clean(name), "work", owner.work));
        rows.push((clean(name), "target", owner.target));
    }
    rows.retain(|(_, _, counts)| counts.total() > 0);
    rows
}

pub fn lease_rows(now: &Snapshot) -> usize {
    lease_table(now).len()
}

fn style_of(state: State) -> Style {
    match state {
        State::Live => GOOD,
        State::Expired | State::Dead | State::Future => WARN,
        State::Damaged => BAD,
        State::Abandoned | State::Done => DIM,
        State::Committing => Style::new().fg(Color::Cyan),
    }
}

/// Leases by owner and state; states that nobody has are left out.
pub fn leases(frame: &mut Frame<'_>, now: &Snapshot, scroll: usize, area: Rect) {
    // Borders, owner and table have theirs; the rest is the states'.
    let room = usize::from(area.width).saturating_sub(18);
    let states = shown_states(now, room / (STATE_MIN + 1));
    let all = lease_table(now);
    let (rows, more) = window(&all, scroll, usize::from(area.height).saturating_sub(3));
    let width = (room / states.len().max(1))
        .saturating_sub(1)
        .clamp(STATE_MIN, 9);
    let cell = |counts: &Counts, state: State| match counts.of(state) {
        0 => Span::styled(format!("{:>width$}", "·"), DIM),
        many => Span::styled(format!("{:>width$}", compact(many, width)), style_of(state)),
    };
    let rows = rows.iter().map(|(name, table, counts)| {
        let mut cells = vec![Span::raw(name.clone()), Span::styled(*table, DIM)];
        cells.extend(states.iter().map(|state| cell(counts, *state)));
        Row::new(cells)
    });
    let mut head = vec!["owner".to_string(), String::new()];
    let name = |state: &State| shorten(short(*state), width);
    head.extend(
        states
            .iter()
            .map(|state| format!("{:>width$}", name(state))),
    );
    let mut widths = vec![Constraint::Min(8), Constraint::Length(6)];
    widths.extend(states.iter().map(|_| Constraint::Length(width as u16)));
    let table = Table::new(rows, widths)
        .header(Row::new(head).style(HEAD))
        .block(block(titled("leases", more)));
    frame.render_widget(table, area);
}

/// The states that anybody has, as many as there is room for: what wants a look
/// first, but in their usual order.
fn shown_states(now: &Snapshot, room: usize) -> Vec<State> {
    let mut first = [
        State::Damaged,
        State::Live,
        State::Dead,
        State::Expired,
        State::Done,
        State::Committing,
        State::Future,
        State::Abandoned,
    ]
    .to_vec();
    first.retain(|state| now.work.of(*state) + now.target.of(*state) > 0);
    first.truncate(room);
    let shown = |state: &State| first.contains(state);
    STATES.into_iter().filter(shown).collect()
}

fn short(state: State) -> &'static str {
    match state {
        State::Committing => "commit",
        other => word(other),
    }
}

/// What ends soonest, with a bar of what is left of its TTL.
pub fn expiries(frame: &mut Frame<'_>, now: &Snapshot, scroll: usize, area: Rect) {
    let room = usize::from(area.height).saturating_sub(2);
    let (rows, more) = window(&now.expiries, scroll, room);
    let title = match now.expiries.is_empty() {
        true => "expiries: no live lease".to_string(),
        false => titled("expiries", more),
    };
    let inside = usize::from(area.width).saturating_sub(2);
    let lines: Vec<Line<'_>> = rows.iter().map(|one| expiry(one, inside)).collect();
    frame.render_widget(Paragraph::new(lines).block(block(title)), area);
}

fn expiry(one: &Expiry, width: usize) -> Line<'static> {
    let part = (one.remaining / one.ttl).clamp(0.0, 1.0);
    let style = match part {
        part if part < 0.15 => BAD,
        part if part < 0.4 => WARN,
        _ => GOOD,
    };
    let table = match one.table {
        symlease::engine::Table::Work => "work",
        symlease::engine::Table::Target => "target",
    };
    let left = format!("{:>11} ", span(one.remaining.max(0.0)));
    let bar_width = (width / 4).min(24);
    let filled = (part * bar_width as f64).round() as usize;
    let bar = format!("{}{}", "█".repeat(filled), "░".repeat(bar_width - filled));
    let name = format!(" {table:<6} {} ", &one.id[..12]);
    let rest = width.saturating_sub(left.len() + bar_width + name.len());
    Line::from(vec![
        Span::raw(left),
        Span::styled(bar, style),
        Span::styled(name, DIM),
        Span::raw(shorten(&clean(&one.owner), rest)),
    ])
}

/// The authority's size and how it grew since we look.
pub fn coverage(frame: &mut Frame<'_>, now: &Snapshot, history: &History, area: Rect) {
    let Some(coverage) = &now.coverage else {
        frame.render_widget(block("coverage: none here".to_string()), area);
        return;
    };
    let rate = history.rate(|point| point.bits);
    let rate = rate.map_or(String::new(), |rate| {
        format!(", {:.1} bits/min", rate * 60.0)
    });
    let title = format!(
        "coverage: {} edges, {} bits{rate}",
        number(coverage.edges),
        number(coverage.bits)
    );
    let title = shorten(&title, usize::from(area.width).saturating_sub(4));
    let growth = history.growth();
    let (Some(first), Some(last)) = (growth.first(), growth.last()) else {
        frame.render_widget(block(title), area);
        return;
    };
    // Never a range of nothing: a flat line is drawn in the middle.
    let seconds = last.0.max(1.0);
    let (low, high) = ((first.1 - 1.0).max(0.0), last.1 + 1.0);
    let line = Dataset::default()
        .marker(Marker::Braille)
        .graph_type(GraphType::Line)
        .style(GOOD)
        .data(&growth);
    let bits = |value: f64| Span::styled(number(value as u64), DIM);
    let chart = Chart::new(vec![line])
        .block(block(title))
        .x_axis(Axis::default().bounds([0.0, seconds]).labels([
            Span::styled(format!("{} ago", span(seconds)), DIM),
            Span::styled("now", DIM),
        ]))
        .y_axis(
            Axis::default()
                .bounds([low, high])
                .labels([bits(low), bits(high)]),
        );
    frame.render_widget(chart, area);
}

/// Coordinators that keep sessions, and what they wait for.
pub fn processes(
    frame: &mut Frame<'_>,
    now: &Snapshot,
    history: &History,
    scroll: usize,
    area: Rect,
) {
    let room = usize::from(area.height).saturating_sub(4);
    let (rows, more) = window(&now.processes, scroll, room);
    let title = format!("coordinators: {} alive", now.alive());
    let block = block(titled(&title, more));
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let [top, rest] =
        ratatui::layout::Layout::vertical([Constraint::Length(1), Constraint::Min(0)])
            .areas(inside);
    frame.render_widget(Paragraph::new(waits(now, history)), top);
    let columns = [
        ("name", Constraint::Min(10)),
        ("", Constraint::Length(7)),
        ("waited", Constraint::Length(8)),
        ("for", Constraint::Length(12)),
        ("locks", Constraint::Length(9)),
        ("pid", Constraint::Length(8)),
    ];
    // The last ones go first where it is narrow.
    let shown = match inside.width {
        0..40 => 3,
        40..58 => 4,
        58..70 => 5,
        _ => columns.len(),
    };
    let (head, widths): (Vec<&str>, Vec<Constraint>) = columns[..shown].iter().copied().unzip();
    let rows = rows
        .iter()
        .map(|one| Row::new(process(one).into_iter().take(shown)));
    let table = Table::new(rows, widths).header(Row::new(head).style(HEAD));
    frame.render_widget(table, rest);
}

fn process(one: &Process) -> [Span<'static>; 6] {
    let style = match one.presence {
        Presence::Alive => GOOD,
        Presence::Dead => DIM,
        Presence::Unknown => WARN,
    };
    let told = |value: fn(&Waits) -> String| one.waits.as_ref().map_or("-".to_string(), value);
    [
        Span::raw(clean(&one.owner)),
        Span::styled(presence(one.presence), style),
        Span::raw(told(|waits| compact(waits.contended, 8))),
        Span::raw(told(|waits| span(waits.wait_ns as f64 / 1e9))),
        Span::raw(told(|waits| compact(waits.locks, 9))),
        Span::raw(one.process.to_string()),
    ]
}

/// Lock waits of all coordinators together.
fn waits(now: &Snapshot, history: &History) -> Line<'static> {
    let [living, ended] = &now.waits;
    if living.handles + ended.handles == 0 {
        return Line::from(Span::styled("no counters published yet", DIM));
    }
    let sum = |value: fn(&Waits) -> u64| value(living).saturating_add(value(ended));
    let locks = match history.rate(|point| point.locks) {
        Some(rate) => format!("{rate:.1} locks/s"),
        None => format!("{} locks", number(sum(|waits| waits.locks))),
    };
    let waited = sum(|waits| waits.contended);
    let whole = sum(|waits| waits.locks).max(1);
    let part = 100.0 * waited as f64 / whole as f64;
    let timeouts = sum(|waits| waits.timeouts);
    let time = span(sum(|waits| waits.wait_ns) as f64 / 1e9);
    Line::from(vec![
        Span::raw(format!("{locks}, {part:.1} % waited for ({time})")),
        match timeouts {
            0 => Span::raw(""),
            many => Span::styled(format!(", {} given up", number(many)), WARN),
        },
    ])
}
