//! Damage to a file: a truncation or a flipped bit.

use std::fmt;

/// A change to the bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Damage {
    /// Keep only this many bytes.
    Cut(usize),
    /// Flip one bit.
    Flip { byte: usize, bit: u8 },
}

/// Formats the damage as in the name of a case.
impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut(len) => write!(f, "cut to {len}"),
            Self::Flip { byte, bit } => write!(f, "bit {bit} of byte {byte} turned"),
        }
    }
}

impl Damage {
    pub(super) fn apply(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Cut(len) => bytes.truncate(len),
            Self::Flip { byte, bit } => {
                if let Some(byte) = bytes.get_mut(byte) {
                    *byte ^= 1 << bit;
                }
            }
        }
    }

    /// Returns a shell command that does the same.
    pub(super) fn shell(self, file: &str, original: &[u8]) -> String {
        match self {
            Self::Cut(len) => format!("truncate -s {len} {file}"),
            Self::Flip { byte, bit } => {
                let value = original.get(byte).copied().unwrap_or_default() ^ (1 << bit);
                format!("printf '\\x{value:02x}' | dd of={file} bs=1 seek={byte} conv=notrunc status=none")
            }
        }
    }
}

/// Chooses some of the damage that a file of `len` bytes can have, always the same for the same path. About
/// half of it is at the beginning, where headers and indexes are.
pub(super) fn chosen(path: &str, len: usize) -> Vec<Damage> {
    const CUTS: usize = 5;
    const FLIPS: usize = 8;
    const BEGINNING: usize = 256;
    let mut random = blake3::Hasher::new().update(path.as_bytes()).finalize_xof();
    let mut below = |end: usize| {
        let mut bytes = [0; 8];
        random.fill(&mut bytes);
        usize::try_from(u64::from_le_bytes(bytes) % u64::try_from(end.max(1)).unwrap_or(u64::MAX))
            .unwrap_or_default()
    };
    let mut chosen = Vec::new();
    for number in 0..CUTS + FLIPS {
        let byte = below(if number % 2 == 0 { len.min(BEGINNING) } else { len });
        let bit = u8::try_from(below(8)).unwrap_or_default();
        chosen.push(if number < CUTS { Damage::Cut(byte) } else { Damage::Flip { byte, bit } });
    }
    chosen.push(Damage::Cut(len.saturating_sub(1)));
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_the_same_each_time_and_does_something() {
        let damage = chosen("a/b.gguf", 1000);
        assert_eq!(damage, chosen("a/b.gguf", 1000));
        assert_ne!(damage, chosen("a/c.gguf", 1000));
        for damage in damage {
            let mut bytes = vec![0; 1000];
            damage.apply(&mut bytes);
            assert_ne!(bytes, vec![0; 1000], "{damage}");
        }
        assert!(
            chosen("empty", 0).iter().all(|damage| matches!(damage, Damage::Cut(0) | Damage::Flip { .. }))
        );
    }

    #[test]
    fn a_shell_does_the_same() {
        assert_eq!(Damage::Cut(7).shell("f", &[]), "truncate -s 7 f");
        let flip = Damage::Flip { byte: 1, bit: 7 };
        assert_eq!(
            flip.shell("f", &[0, 0x01]),
            "printf '\\x81' | dd of=f bs=1 seek=1 conv=notrunc status=none"
        );
    }
}
