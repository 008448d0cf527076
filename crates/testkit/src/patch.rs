//! Damages files.

/// Returns a copy of `file` in which `bytes` replace those from `at` on.
///
/// # Panics
/// If the file ends before that: a patch that changes nothing would prove nothing.
#[must_use]
pub fn patched(file: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    let end = at + bytes.len();
    assert!(end <= file.len(), "patch {at}..{end} of a file of {} bytes", file.len());
    file[at..end].copy_from_slice(bytes);
    file
}

/// Computes the CRC-32 of `bytes` bit by bit, for the reversed `polynomial`: slow, and independent of the
/// library under test.
fn crc(polynomial: u32, bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (polynomial & (crc & 1).wrapping_neg()))
    })
}

/// Returns the CRC-32C (Castagnoli) of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc(0x82f6_3b78, bytes)
}

/// Returns the CRC-32 (IEEE) of `bytes`.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    crc(0xedb8_8320, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_have_the_check_values_of_their_catalogue() {
        assert_eq!((crc32(b"123456789"), crc32c(b"123456789")), (0xcbf4_3926, 0xe306_9283));
    }
}
