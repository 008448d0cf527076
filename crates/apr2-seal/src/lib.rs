//! Signs and encrypts APR2 model files, and reads, verifies and writes such files (SEAL 1), based on the
//! crate `modelfmt-apr2`.
//!
//! This crate re-exports the readers and options of `modelfmt-apr2`. They open every APR2 and APR1 file,
//! sealed or not. [`Access`](seal::Access) holds what you require of a file, and the keys to open it.
//!
//! ```
//! use apr2_seal::seal::{Access, Identity, SealOptions, SigningKey};
//! use apr2_seal::write::MemoryFile;
//! use apr2_seal::{DType, Execution, Metadata, OpenOptions, Plan, TensorSpec, WriteOptions};
//!
//! let (alice, carol) = (SigningKey::from_bytes(&[1; 32]), Identity::from_bytes(&[2; 32])); // from files, really
//! let specs = [TensorSpec::new("w", DType::U8, vec![3])];
//! let plan = Plan::new(specs, &Metadata::new("tiny", Default::default()), &WriteOptions::new())?;
//! let file = MemoryFile::new();
//! let seal = SealOptions::new().sign(alice.clone()).recipient(carol.recipient());
//! seal.write(&plan, &[[1u8, 2, 3]], &file, &Execution::default())?;
//!
//! let access = Access::new().trust(alice.verifying_key()).open_with(carol);
//! let model = OpenOptions::new().with_extension(access).open_source(file.into_bytes())?;
//! assert_eq!(model.tensor("w")?.bytes(), [1, 2, 3]); // checked against what alice has signed
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Index::sign`] and [`Index::rekey`] change a file that is already sealed, without reading its tensors.
//!
//! # Untrusted files
//!
//! The promises of `modelfmt-apr2` hold for sealed files too: no panic, and no more memory than a small
//! multiple of the bytes that exist. [`Argon2Caps`](seal::Argon2Caps) limit the cost of a passphrase.
//!
//! # Features
//!
//! - `aws-lc-rs`: AWS-LC instead of RustCrypto encrypts and decrypts values, which is faster. The bytes are
//!   the same. It needs a C compiler. On wasm32 it has no effect.
//! - `mmap` (default), `parallel` (default): the features of `modelfmt-apr2`.
//!
//! On `wasm32-unknown-unknown`, choose the source of randomness with the features of the crate `getrandom`.
//! Only writing needs randomness.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod error;
mod index;
mod parser;
mod reader;
pub mod seal;
mod sealed;
mod set;
mod verify;

pub use index::Index;
pub use reader::{AsyncReader, OpenOptions, Reader};
pub use sealed::Written;
pub use set::{AsyncSetReader, SetIndex, SetReader};

// Re-exports that do not depend on the seal.
#[cfg(all(feature = "mmap", not(target_arch = "wasm32")))]
pub use apr2::Mmap;
#[cfg(not(target_arch = "wasm32"))]
pub use apr2::save;
pub use apr2::{
    self, AlignedBuf, Alignment, Bytes, Compression, Container, DType, EditError, Encoding, Error, Execution,
    Fault, Flags, Generation, Limits, Location, MelFilterbank, Metadata, Overwrite, Part, Plan, Quantization,
    Report, Result, SealFault, Sections, SetPlan, Shard, Source, Status, TensorData, TensorInfo, TensorSpec,
    TensorTable, TensorView, VerifyLevel, View, WriteError, WriteOptions, can_hold, modelfmt_core, shard_crc,
    source, value, write,
};

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
