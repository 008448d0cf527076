//! Opens files, sealed or not: implements the traits of modelfmt-core's readers for this format.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;
use std::sync::Arc;

use apr2::Metadata;
use modelfmt_core::claims::{FileClaims, WantedRange};
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{
    Bytes, Execution, Fetch, Location, OpenFile, Report, TensorTable, VerifyLevel,
    author::{FileIndex, OpenSettings},
};

use crate::error::{Fault, Result};
use crate::index::Index;
use crate::parser::IndexParser;

/// Options for opening an APR2 or APR1 file.
pub type OpenOptions = modelfmt_core::OpenOptions<Index>;

/// An open APR2 or APR1 file: its [`Index`] and the source of its bytes.
///
/// Reading a compressed tensor piece by piece takes linear time.
pub type Reader<S> = modelfmt_core::Reader<OpenFile<Index, S>>;

/// An open APR2 or APR1 file whose source is asynchronous, such as an object store.
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

    fn parser(file_len: u64, settings: &OpenSettings) -> IndexParser {
        IndexParser::new(file_len, settings.limits_ref().clone(), settings.extension())
    }

    fn file_len(&self) -> u64 {
        self.file_len()
    }

    fn tensors(&self) -> &TensorTable {
        self.tensors()
    }

    fn location(&self, position: usize) -> Option<Location> {
        self.location(position)
    }

    async fn read<'s, S: Fetch>(
        &self,
        source: &'s S,
        position: usize,
        work: Option<&Execution<'_>>,
    ) -> Result<Bytes<'s>> {
        match &self.seal {
            Some(seal) => crate::sealed::read(self, seal, source, position, work).await,
            None => FileIndex::read(&self.plain, source, position, work).await,
        }
    }

    async fn read_into<S: Fetch>(
        &self,
        source: &S,
        position: usize,
        offset: u64,
        out: &mut [u8],
    ) -> Result<()> {
        match &self.seal {
            Some(seal) => crate::sealed::read_into(self, seal, source, position, offset, out).await,
            None => FileIndex::read_into(&self.plain, source, position, offset, out).await,
        }
    }

    fn checks_reads(&self) -> bool {
        self.seal.is_some()
    }

    /// Reads block headers to find the range of a compressed tensor.
    async fn stored_range<S: Fetch>(
        &self,
        source: &S,
        position: usize,
        values: Range<u64>,
    ) -> Result<Range<u64>> {
        match &self.seal {
            Some(seal) => crate::sealed::stored_range(self, seal, source, position, values).await,
            None => FileIndex::stored_range(&self.plain, source, position, values).await,
        }
    }

    async fn claims<S: Fetch>(
        index: &Arc<Self>,
        source: &S,
        wanted: &[WantedRange],
        claims: &mut FileClaims<'_>,
    ) -> Result<()> {
        match &index.seal {
            Some(_) => Ok(()), // every read is checked by itself
            None => apr2::author::claims(&index.plain, source, wanted, claims).await,
        }
    }

    fn version_text(&self) -> Option<String> {
        self.plain.version_text()
    }

    async fn metadata<'a, S: Fetch>(&'a self, _: &S) -> Result<&'a Metadata> {
        Ok(self.metadata())
    }

    async fn metadata_tree<S: Fetch>(&self, source: &S) -> Result<Value> {
        FileIndex::metadata_tree(&self.plain, source).await
    }

    /// Returns the flags and the alignment, and for a sealed file also its signatures and slots.
    fn details(&self) -> Object {
        let mut details = self.plain.details();
        if let Some(seal) = self.seal() {
            crate::sealed::details(seal, &mut details);
        }
        details
    }

    async fn verify<S: Fetch>(&self, source: &S, level: VerifyLevel, work: &Execution<'_>) -> Report {
        crate::verify::report(self, source, level, work).await
    }
}
