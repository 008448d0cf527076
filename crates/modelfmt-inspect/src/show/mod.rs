//! Prints tensors as text: values, statistics and histogram, like OINF's verifier (OINF 1, "Verifier Output
//! Examples"; CLI, `show`).
//!
//! ```
//! use modelfmt::show::show_tensors;
//! use modelfmt::{Execution, Model};
//!
//! let model = Model::open("../../testdata/reference/one-shard.aero")?;
//! let mut text = Vec::new();
//! show_tensors(&model, &["embed.weight"], &mut text, &Execution::default())?;
//! assert!(String::from_utf8_lossy(&text).contains("embed.weight"));
//! # Ok::<(), modelfmt::Error>(())
//! ```

mod chart;
mod decoded;
mod elements;
mod histogram;
mod json;
mod metadata;
mod preview;
mod values;

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::ops::Range;

use modelfmt_core::plan::Slice;
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{DisplayShape, Execution, TensorInfo, author::with_causes};
use tensor_stats::Stats;

pub use self::chart::Charset;
pub use self::elements::{numbers, texts};
use modelfmt_metadata::schemes;
use modelfmt_model::error::{Error, Result};
use modelfmt_model::model::Model;
use modelfmt_model::tied_weights::Ties;
use modelfmt_model::values::is_numeric;
use modelfmt_rules::wording::Printable;
use modelfmt_rules::wording::format_g::G6;
use values::{Part, Values};

/// The options for showing tensors.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ShowOptions {
    /// The part of each tensor to show; statistics cover only the part. Little else of the tensor is read,
    /// and memory does not depend on the size of the part. If the part begins or ends within a block, the
    /// block is decoded.
    pub slice: Option<Slice>,
    /// Shows only statistics, without values and histogram.
    pub stats_only: bool,
    /// Draws bars in histograms, in lines of this many characters. Statistics without a histogram get a
    /// sparkline instead.
    pub bars: Option<usize>,
    /// The characters for bars and sparklines.
    pub charset: Charset,
}

/// Prints a whole model: size variables, metadata and tensors, in file order.
///
/// # Errors
/// If the model cannot be read; [`Error::Output`] if `out` fails.
pub fn show(model: &Model, out: &mut dyn Write, work: &Execution<'_>) -> Result<()> {
    show_with::<&str>(model, &[], &ShowOptions::default(), out, work)
}

/// Prints some tensors of a model, each given by its name or, if no tensor has that name, by a pattern as in
/// [`Globs`](modelfmt_model::model::Globs). The tensors are printed in the given order, each once. A weight
/// that is stored as several tensors, as in GPTQ, is decoded if its name is given.
///
/// # Errors
/// If the model cannot be read, or `out` fails. Before anything is printed: [`Error::NoSuchTensor`],
/// [`Error::NothingSelected`], and [`Error::Usage`] for a malformed pattern.
pub fn show_tensors(
    model: &Model,
    names: &[impl AsRef<str>],
    out: &mut dyn Write,
    work: &Execution<'_>,
) -> Result<()> {
    let model = &*schemes::named(model, names)?;
    let positions = positions(model, names)?;
    let mut sections = Sections { out, begun: false };
    show_positions(model, positions, &ShowOptions::default(), &mut sections, work)
}

/// Prints some tensors of a model, or all if `names` is empty, with options. A whole model begins with its
/// size variables and metadata, unless the options ask only for statistics or a part.
///
/// # Errors
/// [`Error::NoSuchTensor`]; [`Error::NothingSelected`]; [`Error::Usage`] for a malformed pattern; [`Error::File`] for a slice that
/// does not fit a tensor, or if the model cannot be read; [`Error::Output`] if `out` fails.
pub fn show_with<N: AsRef<str>>(
    model: &Model,
    names: &[N],
    options: &ShowOptions,
    out: &mut dyn Write,
    work: &Execution<'_>,
) -> Result<()> {
    let mut sections = Sections { out, begun: false };
    if !names.is_empty() {
        let model = &*schemes::named(model, names)?;
        let positions = positions(model, names)?;
        return show_positions(model, positions, options, &mut sections, work);
    }
    model.open_all()?;
    if options.slice.is_none() && !options.stats_only {
        metadata::sizevars(model, &mut sections)?;
        metadata::metadata(model, &mut sections)?;
    }
    show_positions(model, (0..model.tensor_count()).collect(), options, &mut sections, work)
}

/// Returns the tensors that [`show_with`] prints, as the object that `modelfmt show --json` prints.
///
/// # Errors
/// [`Error::NoSuchTensor`]; [`Error::NothingSelected`]; [`Error::Usage`] for a malformed pattern; [`Error::File`] if the model
/// cannot be read.
pub fn show_object<N: AsRef<str>>(
    model: &Model,
    names: &[N],
    options: &ShowOptions,
    work: &Execution<'_>,
) -> Result<Object> {
    let model = &*schemes::named(model, names)?;
    let positions = match names {
        [] => {
            model.open_all()?;
            (0..model.tensor_count()).collect()
        }
        names => positions(model, names)?,
    };
    let mut known = Known::new(model, positions.clone())?;
    let mut tensors = Vec::new();
    for position in positions {
        let info = model.info(position)?;
        let part = part_of(model, position, options)?;
        let values = Values::new(model, position, part.as_ref())?;
        let slice = options.slice.as_ref().filter(|_| part.is_some()).map(Slice::to_string);
        let mut object = json::object(&info, &values, slice, !options.stats_only, || {
            known.stats(model, position, &values, part.is_some(), work)
        })?;
        if let Ok(Some(quant)) = model.quant(position) {
            object.insert("quant", quant.to_value());
        }
        tensors.push(object);
    }
    let path = model.path().display().to_string();
    let tensors: Value = tensors.into_iter().map(Value::Object).collect();
    let format = Value::from(model.format().name());
    Ok(Object::from_iter([("path", Value::from(path.as_str())), ("format", format), ("tensors", tensors)]))
}

/// Returns the positions of the tensors that match these names and patterns, each once.
fn positions(model: &Model, names: &[impl AsRef<str>]) -> Result<Vec<usize>> {
    let mut positions = Vec::new();
    for name in names {
        model.named(name.as_ref(), &mut positions)?;
    }
    let mut shown = HashSet::new();
    positions.retain(|&position| shown.insert(position));
    Ok(positions)
}

/// Returns the part of a tensor to show, if it is not the whole tensor.
fn part_of(model: &Model, position: usize, options: &ShowOptions) -> Result<Option<Part>> {
    let has_data = model.info(position)?.has_data;
    let slice = options.slice.as_ref().filter(|_| has_data);
    slice.map(|slice| Part::new(model, position, slice)).transpose()
}

fn show_positions(
    model: &Model,
    positions: Vec<usize>,
    options: &ShowOptions,
    sections: &mut Sections<'_>,
    work: &Execution<'_>,
) -> Result<()> {
    let mut known = Known::new(model, positions.clone())?;
    for position in positions {
        show_tensor(model, position, options, sections.next()?, &mut known, work)?;
    }
    Ok(())
}

/// The statistics of tensors that share their bytes, so that they are computed once.
struct Known {
    /// For each tensor that shares its bytes, the number of its group, by position.
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

    fn stats(
        &mut self,
        model: &Model,
        position: usize,
        values: &Values<'_>,
        is_part: bool,
        work: &Execution<'_>,
    ) -> Result<Stats> {
        let Some(&group) = self.groups.get(&position).filter(|_| !is_part) else { return values.stats(work) };
        if let Some(known) = self.stats.get(&group) {
            return Ok(known.clone());
        }
        let stats = stats(model, position, work)?;
        self.stats.insert(group, stats.clone());
        Ok(stats)
    }
}

/// Computes the statistics of a tensor's values; blocks are decoded first.
///
/// # Errors
/// If the tensor does not exist or its values are not numbers, if they cannot be read or decoded, or if the
/// progress callback stops the work.
pub fn stats(model: &Model, position: usize, work: &Execution<'_>) -> Result<Stats> {
    Values::new(model, position, None)?.stats(work)
}

/// Returns some elements of a tensor as text: booleans as words, integers in full, floats with six digits.
pub(crate) fn elements(model: &Model, position: usize, range: Range<u64>) -> Result<Vec<String>> {
    preview::elements(&Values::new(model, position, None)?, range)
}

/// Writes sections of lines, separated by empty lines.
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
    options: &ShowOptions,
    out: &mut dyn Write,
    known: &mut Known,
    work: &Execution<'_>,
) -> Result<()> {
    let part = part_of(model, position, options)?;
    let values = Values::new(model, position, part.as_ref())?;
    let mut name = Printable(values.info.name).to_string();
    if let (Some(slice), Some(_)) = (&options.slice, &part) {
        name.push_str(&format!("[{slice}]"));
    }
    let stats = || known.stats(model, position, &values, part.is_some(), work);
    show_numbers(&name, &values, options, out, stats)?;
    // The scales and zero points that turn the numbers above into values.
    match model.quant(position) {
        Ok(None) => Ok(()),
        Ok(Some(quant)) => writeln!(out, "- quant: {quant}").map_err(output),
        Err(error) => writeln!(out, "- quant: {}", Printable(&with_causes(&error))).map_err(output),
    }
}

fn show_numbers(
    name: &str,
    values: &Values<'_>,
    options: &ShowOptions,
    out: &mut dyn Write,
    stats: impl FnOnce() -> Result<Stats>,
) -> Result<()> {
    let (info, dtype) = (&values.info, values.info.dtype);
    if !info.has_data || info.elements() == 0 {
        // OINF's tool writes "uninitialized" for every tensor without elements. "no values" is for an empty slice of a tensor that
        // has elements.
        let why = if values.is_part() && info.has_data { "no values" } else { "uninitialized" };
        return writeln!(out, "{name}: {dtype}{} -- {why}", dims(info)).map_err(output);
    }
    if !is_numeric(dtype) {
        let (dims, nbytes) = (dims(info), info.nbytes);
        return writeln!(out, "{name}: {dtype}{dims} -- {nbytes} bytes that cannot be read as numbers")
            .map_err(output);
    }
    if info.elements() == 1 && !options.stats_only {
        let value = preview::elements(values, 0..1)?;
        return writeln!(out, "{name}: {dtype} = {}", value.concat()).map_err(output);
    }
    if options.stats_only {
        writeln!(out, "{name}: {dtype}{}", dims(info)).map_err(output)?;
    } else {
        let preview = preview::preview(values)?;
        writeln!(out, "{name}: {dtype}{} = {preview}", dims(info)).map_err(output)?;
    }
    show_stats(&stats()?, info.nbytes, options, out).map_err(output)
}

fn dims(info: &TensorInfo<'_>) -> String {
    DisplayShape(info.shape).to_string()
}

fn show_stats(stats: &Stats, nbytes: u64, options: &ShowOptions, out: &mut dyn Write) -> io::Result<()> {
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
    let bars = options.bars.map(|width| (width, options.charset));
    if options.stats_only {
        return bars.map_or(Ok(()), |_| histogram::sparkline(&stats.histogram, options.charset, out));
    }
    writeln!(out, "- hist:")?;
    histogram::histogram(&stats.histogram, bars, out)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use modelfmt_core::AnyError;

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

    /// A slice reads its own bytes, and no other bytes of the tensor.
    #[test]
    fn a_slice_reads_its_ranges_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.mag");
        let values = vec![1.0f32; 1 << 20];
        let view = modelfmt_core::View::new(&values, [1024, 1024]).unwrap();
        modelfmt::save(&path, [("w", view)], &Object::default()).unwrap();
        let file = std::fs::read(&path).unwrap();
        let source = std::sync::Arc::new(testkit::CountingSource::new(file));
        let model = Model::from_source("m.mag", std::sync::Arc::clone(&source)).unwrap();
        source.reset();
        let options = ShowOptions { slice: Some("100:104".parse().unwrap()), ..ShowOptions::default() };
        let mut out = Vec::new();
        show_with(&model, &["w"], &options, &mut out, &Execution::default()).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("w[100:104]: f32[4, 1024]") && text.contains("nbytes: 16384"), "{text}");
        assert_eq!(source.nbytes(), 16_384);
    }
}
