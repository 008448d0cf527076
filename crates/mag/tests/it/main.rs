//! The tests of this crate, one module per subject. They form one program, so the crate and its dependencies
//! are linked only once.

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
