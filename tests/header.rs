//! `include/symlease.h` is what the source says, and compiles clean.
//! `SYMLEASE_WRITE_HEADER=1 cargo test --test header` writes it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The order of the declarations; other files of `src/ffi` come last.
const ORDER: [&str; 3] = ["constants.rs", "types.rs", "library.rs"];
/// After those: the header reads as the manual does.
const LATER: [&str; 4] = ["campaign.rs", "work.rs", "group.rs", "coverage.rs"];

fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources() -> Vec<PathBuf> {
    let folder = home().join("src/ffi");
    let mut files: Vec<String> = std::fs::read_dir(&folder)
        .expect("src/ffi")
        .map(|entry| {
            entry
                .expect("entry")
                .file_name()
                .into_string()
                .expect("a UTF-8 name")
        })
        .filter(|name| name.ends_with(".rs") && name != "mod.rs" && name != "tests.rs")
        .collect();
    let place = |name: &str| ORDER.iter().chain(&LATER).position(|known| *known == name);
    files.sort_by_key(|name| (place(name).unwrap_or(usize::MAX), name.clone()));
    files.iter().map(|name| folder.join(name)).collect()
}

#[test]
fn header_is_fresh() {
    let config = cbindgen::Config::from_file(home().join("cbindgen.toml")).expect("cbindgen.toml");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in sources() {
        builder = builder.with_src(source);
    }
    let mut made = Vec::new();
    builder.generate().expect("a header").write(&mut made);
    let made = String::from_utf8(made).expect("UTF-8");
    let path = home().join("include/symlease.h");
    if std::env::var_os("SYMLEASE_WRITE_HEADER").is_some() {
        std::fs::create_dir_all(home().join("include")).expect("include");
        std::fs::write(&path, &made).expect("written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == made,
        "include/symlease.h is stale: set SYMLEASE_WRITE_HEADER=1 and run again"
    );
}

#[test]
fn header_compiles_clean() {
    let header = home().join("include/symlease.h");
    let folder = tempfile::tempdir().expect("a folder");
    for (standard, suffix) in [("c99", "c"), ("c11", "c"), ("c++17", "cc"), ("c++20", "cc")] {
        let source = folder.path().join(format!("use.{suffix}"));
        let text = format!(
            "#include \"{0}\"\n#include \"{0}\"\n{USE}",
            header.display()
        );
        std::fs::write(&source, text).expect("written");
        let done = Command::new("cc")
            .arg(format!("-std={standard}"))
            .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"])
            .arg(&source)
            .output()
            .expect("cc");
        let words = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{standard}: {words}");
    }
}

/// What a program does with the header's own names.
const USE: &str = r"
static int visit(void *user, const symlease_view *view) { (void)user; return view->id == NULL; }
int main(void) {
  symlease_options options;
  symlease_lease lease;
  symlease_view_fn visitor = visit;
  double every = SYMLEASE_TTL_RECORD;
  char id[SYMLEASE_ID_SIZE];
  typedef char same_size[sizeof lease.id == sizeof id ? 1 : -1];
  symlease_options_init(&options, sizeof options);
  options.clock = NULL;
  if (symlease_target_id(7, lease.id) == SYMLEASE_E_INVALID) return symlease_last_errno();
  return visitor == NULL || every > 0 || sizeof(same_size) != 1;
}
";

/// What a program includes takes no name that is not ours.
#[test]
fn every_macro_is_ours() {
    let text = std::fs::read_to_string(home().join("include/symlease.h")).unwrap();
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("#define ")?.split_whitespace().next())
        .collect();
    assert!(names.len() > 50, "{names:?}");
    for name in names {
        assert!(name.starts_with("SYMLEASE_"), "{name}");
    }
}
