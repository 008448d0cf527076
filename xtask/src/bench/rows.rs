//! Parses the rows that the measurements print.

/// One printed row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// The name of the row for `--only`.
    pub(super) id: String,
    /// The cost, where less is better: our seconds, a size, or the inverse of a rate.
    pub(super) cost: f64,
    /// The cost as text, for people.
    pub(super) shown: String,
    /// Whether the cost is a size, which differs between runs only by a few pages.
    pub(super) is_size: bool,
}

impl Row {
    /// Parses a line such as `open/mag  19.1 × (17.95–24.22)  ≥ 12 ×  ok  ours 4.60 ms, other 91.16 ms`.
    /// `None` if the line is something else.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let id = words.next().filter(|id| id.contains('/'))?.to_owned();
        let (value, unit) = (words.next()?.parse::<f64>().ok()?, words.next()?);
        let shown = format!("{value} {unit}");
        let row = |cost, shown, is_size| Some(Self { id, cost, shown, is_size });
        match unit {
            "KiB" | "MiB" => row(value, shown, true),
            "GB/s" => row(1.0 / value, shown, false),
            "×" => match seconds(line) {
                Some((seconds, shown)) => row(seconds, shown, false),
                // Nothing is timed. With a lower limit, the value is a ratio of speeds, else a ratio of
                // costs.
                None if line.contains('≥') => row(1.0 / value, shown, false),
                None => row(value, shown, false),
            },
            _ => None,
        }
    }
}

/// Returns the seconds in `ours 4.60 ms`, and their text.
fn seconds(line: &str) -> Option<(f64, String)> {
    let (_, ours) = line.split_once("ours ")?;
    let mut words = ours.split([' ', ',', ';']);
    let (number, unit) = (words.next()?, words.next()?);
    let factor = match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "µs" => 1e-6,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * factor, format!("{number} {unit}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(line: &str) -> Option<(f64, String)> {
        Row::parse(line).map(|row| (row.cost, row.shown))
    }

    #[test]
    fn a_row_is_read() {
        let line = "open/mag                   19.1 × (17.95–24.22)         ≥ 12 ×     ok     ours 4.60 ms, other 91.16 ms";
        assert_eq!(Row::parse(line).unwrap().id, "open/mag");
        assert_eq!(cost(line), Some((4.60 * 1e-3, "4.60 ms".to_owned())));
        assert_eq!(cost("a/b  1.10 ×  –  ours 1.50 s; 2.0 GB/s at best").unwrap().0, 1.5);
        assert_eq!(
            cost("heap/mag 71.0 MiB ≤ 100 MiB ok 82.5 MiB at most"),
            Some((71.0, "71 MiB".to_owned()))
        );
        assert_eq!(cost("load/cold 2.00 GB/s (1.00–3.00) –"), Some((0.5, "2 GB/s".to_owned())));
        assert_eq!(cost("load/beside 4.00 × ≥ 1 × ok"), Some((0.25, "4 ×".to_owned())));
        assert_eq!(cost("oms/x 4.00 × ≤ 5 × ok"), Some((4.0, "4 ×".to_owned())));
        for other in ["", "AMD EPYC, 2 cores; load before the run 0.55", "3 rows, 0 short of their target"] {
            assert_eq!(cost(other), None, "{other}");
        }
    }
}
