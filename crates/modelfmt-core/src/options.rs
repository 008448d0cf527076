//! What can be chosen when a file is opened, whatever its format.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::file_index::FileIndex;
use crate::limits::Limits;
use crate::settings::OpenSettings;

/// How files of a format are opened, and the readers of sets of them: `I` is the format's index, and each format crate has an alias of this
/// type with its own.
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
    /// The default limits of the format; checksums that are looked at must match.
    #[must_use]
    pub fn new() -> Self {
        OpenSettings::new(I::default_limits()).into()
    }

    /// Limits on the memory and work that a file may cause.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        self.settings.limits(limits).into()
    }

    /// Opens a file even if a checksum that its format looks at on opening does not match, to see what is left of it: the checksum of a MAG
    /// file, and that of an APR file's header. The other formats have none. `verify` reports it anyway.
    #[must_use]
    pub fn ignore_checksum(self, ignore: bool) -> Self {
        self.settings.ignore_checksum(ignore).into()
    }

    /// What one format alone takes, such as the keys of a sealed file.
    #[must_use]
    pub fn with_extension<T: Any + Send + Sync>(self, extension: T) -> Self {
        self.settings.with_extension(Arc::new(extension)).into()
    }

    /// The same, as a parser sees it.
    #[must_use]
    pub const fn settings(&self) -> &OpenSettings {
        &self.settings
    }
}
