//! Conversions between all formats: what is kept, what is refused, and that A → B → A gives A again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    missing_docs,
    unreachable_pub,
    reason = "this is test code"
)]

mod aeros;
mod blocks;
mod chains;
mod claims;
mod common;
mod config;
mod damage;
mod extracted;
mod files;
mod gguf_py;
mod ggufs;
mod hub_folder;
mod imatrix;
mod lora;
mod metadata;
mod not_replaced;
mod origin;
mod pairs;
mod parts;
mod presets;
mod proved;
mod quants;
mod renamed;
mod reversed_shapes;
mod rules;
mod same_format;
mod scales;
mod schemes;
mod sets;
mod several;
mod small;
mod splits;
mod tokenizers;
mod unsupported;
mod values;
mod versions;
