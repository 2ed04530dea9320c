//! Numbers as text: Python's way of printing them, and checks.

use crate::guard::{on, Guard};

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
    let (digits, exponent) = shortest(value.abs());
    let sign = if value < 0.0 { "-" } else { "" };
    let whole = usize::try_from(exponent + 1).unwrap_or(0);
    match exponent {
        -4..=-1 => {
            let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
            format!("{sign}0.{zeros}{digits}")
        }
        0..=15 if digits.len() <= whole => format!("{sign}{digits:0<whole$}.0"),
        0..=15 => format!("{sign}{}.{}", &digits[..whole], &digits[whole..]),
        _ => {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            let direction = if exponent < 0 { '-' } else { '+' };
            format!(
                "{sign}{first}{point}{rest}e{direction}{:02}",
                exponent.abs()
            )
        }
    }
}

/// The digits Python prints and the exponent of the first: the fewest that
/// read back, and of those the nearest. Of two equally near ones Python takes
/// the even, while Rust's `{:e}` may not; its `{:.*e}` does.
fn shortest(value: f64) -> (String, i32) {
    let split = |text: &str| {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        (mantissa.replace('.', ""), exponent.parse().unwrap_or(0))
    };
    let fewest = format!("{value:e}");
    let (digits, exponent) = split(&fewest);
    let nearest = format!("{value:.*e}", digits.len() - 1);
    // Just above a power of two the nearest may read back as its neighbour.
    if nearest != fewest && nearest.parse() == Ok(value) {
        return split(&nearest);
    }
    (digits, exponent)
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
    finite(text).filter(|value| number && (*value >= 0.0 || !on(Guard::FiniteTime)))
}

/// A JSON integer text as an unsigned 64-bit number.
pub fn unsigned(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}
