//! Words and numbers for people.

use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// What is wrong.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// What wants a look.
pub const WARN: Style = AnsiColor::Yellow.on_default();
/// What is well.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// What stands above.
pub const HEAD: Style = Style::new().bold();
/// What is beside the point.
pub const DIM: Style = Style::new().dimmed();

/// Text in a style.
pub fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Text from a file that somebody else wrote, without what a terminal obeys.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        // Also what turns the direction of writing around.
        let turns = matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        match letter.is_control() || turns {
            true => {
                let _ = write!(out, "\\u{{{:x}}}", letter as u32);
            }
            false => out.push(letter),
        }
    }
    out
}

/// A path, as far as it is text.
pub fn path(bytes: &[u8]) -> String {
    clean(&String::from_utf8_lossy(bytes))
}

/// Seconds as people say them: at most two units.
pub fn span(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "?".to_string();
    }
    let whole = seconds.abs() as u64;
    let (days, hours) = (whole / 86_400, whole % 86_400 / 3600);
    let (minutes, rest) = (whole % 3600 / 60, whole % 60);
    match (days, hours, minutes) {
        (0, 0, 0) if whole < 10 => format!("{:.1} s", seconds.abs()),
        (0, 0, 0) => format!("{whole} s"),
        (0, 0, _) => format!("{minutes} min {rest:02} s"),
        (0, _, _) => format!("{hours} h {minutes:02} min"),
        _ => format!("{days} d {hours:02} h"),
    }
}

/// A number with its thousands apart.
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// One or many.
pub fn count(value: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(value), if value == 1 { one } else { many })
}

/// A count that grows; shown only where somebody looks at it.
pub fn progress(what: &str) -> ProgressBar {
    let template = format!("{{spinner}} {{human_pos}} {what}, {{rate}}, {{elapsed}}");
    shown(ProgressBar::no_length(), &template)
}

/// The same where the end is known.
pub fn progress_of(length: u64, what: &str) -> ProgressBar {
    let template = format!("{{bar:30}} {{human_pos}} of {{human_len}} {what}, {{eta}} left");
    shown(ProgressBar::new(length), &template)
}

/// What takes long without a count.
pub fn busy(what: &'static str) -> ProgressBar {
    let bar = shown(ProgressBar::no_length(), "{spinner} {msg}, {elapsed}").with_message(what);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn shown(bar: ProgressBar, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
    bar.with_style(
        style.with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
            let _ = write!(out, "{:.0}/s", state.per_sec());
        }),
    )
}

/// A table with aligned columns; those named in `right` lean right.
pub fn table(head: &[&str], right: &[usize], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|word| word.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String]| {
        let mut out = String::new();
        for (place, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let space = " ".repeat(width.saturating_sub(cell.chars().count()));
            let gap = if place == 0 { "" } else { "  " };
            match right.contains(&place) {
                true => out.push_str(&format!("{gap}{space}{cell}")),
                false => out.push_str(&format!("{gap}{cell}{space}")),
            }
        }
        out.trim_end().to_string()
    };
    let head: Vec<String> = head.iter().map(|word| (*word).to_string()).collect();
    let mut out = styled(HEAD, &line(&head));
    for row in rows {
        out.push('\n');
        out.push_str(&line(row));
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_that_it_obeys() {
        assert_eq!(clean("a\u{1b}[31mb\r\n"), "a\\u{1b}[31mb\\u{d}\\u{a}");
        assert_eq!(clean("x\u{202e}y\u{9b}z"), "x\\u{202e}y\\u{9b}z");
        assert_eq!(clean("ü 漢"), "ü 漢");
    }

    #[test]
    fn spans_and_numbers() {
        let spans = [(0.25, "0.2 s"), (59.9, "59 s"), (61.0, "1 min 01 s")];
        for (seconds, words) in spans {
            assert_eq!(span(seconds), words);
        }
        assert_eq!(span(86_400.0 * 3.0 + 7200.0), "3 d 02 h");
        assert_eq!(span(f64::INFINITY), "?");
        assert_eq!(number(0), "0");
        assert_eq!(number(1234), "1,234");
        assert_eq!(number(1_234_567), "1,234,567");
    }
}
