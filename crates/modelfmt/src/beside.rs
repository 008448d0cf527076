//! Files beside a file that has just been changed, which are about the file as it was.

use std::path::Path;

use crate::words::Note;

/// Notes about the outboard and the signature of a file, if it has them.
pub(crate) fn of_before(file: &Path) -> Vec<Note> {
    let outboard = crate::outboard::of_before(file).into_iter();
    #[cfg(feature = "sign")]
    let outboard = outboard.chain(crate::signed::of_before(file));
    outboard.collect()
}
