//! Prints the tensors as a table or as a tree.

use std::io::Write;

use comfy_table::CellAlignment;
use modelfmt::inspect::{InspectedTensor, Inspection, Stored, TreeNode};
use modelfmt::wording::Printable;

use super::metadata::{name, table};
use super::{LONGEST, TABLE_ROWS};
use crate::failure::Result;
use crate::units::{count, size};
use crate::width::{fits, width};

/// The minimum number of characters in a line, however narrow the terminal is.
const NARROW: usize = 24;

/// Writes a line for each tensor. If a line is too narrow, the name has a line of its own, and the rest has as many lines as it
/// needs.
pub(super) fn tensors(tensors: &[InspectedTensor<'_>], out: &mut dyn Write) -> Result {
    if tensors.is_empty() {
        return Ok(());
    }
    writeln!(out, "\ntensors")?;
    for chunk in tensors.chunks(TABLE_ROWS) {
        let rows: Vec<_> = chunk.iter().map(row).collect();
        rows_as_table(&rows, Some(3), out)?;
    }
    Ok(())
}

/// Writes a line for each weight that is stored as several tensors.
pub(super) fn weights(inspection: &Inspection<'_>, out: &mut dyn Write) -> Result {
    let weights = &inspection.weights.weights;
    if weights.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nweights in several tensors")?;
    for chunk in weights.chunks(TABLE_ROWS) {
        let row = |weight: &Stored| {
            let shape = weight.shape.as_deref();
            let shape = shape.map(|shape| modelfmt::modelfmt_core::DisplayShape(shape).to_string());
            let shape = Printable(&shape.unwrap_or_default()).cut(LONGEST);
            let fault = weight.fault().map_or_else(String::new, |why| Printable(why).cut(LONGEST));
            let tensors = format!("{} tensors", weight.parts().count());
            vec![format!("  {}", name(&weight.name)), weight.text(), shape, tensors, fault]
        };
        rows_as_table(&chunk.iter().map(row).collect::<Vec<_>>(), None, out)?;
    }
    Ok(())
}

/// Writes rows whose first cell is a name. The column with the number `right` is aligned to the right.
pub(crate) fn rows_as_table(rows: &[Vec<String>], right: Option<usize>, out: &mut dyn Write) -> Result {
    let text = as_table(rows, right);
    if fits(&text) {
        return Ok(writeln!(out, "{text}")?);
    }
    rows.iter().try_for_each(|row| wrapped(row, out))
}

fn as_table(rows: &[Vec<String>], right: Option<usize>) -> String {
    let mut table = table();
    table.add_rows(rows);
    if let Some(column) = right.and_then(|right| table.column_mut(right)) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// Writes a row with a line of its own for the name.
fn wrapped(row: &[String], out: &mut dyn Write) -> Result {
    let Some((name, rest)) = row.split_first() else { return Ok(()) };
    let indent = name.len() - name.trim_start().len();
    writeln!(out, " {name}")?;
    for line in lines(rest, indent + 5) {
        writeln!(out, " {:indent$}    {line}", "")?;
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

/// Writes the groups of tensors with their sums, and the tensors in them.
pub(super) fn tree(inspection: &Inspection<'_>, out: &mut dyn Write) -> Result {
    let branches = inspection.tree();
    if branches.is_empty() {
        return Ok(());
    }
    writeln!(out, "\ntensors")?;
    let row = |branch: &TreeNode<'_>| {
        let label = format!("  {:1$}{2}", "", 2 * branch.depth, name(branch.label));
        let what = match branch.tensor.and_then(|number| inspection.tensors.get(number)) {
            Some(tensor) => format!("{} {}", tensor.info.dtype, shape(tensor)),
            None => {
                let tensors = branch.sums.tensors;
                format!("{} tensor{}", count(tensors), if tensors == 1 { "" } else { "s" })
            }
        };
        vec![label, what, size(branch.sums.nbytes)]
    };
    for chunk in branches.chunks(TABLE_ROWS) {
        let rows: Vec<_> = chunk.iter().map(row).collect();
        let text = as_table(&rows, Some(2));
        match width() {
            Some(width) if !fits(&text) => {
                let sizes =
                    rows.iter().filter_map(|row| Some(row.last()?.chars().count())).max().unwrap_or(0);
                rows.iter().try_for_each(|row| one_line(row, (width, sizes), out))?;
            }
            _ => writeln!(out, "{text}")?,
        }
    }
    Ok(())
}

/// Writes a row on one line of this width, with its last cells at the right end and sizes in a column of `sizes` characters. If it
/// does not fit, it has two lines.
fn one_line(row: &[String], (width, sizes): (usize, usize), out: &mut dyn Write) -> Result {
    let [label, what, size] = row else { return Ok(()) };
    let rest = format!("{what}  {size:>sizes$}");
    match width.checked_sub(1 + label.chars().count()) {
        Some(room) if room >= rest.chars().count() + 2 => Ok(writeln!(out, " {label}{rest:>room$}")?),
        _ => wrapped(row, out),
    }
}

fn shape(tensor: &InspectedTensor<'_>) -> String {
    Printable(&modelfmt::modelfmt_core::DisplayShape(tensor.info.shape).to_string()).cut(LONGEST)
}

fn row(tensor: &InspectedTensor<'_>) -> Vec<String> {
    let info = &tensor.info;
    let mut notes = Vec::new();
    if !info.has_data {
        notes.push("no data".to_owned());
    }
    if info.has_data && tensor.location.offset.is_none() && info.nbytes > 0 {
        notes.push("not in this file".to_owned());
    } else if tensor.location.stored_nbytes != info.nbytes && info.has_data {
        notes.push(format!("{} as {}", size(tensor.location.stored_nbytes), tensor.location.encoding.name()));
    }
    notes.extend(tensor.quant.as_ref().map(|quant| match quant {
        Ok(quant) => format!("quant {quant}"),
        Err(why) => format!("quant: {}", Printable(why).cut(LONGEST)),
    }));
    notes.extend(tensor.location.file.as_deref().map(name));
    notes.extend(tensor.blake3.map(|hash| hash.to_hex().to_string()));
    let (name, nbytes) = (format!("  {}", name(info.name)), size(info.nbytes));
    vec![name, info.dtype.to_string(), shape(tensor), nbytes, notes.join(", ")]
}
