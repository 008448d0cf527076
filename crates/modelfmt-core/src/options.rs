//! The options for opening files, for all formats.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::file_index::FileIndex;
use crate::limits::Limits;
use crate::settings::OpenSettings;

/// Options for opening files of a format, and sets of them. `I` is the format's index; each format crate has
/// an alias of this type.
pub struct OpenOptions<I> {
    settings: OpenSettings,
    index: PhantomData<fn() -> I>,
}

impl<I> Clone for OpenOptions<I> {
    fn clone(&self) -> Self {
        Self { settings: self.settings.clone(), index: PhantomData }
    }
}

impl<I> fmt::Debug for OpenOptions<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenOptions").field(&self.settings).finish()
    }
}

impl<I: FileIndex> Default for OpenOptions<I> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I> From<OpenSettings> for OpenOptions<I> {
    fn from(settings: OpenSettings) -> Self {
        Self { settings, index: PhantomData }
    }
}

impl<I: FileIndex> OpenOptions<I> {
    /// Returns the default options: the default limits of the format, and checksums must match.
    #[must_use]
    pub fn new() -> Self {
        OpenSettings::new(I::default_limits()).into()
    }

    /// Sets the limits on the memory and work that a file may cause.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        self.settings.limits(limits).into()
    }

    /// Sets whether a file is opened even if a checksum that is checked on opening does not match, to recover
    /// what can be read. This applies to the checksum of a MAG file, and to that of an APR file's header;
    /// other formats have none. `verify` still reports the mismatch.
    #[must_use]
    pub fn ignore_checksum(self, ignore: bool) -> Self {
        self.settings.ignore_checksum(ignore).into()
    }

    /// Adds a setting that only one format uses, such as the keys of a sealed file.
    #[must_use]
    pub fn with_extension<T: Any + Send + Sync>(self, extension: T) -> Self {
        self.settings.with_extension(Arc::new(extension)).into()
    }

    /// Returns the settings that these options pass to a parser.
    #[must_use]
    pub const fn settings(&self) -> &OpenSettings {
        &self.settings
    }
}
