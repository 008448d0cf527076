//! The section of keys: slots, and MACs that only owners of the key can make.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use crate::error::SealFault;
use crate::seal::wire::{Fields, structure};

/// The length of the two MACs after the slots.
const MACS: u64 = 64;

/// A slot as it is in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) kind: u16,
    pub(crate) payload: Vec<u8>,
}

/// The decoded section. Its slots have not been opened.
#[derive(Clone, Debug)]
pub(crate) struct KeysSection {
    pub(crate) slots: Vec<Slot>,
    pub(crate) statement_mac: [u8; 32],
    pub(crate) keys_mac: [u8; 32],
}

impl KeysSection {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, SealFault> {
        let mut c = Fields(bytes);
        let (slots_size, count, zero) = (u64::from(c.u32()?), c.u16()?, c.u16()?);
        if zero != 0 || slots_size.saturating_add(8).saturating_add(MACS) != bytes.len() as u64 {
            return Err(structure("the section of keys is not as long as its slots need"));
        }
        let mut rest = Fields(c.bytes(slots_size)?);
        let mut slots = Vec::new();
        while !rest.0.is_empty() {
            slots.push(slot(&mut rest)?);
        }
        if slots.len() != usize::from(count) {
            return Err(structure("there are not as many slots as stated"));
        }
        Ok(Self { slots, statement_mac: c.array()?, keys_mac: c.array()? })
    }
}

fn slot(c: &mut Fields<'_>) -> Result<Slot, SealFault> {
    let (kind, zero, len) = (c.u16()?, c.u16()?, c.u32()?);
    let payload = c.bytes(len.into())?.to_vec();
    let fits = match kind {
        1 => len == 112,
        2 => len == 88,
        3 => (60..=1084).contains(&len),
        _ => true,
    };
    if !fits || (matches!(kind, 1..=3) && zero != 0) {
        return Err(structure("a slot of a known type has another length"));
    }
    Ok(Slot { kind, payload })
}

/// Encodes the section without its last MAC, which is computed from these bytes.
pub(crate) fn encode(slots: &[Slot], statement_mac: &[u8; 32]) -> Vec<u8> {
    let mut list = Vec::new();
    for slot in slots {
        list.extend(slot.kind.to_le_bytes());
        list.extend(0u16.to_le_bytes());
        list.extend(u32::try_from(slot.payload.len()).unwrap_or(u32::MAX).to_le_bytes());
        list.extend(&slot.payload);
    }
    let mut out = Vec::new();
    out.extend(u32::try_from(list.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(u16::try_from(slots.len()).unwrap_or(u16::MAX).to_le_bytes());
    out.extend(0u16.to_le_bytes());
    out.extend(list);
    out.extend(statement_mac);
    out
}
