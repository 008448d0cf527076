//! The tests of this crate, a module for each subject, in one program: a program for each would be linked with all that the crate needs.

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
