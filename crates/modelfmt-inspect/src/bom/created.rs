//! The time in a bill of materials. The caller supplies it, so that the same input gives the same bytes.

use std::fmt;
use std::str::FromStr;

use modelfmt_rules::wording::ParseError;

/// A time in seconds since 1970, up to the end of the year 9999. The default is 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Created(u64);

impl Created {
    /// The last second of the year 9999, because a formatted date has four digits for the year.
    const LAST: u64 = 253_402_300_799;
}

/// Reads a number of seconds, as in the variable
/// [`SOURCE_DATE_EPOCH`](https://reproducible-builds.org/specs/source-date-epoch/).
impl FromStr for Created {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
        let seconds = is_number.then(|| text.parse().ok()).flatten();
        let seconds = seconds.filter(|seconds| *seconds <= Self::LAST);
        seconds.map(Self).ok_or_else(|| {
            ParseError::new(format!("expected a number of seconds since 1970, from 0 to {}", Self::LAST))
        })
    }
}

/// Prints the time in the form `2026-11-26T15:00:00Z`.
impl fmt::Display for Created {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAY: u64 = 24 * 60 * 60;
        const DAYS_OF_400_YEARS: u64 = 146_097;
        let (days, second) = (self.0 / DAY, self.0 % DAY);
        // Here a year begins in March, so that the leap day is its last day. There are 719,468 days between
        // 0000-03-01 and 1970-01-01.
        let days = days.saturating_add(719_468);
        let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day_of_month = day - (153 * month + 2) / 5 + 1;
        let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        let year = era.saturating_mul(400).saturating_add(year).saturating_add(later);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn seconds_are_dates() {
        for (seconds, date) in [
            ("0", "1970-01-01T00:00:00Z"),
            ("951782399", "2000-02-28T23:59:59Z"),
            ("951782400", "2000-02-29T00:00:00Z"),
            ("1764170000", "2025-11-26T15:13:20Z"),
            ("4107542400", "2100-03-01T00:00:00Z"),
            ("253402300799", "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(seconds.parse::<Created>().unwrap().to_string(), date);
        }
        assert_eq!(Created::default().to_string(), "1970-01-01T00:00:00Z");
        for nonsense in ["", " 1", "-1", "+1", "1.5", "today", "253402300800", "99999999999999999999"] {
            assert!(nonsense.parse::<Created>().is_err(), "{nonsense}");
        }
    }
}
