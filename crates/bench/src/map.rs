//! Maps the files that are measured.
#![allow(unsafe_code)]

use std::path::Path;

use modelfmt_core::Mmap;

use crate::Result;

/// Maps one of our own files.
pub(crate) fn map(path: &Path) -> Result<Mmap> {
    // SAFETY: the measurements have made the file in a folder of their own, and nothing writes to it while it
    // is mapped.
    Ok(unsafe { Mmap::open(path)? })
}
