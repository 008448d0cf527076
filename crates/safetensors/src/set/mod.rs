//! The sharded form: an index JSON, and files that it names.

mod index;
mod plan;
mod reader;

pub use index::SetIndex;
pub use plan::SetPlan;
pub use reader::SetReader;
