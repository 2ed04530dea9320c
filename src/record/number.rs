//! Numbers as text: Python's way of printing them, and checks.

/// A finite float as Python's `repr`: the shortest digits that read back, with
/// an exponent below 1e-4 and from 1e16 on.
pub fn python_float(value: f64) -> String {
    if value == 0.0 {
        return if value.is_sign_negative() {
            "-0.0"
        } else {
            "0.0"
        }
        .to_string();
    }
    // Rust's `{:e}` gives the same shortest digits.
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        return if plain.contains('.') {
            plain
        } else {
            format!("{plain}.0")
        };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// A JSON number as Python prints it after reading it: integers keep their
/// digits, everything else is a float.
pub fn python_number(text: &str) -> Result<String, String> {
    if !text.contains(['.', 'e', 'E']) {
        return Ok(if text == "-0" {
            "0".to_string()
        } else {
            text.to_string()
        });
    }
    match finite(text) {
        Some(value) => Ok(python_float(value)),
        None => Err(format!("{text} is beyond the range of a 64-bit float")),
    }
}

/// A number text as a finite float.
pub fn finite(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// A time: finite and not negative (C3, F20). Only for JSON number texts.
pub fn time(text: &str) -> Option<f64> {
    let number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    finite(text).filter(|value| number && *value >= 0.0)
}

/// A JSON integer text as an unsigned 64-bit number.
pub fn unsigned(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}
