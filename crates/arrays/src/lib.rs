//! The common part of the readers for PyTorch's and NumPy's files: zip archives read by ranges, stored or
//! deflated records, and arrays with strides in these records.
//!
//! To read such files, depend on `modelfmt-pytorch` or `modelfmt-npy`. This crate is for the authors of such
//! readers.
//!
//! ```text
//! file ── DirectoryParser ──▶ Directory ──▶ Record: bytes from..to, stored or deflated, CRC-32
//!                                              │
//!                             Arrays: name, dtype, shape, strides, record, first byte
//!                                              │
//!                                   values, little-endian, in order
//! ```
//!
//! # Zip
//!
//! [`DirectoryParser`](zip::DirectoryParser) asks for the end of the file, then for the directory, and never
//! for more. The header before a member is checked against the directory when the member is used. No crate on
//! crates.io does this with bounds: `zip` and `async_zip` need a seekable stream, and `rc-zip`, which leaves
//! I/O to its caller, does not check counts and overlaps.
//!
//! # Deflate
//!
//! A compressed record is decoded from its beginning. The next read continues where the last one stopped, so
//! reading piece by piece takes linear time. The CRC-32 of a record is a claim over the bytes that the record
//! takes in the file, compressed or not.
//!
//! # Strides
//!
//! Elements that are not in order are gathered: their offsets are sorted, and nearby elements are fetched
//! together.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod arrays;
mod crc;
mod error;
mod inflate;
mod record;
mod strided;
pub mod zip;

pub use arrays::{Arrays, NewArray};
pub use error::{ArrayFault, Fault};
pub use inflate::{inflate_start, inflate_whole};
pub use record::{Method, Record};
