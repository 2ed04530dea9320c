//! Files of coverage as candidates.

use std::io::Read;
use std::path::Path;

use symlease::campaign::coverage::Candidate;
use symlease::model::coverage::classify;
use symlease::record::shard::{Edge, INDEX_LIMIT};

use crate::arguments::Format;

/// A larger file is no map: text needs less than 16 bytes an index.
const FILE_MAX: u64 = 16 * INDEX_LIMIT as u64;
/// Classes of afl-showmap's text: one for each bucket bit.
const CLASSES: u64 = 8;

/// Reads a file as what it is said to be, or says what is wrong with it.
pub fn read(path: &Path, format: Format) -> Result<Candidate, String> {
    let bytes = bytes_of(path)?;
    let format = match format {
        Format::Auto => recognise(path, &bytes)?,
        said => said,
    };
    candidate(bytes, format)
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = match path == Path::new("-") {
        true => std::io::stdin()
            .lock()
            .take(FILE_MAX + 1)
            .read_to_end(&mut bytes),
        false => std::fs::File::open(path)
            .and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes)),
    };
    match read {
        Err(error) => Err(error.to_string()),
        Ok(_) if bytes.len() as u64 > FILE_MAX => Err(format!("larger than {FILE_MAX} bytes")),
        Ok(0) => Err("empty".to_string()),
        Ok(_) => Ok(bytes),
    }
}

/// Hit counts and bucket bits look alike: those must be said.
fn recognise(path: &Path, bytes: &[u8]) -> Result<Format, String> {
    if path.file_name().is_some_and(|name| name == "fuzz_bitmap") {
        return Ok(Format::Virgin);
    }
    let first = bytes.split(|byte| *byte == b'\n').next();
    let line = first.and_then(|line| std::str::from_utf8(line).ok());
    match line.is_some_and(|line| entry(line).is_some()) {
        true => Ok(Format::Showmap),
        false => Err(
            "neither named fuzz_bitmap nor lines number:count; a map may hold counts, \
                      bits or virgin bits: say which with --format"
                .to_string(),
        ),
    }
}

fn candidate(mut bytes: Vec<u8>, format: Format) -> Result<Candidate, String> {
    match format {
        Format::Counts => {
            let counts = bytes.clone();
            classify(&counts, &mut bytes);
            dense(&bytes)
        }
        Format::Virgin => {
            bytes.iter_mut().for_each(|byte| *byte = !*byte);
            dense(&bytes)
        }
        Format::Showmap => sparse(&bytes, &|class| match class {
            0 => Ok(0),
            1..=CLASSES => Ok(1 << (class - 1)),
            _ => Err(format!(
                "{class} is no class (1 to {CLASSES}); written with -r, it is --format \
                 showmap-counts"
            )),
        }),
        Format::ShowmapCounts => sparse(&bytes, &|count| {
            let count = u8::try_from(count).map_err(|_| format!("{count} is beyond 255"))?;
            let mut bit = [0];
            classify(&[count], &mut bit);
            Ok(bit[0])
        }),
        Format::Bits | Format::Auto => dense(&bytes),
    }
}

fn dense(bits: &[u8]) -> Result<Candidate, String> {
    Candidate::dense(bits).map_err(|error| error.text)
}

fn sparse(bytes: &[u8], bits: &dyn Fn(u64) -> Result<u8, String>) -> Result<Candidate, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "not text".to_string())?;
    let edges: Result<Vec<Edge>, String> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| {
            let at = |why: String| format!("line {}: {why}", number + 1);
            let (index, value) = entry(line).ok_or_else(|| at("not number:count".to_string()))?;
            Ok((index, bits(value).map_err(at)?))
        })
        .collect();
    Candidate::sparse(&edges?).map_err(|error| error.text)
}

/// A line `number:count`.
fn entry(line: &str) -> Option<(u32, u64)> {
    let (index, value) = line.trim().split_once(':')?;
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match number(index) && number(value) {
        true => Some((index.parse().ok()?, value.parse().ok()?)),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(bytes: &[u8], format: Format) -> Result<Vec<Edge>, String> {
        candidate(bytes.to_vec(), format).map(|candidate| candidate.edges)
    }

    #[test]
    fn maps() {
        let counts = [0, 1, 2, 3, 4, 8, 16, 32, 128, 255, 0];
        let bits: Vec<Edge> = [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32), (7, 64)]
            .into_iter()
            .chain([(8, 128), (9, 128)])
            .collect();
        assert_eq!(edges(&counts, Format::Counts).unwrap(), bits);
        assert_eq!(
            edges(&[0, 3, 128], Format::Bits).unwrap(),
            [(1, 3), (2, 128)]
        );
        assert_eq!(
            edges(&[255, 254, 0], Format::Virgin).unwrap(),
            [(1, 1), (2, 255)]
        );
        let size = candidate(vec![255; 64], Format::Virgin).unwrap().map_size;
        assert_eq!(size, Some(64));
    }

    #[test]
    fn text() {
        let lines = b"000007:1\n000003:8\n\n7:2\n9:0\n";
        assert_eq!(edges(lines, Format::Showmap).unwrap(), [(3, 128), (7, 3)]);
        let lines = b"000007:5\n000003:200\r\n";
        let counts = edges(lines, Format::ShowmapCounts).unwrap();
        assert_eq!(counts, [(3, 128), (7, 8)]);
    }

    #[test]
    fn wrong_text_is_refused_with_its_line() {
        let wrong = |bytes: &[u8], format| edges(bytes, format).unwrap_err();
        assert!(wrong(b"1:1\n1:9\n", Format::Showmap).contains("line 2: 9 is no class"));
        assert!(wrong(b"1:1\n1:256\n", Format::ShowmapCounts).contains("line 2: 256"));
        for line in [
            "1",
            "1:",
            ":1",
            "-1:1",
            "1:+1",
            "1:1:1",
            "1 1",
            "x:1",
            "4294967296:1",
        ] {
            let why = wrong(line.as_bytes(), Format::Showmap);
            assert!(why.starts_with("line 1: not number:count"), "{line}: {why}");
        }
        assert!(wrong(b"8388608:1", Format::Showmap).contains("8388608"));
        assert!(wrong(b"\xff:1", Format::Showmap).contains("not text"));
    }

    #[test]
    fn what_cannot_be_told_apart_must_be_said() {
        let path = |name: &str| std::path::PathBuf::from(name);
        let said = |name, bytes: &[u8]| recognise(&path(name), bytes);
        assert_eq!(said("a/fuzz_bitmap", &[1, 2]), Ok(Format::Virgin));
        assert_eq!(said("x", b"000001:1\n"), Ok(Format::Showmap));
        assert!(said("x", &[0, 1, 2]).unwrap_err().contains("--format"));
    }
}
