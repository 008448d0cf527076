//! Sizes and counts for people.

/// Parses a number of bytes, or a number with KiB, MiB or GiB.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 3] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let unit = UNITS.iter().find_map(|&(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let (number, factor) = unit.unwrap_or((text, 1));
    let wrong = || "a size is a number of bytes, or a number with KiB, MiB or GiB, such as 64MiB".to_owned();
    let number: u64 = number.trim_end().parse().map_err(|_| wrong())?;
    match number.checked_mul(factor) {
        Some(0) => Err("a size of 0 leaves no room".to_owned()),
        Some(size) => Ok(size),
        None => Err("the size is beyond 2^64".to_owned()),
    }
}

/// A number of bytes with a unit, such as `44.7 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}

/// A count with separators, such as `22,713,216`.
pub(crate) fn count(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64MiB"), Ok(64 << 20));
        assert_eq!(parse_size("2 GiB"), Ok(2 << 30));
        for wrong in ["", "MiB", "0", "-1", "1.5GiB", "4mb", "99999999999GiB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
