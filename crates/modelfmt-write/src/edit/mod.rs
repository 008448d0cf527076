//! Edits files without touching their values. An edit is first described as data and then written to the
//! disk.
//!
//! A format describes the new content of a file as a [`NewFile`]: new bytes, and ranges of the old file that
//! stay. You can preview the description before anything is written ([`Preview`]), and check whether the file
//! can be changed in place ([`NewFile::patches`]). To apply it, use [`patch()`], which keeps a journal that
//! can undo the change, or [`replace()`], which writes a new file and lets the system copy the values.
//! [`change_several`] changes several files that belong together, all or none.
//!
//! ```
//! use modelfmt_core::Source;
//! use modelfmt_write::edit::{NewFile, Preview};
//!
//! let old = b"old head, values".to_vec();
//! let mut new = NewFile::new();
//! new.push(*b"new head");
//! new.keep(8..16);
//! assert_eq!(new.patches(&old)?, Some(vec![(0, &b"new"[..])])); // in place, and no more than what differs
//! assert_eq!(&*Preview::new(new, old).read(0..16)?, b"new head, values");
//! # Ok::<(), std::io::Error>(())
//! ```

#[cfg(not(target_arch = "wasm32"))]
mod conflict;
#[cfg(not(target_arch = "wasm32"))]
mod disk;
#[cfg(test)]
mod failing_disk;
#[cfg(not(target_arch = "wasm32"))]
mod guarded;
#[cfg(test)]
mod interrupting_disk;
#[cfg(not(target_arch = "wasm32"))]
mod journal;
#[cfg(not(target_arch = "wasm32"))]
mod leftovers;
#[cfg(not(target_arch = "wasm32"))]
mod lock;
#[cfg(not(target_arch = "wasm32"))]
mod mark;
#[cfg(not(target_arch = "wasm32"))]
mod names;
mod new_file;
#[cfg(not(target_arch = "wasm32"))]
mod patch;
#[cfg(not(target_arch = "wasm32"))]
mod recover;
#[cfg(not(target_arch = "wasm32"))]
mod replace;
#[cfg(not(target_arch = "wasm32"))]
mod several;
#[cfg(test)]
mod testing;

use crate::WriteError;
use modelfmt_core::{Error, Fault};

#[cfg(not(target_arch = "wasm32"))]
pub use conflict::EditConflict;
#[cfg(not(target_arch = "wasm32"))]
pub use leftovers::{interrupted_by, is_interrupted};
#[cfg(not(target_arch = "wasm32"))]
pub use lock::{EditLock, hold};
#[cfg(not(target_arch = "wasm32"))]
pub use names::{JOURNAL_SUFFIX, is_through_link, journal_path};
pub use new_file::{NewFile, Patch, Preview};
#[cfg(not(target_arch = "wasm32"))]
pub use patch::{check_patch, patch};
#[cfg(not(target_arch = "wasm32"))]
pub use recover::{Recovered, recover};
#[cfg(not(target_arch = "wasm32"))]
pub use replace::replace;
#[cfg(not(target_arch = "wasm32"))]
pub use several::{FileChange, change as change_several};

/// The error for a file that cannot be changed. `F` is the `Fault` type of its format.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum EditError<F: Fault> {
    /// The file cannot be read, or is broken.
    #[error(transparent)]
    Read(#[from] Error<F>),
    /// The change does not fit the format.
    #[error(transparent)]
    Write(#[from] WriteError<F>),
}

tensor_core::debug_as_sentence!([F: Fault] EditError<F>);

impl<F: Fault> EditError<F> {
    /// Creates the error for bytes of the file that cannot be read.
    #[must_use]
    pub fn io(range: &std::ops::Range<u64>, source: std::io::Error) -> Self {
        let (at, len) = (range.start, range.end.saturating_sub(range.start));
        Self::Read(Error::Io { at, len, source })
    }
}
