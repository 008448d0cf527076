//! The tests of this crate, a module for each subject, in one program: a program for each would be linked with all that the crate needs.

mod apr1;
mod blocks;
mod common;
mod golden;
mod hostile;
mod oracle;
mod roundtrip;
mod sets;
mod without_lz4;

#[global_allocator]
static ALLOCATOR: testkit::CountingAllocator = testkit::CountingAllocator;
