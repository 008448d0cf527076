//! Opens OINF files: implements the traits of modelfmt-core's readers for this format, and adds the methods
//! that only OINF has.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::value::{Object, Value};
use modelfmt_core::{
    Execution, Fetch, OpenFile, Report, Source, TensorKey, TensorTable, VerifyLevel,
    author::{FileIndex, OpenSettings, Opened as _, now},
};

use crate::error::{Error, Fault, Result};
use crate::index::Index;
use crate::metadata::Metadata;
use crate::parser::IndexParser;
use crate::quant::Quant;

/// Options for opening an OINF file.
pub type OpenOptions = modelfmt_core::OpenOptions<Index>;

/// An open OINF file: its [`Index`] and the source of its bytes.
pub type Reader<S> = modelfmt_core::Reader<OpenFile<Index, S>>;

/// An open OINF file whose source is asynchronous, such as an object store.
pub type AsyncReader<S> = modelfmt_core::AsyncReader<OpenFile<Index, S>>;

impl Index {
    /// Parses the index from the bytes of a file, with the default options.
    ///
    /// # Errors
    /// If the bytes end early, break a rule of the format, or exceed a limit.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Self::parse_bytes(bytes)
    }
}

impl FileIndex for Index {
    type Fault = Fault;
    type Parser = IndexParser;
    type Metadata<'a> = Metadata<'a>;

    fn parser(file_len: u64, settings: &OpenSettings) -> IndexParser {
        IndexParser::new(file_len, settings.limits_ref())
    }

    fn file_len(&self) -> u64 {
        self.file_len()
    }

    fn tensors(&self) -> &TensorTable {
        self.tensors()
    }

    fn version_text(&self) -> Option<String> {
        Some(self.version().number().to_string())
    }

    async fn metadata<'a, S: Fetch>(&'a self, _: &S) -> Result<Metadata<'a>> {
        Ok(self.to_metadata())
    }

    async fn metadata_tree<S: Fetch>(&self, _: &S) -> Result<Value> {
        Ok(self.metadata().map(|(key, value)| (key, value.to_value())).collect::<Object>().into())
    }

    /// Returns the values without their types, and each size variable under the key `sizevars.NAME`.
    async fn flat_metadata<S: Fetch>(&self, _: &S) -> Result<Object> {
        let mut keys: Object =
            self.metadata().map(|(key, value)| (key, value.to_value().to_plain())).collect();
        self.sizevars().iter().for_each(|(name, value)| keys.insert_with_prefix("sizevars.", name, value));
        Ok(keys)
    }

    /// Returns an object `sizevars` that maps each name to its value.
    fn details(&self) -> Object {
        let sizevars: Object = self.sizevars().iter().collect();
        Object::from_iter([("sizevars", sizevars)])
    }

    /// Checks `structure` at every level, and `padding`, `values` and `extents` at [`VerifyLevel::Full`]. OINF has no
    /// checksums, so [`VerifyLevel::Control`] checks no more than [`VerifyLevel::Header`].
    async fn verify<S: Fetch>(&self, source: &S, level: VerifyLevel, work: &Execution<'_>) -> Report {
        crate::verify::verify(self, source, level, work).await
    }
}

/// Methods that only OINF has: for quant payloads.
pub trait ReaderExt {
    /// Reads the quant payload of a tensor. Returns `None` if the tensor has none.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no tensor with this name. Otherwise an error if the payload cannot be
    /// read or breaks a rule of version 2.
    fn quant(&self, key: impl TensorKey) -> Result<Option<Quant>>;
}

impl<S: Source> ReaderExt for Reader<S> {
    fn quant(&self, key: impl TensorKey) -> Result<Option<Quant>> {
        let position = key.position(|name| self.tensors().find(name));
        let position = position.map_err(|name| Error::NotFound { name: name.to_owned() })?;
        let found = now(self.index().read_quant(self.source(), position));
        Ok(found.map_err(|error| self.named(error))?.map(|(quant, _)| quant))
    }
}
