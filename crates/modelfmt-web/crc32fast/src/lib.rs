//! CRC-32 (IEEE), a replacement for the crate of the same name. That crate is a poor fit for the page:
//! WebAssembly lacks the multiplication that it uses, and every download would contain its tables of 16 KiB,
//! which do not compress. The tables here are computed at the first use, and the code is equally fast.

use std::sync::OnceLock;

const POLYNOMIAL: u32 = 0xedb8_8320;
/// The number of bytes that are looked up at once.
const STEP: usize = 16;

/// The contribution of each byte value to the CRC, by the byte's distance from the end of a step.
pub struct Tables([[u32; 256]; STEP]);

impl Tables {
    /// Computes the tables for a polynomial whose lowest term is in the highest bit.
    #[must_use]
    pub fn new(polynomial: u32) -> Box<Self> {
        let mut tables = Box::new(Self([[0; 256]; STEP]));
        let [first, ..] = &mut tables.0;
        for (byte, entry) in (0u32..).zip(first) {
            *entry = (0..8).fold(byte, |crc, _| times_x(crc, polynomial));
        }
        for number in 1..STEP {
            let (nearer, table) = tables.0.split_at_mut(number);
            for (entry, last) in table[0].iter_mut().zip(nearer[number - 1]) {
                *entry = nearer[0][usize::from(last as u8)] ^ (last >> 8);
            }
        }
        tables
    }

    /// Continues a CRC with these bytes.
    #[must_use]
    pub fn add(&self, crc: u32, bytes: &[u8]) -> u32 {
        let (steps, rest) = bytes.as_chunks::<STEP>();
        let mut crc = !crc;
        for step in steps {
            let mut step = *step;
            for (byte, of_crc) in step.iter_mut().zip(crc.to_le_bytes()) {
                *byte ^= of_crc;
            }
            crc = 0;
            // From the end, because only the first four bytes wait for the CRC of the previous step. The
            // other order is slower.
            for (byte, table) in step.iter().rev().zip(&self.0) {
                crc ^= table[usize::from(*byte)];
            }
        }
        for byte in rest {
            crc = self.0[0][usize::from(crc as u8 ^ byte)] ^ (crc >> 8);
        }
        !crc
    }
}

const fn times_x(crc: u32, polynomial: u32) -> u32 {
    (crc >> 1) ^ (polynomial & (crc & 1).wrapping_neg())
}

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Box<Tables>> = OnceLock::new();
    TABLES.get_or_init(|| Tables::new(POLYNOMIAL))
}

/// Returns the CRC of these bytes.
#[must_use]
pub fn hash(bytes: &[u8]) -> u32 {
    tables().add(0, bytes)
}

/// Computes the CRC of bytes that arrive piece by piece.
#[derive(Clone, Debug, Default)]
pub struct Hasher {
    crc: u32,
    len: u64,
}

impl Hasher {
    /// Starts with no bytes.
    #[must_use]
    pub const fn new() -> Self {
        Self::new_with_initial_len(0, 0)
    }

    /// Starts with `len` bytes whose CRC is known.
    #[must_use]
    pub const fn new_with_initial_len(crc: u32, len: u64) -> Self {
        Self { crc, len }
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.crc = tables().add(self.crc, bytes);
        self.len += bytes.len() as u64;
    }

    /// Adds bytes whose CRC is known.
    pub fn combine(&mut self, next: &Self) {
        self.crc = times(self.crc, power(next.len)) ^ next.crc;
        self.len += next.len;
    }

    /// Returns the CRC of all bytes.
    #[must_use]
    pub const fn finalize(self) -> u32 {
        self.crc
    }
}

/// Multiplies two polynomials modulo that of the CRC. The highest bit is the lowest term.
fn times(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    for bit in (0..u32::BITS).rev() {
        product ^= b & (a >> bit & 1).wrapping_neg();
        b = times_x(b, POLYNOMIAL);
    }
    product
}

/// Returns the factor by which a CRC is multiplied when this many bytes follow.
fn power(mut bytes: u64) -> u32 {
    let (mut product, mut square) = (1 << 31, 1 << 23); // 1, and x to the 8th
    while bytes > 0 {
        if bytes & 1 == 1 {
            product = times(product, square);
        }
        square = times(square, square);
        bytes >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the CRC bit by bit, by its definition.
    fn slowly(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(u32::MAX, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| times_x(crc, POLYNOMIAL))
        })
    }

    #[test]
    fn it_is_the_crc_of_any_bytes_however_they_are_cut() {
        assert_eq!(hash(b"123456789"), 0xcbf4_3926);
        let bytes: Vec<u8> = (0..200u32).map(|n| ((n * n) >> 3) as u8).collect();
        for len in 0..bytes.len() {
            let expected = slowly(&bytes[..len]);
            assert_eq!(hash(&bytes[..len]), expected, "{len}");
            for cut in [0, 1, len / 3, len / 2, len] {
                let (front, back) = bytes[..len].split_at(cut.min(len));
                let mut one = Hasher::new();
                one.update(front);
                one.update(back);
                assert_eq!(one.finalize(), expected, "{len}, cut at {cut}");
                let mut joined = Hasher::new_with_initial_len(hash(front), front.len() as u64);
                joined.combine(&Hasher::new_with_initial_len(hash(back), back.len() as u64));
                assert_eq!(joined.finalize(), expected, "{len}, joined at {cut}");
            }
        }
    }
}
