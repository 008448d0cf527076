//! MessagePack, decoded by hand for the long parts of a file: the tensor index and the page hashes.
//!
//! A [`Walker`] borrows from the bytes and allocates nothing, whatever lengths they claim. [`decode`] turns
//! small maps (the manifest) into trees.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::value::{CheckSeed, Object, ParseOptions, Value, ValueSeed};
use serde::de::DeserializeSeed;

use crate::error::Fault;

/// The reason why bytes are not the expected MessagePack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessagePackFault(&'static str);

impl From<MessagePackFault> for Fault {
    #[cold]
    fn from(MessagePackFault(text): MessagePackFault) -> Self {
        Self::MessagePack(text)
    }
}

/// The most levels of nesting.
pub(crate) const DEPTH: u64 = 127;

pub(crate) const CUT_SHORT: MessagePackFault =
    MessagePackFault("the MessagePack ends in the middle of a value");
pub(crate) const TRAILING: MessagePackFault = MessagePackFault("bytes follow the MessagePack value");
pub(crate) const TOO_DEEP: MessagePackFault = MessagePackFault("the MessagePack is nested too deep");
pub(crate) const NOT_UTF8: MessagePackFault = MessagePackFault("text is not valid UTF-8");

/// Reads one value after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walker<'a> {
    /// The bytes that have not been read yet.
    rest: &'a [u8],
    /// The length of all bytes.
    len: usize,
}

impl<'a> Walker<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, len: bytes.len() }
    }

    /// Returns the offset of the next value.
    pub(crate) const fn position(&self) -> usize {
        self.len.saturating_sub(self.rest.len())
    }

    pub(crate) const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Returns the bytes that were read since `before`, an earlier copy of this walker.
    pub(crate) fn since(&self, before: Self) -> &'a [u8] {
        before.rest.get(..self.position().saturating_sub(before.position())).unwrap_or_default()
    }

    /// Skips these bytes, if they come next.
    #[inline]
    pub(crate) fn skip_if<const N: usize>(&mut self, bytes: &[u8; N]) -> bool {
        match self.rest.split_first_chunk() {
            Some((first, rest)) if first == bytes => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, MessagePackFault> {
        let (&byte, rest) = self.rest.split_first().ok_or(CUT_SHORT)?;
        self.rest = rest;
        Ok(byte)
    }

    #[inline]
    fn array_of<const N: usize>(&mut self) -> Result<[u8; N], MessagePackFault> {
        let (&array, rest) = self.rest.split_first_chunk().ok_or(CUT_SHORT)?;
        self.rest = rest;
        Ok(array)
    }

    #[inline]
    fn u8(&mut self) -> Result<u32, MessagePackFault> {
        self.byte().map(u32::from)
    }

    #[inline]
    fn u16(&mut self) -> Result<u32, MessagePackFault> {
        self.array_of().map(|b| u32::from(u16::from_be_bytes(b)))
    }

    #[inline]
    fn u32(&mut self) -> Result<u32, MessagePackFault> {
        self.array_of().map(u32::from_be_bytes)
    }

    #[inline]
    fn take(&mut self, len: u32) -> Result<&'a [u8], MessagePackFault> {
        let (taken, rest) = self.rest.split_at_checked(len as usize).ok_or(CUT_SHORT)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Reads the head of a map and returns the number of pairs.
    #[inline]
    pub(crate) fn map(&mut self) -> Result<u32, MessagePackFault> {
        match self.byte()? {
            tag @ 0x80..=0x8f => Ok(u32::from(tag & 0x0f)),
            0xde => self.u16(),
            0xdf => self.u32(),
            _ => Err(MessagePackFault("a map is expected")),
        }
    }

    /// Reads the head of a list and returns the number of elements.
    #[inline]
    pub(crate) fn array(&mut self) -> Result<u32, MessagePackFault> {
        match self.byte()? {
            tag @ 0x90..=0x9f => Ok(u32::from(tag & 0x0f)),
            0xdc => self.u16(),
            0xdd => self.u32(),
            _ => Err(MessagePackFault("a list is expected")),
        }
    }

    /// Reads a text and returns its bytes, without checking that they are UTF-8.
    #[inline]
    pub(crate) fn text(&mut self) -> Result<&'a [u8], MessagePackFault> {
        let len = match self.byte()? {
            tag @ 0xa0..=0xbf => u32::from(tag & 0x1f),
            0xd9 => self.u8()?,
            0xda => self.u16()?,
            0xdb => self.u32()?,
            _ => return Err(MessagePackFault("text is expected")),
        };
        self.take(len)
    }

    #[inline]
    pub(crate) fn str(&mut self) -> Result<&'a str, MessagePackFault> {
        std::str::from_utf8(self.text()?).map_err(|_| NOT_UTF8)
    }

    /// Reads a `bin` and returns its bytes.
    pub(crate) fn bin(&mut self) -> Result<&'a [u8], MessagePackFault> {
        let len = match self.byte()? {
            0xc4 => self.u8()?,
            0xc5 => self.u16()?,
            0xc6 => self.u32()?,
            _ => return Err(MessagePackFault("bytes (bin) are expected")),
        };
        self.take(len)
    }

    /// Reads a non-negative integer of any width.
    #[inline]
    pub(crate) fn uint(&mut self) -> Result<u64, MessagePackFault> {
        match self.byte()? {
            tag @ 0..=0x7f => Ok(u64::from(tag)),
            tag => {
                // Passed by value: a walker that is not borrowed can stay in registers.
                let (number, after) = self.wide(tag);
                *self = after;
                number
            }
        }
    }

    /// Returns the integer after a tag, and the walker after the integer.
    fn wide(mut self, tag: u8) -> (Result<u64, MessagePackFault>, Self) {
        const NEGATIVE: MessagePackFault = MessagePackFault("an integer that is not negative is expected");
        let number = match tag {
            0xcc => self.u8().map(u64::from),
            0xcd => self.u16().map(u64::from),
            0xce => self.u32().map(u64::from),
            0xcf => self.array_of().map(u64::from_be_bytes),
            0xd0 => self.array_of().and_then(|b| u64::try_from(i8::from_be_bytes(b)).map_err(|_| NEGATIVE)),
            0xd1 => self.array_of().and_then(|b| u64::try_from(i16::from_be_bytes(b)).map_err(|_| NEGATIVE)),
            0xd2 => self.array_of().and_then(|b| u64::try_from(i32::from_be_bytes(b)).map_err(|_| NEGATIVE)),
            0xd3 => self.array_of().and_then(|b| u64::try_from(i64::from_be_bytes(b)).map_err(|_| NEGATIVE)),
            _ => Err(NEGATIVE),
        };
        (number, self)
    }

    /// Skips a `nil`, if one comes next.
    #[inline]
    pub(crate) fn nil(&mut self) -> bool {
        self.skip_if(&[0xc0])
    }

    /// Reads one value of any type, nested at most `depth` levels deep, and returns its bytes.
    #[inline]
    pub(crate) fn value(&mut self, depth: u64) -> Result<&'a [u8], MessagePackFault> {
        let mut after = *self;
        let skipped = after.skip(depth);
        let value = after.since(*self);
        *self = after;
        skipped.map(|()| value)
    }

    /// Skips one value of any type, nested at most `depth` levels deep, without recursion.
    pub(crate) fn skip(&mut self, depth: u64) -> Result<(), MessagePackFault> {
        // For each open container, the number of values that are still to come.
        let mut open: Vec<u64> = Vec::new();
        loop {
            let inside = self.skip_head()?;
            if inside > 0 {
                if open.len() as u64 >= depth {
                    return Err(TOO_DEEP);
                }
                open.push(inside);
            }
            while let Some(left) = open.last_mut() {
                if *left > 0 {
                    *left = (*left).saturating_sub(1);
                    break;
                }
                open.pop();
            }
            if open.is_empty() {
                return Ok(());
            }
        }
    }

    /// Skips a scalar or the head of a container, and returns the number of values in the container.
    fn skip_head(&mut self) -> Result<u64, MessagePackFault> {
        let len = match self.byte()? {
            0..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => 0,
            tag @ 0x80..=0x8f => return Ok(2 * u64::from(tag & 0x0f)),
            tag @ 0x90..=0x9f => return Ok(u64::from(tag & 0x0f)),
            tag @ 0xa0..=0xbf => u32::from(tag & 0x1f),
            0xc1 => return Err(MessagePackFault("the byte 0xc1 begins no MessagePack value")),
            0xc4 | 0xd9 => self.u8()?,
            0xc5 | 0xda => self.u16()?,
            0xc6 | 0xdb => self.u32()?,
            0xc7 => self.u8()?.saturating_add(1),
            0xc8 => self.u16()?.saturating_add(1),
            0xc9 => self.u32()?.saturating_add(1),
            0xca | 0xce | 0xd2 => 4,
            0xcb | 0xcf | 0xd3 => 8,
            0xcc | 0xd0 => 1,
            0xcd | 0xd1 => 2,
            // Extension types of fixed length: the type, then 1, 2, 4, 8 or 16 bytes.
            0xd4 => 2,
            0xd5 => 3,
            0xd6 => 5,
            0xd7 => 9,
            0xd8 => 17,
            0xdc => return self.u16().map(u64::from),
            0xdd => return self.u32().map(u64::from),
            0xde => return self.u16().map(|pairs| 2 * u64::from(pairs)),
            0xdf => return self.u32().map(|pairs| 2 * u64::from(pairs)),
        };
        self.take(len)?;
        Ok(0)
    }
}

/// Reads a payload that begins with a map, and returns the bytes after the map. `field` reads the value of a
/// key that it knows, and returns whether the key occurred before.
pub(crate) fn fields<'a>(
    payload: &'a [u8],
    mut field: impl FnMut(&[u8], &mut Walker<'a>) -> Result<Option<bool>, Fault>,
) -> Result<&'a [u8], Fault> {
    let mut walker = Walker::new(payload);
    for _ in 0..walker.map()? {
        let key = walker.text()?;
        match field(key, &mut walker)? {
            Some(false) => {}
            Some(true) => {
                return Err(
                    modelfmt_core::CommonFault::Duplicate(String::from_utf8_lossy(key).into_owned()).into()
                );
            }
            None => walker.skip(DEPTH - 1)?,
        }
    }
    Ok(walker.rest)
}

/// Returns the value under a key of the map that comes next, or `None` if this is not a map or has no such
/// key.
pub(crate) fn find<'a>(mut walker: Walker<'a>, key: &str) -> Option<Walker<'a>> {
    for _ in 0..walker.map().ok()? {
        let found = walker.text().ok()? == key.as_bytes();
        if found {
            return Some(walker);
        }
        walker.skip(DEPTH).ok()?;
    }
    None
}

/// Decodes one value, followed by nothing, as a tree of at most `nodes` values.
pub(crate) fn decode(bytes: &[u8], depth: u64, nodes: u64) -> Result<Value, String> {
    read(bytes, depth, |options| ValueSeed::new(options.with_max_nodes(nodes)))
}

/// Makes the same checks as [`decode`] without building a tree. Returns the kind of the value.
pub(crate) fn check(bytes: &[u8], depth: u64) -> Result<&'static str, String> {
    read(bytes, depth, CheckSeed::new)
}

fn read<'a, S: DeserializeSeed<'a>>(
    bytes: &'a [u8],
    depth: u64,
    seed: impl FnOnce(ParseOptions) -> S,
) -> Result<S::Value, String> {
    let mut walker = Walker::new(bytes);
    walker.skip(depth).map_err(|MessagePackFault(text)| text)?;
    if walker.remaining() > 0 {
        return Err(TRAILING.0.to_owned());
    }
    let depth = u32::try_from(depth).unwrap_or(u32::MAX);
    let seed = seed(ParseOptions::new().with_max_depth(depth));
    let mut deserializer = rmp_serde::Deserializer::from_read_ref(bytes);
    seed.deserialize(&mut deserializer).map_err(|error| error.to_string())
}

/// Encodes a tree: maps have text keys, and integers take their shortest form.
pub(crate) fn encode(tree: &Object) -> Result<Vec<u8>, String> {
    rmp_serde::to_vec(tree).map_err(|error| error.to_string())
}

pub(crate) fn put_map(out: &mut Vec<u8>, pairs: u32) {
    put_len(out, pairs, 0x80, 15, [None, Some(0xde), Some(0xdf)]);
}

pub(crate) fn put_array(out: &mut Vec<u8>, len: u32) {
    put_len(out, len, 0x90, 15, [None, Some(0xdc), Some(0xdd)]);
}

/// Writes a text. Callers keep it shorter than 2^32 bytes; anything longer would be cut off.
pub(crate) fn put_str(out: &mut Vec<u8>, text: &str) {
    put_len(
        out,
        u32::try_from(text.len()).unwrap_or(u32::MAX),
        0xa0,
        31,
        [Some(0xd9), Some(0xda), Some(0xdb)],
    );
    out.extend(text.as_bytes());
}

pub(crate) fn put_digest(out: &mut Vec<u8>, digest: &[u8; 32]) {
    out.extend([0xc4, 32]);
    out.extend(digest);
}

pub(crate) fn put_uint(out: &mut Vec<u8>, number: u64) {
    if let Ok(short) = u8::try_from(number) {
        if short > 0x7f {
            out.push(0xcc);
        }
        out.push(short);
    } else if let Ok(short) = u16::try_from(number) {
        out.push(0xcd);
        out.extend(short.to_be_bytes());
    } else if let Ok(short) = u32::try_from(number) {
        out.push(0xce);
        out.extend(short.to_be_bytes());
    } else {
        out.push(0xcf);
        out.extend(number.to_be_bytes());
    }
}

/// Writes the shortest head for a length: within the tag if it is at most `fixed`, else after the tag in 8,
/// 16 or 32 bits.
fn put_len(out: &mut Vec<u8>, len: u32, tag: u8, fixed: u8, [tag8, tag16, tag32]: [Option<u8>; 3]) {
    match (u8::try_from(len), u16::try_from(len)) {
        (Ok(short), _) if short <= fixed => out.push(tag | short),
        (Ok(short), _) if tag8.is_some() => out.extend(tag8.into_iter().chain([short])),
        (_, Ok(short)) => out.extend(tag16.into_iter().chain(short.to_be_bytes())),
        _ => out.extend(tag32.into_iter().chain(len.to_be_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_text_are_those_of_another_encoder() {
        for number in [0, 1, 127, 128, 255, 256, 65_535, 65_536, u64::from(u32::MAX), 1 << 32, u64::MAX] {
            let mut own = Vec::new();
            put_uint(&mut own, number);
            assert_eq!(own, rmp_serde::to_vec(&number).unwrap(), "{number}");
            assert_eq!(Walker::new(&own).uint(), Ok(number));
        }
        for len in [0, 1, 31, 32, 255, 256, 65_535, 65_536] {
            let text = "x".repeat(len);
            let mut own = Vec::new();
            put_str(&mut own, &text);
            assert_eq!(own, rmp_serde::to_vec(&text).unwrap(), "{len}");
            assert_eq!(Walker::new(&own).str(), Ok(&*text));
        }
        for len in [0u32, 15, 16, 65_535, 65_536] {
            let list = vec![1u8; len as usize];
            let mut own = Vec::new();
            put_array(&mut own, len);
            own.extend(&list);
            assert_eq!(own, rmp_serde::to_vec(&list).unwrap(), "{len}");
            assert_eq!(Walker::new(&own).array(), Ok(len));
        }
    }

    #[test]
    fn integers_come_in_every_width() {
        for bytes in [&[5][..], &[0xcc, 5], &[0xcd, 0, 5], &[0xd0, 5], &[0xd1, 0, 5], &[0xd2, 0, 0, 0, 5]] {
            assert_eq!(Walker::new(bytes).uint(), Ok(5));
        }
        assert!(Walker::new(&[0xff]).uint().is_err());
        assert!(Walker::new(&[0xd0, 0xff]).uint().is_err());
    }

    #[test]
    fn skipping_passes_every_type_and_nothing_more() {
        for value in [
            &[0xc0][..],
            &[0x81, 0xa1, b'k', 0x92, 1, 0x80],
            &[0xca, 0, 0, 0, 0],
            &[0xd6, 1, 0, 0, 0, 0],
            &[0xc7, 3, 1, 9, 9, 9],
            &[0xc4, 2, 0, 0],
            &[0x90],
        ] {
            let mut bytes = value.to_vec();
            bytes.push(7);
            let mut walker = Walker::new(&bytes);
            walker.skip(127).unwrap();
            assert_eq!(walker.position(), value.len(), "{value:x?}");
        }
    }

    #[test]
    fn hostile_lengths_and_depths_are_errors() {
        for head in [0xdb, 0xdd, 0xdf, 0xc6, 0xc9] {
            let bytes = [head, 0xff, 0xff, 0xff, 0xff, 0];
            assert!(Walker::new(&bytes).skip(127).is_err(), "{head:x}");
            assert!(decode(&bytes, 127, 1000).is_err(), "{head:x}");
        }
        let nested = |levels: usize| [vec![0x91; levels], vec![0xc0]].concat();
        assert_eq!(Walker::new(&nested(127)).skip(127), Ok(()));
        assert!(decode(&nested(127), 127, 1000).is_ok());
        assert_eq!(Walker::new(&nested(128)).skip(127), Err(TOO_DEEP));
        assert_eq!(Walker::new(&nested(10_000)).skip(127), Err(TOO_DEEP));
        assert!(decode(&[1, 1], 127, 1000).unwrap_err().contains("follow"));
        assert!(decode(&[0x93, 1, 1, 1], 127, 3).is_err());
    }
}
