//! The end of a sealed file, after the page tables: signatures, keys, trailer and footer. If one of them
//! changes, all of them are written again.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use apr2::author::Footer;
use modelfmt_core::author::Crc;

use crate::error::SealFault;
use crate::seal::derive::FileKeys;
use crate::seal::hash::Hash;
use crate::seal::keys_section::{self, Slot};
use crate::seal::signatures::{self, Signed};
use crate::seal::wire::{END_LEN, MAX_KEYS, MAX_SIGNATURES, Trailer, encode_trailer};

/// Encodes the section of signatures.
pub(crate) fn signatures(records: &[Signed]) -> Vec<u8> {
    let mut out = Vec::new();
    for signed in records {
        signatures::encode(signed, &mut out);
    }
    out
}

/// Encodes the section of keys.
pub(crate) fn keys(keys: &FileKeys, slots: &[Slot], statement: &Hash) -> Vec<u8> {
    let mut section = keys_section::encode(slots, &keys.mac("statement mac", statement));
    let mac = keys.mac("keys mac", &section);
    section.extend(mac);
    section
}

/// Encodes everything from the signatures to the end of the file. `prefix` is the CRC of everything before
/// them.
pub(crate) fn encode(
    trailer: &Trailer,
    signatures: &[u8],
    keys: &[u8],
    prefix: Crc,
) -> Result<Vec<u8>, SealFault> {
    let too_long = || SealFault::Limit("signatures or keys take more than 64 KiB or 1 MiB".to_owned());
    let size =
        |bytes: &[u8], max| u32::try_from(bytes.len()).ok().filter(|&len| len <= max).ok_or_else(too_long);
    let trailer = Trailer {
        signatures_size: size(signatures, MAX_SIGNATURES)?,
        keys_size: size(keys, MAX_KEYS)?,
        prefix_crc32: prefix.value,
        ..*trailer
    };
    let mut out = [signatures, keys, &encode_trailer(&trailer)].concat();
    let crc32 = prefix.then(Crc::of(&out)).value;
    let file_size = trailer.end().saturating_add(END_LEN);
    out.extend(Footer { crc32, file_size }.encode());
    Ok(out)
}
