//! The kept inputs of the fuzz targets, and inputs derived from them, replayed
//! without a fuzzing engine. `docs/fuzzing.md` says how they come to be.

#![allow(unsafe_code)] // one target makes C calls

#[path = "../fuzz/src/lib.rs"]
#[allow(dead_code)]
mod symlease_fuzz;

use symlease_fuzz::*; // at the root, where the targets look for their modules

fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let place = format!("{}/fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut inputs: Vec<_> = std::fs::read_dir(place)
        .expect("a corpus")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| {
            (
                path.display().to_string(),
                std::fs::read(&path).expect("an input"),
            )
        })
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty());
    inputs
}

/// Says which input it was.
struct Named<'a>(&'a str, &'a [u8]);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the failing input: {} {:?}", self.0, self.1);
        }
    }
}

fn replay(target: &str) {
    let (_, check) = TARGETS
        .iter()
        .find(|entry| entry.0 == target)
        .expect("a target");
    for (name, input) in corpus(target) {
        let _named = Named(&name, &input);
        check(&input);
    }
}

/// The same inputs cut and with one bit turned: what a fuzzer does first.
fn mutate(target: &str, most: usize) {
    let (_, check) = TARGETS
        .iter()
        .find(|entry| entry.0 == target)
        .expect("a target");
    let inputs = corpus(target);
    let every = (inputs.len() * 8).div_ceil(most).max(1);
    for (number, (name, input)) in inputs.iter().enumerate().step_by(every) {
        for turn in 0..8 {
            let mut changed = input.clone();
            if changed.is_empty() {
                break;
            }
            let place = (number * 31 + turn * 17) % changed.len();
            match turn {
                0..=1 => changed.truncate(place),
                2 => drop(changed.remove(place)),
                _ => changed[place] ^= 1 << turn,
            }
            let _named = Named(name, &changed);
            check(&changed);
        }
    }
}

macro_rules! replays {
    ($($target:ident),*) => {$(
        #[test]
        fn $target() {
            replay(stringify!($target));
            mutate(stringify!($target), 2000);
        }
    )*};
}

replays!(json, lease, shard, transaction, manifest, small);

/// The stateful one: its clock belongs to the process, so it has one thread.
#[test]
fn calls() {
    replay("calls");
    mutate("calls", 200);
}

/// No target without a corpus, and none too large to keep.
#[test]
fn the_corpus_is_small() {
    let sizes = TARGETS.iter().flat_map(|(target, _)| corpus(target));
    let total: usize = sizes.map(|(_, input)| input.len()).sum();
    assert!(total < 1 << 20, "{total} bytes");
}
