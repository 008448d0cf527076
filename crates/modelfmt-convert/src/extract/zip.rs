//! Zip archives without compression, with the 64-bit records if a size or an offset needs them (PKWARE's
//! APPNOTE.TXT, 4.3 and 4.5.3). All sizes are known in advance, and so are all offsets, so several threads
//! can write members. Existing zip crates write a single stream of bytes.

/// A member. Its size is known in advance, and its CRC after it is written.
pub(super) struct Member {
    name: String,
    len: u64,
    /// The offset of its header.
    at: u64,
    crc: u32,
}

impl Member {
    pub(super) const fn new(name: String, len: u64) -> Self {
        Self { name, len, at: 0, crc: 0 }
    }

    fn header_len(&self) -> u64 {
        LOCAL_LEN + self.name.len() as u64 + if self.is_long() { LOCAL_LONG } else { 0 }
    }

    /// Checks whether its size needs 64 bits.
    const fn is_long(&self) -> bool {
        self.len >= SHORT
    }
}

/// The members of an archive, one after the other.
pub(super) struct Archive {
    members: Vec<Member>,
    /// The end of the last member.
    end: u64,
}

/// The value of a 32-bit field whose actual value is in a 64-bit record.
const SHORT: u64 = 0xffff_ffff;
const LOCAL_LEN: u64 = 30;
/// The length of a record with two 64-bit sizes.
const LOCAL_LONG: u64 = 20;
/// The flag for names in UTF-8.
const UTF8: u16 = 1 << 11;
/// 1 January 1980, the earliest date, so that the same tensors give the same bytes.
const DATE: u16 = 0x21;

impl Archive {
    /// Computes every offset.
    ///
    /// # Errors
    /// If the format cannot hold a member: the name of the member, and the reason.
    pub(super) fn new(mut members: Vec<Member>) -> Result<Self, (String, &'static str)> {
        let mut end = 0u64;
        for member in &mut members {
            if u16::try_from(member.name.len()).is_err() {
                return Err((member.name.clone(), "its name is too long for an archive"));
            }
            member.at = end;
            let next = end.checked_add(member.header_len()).and_then(|at| at.checked_add(member.len));
            end = next.ok_or_else(|| (member.name.clone(), "the archive would be too large"))?;
        }
        Ok(Self { members, end })
    }

    /// Returns the offset of the bytes of a member.
    pub(super) fn offset(&self, number: usize) -> u64 {
        self.members.get(number).map_or(self.end, |member| member.at.saturating_add(member.header_len()))
    }

    /// Returns the header of a member and its offset, after the CRC is known.
    pub(super) fn header(&mut self, number: usize, crc: u32) -> (u64, Vec<u8>) {
        let Some(member) = self.members.get_mut(number) else { return (self.end, Vec::new()) };
        member.crc = crc;
        let mut out = Vec::new();
        u32s(&mut out, [0x0403_4b50]);
        u16s(&mut out, [version(member.is_long()), UTF8, 0, 0, DATE]);
        u32s(&mut out, [crc, low(member.len), low(member.len)]);
        u16s(&mut out, [length(member.name.len()), if member.is_long() { 20 } else { 0 }]);
        out.extend_from_slice(member.name.as_bytes());
        if member.is_long() {
            u16s(&mut out, [1, 16]);
            u64s(&mut out, [member.len, member.len]);
        }
        (member.at, out)
    }

    /// Returns the central directory of all members, and its offset.
    pub(super) fn directory(&self) -> (u64, Vec<u8>) {
        let mut out = Vec::new();
        for member in &self.members {
            let mut long = Vec::new();
            if member.is_long() {
                long.extend([member.len, member.len]);
            }
            if member.at >= SHORT {
                long.push(member.at);
            }
            let extra = if long.is_empty() { 0 } else { 4 + 8 * long.len() };
            u32s(&mut out, [0x0201_4b50]);
            u16s(&mut out, [UNIX | version(!long.is_empty()), version(!long.is_empty()), UTF8, 0, 0, DATE]);
            u32s(&mut out, [member.crc, low(member.len), low(member.len)]);
            u16s(&mut out, [length(member.name.len()), length(extra), 0, 0, 0]);
            u32s(&mut out, [0o100_644 << 16, low(member.at)]);
            out.extend_from_slice(member.name.as_bytes());
            if !long.is_empty() {
                u16s(&mut out, [1, length(8 * long.len())]);
                u64s(&mut out, long);
            }
        }
        self.ending(&mut out);
        (self.end, out)
    }

    /// Adds the records after the directory.
    fn ending(&self, out: &mut Vec<u8>) {
        let (len, count) = (out.len() as u64, self.members.len() as u64);
        if self.end >= SHORT || len >= SHORT || count >= 0xffff {
            let at = self.end.saturating_add(len);
            u32s(out, [0x0606_4b50]);
            u64s(out, [44]);
            u16s(out, [UNIX | version(true), version(true)]);
            u32s(out, [0, 0]);
            u64s(out, [count, count, len, self.end]);
            u32s(out, [0x0706_4b50, 0]);
            u64s(out, [at]);
            u32s(out, [1]);
        }
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        u32s(out, [0x0605_4b50]);
        u16s(out, [0, 0, count, count]);
        u32s(out, [low(len), low(self.end)]);
        u16s(out, [0]);
    }
}

/// The version field of the writer: made on Unix, so that the permissions count.
const UNIX: u16 = 3 << 8;

/// Returns the version that a reader needs: zip 2.0, or 4.5 for 64-bit numbers.
const fn version(is_long: bool) -> u16 {
    if is_long { 45 } else { 20 }
}

/// Returns a 32-bit number, or the placeholder for a number in a 64-bit record.
fn low(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Returns a length that was checked to fit.
fn length(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

fn u16s(out: &mut Vec<u8>, numbers: impl IntoIterator<Item = u16>) {
    numbers.into_iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

fn u32s(out: &mut Vec<u8>, numbers: impl IntoIterator<Item = u32>) {
    numbers.into_iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

fn u64s(out: &mut Vec<u8>, numbers: impl IntoIterator<Item = u64>) {
    numbers.into_iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    use std::os::unix::fs::FileExt;

    use super::*;

    /// Writes an archive of zeros as a sparse file, and returns what Python's zipfile says about it.
    #[cfg(target_os = "linux")]
    fn seen_by_python(members: Vec<Member>, script: &str) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        let count = members.len();
        let mut archive = Archive::new(members).unwrap();
        for number in 0..count {
            let (at, header) = archive.header(number, crc32fast::hash(&[0; 100]));
            assert_eq!(at + header.len() as u64, archive.offset(number));
            file.as_file().write_all_at(&header, at).unwrap();
        }
        let (at, directory) = archive.directory();
        file.as_file().write_all_at(&directory, at).unwrap();
        testkit::python(script, &[file.path().to_str().unwrap()])
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn sizes_and_offsets_of_64_bits_are_read_by_zipfile() {
        let sizes = [100, SHORT - 1, SHORT, SHORT + 1, 100];
        let member = |(number, &len): (usize, &u64)| Member::new(format!("größe{number}"), len);
        let script = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\n\
                      print(*[(i.filename, i.file_size, i.compress_size) for i in z.infolist()])\n\
                      print(z.read('größe0') == z.read('größe4') == bytes(100), z.open('größe3').read(9) == bytes(9))";
        let seen = seen_by_python(sizes.iter().enumerate().map(member).collect(), script);
        let expected =
            sizes.iter().enumerate().map(|(number, len)| format!("('größe{number}', {len}, {len})"));
        assert_eq!(seen, format!("{}\nTrue True\n", expected.collect::<Vec<_>>().join(" ")));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn more_members_than_16_bits_count() {
        let script = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\nprint(len(z.infolist()), z.infolist()[-1].filename)";
        let members = (0..70_000).map(|number| Member::new(number.to_string(), 0)).collect();
        assert_eq!(seen_by_python(members, script), "70000 69999\n");
    }

    #[test]
    fn names_that_are_too_long_are_refused() {
        assert!(Archive::new(vec![Member::new("n".repeat(65_535), 1)]).is_ok());
        let (name, why) = Archive::new(vec![Member::new("n".repeat(65_536), 1)]).err().unwrap();
        assert!(name.len() == 65_536 && why.contains("too long"));
        let huge = ["a", "b"].map(|name| Member::new(name.to_owned(), u64::MAX - 100));
        assert!(Archive::new(huge.into()).is_err());
    }
}
