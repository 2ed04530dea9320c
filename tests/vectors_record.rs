//! The format's vectors, and what must never be taken for a record (F19-F21).

use proptest::prelude::*;
use serde_json::Value;
use symlease::record::json::{parse, Numbers};
use symlease::record::lease::{canonical_object, Lease};
use symlease::record::number::python_float;
use symlease::record::{id, json};

fn vectors() -> Value {
    let here = env!("CARGO_MANIFEST_DIR");
    let places = ["../shared/spec/vectors.json", "tests/data/vectors.json"];
    let text = places
        .iter()
        .find_map(|place| std::fs::read_to_string(format!("{here}/{place}")).ok())
        .expect("vectors.json");
    // Texts in it hold lone surrogates, which serde_json refuses: they are
    // only used in their escaped form here.
    serde_json::from_str(&text).expect("vectors.json is JSON")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key]
        .as_str()
        .unwrap_or_else(|| panic!("{key} in {value}"))
}

#[test]
fn work_ids_are_pythons() {
    let vectors = vectors();
    let cases = vectors["work_ids"].as_array().unwrap();
    assert!(cases.len() >= 10);
    for case in cases {
        let payload = text(case, "payload").as_bytes();
        let canonical = parse(payload).unwrap().canonical(Numbers::Python).unwrap();
        assert_eq!(canonical, text(case, "canonical"));
        assert_eq!(id::work_id(payload).unwrap(), text(case, "id"));
    }
}

#[test]
fn target_ids_and_folders() {
    let vectors = vectors();
    for case in vectors["target_ids"].as_array().unwrap() {
        assert_eq!(
            id::target_id(case["target"].as_u64().unwrap()),
            text(case, "id")
        );
    }
    for case in vectors["shards"].as_array().unwrap() {
        let count = u32::try_from(case["count"].as_u64().unwrap()).unwrap();
        assert_eq!(
            id::folder(id::shard_of(text(case, "id"), count)),
            text(case, "folder")
        );
    }
}

#[test]
fn records_valid_and_invalid() {
    let vectors = vectors();
    let records = &vectors["records"];
    let id = text(records, "id");
    for valid in records["valid"].as_array().unwrap() {
        let bytes = valid.as_str().unwrap().as_bytes();
        let lease = Lease::parse(id, bytes).unwrap_or_else(|why| panic!("{why}: {valid}"));
        assert_eq!(lease.to_bytes(), bytes, "a record comes back byte for byte");
    }
    for invalid in records["invalid"].as_array().unwrap() {
        let bytes = text(invalid, "text").as_bytes();
        assert!(Lease::parse(id, bytes).is_err(), "{}", text(invalid, "why"));
    }
}

/// F19: whatever a crash or a stranger leaves is refused, never half read.
#[test]
fn damaged_bytes_are_refused() {
    let vectors = vectors();
    let id = text(&vectors["records"], "id");
    let whole = vectors["records"]["valid"][1].as_str().unwrap().as_bytes();
    // Without its newline a record is still whole; any shorter cut is not.
    for length in 0..whole.len() - 1 {
        assert!(
            Lease::parse(id, &whole[..length]).is_err(),
            "cut at {length}"
        );
    }
    let with = |head: &[u8], tail: &[u8]| [head, whole, tail].concat();
    let damaged = [
        vec![0xff; 200],
        with(b"\xef\xbb\xbf", b""),
        with(b"", b"\0\0\0\0"),
        with(b"", whole),
        b"[".repeat(100_000),
        b"{\"a\":".repeat(100_000),
        b"\\ud800".to_vec(),
        vec![b' '; (4 << 20) + 1],
    ];
    for bytes in damaged {
        assert!(Lease::parse(id, &bytes).is_err());
    }
}

/// F20: nothing that is not a finite time >= 0 gets in.
#[test]
fn times_are_finite_and_not_negative() {
    let vectors = vectors();
    let id = text(&vectors["records"], "id");
    let whole = vectors["records"]["valid"][0].as_str().unwrap();
    assert!(whole.contains("\"updated\":1786060800.25"));
    for bad in [
        "1e999", "-1", "-1e999", "NaN", "Infinity", "null", "\"5\"", "true", "[]",
    ] {
        let record = whole.replace("\"updated\":1786060800.25", &format!("\"updated\":{bad}"));
        assert!(Lease::parse(id, record.as_bytes()).is_err(), "{bad}");
        let record = whole.replace("\"worker\":0", &format!("\"ttl\":{bad},\"worker\":0"));
        assert!(Lease::parse(id, record.as_bytes()).is_err(), "ttl {bad}");
    }
    let missing = whole.replace("\"updated\":1786060800.25,", "");
    assert!(Lease::parse(id, missing.as_bytes()).is_err());
}

/// F21: numbers and text of a payload come back to the digit.
#[test]
fn payloads_keep_their_digits() {
    let payload = r#"{"z":123456789012345678901234567890,"a":[1.0,1e3,-0,0.10],"s":"\ud800é"}"#;
    let canonical = canonical_object(payload, "payload", 1 << 20).unwrap();
    assert_eq!(
        canonical,
        r#"{"a":[1.0,1e3,-0,0.10],"s":"\ud800\u00e9","z":123456789012345678901234567890}"#
    );
    let deep = format!("{{\"d\":{}1{}}}", "[".repeat(200_000), "]".repeat(200_000));
    assert_eq!(canonical_object(&deep, "payload", 1 << 20).unwrap(), deep);
    let limit = canonical_object("{\"é\":1}", "payload", 8);
    assert!(limit.unwrap_err().0, "escapes count against the limit");
}

/// F21: what Python escapes is escaped here, DEL included; else the work ids
/// of peers differ. The expected text and id are CPython's.
#[test]
fn escapes_are_pythons() {
    let payload = "{\"s\":\"~\u{7f}\\u007f\u{80}\\/\\b\\f\\u0000\u{ffff}\"}".as_bytes();
    let canonical = parse(payload).unwrap().canonical(Numbers::Python).unwrap();
    assert_eq!(canonical, r#"{"s":"~\u007f\u007f\u0080/\b\f\u0000\uffff"}"#);
    assert_eq!(
        id::work_id(payload).unwrap(),
        "20bdc5e53f6c6862ec1699bb1f467e3c5b76bffd2b9b0ce34d3cf997e8e55e25"
    );
    assert!(
        id::work_id(b"{\"a\":1e999}").is_err(),
        "Python would print Infinity"
    );
}

/// F21: of two shortest decimals equally near Python prints the even one. The
/// texts are CPython's `repr`.
#[test]
fn floats_are_printed_as_python_prints_them() {
    let reprs = [
        "23927621443862.562",
        "-1136316300228912.2",
        "121684015364047.12",
        "222740672533834.12",
        "5.684341886080802e-14",
        "9007199254740992.0",
        "1e+16",
        "9999999999999998.0",
        "0.0001",
        "1e-05",
        "1.5e-10",
        "5e-324",
        "2.2250738585072014e-308",
        "1.7976931348623157e+308",
        "-0.0",
        "0.0",
        "100.0",
        "123456789.0",
        "0.30000000000000004",
        "1786060800.25",
    ];
    for repr in reprs {
        assert_eq!(python_float(repr.parse().unwrap()), repr);
    }
}

/// F19, F21: depth costs memory in proportion to the bytes, never the stack.
#[test]
fn a_million_levels_do_not_use_the_stack() {
    let (open, close) = ("[".repeat(1_000_000), "]".repeat(1_000_000));
    assert!(parse(open.as_bytes()).is_err());
    let whole = open + &close;
    let doc = parse(whole.as_bytes()).unwrap();
    assert_eq!(doc.canonical(Numbers::Python).unwrap(), whole);
}

/// F19: a stranger's fields stay, whatever their keys; odd values of fields
/// that are not checked read as absent.
#[test]
fn strange_fields_survive() {
    let vectors = vectors();
    let id = text(&vectors["records"], "id");
    let whole = vectors["records"]["valid"][0].as_str().unwrap();
    let strange = whole
        .replace(
            "\"token\"",
            "\"targets\":[3,18446744073709551615],\"token\"",
        )
        .replace("\"worker\":0", r#""worker":-1,"\ud800":1"#);
    let lease = Lease::parse(id, strange.as_bytes()).unwrap();
    assert_eq!(lease.to_bytes(), strange.as_bytes());
    assert_eq!(lease.targets(), Some(vec![3, u64::MAX]));
    assert_eq!(lease.worker(), 0);
    for (list, read) in [
        ("[]", Some(vec![])),
        ("[ 7 ]", Some(vec![7])),
        ("[[1]]", None),
        ("[1.0]", None),
        ("{}", None),
        ("[18446744073709551616]", None),
    ] {
        let record = whole.replace("\"worker\":0", &format!("\"targets\":{list},\"worker\":0"));
        assert_eq!(
            Lease::parse(id, record.as_bytes()).unwrap().targets(),
            read,
            "{list}"
        );
    }
}

/// A token that cannot be a C string is none, read or set, and goes when removed.
#[test]
fn tokens_follow_their_field() {
    let vectors = vectors();
    let id = text(&vectors["records"], "id");
    let whole = vectors["records"]["valid"][0].as_str().unwrap();
    for odd in [r#""a\u0000b""#, r#""\ud800""#] {
        let token = "\"host:1:0:4242:1786060800000000000\"";
        let lease = Lease::parse(id, whole.replace(token, odd).as_bytes()).unwrap();
        assert_eq!(lease.token(), None);
    }
    let mut lease = Lease::parse(id, whole.as_bytes()).unwrap();
    lease.set_text("token", "a");
    assert_eq!(lease.token(), Some("a"));
    lease.set_text("token", "a\0b");
    assert_eq!(lease.token(), None);
    lease.set_text("token", "a");
    lease.remove("token");
    assert_eq!(lease.token(), None);
}

/// Duplicate keys are refused at every level; `a` and its escape are one key.
#[test]
fn duplicate_keys_are_refused() {
    for bad in [
        r#"{"a":1,"a":1}"#,
        r#"{"x":[{"a":1,"\u0061":2}]}"#,
        r#"{"a":{"b":1,"b":2}}"#,
    ] {
        assert!(
            json::parse(bad.as_bytes())
                .unwrap_err()
                .contains("duplicate"),
            "{bad}"
        );
    }
}

#[test]
fn grammar_is_strict() {
    let bad = [
        "",
        " ",
        "{",
        "}",
        "[1,]",
        "[,1]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "-",
        "nul",
        "truefalse",
        "\"\\x\"",
        "\"\\u12\"",
        "\"a\nb\"",
        "[1 2]",
        "1 2",
        "[}",
        "{]",
        "'a'",
        "[1]]",
        "NaN",
        "-Infinity",
    ];
    for text in bad {
        assert!(parse(text.as_bytes()).is_err(), "{text}");
    }
    for text in [
        "[]",
        "{}",
        " [ ] ",
        "[[],{}]",
        "\"\"",
        "-0.0e-0",
        "{\"\":{}}",
    ] {
        assert!(parse(text.as_bytes()).is_ok(), "{text}");
    }
}

proptest! {
    #[test]
    fn python_floats_read_back(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        prop_assume!(value.is_finite());
        let back: f64 = python_float(value).parse().unwrap();
        prop_assert_eq!(back.to_bits(), value.to_bits());
    }

    #[test]
    fn any_bytes_are_refused_or_canonical_is_stable(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(doc) = parse(&bytes) {
            let once = doc.canonical(Numbers::AsWritten).unwrap();
            let twice = parse(once.as_bytes()).unwrap().canonical(Numbers::AsWritten).unwrap();
            prop_assert_eq!(once, twice);
            if let Ok(once) = doc.canonical(Numbers::Python) {
                let twice = parse(once.as_bytes()).unwrap().canonical(Numbers::Python).unwrap();
                prop_assert_eq!(once, twice);
            }
        }
    }

    #[test]
    fn any_text_survives(text in any::<String>()) {
        let mut quoted = String::new();
        json::quote(text.as_bytes(), &mut quoted);
        prop_assert!(quoted.is_ascii());
        let doc = parse(quoted.as_bytes()).unwrap();
        prop_assert_eq!(doc.text().unwrap(), text.as_bytes());
        prop_assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text);
    }
}
