//! What an entry of the list of formats says.

use std::collections::BTreeMap;
use std::io;

use modelfmt_core::source::SharedFiles;
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{AnyError, Execution, Fault, Source};
use modelfmt_write::edit::NewFile;
use modelfmt_write::{AnyWriteError, Sink, TensorData, TensorSpec, WriteError};

use super::Format;
use super::capabilities::Capabilities;
pub(crate) use super::change::{Change, EditFault};
use super::open_any::OpenAny;
pub use super::opened::{Opened, ToOpen, reader_of};
use super::said::SaidOf;
use super::set_index_edit::EditIndex;
use super::set_plan::SetPlan;
use crate::job::metadata::Metadata;
use crate::job::tensors::Tensors;
use crate::pin::Pin;
use crate::quant::Quant;
use modelfmt_rules::options::ConvertOptions;
use modelfmt_rules::wording::Choice;

/// A format, or the form of a model of many files.
pub(crate) struct Entry {
    /// What the program prints and takes.
    pub(crate) name: &'static str,
    /// The cargo feature that it needs.
    pub(crate) feature: &'static str,
    pub(crate) detection: Detection,
    /// The ending of the names of its files; it asks for the format when a model is written.
    pub(crate) ending: Option<&'static str>,
    /// What is written instead where the size of a file is capped.
    pub(crate) sharded: Option<Format>,
    /// Whether a model consists of several files.
    pub(crate) is_set: bool,
    /// The versions that are written, if they have names. The first is written unless another is asked for.
    pub(crate) versions: &'static [Version],
    pub(crate) capabilities: Capabilities,
    /// What can be chosen for it, of what not every target understands.
    pub(crate) choices: &'static [Choice],
    /// None if the feature is off.
    pub(crate) driver: Option<Driver>,
}

/// A version of a format that is written.
pub(crate) struct Version {
    /// How it is asked for; the first is how it is printed.
    pub(crate) names: &'static [&'static str],
    /// What it can hold, if that is not what the version of the document can.
    pub(crate) capabilities: Option<&'static Capabilities>,
    /// What it can hold with [`OinfOptions::allow_extended_types`], if that is more.
    pub(crate) extended: Option<&'static Capabilities>,
}

impl Version {
    /// One that can hold what the entry says.
    pub(crate) const fn only(names: &'static [&'static str]) -> Self {
        Self { names, capabilities: None, extended: None }
    }
}

/// What tells a file of the format from others.
pub(crate) enum Detection {
    /// Its first bytes.
    Magic(&'static [u8]),
    /// Its magic and what is beside it, where that is not the format's alone.
    Header(fn(&[u8]) -> bool),
    /// What its first bytes and its length say, where it has no magic.
    FirstBytes(fn(&[u8], u64) -> bool),
    /// The keys of its index, a JSON object.
    Index(IndexJson),
    /// Nothing before it is opened as a file of another format, which then turns out to be one of several.
    Opening,
}

/// The JSON object that lists the files of a set.
pub(crate) struct IndexJson {
    /// The keys that it has.
    pub(crate) keys: &'static [&'static str],
    /// The name that it has under `format`, if that tells it.
    pub(crate) name: Option<&'static str>,
    /// The keys under which it names its files, and the key of the name where they are objects.
    pub(crate) files: &'static [(&'static str, Option<&'static str>)],
    /// How the files are called, where the keys are also those of another format; any, if there are none.
    pub(crate) endings: &'static [&'static str],
}

/// How it is read and written.
pub struct Driver {
    /// How it is opened where that takes more than its [file or set](OpenAny::open_now).
    pub(crate) open: Option<OpenFn>,
    /// How it is written.
    pub write: Write,
    /// The name of the file that stands for a set, made of the name without an ending, where only the whole set tells it.
    pub first_file: Option<FirstFile>,
    /// What a model of the format says besides its tensors, where that is more than keys and values.
    pub(crate) said: Option<SaidOf>,
    /// The plain value of what a file stores, for formats whose values JSON does not have bit for bit.
    pub plain: Option<PlainOf>,
    /// The form in which it takes a value of metadata, for formats with types of their own; else why it cannot.
    pub value: Option<OwnValue>,
    /// Scales and zero points that are beside a tensor's values.
    pub(crate) quant: Option<QuantOf>,
    /// Whether the index of a set has cryptographic hashes of its other files, and `open` sees to it that they hold where the
    /// index is pinned.
    pub(crate) proves_files: bool,
    /// What a file of the format can be pinned by, beside the hash of the whole.
    pub(crate) pin: Option<PinOf>,
    /// The size variables, for a format that has them.
    pub(crate) sizevars: Option<SizevarsOf>,
    /// Whether a file is encrypted and signed, for formats that hold signatures.
    pub(crate) sealing: Option<SealingOf>,
    /// Keys that a file must not contain, with the reason for each.
    pub unreadable: Option<Unreadable>,
    /// What becomes of a file with other metadata and names.
    #[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "there are no files to edit"))]
    pub edit: Option<EditFile>,
    /// What to say of the metadata of an edited file beside the file before: which keys have another type.
    #[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "there are no files to edit"))]
    pub retyped: Option<Retyped>,
    /// What [`edit`](Self::edit) is for a file, for a set.
    #[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "there are no files to edit"))]
    pub edit_set: Option<EditSet>,
    /// What a conversion of a model into its own format has to be asked for, so that it is of the same version and has the same hashes.
    pub same: Option<Same>,
}

impl Driver {
    /// For a format which is only read.
    #[allow(dead_code, reason = "with no format switched on there is none")]
    pub(crate) const READS: Self = Self {
        open: None,
        write: Write::Never,
        first_file: None,
        said: None,
        plain: None,
        value: None,
        quant: None,
        proves_files: false,
        pin: None,
        sizevars: None,
        sealing: None,
        unreadable: None,
        edit: None,
        retyped: None,
        edit_set: None,
        same: None,
    };
}

type OpenFn = fn(ToOpen<'_>) -> Result<OpenAny<SharedFiles>, AnyError>;

/// How a set is edited: each of its files by the editor of their format, its index by this.
#[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "there are no files to edit"))]
pub struct EditSet {
    /// The format of its files.
    pub file: Format,
    /// Whether the first of them has the metadata of the model; else the index has.
    pub first_has_metadata: bool,
    /// What becomes of the index, where it is a file by itself.
    pub index: Option<EditIndex>,
    /// What the index states of the bytes of a file, as it states it.
    pub digest: Option<DigestOf>,
}

/// Makes the digest of a file, as text.
pub type DigestOf = fn(&dyn Source, &Execution<'_>) -> io::Result<String>;

/// The plain value of what is stored, if it can be one.
pub(crate) type PlainOf = fn(&Value) -> Option<Value>;

/// The name of the first file of a set.
type FirstFile = fn(&Job<'_>, stem: &str) -> Result<String, JobError>;

/// The form of a value under a key in a version that can hold this, or why there is none.
type OwnValue = fn(&Capabilities, &str, Value) -> Result<Value, String>;

/// Scales and zero points of the tensor at a position, if it has them.
type QuantOf = fn(&dyn Opened, usize) -> Result<Option<Quant>, AnyError>;

/// The pin of a file, as far as its index says it.
type PinOf = fn(&dyn Opened) -> Result<Option<Pin>, AnyError>;

/// Size variables and their values.
type SizevarsOf = fn(&dyn Opened) -> Object;

/// Whether a file or a set is encrypted and signed.
type SealingOf = fn(&dyn Opened) -> Sealing;

/// What a file has inside beside the model: encryption and signatures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sealing {
    /// Whether its values are encrypted.
    pub is_encrypted: bool,
    /// Whether it has signatures.
    #[cfg_attr(not(feature = "seal"), allow(dead_code, reason = "without it no signature is read"))]
    pub is_signed: bool,
}

/// The file with other metadata and names, all values at hand; see [`Change`].
pub type EditFile = fn(&dyn Opened, &Change<'_>) -> Result<NewFile, EditFault>;

type Retyped = fn(&dyn Opened, &dyn Opened) -> Vec<String>;

type Same = fn(&dyn Opened, &mut ConvertOptions);

type Unreadable = fn(&Object) -> Vec<(String, String)>;

/// Why a model is not written.
#[derive(Debug)]
pub enum JobError {
    /// Its source cannot be read.
    #[allow(dead_code, reason = "with few formats switched on nobody reads while writing")]
    Read(AnyError),
    /// Its target cannot be written.
    Write(AnyWriteError),
}

impl<F: Fault> From<modelfmt_core::Error<F>> for JobError {
    fn from(error: modelfmt_core::Error<F>) -> Self {
        Self::Read(error.into())
    }
}

impl<F: Fault> From<WriteError<F>> for JobError {
    fn from(error: WriteError<F>) -> Self {
        Self::Write(error.into())
    }
}

/// How it is written.
#[allow(dead_code, reason = "with few formats switched on not every way is used")]
pub enum Write {
    /// Not at all.
    Never,
    /// As one file.
    File(WriteFile),
    /// As several, whose index has a name.
    Set(PlanSet),
}

type WriteFile = fn(&Job<'_>, &dyn TensorData, &dyn Sink, &Execution<'_>) -> Result<(), JobError>;
type PlanSet = fn(&Job<'_>, &str) -> Result<Box<dyn SetPlan>, JobError>;

/// The driver, if its feature is on: what there is beyond reading.
macro_rules! driver {
    ($feature:literal $(, $field:ident: $value:expr)*) => {{
        #[cfg(feature = $feature)]
        #[allow(clippy::needless_update, reason = "some formats have all fields")]
        let driver = Some(super::entry::Driver { $($field: $value,)* ..super::entry::Driver::READS });
        #[cfg(not(feature = $feature))]
        let driver = None;
        driver
    }};
}
pub(super) use driver;

/// What is to be written, all of it chosen and in the terms of the target.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "with few formats switched on not all of it is used")]
pub struct Job<'a> {
    /// The reader of the source, if there is one, for what only a target of the same format can hold.
    pub source: Option<&'a dyn Opened>,
    /// The tensors, in their order.
    pub tensors: &'a Tensors,
    /// The metadata, in the terms of the target.
    pub metadata: &'a Metadata,
    /// What the caller chose.
    pub options: &'a ConvertOptions,
    /// By the number of a tensor, that of the one whose bytes it shares in the target too.
    pub tied: &'a BTreeMap<usize, usize>,
}

impl<'a> Job<'a> {
    /// The descriptions of what is written, in order.
    pub fn specs(self) -> impl Iterator<Item = TensorSpec<'a>> {
        self.tensors.items.iter().filter_map(move |item| self.tensors.spec(self.source, item))
    }

    /// The name of the tensor of that number.
    #[allow(dead_code, reason = "with few formats switched on nobody asks")]
    pub(crate) fn name(self, number: usize) -> Option<&'a str> {
        self.tensors.items.get(number).map(|item| self.tensors.name(self.source, item))
    }
}
