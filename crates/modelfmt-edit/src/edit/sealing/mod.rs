//! Changes the signatures inside an APR2 file, and who can open it, in place.

mod change;
mod opened;
mod set;
pub(super) mod signers;

pub use self::change::{rekey, sign};
pub use self::opened::Resealed;
