//! Strict JSON with what the format needs and common readers do not give: no
//! duplicate keys at any level, numbers kept digit by digit, lone surrogate
//! escapes kept, any depth without recursion (F19, F21).

use super::number::python_number;
use crate::guard::{on, Guard};

/// How numbers are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// As they stand in the source.
    AsWritten,
    /// As Python's `json.dumps` prints what its `json.loads` read.
    Python,
}

/// A value; containers name their members by position in the arena, so that
/// neither reading nor dropping a deep document uses the stack.
#[derive(Debug)]
enum Node {
    Object(Vec<(Vec<u8>, usize)>),
    Array(Vec<usize>),
    Text(Vec<u8>),
    Number(String),
    Word(&'static str),
}

/// A parsed document.
#[derive(Debug)]
pub struct Doc {
    nodes: Vec<Node>,
}

/// Reads one document; the error names the byte it failed at.
pub fn parse(bytes: &[u8]) -> Result<Doc, String> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("byte {}: not UTF-8", error.valid_up_to()))?;
    Parser {
        bytes: text.as_bytes(),
        at: 0,
        nodes: Vec::new(),
    }
    .document()
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
}

/// A container that is still open, and the key whose value comes next.
struct Open {
    node: usize,
    key: Option<Vec<u8>>,
}

impl Parser<'_> {
    fn document(mut self) -> Result<Doc, String> {
        let mut open: Vec<Open> = Vec::new();
        let mut more = true;
        while more {
            self.space();
            let node = self.value()?;
            let opened = matches!(self.nodes[node], Node::Object(_) | Node::Array(_));
            self.attach(&mut open, node);
            if opened {
                open.push(Open { node, key: None });
            }
            more = self.close(&mut open, opened)?;
        }
        self.space();
        if self.at != self.bytes.len() {
            return Err(self.error("something follows the document"));
        }
        for node in &mut self.nodes {
            if let Node::Object(members) = node {
                sort_keys(members)?;
            }
        }
        Ok(Doc { nodes: self.nodes })
    }

    /// After a value: closes what ends here, and reads on to the next value's
    /// place. Answers whether there is one.
    fn close(&mut self, open: &mut Vec<Open>, opened: bool) -> Result<bool, String> {
        let mut first = opened;
        while let Some(top) = open.last_mut() {
            self.space();
            let object = matches!(self.nodes[top.node], Node::Object(_));
            let end = if object { b'}' } else { b']' };
            if self.take(&[end]) {
                open.pop();
                first = false;
                continue;
            }
            if !first && !self.take(b",") {
                return Err(self.error("a comma or the end of the container is missing"));
            }
            if object {
                self.space();
                let key = self.string()?;
                self.space();
                if !self.take(b":") {
                    return Err(self.error("a colon is missing"));
                }
                top.key = Some(key);
            }
            return Ok(true);
        }
        Ok(false)
    }

    fn attach(&mut self, open: &mut [Open], node: usize) {
        let Some(top) = open.last_mut() else { return };
        match &mut self.nodes[top.node] {
            Node::Object(members) => members.push((top.key.take().unwrap_or_default(), node)),
            Node::Array(items) => items.push(node),
            _ => {}
        }
    }

    fn value(&mut self) -> Result<usize, String> {
        let node = match self.peek() {
            Some(b'{') => Node::Object(Vec::new()),
            Some(b'[') => Node::Array(Vec::new()),
            Some(b'"') => Node::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => Node::Number(self.number()?),
            _ => self.word()?,
        };
        self.at += usize::from(matches!(node, Node::Object(_) | Node::Array(_)));
        self.nodes.push(node);
        Ok(self.nodes.len() - 1)
    }

    fn word(&mut self) -> Result<Node, String> {
        let rest = &self.bytes[self.at..];
        let mut words = ["true", "false", "null"].into_iter();
        let word = words.find(|word| rest.starts_with(word.as_bytes()));
        let word = word.ok_or_else(|| self.error("no JSON value"))?;
        self.at += word.len();
        Ok(Node::Word(word))
    }

    fn number(&mut self) -> Result<String, String> {
        let start = self.at;
        self.take(b"-");
        if !self.take(b"0") {
            self.digits()?;
        }
        if self.take(b".") {
            self.digits()?;
        }
        if self.take(b"eE") {
            self.take(b"+-");
            self.digits()?;
        }
        Ok(String::from_utf8_lossy(&self.bytes[start..self.at]).into_owned())
    }

    fn digits(&mut self) -> Result<(), String> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.error("a digit is missing"));
        }
        Ok(())
    }

    /// As WTF-8 (a lone surrogate is three bytes): byte order is Python's code point order.
    fn string(&mut self) -> Result<Vec<u8>, String> {
        if !self.take(b"\"") {
            return Err(self.error("a string is missing"));
        }
        let mut out = Vec::new();
        while !self.take(b"\"") {
            match self.peek() {
                Some(b'\\') => self.escape(&mut out)?,
                Some(byte) if byte >= 0x20 => {
                    out.push(byte);
                    self.at += 1;
                }
                _ => return Err(self.error("a string does not end, or holds a control byte")),
            }
        }
        Ok(out)
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let plain = match self.bytes.get(self.at + 1).copied() {
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => return self.unicode(out),
            _ => return Err(self.error("no such escape")),
        };
        out.push(plain);
        self.at += 2;
        Ok(())
    }

    fn unicode(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let mut code = self.hex4(self.at + 2)?;
        self.at += 6;
        if (0xd800..0xdc00).contains(&code) && self.bytes[self.at..].starts_with(b"\\u") {
            let low = self.hex4(self.at + 2)?;
            if (0xdc00..0xe000).contains(&low) {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                self.at += 6;
            }
        }
        push_code(out, code);
        Ok(())
    }

    fn hex4(&self, at: usize) -> Result<u32, String> {
        let digits = self.bytes.get(at..at + 4).unwrap_or_default();
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        let code = digits
            .iter()
            .try_fold(0, |code, byte| Some(code << 4 | digit(byte)?));
        code.filter(|_| digits.len() == 4)
            .ok_or_else(|| self.error("four hex digits are missing"))
    }

    fn take(&mut self, any: &[u8]) -> bool {
        let found = self.peek().is_some_and(|byte| any.contains(&byte));
        self.at += usize::from(found);
        found
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn error(&self, what: &str) -> String {
        format!("byte {}: {what}", self.at)
    }
}

fn sort_keys(members: &mut [(Vec<u8>, usize)]) -> Result<(), String> {
    members.sort_by(|a, b| a.0.cmp(&b.0));
    let same = |pair: &&[(Vec<u8>, usize)]| pair[0].0 == pair[1].0 && on(Guard::DuplicateKey);
    let Some(pair) = members.windows(2).find(same) else {
        return Ok(());
    };
    let key = String::from_utf8_lossy(&pair[0].0);
    Err(format!("duplicate key {key}"))
}

/// Appends a code point as UTF-8, a lone surrogate as its three WTF-8 bytes.
fn push_code(out: &mut Vec<u8>, code: u32) {
    match char::from_u32(code) {
        Some(letter) => out.extend(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        None => out.extend([0xe0 | (code >> 12) as u8, tail(code >> 6), tail(code)]),
    }
}

fn tail(bits: u32) -> u8 {
    0x80 | (bits & 0x3f) as u8
}

/// Prints WTF-8 as an ASCII JSON string, as Python does (DEL is escaped too).
pub fn quote(text: &[u8], out: &mut String) {
    out.push('"');
    let mut at = 0;
    while at < text.len() {
        let (code, length) = code_at(&text[at..]);
        at += length;
        match code {
            0x22 | 0x5c => out.extend(['\\', code as u8 as char]),
            0x0a => out.push_str("\\n"),
            0x0d => out.push_str("\\r"),
            0x09 => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            0x20..=0x7e => out.push(code as u8 as char),
            0..=0xffff => out.push_str(&format!("\\u{code:04x}")),
            _ => {
                let rest = code - 0x10000;
                let (high, low) = (0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
                out.push_str(&format!("\\u{high:04x}\\u{low:04x}"));
            }
        }
    }
    out.push('"');
}

/// The first code point of WTF-8 text and its length in bytes.
fn code_at(text: &[u8]) -> (u32, usize) {
    let first = u32::from(text[0]);
    let (head, length) = match first {
        0..=0x7f => (first, 1),
        0x80..=0xdf => (first & 0x1f, 2),
        0xe0..=0xef => (first & 0x0f, 3),
        _ => (first & 0x07, 4),
    };
    let bits = |position: usize| u32::from(text.get(position).copied().unwrap_or(0) & 0x3f);
    let code = (1..length).fold(head, |code, position| code << 6 | bits(position));
    (code, length)
}

impl Doc {
    /// Whether the document is an object.
    pub fn is_object(&self) -> bool {
        matches!(self.nodes[0], Node::Object(_))
    }

    /// The members of a top-level object: key and canonical text, sorted.
    /// `None` for any other document.
    pub fn members(&self) -> Option<Vec<(Vec<u8>, String)>> {
        let Node::Object(members) = &self.nodes[0] else {
            return None;
        };
        // As written, no number can fail.
        let text = |node: usize| self.print(node, Numbers::AsWritten).unwrap_or_default();
        let member = |(key, node): &(Vec<u8>, usize)| (key.clone(), text(*node));
        Some(members.iter().map(member).collect())
    }

    /// The decoded text of a document that is one string.
    pub fn text(&self) -> Option<&[u8]> {
        match &self.nodes[0] {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    /// One line, keys sorted at every level, ASCII. Fails only where Python
    /// would print a number that is not finite.
    pub fn canonical(&self, numbers: Numbers) -> Result<String, String> {
        self.print(0, numbers)
    }

    fn print(&self, root: usize, numbers: Numbers) -> Result<String, String> {
        let mut out = String::new();
        // What is still to be printed, last first.
        let mut rest = vec![Piece::Node(None, root)];
        while let Some(piece) = rest.pop() {
            let (key, node) = match piece {
                Piece::Node(key, node) => (key, node),
                Piece::Text(text) => {
                    out.push_str(text);
                    continue;
                }
            };
            if let Some(key) = key {
                quote(key, &mut out);
                out.push(':');
            }
            match &self.nodes[node] {
                Node::Word(word) => out.push_str(word),
                Node::Text(text) => quote(text, &mut out),
                Node::Number(text) if numbers == Numbers::AsWritten => out.push_str(text),
                Node::Number(text) => out.push_str(&python_number(text)?),
                Node::Array(items) => {
                    out.push('[');
                    queue(&mut rest, "]", items.iter().map(|item| (None, *item)));
                }
                Node::Object(members) => {
                    out.push('{');
                    let members = members.iter().map(|(key, value)| (Some(&key[..]), *value));
                    queue(&mut rest, "}", members);
                }
            }
        }
        Ok(out)
    }
}

/// What `print` has still to do: a member or item (with its key), or a sign.
enum Piece<'a> {
    Node(Option<&'a [u8]>, usize),
    Text(&'static str),
}

/// Queues a container's members in order, commas between them, its end after.
fn queue<'a, I>(rest: &mut Vec<Piece<'a>>, end: &'static str, members: I)
where
    I: DoubleEndedIterator<Item = (Option<&'a [u8]>, usize)>,
{
    rest.push(Piece::Text(end));
    for (key, node) in members.rev() {
        rest.extend([Piece::Node(key, node), Piece::Text(",")]);
    }
    // The first has no comma before it; an empty container has none at all.
    if matches!(rest.last(), Some(Piece::Text(","))) {
        rest.pop();
    }
}
