//! The tests of this crate, one module per subject. They form one program, so the crate and its dependencies
//! are linked only once.

#[cfg(feature = "zstd")]
mod common;
mod flips;
mod gguf_origin;
mod golden;
mod hashes;
mod hostile;
mod limits;
mod pinned;
mod ranges;
mod roundtrip;
mod sets;
mod ties;
mod writing;

#[global_allocator]
static ALLOCATOR: testkit::CountingAllocator = testkit::CountingAllocator;
