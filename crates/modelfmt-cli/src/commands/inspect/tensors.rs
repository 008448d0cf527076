//! Prints the tensors as a table or as a tree.

use std::io::Write;
use std::ops::RangeInclusive;

use modelfmt::inspect::{FoldedRow, InspectedTensor, Inspection, LabelPart, StoredWeight, TreeNode};
use modelfmt::wording::Printable;

use super::metadata::name;
use super::{LONGEST, TABLE_ROWS, title};
use crate::chart::charset;
use crate::failure::Result;
use crate::table;
use crate::units::{count, size};
use crate::width::width;

/// The maximum number of lines of a list that the user did not ask for.
const MOST_ROWS: usize = 1000;

/// The number of the column with sizes.
const SIZES: Option<usize> = Some(3);

/// Writes a line for each tensor.
pub(super) fn each(tensors: &[InspectedTensor<'_>], out: &mut dyn Write) -> Result {
    if tensors.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", title("tensors"))?;
    for chunk in tensors.chunks(TABLE_ROWS) {
        let rows: Vec<_> = chunk.iter().map(row).collect();
        table::write(&rows, SIZES, out)?;
    }
    Ok(())
}

/// Writes the tensors, equal layers only once, and no more lines than a person would read.
pub(super) fn short(inspection: &Inspection<'_>, out: &mut dyn Write) -> Result {
    let tensors = &inspection.tensors;
    let Some(folded) = inspection.folded() else {
        let (shown, rest) = tensors.split_at(tensors.len().min(MOST_ROWS));
        each(shown, out)?;
        return more(rest.iter().map(|tensor| tensor.info.nbytes), out);
    };
    writeln!(
        out,
        "\n{} (equal layers once, with the sum of their sizes; --all lists each)",
        title("tensors")
    )?;
    let (shown, rest) = folded.split_at(folded.len().min(MOST_ROWS));
    let rows: Vec<_> = shown.iter().map(|row| folded_row(row, tensors)).collect();
    table::write(&rows, SIZES, out)?;
    more(rest.iter().flat_map(|row| &row.tensors).filter_map(|at| Some(tensors.get(*at)?.info.nbytes)), out)
}

/// Writes how many tensors are not listed, and their size.
fn more(sizes: impl Iterator<Item = u64>, out: &mut dyn Write) -> Result {
    let (number, nbytes) =
        sizes.fold((0, 0_u64), |(number, sum), nbytes| (number + 1, sum.saturating_add(nbytes)));
    match number {
        0 => Ok(()),
        _ => Ok(writeln!(
            out,
            "   … and {} more, {}; --all lists each",
            super::super::tensors(number),
            size(nbytes)
        )?),
    }
}

/// Returns the cells of a tensor, of equal layers, or of a tensor of such layers.
fn folded_row(row: &FoldedRow<'_>, tensors: &[InspectedTensor<'_>]) -> Vec<String> {
    let label: String = row.label.iter().map(part).collect();
    let label = if label.is_empty() { name("") } else { label };
    let label = format!("{:1$}{label}", "", 3 + 2 * row.depth);
    let nbytes = size(row.sums.nbytes);
    if let Some(each) = row.each {
        let label =
            format!("{label} × {}", super::super::tensors(usize::try_from(each).unwrap_or(usize::MAX)));
        return vec![label, String::new(), String::new(), nbytes, String::new()];
    }
    let own = |at: &usize| tensors.get(*at);
    let Some(first) = row.tensors.first().and_then(own) else { return vec![label] };
    let note = notes(first);
    let mut all: Vec<String> = Vec::new();
    if row.tensors.iter().filter_map(own).all(|tensor| notes(tensor) == note) {
        all.extend(Some(note).filter(|note| !note.is_empty()));
    }
    let layers = row.dtypes.iter().skip(1).filter(|dtype| !dtype.layers.is_empty());
    all.extend(layers.map(|dtype| format!("{} in {}", dtype.dtype, numbers(&dtype.layers))));
    let dtypes: Vec<String> = row.dtypes.iter().map(|dtype| dtype.dtype.to_string()).collect();
    let dtypes = if dtypes.len() > 3 { format!("{} types", dtypes.len()) } else { dtypes.join(", ") };
    vec![label, dtypes, shape(first), nbytes, all.join(", ")]
}

/// Formats a part of a name, with numbers shortened.
fn part(part: &LabelPart<'_>) -> String {
    match part {
        LabelPart::Text(text) => Printable(text).cut(LONGEST),
        LabelPart::Numbers(ranges) => numbers(ranges),
    }
}

/// Formats numbers such as `0–3, 6, 9`, as many as fit on a line.
fn numbers(ranges: &[RangeInclusive<u64>]) -> String {
    const MOST: usize = 12;
    let dash = charset().dash();
    let range = |range: &RangeInclusive<u64>| match range.start() == range.end() {
        true => range.start().to_string(),
        false => format!("{}{dash}{}", range.start(), range.end()),
    };
    let more = if ranges.len() > MOST { ", …" } else { "" };
    ranges.iter().take(MOST).map(range).collect::<Vec<_>>().join(", ") + more
}

/// Writes a line for each weight that is stored as several tensors.
pub(super) fn weights(inspection: &Inspection<'_>, out: &mut dyn Write) -> Result {
    let weights = &inspection.weights.weights;
    if weights.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", title("weights in several tensors"))?;
    for chunk in weights.chunks(TABLE_ROWS) {
        let row = |weight: &StoredWeight| {
            let shape = weight.shape.as_deref();
            let shape = shape.map(|shape| modelfmt::modelfmt_core::DisplayShape(shape).to_string());
            let shape = Printable(&shape.unwrap_or_default()).cut(LONGEST);
            let fault = weight.fault().map_or_else(String::new, |why| Printable(why).cut(LONGEST));
            let tensors = format!("{} tensors", weight.parts().count());
            vec![format!("   {}", name(&weight.name)), weight.text(), shape, tensors, fault]
        };
        table::write(&chunk.iter().map(row).collect::<Vec<_>>(), None, out)?;
    }
    Ok(())
}

/// Writes the groups of tensors with their sums, and the tensors in them.
pub(super) fn tree(inspection: &Inspection<'_>, out: &mut dyn Write) -> Result {
    let branches = inspection.tree();
    if branches.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", title("tensors"))?;
    let row = |branch: &TreeNode<'_>| {
        let label = format!("   {:1$}{2}", "", 2 * branch.depth, name(branch.label));
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
        match width() {
            Some(width) if table::width_of(&rows, Some(2)) > width => {
                let sizes =
                    rows.iter().filter_map(|row| Some(row.last()?.chars().count())).max().unwrap_or(0);
                rows.iter().try_for_each(|row| one_line(row, (width, sizes), out))?;
            }
            _ => table::write(&rows, Some(2), out)?,
        }
    }
    Ok(())
}

/// Writes a row on one line of this width, with its last cells at the right end and sizes in a column of
/// `sizes` characters. A row that does not fit gets two lines.
fn one_line(row: &[String], (width, sizes): (usize, usize), out: &mut dyn Write) -> Result {
    let [label, what, size] = row else { return Ok(()) };
    let rest = format!("{what}  {size:>sizes$}");
    match width.checked_sub(label.chars().count()) {
        Some(room) if room >= rest.chars().count() + 2 => Ok(writeln!(out, "{label}{rest:>room$}")?),
        _ => table::wrapped(row, out),
    }
}

fn shape(tensor: &InspectedTensor<'_>) -> String {
    Printable(&modelfmt::modelfmt_core::DisplayShape(tensor.info.shape).to_string()).cut(LONGEST)
}

fn row(tensor: &InspectedTensor<'_>) -> Vec<String> {
    let info = &tensor.info;
    let (name, nbytes) = (format!("   {}", name(info.name)), size(info.nbytes));
    vec![name, info.dtype.to_string(), shape(tensor), nbytes, notes(tensor)]
}

/// Returns notes about a tensor in addition to its type and size.
fn notes(tensor: &InspectedTensor<'_>) -> String {
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
    notes.join(", ")
}
