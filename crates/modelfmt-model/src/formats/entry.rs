//! The entries of the list of formats.

use std::collections::BTreeMap;
use std::io;

use modelfmt_core::source::SharedFiles;
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{AnyError, Execution, Fault, Source};
use modelfmt_write::edit::NewFile;
use modelfmt_write::{AnyWriteError, Sink, TensorData, TensorSpec, WriteError};

use super::Format;
pub use super::any_reader::{AnyReader, ToOpen, reader_of};
use super::capabilities::Capabilities;
pub(crate) use super::change::{Change, EditFault};
use super::common_metadata::ReadCommonMetadata;
use super::open_any::OpenAny;
use super::set_index_edit::EditIndex;
use super::set_plan::SetPlan;
use crate::job::metadata::Metadata;
use crate::job::tensors::OutputTensors;
use crate::quant::Quant;
use modelfmt_rules::options::ConvertOptions;
use modelfmt_rules::pin::Pin;
use modelfmt_rules::wording::Choice;

/// A format, or its form that consists of many files.
pub(crate) struct Entry {
    /// The name that the program prints and takes.
    pub(crate) name: &'static str,
    /// The cargo feature that the format needs.
    pub(crate) feature: &'static str,
    pub(crate) detection: Detection,
    /// The extension of its files. For an output file, it selects the format.
    pub(crate) ending: Option<&'static str>,
    /// The format to write instead if the size of a file is limited.
    pub(crate) sharded: Option<Format>,
    /// Whether a model of this format consists of several files.
    pub(crate) is_set: bool,
    /// The versions that can be written, if they have names. The first is the default.
    pub(crate) versions: &'static [Version],
    pub(crate) capabilities: Capabilities,
    /// The choices that its writer supports, of those that not every target supports.
    pub(crate) choices: &'static [Choice],
    /// `None` if the feature is off.
    pub(crate) fns: Option<FormatFns>,
}

/// A version of a format that can be written.
pub(crate) struct Version {
    /// The names that select the version; the first one is printed.
    pub(crate) names: &'static [&'static str],
    /// What the version can hold, if that differs from the version of the document.
    pub(crate) capabilities: Option<&'static Capabilities>,
    /// What the version can hold with [`OinfOptions::allow_extended_types`], if that is more.
    pub(crate) extended: Option<&'static Capabilities>,
}

impl Version {
    /// Returns a version with the capabilities of the entry.
    pub(crate) const fn only(names: &'static [&'static str]) -> Self {
        Self { names, capabilities: None, extended: None }
    }
}

/// How a file of the format is detected.
pub(crate) enum Detection {
    /// By its first bytes.
    Magic(&'static [u8]),
    /// By its magic and the rest of its header, if other formats have the same magic.
    Header(fn(&[u8]) -> bool),
    /// By its first bytes and its length, if it has no magic.
    FirstBytes(fn(&[u8], u64) -> bool),
    /// By the keys of its index, a JSON object.
    Index(IndexJson),
    /// Only by opening a file of another format that turns out to be one of several.
    Opening,
}

/// How the JSON index of a set is recognized, and where it lists the files.
pub(crate) struct IndexJson {
    /// The keys that the index has.
    pub(crate) keys: &'static [&'static str],
    /// The name under `format`, if it is needed to recognize the index.
    pub(crate) name: Option<&'static str>,
    /// The keys under which the index names its files. If a file is an object, the second member is the key of its name.
    pub(crate) files: &'static [(&'static str, Option<&'static str>)],
    /// The extensions of the files, if another format has the same keys; empty if any file name is allowed.
    pub(crate) endings: &'static [&'static str],
}

/// The functions that read, write and edit a format.
pub struct FormatFns {
    /// Opens a file or set, if that takes more than [`OpenAny::open_now`].
    pub(crate) open_override: Option<OpenFn>,
    /// How the format is written.
    pub write: Write,
    /// Makes the name of the file that stands for a set from the stem, if the name depends on the whole set.
    pub first_file: Option<FirstFile>,
    /// Reads the metadata of a model, if it is more than keys and values.
    pub(crate) common_metadata: Option<ReadCommonMetadata>,
    /// Makes the plain value of a stored value, for formats whose values JSON cannot hold bit for bit.
    pub plain: Option<PlainOf>,
    /// Converts a metadata value to the form of the format, for formats with value types of their own, or
    /// says why it cannot.
    pub value: Option<OwnValue>,
    /// Reads the scales and zero points of a tensor.
    pub(crate) quant: Option<QuantOf>,
    /// Whether the index of a set has cryptographic hashes of its other files, and `open` checks them if the index is pinned.
    pub(crate) proves_files: bool,
    /// The pin of a file, besides the hash of the whole file.
    pub(crate) pin: Option<PinOf>,
    /// The size variables, for a format that has them.
    pub(crate) sizevars: Option<SizevarsOf>,
    /// Whether a file is encrypted and signed, for formats that hold signatures.
    pub(crate) sealing: Option<SealingOf>,
    /// Keys that a file must not contain, with the reason for each.
    pub unreadable: Option<Unreadable>,
    /// Makes the file after an edit of its metadata and names.
    #[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "there are no files to edit"))]
    pub edit: Option<EditFile>,
    /// Compares an edited file with the file before, and returns notes about keys whose values have another
    /// type.
    #[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "there are no files to edit"))]
    pub retyped: Option<Retyped>,
    /// How a set is edited. [`edit`](Self::edit) edits a single file.
    #[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "there are no files to edit"))]
    pub edit_set: Option<EditSet>,
    /// Sets the options of a conversion to the same format, so that the output has the same version and the same hashes.
    pub same: Option<Same>,
}

impl FormatFns {
    /// The functions of a format that is only read.
    #[allow(dead_code, reason = "with no format switched on there is none")]
    pub(crate) const READ_ONLY: Self = Self {
        open_override: None,
        write: Write::Never,
        first_file: None,
        common_metadata: None,
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

/// How a set is edited. Each file is edited by the editor of its own format, the index by `index`.
#[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "there are no files to edit"))]
pub struct EditSet {
    /// The format of the files.
    pub file: Format,
    /// Whether the first file has the metadata of the model; otherwise the index has it.
    pub first_has_metadata: bool,
    /// Changes the index, if it is a file of its own.
    pub index: Option<EditIndex>,
    /// Makes the digest of a file that the index states.
    pub digest: Option<DigestOf>,
}

/// Makes the digest of a file, as text.
pub type DigestOf = fn(&dyn Source, &Execution<'_>) -> io::Result<String>;

/// Makes the plain value of a stored value, if it has one.
pub(crate) type PlainOf = fn(&Value) -> Option<Value>;

/// Makes the name of the first file of a set.
type FirstFile = fn(&Job<'_>, stem: &str) -> Result<String, JobError>;

/// Converts a value under a key for a version with these capabilities, or says why it cannot.
type OwnValue = fn(&Capabilities, &str, Value) -> Result<Value, String>;

/// Reads the scales and zero points of the tensor at a position, if it has them.
type QuantOf = fn(&dyn AnyReader, usize) -> Result<Option<Quant>, AnyError>;

/// Reads the pin of a file from its index, if the index has it.
type PinOf = fn(&dyn AnyReader) -> Result<Option<Pin>, AnyError>;

/// Reads the size variables and their values.
type SizevarsOf = fn(&dyn AnyReader) -> Object;

/// Reads whether a file or a set is encrypted and signed.
type SealingOf = fn(&dyn AnyReader) -> Sealing;

/// Whether a file is encrypted, and whether it contains signatures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sealing {
    /// Whether the values are encrypted.
    pub is_encrypted: bool,
    /// Whether the file contains signatures.
    #[cfg_attr(not(feature = "seal"), allow(dead_code, reason = "without it no signature is read"))]
    pub is_signed: bool,
}

/// Makes the file after an edit, from an open file whose values can be read; see [`Change`].
pub type EditFile = fn(&dyn AnyReader, &Change<'_>) -> Result<NewFile, EditFault>;

type Retyped = fn(&dyn AnyReader, &dyn AnyReader) -> Vec<String>;

type Same = fn(&dyn AnyReader, &mut ConvertOptions);

type Unreadable = fn(&Object) -> Vec<(String, String)>;

/// Why a model cannot be written.
#[derive(Debug)]
pub enum JobError {
    /// The source cannot be read.
    #[allow(dead_code, reason = "with few formats switched on nobody reads while writing")]
    Read(AnyError),
    /// The target cannot be written.
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

/// How a format is written.
#[allow(dead_code, reason = "with few formats switched on not every way is used")]
pub enum Write {
    /// The format is not written.
    Never,
    /// As one file.
    File(WriteFile),
    /// As several files. The function takes the name of the index.
    Set(PlanSet),
}

type WriteFile = fn(&Job<'_>, &dyn TensorData, &dyn Sink, &Execution<'_>) -> Result<(), JobError>;
type PlanSet = fn(&Job<'_>, &str) -> Result<Box<dyn SetPlan>, JobError>;

/// Makes the functions, if the feature is on: [`FormatFns::READ_ONLY`] with the given fields replaced.
macro_rules! format_fns {
    ($feature:literal $(, $field:ident: $value:expr)*) => {{
        #[cfg(feature = $feature)]
        #[allow(clippy::needless_update, reason = "some formats have all fields")]
        let fns = Some(super::entry::FormatFns { $($field: $value,)* ..super::entry::FormatFns::READ_ONLY });
        #[cfg(not(feature = $feature))]
        let fns = None;
        fns
    }};
}
pub(super) use format_fns;

/// Everything that a writer needs: tensors and metadata in the form of the target, and options.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "with few formats switched on not all of it is used")]
pub struct Job<'a> {
    /// The reader of the source, if there is one. A target of the same format takes more from it than tensors
    /// and metadata.
    pub source: Option<&'a dyn AnyReader>,
    /// The tensors, in their order.
    pub tensors: &'a OutputTensors,
    /// The metadata in the form of the target.
    pub metadata: &'a Metadata,
    /// The caller's options.
    pub options: &'a ConvertOptions,
    /// Tensors that share bytes in the target, too. Maps the number of a tensor to the number of the tensor
    /// whose bytes it shares.
    pub tied: &'a BTreeMap<usize, usize>,
}

impl<'a> Job<'a> {
    /// Returns the descriptions of the tensors to write, in order.
    pub fn specs(self) -> impl Iterator<Item = TensorSpec<'a>> {
        self.tensors.items.iter().filter_map(move |item| self.tensors.spec(self.source, item))
    }

    /// Returns the name of the tensor with that number in the output.
    #[allow(dead_code, reason = "with few formats switched on nobody asks")]
    pub(crate) fn name(self, number: usize) -> Option<&'a str> {
        self.tensors.items.get(number).map(|item| self.tensors.name(self.source, item))
    }
}
