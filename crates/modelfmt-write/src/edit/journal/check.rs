//! The checksum at the end of a journal.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

/// FNV-1a over words of eight bytes: it detects a journal that was cut short or not flushed completely.
pub(super) struct Check {
    hash: u64,
    len: u64,
    /// Bytes that do not fill a word yet.
    rest: Vec<u8>,
}

impl Check {
    pub(super) const fn new() -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, len: 0, rest: Vec::new() }
    }

    fn word(&mut self, word: [u8; 8]) {
        let hash = self.hash ^ u64::from_le_bytes(word);
        self.hash = hash.wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    }

    pub(super) fn update(&mut self, mut bytes: &[u8]) {
        self.len = self.len.saturating_add(bytes.len() as u64);
        while !self.rest.is_empty() && self.rest.len() < 8 {
            let Some((first, others)) = bytes.split_first() else { return };
            self.rest.push(*first);
            bytes = others;
        }
        if let Ok(word) = <[u8; 8]>::try_from(&self.rest[..]) {
            self.word(word);
        }
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.word(*word));
        self.rest = rest.to_vec();
    }

    pub(super) fn finish(mut self) -> u64 {
        let mut last = [0; 8];
        last.iter_mut().zip(&self.rest).for_each(|(to, from)| *to = *from);
        self.word(last);
        self.word(self.len.to_le_bytes());
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_length_make_the_same_check() {
        let bytes: Vec<u8> = (0..100).collect();
        let check = |piece: usize| {
            let mut check = Check::new();
            bytes.chunks(piece).for_each(|piece| check.update(piece));
            check.finish()
        };
        assert!((1..100).all(|piece| check(piece) == check(100)));
        let mut shorter = Check::new();
        shorter.update(&bytes[..99]);
        assert_ne!(shorter.finish(), check(100));
    }
}
