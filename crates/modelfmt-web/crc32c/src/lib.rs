//! CRC-32C, as far as MAG needs it. See the crate `crc32fast` in the folder next to this one.

use std::sync::OnceLock;

use crc32fast::Tables;

const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Returns the CRC of these bytes.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// Continues a CRC with these bytes.
#[must_use]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    static TABLES: OnceLock<Box<Tables>> = OnceLock::new();
    TABLES.get_or_init(|| Tables::new(POLYNOMIAL)).add(crc, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_is_right_in_one_piece_and_in_two() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c_append(crc32c(b"1234"), b"56789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa); // RFC 3720, B.4
    }
}
