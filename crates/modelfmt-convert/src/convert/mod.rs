//! Converts a model to another format: tensors bit for bit, or in another dtype if you ask for it, and metadata as far as the
//! target can hold it. Nothing is lost silently.
//!
//! ```no_run
//! use modelfmt::{Conversion, DType, Model};
//!
//! let model = Model::open("tiny.safetensors")?;
//! let converted = Conversion::new(&model, "tiny.mag").cast(DType::F16).write()?;
//! converted.notes.iter().for_each(|note| eprintln!("note: {note}"));
//! # Ok::<(), modelfmt::Error>(())
//! ```
//!
//! If something does not fit, the error is an [`Error::Unsupported`] that lists every item and the option that would resolve it.
//! [`Format::capabilities`] says what each format can hold.
//!
//! # Rules of types
//!
//! [`TypeOptions::rules`] is one ordered list. For each tensor the last rule that matches it decides, so general rules go first:
//! `quantize q4_k`, then `cast *embed*=f16`. Rules look at the dtypes in the source, and never at the result of another rule.
//!
//! A rule without a glob matches the tensors that it can change: a cast matches floats, `dequantize` matches blocks and weights
//! with scales, `quantize` matches floats of rank 2 and more whose rows are whole blocks, and a preset matches the tensors for
//! which it chooses a dtype. A rule with a glob matches the tensors whose names match the glob, and is refused if it cannot change
//! one of them, such as a cast of blocks or `quantize` of a vector. Only `dequantize` leaves floats with matching names as they
//! are. It is an error if a rule matches no tensor or finds nothing to change ([`Error::NoMatch`], [`Error::IdleRule`]), and a
//! [`Warning`] if later rules decide each of its tensors.
//!
//! # Casts
//!
//! `cast` changes floats; it changes integers and booleans only if the glob of a rule matches their names. `quantize` to f32, f16
//! or bf16 is a cast, too. A number is rounded once: to the nearest if the target is a float, toward zero if it is an integer. A
//! number beyond the range of a float becomes an infinity; beyond the range of an integer it becomes the end of the range.
//! [`Converted::clipped`] lists the tensors with such values, and those with more than 1 % of their values changed to 0. Small
//! floats without infinities have a NaN or their largest number instead, as [`SmallType`](modelfmt_core::SmallType) says. A NaN
//! cannot become an integer, a boolean or a float of 6 or 4 bits; this is an error that names the tensor and the element. Booleans
//! are 0 and 1, and every number but zero becomes true.
//!
//! # Scales
//!
//! Checkpoints in small floats (FP8, MXFP4) have weights whose numbers need the scales in another tensor: one
//! scale for the whole weight, one for each row, or one for each block. `dequantize` multiplies numbers and
//! scales in f32, rounds the product to the requested dtype, and does not write scales that no other weight
//! needs. A cast of such a weight is refused, because its values would change. A rule without a glob that
//! casts or quantizes does not match a weight that another rule dequantizes.
//!
//! The scales of `a.weight` are `a.weight_scale_inv`, `a.weight_scale`, `a.scale_weight`, `a.qscale_weight`
//! or `a.scale`. For a weight with another kind of name, `_scale_inv` or `_scale` is appended to the name.
//! [`TypeOptions::scales`] adds other names. The block size is `weight_block_size` in the metadata or in a
//! config.json next to the file. Without it, a dimension is divided into blocks of 128 if that gives the
//! right number of scales, otherwise into equal blocks, one for each scale. If neither fits, the weight is
//! refused, and so is a weight without known scales.
//!
//! # Schemes
//!
//! Quantized checkpoints (GPTQ, AWQ, compressed-tensors, NVFP4, MXFP4, bitsandbytes) store a weight as
//! several tensors. `dequantize` makes one tensor of them: it applies the scheme's formula in f32 and rounds
//! once to the requested dtype. The tensor has the name of the weight, and globs match this name.
//! `docs/formats/conversion.md` of the repository lists the schemes.
//!
//! Scales and zero points that the file itself has for a tensor (OINF 2) are kept if the target can hold
//! them: in OINF 2, and under the reserved key of formats with JSON. In other formats they are listed as a
//! loss. `dequantize` computes scale × (number − zero point) for each number in f64, and rounds it once to
//! the requested dtype. A wider dtype holds the same numbers, so the scales stay valid; any other cast of
//! such a tensor is refused.
//!
//! # Presets
//!
//! `quantize` with a [`Preset`] gives each tensor the dtype that llama.cpp gives it without an importance
//! matrix: more bits for the output, for some layers and for sensitive tensors, another dtype if rows are not
//! whole blocks of 256, and f16 if they are not whole blocks of 32 either. Norms, vectors, positions and
//! small tensors stay as they are. Tensors are recognized by their GGUF or Hugging Face names. A matrix with
//! an unknown name gets the dtype of most tensors, and a model without any known name is refused. The numbers
//! of layers and experts are taken from the tensors. The architecture (from the source, or from a config.json
//! next to it) may be missing, because only few architectures have rules of their own. `docs/PRESETS.md` of
//! the repository has all rules.

mod builder;
mod check;
mod converted;
mod hub_dtype;
#[cfg(not(target_arch = "wasm32"))]
mod hub_files;
#[cfg(not(target_arch = "wasm32"))]
mod imatrix;
#[cfg(not(target_arch = "wasm32"))]
mod option_files;
pub(crate) mod output;
mod parts;
mod programs;
mod same_format;
#[cfg(not(target_arch = "wasm32"))]
mod save;
pub(crate) mod schemes;
mod shards;
#[cfg(feature = "seal")]
mod signatures;
mod table;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod tensor_converter;
pub(crate) mod tensors;
pub(crate) mod values;
mod warnings;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use modelfmt_core::Execution;
pub use modelfmt_write::Overwrite;
use modelfmt_write::{AnyWriteError, NewFiles, Sink, TensorSpec};
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_write::{Discard, InputFiles};

pub use builder::Conversion;
pub use converted::{Converted, TypeChanged};
#[cfg(all(feature = "gguf", not(target_arch = "wasm32")))]
pub use modelfmt_derived::{as_gguf, mapped};
#[cfg(all(feature = "gguf", not(target_arch = "wasm32")))]
pub use modelfmt_hub::back::file_names as files_in_gguf;
#[cfg(all(feature = "gguf", not(target_arch = "wasm32")))]
pub use modelfmt_hub::maps::help as help_of_maps;
pub use modelfmt_metadata::flattened::MetadataDiff;
pub use modelfmt_model::formats::capabilities::{
    Access, Alignments, Blocks, Capabilities, Contents, Metadata, MetadataSchema, Names, PinKind, Properties,
    SetNaming,
};
#[cfg(not(target_arch = "wasm32"))]
pub use modelfmt_model::hub_names::{ABOUT_WEIGHTS, READ_BESIDE};
pub use modelfmt_rules::options::rename::RenameRule;
pub use modelfmt_rules::options::rules::{Quantization, TypeChange, TypeRule};
pub use modelfmt_rules::options::{
    AeroOptions, Apr2Options, Compression, ConvertOptions, Declared, LoraRule, MagChecksum, MagOptions,
    MetadataOptions, OinfOptions, OutputOptions, PAGE_SIZE, ScaleRule, TensorOptions, TypeOptions,
};
pub use modelfmt_rules::wording::unsupported::{Subject, Unsupported, UnsupportedGroup};
#[cfg(not(target_arch = "wasm32"))]
pub use option_files::named_files;
pub use output::WrittenFile;
#[cfg(not(target_arch = "wasm32"))]
pub use output::guard::{PartFiles, check_output, files_of_index};
pub use parts::receipt::Receipt;
pub use parts::{Part, PartPlan, PlannedPart};
pub use programs::{Programs, TensorProgram};
#[cfg(not(target_arch = "wasm32"))]
pub use save::{Saving, save, save_as};
pub use table::{OPTIONS, OptionInfo, Takes};
pub use values::clipped::Clipped;
pub use warnings::Warning;

pub use modelfmt_rules::presets::Preset;

use modelfmt_derived::{Derived, Restored};
use modelfmt_metadata::mapper::Mapper;
use modelfmt_metadata::source::Content;
use modelfmt_model::error::{Error, Result};
use modelfmt_model::formats::Format;
use modelfmt_model::formats::entry::{Job, JobError};
use modelfmt_model::job::tensors::{Item, Origin, OutputTensors};
use modelfmt_model::model::Model;
use modelfmt_rules::wording::Choice;
use modelfmt_rules::wording::{Note, Size};
#[cfg(not(target_arch = "wasm32"))]
use output::guard::OutputGuard;
use output::{Counted, Recorded};
use tensors::Chooser;
use tensors::tied::Tied;
use values::Values;

/// A conversion that is ready to write, from [`Conversion::plan`]. Everything is selected and checked, and nothing is written yet.
pub struct ConversionPlan<'a> {
    /// The model that is converted. For a GGUF that becomes a hub folder, the model that the family's map
    /// computes.
    model: Cow<'a, Model>,
    target: Format,
    options: Cow<'a, ConvertOptions>,
    tensors: OutputTensors,
    /// The tensors that share bytes in the target: the number of each, and the number of the tensor whose
    /// bytes it shares.
    tied: BTreeMap<usize, usize>,
    metadata: modelfmt_model::job::metadata::Metadata,
    notes: Vec<Note>,
    warnings: Vec<Warning>,
    dropped: Vec<Unsupported>,
    /// For a hub folder, the files next to the weights: name and bytes.
    #[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "there are no folders"))]
    beside: Vec<(String, Vec<u8>)>,
}

/// The fields of a `ConversionPlan` except its model.
struct PlanFields<'a> {
    options: Cow<'a, ConvertOptions>,
    tensors: OutputTensors,
    tied: BTreeMap<usize, usize>,
    metadata: modelfmt_model::job::metadata::Metadata,
    notes: Vec<Note>,
    warnings: Vec<Warning>,
    dropped: Vec<Unsupported>,
}

impl std::fmt::Debug for ConversionPlan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConversionPlan({:?} to {}, {} tensors)", self.model, self.target, self.tensors.items.len())
    }
}

impl<'a> ConversionPlan<'a> {
    /// Selects tensors, their dtypes and the metadata.
    fn new(model: &'a Model, target: Format, options: Cow<'a, ConvertOptions>) -> Result<Self> {
        if options.output.hub_folder {
            return Self::of_hub_folder(model, target, options);
        }
        let path = || model.path().to_owned();
        let target = target.sharded().filter(|_| options.output.is_split()).unwrap_or(target);
        let version = options.output.version.as_deref();
        let unwritten = || Error::usage(Choice::Target, target.unwritten(version).to_string());
        let extended = options.oinf.allow_extended_types;
        let capabilities = target.capabilities_with(version, extended).ok_or_else(unwritten)?;
        let never = match capabilities.access {
            Access::ReadWrite => None,
            Access::ReadOnly(instead) => Some(instead),
            Access::NoTensors(_) => Some(None),
        };
        if let Some(instead) = never {
            return Err(output::write::never(target, instead));
        }
        model.expect_tensors()?;
        check::check(&options, target)?;
        if !target.is_enabled() {
            return Err(Error::NotEnabled { path: path(), format: target, feature: target.feature() });
        }
        let takes = modelfmt_derived::takes(model, target, &options);
        let (model, mut own_notes) =
            schemes::decoded(model, target, capabilities, &options, takes.as_deref())?;
        let Derived { model, is_mapped, notes, .. } =
            modelfmt_derived::derived(model, target, takes.is_some(), &options)?;
        own_notes.extend(notes);
        let planned = Self::of(&model, target, capabilities, options)?;
        let PlanFields { options, tensors, tied, metadata, mut notes, mut warnings, dropped } = planned;
        notes.splice(0..0, own_notes);
        let is_adapter = metadata.keys.contains_key("adapter.type");
        if is_mapped && !is_adapter && !metadata.keys.contains_key("tokenizer.ggml.tokens") {
            warnings.push(Warning::NoTokenizer);
        }
        let beside = Vec::new();
        let mut made =
            Self { model, target, options, tensors, tied, metadata, notes, warnings, dropped, beside };
        made.choose_shard_size()?;
        made.notes.extend(made.larger_than_shards());
        Ok(made)
    }

    /// Selects the tensors, their dtypes and the metadata for the model that is written.
    fn of(
        model: &Model,
        target: Format,
        capabilities: &'static Capabilities,
        options: Cow<'a, ConvertOptions>,
    ) -> Result<PlanFields<'a>> {
        let path = || model.path().to_owned();
        let options = same_format::completed(model, target, options);
        let options = from_pickle(model, options);
        let content = Content::read_for(model, &options)?;
        #[cfg(all(feature = "apr", not(target_arch = "wasm32")))]
        let content = with_tokenizer(content, model, target);
        let choice = Chooser::new(model, capabilities, &options)?.choose(&content)?;
        let mapper = Mapper {
            target: capabilities,
            options: &options,
            stem: modelfmt_metadata::names::stem_of(model),
        };
        let mut metadata = mapper.map(content, &choice.tensors);
        metadata.losses.extend(choice.losses);
        let (mut unsupported, mut dropped) = (choice.unsupported, Vec::new());
        if options.metadata.lossy { &mut dropped } else { &mut unsupported }.append(&mut metadata.losses);
        let tied = Tied::of(model, &choice.tensors, target)?;
        let no_dedupe = options.aero.dedupe && !target.properties().shared_values;
        let no_dedupe = no_dedupe.then(|| {
            let why = format!("does nothing: in {target} no tensor shares the bytes of another");
            Note::of(&[Choice::Dedupe], why)
        });
        unsupported.extend(tied.unsupported(&options));
        if !unsupported.is_empty() {
            return Err(Error::Unsupported { path: path(), target, unsupported });
        }
        let notes = metadata.notes.drain(..).map(Note::from).chain(choice.notes);
        let notes = notes.chain(tied.notes().map(Note::from)).chain(no_dedupe);
        let notes = notes.chain(same_format::notes(model, target, &options));
        let is_text = capabilities.metadata == Metadata::Strings && is_from_pickle(model);
        let has_values = || metadata.keys.values().next().is_some();
        let as_text = (is_text && has_values()).then(|| {
            Note::from(format!("{target} holds text: numbers beside the tensors are written as text"))
        });
        let notes = notes.chain(as_text);
        #[cfg(feature = "seal")]
        let notes = notes.chain(signatures::note(model, target));
        let notes = notes.collect();
        let mut warnings = choice.warnings;
        let names = choice.tensors.items.iter().map(|item| choice.tensors.name(Some(model.opened()), item));
        #[cfg(not(target_arch = "wasm32"))]
        let has_config = model.sidecars().open("config.json").is_ok_and(|found| found.is_some());
        #[cfg(target_arch = "wasm32")]
        let has_config = false;
        warnings.extend(Warning::of_gguf(model.format(), target, names, (&metadata.keys, has_config)));
        let (tensors, tied) = (choice.tensors, tied.kept);
        Ok(PlanFields { options, tensors, tied, metadata, notes, warnings, dropped })
    }

    /// Plans the hub folder that a GGUF becomes.
    fn of_hub_folder(model: &'a Model, target: Format, options: Cow<'a, ConvertOptions>) -> Result<Self> {
        if target != Format::Safetensors {
            let why = format!("the weights of a folder of the hub are safetensors, not {target}");
            return Err(Error::usage(Choice::Target, why));
        }
        model.expect_tensors()?;
        let mut own = options.into_owned();
        let map = own.tensors.map.take();
        check::check(&own, target)?;
        own.tensors.map = map;
        let (model, Restored { files, losses, notes: mapping }) = modelfmt_derived::restored(model, &own)?;
        if !own.metadata.lossy && !losses.is_empty() {
            return Err(Error::Unsupported { path: model.path().to_owned(), target, unsupported: losses });
        }
        let (shard_size, shards) = (own.output.shard_size.take(), own.output.shards.take());
        let plan = |target: Format, options: ConvertOptions| {
            let planned = Self::of(&model, target, target.capabilities(), Cow::Owned(options))?;
            let PlanFields { options, tensors, tied, metadata, mut notes, warnings, mut dropped } = planned;
            notes.splice(0..0, mapping.iter().cloned());
            dropped.splice(0..0, losses.iter().cloned());
            let (model, beside) = (model.clone(), files.clone());
            Ok(Self { model, target, options, tensors, tied, metadata, notes, warnings, dropped, beside })
        };
        let casts = !own.types.rules.is_empty();
        let mut made = plan(target, own.clone())?;
        let is_split = shards.is_some() || shard_size.is_some_and(|most| made.nbytes() > most);
        if let Some(sharded) = target.sharded().filter(|_| is_split) {
            (own.output.shard_size, own.output.shards) = (shard_size, shards);
            made = plan(sharded, own)?;
            made.choose_shard_size()?;
            made.notes.extend(made.larger_than_shards());
        }
        if casts {
            let mut beside = std::mem::take(&mut made.beside);
            let note = hub_dtype::update_dtype(&mut beside, made.job().specs());
            made.notes.extend(note);
            made.beside = beside;
        }
        Ok(made)
    }

    /// Fails for a hub folder, which can be written only to a local folder.
    pub(super) fn expect_no_folder(&self) -> Result<()> {
        if !self.options.output.hub_folder {
            return Ok(());
        }
        let why = "a folder of the hub is written into a folder of this machine; name one";
        Err(Error::usage(Choice::Output, why))
    }

    /// Returns a note about tensors that are larger than the maximum size of a file.
    fn larger_than_shards(&self) -> Option<Note> {
        let most = self.options.output.shard_size?;
        let count = self.job().specs().filter(|spec| nbytes_of(spec) > most).count();
        let tensors = match count {
            0 => return None,
            1 => "1 tensor, which gets".to_owned(),
            count => format!("{count} tensors, each of which gets"),
        };
        let why = format!("is exceeded by {tensors} a shard of its own, because a tensor is never divided");
        Some(Note::of(&[Choice::ShardSize], why))
    }

    /// Returns the format that is written. With a shard size, it is the sharded form of the requested format.
    #[must_use]
    pub const fn target(&self) -> Format {
        self.target
    }

    /// Returns the total length in bytes of all tensors in the output, uncompressed: the total for a progress
    /// bar. Bytes that tensors share are counted once if the target can share them.
    #[must_use]
    pub fn nbytes(&self) -> u64 {
        let own = self.job().specs().enumerate().filter(|(number, _)| !self.tied.contains_key(number));
        own.map(|(_, spec)| nbytes_of(&spec)).fold(0, u64::saturating_add)
    }

    /// Returns the tensors whose dtype changes.
    pub fn changed(&self) -> impl Iterator<Item = TypeChanged> {
        let from = |item: &Item| match item.origin {
            Origin::Model(position) => self.model.stored_dtype(position).unwrap_or(item.from),
            _ => item.from,
        };
        let items = self.tensors.items.iter().map(move |item| (item, from(item)));
        let changed = items.filter(|(item, from)| *from != item.to);
        changed.map(|(item, from)| TypeChanged { tensor: self.name(item).to_owned(), from, to: item.to })
    }

    /// Returns how each tensor of the output is made, and which tensors of the source are left out.
    #[must_use]
    pub fn programs(&self) -> Programs {
        Programs::of(&self.model, &self.tensors)
    }

    /// Returns the warnings about results that you may not want, as far as they are known before values are
    /// read.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the name of a tensor in the output.
    fn name(&self, item: &Item) -> &str {
        self.tensors.name(Some(self.model.opened()), item)
    }

    /// Writes the file `out`, or the set whose index is `out`. Input files and files of another set in the
    /// same folder are never replaced, under whatever name. If an index is replaced, files of the old set
    /// that are not part of the new one are removed afterwards.
    ///
    /// # Errors
    /// If the target cannot hold the model, or it cannot be read or written.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn write(mut self, out: impl AsRef<Path>, work: &Execution<'_>) -> Result<Converted> {
        use modelfmt_write::Output;
        if self.options.output.hub_folder {
            return self.write_hub_folder(out.as_ref(), work);
        }
        let Place { out, name, guard } = self.place(out.as_ref())?;
        self.find_equal(work)?;
        self.expect_room(&out)?;
        let failed = |source| cannot_write(&out, source);
        let folder = out.parent().unwrap_or(Path::new(""));
        let mut converted = if let Some(name) = name {
            self.write_to_folder(folder, &name, &guard.files(), work)?
        } else {
            let file = guard.create().map_err(failed)?;
            let converted = self.write_one(&out, &file, work)?;
            file.commit().map_err(failed)?;
            converted
        };
        converted.notes.extend(guard.remove_stale(&converted.files).into_iter().map(Note::from));
        for file in converted.files.iter().map(|file| folder.join(&file.path)) {
            let note = if self.options.output.outboard {
                Some(modelfmt_model::outboard::of_output(&file, self.options.output.overwrite, work)?)
            } else {
                modelfmt_model::outboard::of_before(&file)
            };
            converted.notes.extend(note);
        }
        Ok(converted)
    }

    /// Does everything that [`write`](Self::write) does, but writes nothing. Values are read, checked and converted, so it fails
    /// where `write` would fail, except for faults of the disk. The result lists the files and their lengths, but not the files
    /// that would be removed, and it has the [programs](Self::programs).
    ///
    /// # Errors
    /// If the target cannot hold the model, or it cannot be read or written.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn dry_run(mut self, out: impl AsRef<Path>, work: &Execution<'_>) -> Result<Converted> {
        if self.options.output.hub_folder {
            return self.dry_run_hub_folder(out.as_ref(), work);
        }
        let programs = self.programs();
        let Place { out, name, guard } = self.place(out.as_ref())?;
        let folder = out.parent().unwrap_or(Path::new(""));
        if !modelfmt_core::source::folder_of(&out).is_dir() {
            return Err(cannot_write(&out, std::io::ErrorKind::NotFound.into()));
        }
        let converted = match name {
            Some(name) => {
                self.find_equal(work)?;
                self.expect_room(&out)?;
                self.write_to_folder(folder, &name, &output::dry_run::DryRunFiles(guard.files()), work)
            }
            None => {
                guard.check_target().map_err(|source| cannot_write(&out, source))?;
                self.find_equal(work)?;
                self.expect_room(&out)?;
                self.write_one(&out, &Discard::default(), work)
            }
        };
        Ok(Converted { programs: Some(programs), ..converted? })
    }

    /// Finds where to write the output. Fails if it may not be written there.
    #[cfg(not(target_arch = "wasm32"))]
    fn place(&self, out: &Path) -> Result<Place> {
        let mut out = out.to_owned();
        let name = output::file_name(self.target, &out)?;
        let name = name.map(|name| self.first_file(&out, name)).transpose()?;
        if let Some(name) = &name {
            out.set_file_name(name);
        }
        if self.options.output.outboard && name.is_none() {
            modelfmt_model::outboard::expect_none(&out, self.options.output.overwrite)?;
        }
        let inputs = self.model.read_paths().into_iter().chain(named_files(&self.options));
        let guard = OutputGuard::new(&out, self.options.output.overwrite, InputFiles::new(inputs));
        let guard = guard.of_target(self.target)?;
        Ok(Place { out, name, guard })
    }

    /// Fails if the disk has no room for the values. Compressed output is not checked, because its size is
    /// not known in advance.
    #[cfg(not(target_arch = "wasm32"))]
    fn expect_room(&self, out: &Path) -> Result<()> {
        if self.options.apr2.compress == Some(Compression::Lz4) {
            return Ok(());
        }
        let folder = modelfmt_core::source::folder_of(out);
        modelfmt_write::expect_room(folder, self.nbytes()).map_err(|source| cannot_write(out, source))
    }

    /// Finds tensors with equal values that can share their bytes, if the options ask for it.
    fn find_equal(&mut self, work: &Execution<'_>) -> Result<()> {
        if !self.options.aero.dedupe || !self.target.properties().shared_values {
            return Ok(());
        }
        let (count, nbytes) = tensors::dedupe::find(&self.model, &self.tensors, &mut self.tied, work)?;
        let note = match count {
            0 => "finds no two tensors that are equal and do not share their bytes yet".to_owned(),
            1 => format!("finds 1 tensor that is equal to another, of {}; it is written once", Size(nbytes)),
            n => {
                format!(
                    "finds {n} tensors that are equal to others, of {}; they are written once",
                    Size(nbytes)
                )
            }
        };
        self.notes.push(Note::of(&[Choice::Dedupe], note));
        Ok(())
    }

    /// Writes a single-file target into a sink.
    ///
    /// # Errors
    /// If the target cannot hold the model, or it cannot be read or written.
    pub fn write_to_sink(mut self, sink: &dyn Sink, work: &Execution<'_>) -> Result<Converted> {
        self.expect_no_folder()?;
        if self.target.is_set() {
            let why = format!(
                "{} is several files, and a stream takes one; name a file to write (Conversion::write_to_files)",
                self.target
            );
            return Err(Error::usage(Choice::Target, why));
        }
        if self.options.output.outboard {
            let why = "an outboard is written next to its file, so a stream cannot have one";
            return Err(Error::usage(Choice::Outboard, why));
        }
        self.find_equal(work)?;
        let name = sink.name();
        self.write_one(Path::new(&name), sink, work)
    }

    /// Writes a target of several files. `name` is the name of the index; for a split GGUF it is the stem of its files, with or
    /// without the extension.
    ///
    /// # Errors
    /// If the target cannot hold the model, or it cannot be read or written; [`Error::Usage`] for a single-file target, or a name
    /// that its index cannot have.
    pub fn write_to_files(
        mut self,
        name: &str,
        files: &impl NewFiles,
        work: &Execution<'_>,
    ) -> Result<Converted> {
        self.expect_no_folder()?;
        if !self.target.is_set() {
            return Err(Error::usage(Choice::Target, format!("{} is one file", self.target)));
        }
        let name = self.index_name(name)?;
        self.find_equal(work)?;
        self.write_to_folder(Path::new(""), &name, files, work)
    }

    /// Does everything that [`write_to_files`](Self::write_to_files) does, but writes nothing, like
    /// [`dry_run`](Self::dry_run). `files` is only asked which files could be created.
    ///
    /// # Errors
    /// If the target cannot hold the model, or it cannot be read; [`Error::Usage`] for a single-file target.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn dry_run_to_files(
        self,
        name: &str,
        files: &impl NewFiles,
        work: &Execution<'_>,
    ) -> Result<Converted> {
        let programs = self.programs();
        let converted = self.write_to_files(name, &output::dry_run::DryRunFiles(files), work)?;
        Ok(Converted { programs: Some(programs), ..converted })
    }

    /// Does everything that [`write_to_sink`](Self::write_to_sink) does, but writes nothing, like [`dry_run`](Self::dry_run). Errors
    /// call the sink `name`.
    ///
    /// # Errors
    /// If the target cannot hold the model, or it cannot be read; [`Error::Usage`] for a target of several files.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn dry_run_to_sink(self, name: &str, work: &Execution<'_>) -> Result<Converted> {
        let programs = self.programs();
        let converted = self.write_to_sink(&Discard::named(name), work)?;
        Ok(Converted { programs: Some(programs), ..converted })
    }

    /// Returns the name of the file that opens a set, made from the requested name: the index, or the first
    /// file of a split GGUF.
    ///
    /// # Errors
    /// [`Error::Usage`] for a name that this file cannot have.
    pub fn index_name(&self, name: &str) -> Result<String> {
        let name = output::index_name(self.target, name)?;
        self.first_file(Path::new(&name), name.clone())
    }

    fn first_file(&self, out: &Path, name: String) -> Result<String> {
        output::write::first_file(&self.job(), self.target, name).map_err(|error| match error {
            JobError::Read(error) => self.model.failed(error),
            JobError::Write(error) => output::write::failed(out, error),
        })
    }

    fn write_one(&mut self, path: &Path, sink: &dyn Sink, work: &Execution<'_>) -> Result<Converted> {
        let values = self.values()?;
        let counted = Counted::new(sink);
        output::write::file(self, &values, &counted, work)
            .map_err(|error| self.failed(&values, path, error))?;
        values.finish(work)?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let mut converted = self.done(&values, vec![WrittenFile { path: name, nbytes: counted.len() }]);
        drop(values);
        converted.dropped = std::mem::take(&mut self.dropped);
        Ok(converted)
    }

    fn write_to_folder(
        &mut self,
        folder: &Path,
        name: &str,
        files: &impl NewFiles,
        work: &Execution<'_>,
    ) -> Result<Converted> {
        let values = self.values()?;
        let finish = || values.finish_and_keep(work);
        let recorded = Recorded::new(files, name, &finish);
        let path = folder.join(name);
        output::write::set(self, &values, name, &recorded, work).map_err(|error| {
            let error = match error {
                JobError::Write(error) => JobError::Write(output::within(folder, error)),
                read => read,
            };
            self.failed(&values, &path, error)
        })?;
        let mut converted = self.done(&values, recorded.into_files());
        drop(values);
        converted.dropped = std::mem::take(&mut self.dropped);
        Ok(converted)
    }

    /// Adds the path of the source or of the target to an error of a writer.
    fn failed(&self, values: &Values<'_>, path: &Path, error: JobError) -> Error {
        if let Some(error) = values.failure() {
            return error;
        }
        match error {
            JobError::Read(error) => self.model.failed(error),
            JobError::Write(AnyWriteError::Data { name, source }) => {
                Error::Values { path: self.model.path().to_owned(), tensor: name, source }
            }
            JobError::Write(error) => output::write::failed(path, error),
        }
    }

    fn values(&self) -> Result<Values<'_>> {
        Values::new(&self.model, &self.tensors, !self.options.no_verify)
    }

    /// Returns the result of the conversion. The caller adds `dropped`, which may be as large as the
    /// metadata.
    fn done(&self, values: &Values<'_>, files: Vec<WrittenFile>) -> Converted {
        let items = &self.tensors.items;
        Converted {
            format: self.target,
            tensors: self.tensors.items.len(),
            notes: self.notes.iter().cloned().chain(values.notes().iter().cloned().map(Note::from)).collect(),
            warnings: self.warnings.clone(),
            changed: self.changed().collect(),
            clipped: values.clipped(|number| items.get(number).map_or("", |item| self.name(item))),
            dropped: Vec::new(),
            files,
            is_hub_folder: self.options.output.hub_folder,
            programs: None,
        }
    }

    /// Returns the input of the target's writer.
    fn job(&self) -> Job<'_> {
        Job {
            source: Some(self.model.opened()),
            tensors: &self.tensors,
            metadata: &self.metadata,
            options: &self.options,
            tied: &self.tied,
        }
    }
}

/// Returns the length in bytes of the values of a tensor in the output.
fn nbytes_of(spec: &TensorSpec<'_>) -> u64 {
    match spec.dtype.nbytes(&spec.shape) {
        _ if !spec.has_data => 0,
        Some(nbytes) => nbytes,
        None => spec.packed_nbytes,
    }
}

/// Where the output is written.
#[cfg(not(target_arch = "wasm32"))]
struct Place {
    /// The output file, or the file that opens a set.
    out: std::path::PathBuf,
    /// The name of that file, if the target is a set.
    name: Option<String>,
    guard: OutputGuard,
}

#[cfg(not(target_arch = "wasm32"))]
fn cannot_write(out: &Path, source: std::io::Error) -> Error {
    match source.kind() {
        std::io::ErrorKind::AlreadyExists => Error::Exists { path: out.to_owned() },
        _ => Error::Write { path: out.to_owned(), source },
    }
}

/// Merges several models into one for a conversion with these options, like [`Model::merged`]. Two of them may have a tensor with
/// the same name if [`include`](TensorOptions::include) or [`exclude`](TensorOptions::exclude) leaves that name out.
///
/// # Errors
/// [`Error::NameTwice`] if two models have a tensor with the same name; [`Error::Usage`] without any model, or for a malformed
/// pattern.
pub fn merged(models: impl IntoIterator<Item = Model>, options: &ConvertOptions) -> Result<Model> {
    let mut filter = tensors::filter::Filter::new(options)?;
    Model::joined(models, &mut |name| filter.would_take(name))
}

/// Checks whether a model is a checkpoint, which can contain any values besides tensors.
fn is_from_pickle(model: &Model) -> bool {
    model.format().properties().contents == Contents::Checkpoint
}

/// Adds the tokenizer of a model to an APR. Without it, aprender's programs do not run the APR.
#[cfg(all(feature = "apr", not(target_arch = "wasm32")))]
fn with_tokenizer(content: Content, model: &Model, target: Format) -> Content {
    if target.properties().schema != Some(MetadataSchema::Apr) {
        return content;
    }
    match modelfmt_derived::apr_tokenizer(model) {
        Ok(keys) => content.asked_for(keys),
        Err(why) => content.noted(Some(format!("the tokenizer beside the model is not written: {why}"))),
    }
}

/// Sets the options so that other values of a checkpoint are written as text if the target holds only text:
/// the user did not choose them as metadata.
fn from_pickle<'a>(model: &Model, options: Cow<'a, ConvertOptions>) -> Cow<'a, ConvertOptions> {
    if !is_from_pickle(model) {
        return options;
    }
    let mut options = options;
    options.to_mut().metadata.stringify = true;
    options
}
