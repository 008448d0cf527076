//! How a model is opened.

use modelfmt_core::Limits;

use crate::pin::Pin;

/// How a model is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    pub(crate) limits: Option<Limits>,
    pub(crate) ignore_checksum: bool,
    pub(crate) pin: Option<Pin>,
    #[cfg(feature = "seal")]
    pub(crate) access: Option<std::sync::Arc<apr2::seal::Access>>,
}

impl OpenOptions {
    /// The defaults: the limits of the specifications, and what a format's reader refuses is refused.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits on the memory and work that the file may cause, instead of the defaults of its format.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// The pin of the file: it proves every byte that is read, whatever the format. With [`Pin::B3`], a file
    /// `FILE.obao4` beside the file is its outboard, which [`outboard`](fn@crate::outboard) writes; without one the whole file is
    /// hashed once. Of a set, the pin is that of its index; an AEROSET's has a SHA-256 of each other file, by which each is
    /// checked when it is first read, and sets whose index has none are refused.
    #[must_use]
    pub fn pin(mut self, pin: Pin) -> Self {
        self.pin = Some(pin);
        self
    }

    /// The pin that was given.
    #[must_use]
    pub const fn expected_pin(&self) -> Option<Pin> {
        self.pin
    }

    /// What a sealed APR2 file must satisfy, and the keys that open it. With this, a file of a format that cannot be sealed is refused.
    #[cfg(feature = "seal")]
    #[cfg_attr(docsrs, doc(cfg(feature = "seal")))]
    #[must_use]
    pub fn access(mut self, access: apr2::seal::Access) -> Self {
        self.access = Some(std::sync::Arc::new(access));
        self
    }

    /// What is demanded of a sealed file, a pin included.
    #[cfg(feature = "seal")]
    pub(crate) fn demanded(&self) -> Option<std::sync::Arc<apr2::seal::Access>> {
        let Some(Pin::Seal(statement)) = self.pin else { return self.access.clone() };
        let access = self.access.as_deref().cloned().unwrap_or_default();
        Some(std::sync::Arc::new(access.statement(statement)))
    }

    /// Opens a MAG file whose checksum does not match, to look at what is left of it.
    #[must_use]
    pub fn ignore_checksum(mut self, ignore: bool) -> Self {
        self.ignore_checksum = ignore;
        self
    }
}
