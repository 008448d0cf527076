//! The tests of this crate, a module for each subject, in one program: a program for each would be linked with all that the crate needs.

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
