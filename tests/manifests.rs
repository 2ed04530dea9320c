//! Manifests and the maps beside staged results: every byte comes back.

use proptest::prelude::*;
use symlease::record::manifest::{map_bytes, map_edges, Entry, Manifest};
use symlease::record::path::{absolute, from_text, is_component, relative, split, to_text};

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(1..=255u8, 1..20).prop_filter("a component", |name| is_component(name))
}

proptest! {
    /// F11: paths are bytes, in a manifest too.
    #[test]
    fn manifests_come_back(
        corpus in name(), names in prop::collection::vec((name(), name(), any::<bool>()), 0..5)
    ) {
        let results = names.into_iter().enumerate().map(|(number, (name, staged, keep))| Entry {
            corpus: corpus.clone(),
            keep,
            map: if keep { String::new() } else { "a".repeat(64) },
            name,
            sha256: "0".repeat(64),
            size: number as u64,
            staged,
        });
        let manifest = Manifest { corpus: corpus.clone(), results: results.collect() };
        let text = manifest.to_text();
        prop_assert!(text.is_ascii());
        prop_assert_eq!(Manifest::parse(&text).unwrap(), Some(manifest));
    }

    #[test]
    fn any_path_comes_back(path in prop::collection::vec(any::<u8>(), 0..64)) {
        prop_assert_eq!(from_text(&to_text(&path)), path);
    }

    #[test]
    fn maps_come_back(edges in prop::collection::btree_map(0..8_388_608u32, 1..=255u8, 0..50)) {
        let edges: Vec<(u32, u8)> = edges.into_iter().collect();
        prop_assert_eq!(map_edges(&map_bytes(&edges)).unwrap(), edges);
    }

    #[test]
    fn any_bytes_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), text in any::<String>()) {
        let _ = map_edges(&bytes);
        let _ = Manifest::parse(&text);
    }
}

/// Python's surrogateescape: 0xff is U+DCFF, valid UTF-8 stays.
#[test]
fn bytes_are_escaped_as_python_does() {
    let manifest = Manifest {
        corpus: b"/c\xff\xc3\xa9".to_vec(),
        results: Vec::new(),
    };
    let text = "{\"corpus\":\"/c\\udcff\\u00e9\",\"results\":[],\"schema\":\"symlease-commit-v1\"}";
    assert_eq!(manifest.to_text(), text);
    assert_eq!(
        Manifest::parse("{\"hashes\":[\"a\"]}").unwrap(),
        None,
        "another's schema"
    );
}

#[test]
fn names_that_leave_the_corpus_are_refused() {
    let entry = |name: &str| {
        format!(
            "{{\"corpus\":\"c\",\"results\":[{{\"corpus\":\"c\",\"keep\":false,\"map\":\"\",\
             \"name\":\"{name}\",\"sha256\":\"{}\",\"size\":1,\"staged\":\"s\"}}],\
             \"schema\":\"symlease-commit-v1\"}}",
            "0".repeat(64)
        )
    };
    assert!(Manifest::parse(&entry("fine")).unwrap().is_some());
    for bad in ["", ".", "..", "a/b", "../x", "/etc/passwd", "a\\u0000b"] {
        assert!(Manifest::parse(&entry(bad)).is_err(), "{bad}");
    }
}

#[test]
fn paths_below_the_base_are_relative() {
    assert_eq!(relative(b"/c", b"/c/out/x"), b"out/x");
    for path in [&b"/cc/x"[..], b"/c", b"/c/", b"/other"] {
        assert_eq!(relative(b"/c", path), path);
    }
    assert_eq!(absolute(b"/c", b"out/x"), b"/c/out/x");
    assert_eq!(absolute(b"/c", b"/out/x"), b"/out/x");
    assert_eq!(split(b"/a/b"), Some((&b"/a"[..], &b"b"[..])));
    assert_eq!(split(b"/a"), Some((&b"/"[..], &b"a"[..])));
    assert_eq!(split(b"/a/.."), None);
}
