//! An open model, which `modelfmt.Model` wraps.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use modelfmt::bom::{BomOptions, Spec};
use modelfmt::inspect::InspectOptions;
use modelfmt::modelfmt_core::load::{self, LoadOptions};
use modelfmt::modelfmt_core::plan::{Pick, PlanOptions};
use modelfmt::modelfmt_core::source::BoxSource;
use modelfmt::value::json;
use modelfmt::wording::ParseError;
use modelfmt::{Error, TensorInfo};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySlice, PyTuple};

use crate::answers::{globs, json_of, level as level_of};
use crate::errors::{raise, refuse};
use crate::maps::{Maps, open_mapped};
use crate::opening::Opening;
use crate::raw::{Block, Memory, PyBytesSource};
use crate::remote::Place;
use crate::signed;
use crate::storage::Storage;
use crate::values::{Values, not_loaded};
use crate::work::{self, Progress};

/// An open model of any format.
#[pyclass(frozen, module = "modelfmt._modelfmt")]
pub(crate) struct Model {
    model: Arc<modelfmt::Model>,
    /// The files that are mapped.
    maps: Option<Arc<Maps>>,
    /// Whether its values come over a network.
    is_remote: bool,
}

#[pymethods]
impl Model {
    /// Opens the model at a path or a URL.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        mmap: bool,
        verify: bool,
        given: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let mut opening = Opening::new(given)?;
        let place = Place::new(py, path, opening.allowed)?;
        if mmap && place.is_remote() {
            return Err(refuse(py, "usage", "mmap: what a URL leads to cannot be mapped"));
        }
        let is_beside = signed::is_beside(&opening, &place);
        // Without `verify`, a wrong checksum is not an error either.
        let mut options = opening.options(py, is_beside)?.ignore_checksum(!verify);
        if is_beside {
            options.judge_place(place.shown()).map_err(|error| raise(py, &error))?;
            options = options.signed_files(signed::demand(py, place.shown(), opening.keys)?);
        }
        let is_remote = place.is_remote();
        let shown = place.shown();
        // Files that a policy judges are read through the model, and not lent from a map.
        let is_mapped = mmap && options.get_policy().is_none();
        let open = move || match is_mapped && !shown.is_dir() {
            true => {
                let (model, maps) = open_mapped(&shown, &options)?;
                Ok(Self { model: Arc::new(model), maps, is_remote: false })
            }
            false => {
                let model = Arc::new(place.open(&options)?);
                Ok(Self { model, maps: None, is_remote })
            }
        };
        // Checking a pin may require hashing the whole file, and trying a passphrase is slow on purpose.
        let opened = match is_remote || !given.is_empty() {
            true => work::run(py, None, &Progress::none(), move |_| open())?,
            false => py.detach(open),
        };
        opened.map_err(|error| raise(py, &error))
    }

    /// Opens the content of a file.
    #[staticmethod]
    fn of_content(
        py: Python<'_>,
        name: &str,
        content: &Bound<'_, PyAny>,
        verify: bool,
        given: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let options = Opening::new(given)?.options(py, false)?.ignore_checksum(!verify);
        let source: BoxSource = Box::new(PyBytesSource::of(content)?);
        let opened = py.detach(|| options.open_source(name, source, None));
        let model = Arc::new(opened.map_err(|error| raise(py, &error))?);
        Ok(Self { model, maps: None, is_remote: false })
    }

    /// Opens a file that has no path.
    #[staticmethod]
    fn of_storage(
        py: Python<'_>,
        name: String,
        storage: &Storage,
        mmap: bool,
        verify: bool,
        given: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let options = Opening::new(given)?.options(py, false)?.ignore_checksum(!verify);
        let mmap = mmap && options.get_policy().is_none();
        // Bytes that must be checked are read through the model, and not lent from the map.
        let lends = mmap && !options.binds_content();
        let failed = |source| raise(py, &Error::Open { path: name.clone().into(), source });
        let maps = Maps::default();
        let source: BoxSource = match mmap {
            true => Box::new(maps.keep("", storage.map().map_err(failed)?)),
            false => Box::new(storage.source().map_err(failed)?),
        };
        // Checking a pin or a passphrase takes time.
        let opened =
            work::run(py, None, &Progress::none(), move |_| options.open_source(&name, source, None))?;
        let model = Arc::new(opened.map_err(|error| raise(py, &error))?);
        Ok(Self { model, maps: lends.then(|| Arc::new(maps)), is_remote: false })
    }

    /// Several models as one, for a conversion of some of their tensors.
    #[staticmethod]
    fn merged(
        py: Python<'_>,
        models: Vec<PyRef<'_, Self>>,
        include: Vec<String>,
        exclude: Vec<String>,
    ) -> PyResult<Self> {
        let is_remote = models.iter().any(|model| model.is_remote);
        let models: Vec<modelfmt::Model> = models.iter().map(|model| (*model.model).clone()).collect();
        let mut filter = modelfmt::convert::ConvertOptions::default();
        (filter.tensors.include, filter.tensors.exclude) = (include, exclude);
        let merged = py.detach(|| modelfmt::convert::merged(models, &filter));
        let model = Arc::new(merged.map_err(|error| raise(py, &error))?);
        Ok(Self { model, maps: None, is_remote })
    }

    /// The path or the URL, without the parts that may be secret.
    #[getter]
    fn path(&self) -> OsString {
        self.model.path().as_os_str().to_owned()
    }

    /// Whether its values are encrypted in its file.
    #[getter]
    fn is_encrypted(&self) -> bool {
        self.model.is_encrypted()
    }

    /// The pins of the file.
    fn pins(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.ask(py, |model| Ok(model.pins()?.iter().map(ToString::to_string).collect()))
    }

    fn __len__(&self) -> usize {
        self.model.tensor_count()
    }

    #[getter]
    fn format(&self) -> &'static str {
        self.model.format().name()
    }

    #[getter]
    fn version(&self) -> Option<String> {
        self.model.container().version()
    }

    #[getter]
    fn file_size(&self) -> u64 {
        self.model.container().file_size()
    }

    /// The names, in file order.
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.open_all(py)?;
        PyList::new(py, self.model.tensors().map(|info| info.name).collect::<Vec<_>>())
    }

    /// Name, dtype and shape of the first tensors, as many as are known without requests to a server, and without a missing file.
    fn first(&self, py: Python<'_>, count: usize) -> Vec<(String, &'static str, Vec<u64>)> {
        let known = |position| match self.is_remote {
            true => self.model.container().info(position),
            false => self.described(py, position).ok(),
        };
        let count = count.min(self.model.tensor_count());
        let first = (0..count).map_while(known);
        first.map(|info| (info.name.to_owned(), info.dtype.name(), info.shape.to_vec())).collect()
    }

    /// The positions of the tensors whose names match one of these patterns.
    fn matching(&self, py: Python<'_>, patterns: Vec<String>) -> PyResult<Vec<usize>> {
        self.open_all(py)?;
        let globs = globs(py, &patterns)?;
        let matching = self.model.tensors().enumerate().filter(|(_, info)| globs.is_match(info.name));
        Ok(matching.map(|(position, _)| position).collect())
    }

    /// The position of the tensor with a name, if there is one.
    fn position(&self, name: &str) -> Option<usize> {
        self.model.container().find(name)
    }

    /// The position of the tensor with a name; an error suggests the nearest name.
    fn find(&self, py: Python<'_>, name: &str) -> PyResult<usize> {
        if !self.is_remote {
            return self.model.find(name).map_err(|error| raise(py, &error));
        }
        let name = name.to_owned();
        self.ask(py, move |model| model.find(&name))
    }

    /// Position, dtype, shape and length in bytes of the tensor with a name; an error suggests the nearest name.
    fn found<'py>(
        &self,
        py: Python<'py>,
        name: &str,
    ) -> PyResult<(usize, &'static str, Bound<'py, PyTuple>, u64)> {
        let position = self.find(py, name)?;
        let info = self.described(py, position)?;
        Ok((position, info.dtype.name(), PyTuple::new(py, info.shape)?, info.nbytes))
    }

    /// Name, dtype, shape, length in bytes, whether it has data.
    fn info(&self, py: Python<'_>, position: usize) -> PyResult<(String, &'static str, Vec<u64>, u64, bool)> {
        let info = self.described(py, position)?;
        Ok((info.name.to_owned(), info.dtype.name(), info.shape.to_vec(), info.nbytes, info.has_data))
    }

    /// File, offset, stored length, encoding.
    fn location(
        &self,
        py: Python<'_>,
        position: usize,
    ) -> PyResult<(Option<String>, Option<u64>, u64, &'static str)> {
        let location = self.ask(py, move |model| model.location(position))?;
        Ok((location.file, location.offset, location.stored_nbytes, location.encoding.name()))
    }

    /// Scales and zero points beside a tensor's values, as JSON.
    fn quant(&self, py: Python<'_>, position: usize) -> PyResult<Option<String>> {
        let quant = self.ask(py, move |model| model.quant(position))?;
        quant.map(|quant| json_of(json::to_string(&quant.to_value()))).transpose()
    }

    /// As JSON.
    fn metadata(&self, py: Python<'_>) -> PyResult<String> {
        let value = self.ask(py, modelfmt::Model::metadata)?;
        json_of(json::to_string(&value))
    }

    /// As JSON.
    fn details(&self, py: Python<'_>) -> PyResult<String> {
        let value = self.ask(py, modelfmt::Model::details)?;
        json_of(json::to_string(&value))
    }

    /// The bytes of all values of a tensor; a part of the map where there is one.
    fn values(&self, py: Python<'_>, position: usize) -> PyResult<Memory> {
        let nbytes = self.valued(py, position)?.nbytes;
        Ok(Memory::new(self.reading().block(py, position, nbytes)?))
    }

    /// The bytes of several ranges of a tensor's values, one after the other.
    fn gather(&self, py: Python<'_>, position: usize, ranges: Vec<(u64, u64)>) -> PyResult<Memory> {
        let nbytes = self.valued(py, position)?.nbytes;
        self.reading().gathered(py, position, nbytes, ranges)
    }

    /// Neighbouring rows of a tensor whose elements take whole bytes: their bytes, shape and length. `None` if the rows are not
    /// neighbours, or if there are none.
    fn rows<'py>(
        &self,
        py: Python<'py>,
        position: usize,
        rows: &Bound<'py, PySlice>,
    ) -> PyResult<Option<(Memory, Bound<'py, PyTuple>, u64)>> {
        let info = self.valued(py, position)?;
        let Some((&count, others)) = info.shape.split_first() else { return Ok(None) };
        let row = info.nbytes.checked_div(count).filter(|row| *row > 0);
        let (Some(row), Ok(count)) = (row, isize::try_from(count)) else { return Ok(None) };
        let taken = rows.indices(count)?;
        let range = (u64::try_from(taken.start), u64::try_from(taken.slicelength));
        let (Ok(first), Ok(len @ 1..), 1) = (range.0, range.1, taken.step) else { return Ok(None) };
        let bytes = |rows: u64| rows.saturating_mul(row);
        let range = (bytes(first), bytes(first.saturating_add(len)));
        let memory = self.reading().gathered(py, position, info.nbytes, vec![range])?;
        let shape = PyTuple::new(py, std::iter::once(len).chain(others.iter().copied()).collect::<Vec<_>>())?;
        Ok(Some((memory, shape, bytes(len))))
    }

    /// What `modelfmt plan --json` prints.
    fn plan(&self, py: Python<'_>, names: Vec<String>) -> PyResult<String> {
        let options = if self.is_remote { PlanOptions::remote() } else { PlanOptions::local() };
        let plan = self.ask(py, move |model| model.plan(&model.picks(&names)?, options))?;
        json_of(serde_json::to_string(&plan))
    }

    /// The values of several tensors, read on all cores into memory of their own, and checked against the hashes in the file.
    #[pyo3(signature = (positions, verify, threads, progress))]
    fn load(
        &self,
        py: Python<'_>,
        positions: Vec<usize>,
        verify: bool,
        threads: Option<usize>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<(Vec<Memory>, Vec<String>)> {
        let mut total = 0u64;
        for &position in &positions {
            total = total.saturating_add(self.valued(py, position)?.nbytes);
        }
        let progress = Progress { callback: progress, total };
        let picks: Vec<Pick> = positions.iter().map(|&position| Pick::whole(position)).collect();
        let options = LoadOptions::new().verify(verify);
        let model = Arc::clone(&self.model);
        let loaded = work::run(py, threads, &progress, move |work| {
            load::load(model.container(), &picks, &options, work).map_err(|error| not_loaded(&model, error))
        })?;
        let (tensors, loaded) = loaded.map_err(|error| raise(py, &error))?;
        progress.finish()?;
        let memories = tensors.into_iter().map(|tensor| Memory::new(Block::of_loaded(tensor.bytes)));
        Ok((memories.collect(), loaded.notes))
    }

    /// What verification finds, as JSON.
    fn verify(
        &self,
        py: Python<'_>,
        level: &str,
        threads: Option<usize>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let level = level_of(py, level)?;
        let progress = Progress { callback: progress, total: self.model.container().file_size() };
        let model = Arc::clone(&self.model);
        let report = work::run(py, threads, &progress, move |work| model.verify_with(level, work))?;
        progress.finish()?;
        let checks = serde_json::to_value(&report.checks).map_err(io::Error::other)?;
        let report = serde_json::json!({
            "path": self.model.path().to_string_lossy(),
            "format": self.model.format().name(),
            "level": report.level.name(),
            "ok": report.is_ok(),
            "checks": checks,
            "errors": report.errors,
        });
        Ok(report.to_string())
    }

    /// What `modelfmt inspect --json` prints.
    fn inspect(
        &self,
        py: Python<'_>,
        hash: bool,
        tensors: Option<Vec<String>>,
        threads: Option<usize>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let mut options = InspectOptions::new().hash(hash);
        if let Some(patterns) = tensors {
            options = options.tensors(globs(py, &patterns)?);
        }
        let total = if hash { nbytes(&self.model) } else { 0 };
        let progress = Progress { callback: progress, total };
        let model = Arc::clone(&self.model);
        let text = work::run(py, threads, &progress, move |work| {
            Ok(serde_json::to_string(&modelfmt::inspect::inspect(&model, &options, work)?)
                .map_err(io::Error::other))
        })?;
        progress.finish()?;
        Ok(text.map_err(|error: Error| raise(py, &error))??)
    }

    /// What `modelfmt bom` writes.
    fn bom(
        &self,
        py: Python<'_>,
        spec: &str,
        tensors: bool,
        epoch: Option<&str>,
        threads: Option<usize>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let wrong = |what: &str, error: ParseError| refuse(py, "usage", &format!("{what}: {error}"));
        let spec: Spec = spec.parse().map_err(|error| wrong("spec", error))?;
        let mut options = BomOptions::new().tensors(tensors);
        if let Some(epoch) = epoch.filter(|_| spec == Spec::Spdx) {
            options = options.created(epoch.parse().map_err(|error| wrong("SOURCE_DATE_EPOCH", error))?);
        }
        let values = if tensors { nbytes(&self.model) } else { 0 };
        let total = self.model.container().file_size().saturating_add(values);
        let progress = Progress { callback: progress, total };
        let model = Arc::clone(&self.model);
        let bom =
            work::run(py, threads, &progress, move |work| modelfmt::bom::bom(&[&model], &options, work))?;
        let bom = bom.map_err(|error: Error| raise(py, &error))?;
        progress.finish()?;
        json_of(bom.to_json(spec))
    }

    /// Statistics of a tensor's values.
    fn stats<'py>(
        &self,
        py: Python<'py>,
        position: usize,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let model = Arc::clone(&self.model);
        let stats = work::run(py, threads, &Progress::none(), move |work| {
            modelfmt::show::stats(&model, position, work)
        })?;
        crate::answers::stats(py, &stats.map_err(|error| raise(py, &error))?)
    }

    /// What `modelfmt show` prints.
    fn show(&self, py: Python<'_>, names: Vec<String>, threads: Option<usize>) -> PyResult<String> {
        let model = Arc::clone(&self.model);
        let text = work::run(py, threads, &Progress::none(), move |work| {
            let mut out = Vec::new();
            match names.is_empty() {
                true => modelfmt::show::show(&model, &mut out, work)?,
                false => modelfmt::show::show_tensors(&model, &names, &mut out, work)?,
            }
            Ok(String::from_utf8_lossy(&out).into_owned())
        })?;
        text.map_err(|error: Error| raise(py, &error))
    }
}

impl Model {
    pub(crate) const fn model(&self) -> &Arc<modelfmt::Model> {
        &self.model
    }

    fn reading(&self) -> Values<'_> {
        Values { model: &self.model, maps: self.maps.as_deref(), is_remote: self.is_remote }
    }

    /// Runs a job that may have to read the file. A local file is read at once; for a file at a URL the job
    /// runs on another thread, so that Ctrl-C ends the wait.
    fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        job: impl FnOnce(&modelfmt::Model) -> Result<T, Error> + Send + 'static,
    ) -> PyResult<T> {
        let done = match self.is_remote {
            false => py.detach(|| job(&self.model)),
            true => {
                let model = Arc::clone(&self.model);
                work::run(py, None, &Progress::none(), move |_| job(&model))?
            }
        };
        done.map_err(|error| raise(py, &error))
    }

    fn open_all(&self, py: Python<'_>) -> PyResult<()> {
        if self.model.format().is_set() {
            self.ask(py, modelfmt::Model::open_all)?;
        }
        Ok(())
    }

    /// Returns the tensor at a position. For a set, this may open one of its files.
    fn described(&self, py: Python<'_>, position: usize) -> PyResult<TensorInfo<'_>> {
        if let Some(info) = self.model.container().info(position) {
            return Ok(info);
        }
        self.ask(py, move |model| model.location(position))?;
        let info = self.model.container().info(position);
        info.ok_or_else(|| PyIndexError::new_err(format!("there is no tensor number {position}")))
    }

    /// Returns the tensor at a position, which must have values: a tensor that is only declared can claim any
    /// number of bytes.
    fn valued(&self, py: Python<'_>, position: usize) -> PyResult<TensorInfo<'_>> {
        let info = self.described(py, position)?;
        if !info.has_data {
            self.ask(py, move |model| model.tensor(position).map(drop))?;
        }
        Ok(info)
    }
}

/// Returns the size of all tensors in bytes, for progress. Tensors that are only declared do not count,
/// because they can claim any size.
pub(crate) fn nbytes(model: &modelfmt::Model) -> u64 {
    let tensors = model.tensors().filter(|tensor| tensor.has_data);
    tensors.fold(0, |sum, tensor| sum.saturating_add(tensor.nbytes))
}
