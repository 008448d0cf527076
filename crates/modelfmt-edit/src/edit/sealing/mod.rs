//! Changes the signatures inside an APR2 file, and changes who can open the file. Both happen in place.

mod change;
mod opened;
mod set;
pub(super) mod signers;

pub use self::change::{rekey, sign};
pub use self::opened::Resealed;
