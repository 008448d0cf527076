//! A bounds-checked reader of numbers and text that knows its position in the file.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use crate::error::{CommonError, CommonFault, Part};

/// Reads fields in sequence, little-endian unless [set otherwise](Self::big_endian). If the bytes run out,
/// the error names the record, the field and the offset.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    pos: usize,
    base: u64,
    record: &'static str,
    entry: Option<u64>,
    is_big_endian: bool,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor over `bytes`, which are at byte `base` of the file.
    #[must_use]
    pub const fn new(bytes: &'a [u8], base: u64) -> Self {
        Self { bytes, pos: 0, base, record: "file", entry: None, is_big_endian: false }
    }

    /// Sets whether numbers are read with the most significant byte first from here on.
    pub const fn big_endian(&mut self, is_big_endian: bool) {
        self.is_big_endian = is_big_endian;
    }

    /// Names the record that the next fields belong to.
    pub const fn record(&mut self, record: &'static str, entry: Option<u64>) {
        self.record = record;
        self.entry = entry;
    }

    /// Returns the offset of the next byte in the file.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.base.saturating_add(self.pos as u64)
    }

    /// Returns the number of bytes of the slice have been read.
    #[must_use]
    pub const fn consumed(&self) -> usize {
        self.pos
    }

    /// Returns the number of bytes are left.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.pos)
    }

    /// Returns the part of the file that is being read, for errors.
    #[must_use]
    pub const fn part(&self, field: &'static str) -> Part {
        Part { what: self.record, entry: self.entry, name: None, field: Some(field) }
    }

    /// Reads the next `len` bytes.
    ///
    /// # Errors
    /// [`CommonError::Truncated`] if fewer are left.
    #[inline]
    pub fn bytes(&mut self, len: u64, field: &'static str) -> Result<&'a [u8], CommonError> {
        let taken = usize::try_from(len).ok().and_then(|n| self.bytes.get(self.pos..)?.get(..n));
        let Some(taken) = taken else { return Err(self.truncated(len, field)) };
        self.pos = self.pos.saturating_add(taken.len());
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], CommonError> {
        match self.bytes.get(self.pos..).and_then(|rest| rest.first_chunk()) {
            Some(array) => {
                self.pos = self.pos.saturating_add(N);
                Ok(*array)
            }
            None => Err(self.truncated(N as u64, field)),
        }
    }

    #[cold]
    fn truncated(&self, need: u64, field: &'static str) -> CommonError {
        CommonError::Truncated {
            part: self.part(field),
            at: self.offset(),
            need,
            have: self.remaining() as u64,
        }
    }

    /// Reads the next `len` bytes as text.
    ///
    /// # Errors
    /// [`CommonError::Truncated`] if fewer are left, [`CommonFault::Utf8`] if they are not UTF-8.
    #[inline]
    pub fn str(&mut self, len: u64, field: &'static str) -> Result<&'a str, CommonError> {
        let at = self.offset();
        let bytes = self.bytes(len, field)?;
        std::str::from_utf8(bytes).map_err(|_| CommonError::Malformed {
            part: self.part(field),
            at,
            fault: CommonFault::Utf8,
        })
    }

    /// Reads the next `count` 64-bit numbers.
    ///
    /// # Errors
    /// [`CommonError::Truncated`] if fewer are left.
    #[inline]
    pub fn u64s(
        &mut self,
        count: u64,
        field: &'static str,
    ) -> Result<impl ExactSizeIterator<Item = u64> + Clone + use<'a>, CommonError> {
        let bytes = self.bytes(count.saturating_mul(8), field)?;
        let is_big_endian = self.is_big_endian;
        let of = move |number: u64| if is_big_endian { number.swap_bytes() } else { number };
        Ok(bytes.as_chunks().0.iter().map(move |&chunk| of(u64::from_le_bytes(chunk))))
    }

    /// Reads an 8-bit number.
    ///
    /// # Errors
    /// [`CommonError::Truncated`] if no byte is left.
    #[inline]
    pub fn u8(&mut self, field: &'static str) -> Result<u8, CommonError> {
        let [number] = self.array(field)?;
        Ok(number)
    }

    /// Reads a 16-bit number.
    ///
    /// # Errors
    /// [`CommonError::Truncated`] if fewer than 2 bytes are left.
    #[inline]
    pub fn u16(&mut self, field: &'static str) -> Result<u16, CommonError> {
        let number = u16::from_le_bytes(self.array(field)?);
        Ok(if self.is_big_endian { number.swap_bytes() } else { number })
    }

    /// Reads a 32-bit number.
    ///
    /// # Errors
    /// [`CommonError::Truncated`] if fewer than 4 bytes are left.
    #[inline]
    pub fn u32(&mut self, field: &'static str) -> Result<u32, CommonError> {
        let number = u32::from_le_bytes(self.array(field)?);
        Ok(if self.is_big_endian { number.swap_bytes() } else { number })
    }

    /// Reads a 64-bit number.
    ///
    /// # Errors
    /// [`CommonError::Truncated`] if fewer than 8 bytes are left.
    #[inline]
    pub fn u64(&mut self, field: &'static str) -> Result<u64, CommonError> {
        let number = u64::from_le_bytes(self.array(field)?);
        Ok(if self.is_big_endian { number.swap_bytes() } else { number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_order_and_errors_name_them() {
        let mut c = Cursor::new(&[1, 2, 0, 3, 0, 0, 0, b'h', b'i', 0xff, 9], 100);
        c.record("header", None);
        assert_eq!((c.u8("a"), c.u16("b"), c.u32("c")), (Ok(1), Ok(2), Ok(3)));
        assert_eq!(c.str(2, "name"), Ok("hi"));
        assert_eq!((c.offset(), c.consumed(), c.remaining()), (109, 9, 2));
        let utf8 = c.clone().str(1, "name").unwrap_err();
        let part = Part::new("header").with_field("name");
        assert_eq!(utf8, CommonError::Malformed { part: part.clone(), at: 109, fault: CommonFault::Utf8 });
        let part = Part::new("header").with_field("length");
        assert_eq!(c.u64("length"), Err(CommonError::Truncated { part, at: 109, need: 8, have: 2 }));
        assert!(c.bytes(u64::MAX, "x").is_err());
        assert!(c.u64s(u64::MAX, "x").is_err());
        assert_eq!(c.consumed(), 9, "a failed read takes nothing");
    }

    #[test]
    fn numbers_have_the_order_that_was_asked_for() {
        let mut bytes = 5u64.to_le_bytes().to_vec();
        bytes.extend(7u64.to_le_bytes());
        let mut c = Cursor::new(&bytes, 0);
        assert!(c.u64s(2, "dims").unwrap().eq([5, 7]));
        let mut c = Cursor::new(&bytes, 0);
        c.big_endian(true);
        assert_eq!(c.clone().u64("dim"), Ok(5 << 56));
        assert_eq!(
            (c.clone().u32("dim"), c.clone().u16("dim"), c.clone().u8("dim")),
            (Ok(5 << 24), Ok(5 << 8), Ok(5))
        );
        assert!(c.u64s(2, "dims").unwrap().eq([5 << 56, 7 << 56]));
    }
}
