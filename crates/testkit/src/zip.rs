//! Zip archives for tests: valid ones as PyTorch and NumPy write them, and ones that break a rule.

use crate::crc32;

/// A member of an archive, with the content of its two headers. Change a field to make it wrong.
#[derive(Clone, Debug)]
pub struct ZipMember {
    /// The name in the directory, and in the local header before the content.
    pub names: [Vec<u8>; 2],
    /// The stored bytes.
    pub stored: Vec<u8>,
    /// The size in both headers.
    pub len: [u64; 2],
    /// The CRC-32 in both headers.
    pub crc: [u32; 2],
    /// The method in both headers: 0 stored, 8 deflated.
    pub method: [u16; 2],
    /// The flags in both headers.
    pub flags: [u16; 2],
    /// The extra fields in both headers.
    pub extra: [Vec<u8>; 2],
    /// Whether the directory has sizes and offset in a 64-bit field.
    pub is_long: bool,
    /// The position of the local header according to the directory; `None` for the true position.
    pub at: Option<u32>,
}

impl ZipMember {
    /// Makes a member that is stored uncompressed.
    #[must_use]
    pub fn stored(name: &str, content: &[u8]) -> Self {
        let (len, crc) = (content.len() as u64, crc32(content));
        Self {
            names: [name.into(), name.into()],
            stored: content.to_vec(),
            len: [len, len],
            crc: [crc, crc],
            method: [0, 0],
            flags: [0x800, 0x800],
            extra: [Vec::new(), Vec::new()],
            is_long: false,
            at: None,
        }
    }

    /// Makes a member that is deflated.
    #[must_use]
    pub fn deflated(name: &str, content: &[u8]) -> Self {
        let stored = miniz_oxide::deflate::compress_to_vec(content, 6);
        Self { stored, method: [8, 8], ..Self::stored(name, content) }
    }

    /// Describes the member as PyTorch does: the local header has zeros for what the data descriptor says
    /// after the content.
    #[must_use]
    pub fn described_behind(mut self) -> Self {
        (self.flags, self.len[1], self.crc[1]) = ([0x808; 2], 0, 0);
        self
    }
}

/// An archive. Change a field to make it wrong.
#[derive(Clone, Debug, Default)]
pub struct Zip {
    /// The members, in the order of the directory and of the file.
    pub members: Vec<ZipMember>,
    /// The bytes before the first member.
    pub before: Vec<u8>,
    /// The comment at the end.
    pub comment: Vec<u8>,
    /// Whether there is a 64-bit end record.
    pub is_long: bool,
    /// The number of members that the end record states; `None` for the true number.
    pub count: Option<u64>,
    /// The content of each member begins at a multiple of this, as in PyTorch's files.
    pub alignment: usize,
}

impl Zip {
    /// Makes an archive of these members.
    #[must_use]
    pub fn of(members: impl IntoIterator<Item = ZipMember>) -> Self {
        Self { members: members.into_iter().collect(), ..Self::default() }
    }

    /// Returns the bytes of the archive.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let (mut out, mut directory) = (self.before.clone(), Vec::new());
        for member in &self.members {
            let at = out.len();
            let stored = member.stored.len() as u64;
            let mut extra = member.extra[1].clone();
            if self.alignment > 0 {
                let end = at + 30 + member.names[1].len() + extra.len() + 4;
                let fill = end.next_multiple_of(self.alignment) - end;
                extra.extend(b"FB");
                extra.extend((fill as u16).to_le_bytes());
                extra.resize(extra.len() + fill, b'Z');
            }
            // The size in the local header is zero if it comes after the content.
            let stored_here = if member.len[1] == 0 && member.len[0] > 0 { 0 } else { stored };
            out.extend(b"PK\x03\x04");
            put16(&mut out, &[20, member.flags[1], member.method[1], 0, 0x21]);
            put32(&mut out, &[member.crc[1].into(), stored_here, member.len[1]]);
            put16(&mut out, &[member.names[1].len() as u16, extra.len() as u16]);
            out.extend(&member.names[1]);
            out.extend(&extra);
            out.extend(&member.stored);
            if member.flags[1] & 8 != 0 {
                out.extend(b"PK\x07\x08");
                put32(&mut out, &[member.crc[0].into(), stored, member.len[0]]);
            }
            let mut extra = member.extra[0].clone();
            let mut numbers = [stored, member.len[0], member.at.map_or(at as u64, u64::from)];
            if member.is_long {
                put16(&mut extra, &[1, 24]);
                for number in [numbers[1], numbers[0], numbers[2]] {
                    extra.extend(number.to_le_bytes());
                }
                numbers = [u32::MAX.into(); 3];
            }
            directory.extend(b"PK\x01\x02");
            put16(&mut directory, &[20, 20, member.flags[0], member.method[0], 0, 0x21]);
            put32(&mut directory, &[member.crc[0].into(), numbers[0], numbers[1]]);
            put16(&mut directory, &[member.names[0].len() as u16, extra.len() as u16, 0, 0, 0]);
            put32(&mut directory, &[0, numbers[2]]);
            directory.extend(&member.names[0]);
            directory.extend(&extra);
        }
        let (at, len) = (out.len() as u64, directory.len() as u64);
        let count = self.count.unwrap_or(self.members.len() as u64);
        out.extend(directory);
        if self.is_long {
            let record = out.len() as u64;
            out.extend(b"PK\x06\x06");
            out.extend(44u64.to_le_bytes());
            put16(&mut out, &[45, 45]);
            put32(&mut out, &[0, 0]);
            for number in [count, count, len, at] {
                out.extend(number.to_le_bytes());
            }
            out.extend(b"PK\x06\x07");
            put32(&mut out, &[0]);
            out.extend(record.to_le_bytes());
            put32(&mut out, &[1]);
        }
        out.extend(b"PK\x05\x06");
        let short = u16::try_from(count).unwrap_or(u16::MAX);
        put16(&mut out, &[0, 0, short, short]);
        put32(&mut out, &[len, at]);
        put16(&mut out, &[self.comment.len() as u16]);
        out.extend(&self.comment);
        out
    }
}

fn put16(out: &mut Vec<u8>, numbers: &[u16]) {
    numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
}

fn put32(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|&number| out.extend((number as u32).to_le_bytes()));
}
