//! The writing half of the formats: descriptions of tensors, their values in pieces, places to write to, and [edits](edit) of
//! existing files.
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
//! An [`AtomicFile`] is written beside its target, flushed and renamed; dropped before that, it leaves nothing behind.
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
//! If you want to write files of a format, depend on its crate instead; it re-exports the parts of this crate that you need.
//!
//! # Features
//!
//! - `parallel` (default): values are written on more than one thread. Results never depend on it.
//! - `proof`: [`write_outboard`], which makes what proves any range of a file.
//! - `syncfs`: on Linux, one flush for many small files.
//! - `free-space`: on Unix, [`expect_room`] asks the system.
//!
//! `wasm32-unknown-unknown` has no files, only sinks in memory and your own.
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
#[cfg(not(target_arch = "wasm32"))]
mod partial;
mod parts;
#[cfg(not(target_arch = "wasm32"))]
mod room;
mod save;
mod set;
mod sink;
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
#[cfg(not(target_arch = "wasm32"))]
pub use partial::is_leftover;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use partial::{create_draft, keep_draft, middle_of, replacement_of, temporary_path};
pub use parts::{SetPart, WrittenPart, begin_parts, no_part, unfit_parts, write_part};
#[cfg(not(target_arch = "wasm32"))]
pub use room::expect_room;
pub use set::NewSet;
pub use sink::{MemoryFile, MemoryFolder, NewFiles, Output, Overwrite, Sink};
#[cfg(not(target_arch = "wasm32"))]
pub use unfinished::{CommitGuard, HaltGuard, commit_guard, remove_unfinished};
pub use views::Views;

#[doc(hidden)]
pub use modelfmt_core;

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
