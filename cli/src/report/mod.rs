//! `symlease report`.

mod gather;
mod history;
mod page;
mod sections;
mod svg;

use std::io::Write;
use std::path::Path;

use crate::arguments::Report;
use crate::open::{to_look, Failure, Outcome, FINE};
use gather::Facts;
use history::Look;

pub fn run(asked: &Report, out: &mut dyn Write) -> Outcome {
    let looks: Vec<Look> = match &asked.history {
        Some(path) => history::read(path)?,
        None => Vec::new(),
    };
    let campaign = to_look(&asked.place)?;
    let facts = Facts::gather(&campaign)?;
    let place = std::path::absolute(&asked.place.dir)?;
    let name = place.file_name().unwrap_or(place.as_os_str());
    let title = match &asked.title {
        Some(title) => title.clone(),
        None => name.to_string_lossy().into_owned(),
    };
    let page = sections::page(&title, &place.to_string_lossy(), &facts, &looks);
    match &asked.output {
        Some(path) => replace(path, page.as_bytes())?,
        None => out.write_all(page.as_bytes())?,
    }
    Ok(FINE)
}

/// Whoever reads the page sees the old one or the new one.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let named = |error: std::io::Error| Failure::Words(format!("{}: {error}", path.display()));
    let mut private = path.as_os_str().to_owned();
    private.push(format!(".{}.tmp", std::process::id()));
    let written = std::fs::write(&private, bytes).and_then(|()| std::fs::rename(&private, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&private);
        named(error)
    })
}
