//! Files of 100 GB of which only the beginning exists: every value is made up when it is read.
//!
//! The values are `u64`s that state their own position: the eight bytes from offset `8 n` on are `8 n`,
//! little-endian. If an offset lost its upper half anywhere, the values show it.

use std::io;
use std::ops::Range;

use modelfmt_core::{Container, Source};
use testkit::gguf::Gguf;

/// The size of the tensor in the middle in bytes: more than 32 bits can count.
const VAST: u64 = 100_000_000_000;
/// The size of the tensors before and after it in bytes.
const SMALL: u64 = 64;
/// The number of bytes that are read from each end of a tensor.
const SEEN: usize = 16;

/// A file whose values state their own position.
#[derive(Clone, Debug)]
pub struct Far {
    /// The name by which it is opened.
    pub name: &'static str,
    /// The bytes before the values.
    pub head: Vec<u8>,
    /// Its length.
    pub len: u64,
}

/// Makes such files: 64 bytes of values, 100 GB, 64 bytes.
#[must_use]
pub fn files() -> Vec<Far> {
    vec![safetensors(), gguf()]
}

fn safetensors() -> Far {
    let tensor = |name: &str, range: Range<u64>| {
        let (shape, begin, end) = ((range.end - range.start) / 8, range.start, range.end);
        format!(r#""{name}":{{"dtype":"U64","shape":[{shape}],"data_offsets":[{begin},{end}]}}"#)
    };
    let total = SMALL + VAST + SMALL;
    let tensors = [
        tensor("first", 0..SMALL),
        tensor("vast", SMALL..total - SMALL),
        tensor("last", total - SMALL..total),
    ];
    let mut header = format!("{{{}}}", tensors.join(","));
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
    let head = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    let len = head.len() as u64 + total;
    Far { name: "far.safetensors", head, len }
}

fn gguf() -> Far {
    const I64: u32 = 27;
    let file = Gguf::new()
        .record("first", I64, &[SMALL / 8], 0)
        .record("vast", I64, &[VAST / 8], SMALL)
        .record("last", I64, &[SMALL / 8], SMALL + VAST);
    let mut head = file.listing();
    head.resize(head.len().next_multiple_of(32), 0);
    let len = head.len() as u64 + SMALL + VAST + SMALL;
    Far { name: "far.gguf", head, len }
}

impl Source for Far {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(out.len() as u64).filter(|end| *end <= self.len);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        for (byte, at) in out.iter_mut().zip(offset..end) {
            let [place, within] = [at & !7, at & 7];
            let made_up = u8::try_from(place >> (8 * within) & 0xff).unwrap_or(0);
            *byte = usize::try_from(at).ok().and_then(|at| self.head.get(at)).copied().unwrap_or(made_up);
        }
        Ok(())
    }
}

/// Returns the position of each tensor of a file, and the values at both of its ends.
///
/// # Panics
/// If something cannot be read, or if a 32-bit machine reads something for which it has no address.
#[must_use]
pub fn describe(container: &dyn Container) -> String {
    let mut out = format!("{} bytes\n", container.file_size());
    for number in 0..container.tensor_count() {
        let info = container.info(number).expect("a tensor");
        let offset = container.location(number).expect("a location").offset.expect("data");
        let (first, last) = (word(container, number, 0), word(container, number, info.nbytes - SEEN as u64));
        out.push_str(&format!("{} {} bytes at {offset}: {first:?} … {last:?}\n", info.name, info.nbytes));
        if usize::try_from(info.nbytes).is_err() {
            assert!(container.read(number).is_err(), "{} bytes in memory", info.nbytes);
        }
    }
    out
}

/// Returns the two values from byte `offset` of a tensor on.
fn word(container: &dyn Container, tensor: usize, offset: u64) -> [u64; 2] {
    let mut bytes = [0; SEEN];
    container.values_into(tensor, offset, &mut bytes, None).expect("values");
    let value = |bytes: &[u8]| bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
    [value(&bytes[..8]), value(&bytes[8..])]
}

#[cfg(test)]
mod tests {
    use modelfmt_core::source::shared_files;

    use super::*;

    /// Returns the same file for every name.
    struct Only(Far);

    impl modelfmt_core::source::Files for Only {
        type Source = Far;
        fn open(&self, _: &str) -> io::Result<Far> {
            Ok(self.0.clone())
        }
    }

    #[test]
    fn values_state_where_they_stand() {
        for file in files() {
            let head = file.head.len() as u64;
            let last = head + SMALL + VAST;
            let expected = format!(
                "{} bytes\nfirst 64 bytes at {head}: {:?} … {:?}\nvast 100000000000 bytes at {}: {:?} … {:?}\nlast 64 bytes at {last}: {:?} … {:?}\n",
                last + SMALL,
                [head, head + 8],
                [head + 48, head + 56],
                head + SMALL,
                [head + SMALL, head + SMALL + 8],
                [last - 16, last - 8],
                [last, last + 8],
                [last + 48, last + 56],
            );
            let container = crate::open(file.name, &shared_files(Only(file.clone())));
            assert_eq!(describe(&*container), expected, "{}", file.name);
        }
    }
}
