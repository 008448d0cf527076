//! Zip archives.

use super::{Input, part};

pub(super) struct Member {
    pub(super) name: String,
    /// The content, as far as it decompresses.
    pub(super) content: Vec<u8>,
    pub(super) is_whole: bool,
    pub(super) crc: u32,
}

/// Returns the members in the order of the directory. Members that are not wanted have no content.
pub(super) fn members(file: &[u8], is_wanted: impl Fn(&str) -> bool) -> Option<Vec<Member>> {
    let end = file.windows(4).rposition(|window| window == b"PK\x05\x06")?;
    let mut input = Input::new(file, end as u64 + 10);
    let (mut count, _, mut at) = (u64::from(input.u16()?), input.u32()?, u64::from(input.u32()?));
    if let Some(locator) = end.checked_sub(20).filter(|&at| file[at..].starts_with(b"PK\x06\x07")) {
        let record = Input::new(file, locator as u64 + 8).u64()?;
        let mut input = Input::new(file, record + 32);
        (count, _, at) = (input.u64()?, input.u64()?, input.u64()?);
    }
    let mut input = Input::new(file, at);
    input.list(count, |input| {
        input.bytes(10)?;
        let method = input.u16()?;
        input.bytes(4)?;
        let crc = input.u32()?;
        let (stored, len) = (input.u32()?, input.u32()?);
        let (name_len, extra_len, comment_len) = (input.u16()?, input.u16()?, input.u16()?);
        input.bytes(8)?;
        let header = input.u32()?;
        let name = input.text(name_len.into())?;
        let mut extra = Input::new(input.bytes(extra_len.into())?, 0);
        input.bytes(comment_len.into())?;
        let mut long = Input::new(&[], 0);
        while let (Some(id), Some(len)) = (extra.u16(), extra.u16()) {
            let field = extra.bytes(len.into())?;
            if id == 1 {
                long = Input::new(field, 0);
            }
        }
        let mut wide = |short: u32| if short == u32::MAX { long.u64() } else { Some(short.into()) };
        let (len, stored, header) = (wide(len)?, wide(stored)?, wide(header)?);
        if !is_wanted(&name) || (method != 0 && method != 8) {
            return Some(Member { name, content: Vec::new(), is_whole: true, crc });
        }
        let mut lens = Input::new(file, header + 26);
        let before = 30 + u64::from(lens.u16()?) + u64::from(lens.u16()?);
        let bytes = part(file, header + before, stored)?;
        let (content, decodes) = match method {
            0 => (bytes.to_vec(), true),
            _ => inflated(bytes),
        };
        let is_whole = decodes && content.len() as u64 == len;
        Some(Member { name, content, is_whole, crc })
    })
}

/// Inflates a deflate stream as far as it decodes, and returns whether it ends. This uses a window, as stream
/// readers do, so a reference before the first byte is not an error.
fn inflated(stream: &[u8]) -> (Vec<u8>, bool) {
    use miniz_oxide::inflate::stream::{InflateState, inflate};
    use miniz_oxide::{DataFormat, MZFlush, MZStatus};
    let mut state = InflateState::new_boxed(DataFormat::Raw);
    let (mut rest, mut out, mut buffer) = (stream, Vec::new(), vec![0; 1 << 10]);
    loop {
        let result = inflate(&mut state, rest, &mut buffer, MZFlush::None);
        out.extend(&buffer[..result.bytes_written]);
        rest = &rest[result.bytes_consumed..];
        match result.status {
            Ok(MZStatus::StreamEnd) => return (out, true),
            Ok(_) if result.bytes_written + result.bytes_consumed > 0 => {}
            _ => return (out, false),
        }
    }
}
