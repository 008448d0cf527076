//! Converts MessagePack as AERO uses it to JSON: bytes become hex digits.

use serde_json::{Map, Value};

use super::float;

/// Returns the value at the front, and the bytes that follow it.
pub(super) fn value(bytes: &[u8]) -> Option<(Value, &[u8])> {
    let mut input = Input(bytes);
    let value = input.value()?;
    Some((value, input.0))
}

/// Reads big-endian values one after the other.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, len: u64) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }

    fn unsigned(&mut self, size: u64) -> Option<u64> {
        Some(self.bytes(size)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn signed(&mut self, size: u64) -> Option<i64> {
        let unused = 64 - 8 * size;
        Some((self.unsigned(size)? << unused).cast_signed() >> unused)
    }

    fn value(&mut self) -> Option<Value> {
        let tag = self.bytes(1)?[0];
        let low = |mask: u8| u64::from(tag & mask);
        match tag {
            0x00..=0x7f => Some(tag.into()),
            0x80..=0x8f => self.map(low(15)),
            0x90..=0x9f => self.list(low(15)),
            0xa0..=0xbf => self.text(low(31)),
            0xc0 => Some(Value::Null),
            0xc2 | 0xc3 => Some((tag == 0xc3).into()),
            0xc4..=0xc6 => {
                let len = self.unsigned(1 << (tag - 0xc4))?;
                Some(hex(self.bytes(len)?).into())
            }
            0xca => Some(float(f32::from_bits(u32::try_from(self.unsigned(4)?).ok()?).into())),
            0xcb => Some(float(f64::from_bits(self.unsigned(8)?))),
            0xcc..=0xcf => Some(self.unsigned(1 << (tag - 0xcc))?.into()),
            0xd0..=0xd3 => Some(self.signed(1 << (tag - 0xd0))?.into()),
            0xd9..=0xdb => {
                let len = self.unsigned(1 << (tag - 0xd9))?;
                self.text(len)
            }
            0xdc | 0xdd => {
                let len = self.unsigned(2 << (tag - 0xdc))?;
                self.list(len)
            }
            0xde | 0xdf => {
                let len = self.unsigned(2 << (tag - 0xde))?;
                self.map(len)
            }
            0xe0..=0xff => Some(tag.cast_signed().into()),
            _ => None, // extension types
        }
    }

    fn text(&mut self, len: u64) -> Option<Value> {
        Some(std::str::from_utf8(self.bytes(len)?).ok()?.into())
    }

    fn list(&mut self, len: u64) -> Option<Value> {
        (0..len).map(|_| self.value()).collect::<Option<Vec<_>>>().map(Value::Array)
    }

    fn map(&mut self, len: u64) -> Option<Value> {
        let pair = |_| Some((self.value()?.as_str()?.to_owned(), self.value()?));
        (0..len).map(pair).collect::<Option<Map<_, _>>>().map(Value::Object)
    }
}

/// Formats bytes as lower-case hex digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
