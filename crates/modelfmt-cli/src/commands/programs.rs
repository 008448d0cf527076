//! Prints how the tensors of a conversion are made.

use std::io::Write;

use modelfmt::Value;
use modelfmt::convert::{Programs, TensorProgram};
use modelfmt::modelfmt_core::DisplayShape;
use modelfmt::wording::Printable;

use super::inspect::{LONGEST, TABLE_ROWS};
use crate::failure::Result;
use crate::table;
use crate::units::count;

/// The most names in a list of names.
const MOST: usize = 3;

/// Writes a line for each tensor, and one for the tensors that are left out.
pub(super) fn write(programs: &Programs, out: &mut dyn Write) -> Result {
    let rows: Vec<Vec<String>> = programs.tensors.iter().map(row).collect();
    if !rows.is_empty() {
        writeln!(out, "\ntensors")?;
    }
    for rows in rows.chunks(TABLE_ROWS) {
        table::write(rows, None, out)?;
    }
    match &programs.left_out[..] {
        [] => Ok(()),
        names => Ok(writeln!(out, "\nleft out: {}", list(names))?),
    }
}

fn row(program: &TensorProgram) -> Vec<String> {
    let TensorProgram { tensor, dtype, shape, from, steps, .. } = program;
    let name = format!("   {}", Printable(tensor).cut(LONGEST));
    let shape = Printable(&DisplayShape(shape).to_string()).cut(LONGEST);
    let is_same = matches!(&from[..], [only] if only == tensor);
    let from = if is_same || from.is_empty() { None } else { Some(format!("from {}", list(from))) };
    let steps = (!steps.is_empty()).then(|| Printable(&steps.join(", ")).cut(LONGEST));
    let how: Vec<String> = from.into_iter().chain(steps).collect();
    vec![name, dtype.to_string(), shape, how.join(": ")]
}

/// Returns the first names, and how many more there are.
fn list(names: &[String]) -> String {
    let (first, more) = names.split_at(names.len().min(MOST));
    let first: Vec<String> = first.iter().map(|name| Printable(name).cut(LONGEST)).collect();
    match more.len() {
        0 => first.join(", "),
        more => format!("{} and {} more", first.join(", "), count(more as u64)),
    }
}

/// Returns the programs of the tensors as JSON.
pub(super) fn to_value(programs: &Programs) -> Value {
    let program = |program: &TensorProgram| {
        modelfmt::Object::from_iter([
            ("tensor", Value::from(program.tensor.as_str())),
            ("dtype", program.dtype.name().into()),
            ("shape", program.shape.iter().copied().collect()),
            ("from", program.from.iter().map(String::as_str).collect()),
            ("steps", program.steps.iter().map(String::as_str).collect()),
        ])
    };
    programs.tensors.iter().map(program).collect()
}
