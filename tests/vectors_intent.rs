//! The codec of intents: exact, strict, and a fixed vector.

use proptest::prelude::*;
use symlease::record::intent::{Intent, Member};

fn member(digit: char, old: Option<&str>, new: Option<&str>) -> Member {
    Member {
        id: digit.to_string().repeat(64),
        old: old.map(str::to_string),
        new: new.map(str::to_string),
    }
}

fn pair() -> Intent {
    Intent::new(vec![
        member('1', None, Some("{\"a\":\"\u{e9}\\u00e9\u{7f}\"}\n")),
        member('a', Some("{ }"), None),
    ])
    .unwrap()
}

/// What lies on disk, byte by byte: other versions read it. The digest is that
/// of the canonical JSON of the rest, made by Python.
#[test]
fn the_format_is_fixed() {
    let text = format!(
        "{{\"intent_sha256\":\"{}\",\"members\":[{{\"id\":\"{}\",\"new\":\"{}\",\"old\":null}},\
         {{\"id\":\"{}\",\"new\":null,\"old\":\"{{ }}\"}}],\"schema\":1}}\n",
        "15e3faff0ad531867cac09529d2732dd420c02eaacc27f8c83ddd870a4b213fa",
        "1".repeat(64),
        "{\\\"a\\\":\\\"\\u00e9\\\\u00e9\\u007f\\\"}\\n",
        "a".repeat(64),
    );
    assert_eq!(String::from_utf8(pair().to_bytes()).unwrap(), text);
    assert_eq!(pair().name(), "1".repeat(64));
}

/// F19: every prefix, every flipped bit, every other spelling is refused.
#[test]
fn damage_is_refused() {
    let good = pair().to_bytes();
    assert_eq!(Intent::parse(&good).unwrap(), pair());
    for cut in 0..good.len() {
        assert!(Intent::parse(&good[..cut]).is_err(), "{cut}");
    }
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            assert!(Intent::parse(&bad).is_err(), "bit {bit} of byte {at}");
        }
    }
    let text = String::from_utf8(good.clone()).unwrap();
    let digest = text.split('"').nth(3).unwrap();
    // The digest, where it stands, is that of the rest.
    let with_digest = |content: &str| {
        use sha2::{Digest, Sha256};
        let hash: String = Sha256::digest(format!("{{{content}}}"))
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("{{\"intent_sha256\":\"{hash}\",{content}}}\n")
    };
    let content = text.split_once(',').unwrap().1.strip_suffix("}\n").unwrap();
    assert_eq!(with_digest(content), text, "{digest}");
    let swap = |from: &str, to: &str| with_digest(&content.replacen(from, to, 1));
    let first = "1".repeat(64);
    let bad = [
        swap("\"schema\":1", "\"schema\":2"),
        swap("\"schema\":1", "\"schema\":1.0"),
        swap("\"schema\":1", "\"schema\":1,\"schema\":1"),
        swap("\"schema\":1", "\"extra\":1,\"schema\":1"),
        swap("\"schema\":1", " \"schema\":1"),
        swap(",\"old\":null", ",\"old\":null,\"old\":null"),
        swap(",\"old\":null", ""),
        swap(",\"old\":null", ",\"old\":{}"),
        swap(",\"old\":null", ",\"old\":0"),
        swap(",\"old\":null", ",\"extra\":1,\"old\":null"),
        swap("\\u00e9", "\u{e9}"),
        swap("\\u00e9", "\\ud800"),
        swap(&first, &"b".repeat(64)),
        swap(&first, &"a".repeat(64)),
        swap(&first, &"1".repeat(63)),
        swap(&first, &"G".repeat(64)),
        with_digest("\"members\":[],\"schema\":1"),
        with_digest("\"members\":{},\"schema\":1"),
        format!("{text}{text}"),
        text.replacen('\n', "", 1),
        text.replacen('{', "\u{feff}{", 1),
        text.replacen('\n', "\0", 1),
        "[".repeat(100_000),
        swap("\"old\":null", &format!("\"old\":{}", "[".repeat(100_000))),
    ];
    for (case, bad) in bad.iter().enumerate() {
        assert!(Intent::parse(bad.as_bytes()).is_err(), "case {case}");
    }
    assert!(Intent::parse(&[0xff; 100]).is_err());
}

/// A group has 2 to 64 members, in order, each record within its limit.
#[test]
fn limits_hold() {
    let many = |count: usize| -> Vec<Member> {
        let one = |n| Member {
            id: format!("{n:064x}"),
            old: None,
            new: None,
        };
        (0..count).map(one).collect()
    };
    for (count, good) in [(0, false), (1, false), (2, true), (64, true), (65, false)] {
        assert_eq!(Intent::new(many(count)).is_ok(), good, "{count}");
    }
    let mut reversed = many(3);
    reversed.reverse();
    assert!(Intent::new(reversed).is_err());
    let mut large = many(2);
    large[1].old = Some("x".repeat((4 << 20) + 1));
    assert!(Intent::new(large).is_err());
}

fn text() -> impl Strategy<Value = Option<String>> {
    proptest::option::of(proptest::collection::vec(any::<char>(), 0..40))
        .prop_map(|chars| chars.map(|chars| chars.into_iter().collect()))
}

proptest! {
    /// What comes back is what went in, to the byte; members are found by id.
    #[test]
    fn records_come_back(texts in proptest::collection::vec((text(), text()), 2..10)) {
        let members: Vec<Member> = texts
            .into_iter()
            .enumerate()
            .map(|(n, (old, new))| Member { id: format!("{n:064x}"), old, new })
            .collect();
        let intent = Intent::new(members.clone()).unwrap();
        let bytes = intent.to_bytes();
        prop_assert!(bytes.is_ascii());
        let back = Intent::parse(&bytes).unwrap();
        prop_assert_eq!(back.members(), &members[..]);
        for member in &members {
            prop_assert!(intent.shares(&["f".repeat(64), member.id.clone()]));
        }
        prop_assert!(!intent.shares(&["f".repeat(64)]));
    }
}
