//! The builder of a conversion.

use std::borrow::Cow;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use modelfmt_core::value::Object;
use modelfmt_core::{DType, Execution};
use modelfmt_write::{NewFiles, Overwrite, Sink};

use super::{ConversionPlan, Converted};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::formats::{Format, Target};
use modelfmt_model::model::Model;
use modelfmt_rules::options::rename::RenameRule;
use modelfmt_rules::options::rules::{Quantization, TypeRule};
use modelfmt_rules::options::{AeroOptions, Apr2Options, ConvertOptions, MagOptions, OinfOptions};
use modelfmt_rules::wording::Choice;

/// A conversion of a model: what to write, where, and with which options.
///
/// Nothing is read or written before you call [`write`](Self::write), [`write_to_sink`](Self::write_to_sink) or another method at
/// the end of the chain. You can set options one by one, or all of them as [`ConvertOptions`].
///
/// ```
/// use modelfmt::{Conversion, DType, Format, Model, View};
///
/// # let folder = tempfile::tempdir()?;
/// # let (path, out) = (folder.path().join("m.safetensors"), folder.path().join("m.mag"));
/// modelfmt::save(&path, [("w", View::new(&[1.0f32, 2.0], [2])?), ("old.w", View::new(&[0.0f32], [1])?)], &Default::default())?;
/// let model = Model::open(&path)?;
/// let converted = Conversion::new(&model, &out).exclude("old.*").cast(DType::F16).write()?; // "m.mag": the ending chooses the format
/// assert_eq!((converted.format, converted.tensors), (Format::Mag, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is converted before `write` or another method at the end of the chain"]
pub struct Conversion<'a> {
    model: &'a Model,
    out: Option<PathBuf>,
    target: Option<Target>,
    options: Cow<'a, ConvertOptions>,
    execution: Execution<'a>,
}

impl<'a> Conversion<'a> {
    /// Converts a model into the file `out`, or into a set whose index is `out`. The extension of its name chooses the format;
    /// [`to`](Self::to) chooses another.
    pub fn new(model: &'a Model, out: impl AsRef<Path>) -> Self {
        Self { out: Some(out.as_ref().to_owned()), ..Self::of(model, None) }
    }

    /// Converts a model into a format. Use this with [`write_to_sink`](Self::write_to_sink),
    /// [`write_to_files`](Self::write_to_files) and [`plan`](Self::plan), which need no path.
    pub fn to_format(model: &'a Model, target: impl Into<Target>) -> Self {
        Self::of(model, Some(target.into()))
    }

    fn of(model: &'a Model, target: Option<Target>) -> Self {
        Self {
            model,
            out: None,
            target,
            options: Cow::Owned(ConvertOptions::default()),
            execution: Execution::default(),
        }
    }

    /// Sets the format to write, and optionally its version. With [`shard_size`](Self::shard_size), APR2, safetensors and GGUF are
    /// written as sets.
    pub fn to(mut self, target: impl Into<Target>) -> Self {
        self.target = Some(target.into());
        self
    }

    /// Sets all options at once. This replaces options that were set before.
    pub fn options(mut self, options: &'a ConvertOptions) -> Self {
        self.options = Cow::Borrowed(options);
        self
    }

    /// Changes the options that have no method here.
    pub fn with(mut self, change: impl FnOnce(&mut ConvertOptions)) -> Self {
        change(self.options.to_mut());
        self
    }

    /// Sets the number of threads and the progress callback. The default is up to 8 threads, without a callback.
    pub const fn execution(mut self, execution: &Execution<'a>) -> Self {
        self.execution = *execution;
        self
    }

    /// Writes only tensors whose names match this glob, or one from an earlier call.
    pub fn include(self, glob: impl Into<String>) -> Self {
        self.with(|options| options.tensors.include.push(glob.into()))
    }

    /// Leaves out tensors whose names match this glob.
    pub fn exclude(self, glob: impl Into<String>) -> Self {
        self.with(|options| options.tensors.exclude.push(glob.into()))
    }

    /// Renames tensors.
    pub fn rename(self, rule: RenameRule) -> Self {
        self.with(|options| options.tensors.rename.push(rule))
    }

    /// Casts all floats to a dtype.
    pub fn cast(self, to: DType) -> Self {
        self.rule(TypeRule::cast(to))
    }

    /// Quantizes all tensors that can be quantized, to a block dtype or by a preset.
    pub fn quantize(self, to: impl Into<Quantization>) -> Self {
        self.rule(TypeRule::quantize(to))
    }

    /// Decodes blocks and applies scales.
    pub fn dequantize(self, to: DType) -> Self {
        self.rule(TypeRule::dequantize(to))
    }

    /// Adds a type rule. For each tensor the last rule that matches it decides.
    pub fn rule(self, rule: TypeRule) -> Self {
        self.with(|options| options.types.rules.push(rule))
    }

    /// Changes dtypes that the target lacks to larger ones that hold every value.
    pub fn widen(self) -> Self {
        self.with(|options| options.types.widen = true)
    }

    /// Sets metadata: each top-level key replaces the same key of the target's metadata.
    pub fn metadata(self, metadata: Object) -> Self {
        self.with(|options| options.metadata.set = Some(metadata))
    }

    /// Drops metadata that the target cannot hold; [`Converted::dropped`] lists it.
    pub fn lossy(self) -> Self {
        self.with(|options| options.metadata.lossy = true)
    }

    /// Writes metadata as JSON text where the target holds only text.
    pub fn stringify(self) -> Self {
        self.with(|options| options.metadata.stringify = true)
    }

    /// Sets the maximum size in bytes of a file, or of a weight shard in AERO.
    pub fn shard_size(self, nbytes: u64) -> Self {
        self.with(|options| options.output.shard_size = Some(nbytes))
    }

    /// Writes a set of this many files, which are about equally large, instead of one with a [maximum size](Self::shard_size).
    pub fn shards(self, count: NonZero<u32>) -> Self {
        self.with(|options| options.output.shards = Some(count))
    }

    /// Replaces existing files. Without this option, an existing file is an error.
    pub fn replace(self) -> Self {
        self.with(|options| options.output.overwrite = Overwrite::Replace)
    }

    /// Sets the options for AERO alone.
    pub fn aero(self, aero: AeroOptions) -> Self {
        self.with(|options| options.aero = aero)
    }

    /// Sets the options for APR2 alone.
    pub fn apr2(self, apr2: Apr2Options) -> Self {
        self.with(|options| options.apr2 = apr2)
    }

    /// Sets the options for MAG alone.
    pub fn mag(self, mag: MagOptions) -> Self {
        self.with(|options| options.mag = mag)
    }

    /// Sets the options for OINF alone.
    pub fn oinf(self, oinf: OinfOptions) -> Self {
        self.with(|options| options.oinf = oinf)
    }

    /// Returns the model that is converted.
    #[must_use]
    pub const fn model(&self) -> &'a Model {
        self.model
    }

    /// Returns the options that were set.
    #[must_use]
    pub fn chosen(&self) -> &ConvertOptions {
        &self.options
    }

    /// Returns the execution that was set.
    #[must_use]
    pub const fn chosen_execution(&self) -> Execution<'a> {
        self.execution
    }

    /// Selects the tensors, their dtypes and the metadata, and checks everything. Nothing is written. The
    /// plan describes the output and can write it; several processes can each write a part.
    ///
    /// # Errors
    /// [`Error::Usage`] for options that are invalid for the target, or if the target format is unknown;
    /// [`Error::Unsupported`] for anything that the target cannot hold; [`Error::NotEnabled`] for a target
    /// that this build cannot write.
    pub fn plan(self) -> Result<ConversionPlan<'a>> {
        let format = self.format()?;
        let mut options = self.options;
        if let Some(target) = self.target.filter(|target| target.version.is_some() || target.is_hub_folder) {
            target.set_in(options.to_mut());
        }
        ConversionPlan::new(self.model, format, options)
    }

    fn format(&self) -> Result<Format> {
        if let Some(target) = &self.target {
            return Ok(target.format);
        }
        let name = self.out.as_deref().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        Format::for_output(&name).ok_or_else(|| {
            let why =
                format!("the ending of {name:?} names no format that is written; Conversion::to takes one");
            Error::usage(Choice::Output, why)
        })
    }

    /// Writes the file or the set. Files appear when they are complete; after an error nothing is left behind. Memory does not
    /// depend on the size of the model. Input files are never replaced, under whatever name.
    ///
    /// # Errors
    /// The errors of [`plan`](Self::plan); [`Error::Usage`] without a path ([`to_format`](Self::to_format));
    /// [`Error::Values`] for values that cannot be converted; [`Error::Exists`] and others if a file cannot
    /// be read or written.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn write(self) -> Result<Converted> {
        let (out, execution) = (self.path()?, self.execution);
        self.plan()?.write(out, &execution)
    }

    /// Does everything that [`write`](Self::write) does, but writes nothing. Values are read, checked and converted, so it fails
    /// where `write` would fail, except for faults of the disk.
    ///
    /// # Errors
    /// The errors of [`write`](Self::write).
    #[cfg(not(target_arch = "wasm32"))]
    pub fn dry_run(self) -> Result<Converted> {
        let (out, execution) = (self.path()?, self.execution);
        self.plan()?.dry_run(out, &execution)
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn path(&self) -> Result<PathBuf> {
        let nowhere = || Error::usage(Choice::Output, "no file is named; Conversion::new takes its path");
        self.out.clone().ok_or_else(nowhere)
    }

    /// Writes a single-file target into a sink.
    ///
    /// # Errors
    /// The errors of [`plan`](Self::plan), or an error if the model cannot be read or the sink fails. The
    /// caller then discards what was written to the sink.
    pub fn write_to_sink(self, sink: &dyn Sink) -> Result<Converted> {
        let execution = self.execution;
        self.plan()?.write_to_sink(sink, &execution)
    }

    /// Writes a set into files that you supply. `name` is the name of its index.
    ///
    /// # Errors
    /// The errors of [`plan`](Self::plan), or an error if the model cannot be read or a file cannot be
    /// written.
    pub fn write_to_files(self, name: &str, files: &impl NewFiles) -> Result<Converted> {
        let execution = self.execution;
        self.plan()?.write_to_files(name, files, &execution)
    }
}
