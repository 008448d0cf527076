//! The parts of reading model files that all formats share: sources of bytes ([`Source`],
//! [`Files`](source::Files)), tools to parse untrusted files ([`author`], [`Limits`]), the reader of all
//! formats ([`Reader`]), and its results ([`Error`], [`Report`]). The crate `modelfmt-write` does the same
//! for writing.
//!
//! Three crates are re-exported here: `tensor-core` has the types that describe tensors ([`DType`],
//! [`TensorInfo`], [`TensorView`]), `modelfmt-value` the metadata tree ([`value`]), and `modelfmt-digest`
//! digests of pieces in any order ([`ledger`]).
//!
//! To read files, depend on a format crate instead. Format crates re-export the parts of this crate that you
//! need.
//!
//! ```text
//!  Source: "give me this range"
//!     │
//!  Parser: bytes → the format's Index
//!     │    (Cursor, Extent, Limits)
//!  FileIndex: a TensorTable, and where values lie
//!     │
//!  Reader: Index + Source
//!     │
//!  TensorView: info + Bytes
//! ```
//!
//! # Ranges
//!
//! Anything that answers "give me this range" is a [`Source`]: a browser's file handle, an HTTP client, an object store.
//! Slices, buffers, files and maps are sources already. [`contract_test`](source::contract_test) tests your own.
//!
//! ```
//! use std::io;
//!
//! use modelfmt_core::Source;
//! use modelfmt_core::source::{checked_len, contract_test};
//!
//! struct Remote {
//!     url: String,
//!     len: u64, // from a HEAD request
//! }
//!
//! impl Source for Remote {
//!     fn len(&self) -> u64 {
//!         self.len
//!     }
//!     fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
//!         let end = offset.checked_add(out.len() as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
//!         checked_len(&(offset..end), self.len)?; // a range past the end is an error before the server is asked
//!         get(&self.url, offset, out) // GET with `Range: bytes=offset-…`
//!     }
//! }
//!
//! # fn get(text: &str, offset: u64, out: &mut [u8]) -> io::Result<()> { text.as_bytes().read_into(offset, out) }
//! # let remote = Remote { url: "the quick brown fox".to_owned(), len: 19 };
//! assert_eq!(*remote.read(4..9)?, *b"quick");
//! contract_test(&remote, b"the quick brown fox")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Verifying
//!
//! A [`Report`] lists every check that was made, with all findings. Heavy work ([`Execution`]) is done in
//! pieces, on several cores if threads can share the source.
//!
//! ```
//! use modelfmt_core::{VerifyLevel, Report, Execution};
//!
//! let values = [0u8, 1, 1, 2, 0];
//! let look = |at: u64, piece: &[u8]| {
//!     let bad = piece.iter().zip(at..).filter(|(value, _)| **value > 1);
//!     bad.map(|(value, at)| format!("byte {at}: {value} is no boolean")).collect::<Vec<_>>()
//! };
//! let mut findings = Vec::new(); // pieces come in order, whatever the threads
//! Execution::default().scan(&&values[..], 0..5, 4, look, |found| findings.extend(found))?;
//!
//! let mut report = Report::new(VerifyLevel::Full);
//! report.add("values", findings, "5 booleans");
//! assert_eq!(report.errors, ["byte 3: 2 is no boolean"]);
//! assert!(report.into_result().is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Untrusted files
//!
//! Only a [`Cursor`](author::Cursor) indexes bytes of a file, every range passes through
//! [`Extent::new`](author::Extent::new), and every count through [`Limits`]. Nothing is allocated for a
//! number before the bytes that it claims are known to exist.
//!
//! # Features
//!
//! - `mmap` (default): [`Mmap`], a source over a memory map; its constructor is `unsafe`.
//! - `parallel` (default): [`Execution`] uses more than one thread. Results never depend on it.
//! - `serde`: serializes [`value::Value`] and [`Report`], and deserializes values.
//! - `json`: [`value::json`], metadata from and to JSON text; enables `serde`.
//! - `proof`: the module `proof`, with sources that check the bytes they read against a hash that you know.
//! - `direct`: on Linux, [`load`] can bypass the page cache, or make the cache drop the bytes that were read.
//! - `crc32`: `author::Crc`, the CRC of pieces that come in any order.
//!
//! Everything builds for `wasm32-unknown-unknown`, without access to files there; offsets stay 64 bits wide.
//! On big-endian machines everything works except zero-copy slices of elements wider than a byte, which are
//! an error ([`TensorError::Endianness`]); copying and decoding swap bytes.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod author;
pub mod claims;
mod container;
mod cursor;
mod endian;
mod error;
mod execution;
mod extent;
mod fetch;
mod file_index;
mod limits;
pub mod load;
#[cfg(feature = "json")]
mod metadata;
mod options;
mod parse;
mod parts;
pub mod plan;
#[cfg(feature = "proof")]
pub mod proof;
pub mod read;
mod report;
mod set;
mod settings;
pub mod source;
mod table;

pub use container::Container;
pub use error::{
    AnyError, AnyFault, AnyWriteError, BoxError, CommonError, CommonFault, Error, Fault, Part, WriteError,
};
pub use execution::{Execution, Progress};
pub use fetch::{Fetch, FetchFiles};
pub use limits::Limits;
pub use modelfmt_digest as ledger;
pub use modelfmt_value as value;
pub use options::OpenOptions;
pub use read::{AsyncChecked, AsyncReader, Checked, OpenFile, Reader, TensorKey};
pub use report::{Check, Report, Status, VerifyError, VerifyLevel};
pub use set::OpenSet;
#[cfg(all(feature = "mmap", not(target_arch = "wasm32")))]
pub use source::Mmap;
pub use source::Source;
pub use table::{Encoding, Location, Stored, TensorTable};
pub use tensor_core::{
    ALIGNMENT, AlignedBuf, Block, Bytes, DType, DisplayShape, Element, Kind, SmallType, TensorError,
    TensorInfo, TensorView, UnknownDType, View, bf16, element_count, f16, implied_nbytes,
};

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
