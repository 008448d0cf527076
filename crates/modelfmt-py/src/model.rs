//! An open model: what `modelfmt.Model` is made of.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use modelfmt::modelfmt_core::claims::ClaimError;
use modelfmt::modelfmt_core::load::{self, LoadBuffer, LoadOptions};
use modelfmt::modelfmt_core::plan::Pick;
use modelfmt::modelfmt_core::source::{BoxSource, Files, Folder, SharedFiles, check_relative, shared_files};
use modelfmt::modelfmt_core::{AlignedBuf, AnyError};
use modelfmt::{Encoding, Error, Execution, InspectOptions, Location, OpenOptions, TensorInfo, json};
use pyo3::exceptions::{PyIndexError, PyMemoryError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::answers::{globs, json_of, level as level_of};
use crate::errors::raise;
use crate::raw::{Block, Given, Memory, PrivateMap, SharedMap};
use crate::work::{self, Progress};

/// Bytes that are read at once: a multiple of what a compressed tensor is read in.
const PIECE: usize = 4 << 20;
/// Up to this many bytes are read on the calling thread, without a look for Ctrl-C.
const SHORT: u64 = 8 << 20;

/// An open model of any format.
#[pyclass(frozen, module = "modelfmt._modelfmt")]
pub(crate) struct Model {
    model: Arc<modelfmt::Model>,
    /// The files that are mapped, by their names in the set; the file itself is "".
    maps: Option<Arc<Maps>>,
}

/// The mapped files of a model.
#[derive(Default)]
struct Maps(Mutex<HashMap<String, Arc<PrivateMap>>>);

impl Maps {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<PrivateMap>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, name: &str, path: &Path) -> io::Result<SharedMap> {
        let map = Arc::new(PrivateMap::open(path)?);
        self.lock().insert(name.to_owned(), Arc::clone(&map));
        Ok(SharedMap(map))
    }
}

/// The files of a set, mapped.
struct MappedFolder {
    folder: Folder,
    maps: Arc<Maps>,
}

impl Files for MappedFolder {
    type Source = BoxSource;

    fn open(&self, path: &str) -> io::Result<BoxSource> {
        check_relative(path).map_err(|fault| io::Error::new(io::ErrorKind::InvalidInput, fault))?;
        Ok(Box::new(self.maps.open(path, &self.folder.path().join(path))?))
    }
}

fn open_mapped(path: &Path, options: &OpenOptions) -> Result<Model, Error> {
    let failed = |source| Error::Open { path: path.to_owned(), source };
    let maps = Arc::new(Maps::default());
    let source = maps.open("", path).map_err(failed)?;
    let files: SharedFiles = shared_files(MappedFolder { folder: Folder::of(path), maps: Arc::clone(&maps) });
    let model = options.open_source(&path.to_string_lossy(), Box::new(source), Some(files))?;
    Ok(Model { model: Arc::new(model), maps: Some(maps) })
}

#[pymethods]
impl Model {
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf, mmap: bool, verify: bool) -> PyResult<Self> {
        // A checksum of what is not to be verified does not count either.
        let options = OpenOptions::new().ignore_checksum(!verify);
        let opened = py.detach(|| match mmap && !path.is_dir() {
            true => open_mapped(&path, &options),
            false => options.open(&path).map(|model| Self { model: Arc::new(model), maps: None }),
        });
        opened.map_err(|error| raise(py, &error))
    }

    /// Opens the content of a file.
    #[staticmethod]
    fn of_content(py: Python<'_>, name: &str, content: &Bound<'_, PyAny>) -> PyResult<Self> {
        let source: BoxSource = Box::new(Given::of(content)?);
        let opened = py.detach(|| OpenOptions::new().open_source(name, source, None));
        Ok(Self { model: Arc::new(opened.map_err(|error| raise(py, &error))?), maps: None })
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

    /// The positions of the tensors whose names match one of these patterns.
    fn matching(&self, py: Python<'_>, patterns: Vec<String>) -> PyResult<Vec<usize>> {
        self.open_all(py)?;
        let globs = globs(py, &patterns)?;
        let matching = self.model.tensors().enumerate().filter(|(_, info)| globs.is_match(info.name));
        Ok(matching.map(|(position, _)| position).collect())
    }

    /// The position of the tensor of that name, if there is one.
    fn position(&self, name: &str) -> Option<usize> {
        self.model.container().find(name)
    }

    /// The same, and an error that names the nearest otherwise.
    fn find(&self, py: Python<'_>, name: &str) -> PyResult<usize> {
        self.model.find(name).map_err(|error| raise(py, &error))
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
        let location = self.model.location(position).map_err(|error| raise(py, &error))?;
        Ok((location.file, location.offset, location.stored_nbytes, location.encoding.name()))
    }

    /// Scales and zero points beside a tensor's values, as JSON.
    fn quant(&self, py: Python<'_>, position: usize) -> PyResult<Option<String>> {
        let quant = py.detach(|| self.model.quant(position)).map_err(|error| raise(py, &error))?;
        quant.map(|quant| json_of(json::to_string(&quant.to_value()))).transpose()
    }

    /// As JSON.
    fn metadata(&self, py: Python<'_>) -> PyResult<String> {
        let value = py.detach(|| self.model.metadata()).map_err(|error| raise(py, &error))?;
        json_of(json::to_string(&value))
    }

    /// As JSON.
    fn details(&self, py: Python<'_>) -> PyResult<String> {
        let value = py.detach(|| self.model.details()).map_err(|error| raise(py, &error))?;
        json_of(json::to_string(&value))
    }

    /// The bytes of all values of a tensor; a part of the map where there is one.
    fn values(&self, py: Python<'_>, position: usize) -> PyResult<Memory> {
        let nbytes = self.valued(py, position)?.nbytes;
        Ok(Memory::new(self.block(py, position, nbytes)?))
    }

    /// The bytes of several ranges of a tensor's values, one after the other.
    fn gather(&self, py: Python<'_>, position: usize, ranges: Vec<(u64, u64)>) -> PyResult<Memory> {
        let nbytes = self.valued(py, position)?.nbytes;
        let total =
            ranges.iter().try_fold(0u64, |sum, (start, end)| sum.checked_add(end.checked_sub(*start)?));
        let total = total.filter(|_| ranges.iter().all(|(_, end)| *end <= nbytes));
        let total = total.ok_or_else(|| PyIndexError::new_err("a range is outside the tensor"))?;
        let mut buffer = buffer(total)?;
        let model = &*self.model;
        let read = |work: &Execution<'_>| {
            let mut rest = &mut *buffer;
            for (start, end) in ranges {
                let len = usize::try_from(end - start).unwrap_or_default();
                let Some((mut piece, after)) = rest.split_at_mut_checked(len) else { break };
                let mut at = start;
                while !piece.is_empty() {
                    let (now, later) = piece.split_at_mut(piece.len().min(PIECE));
                    model.read_into(position, at, now)?;
                    if work.advance(now.len() as u64).is_break() {
                        return Err(cancelled(model));
                    }
                    at += now.len() as u64;
                    piece = later;
                }
                rest = after;
            }
            Ok(())
        };
        let done = match total <= SHORT {
            true => py.detach(|| read(&Execution::sequential())),
            false => work::run(py, Some(1), &Progress::none(), read)?,
        };
        done.map_err(|error| raise(py, &error))?;
        Ok(Memory::new(Block::of_buffer(buffer)))
    }

    /// The values of several tensors, read on all cores into memory of their own, and checked by what the file says of them.
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
        let model = &*self.model;
        let loaded = work::run(py, threads, &progress, |work| {
            load::load(model.container(), &picks, &options, work).map_err(|error| not_loaded(model, error))
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
        let report = work::run(py, threads, &progress, |work| self.model.verify_with(level, work))?;
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
        let text = work::run(py, threads, &progress, |work| {
            Ok(serde_json::to_string(&self.model.inspect(&options, work)?).map_err(io::Error::other))
        })?;
        progress.finish()?;
        Ok(text.map_err(|error: Error| raise(py, &error))??)
    }

    /// Statistics of a tensor's values.
    fn stats<'py>(
        &self,
        py: Python<'py>,
        position: usize,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let model = &*self.model;
        let stats = work::run(py, threads, &Progress::none(), |work| modelfmt::stats(model, position, work))?;
        crate::answers::stats(py, &stats.map_err(|error| raise(py, &error))?)
    }

    /// What `modelfmt show` prints.
    fn show(&self, py: Python<'_>, names: Vec<String>, threads: Option<usize>) -> PyResult<String> {
        let model = &*self.model;
        let text = work::run(py, threads, &Progress::none(), |work| {
            let mut out = Vec::new();
            match names.is_empty() {
                true => modelfmt::show(model, &mut out, work)?,
                false => modelfmt::show_tensors(model, &names, &mut out, work)?,
            }
            Ok(String::from_utf8_lossy(&out).into_owned())
        })?;
        text.map_err(|error: Error| raise(py, &error))
    }
}

impl Model {
    pub(crate) fn model(&self) -> &modelfmt::Model {
        &self.model
    }

    fn open_all(&self, py: Python<'_>) -> PyResult<()> {
        if self.model.format().is_set() {
            py.detach(|| self.model.open_all()).map_err(|error| raise(py, &error))?;
        }
        Ok(())
    }

    /// The tensor at a position. A set may have to open one of its files to know.
    fn described(&self, py: Python<'_>, position: usize) -> PyResult<TensorInfo<'_>> {
        if let Some(info) = self.model.container().info(position) {
            return Ok(info);
        }
        py.detach(|| self.model.location(position)).map_err(|error| raise(py, &error))?;
        let info = self.model.container().info(position);
        info.ok_or_else(|| PyIndexError::new_err(format!("there is no tensor number {position}")))
    }

    /// The tensor at a position, which has values: one that is only declared may claim any number of bytes.
    fn valued(&self, py: Python<'_>, position: usize) -> PyResult<TensorInfo<'_>> {
        let info = self.described(py, position)?;
        if !info.has_data {
            py.detach(|| self.model.tensor_at(position).map(drop)).map_err(|error| raise(py, &error))?;
        }
        Ok(info)
    }

    /// A tensor's values: a part of the map, or memory of its own that they are read into.
    fn block(&self, py: Python<'_>, position: usize, len: u64) -> PyResult<Block> {
        if let Some(block) = self.mapped(position, len) {
            return Ok(block);
        }
        let model = &*self.model;
        if len <= SHORT {
            let mut buffer = buffer(len)?;
            let done = py.detach(|| model.read_into(position, 0, &mut buffer));
            done.map_err(|error| raise(py, &error))?;
            return Ok(Block::of_buffer(buffer));
        }
        let loaded = work::run(py, None, &Progress::none(), |work| {
            let (picks, options) = ([Pick::whole(position)], LoadOptions::new());
            let mut buffer = LoadBuffer::zeroed(len)
                .map_err(|source| ClaimError::from(AnyError::Io { at: 0, len, source }));
            if let Ok(buffer) = &mut buffer {
                load::load_into(model.container(), &picks, &mut [buffer], &options, work)?;
            }
            buffer
        })?;
        let buffer = loaded.map_err(|error| raise(py, &not_loaded(model, error)))?;
        Ok(Block::of_loaded(buffer))
    }

    fn mapped(&self, position: usize, len: u64) -> Option<Block> {
        let maps = self.maps.as_ref()?;
        let is_raw = |at: &Location| at.encoding == Encoding::Raw && at.stored_nbytes == len;
        let location = self.model.location(position).ok().filter(is_raw)?;
        let map = Arc::clone(maps.lock().get(location.file.as_deref().unwrap_or_default())?);
        Block::of_map(&map, location.offset?, len)
    }
}

/// Says whether the file is damaged, or something else went wrong.
fn not_loaded(model: &modelfmt::Model, error: ClaimError) -> Error {
    let path = model.path().to_owned();
    match error {
        ClaimError::Damaged(error) => Error::Damaged { path, error: Box::new(error) },
        ClaimError::Other(error) => Error::File { path, error },
    }
}

fn cancelled(model: &modelfmt::Model) -> Error {
    Error::File { path: model.path().to_owned(), error: AnyError::Cancelled }
}

/// The bytes of all tensors, for progress. Tensors that are declared only can claim any number.
pub(crate) fn nbytes(model: &modelfmt::Model) -> u64 {
    let tensors = model.tensors().filter(|tensor| tensor.has_data);
    tensors.fold(0, |sum, tensor| sum.saturating_add(tensor.nbytes))
}

fn buffer(nbytes: u64) -> PyResult<AlignedBuf> {
    let none = || PyMemoryError::new_err(format!("cannot allocate {nbytes} bytes"));
    AlignedBuf::zeroed(usize::try_from(nbytes).map_err(|_| none())?).map_err(|_| none())
}
