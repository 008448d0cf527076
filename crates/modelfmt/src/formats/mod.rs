//! A format is a value: what it is called, how it is told, what it can hold, how it is opened and written. Everything
//! else asks these entries; [`Format`](crate::Format) lists them.

mod aero;
mod apr2;
mod gguf;
mod mag;
mod oinf;
mod safetensors;

use std::any::Any;
use std::path::Path;

use modelfmt_core::source::{BoxSource, SharedFiles};
use modelfmt_core::value::Value;
use modelfmt_core::write::{AnyNewFiles, Sink, TensorData};
use modelfmt_core::{AnyError, Container, Execution, FileIndex, FormatReader, Reader, SetReader, ShardMap};

#[cfg(feature = "aero")]
pub(crate) use self::aero::losses as aero_losses;
#[cfg(feature = "oinf")]
pub(crate) use self::oinf::value as oinf_value;
use crate::capabilities::Capabilities;
use crate::convert::Conversion;
use crate::error::{Error, Result};
use crate::format::Format;
pub(crate) use crate::model::OpenOptions;

/// A format, or the form of a model of many files.
pub(crate) struct Entry {
    /// What the program prints and takes.
    pub(crate) name: &'static str,
    /// The cargo feature that it needs.
    pub(crate) feature: &'static str,
    pub(crate) tells: Tells,
    /// The ending of a file name that asks for it when a model is written.
    pub(crate) ending: Option<&'static str>,
    /// What is written instead where the size of a file is capped.
    pub(crate) sharded: Option<Format>,
    /// Whether a model consists of several files.
    pub(crate) is_set: bool,
    pub(crate) capabilities: Capabilities,
    /// None if the feature is off.
    pub(crate) driver: Option<Driver>,
}

/// What tells a file of the format from others.
pub(crate) enum Tells {
    /// Its first bytes.
    Magic(&'static [u8]),
    /// What its first bytes and its length say, where it has no magic.
    FirstBytes(fn(&[u8], u64) -> bool),
    /// The keys of its index, a JSON object.
    Index(fn(&Value) -> bool),
}

/// How it is read and written.
pub(crate) struct Driver {
    pub(crate) open: fn(Source<'_>) -> Result<Box<dyn Opened>>,
    pub(crate) write: Write,
}

/// How it is written.
#[allow(dead_code, reason = "with few formats switched on not every way is used")]
pub(crate) enum Write {
    /// Not at all.
    Never,
    /// As one file.
    File(WriteFile),
    /// As several, whose index has a name.
    Set(WriteSet),
}

type WriteFile = fn(&Conversion<'_>, &dyn TensorData, &dyn Sink, &Execution<'_>) -> Result<(), AnyError>;
type WriteSet =
    fn(&Conversion<'_>, &dyn TensorData, &str, &dyn AnyNewFiles, &Execution<'_>) -> Result<(), AnyError>;

/// The driver, if its feature is on.
macro_rules! driver {
    ($feature:literal, $open:path, $write:expr) => {{
        #[cfg(feature = $feature)]
        let driver = Some(super::Driver { open: $open, write: $write });
        #[cfg(not(feature = $feature))]
        let driver = None;
        driver
    }};
}
use driver;

/// Every format, in the order in which magics are tried and lists are printed.
pub(crate) const fn entry(format: Format) -> &'static Entry {
    match format {
        Format::Aero => &aero::AERO,
        Format::AeroSet => &aero::AEROSET,
        Format::Mag => &mag::MAG,
        Format::Oinf => &oinf::OINF,
        Format::Apr2 => &apr2::APR2,
        Format::Apr2Sharded => &apr2::APR2_SHARDED,
        Format::Apr1 => &apr2::APR1,
        Format::Safetensors => &safetensors::SAFETENSORS,
        Format::SafetensorsSharded => &safetensors::SAFETENSORS_SHARDED,
        Format::Gguf => &gguf::GGUF,
    }
}

/// A file or set, open, with the reader of its format.
pub(crate) trait Opened: Container + Any + Send + Sync {}

impl<R: Container + Any + Send + Sync> Opened for R {}

/// What there is to open.
pub(crate) struct Source<'a> {
    /// Its file, for errors.
    pub(crate) path: &'a Path,
    pub(crate) source: BoxSource,
    /// The files beside it, for sets.
    pub(crate) files: Option<SharedFiles>,
    pub(crate) options: &'a OpenOptions,
}

#[allow(dead_code, reason = "with no format switched on nothing is opened")]
impl Source<'_> {
    /// Opens it as a file of a format with that format's reader.
    fn open_file<R>(self) -> Result<Box<dyn Opened>>
    where
        R: FormatReader<Source = BoxSource> + Send + Sync + 'static,
    {
        let options = own_options::<R::Index>(self.options);
        let reader = Reader::open_source(self.source, &options).map_err(Error::in_file(self.path))?;
        Ok(Box::new(R::from_shared(reader)))
    }

    /// Opens it as the index of a set with the shared reader.
    fn open_set<M: ShardMap + Send + Sync + 'static>(self) -> Result<Box<dyn Opened>>
    where
        M::Index: Send + Sync + 'static,
    {
        let (path, options) = (self.path, own_options::<M::Index>(self.options));
        let (source, files) = self.with_files()?;
        let reader = SetReader::<M, _>::from_source(&source, files, &options);
        Ok(Box::new(reader.map_err(Error::in_file(path))?))
    }

    /// The index with the files beside it, without which there is no set.
    fn with_files(self) -> Result<(BoxSource, SharedFiles)> {
        let hint = "it is the index of a set, whose other files are beside it; open it by its path (or give the files to open_source)";
        let none = || Error::UnknownFormat { path: self.path.to_owned(), hint };
        Ok((self.source, self.files.ok_or_else(none)?))
    }
}

/// The options of a format's own reader; its own default limits, unless the caller has chosen others.
fn own_options<I: FileIndex>(options: &OpenOptions) -> modelfmt_core::OpenOptions {
    let limits = options.limits.clone().unwrap_or_else(I::default_limits);
    modelfmt_core::OpenOptions::new(limits).ignore_checksum(options.ignore_checksum)
}
