//! The tests of this crate, one module per subject. They form one program, so the crate and its dependencies
//! are linked only once.

mod golden;
mod hostile;
mod oracle;
mod roundtrip;
mod split;
mod writing;

#[global_allocator]
static ALLOCATOR: testkit::CountingAllocator = testkit::CountingAllocator;
