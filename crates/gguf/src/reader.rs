//! Opens GGUF files: implements the traits of modelfmt-core's readers for this format.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::value::{Object, Value};
use modelfmt_core::{
    Execution, Fetch, Limits, OpenFile, Report, TensorTable, VerifyLevel,
    author::{FileIndex, OpenSettings},
};

use crate::error::{Fault, Result};
use crate::index::Index;
use crate::metadata::Metadata;
use crate::parser::IndexParser;

/// Options for opening a GGUF file. The limit `index_len` caps everything before the data, and `metadata_len`
/// the metadata values in it.
pub type OpenOptions = modelfmt_core::OpenOptions<Index>;

/// An open GGUF file: its [`Index`] and the source of its bytes.
pub type Reader<S> = modelfmt_core::Reader<OpenFile<Index, S>>;

/// An open GGUF file whose source is asynchronous, such as an object store.
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
    type Metadata<'a> = &'a Metadata;

    /// Returns the default limits: those of modelfmt-core, but at most 4 dimensions, as in ggml.
    fn default_limits() -> Limits {
        let mut limits = Limits::default();
        limits.rank = crate::wire::MAX_RANK;
        limits
    }

    fn parser(file_len: u64, settings: &OpenSettings) -> IndexParser {
        IndexParser::new(file_len, settings.limits_ref().clone())
    }

    fn file_len(&self) -> u64 {
        self.file_len()
    }

    fn tensors(&self) -> &TensorTable {
        self.tensors()
    }

    fn is_big_endian(&self) -> bool {
        self.is_big_endian()
    }

    fn version_text(&self) -> Option<String> {
        Some(self.version().to_string())
    }

    async fn metadata<'a, S: Fetch>(&'a self, _: &S) -> Result<&'a Metadata> {
        Ok(self.metadata())
    }

    /// Returns the metadata as a tree, unchanged. See [`Metadata::to_object`](crate::Metadata::to_object) for
    /// its memory use.
    async fn metadata_tree<S: Fetch>(&self, _: &S) -> Result<Value> {
        Ok(Value::Object(self.metadata().to_object()))
    }

    /// Returns an object with `alignment`, in bytes.
    fn details(&self) -> Object {
        Object::from_iter([("alignment", Value::from(self.alignment()))])
    }

    async fn verify<S: Fetch>(&self, source: &S, level: VerifyLevel, work: &Execution<'_>) -> Report {
        crate::verify::verify(self, source, level, work).await
    }
}
