//! Loading step by step, as the specification's "Streaming Load" asks: metadata alone, the index alone, one tensor, some
//! tensors ahead.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_core::{
    Bytes, Part, Source, TensorTable, TensorView,
    author::{Cursor, now},
};

use crate::apr1;
use crate::error::{Error, Fault, Result, malformed};
use crate::index::{Generation, Head, Sealing, Tensors};
use crate::metadata::Metadata;
use crate::parser;
use crate::prefetch::Prefetched;
use crate::reader::OpenOptions;
use crate::wire::{Flags, Footer};

/// Loads parts of a file when you ask for them, and keeps them: for browsers and other places where a read is slow.
///
/// It does not look at seal sections: encrypted files are refused, and signatures and digests are not checked. A
/// [`Reader`](crate::Reader) does that.
///
/// ```
/// # let plan = apr2::Plan::new([apr2::TensorSpec::new("w", apr2::DType::U8, vec![3])],
/// #     &apr2::Metadata::new("tiny", Default::default()), &apr2::WriteOptions::new())?;
/// # let file = apr2::write::MemoryFile::new();
/// # plan.write(&[[1u8, 2, 3]], &file, &apr2::Execution::default())?;
/// # let bytes = file.into_bytes();
/// let mut loader = apr2::StreamingLoader::new(bytes);
/// println!("{:?}", loader.load_metadata()?.model_type()); // reads the header and the metadata
/// println!("{} tensors", loader.load_index()?.len());     // reads index and footer
/// loader.prefetch(&["w"])?;                               // reads these tensors, neighbours together
/// assert_eq!(loader.load_tensor("w")?.bytes(), [1, 2, 3]); // reads nothing
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StreamingLoader<S> {
    options: OpenOptions,
    source: Prefetched<S>,
    head: Option<Head>,
    metadata: Option<Metadata>,
    /// Empty until `has_index`.
    tensors: Tensors,
    has_index: bool,
}

impl<S: Source> StreamingLoader<S> {
    /// A loader that has read nothing yet.
    #[must_use]
    pub fn new(source: S) -> Self {
        Self::with_options(source, OpenOptions::new())
    }

    /// A loader that opens with these options.
    #[must_use]
    pub fn with_options(source: S, options: OpenOptions) -> Self {
        let source = Prefetched::new(source);
        Self { options, source, head: None, metadata: None, tensors: Tensors::default(), has_index: false }
    }

    /// The metadata alone: the header and the metadata are read, and nothing else.
    ///
    /// # Errors
    /// If they cannot be read or break a rule of the format.
    pub fn load_metadata(&mut self) -> Result<&Metadata> {
        let metadata = match self.metadata.take() {
            Some(metadata) => metadata,
            None => {
                let section = self.head()?.sections.metadata;
                let bytes = read(&self.source, section.range())?;
                Metadata::parse(&bytes, section.offset(), self.options.shared.limits_ref())?
            }
        };
        Ok(self.metadata.insert(metadata))
    }

    /// The tensor index alone: the header, the index and the footer are read, and nothing else.
    ///
    /// # Errors
    /// If they cannot be read or break a rule of the format.
    pub fn load_index(&mut self) -> Result<&TensorTable> {
        if !self.has_index {
            self.tensors = self.read_index()?;
            self.has_index = true;
        }
        Ok(self.tensors.table())
    }

    /// A tensor with its values; loads the index first, if need be. What has been prefetched is not read again.
    ///
    /// # Errors
    /// As [`Reader::tensor`](crate::Reader::tensor), and as [`load_index`](Self::load_index).
    pub fn load_tensor(&mut self, name: &str) -> Result<TensorView<'_>> {
        self.load_index()?;
        let position = self.tensors.position(name)?;
        let info = self.tensors.table().info(position).ok_or_else(|| Error::no_such_position(position))?;
        let at = || self.tensors.table().offset(position).unwrap_or(0);
        modelfmt_core::author::view_of_source(info, now(self.tensors.read(&self.source, position, None))?, at)
    }

    /// Fills `out` with the values of a tensor from byte `offset` on; loads the index first, if need be.
    ///
    /// # Errors
    /// As [`Reader::read_into`](crate::Reader::read_into), and as [`load_index`](Self::load_index).
    pub fn load_into(&mut self, name: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        self.load_index()?;
        now(self.tensors.read_into(&self.source, self.tensors.position(name)?, offset, out))
    }

    /// Reads these tensors now, neighbouring ones together, and keeps their stored bytes until [`forget`](Self::forget).
    ///
    /// # Errors
    /// [`Error::NotFound`] for a name that the file does not have, before anything is read; [`Error::Io`].
    pub fn prefetch(&mut self, names: &[&str]) -> Result<()> {
        self.load_index()?;
        let positions = names.iter().map(|name| self.tensors.position(name)).collect::<Result<Vec<_>>>()?;
        self.source.fetch(&self.tensors, &positions)
    }

    /// Frees the memory of prefetched tensors.
    pub fn forget(&mut self) {
        self.source.clear();
    }

    /// The number of bytes kept for prefetched tensors.
    #[must_use]
    pub fn held_nbytes(&self) -> u64 {
        self.source.held_nbytes()
    }

    fn head(&mut self) -> Result<Head> {
        let head = match self.head {
            Some(head) => head,
            None => {
                let head = parser::read_head(&self.source, self.options.shared.limits_ref())?;
                self.refuse_sealed(&head)?;
                head
            }
        };
        Ok(*self.head.insert(head))
    }

    /// A loader checks no seal: what it cannot check or decrypt, and a caller that demands it, are refused.
    fn refuse_sealed(&self, head: &Head) -> Result<()> {
        let part = || Part::new("header").with_field("flags");
        #[cfg(feature = "sign")]
        if self.options.shared.extension::<crate::seal::Access>().is_some_and(|access| access.demands()) {
            let fault =
                crate::error::SealFault::Missing("a StreamingLoader checks no signature; use a Reader");
            return Err(malformed(part(), 8, fault));
        }
        if head.flags.contains(Flags::ENCRYPTED) {
            Err(malformed(part(), 8, Fault::Encrypted))
        } else {
            Ok(())
        }
    }

    fn read_index(&mut self) -> Result<Tensors> {
        let head = self.head()?;
        let limits = self.options.shared.limits_ref();
        let section = head.sections.index;
        match head.generation {
            Generation::Apr2 => {
                let (footer, len) = (head.sections.data.end(), self.source.len());
                let bytes = read(&self.source, footer..len)?;
                Footer::decode(&mut Cursor::new(&bytes, footer), len)?;
                let bytes = read(&self.source, section.range())?;
                Tensors::parse(&bytes, &head.sections, Sealing::None, limits)
            }
            Generation::Apr1 => apr1::tensors(&read(&self.source, section.range())?, &head, limits),
        }
    }
}

fn read<S: Source>(source: &S, range: Range<u64>) -> Result<Bytes<'_>> {
    let (at, len) = (range.start, range.end.saturating_sub(range.start));
    source.read(range).map_err(|source| Error::Io { at, len, source })
}
