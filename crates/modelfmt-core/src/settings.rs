//! The settings by which a parser opens a file.

use std::any::Any;
use std::sync::Arc;

use crate::limits::Limits;

/// The settings by which a parser opens a file: those of [`OpenOptions`](crate::OpenOptions), and what a set adds for one of its
/// files.
#[derive(Clone, Debug)]
pub struct OpenSettings {
    limits: Limits,
    ignore_checksum: bool,
    set_files: u64,
    own: Option<Arc<dyn Any + Send + Sync>>,
}

impl OpenSettings {
    /// Settings with these limits. A checksum that opening looks at must match.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self { limits, ignore_checksum: false, set_files: 0, own: None }
    }

    /// Limits on the memory and work that a file may cause.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Opens a file even if a checksum that its format checks on opening does not match, to see what can be read of it. `verify`
    /// still reports it.
    #[must_use]
    pub const fn ignore_checksum(mut self, ignore: bool) -> Self {
        self.ignore_checksum = ignore;
        self
    }

    /// Says that the file is one of `files` in a set, which share the limits on the work that the set may cause.
    #[must_use]
    pub const fn one_in(mut self, files: u64) -> Self {
        self.set_files = files;
        self
    }

    /// Adds a setting that only one format knows, such as keys: its parser asks for it by its type. A set passes it on to its
    /// files.
    #[must_use]
    pub fn with_extension<T: Any + Send + Sync>(mut self, own: Arc<T>) -> Self {
        self.own = Some(own);
        self
    }

    /// The setting of that type that only one format knows, if it was added.
    #[must_use]
    pub fn extension<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(self.own.as_ref()?).downcast().ok()
    }

    /// The number of files in the set that the opened file belongs to; 0 for a single file.
    #[must_use]
    pub const fn set_files(&self) -> u64 {
        self.set_files
    }

    /// The limits.
    #[must_use]
    pub const fn limits_ref(&self) -> &Limits {
        &self.limits
    }

    /// Whether a checksum that does not match is ignored.
    #[must_use]
    pub const fn ignores_checksum(&self) -> bool {
        self.ignore_checksum
    }
}
