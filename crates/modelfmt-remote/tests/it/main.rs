//! The tests of this crate: a module for each subject, all in one program. Separate programs would each be
//! linked with everything that the crate needs.

mod ahead;
mod azure;
mod cache;
mod common;
mod counted;
mod faults;
mod fetch;
mod folders;
mod parts;
mod servers;
mod write;
