//! Conversions into sets whose parts are written by independent processes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelfmt::convert::{ConvertOptions, Converted, Overwrite};
use modelfmt::convert::{PartPlan, Receipt};
use modelfmt::modelfmt_core::source::folder_of;
use modelfmt::modelfmt_write::NewFiles;
use modelfmt::wording::ParseError;
use modelfmt::{Conversion, Error, Execution, Format};
use modelfmt_remote::models;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{raise, refuse};
use crate::files::answer;
use crate::model::Model;
use crate::opening::Opening;
use crate::options::{options, target};
use crate::remote::Place;
use crate::work::{self, Progress};

/// A planned conversion into a set. The library's plan borrows the model, so each call makes it anew on its own thread.
#[pyclass(frozen, module = "modelfmt._modelfmt")]
pub(crate) struct Plan(Arc<Planned>);

struct Planned {
    model: Arc<modelfmt::Model>,
    place: Place,
    format: Format,
    options: ConvertOptions,
}

/// A job over the files of the set.
trait Job {
    type Done;
    fn run(self, plan: &PartPlan<'_>, files: &impl NewFiles) -> Result<Self::Done, Error>;
}

impl Planned {
    fn plan(&self) -> Result<PartPlan<'_>, Error> {
        let conversion = Conversion::to_format(&self.model, self.format).options(&self.options).plan()?;
        let name = match &self.place {
            Place::Path(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            Place::Url { at, .. } => at.file_name(),
        };
        conversion.into_parts(&name)
    }

    fn run<J: Job>(&self, nbytes: u64, overwrite: Overwrite, job: J) -> Result<J::Done, Error> {
        let plan = self.plan()?;
        match &self.place {
            Place::Path(path) => {
                let folder = folder_of(path);
                job.run(&plan, &plan.folder(folder, overwrite)).map_err(|error| within(folder, error))
            }
            Place::Url { at, store } => {
                models::write_parts(store, at, overwrite, nbytes, |files| job.run(&plan, files))
            }
        }
    }
}

/// Adds the folder to the path of the file in an error.
fn within(folder: &Path, error: Error) -> Error {
    let full = |path: PathBuf| if path.components().count() == 1 { folder.join(path) } else { path };
    match error {
        Error::Exists { path } => Error::Exists { path: full(path) },
        Error::Write { path, source } => Error::Write { path: full(path), source },
        other => other,
    }
}

struct Begin;

impl Job for Begin {
    type Done = ();
    fn run(self, plan: &PartPlan<'_>, files: &impl NewFiles) -> Result<(), Error> {
        plan.begin(files)
    }
}

struct Write<'a, 'w> {
    number: usize,
    work: &'w Execution<'a>,
}

impl Job for Write<'_, '_> {
    type Done = Receipt;
    fn run(self, plan: &PartPlan<'_>, files: &impl NewFiles) -> Result<Receipt, Error> {
        plan.part(self.number)?.write(files, self.work)
    }
}

struct Finish<'a, 'w> {
    receipts: Vec<Receipt>,
    work: &'w Execution<'a>,
}

impl Job for Finish<'_, '_> {
    type Done = Converted;
    fn run(self, plan: &PartPlan<'_>, files: &impl NewFiles) -> Result<Converted, Error> {
        plan.finish(&self.receipts, files, self.work)
    }
}

/// The plan's id, the path of the file that appears last, and for each part its path, number of tensors and number of bytes.
type Described = (String, OsString, Vec<(OsString, usize, u64)>);

#[pymethods]
impl Plan {
    #[new]
    fn new(
        py: Python<'_>,
        model: &Model,
        path: PathBuf,
        format: &str,
        given: &Bound<'_, PyDict>,
        opening: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let target = target(py, format)?;
        let mut options = options(given)?;
        target.set_in(&mut options);
        // With a part size, a file becomes a set.
        let is_split = options.output.is_split();
        let format = target.format.sharded().filter(|_| is_split).unwrap_or(target.format);
        let place = Place::new(py, path, Opening::new(opening)?.allowed)?;
        Ok(Self(Arc::new(Planned { model: Arc::clone(model.model()), place, format, options })))
    }

    fn describe(&self, py: Python<'_>) -> PyResult<Described> {
        let planned = Arc::clone(&self.0);
        let described = work::run(py, None, &Progress::none(), move |_| {
            let plan = planned.plan()?;
            let path = |name: &str| OsString::from(planned.place.written(Path::new(name)));
            let parts = plan.parts().iter();
            let parts = parts.map(|part| (path(&part.path), part.tensors.len(), part.nbytes)).collect();
            Ok((plan.id(), path(plan.index_name()), parts))
        })?;
        described.map_err(|error: Error| raise(py, &error))
    }

    /// Checks that the set can be written, before any part is.
    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        let planned = Arc::clone(&self.0);
        let begun = work::run(py, None, &Progress::none(), move |_| {
            planned.run(0, planned.options.output.overwrite, Begin)
        })?;
        begun.map_err(|error| raise(py, &error))
    }

    /// Writes a part, and replaces one that a killed worker has left. Returns its receipt.
    #[pyo3(signature = (number, nbytes, threads, progress))]
    fn write(
        &self,
        py: Python<'_>,
        number: usize,
        nbytes: u64,
        threads: Option<usize>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let planned = Arc::clone(&self.0);
        let progress = Progress { callback: progress, total: nbytes };
        let receipt = work::run(py, threads, &progress, move |work| {
            planned.run(nbytes, Overwrite::Replace, Write { number, work })
        })?;
        let receipt = receipt.map_err(|error| raise(py, &error))?;
        progress.finish()?;
        Ok(receipt.to_string())
    }

    /// Writes the remaining files when all parts are there.
    #[pyo3(signature = (receipts, threads, progress))]
    fn finish<'py>(
        &self,
        py: Python<'py>,
        receipts: Vec<String>,
        threads: Option<usize>,
        progress: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let receipts = receipts.iter().map(|text| text.parse::<Receipt>());
        let receipts = receipts.collect::<Result<Vec<_>, ParseError>>();
        let receipts = receipts.map_err(|error| refuse(py, "usage", &error.to_string()))?;
        let planned = Arc::clone(&self.0);
        let progress = Progress { callback: progress, total: 0 };
        let done = work::run(py, threads, &progress, move |work| {
            planned.run(0, Overwrite::Replace, Finish { receipts, work })
        })?;
        let done = done.map_err(|error| raise(py, &error))?;
        answer(py, &done, &self.0.place)
    }
}
