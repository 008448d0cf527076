//! Sealed files: their values are read like those of any other file, and they are written and changed in a way of their own. What a seal is, and how
//! one is checked, is in [`seal`](crate::seal).

mod edit;
mod values;
mod writer;

pub(crate) use values::{details, plain, read, read_into, signed, stored_range};
pub use writer::Written;
