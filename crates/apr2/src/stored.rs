//! How the values of a tensor are stored.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

/// How the values of one tensor are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub(crate) offset: u64,
    /// The bytes that it takes in the file.
    pub(crate) len: u64,
    /// The bytes of its values.
    pub(crate) nbytes: u64,
    pub(crate) compressed: bool,
    pub(crate) flags: u32,
}

impl Stored {
    pub(crate) const fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}
