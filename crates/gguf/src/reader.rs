//! Opens GGUF files: what [`modelfmt_core::Reader`] asks of the format.

use modelfmt_core::value::{Object, Value};
use modelfmt_core::{Execution, Fetch, FileIndex, Limits, Report, TensorTable, VerifyLevel, parse_source};

use crate::error::{Fault, Result};
use crate::index::{Index, default_limits};
use crate::parser::IndexParser;

/// How a file is opened. Of the limits, `index_len` caps all that stands before the data, `metadata_len` the values in it.
pub type OpenOptions = modelfmt_core::OpenOptions<Index>;

/// An open GGUF file: its [`Index`] and the source of its bytes.
pub type Reader<S> = modelfmt_core::Reader<Index, S>;

impl Index {
    /// Reads the index of a file whose bytes these are, with the [default limits](default_limits).
    ///
    /// # Errors
    /// If they break a rule of the format.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        parse_source(IndexParser::new(bytes.len() as u64, default_limits()), &bytes)
    }
}

impl FileIndex for Index {
    type Fault = Fault;
    type Parser = IndexParser;

    fn default_limits() -> Limits {
        default_limits()
    }

    fn parser(file_len: u64, options: &OpenOptions) -> IndexParser {
        IndexParser::new(file_len, options.limits_ref().clone())
    }

    fn file_len(&self) -> u64 {
        self.file_len()
    }

    fn tensors(&self) -> &TensorTable {
        self.tensors()
    }

    fn version_text(&self) -> Option<String> {
        Some(self.version().to_string())
    }

    /// Key to value, verbatim. See [`Metadata::to_object`](crate::Metadata::to_object) for what it takes.
    async fn metadata_tree<S: Fetch>(&self, _: &S) -> Result<Value> {
        Ok(Value::Object(self.metadata().to_object()))
    }

    /// `alignment`, in bytes.
    fn details(&self) -> Object {
        Object::from_iter([("alignment", Value::from(self.alignment()))])
    }

    async fn verify<S: Fetch>(&self, source: &S, level: VerifyLevel, work: &Execution<'_>) -> Report {
        crate::verify::verify(self, source, level, work).await
    }
}
