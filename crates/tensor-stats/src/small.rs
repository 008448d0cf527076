//! Small floats and packed integers: each code is widened to a type that holds all of them, and the widened
//! values are counted.

use half::{bf16, f16};
use tensor_core::{DType, Kind, SmallType};

use super::element::Element;
use super::exec::{Exec, PassError, Shared};
use super::{Stats, narrow};

/// Returns the statistics of `count` small numbers.
#[expect(clippy::cast_possible_truncation, reason = "packed integers have fewer bits")]
#[expect(clippy::cast_sign_loss, reason = "unsigned integers have no sign")]
pub(super) fn numbers(dtype: DType, exec: &mut Exec<'_>, count: u64) -> Result<Stats, PassError> {
    let small = SmallType::from_dtype(dtype).ok_or(PassError::Unsupported)?;
    match dtype.kind() {
        Kind::Int => widened::<i8, 1>(small, exec, count, |x| (x as i8).to_le_bytes()),
        Kind::UInt => widened::<u8, 1>(small, exec, count, |x| [x as u8]),
        // F8E8M0 has powers of two beyond the range of f16.
        _ if dtype == DType::F8E8M0 => {
            widened::<bf16, 2>(small, exec, count, |x| bf16::from_f32(x).to_le_bytes())
        }
        _ => widened::<f16, 2>(small, exec, count, |x| f16::from_f32(x).to_le_bytes()),
    }
}

/// Returns the statistics of small numbers that are widened to `T`, which has `N` bytes, while they are read.
fn widened<T: Element, const N: usize>(
    small: SmallType,
    exec: &mut Exec<'_>,
    count: u64,
    of: impl Fn(f32) -> [u8; N],
) -> Result<Stats, PassError> {
    let mut table = [[0; N]; 256];
    for (wide, code) in table.iter_mut().zip(0..=u8::MAX) {
        *wide = of(small.to_f32(code));
    }
    match exec {
        Exec::Alone(read) => {
            let mut packed = Vec::new();
            let mut wide = |first: u64, out: &mut [u8]| {
                packed.resize(packed_len(small, out.len() / N), 0);
                read(first, &mut packed)?;
                widen(small, &table, &packed, out);
                Ok(())
            };
            narrow::numbers::<T>(&mut Exec::Alone(&mut wide), count)
        }
        Exec::Together(shared, threads) => {
            let shared = *shared;
            let wide = |first: u64, out: &mut [u8]| {
                let len = packed_len(small, out.len() / N);
                match shared {
                    Shared::Memory(bytes) => {
                        let packed = part(small, bytes, first, len).ok_or(PassError::Changed)?;
                        widen(small, &table, packed, out);
                    }
                    Shared::Read(read) => {
                        let mut packed = vec![0; len];
                        read(first, &mut packed)?;
                        widen(small, &table, &packed, out);
                    }
                }
                Ok(())
            };
            narrow::numbers::<T>(&mut Exec::Together(Shared::Read(&wide), *threads), count)
        }
    }
}

#[expect(clippy::indexing_slicing, reason = "a byte is inside a table of 256")]
fn widen<const N: usize>(small: SmallType, table: &[[u8; N]; 256], packed: &[u8], out: &mut [u8]) {
    small.unpack(packed, out.as_chunks_mut().0, |code| table[usize::from(code)]);
}

/// Returns the number of bytes that elements take. Few elements are read at once, so this cannot overflow.
const fn packed_len(small: SmallType, elements: usize) -> usize {
    (elements * small.bits() as usize).div_ceil(8)
}

/// Returns `len` bytes from element `first` on, which begins a byte.
fn part(small: SmallType, bytes: &[u8], first: u64, len: usize) -> Option<&[u8]> {
    let first = usize::try_from(first.checked_mul(small.bits().into())? / 8).ok()?;
    bytes.get(first..first.checked_add(len)?)
}
