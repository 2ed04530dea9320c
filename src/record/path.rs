//! Paths as JSON text: bytes that are not UTF-8 as Python's surrogateescape
//! has them, paths below a base without it (`format.md`, "Manifest").

/// A path as WTF-8 text: each byte that is not UTF-8 becomes U+DC00 + byte.
pub fn to_text(path: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(path.len());
    let mut rest = path;
    while !rest.is_empty() {
        let error = match std::str::from_utf8(rest) {
            Ok(_) => {
                text.extend(rest);
                break;
            }
            Err(error) => error,
        };
        let (good, bad) = rest.split_at(error.valid_up_to());
        text.extend(good);
        let length = error.error_len().unwrap_or(bad.len());
        for byte in &bad[..length] {
            // U+DC80 to U+DCFF in three bytes.
            text.extend([0xed, 0xb0 | (byte >> 6), 0x80 | (byte & 0x3f)]);
        }
        rest = &bad[length..];
    }
    text
}

/// The path behind such a text.
pub fn from_text(text: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        match text[at..] {
            [0xed, middle @ 0xb2..=0xb3, last, ..] => {
                path.push((middle << 6) | (last & 0x3f));
                at += 3;
            }
            [byte, ..] => {
                path.push(byte);
                at += 1;
            }
            [] => break,
        }
    }
    path
}

/// A path below `base` without it; any other as it is.
pub fn relative<'a>(base: &[u8], path: &'a [u8]) -> &'a [u8] {
    match path.strip_prefix(base) {
        Some([b'/', below @ ..]) if !below.is_empty() => below,
        _ => path,
    }
}

/// The absolute path again.
pub fn absolute(base: &[u8], path: &[u8]) -> Vec<u8> {
    if path.first() == Some(&b'/') {
        return path.to_vec();
    }
    [base, b"/", path].concat()
}

/// Whether `name` is one path component that may be made: not empty, neither
/// `.` nor `..`, no slash, no NUL.
pub fn is_component(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && name != b"."
        && name != b".."
        && !name.contains(&b'/')
        && !name.contains(&0)
}

/// A path's directory and its last component.
pub fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let slash = path.iter().rposition(|byte| *byte == b'/')?;
    let (parent, name) = (&path[..slash], &path[slash + 1..]);
    is_component(name).then_some((if parent.is_empty() { b"/" } else { parent }, name))
}
