//! The tests of this crate, a module for each subject. They are one program, because each further program
//! would link everything again.

mod common;
mod hostile;
mod oms;
mod oracle;
mod vectors;
