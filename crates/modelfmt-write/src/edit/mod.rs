//! Changes a file without touching the values in it. The change is described as data first, and then written to the disk.
//!
//! A format describes the new content of a file as a [`NewFile`]: new bytes, and ranges of the old file that stay. The same
//! description can be previewed before anything is written ([`Preview`]), tells whether the file can be changed in place
//! ([`NewFile::patches`]), and is written: by [`patch()`], which keeps a journal that undoes it, or as a new file whose values
//! the system copies ([`replace()`]). Several files that belong together are changed all at once ([`change_several`]).
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
mod disk;
#[cfg(not(target_arch = "wasm32"))]
mod guarded;
#[cfg(not(target_arch = "wasm32"))]
mod journal;
#[cfg(not(target_arch = "wasm32"))]
mod lock;
#[cfg(not(target_arch = "wasm32"))]
mod mark;
#[cfg(test)]
mod meanwhile;
#[cfg(not(target_arch = "wasm32"))]
mod names;
mod new_file;
#[cfg(not(target_arch = "wasm32"))]
mod overtaken;
#[cfg(not(target_arch = "wasm32"))]
mod patch;
#[cfg(not(target_arch = "wasm32"))]
mod recover;
#[cfg(not(target_arch = "wasm32"))]
mod remains;
#[cfg(not(target_arch = "wasm32"))]
mod replace;
#[cfg(not(target_arch = "wasm32"))]
mod several;
#[cfg(test)]
mod stopping;
#[cfg(test)]
mod testing;

use crate::WriteError;
use modelfmt_core::{Error, Fault};

#[cfg(not(target_arch = "wasm32"))]
pub use lock::{EditLock, hold};
#[cfg(not(target_arch = "wasm32"))]
pub use names::{JOURNAL_SUFFIX, is_through_link, journal_path};
pub use new_file::{NewFile, Patch, Preview};
#[cfg(not(target_arch = "wasm32"))]
pub use overtaken::Overtaken;
#[cfg(not(target_arch = "wasm32"))]
pub use patch::patch;
#[cfg(not(target_arch = "wasm32"))]
pub use recover::{Recovered, recover};
#[cfg(not(target_arch = "wasm32"))]
pub use remains::{interrupted_by, is_interrupted};
#[cfg(not(target_arch = "wasm32"))]
pub use replace::replace;
#[cfg(not(target_arch = "wasm32"))]
pub use several::{FileChange, change as change_several};

/// Why a file cannot be changed; `F` is its format's `Fault`.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum EditError<F: Fault> {
    /// The file could not be read, or is broken.
    #[error(transparent)]
    Read(#[from] Error<F>),
    /// The change does not fit the format.
    #[error(transparent)]
    Write(#[from] WriteError<F>),
}

tensor_core::debug_as_sentence!([F: Fault] EditError<F>);

impl<F: Fault> EditError<F> {
    /// Bytes of the file could not be read.
    #[must_use]
    pub fn io(range: &std::ops::Range<u64>, source: std::io::Error) -> Self {
        let (at, len) = (range.start, range.end.saturating_sub(range.start));
        Self::Read(Error::Io { at, len, source })
    }
}
