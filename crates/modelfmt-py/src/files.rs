//! Converts, saves, verifies and compares whole files.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use modelfmt::convert::{Converted, OPTIONS, OptionInfo, Overwrite, Takes, TensorProgram, TypeChanged};
use modelfmt::diff::DiffOptions;
use modelfmt::modelfmt_core::source::FileSource;
use modelfmt::modelfmt_write::{BoxError, TensorData, TensorSpec};
use modelfmt::oms::VerifyOptions;
use modelfmt::outboard::outboard_with;
use modelfmt::{Conversion, DType, Error, Execution, Format, Object, Pin, Source as _, TensorInfo};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::answers::level as level_of;
use crate::errors::{Keywords, raise, refuse};
use crate::model::{Model, nbytes};
use crate::opening::Opening;
use crate::options::{object, options, target};
use crate::policy;
use crate::raw::PyBytesSource;
use crate::remote::{Allowed, Place};
use crate::signed;
use crate::storage::Storage;
use crate::work::{self, Progress};

/// Converts a model into a file; returns what was written.
#[pyfunction]
#[pyo3(signature = (model, path, format, given, opening, dry_run, threads, progress))]
#[expect(clippy::too_many_arguments, reason = "the keywords of a Python function")]
pub(crate) fn convert<'py>(
    py: Python<'py>,
    model: &Model,
    path: PathBuf,
    format: &str,
    given: &Bound<'py, PyDict>,
    opening: &Bound<'py, PyDict>,
    dry_run: bool,
    threads: Option<usize>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let target = target(py, format)?;
    let mut options = options(given)?;
    target.set_in(&mut options);
    let source = Arc::clone(model.model());
    let place = Place::new(py, path, allowed(opening)?)?;
    let progress = Progress { callback: progress, total: nbytes(&source) };
    let result = PyDict::new(py);
    if dry_run {
        let planned = work::run(py, threads, &Progress::none(), move |_| {
            let plan = Conversion::to_format(&source, target.format).options(&options).plan()?;
            let changed: Vec<TypeChanged> = plan.changed().collect();
            let name = if options.output.hub_folder { "hf" } else { plan.target().name() };
            Ok((name, plan.nbytes(), changed, plan.warnings().to_vec(), plan.programs()))
        })?;
        let (format, nbytes, changed, warnings, programs) =
            planned.map_err(|error: Error| raise(py, &error))?;
        result.set_item("format", format)?;
        result.set_item("nbytes", nbytes)?;
        result.set_item("changed", of_types(&changed))?;
        let warnings: Vec<String> = warnings.iter().map(|warning| warning.in_words(&Keywords)).collect();
        result.set_item("warnings", warnings)?;
        let made = programs.tensors.iter().map(|program| of_program(py, program));
        result.set_item("programs", made.collect::<PyResult<Vec<_>>>()?)?;
        result.set_item("left_out", programs.left_out)?;
        return Ok(result);
    }
    let to = place.clone();
    let converted =
        work::run(py, threads, &progress, move |work| to.convert(&source, target.format, &options, work))?;
    let converted = converted.map_err(|error| raise(py, &error))?;
    progress.finish()?;
    answer(py, &converted, &place)
}

/// Returns how a tensor is made, as `modelfmt convert --dry-run --json` prints it.
fn of_program<'py>(py: Python<'py>, program: &TensorProgram) -> PyResult<Bound<'py, PyDict>> {
    let result = PyDict::new(py);
    result.set_item("tensor", &program.tensor)?;
    result.set_item("dtype", program.dtype.name())?;
    result.set_item("shape", &program.shape)?;
    result.set_item("from", &program.from)?;
    result.set_item("steps", &program.steps)?;
    Ok(result)
}

/// Returns the tensors that get another type: name, old and new type.
fn of_types(changed: &[TypeChanged]) -> Vec<(&str, &str, &str)> {
    changed.iter().map(|one| (one.tensor.as_str(), one.from.name(), one.to.name())).collect()
}

/// Returns what a conversion has written.
pub(crate) fn answer<'py>(
    py: Python<'py>,
    converted: &Converted,
    place: &Place,
) -> PyResult<Bound<'py, PyDict>> {
    let result = PyDict::new(py);
    let is_folder = converted.is_hub_folder;
    result.set_item("format", if is_folder { "hf" } else { converted.format.name() })?;
    result.set_item("tensors", converted.tensors)?;
    let path = |file: &str| match is_folder {
        true => place.shown().join(file).to_string_lossy().into_owned(),
        false => place.written(file.as_ref()),
    };
    let files = converted.files.iter().map(|file| (path(&file.path), file.nbytes));
    result.set_item("files", files.collect::<Vec<_>>())?;
    let notes: Vec<String> = converted.notes.iter().map(|note| note.in_words(&Keywords)).collect();
    result.set_item("notes", notes)?;
    result.set_item("changed", of_types(&converted.changed))?;
    result.set_item("warnings", converted.warning_lines(&Keywords))?;
    let clipped: Vec<String> = converted.clipped.iter().map(ToString::to_string).collect();
    result.set_item("clipped", clipped)?;
    let dropped: Vec<String> = converted.dropped.iter().map(|item| item.in_words(&Keywords)).collect();
    result.set_item("dropped", dropped)?;
    Ok(result)
}

/// Writes tensors: each its name, dtype, shape and bytes. Those are an object with the buffer protocol, or where they are in `storage`.
#[pyfunction]
#[pyo3(signature = (path, format, tensors, storage, metadata, given, opening, threads, progress))]
#[expect(clippy::too_many_arguments, reason = "the keywords of a Python function")]
pub(crate) fn save(
    py: Python<'_>,
    path: PathBuf,
    format: &str,
    tensors: Vec<Bound<'_, PyAny>>,
    storage: Option<&Storage>,
    metadata: &Bound<'_, PyAny>,
    given: &Bound<'_, PyDict>,
    opening: &Bound<'_, PyDict>,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<()> {
    let target = target(py, format)?;
    let mut options = options(given)?;
    target.set_in(&mut options);
    let metadata: Object = object(metadata)?;
    let (specs, values, total) = match storage {
        None => given_tensors(py, tensors)?,
        Some(storage) => stored_tensors(py, tensors, storage)?,
    };
    let progress = Progress { callback: progress, total };
    let (place, values) = (Place::new(py, path, allowed(opening)?)?, Arc::new(values));
    let (is_remote, its) = (place.is_remote(), Arc::clone(&values));
    let job =
        move |work: &Execution<'_>| place.save(target.format, specs, (&metadata, &options), &**its, work);
    let saved = match is_remote {
        false => work::run_to_end(py, threads, &progress, job),
        true => work::run(py, threads, &progress, job),
    };
    if Arc::strong_count(&values) > 1 {
        // A server keeps the job waiting, and the caller no longer waits for it. Python's memory can only be
        // released while the interpreter exists, and it may be gone when the job ends. So the memory is
        // leaked.
        std::mem::forget(values);
    }
    saved?.map_err(|error| raise(py, &error))?;
    progress.finish()
}

/// Refuses a path where there is a file.
#[pyfunction]
pub(crate) fn refuse_existing(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    if path.is_file() { Err(raise(py, &Error::Exists { path })) } else { Ok(()) }
}

/// Descriptions of tensors, their values, and the size of the values in bytes.
type Described = (Vec<TensorSpec<'static>>, Box<dyn TensorData + Send + Sync>, u64);

/// Converts tensors that are given by name, dtype, shape and an object with the buffer protocol.
fn given_tensors(py: Python<'_>, tensors: Vec<Bound<'_, PyAny>>) -> PyResult<Described> {
    let (mut specs, mut values) = (Vec::with_capacity(tensors.len()), Vec::with_capacity(tensors.len()));
    let mut total = 0u64;
    for tensor in tensors {
        let (name, dtype, shape, bytes): (String, String, Vec<u64>, Bound<'_, PyAny>) = tensor.extract()?;
        let (dtype, bytes) = described(py, &name, &dtype, &shape, &bytes)?;
        total = total.saturating_add(bytes.len() as u64);
        specs.push(TensorSpec::new(name, dtype, shape));
        values.push(bytes);
    }
    Ok((specs, Box::new(Values(values)), total))
}

/// Converts tensors that are given by name, dtype, shape, and the position and length of their bytes in a
/// file.
fn stored_tensors(py: Python<'_>, tensors: Vec<Bound<'_, PyAny>>, storage: &Storage) -> PyResult<Described> {
    let (mut specs, mut starts) = (Vec::with_capacity(tensors.len()), Vec::with_capacity(tensors.len()));
    for tensor in tensors {
        let (name, dtype, shape, (start, len)): (String, String, Vec<u64>, (u64, u64)) = tensor.extract()?;
        let dtype = type_of(py, &name, &dtype, &shape, len)?;
        specs.push(TensorSpec::new(name, dtype, shape));
        starts.push(start);
    }
    let source = storage.source()?;
    let total = source.len();
    Ok((specs, Box::new(Stored { source, starts }), total))
}

/// Values in a file.
struct Stored {
    source: FileSource,
    /// The position of each tensor's values.
    starts: Vec<u64>,
}

impl TensorData for Stored {
    fn read(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), BoxError> {
        let at = self.starts.get(tensor).and_then(|start| start.checked_add(offset));
        Ok(self.source.read_into(at.ok_or("there is no such tensor")?, out)?)
    }
}

/// Returns what requests for the output may do.
fn allowed(opening: &Bound<'_, PyDict>) -> PyResult<Allowed> {
    Ok(Opening::new(opening)?.allowed)
}

/// The given values, as the writers take them.
pub(crate) struct Values(pub(crate) Vec<PyBytesSource>);

impl TensorData for Values {
    fn read(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), BoxError> {
        let is_there = self.0.get(tensor).is_some_and(|given| given.copy(offset, out));
        if is_there { Ok(()) } else { Err("fewer bytes were given than type and shape take".into()) }
    }
}

/// Returns the type and the bytes of a given tensor. Fails if type and shape need a different number of
/// bytes.
pub(crate) fn described(
    py: Python<'_>,
    name: &str,
    dtype: &str,
    shape: &[u64],
    bytes: &Bound<'_, PyAny>,
) -> PyResult<(DType, PyBytesSource)> {
    let bytes = PyBytesSource::of(bytes)?;
    Ok((type_of(py, name, dtype, shape, bytes.len() as u64)?, bytes))
}

/// Returns the type of a given tensor. Fails if type and shape need a different number of bytes.
fn type_of(py: Python<'_>, name: &str, dtype: &str, shape: &[u64], len: u64) -> PyResult<DType> {
    let usage = |text: String| refuse(py, "usage", &text);
    let dtype: DType =
        dtype.parse().map_err(|error: modelfmt::modelfmt_core::UnknownDType| usage(error.to_string()))?;
    let info = TensorInfo::new(name, dtype, shape);
    let info = info.map_err(|error| usage(format!("tensor {name:?}: {error}")))?;
    match info.nbytes == len {
        true => Ok(dtype),
        false => Err(usage(format!(
            "tensor {name:?}: {dtype} of {shape:?} takes {} bytes, not {len}",
            info.nbytes
        ))),
    }
}

/// What verification finds in a file, as JSON; a file that cannot be opened is reported too.
#[pyfunction]
#[pyo3(signature = (path, level, given, allow_symlinks, threads, progress))]
pub(crate) fn verify(
    py: Python<'_>,
    path: PathBuf,
    level: &str,
    given: &Bound<'_, PyDict>,
    allow_symlinks: bool,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let level = level_of(py, level)?;
    let total = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
    let progress = Progress { callback: progress, total };
    let mut opening = Opening::new(given)?;
    let place = Place::new(py, path, opening.allowed)?;
    let is_beside = signed::is_beside(&opening, &place);
    let options = opening.options(py, is_beside)?;
    let keys = opening.keys;
    let report = work::run(py, threads, &progress, move |work| match (is_beside, &place) {
        (true, Place::Path(path)) => {
            let signatures = VerifyOptions::new().allow_symlinks(allow_symlinks);
            options.verify_signed(path, level, &keys, &signatures, work)
        }
        _ => place.verify(&options, level, work),
    })?;
    progress.finish()?;
    Ok(serde_json::to_string(&report).map_err(io::Error::other)?)
}

/// What differs between two models, as JSON.
#[pyfunction]
#[pyo3(signature = (a, b, norms, tolerance, ignore_metadata, ignore_dtype, threads, progress))]
#[expect(clippy::too_many_arguments, reason = "the keywords of a Python function")]
pub(crate) fn diff(
    py: Python<'_>,
    a: &Model,
    b: &Model,
    norms: bool,
    tolerance: Option<f64>,
    ignore_metadata: bool,
    ignore_dtype: bool,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    if tolerance.is_some_and(|tolerance| tolerance.is_nan() || tolerance < 0.0) {
        return Err(refuse(py, "usage", "tolerance: it is a number from 0 on, such as 1e-3"));
    }
    let mut options = DiffOptions::default();
    (options.norms, options.tolerance) = (norms, tolerance);
    (options.ignore_metadata, options.ignore_dtype) = (ignore_metadata, ignore_dtype);
    let (a, b) = (Arc::clone(a.model()), Arc::clone(b.model()));
    let progress = Progress { callback: progress, total: nbytes(&a) };
    let diff =
        work::run(py, threads, &progress, move |work| modelfmt::diff::diff_with(&a, &b, &options, work))?;
    let diff = diff.map_err(|error: Error| raise(py, &error))?;
    progress.finish()?;
    Ok(serde_json::to_string(&diff).map_err(io::Error::other)?)
}

/// What is wrong with the values of a model, as JSON.
#[pyfunction]
#[pyo3(signature = (model, threads, progress))]
pub(crate) fn check(
    py: Python<'_>,
    model: &Model,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let model = Arc::clone(model.model());
    let progress = Progress { callback: progress, total: nbytes(&model) };
    let report = work::run(py, threads, &progress, move |work| modelfmt::check::check(&model, work))?;
    let report = report.map_err(|error: Error| raise(py, &error))?;
    progress.finish()?;
    Ok(serde_json::to_string(&report).map_err(io::Error::other)?)
}

/// Writes the outboard of a file of any kind; returns its path, the pin that it proves ranges of the file with, and its size.
#[pyfunction]
#[pyo3(signature = (path, overwrite, policy, progress))]
pub(crate) fn outboard(
    py: Python<'_>,
    path: PathBuf,
    overwrite: bool,
    policy: Option<PathBuf>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<(OsString, String, u64)> {
    let total = std::fs::metadata(&path).map_or(0, |file| file.len());
    let progress = Progress { callback: progress, total };
    let overwrite = if overwrite { Overwrite::Replace } else { Overwrite::Refuse };
    let options = policy::options(py, policy)?;
    let written =
        work::run(py, None, &progress, move |work| outboard_with(&path, &options, overwrite, work))?;
    let written = written.map_err(|error| raise(py, &error))?;
    progress.finish()?;
    Ok((written.path.into_os_string(), Pin::B3(written.blake3).to_string(), written.nbytes))
}

/// The formats: name, ending, whether it is written.
#[pyfunction]
pub(crate) fn formats() -> Vec<(&'static str, Option<&'static str>, bool)> {
    Format::ALL.iter().map(|format| (format.name(), format.extension(), format.is_writable())).collect()
}

/// The options of a conversion: the keyword, what the program takes for it (`nothing`, `one` or `many`), the formats that can be written with it.
#[pyfunction]
pub(crate) fn convert_options() -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
    let takes = |option: &OptionInfo| match option.takes {
        Takes::Nothing => "nothing",
        Takes::One(_) => "one",
        Takes::Many(_) => "many",
    };
    let formats = |option: &OptionInfo| option.formats().map(Format::name).collect();
    OPTIONS.iter().map(|option| (option.keyword, takes(option), formats(option))).collect()
}

/// The format that the ending of a file's name asks for.
#[pyfunction]
pub(crate) fn format_of_name(name: &str) -> Option<&'static str> {
    Format::for_output(name).map(Format::name)
}
