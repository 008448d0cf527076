//! Limits on the cost of a passphrase.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

/// Limits on the cost of opening a file with a passphrase. The file states this cost, which is compared with
/// the limits before any memory is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argon2Caps {
    /// The memory in KiB; 1 GiB by default.
    pub memory: u32,
    /// The product of the memory in KiB and the number of passes; by default 2^22, which is 4 GiB in one
    /// pass.
    pub work: u64,
    /// The number of passes; 64 by default.
    pub passes: u32,
    /// The number of lanes; 16 by default.
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
