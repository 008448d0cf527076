//! Tensors that are in memory become a file of any format.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use modelfmt_core::value::Object;
use modelfmt_core::write::{AnyWriteError, InputFiles, Output as _, Overwrite, Views};
use modelfmt_core::{Execution, View};

use super::chosen::{Item, Origin, Shape, Tensors};
use super::guard::Guard;
use super::metadata::Mapper;
use super::options::{ConvertOptions, Declared};
use super::source::Content;
use super::{names, output, write};
use crate::choice::Choice;
use crate::error::{Error, Result};
use crate::formats::Format;
use crate::formats::capabilities::Access;
use crate::formats::entry::{Job, JobError, Write};

/// Writes tensors that are in memory to a new file, in the format that the ending of its name asks for.
///
/// The file appears when it is complete. A file that exists is not replaced. What the format asks for and `metadata` does not
/// have is filled in as [`convert`](crate::convert()) does: a name after the file, `unknown` for the architecture.
///
/// ```
/// use modelfmt::{Model, Object, View};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// let metadata = Object::from_iter([("license", "MIT")]);
/// modelfmt::save(&path, [("w", View::new(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?)], &metadata)?;
/// assert_eq!(Model::open(&path)?.tensor("w")?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Usage`] if no format that is written has this ending; as [`save_as`].
pub fn save<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (impl Into<Cow<'a, str>>, View<'a>)>,
    metadata: &Object,
) -> Result<()> {
    let path = path.as_ref();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match Format::of_output(&name) {
        Some(format) => save_as(format, path, tensors, metadata),
        None => {
            let why =
                format!("the ending of {name:?} names no format that is written; save_as takes a format");
            Err(Error::usage(Choice::Output, why))
        }
    }
}

/// As [`save`], in a format of your choice; of a set, `path` is that of its index.
///
/// # Errors
/// [`Error::Usage`] for a format that is only read, [`Error::NotEnabled`] for one that is switched off, [`Error::Unsupported`]
/// for metadata that the format cannot hold, [`Error::Refused`] for tensors that it cannot hold, [`Error::Exists`],
/// [`Error::Write`].
pub fn save_as<'a>(
    format: Format,
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (impl Into<Cow<'a, str>>, View<'a>)>,
    metadata: &Object,
) -> Result<()> {
    let views: Views<'a> = tensors.into_iter().collect();
    Saved::new(format, path.as_ref(), &views, metadata)?.write(&views)
}

/// Tensors in memory and their metadata, in the terms of a format.
struct Saved<'p> {
    format: Format,
    path: &'p Path,
    tensors: Tensors,
    metadata: super::mapped::Metadata,
    options: ConvertOptions,
}

impl<'p> Saved<'p> {
    fn new(format: Format, path: &'p Path, views: &Views<'_>, metadata: &Object) -> Result<Self> {
        let target = format.capabilities();
        if let Access::ReadOnly(instead) = target.access {
            return Err(write::never(format, instead));
        }
        if !format.is_enabled() {
            return Err(Error::NotEnabled { path: path.to_owned(), format, feature: format.feature() });
        }
        let (options, tensors) = (ConvertOptions::default(), given(views));
        let mapper = Mapper { target, options: &options, stem: names::stem(path) };
        let mut metadata = mapper.map(Content::new(format, metadata.clone()), &tensors);
        let unsupported = std::mem::take(&mut metadata.losses);
        if !unsupported.is_empty() {
            return Err(Error::Unsupported { path: path.to_owned(), target: format, unsupported });
        }
        Ok(Self { format, path, tensors, metadata, options })
    }

    fn write(&self, views: &Views<'_>) -> Result<()> {
        let (tied, work) = (BTreeMap::new(), Execution::default());
        let Self { tensors, metadata, options, .. } = self;
        let job = Job { source: None, tensors, metadata, options, tied: &tied };
        let index = output::file_name(self.format, self.path)?;
        let mut out = self.path.to_owned();
        index.iter().for_each(|name| out.set_file_name(name));
        let guard = Guard::new(&out, Overwrite::Refuse, InputFiles::default());
        let failed =
            |source| write::failed(&out, AnyWriteError::Write { path: out.display().to_string(), source });
        match (write::writer(self.format), &index) {
            (Some(Write::File(write)), _) => {
                let file = guard.create().map_err(failed)?;
                write(&job, views, &file, &work).map_err(|error| self.failed(error))?;
                file.commit().map_err(failed)
            }
            (Some(Write::Set(write)), Some(name)) => {
                write(&job, views, name, &guard.files(), &work).map_err(|error| self.failed(error))
            }
            _ => Err(self.failed(write::not_here(self.format))),
        }
    }

    fn failed(&self, error: JobError) -> Error {
        match error {
            JobError::Read(error) => Error::file(self.path.to_owned(), error),
            JobError::Write(error) => {
                let folder = self.path.parent().unwrap_or(Path::new(""));
                write::failed(self.path, output::within(folder, error))
            }
        }
    }
}

/// Every tensor in memory as it is.
fn given(views: &Views<'_>) -> Tensors {
    let mut tensors = Tensors::default();
    for (number, spec) in views.specs().enumerate() {
        let (from, to) = (spec.dtype, spec.dtype);
        tensors.items.push(Item {
            origin: Origin::Given(number),
            from,
            to,
            shape: Shape::Same,
            scaling: None,
        });
        let (name, shape) = (spec.name.to_string(), spec.shape.to_vec());
        tensors.declared.push(Declared { name, dtype: from, shape });
    }
    tensors
}
