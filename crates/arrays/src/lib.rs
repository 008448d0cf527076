//! What the readers of PyTorch's and NumPy's files share: zip archives that are read by ranges, records that are stored or
//! deflated, and arrays with strides in them.
//!
//! If you want to read such files, depend on `modelfmt-pytorch` or `modelfmt-npy`; this crate is for their authors.
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
//! [`DirectoryParser`](zip::DirectoryParser) asks for the end of the file, then for the directory, and never for more; the header before a member is
//! checked against the directory when the member is used. No crate on crates.io does this with bounds: `zip` and `async_zip` want a
//! stream that seeks, and `rc-zip`, which leaves input and output to its caller, takes counts and overlaps as they are.
//!
//! # Deflate
//!
//! A compressed record is decoded from its beginning. Where a read has stopped, the next one goes on, so reading piece after piece takes
//! linear time. The CRC-32 of a record is a claim over the bytes that it takes, compressed or not.
//!
//! # Strides
//!
//! Elements that are not in order are gathered: places are sorted, and what lies close together is fetched at once.
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
