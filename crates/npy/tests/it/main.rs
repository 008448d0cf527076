//! The tests of this crate, a module for each subject, in one program: a program for each would be linked with all that the crate needs.

mod hostile;
mod oracle;
mod reads;

#[global_allocator]
static ALLOCATOR: testkit::CountingAllocator = testkit::CountingAllocator;
