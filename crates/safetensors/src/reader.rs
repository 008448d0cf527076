//! Opens safetensors files: implements the traits of modelfmt-core's readers for this format.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::value::{Object, Value};
use modelfmt_core::{
    Execution, Fetch, Limits, OpenFile, Report, TensorTable, VerifyLevel,
    author::{FileIndex, OpenSettings},
};

use crate::MAX_HEADER_LEN;
use crate::error::{Fault, Result};
use crate::index::Index;
use crate::parser::IndexParser;

/// Options for opening a safetensors file. The limit `index_len` caps the header.
pub type OpenOptions = modelfmt_core::OpenOptions<Index>;

/// An open safetensors file: its [`Index`] and the source of its bytes.
pub type Reader<S> = modelfmt_core::Reader<OpenFile<Index, S>>;

/// An open safetensors file whose source is asynchronous, such as an object store.
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
    type Metadata<'a> = Option<&'a Object>;

    /// Returns the default limits: those of modelfmt-core, but headers of at most [`MAX_HEADER_LEN`] bytes,
    /// as in the reference implementation.
    fn default_limits() -> Limits {
        let mut limits = Limits::default();
        limits.index_len = MAX_HEADER_LEN;
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

    fn version_text(&self) -> Option<String> {
        None
    }

    async fn metadata<'a, S: Fetch>(&'a self, _: &S) -> Result<Option<&'a Object>> {
        Ok(self.metadata())
    }

    /// Returns the `__metadata__` object, or an empty object if the file has none.
    async fn metadata_tree<S: Fetch>(&self, _: &S) -> Result<Value> {
        Ok(Value::Object(self.to_metadata().unwrap_or_default()))
    }

    fn details(&self) -> Object {
        Object::new()
    }

    async fn verify<S: Fetch>(&self, _: &S, level: VerifyLevel, _: &Execution<'_>) -> Report {
        crate::verify::file(self, level) // no rule covers the values
    }
}
