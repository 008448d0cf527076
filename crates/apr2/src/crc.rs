//! CRCs of pieces, joined to that of the whole.

use crc32fast::Hasher;

/// The CRC-32 (IEEE) of some bytes, and how many they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Crc {
    pub(crate) value: u32,
    pub(crate) len: u64,
}

impl Crc {
    /// That of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { value: crc32fast::hash(bytes), len: bytes.len() as u64 }
    }

    /// That of these bytes followed by others.
    #[must_use]
    pub(crate) fn then(self, next: Self) -> Self {
        if next.len == 0 {
            return self;
        }
        let mut hasher = Hasher::new_with_initial_len(self.value, self.len);
        hasher.combine(&Hasher::new_with_initial_len(next.value, next.len));
        Self { value: hasher.finalize(), len: self.len + next.len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_the_whole() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for cut in [0, 1, 500, 1000] {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(Crc::of(head).then(Crc::of(tail)), Crc::of(&bytes));
        }
    }
}
