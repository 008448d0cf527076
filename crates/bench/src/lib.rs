//! The models that are measured, for `cargo xtask bench` and for the benches.
#![allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a tool over files of its own making: a fault in it may end it"
)]

pub mod data;

use std::error::Error;

/// A result whose errors end the program.
pub type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;
