//! Reads big-endian values of a file as little-endian bytes.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::io;

use tensor_core::{AlignedBuf, Bytes, DType};

use crate::extent::Extent;
use crate::fetch::Fetch;

/// Returns the size of the numbers in an element, which are swapped one by one. A complex number consists of
/// two.
fn number_size(dtype: DType) -> usize {
    match dtype {
        DType::C64 => 4,
        _ => dtype.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(1).max(1),
    }
}

/// Reverses the bytes of each number. `bytes` must begin at the start of a number.
pub(crate) fn swap_bytes(dtype: DType, bytes: &mut [u8]) {
    let size = number_size(dtype);
    if size > 1 {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
}

/// Reads the big-endian values at `extent`, as little-endian bytes.
///
/// # Errors
/// If the values cannot be read.
pub(crate) async fn fetch_big_endian<'s>(
    source: &'s impl Fetch,
    dtype: DType,
    extent: Extent,
) -> io::Result<Bytes<'s>> {
    let bytes = source.fetch(extent.range()).await?;
    if number_size(dtype) == 1 {
        return Ok(bytes);
    }
    let mut swapped = match bytes {
        Bytes::Owned(buffer) => buffer,
        Bytes::Borrowed(bytes) => AlignedBuf::copy_from_slice(bytes).map_err(io::Error::other)?,
    };
    swap_bytes(dtype, &mut swapped);
    Ok(Bytes::Owned(swapped))
}

/// Fills `out` with a part of the big-endian values at `extent`, from their byte `offset` on, as
/// little-endian bytes. The part may begin and end inside an element.
///
/// # Errors
/// If the part is not within the extent, or cannot be read.
pub(crate) async fn fetch_big_endian_into(
    source: &impl Fetch,
    dtype: DType,
    extent: Extent,
    offset: u64,
    out: &mut [u8],
) -> io::Result<()> {
    let size = number_size(dtype) as u64;
    let end = offset.checked_add(out.len() as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
    let begin = offset.saturating_sub(offset.checked_rem(size).unwrap_or_default());
    let covering = end.checked_next_multiple_of(size).map(|end| end.min(extent.len()));
    let len = covering.and_then(|end| end.checked_sub(begin)).ok_or(io::ErrorKind::UnexpectedEof)?;
    let whole = extent.part(begin, len).map_err(|_| io::ErrorKind::UnexpectedEof)?;
    if begin == offset && len == out.len() as u64 {
        source.fetch_into(whole.offset(), out).await?;
        swap_bytes(dtype, out);
        return Ok(());
    }
    let swapped = fetch_big_endian(source, dtype, whole).await?;
    let skip = usize::try_from(offset.saturating_sub(begin)).map_err(|_| io::ErrorKind::UnexpectedEof)?;
    let part = swapped.get(skip..).and_then(|rest| rest.get(..out.len()));
    out.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::now_or_never;

    fn done<T>(future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        now_or_never(future).unwrap()
    }

    #[test]
    fn any_part_is_that_of_the_swapped_whole() {
        let file: Vec<u8> = (0..40).collect();
        for dtype in [DType::I8, DType::BF16, DType::F32, DType::C64, DType::I64] {
            let extent = Extent::new(8, 32, 40).unwrap();
            let mut whole = file[8..].to_vec();
            swap_bytes(dtype, &mut whole);
            assert_eq!(*done(fetch_big_endian(&&file[..], dtype, extent)).unwrap(), *whole);
            assert_eq!(usize::from(whole[0]), 7 + number_size(dtype));
            for (from, to) in (0..=32).flat_map(|from| (from..=32).map(move |to| (from, to))) {
                let mut out = vec![0xee; to - from];
                done(fetch_big_endian_into(&&file[..], dtype, extent, from as u64, &mut out)).unwrap();
                assert_eq!(out, whole[from..to], "{dtype} {from}..{to}");
            }
            assert!(done(fetch_big_endian_into(&&file[..], dtype, extent, 32, &mut [0])).is_err());
            assert!(done(fetch_big_endian_into(&&file[..], dtype, extent, u64::MAX, &mut [0])).is_err());
        }
    }
}
