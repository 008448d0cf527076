//! Reads, writes and changes sealed files. The module [`seal`](crate::seal) describes what a seal is and how
//! it is checked.

mod edit;
mod values;
mod writer;

pub(crate) use values::{details, plain, read, read_into, signed, stored_range};
pub use writer::Written;
