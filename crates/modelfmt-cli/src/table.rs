//! Prints rows in columns within the width of a line.

use std::borrow::Cow;
use std::io::Write;
use std::slice::SliceIndex;

use crate::failure::Result;
use crate::width::width;

/// The minimum number of characters in a line, however narrow the terminal is.
const NARROW: usize = 24;

/// Writes rows in columns. The first cell of a row is a name, and the last is text that other rows may not
/// have. The column with the number `right` is aligned to the right, and units of sizes in it are below each
/// other.
///
/// If lines are too narrow for all cells, a name that is too long gets its own line, and so does the text at
/// the end. If they are even narrower, all names get their own lines, and the rest takes as many lines as it
/// needs.
pub(crate) fn write(rows: &[Vec<String>], right: Option<usize>, out: &mut dyn Write) -> Result {
    let columns = Columns::of(rows, right);
    let Some(width) = width().filter(|width| columns.sum(..) > *width) else {
        return rows.iter().try_for_each(|row| Ok(writeln!(out, "{}", columns.line(row))?));
    };
    let last = columns.widths.len().saturating_sub(1);
    let room = width.saturating_sub(columns.sum(1..last) + 2);
    if room < NARROW {
        return rows.iter().try_for_each(|row| wrapped(row, out));
    }
    let names = rows.iter().filter_map(|row| Some(len(row.first()?))).filter(|name| *name <= room);
    let columns = columns.with_first(names.max().unwrap_or(0));
    rows.iter().try_for_each(|row| columns.narrow(row, width, out))
}

/// Returns the number of characters of the longest line of rows in columns.
pub(crate) fn width_of(rows: &[Vec<String>], right: Option<usize>) -> usize {
    Columns::of(rows, right).sum(..)
}

fn len(cell: &str) -> usize {
    cell.chars().count()
}

/// The number of characters of each column.
struct Columns {
    widths: Vec<usize>,
    right: Option<usize>,
    /// Whether a size in the right-aligned column has a unit of three letters.
    has_units: bool,
}

impl Columns {
    fn of(rows: &[Vec<String>], right: Option<usize>) -> Self {
        let count = rows.iter().map(Vec::len).max().unwrap_or(0);
        let sizes = || rows.iter().filter_map(|row| row.get(right?));
        let has_units = sizes().any(|size| size.ends_with("iB"));
        let mut columns = Self { widths: vec![0; count], right, has_units };
        for row in rows {
            for (column, cell) in row.iter().enumerate() {
                let cell = len(&columns.cell(column, cell));
                columns.widths.get_mut(column).into_iter().for_each(|width| *width = cell.max(*width));
            }
        }
        columns
    }

    fn with_first(mut self, first: usize) -> Self {
        self.widths.first_mut().into_iter().for_each(|width| *width = first);
        self
    }

    /// Returns the width of a line of these columns, with two spaces between those that are not empty.
    fn sum(&self, columns: impl SliceIndex<[usize], Output = [usize]>) -> usize {
        let widths = self.widths.get(columns).unwrap_or_default();
        widths.iter().filter(|width| **width > 0).map(|width| width + 2).sum::<usize>().saturating_sub(2)
    }

    /// Returns a cell, padded so that its unit is below the units of others.
    fn cell<'c>(&self, column: usize, cell: &'c str) -> Cow<'c, str> {
        match self.has_units && self.right == Some(column) && cell.ends_with(" B") {
            true => format!("{cell}  ").into(),
            false => cell.into(),
        }
    }

    fn line(&self, row: &[String]) -> String {
        let mut line = String::new();
        for (column, (cell, &width)) in row.iter().zip(&self.widths).enumerate() {
            let cell = self.cell(column, cell);
            match self.right == Some(column) {
                _ if width == 0 => continue,
                true => line.push_str(&format!("{cell:>width$}  ")),
                false => line.push_str(&format!("{cell:width$}  ")),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }

    /// Writes a row whose name, or whose text at the end, may get its own line.
    fn narrow(&self, row: &[String], width: usize, out: &mut dyn Write) -> Result {
        let ([name, .., text], Some(first)) = (row, self.widths.first()) else {
            return Ok(writeln!(out, "{}", self.line(row))?);
        };
        let mut row = row.to_vec();
        if len(name) > *first {
            writeln!(out, "{name}")?;
            row.first_mut().into_iter().for_each(String::clear);
        }
        let whole = self.line(&row);
        if len(&whole) <= width {
            return Ok(writeln!(out, "{whole}")?);
        }
        row.last_mut().into_iter().for_each(String::clear);
        writeln!(out, "{}", self.line(&row))?;
        let indent = name.len() - name.trim_start().len() + 4;
        lines(std::slice::from_ref(text), indent)
            .iter()
            .try_for_each(|line| Ok(writeln!(out, "{:indent$}{line}", "")?))
    }
}

/// Writes a row with its name on a separate line.
pub(crate) fn wrapped(row: &[String], out: &mut dyn Write) -> Result {
    let Some((name, rest)) = row.split_first() else { return Ok(()) };
    let indent = name.len() - name.trim_start().len();
    writeln!(out, "{name}")?;
    for line in lines(rest, indent + 4) {
        writeln!(out, "{:indent$}    {line}", "")?;
    }
    Ok(())
}

/// Joins cells to as few lines as possible, for the width that is left after the indent.
fn lines(cells: &[String], indent: usize) -> Vec<String> {
    let room = width().map_or(usize::MAX, |width| width.saturating_sub(indent).max(NARROW));
    let mut lines: Vec<String> = Vec::new();
    for cell in cells.iter().filter(|cell| !cell.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + cell.chars().count() <= room => {
                line.push_str("  ");
                line.push_str(cell);
            }
            _ => lines.push(cell.clone()),
        }
    }
    lines
}
