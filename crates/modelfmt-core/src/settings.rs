//! How a file is opened, as a parser sees it.

use std::any::Any;
use std::sync::Arc;

use crate::limits::Limits;

/// How a file is opened, as a parser sees it: what [`OpenOptions`](crate::OpenOptions) set, and what a set says of one of its files.
#[derive(Clone, Debug)]
pub struct OpenSettings {
    limits: Limits,
    ignore_checksum: bool,
    set_files: u64,
    own: Option<Arc<dyn Any + Send + Sync>>,
}

impl OpenSettings {
    /// These limits; checksums that are looked at must match.
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

    /// Opens a file even if a checksum that its format looks at on opening (MAG's) does not match, to see what is left of
    /// it. `verify` reports it anyway.
    #[must_use]
    pub const fn ignore_checksum(mut self, ignore: bool) -> Self {
        self.ignore_checksum = ignore;
        self
    }

    /// The file is one of so many of a set, which share what a set may make the reader do.
    #[must_use]
    pub const fn one_in(mut self, files: u64) -> Self {
        self.set_files = files;
        self
    }

    /// What one format alone takes, such as keys: its parser asks for it by its type. A set passes it on to its files.
    #[must_use]
    pub fn with_extension<T: Any + Send + Sync>(mut self, own: Arc<T>) -> Self {
        self.own = Some(own);
        self
    }

    /// What one format alone takes, if it is of that type.
    #[must_use]
    pub fn extension<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(self.own.as_ref()?).downcast().ok()
    }

    /// How many files the set of the opened file has; 0 for a single file.
    #[must_use]
    pub const fn set_files(&self) -> u64 {
        self.set_files
    }

    /// The caps.
    #[must_use]
    pub const fn limits_ref(&self) -> &Limits {
        &self.limits
    }

    /// Whether a checksum may be wrong.
    #[must_use]
    pub const fn ignores_checksum(&self) -> bool {
        self.ignore_checksum
    }
}
