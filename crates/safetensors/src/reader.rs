//! Opens safetensors files: what [`modelfmt_core::Reader`] asks of the format.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::value::{Object, Value};
use modelfmt_core::{Execution, Fetch, Limits, Report, TensorTable, VerifyLevel, author::FileIndex};

use crate::MAX_HEADER_LEN;
use crate::error::{Fault, Result};
use crate::index::Index;
use crate::parser::IndexParser;

modelfmt_core::reader! {
    "safetensors", Index, Result, Option<&Object>;

    /// How a safetensors file is opened. The limit `index_len` caps the header.
    pub struct OpenOptions;

    /// An open safetensors file: its [`Index`] and the source of its bytes.
    pub struct Reader<S>;

    /// An open safetensors file over bytes that arrive later, such as from an object store.
    pub struct AsyncReader<S>;
}

impl FileIndex for Index {
    type Fault = Fault;
    type Parser = IndexParser;
    type Metadata<'a> = Option<&'a Object>;

    /// The default limits: those of modelfmt-core, but headers of at most [`MAX_HEADER_LEN`]
    /// bytes, as in the reference implementation.
    fn default_limits() -> Limits {
        let mut limits = Limits::default();
        limits.index_len = MAX_HEADER_LEN;
        limits
    }

    fn parser(file_len: u64, options: &modelfmt_core::OpenOptions) -> IndexParser {
        IndexParser::new(file_len, options.limits_ref().clone())
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

    /// The object of `__metadata__`, empty if the file has none.
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
