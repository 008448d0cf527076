//! The lengths of encrypted bytes.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use crate::error::SealFault;

/// The length of the tag that follows each segment and authenticates it.
pub(crate) const TAG: u64 = 16;
/// The longest plaintext of one tensor.
const MAX_PLAIN: u64 = 1 << 44;

/// Returns the length of the plaintext that is stored as `size` bytes in segments of `segment` bytes.
pub(crate) fn plain_len(size: u64, segment: u64) -> Result<u64, SealFault> {
    if size == 0 {
        return Ok(0);
    }
    let stored = segment.saturating_add(TAG).max(1);
    let last = size.saturating_sub(1).checked_rem(stored).unwrap_or_default().saturating_add(1);
    let count = size.div_ceil(stored);
    if last <= TAG {
        let what = "the stored size of a tensor is not one that segments make";
        return Err(SealFault::Structure(what.to_owned()));
    }
    let plain = size.saturating_sub(count.saturating_mul(TAG)); // each of them has more than a tag
    if plain > MAX_PLAIN {
        return Err(SealFault::Limit("a tensor has more than 2^44 bytes".to_owned()));
    }
    Ok(plain)
}

/// Returns the number of bytes that `plain` bytes take when encrypted.
pub(crate) fn stored_len(plain: u64, segment: u64) -> Option<u64> {
    plain.div_ceil(segment.max(1)).checked_mul(TAG)?.checked_add(plain).filter(|_| plain <= MAX_PLAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_that_segments_make_is_told_from_those_that_they_do_not() {
        for plain in [0u64, 1, 15, 4095, 4096, 4097, 8192, 10_000, 1 << 30] {
            let stored = plain + plain.div_ceil(4096) * TAG;
            assert_eq!(plain_len(stored, 4096), Ok(plain));
        }
        for size in [1, 16, 4112 + 1, 4112 + 16] {
            assert!(plain_len(size, 4096).is_err(), "{size}");
        }
        assert!(plain_len(u64::MAX, 4096).is_err());
    }

    /// Each tensor has its own key, which encrypts at most 2^40 blocks of AES.
    #[test]
    fn one_key_encrypts_at_most_2_44_bytes() {
        let most = 1u64 << 44;
        for segment in [1 << 12, 1 << 16, 1 << 20] {
            let stored = most + most / segment * TAG;
            assert_eq!(plain_len(stored, segment), Ok(most));
            assert!(
                matches!(plain_len(stored + 17, segment), Err(SealFault::Limit(_))),
                "one byte in a segment more"
            );
            assert_eq!((stored_len(most, segment), stored_len(most + 1, segment)), (Some(stored), None));
        }
    }
}
