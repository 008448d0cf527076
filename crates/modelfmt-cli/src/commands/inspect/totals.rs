//! Prints sums over the tensors, and each type's share of the bytes.

use std::cmp::Reverse;
use std::io::Write;

use modelfmt::DType;
use modelfmt::inspect::{Inspection, Sums};

use crate::chart::charset;
use crate::failure::Result;
use crate::table;
use crate::units::{count, size};
use crate::width::width;

/// The maximum number of lines for types, unless only sums are printed.
const MOST_TYPES: usize = 8;

/// The number of characters of the longest bar if the line width is unknown.
const BAR: usize = 32;
/// The least and the most characters of the longest bar if the line width is known.
const LEAST_BAR: usize = 8;
const MOST_BAR: usize = 100;

/// The number of the column with sizes.
const SIZES: Option<usize> = Some(2);

/// Writes a line with the sums, and one for each type if there are several, the type with the most bytes
/// first.
pub(super) fn write(inspection: &Inspection<'_>, is_all: bool, out: &mut dyn Write) -> Result {
    let totals = inspection.totals();
    let (sums, all) = (totals.all, inspection.model.tensor_count() as u64);
    let of = if sums.tensors == all { String::new() } else { format!(" of {}", count(all)) };
    let (s, z) = (if all == 1 { "" } else { "s" }, if sums.elements == 1 { "" } else { "s" });
    let (shown, elements, nbytes) = (count(sums.tensors), count(sums.elements), size(sums.nbytes));
    let line = format!("{shown}{of} tensor{s}, {elements} parameter{z}, {nbytes}");
    let mut types: Vec<(DType, Sums)> = totals.by_dtype.into_iter().collect();
    if let [(only, _)] = &types[..] {
        return Ok(writeln!(out, "{line} of {only}")?);
    }
    writeln!(out, "{line}")?;
    types.sort_by_key(|(_, sums)| Reverse(sums.nbytes));
    let (shown, others) = types.split_at(types.len().min(if is_all { types.len() } else { MOST_TYPES }));
    let mut shown: Vec<(String, u64, u64)> =
        shown.iter().map(|(dtype, own)| (dtype.to_string(), own.tensors, own.nbytes)).collect();
    if !others.is_empty() {
        let tensors = others.iter().map(|(_, own)| own.tensors).sum();
        let nbytes = others.iter().map(|(_, own)| own.nbytes).fold(0, u64::saturating_add);
        shown.push((format!("{} more types", others.len()), tensors, nbytes));
    }
    let digits = shown.iter().map(|(_, tensors, _)| count(*tensors).len()).max().unwrap_or(0);
    let row = |(name, tensors, nbytes): &(String, u64, u64)| {
        let s = if *tensors == 1 { "" } else { "s" };
        let tensors = format!("{:>digits$} tensor{s}", count(*tensors));
        vec![format!("   {name}"), tensors, size(*nbytes), percent(*nbytes, sums.nbytes)]
    };
    let mut rows: Vec<Vec<String>> = shown.iter().map(row).collect();
    let room = width().map_or(BAR, |width| width.saturating_sub(table::width_of(&rows, SIZES) + 2));
    for (row, (_, _, nbytes)) in rows.iter_mut().zip(&shown).filter(|_| room >= LEAST_BAR) {
        row.push(charset().bar(share(*nbytes, sums.nbytes), room.min(MOST_BAR)));
    }
    table::write(&rows, SIZES, out)
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Formats a share in six characters. A share above zero is never shown as `0.0%`.
fn percent(part: u64, whole: u64) -> String {
    match 100.0 * share(part, whole) {
        percent if part > 0 && percent < 0.05 => " <0.1%".to_owned(),
        percent => format!("{percent:5.1}%"),
    }
}
