//! Opens APRN files: implements the traits of modelfmt-core's readers for this format.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::author::{FileIndex, OpenSettings};
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{Execution, Fetch, OpenFile, Report, TensorTable, VerifyLevel};

use super::index::Index;
use super::parser::IndexParser;
use crate::error::{Fault, Result};

/// Options for opening an APRN file.
pub type OpenOptions = modelfmt_core::OpenOptions<Index>;

/// An open APRN file: its [`Index`] and the source of its bytes.
pub type Reader<S> = modelfmt_core::Reader<OpenFile<Index, S>>;

/// An open APRN file whose source is asynchronous, such as an object store.
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
    type Metadata<'a> = Object;

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
        let (major, minor) = self.version();
        Some(format!("{major}.{minor}"))
    }

    async fn metadata<S: Fetch>(&self, _: &S) -> Result<Object> {
        self.metadata()
    }

    async fn metadata_tree<S: Fetch>(&self, _: &S) -> Result<Value> {
        Ok(self.metadata()?.into())
    }

    /// Returns the kind of the payload and how it is stored. Codes without a name are shown as numbers.
    fn details(&self) -> Object {
        let named = |name: Option<&str>, number: u64| name.map_or_else(|| Value::from(number), Value::from);
        let (model_type, compression) = (self.model_type(), self.compression());
        let mut details = Object::new();
        details.insert("model_type", named(model_type.name(), model_type.0.into()));
        details.insert("payload_nbytes", self.payload().len());
        details.insert("uncompressed_nbytes", u64::from(self.header.uncompressed_size));
        details.insert("compression", named(compression.name(), compression.0.into()));
        details.insert("flags", self.flags().names().map(String::from).collect::<Value>());
        details.insert("quality", u64::from(self.quality()));
        details
    }

    async fn verify<S: Fetch>(&self, source: &S, level: VerifyLevel, work: &Execution<'_>) -> Report {
        super::verify::report(self, source, level, work).await
    }
}
