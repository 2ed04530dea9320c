//! The view at any size, of any campaign.

use ratatui::backend::TestBackend;
use ratatui::Terminal;
use symlease::engine::Table;
use symlease::model::lease::Presence;

use super::history::{History, Point};
use super::{view, Watched};
use crate::arguments::State;
use crate::status::snapshot::{Coverage, Expiry, Owner, Process, Snapshot, Waits};

fn watched(now: Option<Snapshot>) -> Watched {
    let mut history = History::default();
    for second in 0..50 {
        history.add(Point {
            at: f64::from(second),
            bits: second as u64 * 10,
            done: 0,
            locks: second as u64,
            contended: 0,
            wait_ns: 0,
        });
    }
    Watched {
        place: "/a/campaign".to_string(),
        now,
        history,
        trouble: None,
        looked: None,
        every: 2.0,
        paused: false,
        scroll: 0,
    }
}

fn busy(owners: u32) -> Snapshot {
    let mut now = Snapshot {
        coverage: Some(Coverage {
            edges: 1234,
            bits: 5678,
            ..Coverage::default()
        }),
        ..Snapshot::default()
    };
    for number in 0..owners {
        let name = format!("master-{number}\u{1b}[2J");
        let mut owner = Owner::default();
        for state in crate::status::snapshot::STATES {
            owner.work.add(state);
            now.work.add(state);
        }
        now.owners.insert(name.clone(), owner);
        now.expiries.push(Expiry {
            table: Table::Target,
            id: "ab".repeat(32),
            owner: name.clone(),
            remaining: f64::from(number) - 1.0,
            ttl: 10.0,
        });
        now.processes.push(Process {
            owner: name,
            host: "h".to_string(),
            process: number,
            presence: Presence::Alive,
            waits: Some(Waits::default()),
            told: Some(1.0),
        });
    }
    now
}

fn drawn(watched: &Watched, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(frame, watched)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let lines = (0..height).map(|y| {
        let line = (0..width).map(|x| buffer[(x, y)].symbol().to_string());
        line.collect::<String>()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn any_size_can_be_drawn() {
    let all = [
        watched(None),
        watched(Some(Snapshot::default())),
        watched(Some(busy(3))),
        watched(Some(busy(500))),
    ];
    for one in &all {
        for width in [1, 2, 5, 18, 19, 40, 57, 80, 103, 104, 200] {
            for height in [1, 2, 3, 4, 5, 8, 24, 60] {
                let screen = drawn(one, width, height);
                assert!(!screen.contains('\u{1b}'));
            }
        }
    }
}

#[test]
fn what_there_is_room_for_is_there() {
    let one = watched(Some(busy(3)));
    for (width, height) in [(80, 40), (120, 30), (200, 60)] {
        let screen = drawn(&one, width, height);
        for words in [
            "leases",
            "coordinators",
            "coverage: 1,234 edges",
            "expiries",
        ] {
            assert!(
                screen.contains(words),
                "{words} at {width}x{height}:\n{screen}"
            );
        }
        assert!(
            screen.contains("10 bits") || screen.contains("600.0 bits/min"),
            "{screen}"
        );
        assert!(screen.contains("master-2\\u{1b}"), "{screen}");
    }
    let small = drawn(&one, 40, 8);
    assert!(small.contains("leases") && small.contains("all"), "{small}");
    assert!(small.contains("q quit"), "{small}");
}

/// No number is cut so that it reads as a smaller one.
#[test]
fn large_numbers_stay_true() {
    let mut now = busy(1);
    for _ in 0..1_234_567 {
        now.work.add(State::Done);
    }
    let one = watched(Some(now));
    assert!(drawn(&one, 200, 30).contains("1,234,568"));
    for width in 30..80 {
        let screen = drawn(&one, width, 30);
        let row = screen.lines().find(|line| line.contains("│all")).unwrap();
        for number in row.split_whitespace().skip(2) {
            let number = number.trim_matches('│');
            let known = ["", "1", "1,234,568", "1.2M"];
            assert!(known.contains(&number), "{number} at {width}:\n{screen}");
        }
    }
}

#[test]
fn lists_scroll_and_say_what_is_below() {
    let mut one = watched(Some(busy(50)));
    assert!(drawn(&one, 120, 30).contains("more below"));
    one.scroll = 10_000;
    let screen = drawn(&one, 120, 30);
    assert!(screen.contains("master-9"), "the last by name:\n{screen}");
    assert!(!screen.contains("more below"), "{screen}");
}

#[test]
fn trouble_is_said_and_the_last_look_stays() {
    let mut one = watched(Some(busy(2)));
    one.take(Err("the mount is gone\u{7}".to_string()));
    let screen = drawn(&one, 120, 30);
    assert!(screen.contains("the mount is gone\\u{7}"), "{screen}");
    assert!(screen.contains("master-1"), "{screen}");
    one.take(Ok(busy(1)));
    assert!(!drawn(&one, 120, 30).contains("the mount"));
}
