//! Decodes deflate streams in order from ranges of the file.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crc32fast::Hasher;
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZFlush, MZStatus};
use modelfmt_core::ledger::DigestKind;
use modelfmt_core::{AlignedBuf, CommonError, Fetch, Limits, Part};

use crate::error::{ArrayFault, Error, Fault, malformed};
use crate::record::Record;

/// The number of bytes of a stream to request at once.
const INPUT: u64 = 256 << 10;
/// The number of bytes to decode at once when they are only skipped.
const SKIPPED: usize = 32 << 10;
/// The number of streams that are kept at the point where a read stopped, for the read that continues there:
/// about one per thread of a conversion.
const MAX_KEPT_STREAMS: usize = 8;
/// The largest record content that is kept while arrays are gathered from a deflate stream.
const WHOLE: u64 = 1 << 31;

/// A deflate stream, and how far it has been decoded.
struct Decoder {
    state: Box<InflateState>,
    /// The number of input bytes that have been consumed, and the number of bytes that have been decoded.
    taken: u64,
    made: u64,
    is_end: bool,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decoder({} -> {})", self.taken, self.made)
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self { state: InflateState::new_boxed(DataFormat::Raw), taken: 0, made: 0, is_end: false }
    }
}

impl Decoder {
    /// Decodes until the input is used up, the output is full, or the stream ends. Returns how many bytes
    /// were consumed and how many were decoded.
    fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize), Fault> {
        if self.is_end || out.is_empty() {
            return Ok((0, 0));
        }
        let result = inflate(&mut self.state, input, out, MZFlush::None);
        self.taken = self.taken.saturating_add(result.bytes_consumed as u64);
        self.made = self.made.saturating_add(result.bytes_written as u64);
        match result.status {
            Ok(MZStatus::StreamEnd) => self.is_end = true,
            Ok(_) | Err(miniz_oxide::MZError::Buf) => {}
            Err(_) => return Err(Fault::Deflate(self.made)),
        }
        Ok((result.bytes_consumed, result.bytes_written))
    }
}

/// Decodes at most the first `most` bytes of a stream in memory. Also returns whether the stream ends there.
///
/// # Errors
/// [`Fault::Deflate`] if the stream cannot be decoded.
pub fn inflate_start(stream: &[u8], most: usize) -> Result<(Vec<u8>, bool), Fault> {
    let mut decoder = Decoder::default();
    let (mut rest, mut out) = (stream, Vec::new());
    // The output only grows by the bytes that are actually decoded.
    let mut buffer = vec![0; SKIPPED.min(most.max(1))];
    while out.len() < most {
        let room = buffer.len().min(most.saturating_sub(out.len()));
        let (taken, made) = decoder.step(rest, buffer.get_mut(..room).unwrap_or_default())?;
        out.extend_from_slice(buffer.get(..made).unwrap_or_default());
        rest = rest.get(taken..).unwrap_or_default();
        if decoder.is_end || (taken, made) == (0, 0) {
            break;
        }
    }
    Ok((out, decoder.is_end))
}

/// Decodes a whole stream in memory. Its content must be `len` bytes long.
///
/// # Errors
/// [`Fault::Deflate`] if the stream cannot be decoded, [`Fault::DeflateLength`] if its content has another length.
pub fn inflate_whole(stream: &[u8], len: u64) -> Result<Vec<u8>, Fault> {
    // One byte more than expected is enough to detect excess output.
    let most = usize::try_from(len.saturating_add(1)).unwrap_or(usize::MAX);
    let (out, is_end) = inflate_start(stream, most)?;
    if is_end && out.len() as u64 == len {
        Ok(out)
    } else {
        Err(Fault::DeflateLength { found: out.len() as u64, stated: len })
    }
}

/// Streams that have been read in part, by the offset of their record, and the last record that was read as a
/// whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inflaters {
    kept: Arc<Mutex<Vec<(u64, Decoder)>>>,
    whole: Arc<Mutex<Option<Whole>>>,
}

/// The offset of a record, and its content.
type Whole = (u64, Arc<AlignedBuf>);

impl Inflaters {
    /// Returns the stream of a record that has advanced furthest without passing byte `offset`, or a new
    /// stream if there is none.
    fn take(&self, record: &Record, offset: u64) -> Decoder {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let fits =
            kept.iter().enumerate().filter(|(_, (at, decoder))| *at == record.at && decoder.made <= offset);
        let best = fits.max_by_key(|(_, (_, decoder))| decoder.made).map(|(number, _)| number);
        best.map_or_else(Decoder::default, |number| kept.remove(number).1)
    }

    fn put(&self, record: &Record, decoder: Decoder) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_KEPT_STREAMS {
            kept.remove(0);
        }
        kept.push((record.at, decoder));
    }

    /// Fills `out` with the content of a record, from byte `offset` on. Reading a record piece by piece takes
    /// linear time.
    pub(crate) async fn read_into<F: ArrayFault>(
        &self,
        source: &impl Fetch,
        record: &Record,
        part: impl Fn() -> Part,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), Error<F>> {
        let mut decoder = self.take(record, offset);
        let mut skipped = vec![0; SKIPPED];
        let mut filled = 0_usize;
        while filled < out.len() {
            let skip = offset.saturating_sub(decoder.made);
            let left = out.len().saturating_sub(filled) as u64;
            let at = record.at.saturating_add(decoder.taken);
            let rest = record.stored_len.saturating_sub(decoder.taken);
            let len = rest.min(skip.saturating_add(left).clamp(4 << 10, INPUT));
            let failed = |source| Error::Io { at, len, source };
            let input = source.fetch(at..at.saturating_add(len)).await.map_err(failed)?;
            let mut input: &[u8] = &input;
            loop {
                let skip = usize::try_from(offset.saturating_sub(decoder.made)).unwrap_or(usize::MAX);
                let room = match skip {
                    0 => out.get_mut(filled..).unwrap_or_default(),
                    _ => skipped.get_mut(..skip.min(SKIPPED)).unwrap_or_default(),
                };
                let damaged = |fault| malformed(part(), record.at, fault);
                let (taken, made) = decoder.step(input, room).map_err(damaged)?;
                input = input.get(taken..).unwrap_or_default();
                if skip == 0 {
                    filled = filled.saturating_add(made);
                }
                if filled >= out.len() {
                    break;
                }
                // The decoder may still hold output that needs no further input.
                if (taken, made) == (0, 0) {
                    if decoder.is_end || decoder.taken >= record.stored_len {
                        let fault = Fault::DeflateLength { found: decoder.made, stated: record.len };
                        return Err(damaged(fault));
                    }
                    break;
                }
            }
        }
        self.put(record, decoder);
        Ok(())
    }

    /// Returns the whole content of a record. The last one is kept, because its arrays are gathered piece by
    /// piece.
    pub(crate) async fn whole<F: ArrayFault>(
        &self,
        source: &impl Fetch,
        record: &Record,
        part: impl Fn() -> Part,
    ) -> Result<Arc<AlignedBuf>, Error<F>> {
        let kept = || self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, content)) = &*kept()
            && *at == record.at
        {
            return Ok(Arc::clone(content));
        }
        let what = "the size of a compressed record whose arrays are not in order";
        let len =
            Limits::check(what, record.len, WHOLE).map_err(|limit: CommonError| Error::<F>::from(limit))?;
        let failed = |source| Error::Io { at: record.at, len: record.stored_len, source };
        let mut content = AlignedBuf::zeroed(len).map_err(failed)?;
        self.read_into(source, record, part, 0, &mut content).await?;
        let content = Arc::new(content);
        *kept() = Some((record.at, Arc::clone(&content)));
        Ok(content)
    }
}

/// The result of decoding a deflate stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) crc: u32,
    pub(crate) len: u64,
    /// Whether the stream decodes, and ends where its bytes end.
    pub(crate) is_whole: bool,
}

/// The CRC-32 of the content of a deflate stream, as a digest of the stream's bytes. The bytes must be hashed
/// in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InflatedCrc;

/// A stream that is decoded only for its CRC.
pub(crate) struct InflatedRun {
    decoder: Decoder,
    crc: Hasher,
    is_damaged: bool,
}

impl DigestKind for InflatedCrc {
    const NAME: &'static str = "crc32";
    const IN_ORDER: bool = true;
    type Digest = Content;
    type Run = InflatedRun;

    fn begin(_: u64) -> InflatedRun {
        InflatedRun { decoder: Decoder::default(), crc: Hasher::new(), is_damaged: false }
    }

    fn extend(_: u64, run: &mut InflatedRun, bytes: &[u8]) {
        let mut rest = bytes;
        let mut buffer = vec![0; SKIPPED];
        while !run.is_damaged {
            let Ok((taken, made)) = run.decoder.step(rest, &mut buffer) else {
                run.is_damaged = true;
                break;
            };
            run.crc.update(buffer.get(..made).unwrap_or_default());
            rest = rest.get(taken..).unwrap_or_default();
            if (taken, made) == (0, 0) {
                // Bytes after the end of the stream do not belong to it.
                run.is_damaged |= !rest.is_empty();
                break;
            }
        }
    }

    /// Never called, because the bytes come in order.
    fn join(_: u64, first: InflatedRun, _: InflatedRun) -> InflatedRun {
        InflatedRun { is_damaged: true, ..first }
    }

    fn finish(_: u64, run: InflatedRun) -> Content {
        let is_whole = run.decoder.is_end && !run.is_damaged;
        Content { crc: run.crc.finalize(), len: run.decoder.made, is_whole }
    }
}
