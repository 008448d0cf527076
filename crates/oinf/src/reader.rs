//! Opens OINF files: what [`modelfmt_core::Reader`] asks of the format.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::value::{Object, Value};
use modelfmt_core::{
    Execution, Fetch, Report, Source, TensorTable, VerifyLevel,
    author::{FileIndex, now},
};

use crate::error::{Error, Fault, Result};
use crate::index::Index;
use crate::metadata::Metadata;
use crate::parser::IndexParser;
use crate::quant::Quant;

modelfmt_core::reader! {
    "OINF", Index, Result, Metadata<'_>;

    /// How an OINF file is opened.
    pub struct OpenOptions;

    /// An open OINF file: its [`Index`] and the source of its bytes.
    pub struct Reader<S>;

    /// An open OINF file over bytes that arrive later, such as from an object store.
    pub struct AsyncReader<S>;
}

impl FileIndex for Index {
    type Fault = Fault;
    type Parser = IndexParser;
    type Metadata<'a> = Metadata<'a>;

    fn parser(file_len: u64, options: &modelfmt_core::OpenOptions) -> IndexParser {
        IndexParser::new(file_len, options.limits_ref())
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

    /// Values without their types, and size variables under `sizevars.` and their name.
    async fn flat_metadata<S: Fetch>(&self, _: &S) -> Result<Object> {
        let mut keys: Object =
            self.metadata().map(|(key, value)| (key, value.to_value().to_plain())).collect();
        self.sizevars().iter().for_each(|(name, value)| keys.insert_beside("sizevars.", name, value));
        Ok(keys)
    }

    /// `sizevars`: name to value.
    fn details(&self) -> Object {
        let sizevars: Object = self.sizevars().iter().collect();
        Object::from_iter([("sizevars", sizevars)])
    }

    /// `structure` at every level, `padding`, `values` and `extents` at [`VerifyLevel::Full`]. OINF has no checksums, so
    /// [`VerifyLevel::Control`] looks no deeper than [`VerifyLevel::Header`].
    async fn verify<S: Fetch>(&self, source: &S, level: VerifyLevel, work: &Execution<'_>) -> Report {
        crate::verify::verify(self, source, level, work).await
    }
}

impl<S: Source> Reader<S> {
    /// The quant payload of a tensor, if it has one. Reads it.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such tensor; if the payload cannot be read, or breaks a rule of version 2.
    pub fn quant(&self, name: &str) -> Result<Option<Quant>> {
        let position = self.index().tensors().find(name);
        self.quant_at(position.ok_or_else(|| Error::NotFound { name: name.to_owned() })?)
    }

    /// The quant payload of the tensor at a position, if it has one. Reads it.
    ///
    /// # Errors
    /// As [`quant`](Self::quant); none if there is no such tensor.
    pub fn quant_at(&self, position: usize) -> Result<Option<Quant>> {
        let found = now(self.index().read_quant(self.shared.source(), position));
        Ok(found.map_err(|error| self.shared.named(error))?.map(|(quant, _)| quant))
    }
}

impl<S: Fetch> AsyncReader<S> {
    /// As [`Reader::quant_at`].
    ///
    /// # Errors
    /// As [`Reader::quant_at`].
    pub async fn quant_at(&self, position: usize) -> Result<Option<Quant>> {
        let found = self.index().read_quant(self.shared.source(), position).await;
        Ok(found?.map(|(quant, _)| quant))
    }
}
