//! `symlease report`: one page that needs nothing else, and is true.

mod common;

use common::{claim, ends, id, stderr, varied, Ground};
use symlease::campaign::coverage::Candidate;

fn page(ground: &Ground, arguments: &[&str]) -> String {
    ends(&ground.run(&[&["report"], arguments].concat()), 0)
}

/// What a tile says.
fn tile(page: &str, name: &str) -> String {
    let end = page.find(&format!("</b><span>{name}</span>")).expect(name);
    let start = page[..end].rfind("<b>").unwrap() + 3;
    page[start..end].to_string()
}

fn nothing_is_loaded(page: &str) {
    for word in [
        "src=", "href=", "url(", "@import", "http:", "https:", "<script", "<link",
    ] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn the_page_says_what_the_campaign_is() {
    let ground = Ground::new();
    let _handles = varied(&ground);
    let before = ground.digest();
    let page = page(&ground, &["--title", "night <run> & \"more\""]);
    assert!(ground.digest() == before, "it only looks");
    nothing_is_loaded(&page);
    assert_eq!(tile(&page, "work done"), "1");
    assert_eq!(tile(&page, "at work"), "1");
    assert_eq!(tile(&page, "coverage bits"), "4");
    assert_eq!(tile(&page, "edges"), "3");
    assert_eq!(tile(&page, "alive now"), "1");
    assert!(page.contains("<h1>night &lt;run&gt; &amp; &quot;more&quot;</h1>"));
    for words in [
        "Work done over time",
        "From the last claim to done",
        "Bits by hit count",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(page.matches("<svg").count() >= 4);
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
}

/// Who writes records and heartbeats writes no markup.
#[test]
fn names_are_text_everywhere() {
    let ground = Ground::new();
    let evil = "<img src=x onerror=alert(1)>\u{1b}'\"&";
    let one = ground.open(evil);
    let held = claim(&one, 1);
    one.complete(&id(1), &held.token).unwrap();
    claim(&one, 2);
    one.merge(&[Candidate::sparse(&[(1, 1)]).unwrap()]).unwrap();
    one.coverage_heartbeat().unwrap();
    one.publish_counters().unwrap();
    std::fs::write(ground.work(3), b"{").unwrap_or_else(|_| {
        std::fs::create_dir_all(ground.work(3).parent().unwrap()).unwrap();
        std::fs::write(ground.work(3), b"{").unwrap();
    });
    let page = page(&ground, &[]);
    assert!(!page.contains("<img") && !page.contains('\u{1b}'), "{page}");
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;\\u{1b}&#39;&quot;&amp;"));
    assert!(page.contains("Damaged") && page.contains(&id(3)), "{page}");
}

/// Times of damage and of other clocks do not stretch the plots.
#[test]
fn times_that_are_none_are_left_out() {
    let ground = Ground::new();
    drop(varied(&ground));
    for (number, completed) in [(21, "1e300"), (22, "0"), (23, "\"x\"")] {
        let record = format!(
            "{{\"completed\":{completed},\"id\":\"{}\",\"owner\":\"old\",\"payload\":{{}},\
             \"schema\":1,\"status\":\"done\",\"token\":\"t\",\"updated\":1}}\n",
            id(number)
        );
        std::fs::create_dir_all(ground.work(number).parent().unwrap()).unwrap();
        std::fs::write(ground.work(number), record).unwrap();
    }
    let page = page(&ground, &[]);
    assert_eq!(tile(&page, "work done"), "4");
    let lines = page.matches("class=\"line ").count();
    assert_eq!(lines, 1, "one owner finished work at a time that is one");
    assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    // An empty campaign is a page, too.
    let empty = Ground::new();
    std::fs::create_dir(empty.root().join(".work_lease_table")).unwrap();
    let page = ends(&empty.run(&["report"]), 0);
    assert!(page.contains("no lease records"), "{page}");
    let none = Ground::new();
    ends(&none.run(&["report"]), 3);
}

/// What status wrote down is plotted; a line that was cut at the end is not.
#[test]
fn history_is_plotted() {
    let ground = Ground::new();
    let handles = varied(&ground);
    let mut history = String::new();
    for _ in 0..3 {
        history.push_str(&ends(&ground.run(&["status", "--json"]), 0));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("growth.jsonl");
    let named = |text: &str| {
        std::fs::write(&file, text).unwrap();
        ground.run(&["report", "--history", file.to_str().unwrap()])
    };
    let page = ends(&named(&(history.clone() + &history[..50])), 0);
    assert!(page.contains("Coverage over time"), "{page}");
    assert!(page.contains("Locks taken, and waited for, each second"));
    nothing_is_loaded(&page);
    for (text, why) in [
        (format!("{{}}\n{history}"), "line 1"),
        (format!("{history}nonsense\n{history}"), "line 4"),
        ("\n".to_string(), "no line of status"),
    ] {
        let output = named(&text);
        ends(&output, 3);
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
    drop(handles);
}

/// The old page or the new one, and nothing beside it.
#[test]
fn the_page_is_replaced_whole() {
    let ground = Ground::new();
    let _handles = varied(&ground);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("page.html");
    std::fs::write(&file, b"old").unwrap();
    let name = file.to_str().unwrap();
    let words = ends(&ground.run(&["report", "-o", name]), 0);
    assert_eq!(words, "");
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.starts_with("<!doctype html>"));
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    let refused = ground.run(&["report", "-o", "/no/such/folder/page.html"]);
    ends(&refused, 3);
    assert!(stderr(&refused).contains("/no/such/folder/page.html"));
}
