//! Sizes, counts and times for people.

use std::num::NonZero;
use std::time::Duration;

/// Parses a number of things, of which there is at least one.
pub(crate) fn parse_count(text: &str) -> Result<NonZero<u32>, String> {
    text.parse().map_err(|_| format!("not a number from 1 to {}", u32::MAX))
}

/// Parses a number of bytes, with an optional unit: a power of 1000 (K, KB, M, MB, …) or of 1024 (KiB, MiB, …), in upper or lower
/// case.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = text.strip_suffix(unit).unwrap_or_default();
    let number: u64 = match number.parse() {
        Ok(number) => number,
        Err(_) if number.is_empty() => return Err(NOT_A_SIZE.to_owned()),
        Err(_) => return Err(TOO_LARGE.to_owned()),
    };
    let factor = factor(&unit.trim_start().to_ascii_lowercase()).ok_or(NOT_A_SIZE)?;
    match number.checked_mul(factor) {
        Some(0) => Err("a size of 0 leaves no room".to_owned()),
        Some(size) => Ok(size),
        None => Err(TOO_LARGE.to_owned()),
    }
}

/// Parses a number of seconds.
#[cfg(feature = "remote")]
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let time = text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| !time.is_zero())
        .ok_or_else(|| "a time is a number of seconds above 0, such as 60".to_owned())
}

const NOT_A_SIZE: &str = "a size is a whole number of bytes, or one with K, M, G (powers of 1000), KB, MB, GB (the same), \
                          or KiB, MiB, GiB (powers of 1024), such as 64MiB";
const TOO_LARGE: &str = "the size is beyond 2^64 bytes";

fn factor(unit: &str) -> Option<u64> {
    Some(match unit {
        "" | "b" => 1,
        "k" | "kb" => 1000,
        "m" | "mb" => 1000 * 1000,
        "g" | "gb" => 1000 * 1000 * 1000,
        "t" | "tb" => 1000 * 1000 * 1000 * 1000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return None,
    })
}

/// Formats a number of bytes with a unit, such as `44.7 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}

/// Formats a time in seconds, such as `0.03 s`.
pub(crate) fn seconds(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 10.0 { format!("{seconds:.2} s") } else { format!("{seconds:.0} s") }
}

/// Formats a count with separators, such as `22,713,216`.
pub(crate) fn count(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse() {
        for (text, bytes) in [
            ("4096", 4096),
            ("64MiB", 64 << 20),
            ("2 GiB", 2 << 30),
            ("20MB", 20_000_000),
            ("20mb", 20_000_000),
            ("2G", 2_000_000_000),
            ("64k", 64_000),
            (" 64 K ", 64_000),
            ("1gib", 1 << 30),
            ("7 B", 7),
            ("1t", 1_000_000_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for (wrong, why) in [
            ("", "whole number"),
            ("MiB", "whole number"),
            ("-1", "whole number"),
            ("+1", "whole number"),
            ("1.5GiB", "whole number"),
            ("4 mbit", "whole number"),
            ("4\u{661}", "whole number"),
            ("1_000", "whole number"),
            ("0", "no room"),
            ("0GiB", "no room"),
            ("99999999999GiB", "2^64"),
            ("18446744073709551616", "2^64"),
        ] {
            assert!(parse_size(wrong).is_err_and(|error| error.contains(why)), "{wrong}");
        }
    }
}
