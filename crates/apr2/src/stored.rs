//! How a tensor's values are stored.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

/// How the values of one tensor are stored.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// The offset of the tensor in the file.
    pub offset: u64,
    /// The number of bytes that the tensor takes in the file.
    pub len: u64,
    /// The number of bytes of its values.
    pub nbytes: u64,
    /// Whether the values are in LZ4 blocks.
    pub compressed: bool,
    pub(crate) flags: u32,
}

impl Stored {
    /// Returns the end of the tensor in the file.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}
