//! The cost of trying a passphrase.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use argon2::{Algorithm, Argon2, Params, Version};

use crate::error::SealFault;
use crate::seal::derive::Secret;
use crate::seal::passphrase_limits::Argon2Caps;
use crate::seal::wire::Fields;

/// The most slots on which a passphrase is tried, because each try takes long.
pub(crate) const PASSPHRASE_SLOTS: usize = 4;

/// The parameters of Argon2id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Costs {
    /// The memory in KiB.
    pub(crate) memory: u32,
    pub(crate) passes: u32,
    pub(crate) lanes: u32,
}

impl Costs {
    pub(crate) fn decode(c: &mut Fields<'_>) -> Result<Self, SealFault> {
        Ok(Self { memory: c.u32()?, passes: c.u32()?, lanes: c.u32()? })
    }

    pub(crate) fn check(&self, caps: &Argon2Caps) -> Result<(), SealFault> {
        let Self { memory, passes, lanes } = *self;
        let in_range = (1..=caps.lanes).contains(&lanes)
            && (1..=caps.passes).contains(&passes)
            && u64::from(lanes) * 8 <= u64::from(memory)
            && memory <= caps.memory
            && u64::from(memory).saturating_mul(u64::from(passes)) <= caps.work;
        if in_range {
            return Ok(());
        }
        Err(SealFault::Limit(format!(
            "a passphrase takes {memory} KiB, {passes} passes and {lanes} lanes; the caps are {caps}"
        )))
    }

    /// Runs Argon2id on a passphrase.
    pub(crate) fn stretch(&self, passphrase: &[u8], salt: &[u8; 16]) -> Result<Secret, SealFault> {
        let refused =
            |_| SealFault::Limit("Argon2id refuses its parameters, or there is no memory for it".to_owned());
        let params = Params::new(self.memory, self.passes, self.lanes, Some(32)).map_err(refused)?;
        let mut stretched = Secret::new([0; 32]);
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into(passphrase, salt, &mut *stretched)
            .map_err(refused)?;
        Ok(stretched)
    }
}
