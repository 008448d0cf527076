//! The settings with which a parser opens a file.

use std::any::Any;
use std::sync::Arc;

use crate::limits::Limits;

/// The settings with which a parser opens a file: those of [`OpenOptions`](crate::OpenOptions), and those
/// that a set adds for one of its files.
#[derive(Clone, Debug)]
pub struct OpenSettings {
    limits: Limits,
    ignore_checksum: bool,
    set_files: u64,
    own: Option<Arc<dyn Any + Send + Sync>>,
}

impl OpenSettings {
    /// Creates settings with these limits. Checksums that are checked on opening must match.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self { limits, ignore_checksum: false, set_files: 0, own: None }
    }

    /// Sets the limits on the memory and work that a file may cause.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets whether a file is opened even if a checksum that its format checks on opening does not match, to
    /// recover what can be read. `verify` still reports the mismatch.
    #[must_use]
    pub const fn ignore_checksum(mut self, ignore: bool) -> Self {
        self.ignore_checksum = ignore;
        self
    }

    /// Sets that the file is one of `files` in a set. They share the limits on the work that the set may
    /// cause.
    #[must_use]
    pub const fn one_in(mut self, files: u64) -> Self {
        self.set_files = files;
        self
    }

    /// Adds a setting that only one format uses, such as keys. The format's parser requests it by type. A set
    /// passes it to its files.
    #[must_use]
    pub fn with_extension<T: Any + Send + Sync>(mut self, own: Arc<T>) -> Self {
        self.own = Some(own);
        self
    }

    /// Returns the format-specific setting of this type, if it was added.
    #[must_use]
    pub fn extension<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(self.own.as_ref()?).downcast().ok()
    }

    /// Returns the number of files in the set that the opened file belongs to; 0 for a single file.
    #[must_use]
    pub const fn set_files(&self) -> u64 {
        self.set_files
    }

    /// Returns the limits.
    #[must_use]
    pub const fn limits_ref(&self) -> &Limits {
        &self.limits
    }

    /// Returns whether a checksum that does not match is ignored.
    #[must_use]
    pub const fn ignores_checksum(&self) -> bool {
        self.ignore_checksum
    }
}
