//! Limits on the cost of a passphrase.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

/// Limits on the cost of opening a file with a passphrase. The file states its cost, which is compared with these limits before
/// any memory is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argon2Caps {
    /// Memory in KiB; 1 GiB by default.
    pub memory: u32,
    /// The product of memory in KiB and passes; equal to 4 GiB in one pass by default.
    pub work: u64,
    /// Passes; 64 by default.
    pub passes: u32,
    /// Lanes; 16 by default.
    pub lanes: u32,
}

impl Default for Argon2Caps {
    fn default() -> Self {
        Self { memory: 1 << 20, work: 1 << 22, passes: 64, lanes: 16 }
    }
}

impl fmt::Display for Argon2Caps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} KiB, {} passes, {} lanes", self.memory, self.passes, self.lanes)
    }
}
