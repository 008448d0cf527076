//! Writes model files: descriptions of tensors, their values in pieces, outputs to write to, and
//! [edits](edit) of existing files.
//!
//! ```text
//!  TensorSpec × n: what is to be written
//!     │
//!  the format's Plan: every offset
//!     │
//!  TensorData: values, pulled in pieces
//!     │    (Region)
//!  Sink: "these bytes, at this offset"
//!     │
//!  AtomicFile: complete, or not there
//! ```
//!
//! An [`AtomicFile`] is written next to its target, flushed and renamed. If it is dropped before that,
//! nothing is left.
//!
//! ```
//! use modelfmt_write::{AtomicFile, Output, Overwrite, Sink};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.bin");
//! let file = AtomicFile::create(&path, Overwrite::Refuse)?;
//! file.write_at(4, &2.0f32.to_le_bytes())?; // in any order, from several threads
//! file.write_at(0, &1.0f32.to_le_bytes())?;
//! assert!(!path.exists());
//! file.commit()?;
//! assert_eq!(std::fs::read(&path)?.len(), 8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! To write files of a format, depend on the crate of that format. It re-exports the parts of this crate that
//! you need.
//!
//! # Features
//!
//! - `parallel` (default): writes values on more than one thread. The result never depends on this.
//! - `proof`: [`write_outboard`], which writes the data that can prove any range of a file.
//! - `syncfs`: on Linux, one flush for many small files.
//! - `free-space`: on Unix, [`expect_room`] asks the system.
//!
//! `wasm32-unknown-unknown` has no files, only sinks in memory and your own sinks.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod any_files;
#[cfg(not(target_arch = "wasm32"))]
mod atomic;
mod data;
mod discard;
#[cfg(not(target_arch = "wasm32"))]
mod early_flush;
pub mod edit;
#[cfg(not(target_arch = "wasm32"))]
mod file;
mod fill;
#[cfg(not(target_arch = "wasm32"))]
mod identity;
#[cfg(feature = "proof")]
mod outboard;
mod parts;
#[cfg(not(target_arch = "wasm32"))]
mod room;
mod save;
mod set;
mod sink;
#[cfg(not(target_arch = "wasm32"))]
mod temp_file;
#[cfg(not(target_arch = "wasm32"))]
mod unfinished;
mod views;

pub use any_files::{AnyNewFiles, AnyOutput, BoxOutput};
#[cfg(not(target_arch = "wasm32"))]
pub use atomic::{AtomicFile, NewFolder, write_file};
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use atomic::{copy_range, keep_permissions, link_new, write_all_at};
pub use data::{DataFrom, TensorData, TensorSpec};
pub use discard::Discard;
#[cfg(not(target_arch = "wasm32"))]
pub use file::FileSink;
pub use fill::{FillError, Region, Segment};
#[cfg(not(target_arch = "wasm32"))]
pub use identity::InputFiles;
pub use modelfmt_core::{AnyWriteError, BoxError, WriteError};
#[cfg(feature = "proof")]
pub use outboard::{OutboardError, write_outboard};
pub use parts::{SetPart, WrittenPart, begin_parts, no_part, unfit_parts, write_part};
#[cfg(not(target_arch = "wasm32"))]
pub use room::expect_room;
pub use set::NewSet;
pub use sink::{MemoryFile, MemoryFolder, NewFiles, Output, Overwrite, Sink};
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use temp_file::{create_draft, keep_draft, middle_of, temporary_path};
#[cfg(not(target_arch = "wasm32"))]
pub use temp_file::{is_leftover, replacement_of};
#[cfg(not(target_arch = "wasm32"))]
pub use unfinished::{CommitGuard, HaltGuard, commit_guard, remove_unfinished};
pub use views::Views;

#[doc(hidden)]
pub use modelfmt_core;

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
