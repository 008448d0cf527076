//! Prints the measurements as lines and as tables.

use std::fmt;

use crate::race::Spread;

/// The target of a measurement.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// No target: measured only for information.
    None,
}

impl Target {
    fn is_reached(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::None => true,
        }
    }

    /// Returns how far a value exceeds the target, as a factor; below 1 it falls short.
    fn margin(self, value: f64) -> f64 {
        match self {
            Self::AtLeast(least) => value / least,
            Self::AtMost(most) => most / value.max(f64::MIN_POSITIVE),
            Self::None => f64::INFINITY,
        }
    }
}

/// The unit of the numbers in a row.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    /// A ratio of two times, or of two sizes.
    Times,
    KiB,
    MiB,
    /// 10^9 bytes per second.
    GBps,
}

impl Unit {
    fn print(self, value: f64) -> String {
        let digits = usize::from(value.abs() < 100.0) + usize::from(value.abs() < 10.0);
        match self {
            Self::Times => format!("{value:.digits$} ×"),
            Self::KiB => format!("{value:.digits$} KiB"),
            Self::MiB => format!("{value:.digits$} MiB"),
            Self::GBps => format!("{value:.digits$} GB/s"),
        }
    }
}

/// One measurement.
pub(crate) struct Row {
    /// The name for `--only`: the group, a slash, the case.
    pub(crate) id: String,
    /// The work, and what it was compared with; the same for all rows of a group with one target.
    pub(crate) work: String,
    /// The format or the values.
    pub(crate) case: String,
    /// One sample per round.
    pub(crate) samples: Vec<f64>,
    pub(crate) unit: Unit,
    pub(crate) target: Target,
    /// The times behind the ratio, or other information that helps to read it.
    pub(crate) note: String,
}

impl Row {
    fn median(&self) -> f64 {
        Spread::of(&self.samples).median
    }

    pub(crate) fn is_reached(&self) -> bool {
        self.target.is_reached(self.median())
    }

    fn measured(&self) -> String {
        let Spread { min, median, max } = Spread::of(&self.samples);
        let spread = if self.samples.len() > 1 { format!(" ({min:.2}–{max:.2})") } else { String::new() };
        format!("{}{spread}", self.unit.print(median))
    }

    fn asked(&self) -> String {
        match self.target {
            Target::AtLeast(least) => format!("≥ {}", self.plain(least)),
            Target::AtMost(most) => format!("≤ {}", self.plain(most)),
            Target::None => "–".to_owned(),
        }
    }

    fn plain(&self, value: f64) -> String {
        let value = (value * 100.0).round() / 100.0;
        match self.unit {
            Unit::Times => format!("{value} ×"),
            Unit::KiB => format!("{value} KiB"),
            Unit::MiB => format!("{value} MiB"),
            Unit::GBps => format!("{value} GB/s"),
        }
    }

    fn verdict(&self) -> &'static str {
        match self.target {
            Target::None => "",
            _ if self.is_reached() => "yes",
            _ => "**no**",
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.target {
            Target::None => "",
            _ if self.is_reached() => "ok",
            _ => "SHORT",
        };
        let Self { id, note, .. } = self;
        write!(f, "{id:<26} {:<28} {:<10} {verdict:<6} {note}", self.measured(), self.asked())
    }
}

fn group(row: &Row) -> &str {
    row.id.split('/').next().unwrap_or_default()
}

/// Returns the rows of a group one after the other, and the groups in the order of their first row.
fn by_group(rows: &[Row]) -> Vec<&Row> {
    let first = |row: &Row| rows.iter().position(|other| group(other) == group(row));
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by_key(|row| first(row));
    sorted
}

/// Returns every row, as comma-separated values.
pub(crate) fn csv(rows: &[Row]) -> String {
    let mut table = String::from("work,of,median (range),target,reached,times\n");
    for row in by_group(rows) {
        let cells = [&row.work, &row.case, &*row.measured(), &row.asked(), row.verdict(), &row.note];
        let cells = cells.map(|cell| quoted(&cell.replace(['`', '*'], "")));
        table.push_str(&cells.join(","));
        table.push('\n');
    }
    table
}

/// Formats a cell of comma-separated values (RFC 4180, 2).
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// Returns one line for each group that has targets: the case that is closest to its target, or farthest
/// below it.
pub(crate) fn short_table(rows: &[Row]) -> String {
    let mut table =
        String::from("| work | least favourable case | target | reached |\n| --- | --- | --- | --- |\n");
    let with_target: Vec<_> =
        by_group(rows).into_iter().filter(|row| !matches!(row.target, Target::None)).collect();
    for group in with_target.chunk_by(|a, b| group(a) == group(b)) {
        let margin = |row: &&&Row| row.target.margin(row.median());
        let Some(worst) = group.iter().min_by(|a, b| margin(a).total_cmp(&margin(b))) else { continue };
        let measured = format!("{}, {}", worst.case, worst.unit.print(worst.median()));
        table += &format!("| {} | {measured} | {} | {} |\n", worst.work, worst.asked(), worst.verdict());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &str, samples: &[f64], target: Target) -> Row {
        let samples = samples.to_vec();
        let (id, note) = (format!("open/{case}"), String::new());
        Row { id, work: "open".to_owned(), case: case.to_owned(), samples, unit: Unit::Times, target, note }
    }

    #[test]
    fn the_short_table_shows_the_worst() {
        let rows = [
            row("a", &[14.0, 13.0, 15.0], Target::AtLeast(12.0)),
            row("b", &[11.5, 11.0, 12.0], Target::AtLeast(12.0)),
            row("c", &[6.0], Target::AtLeast(5.0)),
            row("d", &[1.0], Target::None),
        ];
        let table = short_table(&rows);
        let lines: Vec<_> = table.lines().skip(2).collect();
        assert_eq!(lines, ["| open | b, 11.5 × | ≥ 12 × | **no** |"]);
        assert!(!rows[1].is_reached() && rows[3].is_reached());
        let rows = csv(&rows);
        let lines: Vec<_> = rows.lines().skip(1).collect();
        assert_eq!(lines[0], "open,a,14.0 × (13.00–15.00),≥ 12 ×,yes,");
        assert_eq!(lines[1], "open,b,11.5 × (11.00–12.00),≥ 12 ×,no,");
    }

    #[test]
    fn cells_with_commas_are_quoted() {
        assert_eq!(["a b", "a, b", "a \"b\""].map(quoted), ["a b", "\"a, b\"", "\"a \"\"b\"\"\""]);
    }

    #[test]
    fn groups_stay_together() {
        let mut rows =
            [row("a", &[1.0], Target::None), row("b", &[1.0], Target::None), row("c", &[1.0], Target::None)];
        rows[1].id = "threads/b".to_owned();
        let ids: Vec<_> = by_group(&rows).iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids, ["open/a", "open/c", "threads/b"]);
    }

    #[test]
    fn at_most_is_short_above() {
        assert!(Target::AtMost(1.3).is_reached(1.3) && !Target::AtMost(1.3).is_reached(1.31));
        assert!(Target::AtMost(1.3).margin(1.4) < 1.0 && Target::AtMost(64.0).margin(-3.0) > 1.0);
    }
}
