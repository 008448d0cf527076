//! Reads files on wasm32, for comparison with what the native build reads: `cargo xtask wasm`.
//!
//! `wasm-expected` runs natively and prints the content of every golden file. `xtask/wasm/run.mjs` loads this
//! library under Node, passes it the same files in memory and by a callback that reads ranges, and compares.
//! Not published; panics, as tests do.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

#[cfg(target_arch = "wasm32")]
mod exports;
pub mod far;
mod files;

pub use files::{Below, describe, is_model, models_below, open, open_source};
