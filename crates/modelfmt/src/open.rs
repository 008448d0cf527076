//! How a model is opened.

use modelfmt_core::Limits;

/// How a model is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    pub(crate) limits: Option<Limits>,
    pub(crate) ignore_checksum: bool,
}

impl OpenOptions {
    /// The defaults: the limits of the specifications, and what a format's reader refuses is refused.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Caps on what the file may make the reader do, instead of those of its format.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Opens a MAG file whose checksum does not match, to look at what is left of it.
    #[must_use]
    pub const fn ignore_checksum(mut self, ignore: bool) -> Self {
        self.ignore_checksum = ignore;
        self
    }
}
