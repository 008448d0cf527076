//! What a passphrase may cost at most.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

/// How much opening a file with a passphrase may cost. The file says how much it costs, and that is compared with these caps before any memory is
/// allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argon2Caps {
    /// Memory in KiB; 1 GiB unless said otherwise.
    pub memory: u32,
    /// The product of memory in KiB and passes; 4 GiB of passes unless said otherwise.
    pub work: u64,
    /// Passes; 64 unless said otherwise.
    pub passes: u32,
    /// Lanes; 16 unless said otherwise.
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
