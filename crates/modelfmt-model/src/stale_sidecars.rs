//! What beside a file is about what it was before it changed.

use std::path::Path;

use modelfmt_rules::wording::Note;

/// Notes about the outboard and the signature of a file that has just been changed, if it has them.
pub fn notes(file: &Path) -> Vec<Note> {
    let outboard = crate::outboard::of_before(file).into_iter();
    #[cfg(feature = "sign")]
    let outboard = outboard.chain(crate::signed::of_before(file));
    outboard.collect()
}
