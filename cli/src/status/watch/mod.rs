//! `symlease status --watch`: the full-screen view. One thread looks, one draws:
//! a campaign that takes long to read does not hold up the keys.

mod history;
mod panels;
#[cfg(test)]
mod tests;
mod view;

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, sync_channel, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::DefaultTerminal;
use signal_hook::consts::{SIGHUP, SIGTERM};

use crate::arguments::Status;
use crate::open::{to_look, Failure, Outcome, FINE};
use crate::status::snapshot::Snapshot;
use history::{History, Point};

/// How often keys and results are looked for.
const TICK: Duration = Duration::from_millis(100);
/// What the keys make of the interval, in seconds.
const INTERVALS: [f64; 7] = [0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

/// What is drawn.
struct Watched {
    place: String,
    now: Option<Snapshot>,
    history: History,
    /// Why the last look failed.
    trouble: Option<String>,
    looked: Option<Instant>,
    every: f64,
    paused: bool,
    /// First row of the lists.
    scroll: usize,
}

/// What the looking thread is told.
enum Ask {
    Every(f64),
    Now,
    Pause(bool),
}

type Look = Result<Snapshot, String>;

pub fn run(asked: &Status, out: &mut dyn Write) -> Outcome {
    if !(0.1..=86_400.0).contains(&asked.interval) {
        let words = format!("--interval: {} is not within 0.1 and 86400", asked.interval);
        return Err(Failure::Words(words));
    }
    if asked.json {
        return stream(asked, out);
    }
    if !std::io::stdout().is_terminal() {
        let words = "--watch: the output is no terminal (--watch --json writes lines)";
        return Err(Failure::Words(words.to_string()));
    }
    // Told in words, before the screen is taken.
    to_look(&asked.place)?;
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ended))?;
    }
    let (ask, asks) = channel();
    let (tell, looks) = sync_channel(1);
    let place = asked.place.clone();
    let every = asked.interval;
    // Not waited for at the end: a look may hang in a mount that is gone.
    std::thread::spawn(move || {
        let look = || to_look(&place).and_then(|campaign| Snapshot::take(&campaign));
        keep_looking(
            &|| look().map_err(|failure| failure.to_string()),
            every,
            &asks,
            &|look| tell.send(look).is_ok(),
        );
    });
    let mut watched = Watched {
        place: asked.place.dir.display().to_string(),
        now: None,
        history: History::default(),
        trouble: None,
        looked: None,
        every,
        paused: false,
        scroll: 0,
    };
    let mut terminal = ratatui::try_init()?;
    let drawn = watch(&mut terminal, &mut watched, &ask, &looks, &ended);
    ratatui::restore();
    drawn?;
    Ok(FINE)
}

/// `--watch --json`: a line now and then.
fn stream(asked: &Status, out: &mut dyn Write) -> Outcome {
    loop {
        let now = Snapshot::take(&to_look(&asked.place)?)?;
        writeln!(out, "{}", now.json())?;
        out.flush()?;
        std::thread::sleep(Duration::from_secs_f64(asked.interval));
    }
}

fn keep_looking(
    look: &dyn Fn() -> Look,
    mut every: f64,
    asks: &Receiver<Ask>,
    tell: &dyn Fn(Look) -> bool,
) {
    let mut paused = false;
    loop {
        if !paused && !tell(look()) {
            return;
        }
        let pause = if paused { 3600.0 } else { every };
        match asks.recv_timeout(Duration::from_secs_f64(pause)) {
            Ok(Ask::Every(seconds)) => every = seconds,
            Ok(Ask::Pause(whether)) => paused = whether,
            Ok(Ask::Now) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn watch(
    terminal: &mut DefaultTerminal,
    watched: &mut Watched,
    ask: &Sender<Ask>,
    looks: &Receiver<Look>,
    ended: &AtomicBool,
) -> Result<(), Failure> {
    while !ended.load(Ordering::Relaxed) {
        loop {
            match looks.try_recv() {
                Ok(look) => watched.take(look),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    return Err(Failure::Words("the thread that looks is gone".into()));
                }
            }
        }
        terminal.draw(|frame| view::draw(frame, watched))?;
        if event::poll(TICK)? && !watched.obey(&event::read()?, ask) {
            return Ok(());
        }
    }
    Ok(())
}

impl Watched {
    fn take(&mut self, look: Look) {
        self.looked = Some(Instant::now());
        match look {
            Ok(now) => {
                self.history.add(Point::of(&now));
                self.trouble = None;
                self.now = Some(now);
            }
            // What was seen last stays in view.
            Err(why) => self.trouble = Some(why),
        }
    }

    /// Answers whether to go on.
    fn obey(&mut self, event: &Event, ask: &Sender<Ask>) -> bool {
        let Event::Key(key) = event else {
            return true; // A new size is drawn at the next tick.
        };
        if key.kind == KeyEventKind::Release {
            return true;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return false,
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char(' ' | 'r') => {
                let _ = ask.send(Ask::Now);
            }
            KeyCode::Char('p') => {
                self.paused = !self.paused;
                let _ = ask.send(Ask::Pause(self.paused));
            }
            KeyCode::Char('+') => {
                let faster = INTERVALS.iter().rev().find(|next| **next < self.every);
                self.interval(ask, faster);
            }
            KeyCode::Char('-') => {
                let slower = INTERVALS.iter().find(|next| **next > self.every);
                self.interval(ask, slower);
            }
            KeyCode::Down | KeyCode::Char('j') => self.scroll = self.scroll.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        true
    }

    fn interval(&mut self, ask: &Sender<Ask>, next: Option<&f64>) {
        if let Some(next) = next {
            self.every = *next;
            let _ = ask.send(Ask::Every(self.every));
        }
    }
}
