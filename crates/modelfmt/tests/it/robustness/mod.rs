//! What every format guarantees for every input: the fuzzer's corpus, bounded memory, linear work, failing
//! sources and sinks, killed writers, flipped bits, shared readers. docs/ROBUSTNESS.md has the figures.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a test that fails may panic"
)]

mod bitflips;
mod concurrency;
mod corpus;
mod faults;
mod interrupted;
mod memory;
mod named;
mod names;
mod products;
mod sets;
mod split;

/// The fuzz targets themselves: the fuzzer and this replay run the same code.
#[path = "../../../../../fuzz/src/lib.rs"]
#[allow(
    unreachable_pub,
    unused_imports,
    missing_docs,
    dead_code,
    reason = "it is a library of its own elsewhere"
)]
mod fuzz;
