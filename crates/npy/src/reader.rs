//! Opens .npy and .npz files: implements the traits of modelfmt-core's readers for this format.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::sync::Arc;

use modelfmt_core::author::{FileIndex, OpenSettings};
use modelfmt_core::claims::{FileClaims, WantedRange};
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{Bytes, Execution, Fetch, Location, OpenFile, Report, TensorTable, VerifyLevel};

use crate::error::{Fault, Result};
use crate::index::Index;
use crate::parser::IndexParser;

/// Options for opening a .npy or .npz file.
pub type OpenOptions = modelfmt_core::OpenOptions<Index>;

/// An open .npy or .npz file: its [`Index`] and the source of its bytes.
pub type Reader<S> = modelfmt_core::Reader<OpenFile<Index, S>>;

/// An open .npy or .npz file whose source is asynchronous, such as an object store.
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
    type Metadata<'a> = ();

    fn parser(file_len: u64, settings: &OpenSettings) -> IndexParser {
        IndexParser::new(file_len, settings.limits_ref().clone())
    }

    fn file_len(&self) -> u64 {
        self.file_len()
    }

    fn tensors(&self) -> &TensorTable {
        self.tensors()
    }

    fn location(&self, position: usize) -> Option<Location> {
        self.arrays.location(position)
    }

    async fn read<'s, S: Fetch>(
        &self,
        source: &'s S,
        position: usize,
        _: Option<&Execution<'_>>,
    ) -> Result<Bytes<'s>> {
        self.arrays.read(source, position).await
    }

    async fn read_into<S: Fetch>(
        &self,
        source: &S,
        position: usize,
        offset: u64,
        out: &mut [u8],
    ) -> Result<()> {
        self.arrays.read_into(source, position, offset, out).await
    }

    async fn claims<S: Fetch>(
        index: &Arc<Self>,
        _: &S,
        wanted: &[WantedRange],
        claims: &mut FileClaims<'_>,
    ) -> Result<()> {
        crate::claims::claims(index, wanted, claims)
    }

    /// Returns the version of the header of a single array, or `None` for an archive.
    fn version_text(&self) -> Option<String> {
        self.version.map(|major| format!("{major}.0"))
    }

    async fn metadata<S: Fetch>(&self, _: &S) -> Result<()> {
        Ok(())
    }

    async fn metadata_tree<S: Fetch>(&self, _: &S) -> Result<Value> {
        Ok(Value::Object(Object::new()))
    }

    fn details(&self) -> Object {
        Object::new()
    }

    fn warnings(&self) -> Vec<String> {
        self.left_out().to_vec()
    }

    async fn verify<S: Fetch>(&self, source: &S, level: VerifyLevel, work: &Execution<'_>) -> Report {
        crate::verify::report(self, source, level, work).await
    }
}
