//! The tests of this crate, a module for each subject, in one program: a program for each would be linked with all that the crate needs.

mod common;
mod generations;
mod golden;
mod hostile;
mod manifest;
mod oracle;
mod ranges;
mod roundtrip;
mod snapshot;
mod without_v0_3;
mod writing;

#[global_allocator]
static ALLOCATOR: testkit::CountingAllocator = testkit::CountingAllocator;
