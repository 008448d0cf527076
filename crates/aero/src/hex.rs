//! Hashes as hex digits.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

/// Formats a hash, identity or digest as lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes a hash from 64 lower-case hex digits (docs/formats/aero.md#tensor-hashes).
pub(crate) fn from_hex(text: &[u8]) -> Option<[u8; 32]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte.saturating_sub(b'0')),
        b'a'..=b'f' => Some(byte.saturating_sub(b'a').saturating_add(10)),
        _ => None,
    };
    let text: &[u8; 64] = text.try_into().ok()?;
    let mut hash = [0; 32];
    for (byte, &[high, low]) in hash.iter_mut().zip(text.as_chunks().0) {
        *byte = digit(high)? << 4 | digit(low)?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_hash_are_inverse() {
        let hash: [u8; 32] = std::array::from_fn(|i| [0x00, 0x9f, 0xf9, 0x12][i % 4]);
        assert_eq!(from_hex(hex(&hash).as_bytes()), Some(hash));
        let good = "ab".repeat(32);
        assert_eq!(from_hex(good.as_bytes()), Some([0xab; 32]));
        for bad in [good.to_uppercase(), good[1..].to_owned(), format!("{good}a"), good.replace('b', "g")] {
            assert_eq!(from_hex(bad.as_bytes()), None, "{bad}");
        }
    }
}
