//! Code that the tests of several crates share. Not published; its functions panic, as tests do.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

mod alloc;
mod dump;
mod expected;
pub mod gguf;
pub mod journal;
pub mod mag;
mod oracle;
mod patch;
pub mod reference;
pub mod servers;
#[cfg(unix)]
pub mod signals;
mod slow;
mod sources;
mod steps;
#[allow(clippy::cast_possible_truncation, reason = "small numbers of our own")]
mod torch;
mod workspace;
#[allow(clippy::cast_possible_truncation, reason = "small numbers of our own")]
mod zip;

pub use alloc::{CountingAllocator, bounded, held, peak};
pub use dump::dump;
pub use expected::as_expected;
pub use oracle::{
    apr, bao, debian_python, ggml_library, ggml_rewrites, llama_cpp, llama_types, python, python_with,
    quantizers,
};
pub use patch::{crc32, crc32c, patched};
pub use slow::{SlowFiles, SlowSource, block_on, error_text, report_lines, wait};
pub use sources::{CountingSource, FaultySource};
pub use steps::{Step, SteppedSource, Steps};
pub use torch::{Pickler, TorchTensor, torch_pickle, torch_stream, torch_zip};
pub use workspace::{all_golden_files, golden_files, testdata};
pub use zip::{Zip, ZipMember};
