//! A strict cursor over JSON for the coverage files, whose many small numbers
//! are not worth a tree. Never recurses (F19).

use super::number;
use crate::guard::{on, Guard};
use std::collections::BTreeSet;
use std::ops::Range;

/// How deep a value that is passed over may nest.
const DEPTH: usize = 1 << 16;

/// A place in JSON text.
pub struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

/// The result of a step; the error says what is wrong and where.
pub type Step<T> = Result<T, String>;

impl<'a> Reader<'a> {
    /// At the start of the bytes, which must be UTF-8.
    pub fn new(bytes: &'a [u8]) -> Step<Reader<'a>> {
        let text = std::str::from_utf8(bytes).map_err(|error| format!("not UTF-8: {error}"))?;
        Ok(Reader { text, bytes, at: 0 })
    }

    /// The error for this place.
    pub fn wrong(&self, what: &str) -> String {
        format!("{what} at byte {}", self.at)
    }

    /// The place, in bytes from the start.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The text of a range that [`Reader::skip`] answered.
    pub fn slice(&self, range: Range<usize>) -> &'a str {
        &self.text[range]
    }

    /// Passes white space; the byte that follows, not taken. 0 at the end.
    pub fn peek(&mut self) -> u8 {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(byte) => return *byte,
                None => return 0,
            }
        }
    }

    /// Takes one byte after white space.
    pub fn expect(&mut self, byte: u8) -> Step<()> {
        if self.take(byte) {
            return Ok(());
        }
        Err(self.wrong(&format!("no {:?}", char::from(byte))))
    }

    /// Takes the byte after white space where it stands there.
    pub fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte && self.at < self.bytes.len();
        self.at += usize::from(found);
        found
    }

    /// Nothing but white space may follow.
    pub fn end(&mut self) -> Step<()> {
        self.peek();
        if self.at == self.bytes.len() {
            return Ok(());
        }
        Err(self.wrong("trailing bytes"))
    }

    /// Whether another member follows: `first` is the state between calls.
    pub fn more(&mut self, first: &mut bool, close: u8) -> Step<bool> {
        if self.take(close) {
            return Ok(false);
        }
        if !std::mem::replace(first, false) {
            self.expect(b',')?;
        }
        Ok(true)
    }

    /// Reads an object's members: `each` must take the value.
    pub fn object(
        &mut self,
        mut each: impl FnMut(&mut Reader<'a>, String) -> Step<()>,
    ) -> Step<()> {
        let (mut seen, mut first) = (BTreeSet::new(), true);
        self.expect(b'{')?;
        while self.more(&mut first, b'}')? {
            let key = self.string()?;
            self.expect(b':')?;
            if !seen.insert(key.clone()) && on(Guard::DuplicateKey) {
                return Err(self.wrong(&format!("{key:?} twice")));
            }
            each(self, key)?;
        }
        Ok(())
    }

    /// A string without lone surrogates.
    pub fn string(&mut self) -> Step<String> {
        let raw = self.wide_string()?;
        String::from_utf8(raw).map_err(|_| self.wrong("a lone surrogate"))
    }

    /// A string; lone surrogates as three bytes each.
    fn wide_string(&mut self) -> Step<Vec<u8>> {
        self.expect(b'"')?;
        let mut out = Vec::new();
        loop {
            let start = self.at;
            let rest = &self.bytes[start..];
            let plain = rest
                .iter()
                .position(|byte| matches!(byte, b'"' | b'\\' | 0..=31));
            let plain = plain.ok_or_else(|| self.wrong("a string without end"))?;
            out.extend_from_slice(&rest[..plain]);
            self.at += plain + 1;
            match rest[plain] {
                b'"' => return Ok(out),
                b'\\' => self.escape(&mut out)?,
                _ => return Err(self.wrong("a control character")),
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Step<()> {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        out.push(match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let code = self.unit()?;
                push_code(code, out);
                return Ok(());
            }
            _ => return Err(self.wrong("an unknown escape")),
        });
        Ok(())
    }

    /// The code after `\u`, with the second half of a pair.
    fn unit(&mut self) -> Step<u32> {
        let high = self.hex()?;
        let paired = self
            .bytes
            .get(self.at..)
            .is_some_and(|rest| rest.starts_with(b"\\u"));
        if !(0xd800..0xdc00).contains(&high) || !paired {
            return Ok(high);
        }
        let back = self.at;
        self.at += 2;
        let low = self.hex()?;
        if (0xdc00..0xe000).contains(&low) {
            return Ok(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
        }
        self.at = back;
        Ok(high)
    }

    fn hex(&mut self) -> Step<u32> {
        let digits = self.bytes.get(self.at..self.at + 4);
        let digits = digits.ok_or_else(|| self.wrong("a short \\u"))?;
        let mut code = 0;
        for digit in digits {
            let value = char::from(*digit).to_digit(16);
            code = code * 16 + value.ok_or_else(|| self.wrong("a bad \\u"))?;
        }
        self.at += 4;
        Ok(code)
    }

    /// A number's text, as JSON writes it.
    pub fn number(&mut self) -> Step<&'a str> {
        self.peek();
        let start = self.at;
        self.at += usize::from(self.byte() == b'-');
        let zero = self.byte() == b'0';
        let whole = self.digits();
        if whole == 0 || (zero && whole > 1) {
            return Err(self.wrong("no number"));
        }
        if self.byte() == b'.' {
            self.at += 1;
            if self.digits() == 0 {
                return Err(self.wrong("no digits after the point"));
            }
        }
        if matches!(self.byte(), b'e' | b'E') {
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), b'+' | b'-'));
            if self.digits() == 0 {
                return Err(self.wrong("no exponent"));
            }
        }
        Ok(&self.text[start..self.at])
    }

    fn byte(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.byte().is_ascii_digit() {
            self.at += 1;
        }
        self.at - start
    }

    /// An integer >= 0 of at most 64 bits. Booleans and floats are none.
    pub fn unsigned(&mut self) -> Step<u64> {
        let text = self.number()?;
        number::unsigned(text).ok_or_else(|| self.wrong("no integer >= 0"))
    }

    /// The same below 2^32, without a detour for the many in `entries`.
    pub fn small(&mut self) -> Step<u32> {
        self.peek();
        let (start, mut value) = (self.at, 0u64);
        while self.byte().is_ascii_digit() && self.at - start < 11 {
            value = value * 10 + u64::from(self.byte() - b'0');
            self.at += 1;
        }
        let length = self.at - start;
        if length == 0 || (length > 1 && self.bytes[start] == b'0') {
            return Err(self.wrong("no integer >= 0"));
        }
        u32::try_from(value).map_err(|_| self.wrong("too large a number"))
    }

    /// A time: finite and >= 0 (C3).
    pub fn time(&mut self) -> Step<f64> {
        let text = self.number()?;
        number::time(text).ok_or_else(|| self.wrong("no finite time >= 0"))
    }

    /// Passes over any value strictly and answers where it stands.
    pub fn skip(&mut self) -> Step<Range<usize>> {
        self.peek();
        let start = self.at;
        // For every open object the keys so far; nothing for a list.
        let mut open: Vec<Option<BTreeSet<Vec<u8>>>> = Vec::new();
        loop {
            let opened = self.begin(&mut open)?;
            let mut first = opened;
            loop {
                let Some(top) = open.last_mut() else {
                    return Ok(start..self.at);
                };
                let close = if top.is_some() { b'}' } else { b']' };
                if !self.more(&mut first, close)? {
                    open.pop();
                    first = false;
                    continue;
                }
                if let Some(seen) = top {
                    let key = self.wide_string()?;
                    if !seen.insert(key) && on(Guard::DuplicateKey) {
                        return Err(self.wrong("a key twice"));
                    }
                    self.expect(b':')?;
                }
                break;
            }
        }
    }

    /// Takes a scalar, or opens an object or list (true).
    fn begin(&mut self, open: &mut Vec<Option<BTreeSet<Vec<u8>>>>) -> Step<bool> {
        let word = match self.peek() {
            b'{' | b'[' if open.len() >= DEPTH => return Err(self.wrong("too deep")),
            byte @ (b'{' | b'[') => {
                self.at += 1;
                open.push((byte == b'{').then(BTreeSet::new));
                return Ok(true);
            }
            b'"' => return self.wide_string().map(|_| false),
            b't' => "true",
            b'f' => "false",
            b'n' => "null",
            _ => return self.number().map(|_| false),
        };
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(self.wrong("no value"));
        }
        self.at += word.len();
        Ok(false)
    }
}

/// A code as UTF-8, a lone surrogate in the same manner.
fn push_code(code: u32, out: &mut Vec<u8>) {
    match char::from_u32(code) {
        Some(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        None => out.extend([
            0xe0 | (code >> 12) as u8,
            0x80 | (code >> 6 & 0x3f) as u8,
            0x80 | (code & 0x3f) as u8,
        ]),
    }
}

/// Appends a JSON string as Python prints it: ASCII with `\u` escapes.
pub fn quote(text: &str, out: &mut String) {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(char),
            _ => escape_char(char, out),
        }
    }
    out.push('"');
}

fn escape_char(char: char, out: &mut String) {
    for unit in char.encode_utf16(&mut [0; 2]) {
        out.push_str(&format!("\\u{unit:04x}"));
    }
}

/// A value's text on one line of ASCII without spaces. The order of keys and
/// the digits of numbers stay.
pub fn compact(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let (mut inside, mut escaped) = (false, false);
    for char in raw.chars() {
        if inside && !escaped && char == '\\' {
            escaped = true;
            out.push(char);
            continue;
        }
        if char == '"' && !escaped {
            inside = !inside;
        }
        escaped = false;
        match char {
            ' ' | '\t' | '\n' | '\r' if !inside => {}
            ' '..='~' => out.push(char),
            _ => escape_char(char, &mut out),
        }
    }
    out
}
