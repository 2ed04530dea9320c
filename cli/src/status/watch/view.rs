//! Which panels are drawn, and where: as many as the terminal has room for.

use std::time::Instant;

use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use ratatui::Frame;
use symlease::model::lease::Presence;

use super::panels::{self, BAD, DIM, GOOD, WARN};
use super::Watched;
use crate::arguments::State;
use crate::status::snapshot::{Process, Snapshot};
use crate::text::{clean, number, span};

/// From this width on there are two columns.
const TWO_COLUMNS: u16 = 104;
/// A panel with less height shows nothing.
const PANEL_MIN: u16 = 4;

pub fn draw(frame: &mut Frame<'_>, watched: &Watched) {
    let [head, body, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(head_lines(watched, head.width)), head);
    match &watched.now {
        Some(now) if body.width >= TWO_COLUMNS => two_columns(frame, watched, now, body),
        Some(now) => one_column(frame, watched, now, body),
        None => frame.render_widget(Paragraph::new("looking …"), body),
    }
    frame.render_widget(Paragraph::new(foot_line(watched, foot.width)), foot);
}

fn two_columns(frame: &mut Frame<'_>, watched: &Watched, now: &Snapshot, area: Rect) {
    let [left, right] =
        Layout::horizontal([Constraint::Percentage(52), Constraint::Percentage(48)]).areas(area);
    let rows = panels::lease_rows(now).min(usize::from(u16::MAX)) as u16;
    let top = (rows + 3).clamp(5, (left.height / 2).max(5));
    let [leases, expiries] =
        Layout::vertical([Constraint::Length(top), Constraint::Min(0)]).areas(left);
    let [coverage, processes] =
        Layout::vertical([Constraint::Percentage(50), Constraint::Min(0)]).areas(right);
    panels::leases(frame, now, watched.scroll, leases);
    panels::expiries(frame, now, watched.scroll, expiries);
    panels::coverage(frame, now, &watched.history, coverage);
    panels::processes(frame, now, &watched.history, watched.scroll, processes);
}

/// One below the other; what there is no room for is left out, the last first.
fn one_column(frame: &mut Frame<'_>, watched: &Watched, now: &Snapshot, area: Rect) {
    let rows = panels::lease_rows(now).min(usize::from(u16::MAX)) as u16;
    let gone = |one: &&Process| one.presence == Presence::Dead;
    let here = now.processes.len() - now.processes.iter().filter(gone).count();
    let wanted = [
        (rows + 3).clamp(5, (area.height / 3).max(5)),
        (here.min(usize::from(u16::MAX) - 4) as u16 + 4).clamp(5, 10),
        9,
        PANEL_MIN,
    ];
    let (mut heights, mut left) = ([0; 4], area.height);
    for (height, wants) in heights.iter_mut().zip(wanted) {
        if left >= PANEL_MIN {
            *height = wants.min(left);
            left -= *height;
        }
    }
    // The last panel that is there takes the rest.
    if let Some(last) = heights.iter_mut().rev().find(|height| **height > 0) {
        *last += left;
    }
    let areas: [Rect; 4] = Layout::vertical(heights.map(Constraint::Length)).areas(area);
    panels::leases(frame, now, watched.scroll, areas[0]);
    panels::processes(frame, now, &watched.history, watched.scroll, areas[1]);
    panels::coverage(frame, now, &watched.history, areas[2]);
    panels::expiries(frame, now, watched.scroll, areas[3]);
}

fn head_lines(watched: &Watched, width: u16) -> Vec<Line<'static>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let place = clean(&watched.place);
    let first = Line::from(vec![
        Span::styled("symlease ", DIM),
        Span::styled(
            panels::shorten(&place, usize::from(width).saturating_sub(9)),
            bold,
        ),
    ]);
    let Some(now) = &watched.now else {
        return vec![first];
    };
    vec![first, summary(now)]
}

/// What matters most, in one line, the most important first.
fn summary(now: &Snapshot) -> Line<'static> {
    let mut spans = Vec::new();
    let mut say = |style: Style, words: String| {
        if !spans.is_empty() {
            spans.push(Span::raw("  "));
        }
        spans.push(Span::styled(words, style));
    };
    let troubles = now.troubles.len() + now.coverage.as_ref().map_or(0, |c| c.damaged.len());
    if troubles > 0 {
        say(BAD, format!("{} damaged", number(troubles as u64)));
    }
    let alive = now.alive();
    say(
        if alive > 0 { GOOD } else { WARN },
        format!("{alive} alive"),
    );
    let work = |state| number(now.work.of(state));
    say(GOOD, format!("{} at work", work(State::Live)));
    for (state, words) in [
        (State::Dead, "of the dead"),
        (State::Expired, "expired"),
        (State::Future, "from the future"),
    ] {
        if now.work.of(state) > 0 {
            say(WARN, format!("{} {words}", work(state)));
        }
    }
    if now.work.of(State::Committing) > 0 {
        say(
            Style::new(),
            format!("{} committing", work(State::Committing)),
        );
    }
    say(Style::new(), format!("{} done", work(State::Done)));
    Line::from(spans)
}

fn foot_line(watched: &Watched, width: u16) -> Line<'static> {
    if let Some(trouble) = &watched.trouble {
        let words = panels::shorten(&clean(trouble), usize::from(width));
        return Line::from(Span::styled(words, BAD));
    }
    let looked = watched.looked.map_or("not looked yet".to_string(), |at| {
        let ago = Instant::now().saturating_duration_since(at).as_secs_f64();
        format!("looked {} ago", span(ago))
    });
    let every = match watched.paused {
        true => "paused".to_string(),
        false => format!("every {} s", watched.every),
    };
    let keys = "q quit  p pause  r look now  +/- faster, slower  ↑↓ scroll";
    let mut words = format!("{every}, {looked}");
    if usize::from(width) >= words.len() + keys.chars().count() + 3 {
        words = format!("{words}   {keys}");
    } else if usize::from(width) >= words.len() + 9 {
        words = format!("{words}   q quit");
    }
    Line::from(Span::styled(words, DIM))
}
