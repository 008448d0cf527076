//! Tensors as text: values, statistics and histogram, as the verifier of OINF prints them (OINF 1, "Verifier Output
//! Examples"; CLI, `show`).

mod metadata;
mod preview;

pub(crate) use preview::elements;

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use modelfmt_core::{AnyError, DType, DisplayShape, Execution, TensorInfo, author::with_causes};
use tensor_stats::{Histogram, Stats};

use crate::error::{Error, Result};
use crate::format_g::G6;
use crate::model::Model;
use crate::printable::Printable;
use crate::ties::Ties;
use crate::values::{is_numeric, read_elements, read_stored};

/// Prints a whole model: size variables, metadata and tensors, in file order.
///
/// # Errors
/// If the model cannot be read, or `out` takes no more ([`Error::Output`]).
pub fn show(model: &Model, out: &mut dyn Write, work: &Execution<'_>) -> Result<()> {
    model.open_all()?;
    let mut sections = Sections { out, begun: false };
    metadata::sizevars(model, &mut sections)?;
    metadata::metadata(model, &mut sections)?;
    let mut known = Known::new(model, (0..model.tensor_count()).collect())?;
    for position in 0..model.tensor_count() {
        show_tensor(model, position, sections.next()?, &mut known, work)?;
    }
    Ok(())
}

/// Prints some tensors of a model, each given by its name or, where no tensor has that name, by a pattern as [`Globs`](crate::Globs) are.
/// They come in the order in which they are given here, and each once.
///
/// # Errors
/// As [`show`]; before anything is printed [`Error::NoSuchTensor`], [`Error::NothingSelected`], and [`Error::Usage`] for a
/// malformed pattern.
pub fn show_tensors(
    model: &Model,
    names: &[impl AsRef<str>],
    out: &mut dyn Write,
    work: &Execution<'_>,
) -> Result<()> {
    let mut positions = Vec::new();
    for name in names {
        model.named(name.as_ref(), &mut positions)?;
    }
    let mut shown = HashSet::new();
    let mut sections = Sections { out, begun: false };
    positions.retain(|&position| shown.insert(position));
    let mut known = Known::new(model, positions.clone())?;
    for position in positions {
        show_tensor(model, position, sections.next()?, &mut known, work)?;
    }
    Ok(())
}

/// The statistics of tensors over the same bytes, which are made once.
struct Known {
    /// The group of each tensor that others are tied to, by its position.
    groups: HashMap<usize, usize>,
    stats: HashMap<usize, Stats>,
}

impl Known {
    fn new(model: &Model, positions: Vec<usize>) -> Result<Self> {
        let ties = Ties::of(model, positions.iter().copied())?;
        ties.check_reading(model)?;
        let sizes = ties.sizes();
        let is_tied = |group: &usize| sizes.get(*group).is_some_and(|&size| size > 1);
        let groups = positions.into_iter().zip(ties.groups).filter(|(_, group)| is_tied(group)).collect();
        Ok(Self { groups, stats: HashMap::new() })
    }

    fn stats(&mut self, model: &Model, position: usize, work: &Execution<'_>) -> Result<Stats> {
        let Some(&group) = self.groups.get(&position) else { return stats(model, position, work) };
        if let Some(known) = self.stats.get(&group) {
            return Ok(known.clone());
        }
        let stats = stats(model, position, work)?;
        self.stats.insert(group, stats.clone());
        Ok(stats)
    }
}

/// Statistics of a tensor's values; blocks are decoded first.
///
/// # Errors
/// If there are no such values, they cannot be read or decoded, or the progress callback stops the work.
pub fn stats(model: &Model, position: usize, work: &Execution<'_>) -> Result<Stats> {
    let info = model.info(position)?;
    let dtype = if info.dtype.is_quantized() { DType::F32 } else { info.dtype };
    let read = |first: u64, buffer: &mut [u8]| {
        if info.dtype.is_quantized() {
            read_elements(model, position, first, buffer)?;
        } else {
            read_stored(model, position, first, buffer)?;
        }
        if work.advance(buffer.len() as u64).is_break() {
            return Err(model.failed(AnyError::Cancelled));
        }
        Ok(())
    };
    #[cfg(feature = "parallel")]
    let found = tensor_stats::stats_parallel(dtype, info.elements(), work.threads, read);
    #[cfg(not(feature = "parallel"))]
    let found = tensor_stats::stats(dtype, info.elements(), &mut { read });
    found.map_err(|error| match error {
        tensor_stats::Error::Read(error) => error,
        other => {
            let source = io::Error::new(io::ErrorKind::InvalidData, other.to_string());
            model.failed(AnyError::Io { at: 0, len: info.nbytes, source })
        }
    })
}

/// Blocks of lines with an empty line between them.
struct Sections<'a> {
    out: &'a mut dyn Write,
    begun: bool,
}

impl Sections<'_> {
    fn next(&mut self) -> Result<&mut dyn Write> {
        if self.begun {
            writeln!(self.out).map_err(output)?;
        }
        self.begun = true;
        Ok(self.out)
    }
}

fn output(source: io::Error) -> Error {
    Error::Output { source }
}

fn show_tensor(
    model: &Model,
    position: usize,
    out: &mut dyn Write,
    known: &mut Known,
    work: &Execution<'_>,
) -> Result<()> {
    show_numbers(model, position, out, known, work)?;
    // Scales and zero points, which make values of the numbers above.
    match model.quant(position) {
        Ok(None) => Ok(()),
        Ok(Some(quant)) => writeln!(out, "- quant: {quant}").map_err(output),
        Err(error) => writeln!(out, "- quant: {}", Printable(&with_causes(&error))).map_err(output),
    }
}

fn show_numbers(
    model: &Model,
    position: usize,
    out: &mut dyn Write,
    known: &mut Known,
    work: &Execution<'_>,
) -> Result<()> {
    let Some(info) = model.container().info(position) else { return Ok(()) };
    let (name, dtype) = (Printable(info.name), info.dtype);
    if !info.has_data || info.elements() == 0 {
        let dims = dims(&info);
        return writeln!(out, "{name}: {dtype}{dims} -- uninitialized").map_err(output);
    }
    if !is_numeric(dtype) {
        let (dims, nbytes) = (dims(&info), info.nbytes);
        return writeln!(out, "{name}: {dtype}{dims} -- {nbytes} bytes that cannot be read as numbers")
            .map_err(output);
    }
    if info.elements() == 1 {
        let value = elements(model, position, &info, 0..1)?;
        return writeln!(out, "{name}: {dtype} = {}", value.concat()).map_err(output);
    }
    let values = preview::preview(model, position, &info)?;
    writeln!(out, "{name}: {dtype}{} = {values}", dims(&info)).map_err(output)?;
    show_stats(&known.stats(model, position, work)?, info.nbytes, out).map_err(output)
}

fn dims(info: &TensorInfo<'_>) -> String {
    DisplayShape(info.shape).to_string()
}

fn show_stats(stats: &Stats, nbytes: u64, out: &mut dyn Write) -> io::Result<()> {
    let [min, max, mean, median, std] = [stats.min, stats.max, stats.mean, stats.median, stats.std].map(G6);
    writeln!(
        out,
        "- [nbytes: {nbytes}, min: {min}, max: {max}, mean: {mean}, median: {median}, std: {std}]"
    )?;
    let non_finite = &stats.non_finite;
    if non_finite.total() > 0 {
        let (nan, pos, neg) = (non_finite.nan, non_finite.pos_inf, non_finite.neg_inf);
        writeln!(out, "- non-finite: nan {nan}, +inf {pos}, -inf {neg}")?;
    }
    writeln!(out, "- hist:")?;
    show_histogram(&stats.histogram, out)
}

fn show_histogram(histogram: &Histogram, out: &mut dyn Write) -> io::Result<()> {
    match histogram {
        Histogram::Bins { edges, counts } => {
            for (edge, count) in edges.windows(2).zip(counts) {
                let [from, to] =
                    [edge.first(), edge.last()].map(|edge| G6(edge.copied().unwrap_or(f64::NAN)));
                writeln!(out, "    [{from},{to}):{count}")?;
            }
            Ok(())
        }
        Histogram::Constant { value, count } => writeln!(out, "    [{}]={count}", G6(*value)),
        Histogram::Values(values) => match values.as_slice() {
            [(value, count)] => writeln!(out, "    [{value}]={count}"),
            values => {
                let pairs: Vec<String> =
                    values.iter().map(|(value, count)| format!("{value}:{count}")).collect();
                writeln!(out, "    {}", pairs.join(" "))
            }
        },
        Histogram::Bools { zeros, ones } => writeln!(out, "    0:{zeros} 1:{ones}"),
        Histogram::Empty => Ok(()),
    }
}

#[cfg(all(test, feature = "mag"))]
mod tests {
    use std::ops::ControlFlow;

    use super::*;

    #[test]
    fn the_progress_callback_stops_it() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/reference/trained.mag");
        let model = Model::open(path).unwrap();
        let stop = |_| ControlFlow::Break(());
        let work = Execution { progress: Some(&stop), ..Execution::default() };
        let stopped = show(&model, &mut Vec::new(), &work).unwrap_err();
        assert!(matches!(stopped, Error::File { error: AnyError::Cancelled, .. }), "{stopped}");
        assert!(show(&model, &mut Vec::new(), &Execution::default()).is_ok());
    }
}
