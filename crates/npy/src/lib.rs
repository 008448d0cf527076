//! Reads and verifies NumPy's files: a single array (`.npy`, versions 1 to 3) and archives of arrays
//! (`.npz`), stored or compressed. No code from a file is run: arrays of Python objects, which are pickles,
//! are refused or left out.
//!
//! ```text
//! .npy                                   .npz
//! ┌────────────────────────────┐ 0       ┌────────────────────────────┐ 0
//! │ "\x93NUMPY", version       │         │ header, NAME.npy           │ a zip archive: each member is a .npy file,
//! │ length of the header       │ u16, u32│ …                          │ stored or deflated
//! │ {'descr': '<f4', …}        │ literal ├────────────────────────────┤
//! ├────────────────────────────┤         │ directory                  │ names, sizes, CRC-32s
//! │ values                     │         │ end record                 │
//! └────────────────────────────┘         └────────────────────────────┘
//! ```
//!
//! # Reading
//!
//! The array of a `.npy` file has the name `array`. The arrays of an archive have the names of its members
//! without `.npy`. Values are returned little-endian and in C order, whatever the file's order is.
//!
//! ```
//! use modelfmt_npy::{DType, Reader};
//!
//! let mut file = b"\x93NUMPY\x01\0\x46\0{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }".to_vec();
//! file.resize(10 + 0x46, b' ');
//! file.extend([0, 1, 0, 2]);
//!
//! let reader = Reader::from_source(file)?; // or Reader::open("x.npy")
//! let array = reader.tensor("array")?;
//! assert_eq!((array.dtype(), array.shape()), (DType::I16, &[2][..]));
//! assert_eq!(array.to_vec::<i16>()?, [1, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Verifying
//!
//! An archive has a CRC-32 of each member. [`Reader::verify`](modelfmt_core::Reader::verify) checks them, and
//! so do reads through [`Reader::checked`](modelfmt_core::Reader::checked). A single array has no checksum.
//!
//! # Untrusted files
//!
//! No file makes this crate panic, or allocate more than a small multiple of the bytes that exist. You can
//! lower [`Limits`] further. An error names the record, the byte and the rule that it breaks ([`Fault`]).
//!
//! # Features
//!
//! - `mmap` (default): `modelfmt_core::Mmap`, a source over a memory map; its constructor is `unsafe`.
//! - `parallel` (default): verifying on more than one core. Results never depend on it.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod claims;
mod error;
mod header;
mod index;
mod parser;
mod reader;
mod verify;
mod wire;

pub use error::{Error, Fault, Result};
pub use header::{header, type_name};
pub use index::Index;
pub use parser::{ARRAY, IndexParser};
pub use reader::{AsyncReader, OpenOptions, Reader};

pub use modelfmt_arrays as arrays;

// The parts of modelfmt-core that every format crate re-exports.
#[cfg(all(feature = "mmap", not(target_arch = "wasm32")))]
pub use modelfmt_core::Mmap;
pub use modelfmt_core::{
    self, AlignedBuf, Bytes, Container, DType, Encoding, Execution, Limits, Location, Part, Report, Source,
    Status, TensorInfo, TensorTable, TensorView, VerifyLevel, source, value,
};

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
