//! Reads, verifies and edits TOY files, a format that nobody uses: it shows what a format takes at least, and `cargo xtask ci`
//! adds it to a copy of the project as CONTRIBUTING says.
//!
//! ```text
//! ┌────────────────────┐ 0
//! │ "TOY!", u32 count  │
//! ├────────────────────┤ 8
//! │ record × count     │ u8 dtype (0 f32, 1 u8), u8 rank, u16 length of the name, u64 offset, u64 × rank, name
//! ├────────────────────┤
//! │ values             │ each where its record says
//! └────────────────────┘
//! ```
//!
//! All numbers are little-endian; offsets count from the start of the file.

mod edit;
mod error;
mod index;
mod reader;
mod verify;
mod wire;

pub use error::{EditError, Error, Fault, Result, WriteError};
pub use index::{Index, IndexParser};
pub use reader::{AsyncReader, OpenOptions, Reader};

// What every format crate has of modelfmt-core.
#[cfg(all(feature = "mmap", not(target_arch = "wasm32")))]
pub use modelfmt_core::Mmap;
pub use modelfmt_core::{
    self, AlignedBuf, Bytes, Container, DType, Encoding, Execution, Limits, Location, Part, Report, Source,
    Status, TensorInfo, TensorTable, TensorView, VerifyLevel, source, value,
};
