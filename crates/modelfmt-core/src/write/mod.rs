//! What every writer is made of: descriptions of tensors, their values in pieces, and places to write to.

#[cfg(not(target_arch = "wasm32"))]
mod atomic;
mod data;
mod discard;
#[cfg(not(target_arch = "wasm32"))]
mod early;
mod erased;
mod error;
#[cfg(not(target_arch = "wasm32"))]
mod file;
mod fill;
#[cfg(not(target_arch = "wasm32"))]
mod identity;
#[cfg(not(target_arch = "wasm32"))]
mod partial;
mod parts;
#[cfg(not(target_arch = "wasm32"))]
mod pending;
mod save;
mod set;
mod sink;
mod views;

#[cfg(not(target_arch = "wasm32"))]
pub use atomic::{AtomicFile, NewFolder, write_file};
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use atomic::{copy_range, keep_permissions, link_new, write_all_at};
pub use data::{BoxError, DataFrom, TensorData, TensorSpec};
pub use discard::Discard;
pub use erased::{AnyNewFiles, AnyOutput, BoxOutput};
pub use error::{AnyWriteError, WriteError};
#[cfg(not(target_arch = "wasm32"))]
pub use file::FileSink;
pub use fill::{FillError, Region, Segment};
#[cfg(not(target_arch = "wasm32"))]
pub use identity::InputFiles;
#[cfg(not(target_arch = "wasm32"))]
pub use partial::is_leftover;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use partial::{create_draft, keep_draft, middle_of, replacement_of, temporary_path};
pub use parts::{SetPart, WrittenPart, begin_parts, no_part, unfit_parts, write_part};
#[cfg(not(target_arch = "wasm32"))]
pub use pending::{CommitGuard, HaltGuard, commit_guard, remove_unfinished};
pub use set::NewSet;
pub use sink::{MemoryFile, MemoryFolder, NewFiles, Output, Overwrite, Sink};
pub use views::Views;
