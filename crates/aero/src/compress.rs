//! zstd: a single frame of known length. Natively this uses the C library, on wasm32 a decoder in Rust.

#[cfg(not(all(feature = "zstd", not(target_arch = "wasm32"))))]
use crate::error::Fault;

#[cfg(all(test, feature = "zstd", not(target_arch = "wasm32")))]
pub(crate) use native::MADE;
#[cfg(all(feature = "zstd", not(target_arch = "wasm32")))]
pub(crate) use native::{compress, decompress};
#[cfg(all(feature = "zstd", target_arch = "wasm32"))]
pub(crate) use portable::decompress;

/// RFC 8878, 3.1.1: the first bytes of a frame. Skippable frames begin differently.
#[cfg(feature = "zstd")]
const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();

/// Decompresses a single frame that yields exactly `ulen` bytes and is followed by nothing.
#[cfg(not(feature = "zstd"))]
pub(crate) fn decompress(_: &[u8], _: usize) -> Result<Vec<u8>, Fault> {
    Err(Fault::NoZstd("is compressed, and this build cannot decompress (the feature `zstd` is off)"))
}

/// Compresses the content into one frame.
#[cfg(not(all(feature = "zstd", not(target_arch = "wasm32"))))]
pub(crate) fn compress(_: &[u8], _: i32) -> Result<Vec<u8>, Fault> {
    Err(Fault::NoZstd(
        "cannot be compressed by this build (the feature `zstd` is off, or this is wasm32): choose WriteOptions::zstd(None)",
    ))
}

#[cfg(all(feature = "zstd", not(target_arch = "wasm32")))]
mod native {
    use std::cell::RefCell;

    use zstd::zstd_safe::{self, DCtx};

    use crate::error::Fault;

    /// `ZSTD_error_dstSize_tooSmall`, a number that zstd promises not to change.
    const TOO_SMALL: usize = 0usize.wrapping_sub(70);

    /// Decompresses a single frame that yields exactly `ulen` bytes and is followed by nothing.
    ///
    /// The output buffer at most doubles in each step, so a claimed length alone costs no memory. Because
    /// zstd decodes into a single buffer, it needs no separate window, whatever window size the frame
    /// declares (docs/formats/aero.md#zstandard).
    pub(crate) fn decompress(frame: &[u8], ulen: usize) -> Result<Vec<u8>, Fault> {
        let damaged = |code| Fault::Zstd(zstd_safe::get_error_name(code).to_owned());
        if !frame.starts_with(&super::MAGIC) {
            return Err(Fault::Zstd("it does not begin as a zstd frame".to_owned()));
        }
        let len = zstd_safe::find_frame_compressed_size(frame).map_err(damaged)?;
        if len != frame.len() {
            return Err(Fault::Zstd(format!("{} bytes follow the frame", frame.len().saturating_sub(len))));
        }
        CONTEXT.with_borrow_mut(|kept| {
            if kept.is_none() {
                #[cfg(test)]
                MADE.set(MADE.get() + 1);
                *kept = DCtx::try_create();
            }
            let context = kept.as_mut().ok_or_else(|| Fault::Zstd("out of memory".to_owned()))?;
            decompress_with(context, frame, ulen)
        })
    }

    std::thread_local! {
        /// One context per thread. Creating a context allocates and clears some hundred KiB, far more than
        /// most chunks have.
        static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
    }

    #[cfg(test)]
    std::thread_local! {
        /// The number of contexts that this thread has created.
        pub(crate) static MADE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }

    fn decompress_with(context: &mut DCtx<'_>, frame: &[u8], ulen: usize) -> Result<Vec<u8>, Fault> {
        let damaged = |code| Fault::Zstd(zstd_safe::get_error_name(code).to_owned());
        let mut room = frame.len().saturating_mul(16).saturating_add(1 << 16).min(ulen);
        loop {
            let mut out = Vec::new();
            out.try_reserve_exact(room).map_err(|_| Fault::Zstd("out of memory".to_owned()))?;
            // A vector may have more capacity than was requested.
            match context.decompress(&mut out, frame) {
                Ok(_) if out.len() == ulen => return Ok(out),
                Ok(_) if out.len() > ulen => return Err(Fault::ZstdLength("more", ulen as u64)),
                Ok(_) => return Err(Fault::ZstdLength("fewer", ulen as u64)),
                Err(TOO_SMALL) if room < ulen => room = room.saturating_mul(2).min(ulen),
                Err(TOO_SMALL) => return Err(Fault::ZstdLength("more", ulen as u64)),
                Err(code) => return Err(damaged(code)),
            }
        }
    }

    /// Compresses the content into one frame.
    pub(crate) fn compress(content: &[u8], level: i32) -> Result<Vec<u8>, Fault> {
        zstd::bulk::compress(content, level).map_err(|error| Fault::Zstd(error.to_string()))
    }
}

/// Also compiled natively for tests, which compare both decoders.
#[cfg(all(feature = "zstd", any(test, target_arch = "wasm32")))]
#[cfg_attr(not(target_arch = "wasm32"), allow(dead_code))]
pub(crate) mod portable {
    use std::io::Read as _;

    use ruzstd::decoding::StreamingDecoder;

    use crate::error::Fault;

    /// RFC 8878, 3.1.1.1.2 recommends that decoders support windows of up to 8 MiB. A larger window makes
    /// sense only for content that is as large.
    const WINDOW: u64 = 8 << 20;

    /// Decompresses a single frame that yields exactly `ulen` bytes and is followed by nothing.
    pub(crate) fn decompress(frame: &[u8], ulen: usize) -> Result<Vec<u8>, Fault> {
        let damaged = |error: &dyn std::fmt::Display| Fault::Zstd(error.to_string());
        if !frame.starts_with(&super::MAGIC) {
            return Err(Fault::Zstd("it does not begin as a zstd frame".to_owned()));
        }
        check_header(frame, ulen as u64)?;
        let window = (ulen as u64).checked_next_power_of_two().unwrap_or(u64::MAX).max(WINDOW);
        let mut rest = frame;
        let decoder =
            StreamingDecoder::new_with_max_window_size(&mut rest, window).map_err(|e| damaged(&e))?;
        let mut out = Vec::new();
        // One byte more than expected is enough to detect excess output.
        let limit = (ulen as u64).saturating_add(1);
        let mut limited = decoder.take(limit);
        limited.read_to_end(&mut out).map_err(|e| damaged(&e))?;
        drop(limited);
        match out.len() {
            len if len > ulen => Err(Fault::ZstdLength("more", ulen as u64)),
            len if len < ulen => Err(Fault::ZstdLength("fewer", ulen as u64)),
            _ if !rest.is_empty() => Err(Fault::Zstd(format!("{} bytes follow the frame", rest.len()))),
            _ => Ok(out),
        }
    }

    /// Checks the parts of a frame's header that zstd checks and ruzstd does not: a reserved bit, and the
    /// stated length.
    fn check_header(frame: &[u8], ulen: u64) -> Result<(), Fault> {
        let short = || Fault::Zstd("it ends in its header".to_owned());
        let (&descriptor, rest) =
            frame.get(super::MAGIC.len()..).and_then(<[u8]>::split_first).ok_or_else(short)?;
        // RFC 8878, 3.1.1.1.1: two bits for the content size, then single segment, unused, reserved, checksum, and two
        // for the dictionary.
        if descriptor & 0b1000 != 0 {
            return Err(Fault::Zstd("a reserved bit of its header is set".to_owned()));
        }
        let is_single = descriptor & 0b10_0000 != 0;
        let dictionary = match descriptor & 0b11 {
            0 => 0,
            flag => 1usize << (flag - 1),
        };
        let (width, base) = match descriptor >> 6 {
            0 => (usize::from(is_single), 0),
            1 => (2, 256), // 3.1.1.1.4: "the offset of 256 is added"
            2 => (4, 0),
            _ => (8, 0),
        };
        let skip = usize::from(!is_single) + dictionary;
        let field = rest.get(skip..).and_then(|rest| rest.get(..width)).ok_or_else(short)?;
        let stated = field.iter().rev().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
        match stated.saturating_add(base) {
            _ if width == 0 => Ok(()),
            len if len > ulen => Err(Fault::ZstdLength("more", ulen)),
            len if len < ulen => Err(Fault::ZstdLength("fewer", ulen)),
            _ => Ok(()),
        }
    }
}

#[cfg(all(test, feature = "zstd", not(target_arch = "wasm32")))]
#[allow(clippy::cast_possible_truncation, reason = "lengths of test inputs")]
mod tests {
    use super::*;
    use crate::error::Fault;

    type Decoder = fn(&[u8], usize) -> Result<Vec<u8>, Fault>;
    const DECODERS: [Decoder; 2] = [decompress, portable::decompress];

    #[test]
    fn both_decoders_give_what_was_compressed() {
        let noise: Vec<u8> =
            (0..300_000u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
        for content in [&b""[..], b"a", &[7; 5_000_000], &noise] {
            for level in [1, 3, 19] {
                let frame = compress(content, level).unwrap();
                for decompress in DECODERS {
                    assert_eq!(decompress(&frame, content.len()).unwrap(), content);
                }
            }
        }
    }

    #[test]
    fn what_is_not_one_frame_of_that_length_is_refused() {
        let frame = compress(&[1; 1000], 3).unwrap();
        let mut skippable = vec![0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4];
        let mut two = frame.clone();
        two.extend(&frame);
        let mut trailing = frame.clone();
        trailing.push(0);
        for decompress in DECODERS {
            assert_eq!(decompress(&frame, 999), Err(Fault::ZstdLength("more", 999)));
            assert_eq!(decompress(&frame, 1001), Err(Fault::ZstdLength("fewer", 1001)));
            for bad in [&two[..], &trailing, &frame[..frame.len() - 1], b"", b"hello", &skippable] {
                assert!(decompress(bad, 1000).is_err(), "{} bytes", bad.len());
            }
        }
        skippable.extend(&frame);
        for decompress in DECODERS {
            assert!(decompress(&skippable, 1000).is_err());
        }
    }

    #[test]
    fn claimed_lengths_cost_nothing() {
        const HUGE: usize = usize::MAX / 2;
        let frame = compress(&[1; 1000], 3).unwrap();
        for decompress in DECODERS {
            assert_eq!(decompress(&frame, HUGE), Err(Fault::ZstdLength("fewer", HUGE as u64)));
        }
    }

    /// Returns what a reader finds out: whether the frame decodes to this content.
    fn outcome(decompress: Decoder, frame: &[u8], content: &[u8]) -> bool {
        decompress(frame, content.len()).is_ok_and(|found| found == content)
    }

    /// The native decoder and the one for wasm32 accept the same files and refuse the same damaged ones, with
    /// one exception: ruzstd ignores the two reserved bits of a block's sequences (RFC 8878, 3.1.1.3.2.1). It
    /// still decodes the right content.
    #[test]
    fn both_decoders_agree_on_damaged_frames() {
        let text: Vec<u8> =
            (0..900u32).flat_map(|i| format!("weights.{}.bias ", i % 37).into_bytes()).collect();
        let noise: Vec<u8> = (0..300u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
        for content in [&text[..], &text[..700], &noise, &[7; 2000], b"a"] {
            for level in [1, 19] {
                let frame = compress(content, level).unwrap();
                let agree = |frame: &[u8]| {
                    let [native, portable] = DECODERS.map(|decompress| outcome(decompress, frame, content));
                    assert!(portable || !native, "only zstd takes it");
                    native == portable
                };
                assert!((0..frame.len()).all(|len| agree(&frame[..len])), "cut short");
                let flipped = (0..8 * frame.len()).map(|bit| (bit, frame[bit / 8] ^ (1 << (bit % 8))));
                let differing: Vec<usize> = flipped
                    .filter(|&(bit, byte)| !agree(&testkit::patched(&frame, bit / 8, &[byte])))
                    .map(|(bit, _)| bit)
                    .collect();
                let is_reserved =
                    |bits: &[usize]| matches!(bits, &[a, b] if a % 8 == 0 && b == a + 1 && a > 96);
                assert!(differing.is_empty() || is_reserved(&differing), "{level}: {differing:?}");
            }
        }
    }

    #[test]
    fn both_decoders_agree_on_files_by_us_and_by_others() {
        let mut frames = 0;
        for folder in ["aero", "aero/set", "reference", "reference/aeroset"] {
            for path in testkit::golden_files(folder, "aero") {
                let file = std::fs::read(&path).unwrap();
                let index = crate::Index::parse(&file).unwrap();
                for chunk in index.chunks().filter(|chunk| chunk.flags.is_compressed()) {
                    let frame = &file[chunk.offset as usize..][..chunk.length as usize];
                    for decompress in DECODERS {
                        let content = decompress(frame, chunk.ulen as usize).unwrap();
                        assert_eq!(*blake3::hash(&content).as_bytes(), chunk.blake3, "{}", path.display());
                    }
                    frames += 1;
                }
            }
        }
        assert!(frames >= 10, "{frames}");
    }
}
