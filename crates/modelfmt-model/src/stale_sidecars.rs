//! Files beside a changed file that still describe its old content.

use std::path::Path;

use modelfmt_rules::wording::Note;

/// Returns notes about the outboard and the signatures of a file that was just changed, if it has them.
pub fn notes(file: &Path) -> Vec<Note> {
    let outboard = crate::outboard::of_before(file).into_iter();
    #[cfg(feature = "sign")]
    let outboard = outboard.chain(crate::signed::of_before(file));
    outboard.collect()
}
