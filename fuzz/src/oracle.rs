//! A Python process that is asked what it thinks of bytes.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Python's answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Opinion {
    /// Valid; for a document its canonical text.
    Accepted(String),
    /// Not valid.
    Refused,
    /// Deeper than Python goes, or not settled by the format.
    None,
}

struct Python {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

thread_local! {
    static PYTHON: RefCell<Option<Python>> = const { RefCell::new(None) };
}

/// Where the script lies: beside this crate, or below the library's.
fn script() -> String {
    let base = env!("CARGO_MANIFEST_DIR");
    let own = format!("{base}/oracle.py");
    match std::path::Path::new(&own).exists() {
        true => own,
        false => format!("{base}/fuzz/oracle.py"),
    }
}

fn start() -> Python {
    let mut child = Command::new("python3")
        .arg("-S")
        .arg(script())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 starts");
    let input = child.stdin.take().expect("piped");
    let output = child.stdout.take().expect("piped");
    Python {
        child,
        input,
        output,
    }
}

/// Asks; `kind` is a letter of `oracle.py`.
pub fn ask(kind: u8, data: &[u8]) -> Opinion {
    PYTHON.with_borrow_mut(|slot| {
        let python = slot.get_or_insert_with(start);
        let length = u32::try_from(data.len()).expect("a small input");
        let mut request = vec![kind];
        request.extend(length.to_le_bytes());
        request.extend(data);
        python.input.write_all(&request).expect("python3 reads");
        let mut head = [0; 5];
        python
            .output
            .read_exact(&mut head)
            .expect("python3 answers");
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        let mut text = vec![0; length as usize];
        python
            .output
            .read_exact(&mut text)
            .expect("python3 answers");
        match head[0] {
            b'a' => Opinion::Accepted(String::from_utf8(text).expect("ASCII")),
            b'r' => Opinion::Refused,
            _ => Opinion::None,
        }
    })
}
