//! Content that is compressed as a whole: the header is followed by a length and one LZ4 block, or by a zstd
//! stream.
//!
//! One of aprender's loaders reads such files. Its writers set the flags but store the content uncompressed,
//! so a file is first parsed as uncompressed (docs/formats/apr.md#compressed-content).
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{AlignedBuf, Encoding, Limits, Part};

use crate::error::{Fault, Result, malformed};
use crate::wire::{Flags, HEADER_LEN};

/// The decompressed form of a compressed file: its header, followed by the decompressed content.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    bytes: AlignedBuf,
    encoding: Encoding,
}

impl Image {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Decompresses the content of a file with this header, within `limits`.
    pub(crate) fn expand(header: &[u8], content: &[u8], flags: Flags, limits: &Limits) -> Result<Self> {
        let refuse = |fault| malformed(Part::new("content"), HEADER_LEN, fault);
        let stored = content.len() as u64;
        let most = stored.saturating_mul(limits.expansion).saturating_add(1 << 20).min(limits.metadata_len);
        let (encoding, expanded) = if flags.contains(Flags::LZ4) {
            (Encoding::Lz4, lz4(content, most).map_err(refuse)?)
        } else {
            (Encoding::Zstd, zstd(content, most).map_err(refuse)?)
        };
        let failed = |source| crate::Error::Io { at: 0, len: stored, source };
        let mut bytes = AlignedBuf::zeroed(header.len().saturating_add(expanded.len())).map_err(failed)?;
        let (front, rest) = bytes.split_at_mut(header.len());
        front.copy_from_slice(header);
        rest.copy_from_slice(&expanded);
        Ok(Self { bytes, encoding })
    }
}

/// Decompresses one LZ4 block, which comes after the number of bytes that it expands to.
#[cfg(feature = "lz4")]
fn lz4(content: &[u8], most: u64) -> Result<Vec<u8>, Fault> {
    use lz4_flex::block::{DecompressError, decompress_into};
    let bad = |text: String| Fault::Payload("LZ4", text);
    let Some((len, block)) = content.split_first_chunk() else {
        return Err(bad("it is shorter than its length field".to_owned()));
    };
    let len = u32::from_le_bytes(*len);
    // One byte of LZ4 expands to at most 255 bytes.
    let possible = (block.len() as u64).saturating_mul(255).min(most);
    if u64::from(len) > possible {
        return Err(Fault::Expansion { stored: content.len() as u64, expanded: len.into() });
    }
    let expected = usize::try_from(len).unwrap_or(usize::MAX);
    // The output buffer grows in steps, so that a false length costs no memory.
    let mut room = block.len().saturating_mul(4).max(1 << 10).min(expected);
    loop {
        let mut out = Vec::new();
        out.try_reserve_exact(room).map_err(|error| bad(error.to_string()))?;
        out.resize(room, 0);
        match decompress_into(block, &mut out) {
            Ok(found) if found == expected => return Ok(out),
            Ok(found) => return Err(bad(format!("it expands to {found} bytes, not to {expected}"))),
            Err(DecompressError::OutputTooSmall { .. }) if room < expected => {
                room = room.saturating_mul(2).min(expected);
            }
            Err(error) => return Err(bad(error.to_string())),
        }
    }
}

#[cfg(not(feature = "lz4"))]
fn lz4(_: &[u8], _: u64) -> Result<Vec<u8>, Fault> {
    Err(Fault::NoDecoder("lz4"))
}

/// Decompresses a zstd stream, which may have several frames.
#[cfg(feature = "zstd")]
fn zstd(content: &[u8], most: u64) -> Result<Vec<u8>, Fault> {
    use std::io::Read as _;

    use ruzstd::decoding::StreamingDecoder;
    /// RFC 8878, 3.1.1.1.2 recommends that decoders support windows of up to 8 MiB.
    const WINDOW: u64 = 8 << 20;
    let bad = |error: &dyn std::fmt::Display| Fault::Payload("zstd", error.to_string());
    let (mut rest, mut out) = (content, Vec::new());
    while !rest.is_empty() {
        let window = most.min(WINDOW.max(content.len() as u64));
        let decoder = StreamingDecoder::new_with_max_window_size(&mut rest, window).map_err(|e| bad(&e))?;
        // One byte more than allowed is enough to detect excess output.
        let room = most.saturating_sub(out.len() as u64).saturating_add(1);
        decoder.take(room).read_to_end(&mut out).map_err(|e| bad(&e))?;
        if out.len() as u64 > most {
            return Err(Fault::Expansion { stored: content.len() as u64, expanded: out.len() as u64 });
        }
    }
    Ok(out)
}

#[cfg(not(feature = "zstd"))]
fn zstd(_: &[u8], _: u64) -> Result<Vec<u8>, Fault> {
    Err(Fault::NoDecoder("zstd"))
}
