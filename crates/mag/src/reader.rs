//! Opens MAG files: implements the traits of modelfmt-core's readers for this format.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::value::{Object, Value};
use modelfmt_core::{
    Execution, Fetch, OpenFile, Report, TensorTable, VerifyLevel,
    author::{FileIndex, OpenSettings},
};

use crate::error::{Fault, Result};
use crate::index::Index;
use crate::parser::IndexParser;

/// Options for opening a MAG file: limits, and whether its checksum must match.
pub type OpenOptions = modelfmt_core::OpenOptions<Index>;

/// An open MAG file: its [`Index`] and the source of its bytes.
pub type Reader<S> = modelfmt_core::Reader<OpenFile<Index, S>>;

/// An open MAG file whose source is asynchronous, such as an object store.
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
    type Metadata<'a> = &'a Object;

    fn parser(file_len: u64, settings: &OpenSettings) -> IndexParser {
        IndexParser::new(file_len, settings.limits_ref().clone(), !settings.ignores_checksum())
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

    async fn metadata<'a, S: Fetch>(&'a self, _: &S) -> Result<&'a Object> {
        Ok(self.metadata())
    }

    async fn metadata_tree<S: Fetch>(&self, _: &S) -> Result<Value> {
        Ok(self.to_metadata().into())
    }

    /// Returns an object with the key `checksum`: the kind of the file's checksum, or null if it matches no
    /// kind or the version has none.
    fn details(&self) -> Object {
        let checksum = self.checksum().map_or(Value::Null, |kind| kind.name().into());
        #[cfg_attr(not(feature = "v0_3"), allow(unused_mut, reason = "the other versions have nothing more"))]
        let mut details = Object::from_iter([("checksum", checksum)]);
        #[cfg(feature = "v0_3")]
        if let Some(manifest) = self.manifest() {
            details.insert("timestamp", manifest.timestamp());
            details.insert("magnetron", manifest.magnetron_version());
        }
        details
    }

    async fn verify<S: Fetch>(&self, source: &S, level: VerifyLevel, _: &Execution<'_>) -> Report {
        crate::verify::verify(self, source, level).await // no checksum covers the values
    }
}
