//! The fields of an entry in a TIDX: a map whose keys may come in any order, but nearly always come in the
//! same order.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::CommonFault;

use crate::error::Fault;
use crate::msgpack::{MessagePackFault, Walker};

/// The offsets of keys in the content of a TIDX. Each takes only four bytes, because a pair can be as short
/// as two.
#[derive(Default)]
pub(super) struct Keys(Vec<u32>);

impl Keys {
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds the key at the walker's position. `left` pairs, including this one, are still to come.
    pub(super) fn push(&mut self, walker: &Walker<'_>, left: u32) {
        if self.0.len() == self.0.capacity() {
            // A pair has at least two bytes.
            self.0.reserve_exact((walker.remaining() / 2).saturating_add(1).min(left as usize));
        }
        // A TIDX has at most 2^31 bytes.
        self.0.push(u32::try_from(walker.position()).unwrap_or(u32::MAX));
    }

    /// Returns the bytes of each pair, in the order in which the keys were added.
    pub(super) fn pairs<'a>(&self, content: &'a [u8], depth: u64) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().map(move |&at| {
            let before = Walker::new(content.get(at as usize..).unwrap_or_default());
            let mut walker = before;
            // The key and the value were read when the key was added.
            let read = walker.text().and_then(|_| walker.skip(depth));
            if read.is_ok() { walker.since(before) } else { &[] }
        })
    }

    /// Returns a key that occurs twice, if there is one. This sorts the keys.
    pub(super) fn duplicate(&mut self, content: &[u8]) -> Option<String> {
        let key = |&at: &u32| {
            let found = Walker::new(content.get(at as usize..).unwrap_or_default()).text();
            found.unwrap_or_default()
        };
        self.0.sort_unstable_by(|a, b| key(a).cmp(key(b)));
        let duplicate = self.0.iter().zip(self.0.iter().skip(1)).find(|(a, b)| key(a) == key(b));
        duplicate.map(|(at, _)| String::from_utf8_lossy(key(at)).into_owned())
    }
}

/// The limits on an entry.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// The most levels that its values may nest.
    pub(super) depth: u64,
    /// The most dimensions that are kept. Further dimensions are only counted.
    pub(super) rank: u64,
}

/// The fields of one entry, except for the dimensions of its shape.
#[derive(Default)]
pub(super) struct Fields<'a> {
    /// The bits of the [`KEYS`] that have been read.
    seen: u16,
    pub(super) name: &'a str,
    pub(super) dtype: u64,
    /// The number of dimensions of the shape.
    pub(super) rank: u32,
    pub(super) shard_id: u64,
    pub(super) data_off: u64,
    pub(super) data_len: u64,
    pub(super) flags: u64,
    pub(super) quant_id: Option<u64>,
    pub(super) quant_params: Option<&'a [u8]>,
    pub(super) hash: Option<&'a [u8]>,
}

/// The keys of an entry, in the order in which this crate writes them. The first six are required.
pub(crate) const KEYS: [&str; 10] = [
    "name",
    "dtype",
    "shape",
    "shard_id",
    "data_off",
    "data_len",
    "flags",
    "quant_id",
    "quant_params",
    "hash_b3",
];
const REQUIRED: u16 = 0b11_1111;

impl<'a> Fields<'a> {
    /// Reads an entry. Its shape goes into `dims`, and the offsets of unknown keys into `unknown`.
    #[inline]
    pub(super) fn read(
        &mut self,
        walker: &mut Walker<'a>,
        bounds: Bounds,
        dims: &mut Vec<u64>,
        unknown: &mut Keys,
    ) -> Result<(), Fault> {
        dims.clear();
        unknown.clear();
        let pairs = walker.map()?;
        // A copy can stay in registers.
        let mut ahead = *walker;
        let usual = self.usual(pairs, &mut ahead, bounds, dims);
        *walker = ahead;
        for pair in usual?..pairs {
            let start = *walker;
            let key = walker.text()?;
            let Some(field) = field_of(key) else {
                walker.skip(bounds.depth)?;
                unknown.push(&start, pairs.saturating_sub(pair));
                continue;
            };
            if self.seen & (1 << field) != 0 {
                let key = String::from_utf8_lossy(key).into_owned();
                return Err(CommonFault::Duplicate(key).into());
            }
            self.seen |= 1 << field;
            self.field(field, walker, bounds, dims)?;
        }
        Ok(())
    }

    /// Returns a required key that is missing.
    #[inline]
    pub(super) fn missing(&self) -> Option<&'static str> {
        if self.seen & REQUIRED == REQUIRED {
            return None;
        }
        let missing = (0u16..).zip(KEYS).find(|(bit, _)| self.seen & (1 << bit) == 0);
        missing.map(|(_, key)| key)
    }

    /// Reads keys as long as they come in the usual order, and returns how many. Comparing with the one
    /// expected key costs a fraction of a search.
    #[inline(always)]
    fn usual(
        &mut self,
        pairs: u32,
        walker: &mut Walker<'a>,
        bounds: Bounds,
        dims: &mut Vec<u64>,
    ) -> Result<u32, MessagePackFault> {
        let mut read = 0_u32;
        macro_rules! next {
            ($($field:literal)*) => {$(
                if read < pairs && walker.skip_if(const { &encoded::<{ KEYS[$field].len() + 1 }>(KEYS[$field]) }) {
                    read = read.saturating_add(1);
                    self.seen |= 1 << $field;
                    self.field($field, walker, bounds, dims)?;
                }
            )*};
        }
        next!(0 1 2 3 4 5 6 7 8 9);
        Ok(read)
    }

    #[inline(always)]
    fn field(
        &mut self,
        field: u16,
        walker: &mut Walker<'a>,
        bounds: Bounds,
        dims: &mut Vec<u64>,
    ) -> Result<(), MessagePackFault> {
        match field {
            0 => self.name = walker.str()?,
            1 => self.dtype = walker.uint()?,
            2 => {
                self.rank = walker.array()?;
                for _ in 0..self.rank {
                    let dim = walker.uint()?;
                    // Keeps no more dimensions than allowed: otherwise a byte of the file would become eight
                    // bytes of memory.
                    if (dims.len() as u64) < bounds.rank {
                        dims.push(dim);
                    }
                }
            }
            3 => self.shard_id = walker.uint()?,
            4 => self.data_off = walker.uint()?,
            5 => self.data_len = walker.uint()?,
            // Optional fields may be nil.
            _ if walker.nil() => {}
            6 => self.flags = walker.uint()?,
            7 => self.quant_id = Some(walker.uint()?),
            8 => self.quant_params = Some(walker.value(bounds.depth)?),
            _ => self.hash = Some(walker.text()?),
        }
        Ok(())
    }
}

#[inline]
fn field_of(key: &[u8]) -> Option<u16> {
    (0u16..).zip(KEYS).find(|(_, known)| known.as_bytes() == key).map(|(field, _)| field)
}

/// Encodes a key of fewer than 32 bytes as MessagePack text.
#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated by the compiler alone"
)]
const fn encoded<const LEN: usize>(key: &str) -> [u8; LEN] {
    let mut out = [0xa0 | key.len() as u8; LEN];
    let mut at = 1_usize;
    while at < LEN {
        out[at] = key.as_bytes()[at.saturating_sub(1)];
        at = at.saturating_add(1);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::write::NewEntry;
    use super::*;

    const BOUNDS: Bounds = Bounds { depth: 9, rank: 4 };

    const ENTRY: NewEntry<'_> = NewEntry {
        name: "w",
        dtype: 2,
        shape: &[300, 4],
        shard_id: 1,
        data_off: 1 << 40,
        data_len: 4800,
        quant: Some((5, 8)),
        quant_params: None,
        extra: None,
        hash_b3: Some([7; 32]),
    };

    /// Returns the entry's pairs in MessagePack, in the order in which this crate writes them.
    fn pairs() -> Vec<Vec<u8>> {
        let mut bytes = Vec::new();
        ENTRY.put(&mut bytes);
        let mut walker = Walker::new(&bytes);
        let count = walker.map().unwrap();
        let pair = |_| [walker.value(9).unwrap(), walker.value(9).unwrap()].concat();
        (0..count).map(pair).collect()
    }

    fn entry(pairs: &[Vec<u8>]) -> Vec<u8> {
        let count = 0x80 + u8::try_from(pairs.len()).unwrap();
        [vec![count], pairs.concat()].concat()
    }

    /// Reads an entry, and returns the number of unread bytes.
    fn read<'a>(
        bytes: &'a [u8],
        dims: &mut Vec<u64>,
        unknown: &mut Keys,
    ) -> Result<(Fields<'a>, usize), Fault> {
        let mut walker = Walker::new(bytes);
        let mut fields = Fields::default();
        fields.read(&mut walker, BOUNDS, dims, unknown)?;
        Ok((fields, walker.remaining()))
    }

    #[test]
    fn every_key_that_we_write_is_usual() {
        let bytes = entry(&pairs());
        let mut walker = Walker::new(&bytes);
        let count = walker.map().unwrap();
        let mut fields = Fields::default();
        assert_eq!(fields.usual(count, &mut walker, BOUNDS, &mut Vec::new()), Ok(10));
        assert_eq!((walker.remaining(), fields.seen), (0, (1 << KEYS.len()) - 1));
    }

    #[test]
    fn keys_in_any_order_say_the_same() {
        let pairs = pairs();
        for first in 0..pairs.len() {
            let mut turned = pairs.clone();
            turned.rotate_left(first);
            // An unknown key in every position.
            turned.insert(first, b"\xa1x\x01".to_vec());
            for turned in [turned.clone(), turned.into_iter().rev().collect()] {
                let bytes = entry(&turned);
                let (mut dims, mut unknown) = (vec![9], Keys::default());
                let (fields, left) = read(&bytes, &mut dims, &mut unknown).unwrap();
                assert_eq!((left, fields.missing(), &dims[..]), (0, None, ENTRY.shape));
                assert_eq!((fields.name, fields.dtype, fields.shard_id), ("w", 2, 1));
                assert_eq!((fields.data_off, fields.data_len, fields.flags), (1 << 40, 4800, 0));
                assert_eq!(fields.quant_id, Some(5));
                assert_eq!(fields.quant_params, Some(&b"\x81\xa9ggml_type\x08"[..]));
                assert_eq!(fields.hash, Some("07".repeat(32).as_bytes()));
                assert!(unknown.pairs(&bytes, 9).eq([&b"\xa1x\x01"[..]]));
            }
        }
    }

    #[test]
    fn a_key_that_is_missing_or_there_twice_is_told() {
        let pairs = pairs();
        for (number, pair) in pairs.iter().enumerate() {
            let twice: Vec<_> = pairs.iter().chain([pair]).cloned().collect();
            let next: Vec<_> =
                pairs.iter().take(number).chain([pair]).chain(pairs.iter().skip(number)).cloned().collect();
            for bytes in [entry(&twice), entry(&next)] {
                let refused = read(&bytes, &mut Vec::new(), &mut Keys::default()).map(|_| ());
                assert_eq!(refused, Err(CommonFault::Duplicate(KEYS[number].to_owned()).into()));
            }
            let mut without = pairs.clone();
            without.remove(number);
            let bytes = entry(&without);
            let (fields, _) = read(&bytes, &mut Vec::new(), &mut Keys::default()).unwrap();
            assert_eq!(fields.missing(), Some(KEYS[number]).filter(|_| number < 6));
        }
    }

    #[test]
    fn no_more_dimensions_are_kept_than_a_tensor_may_have() {
        let bytes = [&b"\x81\xa5shape\xdc\x01\x00"[..], &[1; 256]].concat();
        let mut dims = Vec::new();
        let (fields, left) = read(&bytes, &mut dims, &mut Keys::default()).unwrap();
        assert_eq!((fields.rank, left, dims), (256, 0, vec![1; 4]));
    }

    #[test]
    fn an_error_is_where_reading_stopped() {
        for (entry, at) in [
            (&b"\x81\xa5shape\x92\xd1\xe0\x07"[..], 11),
            (b"\x81\xacquant_params\xd3", 15),
            (b"\x81\xacquant_params\x92\x01\xc1", 17),
            (b"\x81\xa1x\x92\x01\xc1", 6),
        ] {
            let mut walker = Walker::new(entry);
            let read = Fields::default().read(&mut walker, BOUNDS, &mut Vec::new(), &mut Keys::default());
            assert!(read.is_err());
            assert_eq!(walker.position(), at, "{entry:x?}");
        }
    }

    #[test]
    fn an_entry_that_is_cut_short_is_an_error() {
        let bytes = entry(&pairs());
        for len in 0..bytes.len() {
            assert!(read(&bytes[..len], &mut Vec::new(), &mut Keys::default()).is_err(), "{len}");
        }
    }
}
