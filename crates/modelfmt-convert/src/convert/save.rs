//! Writes tensors that are in memory, or whose values the caller supplies, to a file of any format.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use modelfmt_core::value::Object;
use modelfmt_core::{Execution, View};
use modelfmt_write::{AnyWriteError, InputFiles, NewFiles, Output as _, Sink, TensorData, TensorSpec, Views};

use super::check;
use super::nbytes_of;
use super::output::guard::OutputGuard;
use super::output::{self, write};
use super::output::{Recorded, WrittenFile};
use modelfmt_metadata::mapper::Mapper;
use modelfmt_metadata::names;
use modelfmt_metadata::source::Content;
use modelfmt_model::error::{Error, Result};
use modelfmt_model::formats::Format;
use modelfmt_model::formats::capabilities::Access;
use modelfmt_model::formats::entry::{Job, JobError, Write};
use modelfmt_model::job::tensors::{Item, Origin, OutputTensors, Shape};
use modelfmt_rules::options::rules::TypeRule;
use modelfmt_rules::options::{ConvertOptions, Declared};
use modelfmt_rules::wording::Choice;

/// Writes tensors that are in memory to a new file. The extension of the file name chooses the format.
///
/// The file appears when it is complete. An existing file is not replaced. Required keys that `metadata`
/// lacks are filled in as in a [`Conversion`](crate::Conversion): the name from the file name, and `unknown`
/// for the architecture.
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
/// [`Error::Usage`] if no writable format has this extension; otherwise the errors of [`save_as`].
pub fn save<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (impl Into<Cow<'a, str>>, View<'a>)>,
    metadata: &Object,
) -> Result<()> {
    let path = path.as_ref();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match Format::for_output(&name) {
        Some(format) => save_as(format, path, tensors, metadata),
        None => {
            let why =
                format!("the ending of {name:?} names no format that is written; save_as takes a format");
            Err(Error::usage(Choice::Output, why))
        }
    }
}

/// Writes tensors that are in memory to a new file, in a format of your choice. For a set, `path` is the path of its index.
///
/// # Errors
/// [`Error::Usage`] for a format that is only read; [`Error::NotEnabled`] for a format that is not enabled; [`Error::Unsupported`]
/// for metadata that the format cannot hold; [`Error::Refused`] for tensors that it cannot hold; [`Error::Exists`] and
/// [`Error::Write`] if the file cannot be written.
pub fn save_as<'a>(
    format: Format,
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (impl Into<Cow<'a, str>>, View<'a>)>,
    metadata: &Object,
) -> Result<()> {
    let views: Views<'a> = tensors.into_iter().collect();
    let options = ConvertOptions::default();
    Saving::new(format, path.as_ref(), views.specs(), metadata, &options)?
        .write(&views, &Execution::default())
}

/// Tensors whose values you supply, with metadata, checked against a format. Nothing is written yet. Unlike
/// [`save_as`], this lets you set the layout, and what happens to an existing file.
///
/// ```
/// use modelfmt::convert::Saving;
/// use modelfmt::modelfmt_write::TensorSpec;
/// use modelfmt::{DType, Execution, Format, Object};
/// use modelfmt::convert::{ConvertOptions, Overwrite};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.aero");
/// let mut options = ConvertOptions::default();
/// options.output.overwrite = Overwrite::Replace;
/// options.aero.tensor_hashes = true;
/// let specs = [TensorSpec::new("w", DType::U8, vec![3])];
/// let saving = Saving::new(Format::Aero, &path, specs, &Object::new(), &options)?;
/// saving.write(&[[1u8, 2, 3]], &Execution::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Saving<'p> {
    format: Format,
    path: &'p Path,
    tensors: OutputTensors,
    metadata: modelfmt_model::job::metadata::Metadata,
    options: &'p ConvertOptions,
}

impl std::fmt::Debug for Saving<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Saving({}, {} tensors, {})", self.format, self.tensors.items.len(), self.path.display())
    }
}

impl<'p> Saving<'p> {
    /// Checks the tensors and the metadata. With
    /// [`OutputOptions::shard_size`](super::OutputOptions::shard_size), APR2 and safetensors are written as
    /// sets. Options that change values or select tensors apply only to models that are read, and are refused
    /// here.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the format cannot hold the tensors or the metadata; [`Error::Usage`] for options that the format
    /// does not support.
    pub fn new<'a>(
        format: Format,
        path: &'p Path,
        specs: impl IntoIterator<Item = TensorSpec<'a>>,
        metadata: &Object,
        options: &'p ConvertOptions,
    ) -> Result<Self> {
        let format = format.sharded().filter(|_| options.output.is_split()).unwrap_or(format);
        let version = options.output.version.as_deref();
        let Some(target) = format.capabilities_of(version) else {
            return Err(Error::usage(Choice::Target, format.unwritten(version).to_string()));
        };
        if let Access::ReadOnly(instead) = target.access {
            return Err(write::never(format, instead));
        }
        if options.output.hub_folder {
            let why = "a folder of the hub is made of a GGUF, not of tensors that are given";
            return Err(Error::usage(Choice::Target, why));
        }
        if let Some(choice) = of_a_model(options) {
            return Err(Error::usage(
                choice,
                "is for a model that is converted, not for tensors that are given",
            ));
        }
        check::check(options, format)?;
        if !format.is_enabled() {
            return Err(Error::NotEnabled { path: path.to_owned(), format, feature: format.feature() });
        }
        let tensors = described(specs);
        let mapper = Mapper { target, options, stem: names::stem(path) };
        let mut metadata = mapper.map(Content::new(format, metadata.clone()), &tensors);
        let unsupported = std::mem::take(&mut metadata.losses);
        if !unsupported.is_empty() {
            return Err(Error::Unsupported { path: path.to_owned(), target: format, unsupported });
        }
        Ok(Self { format, path, tensors, metadata, options })
    }

    /// Returns the format that is written. With a shard size, it is the sharded form of the requested format.
    #[must_use]
    pub const fn target(&self) -> Format {
        self.format
    }

    /// Returns the options.
    #[must_use]
    pub const fn options(&self) -> &ConvertOptions {
        self.options
    }

    /// Returns the total length in bytes of all tensors.
    #[must_use]
    pub fn nbytes(&self) -> u64 {
        let tied = BTreeMap::new();
        self.job(&tied).specs().map(|spec| nbytes_of(&spec)).fold(0, u64::saturating_add)
    }

    const fn job<'a>(&'a self, tied: &'a BTreeMap<usize, usize>) -> Job<'a> {
        let Self { tensors, metadata, options, .. } = self;
        Job { source: None, tensors, metadata, options, tied }
    }

    /// Writes the file, or the set with this index. `data` supplies the values of the tensors, in the order
    /// of their descriptions.
    ///
    /// # Errors
    /// [`Error::Refused`] for tensors that the format cannot hold; [`Error::Exists`] and [`Error::Write`] if a file cannot be
    /// written.
    pub fn write(&self, data: &dyn TensorData, work: &Execution<'_>) -> Result<()> {
        let index = output::file_name(self.format, self.path)?;
        let index = index.map(|name| self.first_file(name)).transpose()?;
        let mut out = self.path.to_owned();
        index.iter().for_each(|name| out.set_file_name(name));
        let inputs = InputFiles::new(self.options.output.inputs.iter().cloned());
        let guard = OutputGuard::new(&out, self.options.output.overwrite, inputs).of_target(self.format)?;
        let failed =
            |source| write::failed(&out, AnyWriteError::Write { path: out.display().to_string(), source });
        match &index {
            None => {
                let file = guard.create().map_err(failed)?;
                self.write_to_sink(data, &file, work)?;
                file.commit().map_err(failed)
            }
            Some(name) => {
                let files = self.write_set(data, name, &guard.files(), work)?;
                guard.remove_stale(&files);
                Ok(())
            }
        }
    }

    /// Writes a single-file target into a sink.
    ///
    /// # Errors
    /// If a value cannot be read, or the sink fails; [`Error::Usage`] for a target of several files.
    pub fn write_to_sink(&self, data: &dyn TensorData, sink: &dyn Sink, work: &Execution<'_>) -> Result<()> {
        match write::writer(self.format) {
            Some(Write::File(write)) => {
                let tied = BTreeMap::new();
                write(&self.job(&tied), data, sink, work).map_err(|error| self.failed(error))
            }
            Some(Write::Set(_)) => {
                let why = format!("{} is several files, and a stream takes one", self.format);
                Err(Error::usage(Choice::Target, why))
            }
            _ => Err(self.failed(write::not_here(self.format))),
        }
    }

    /// Writes a target of several files, and returns them. `name` is the name of the index, or the name that
    /// it is made from, as in [`ConversionPlan::write_to_files`](super::ConversionPlan::write_to_files).
    ///
    /// # Errors
    /// If a value cannot be read, or a file cannot be written; [`Error::Usage`] for a single-file target, or a name that its index
    /// cannot have.
    pub fn write_to_files(
        &self,
        data: &dyn TensorData,
        name: &str,
        files: &impl NewFiles,
        work: &Execution<'_>,
    ) -> Result<Vec<WrittenFile>> {
        if !self.format.is_set() {
            return Err(Error::usage(Choice::Target, format!("{} is one file", self.format)));
        }
        self.write_set(data, &self.index_name(name)?, files, work)
    }

    /// Returns the name of the file that opens a set. See
    /// [`ConversionPlan::index_name`](super::ConversionPlan::index_name).
    ///
    /// # Errors
    /// [`Error::Usage`] for a name that this file cannot have.
    pub fn index_name(&self, name: &str) -> Result<String> {
        self.first_file(output::index_name(self.format, name)?)
    }

    fn first_file(&self, name: String) -> Result<String> {
        let tied = BTreeMap::new();
        write::first_file(&self.job(&tied), self.format, name).map_err(|error| self.failed(error))
    }

    fn write_set(
        &self,
        data: &dyn TensorData,
        name: &str,
        files: &impl NewFiles,
        work: &Execution<'_>,
    ) -> Result<Vec<WrittenFile>> {
        let Some(Write::Set(plan)) = write::writer(self.format) else {
            return Err(self.failed(write::not_here(self.format)));
        };
        let tied = BTreeMap::new();
        let nothing_else = || Ok(());
        let recorded = Recorded::new(files, name, &nothing_else);
        let plan = plan(&self.job(&tied), name).map_err(|error| self.failed(error))?;
        plan.write(data, &&recorded, work).map_err(|error| self.failed(JobError::Write(error)))?;
        Ok(recorded.into_files())
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

/// Returns an option that is set although it selects or changes tensors, which is invalid for supplied
/// tensors.
fn of_a_model(options: &ConvertOptions) -> Option<Choice> {
    let choices = [
        (Choice::Include, options.tensors.include.is_empty()),
        (Choice::Exclude, options.tensors.exclude.is_empty()),
        (Choice::Rename, options.tensors.rename.is_empty()),
        (Choice::Dedupe, !options.aero.dedupe),
        (Choice::Declare, options.oinf.declare.is_empty()),
        (Choice::Shards, options.output.shards.is_none()),
    ];
    let rule = options.types.rules.first().map(TypeRule::choice);
    rule.or_else(|| choices.into_iter().find(|(_, is_empty)| !is_empty).map(|(choice, _)| choice))
}

/// Returns the given tensors, without any change.
fn described<'a>(specs: impl IntoIterator<Item = TensorSpec<'a>>) -> OutputTensors {
    let mut tensors = OutputTensors::default();
    for (number, spec) in specs.into_iter().enumerate() {
        let (from, to) = (spec.dtype, spec.dtype);
        let origin = if spec.has_data { Origin::Given(number) } else { Origin::Declared(number) };
        tensors.items.push(Item { origin, from, to, shape: Shape::Same, scaling: None });
        let (name, shape) = (spec.name.into_owned(), spec.shape.into_owned());
        tensors.declared.push(Declared { name, dtype: from, shape });
    }
    tensors
}
