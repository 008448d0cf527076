//! Opens APR files: implements the traits of modelfmt-core's readers for this format.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;
use std::sync::Arc;

use modelfmt_core::claims::{FileClaims, WantedRange};
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{
    AlignedBuf, Bytes, Execution, Fetch, Location, OpenFile, Part, Report, TensorInfo, TensorTable,
    VerifyLevel,
    author::{Extent, FileIndex, OpenSettings, to_usize_saturating},
};

use crate::error::{Error, Fault, Result, malformed};
use crate::index::Index;
use crate::metadata::Metadata;
use crate::parser::IndexParser;

/// Options for opening an APR file: limits, and whether its header must match its checksum.
pub type OpenOptions = modelfmt_core::OpenOptions<Index>;

/// An open APR file: its [`Index`] and the source of its bytes.
pub type Reader<S> = modelfmt_core::Reader<OpenFile<Index, S>>;

/// An open APR file whose source is asynchronous, such as an object store.
pub type AsyncReader<S> = modelfmt_core::AsyncReader<OpenFile<Index, S>>;

impl Index {
    fn placed(&self, position: usize) -> Result<(TensorInfo<'_>, Extent)> {
        let info = self.tensors().info(position).ok_or_else(|| Error::no_such_position(position))?;
        let offset = self.tensors().offset(position).unwrap_or(0); // every tensor here has one
        let extent = Extent::new(offset, info.nbytes, self.len());
        extent
            .map(|extent| (info, extent))
            .map_err(|fault| malformed(Part::named("tensor", info.name), offset, fault))
    }

    /// Returns the bytes of an extent in the decompressed form of a compressed file.
    fn in_image(&self, extent: Extent) -> Option<&[u8]> {
        let image = self.image.as_ref()?.bytes();
        image.get(to_usize_saturating(extent.offset())..)?.get(..to_usize_saturating(extent.len()))
    }
}

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
        IndexParser::new(file_len, settings.limits_ref().clone(), !settings.ignores_checksum())
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
        _: Option<&Execution<'_>>,
    ) -> Result<Bytes<'s>> {
        let (_, extent) = self.placed(position)?;
        let failed = |source| Error::Io { at: extent.offset(), len: extent.len(), source };
        match self.in_image(extent) {
            Some(bytes) => Ok(Bytes::Owned(AlignedBuf::copy_from_slice(bytes).map_err(failed)?)),
            None => source.fetch(extent.range()).await.map_err(failed),
        }
    }

    async fn read_into<S: Fetch>(
        &self,
        source: &S,
        position: usize,
        offset: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let (info, extent) = self.placed(position)?;
        let len = out.len() as u64;
        let part = extent.part(offset, len).map_err(|_| Error::out_of_range(&info, offset, len))?;
        if let Some(bytes) = self.in_image(part) {
            out.copy_from_slice(bytes);
            return Ok(());
        }
        let at = part.offset();
        source.fetch_into(at, out).await.map_err(|source| Error::Io { at, len, source })
    }

    /// Returns an empty range if the file is compressed as a whole, because opening has then read everything.
    fn stored_extent(&self, position: usize) -> Option<Range<u64>> {
        let (_, extent) = self.placed(position).ok()?;
        Some(if self.image.is_some() { 0..0 } else { extent.range() })
    }

    async fn claims<S: Fetch>(
        index: &Arc<Self>,
        source: &S,
        wanted: &[WantedRange],
        claims: &mut FileClaims<'_>,
    ) -> Result<()> {
        crate::claims::claims(index, source, wanted, claims).await
    }

    fn version_text(&self) -> Option<String> {
        let (major, minor) = self.version();
        Some(format!("{major}.{minor}"))
    }

    async fn metadata<'a, S: Fetch>(&'a self, _: &S) -> Result<&'a Metadata> {
        Ok(self.metadata())
    }

    async fn metadata_tree<S: Fetch>(&self, _: &S) -> Result<Value> {
        Ok(self.metadata().to_object().into())
    }

    /// Returns the flags, and which of the two magics the file has.
    fn details(&self) -> Object {
        let mut details = Object::new();
        details.insert("flags", self.flags().names().map(String::from).collect::<Value>());
        details.insert("magic", self.magic().name());
        details
    }

    async fn verify<S: Fetch>(&self, source: &S, level: VerifyLevel, work: &Execution<'_>) -> Report {
        crate::verify::report(self, source, level, work).await
    }
}
