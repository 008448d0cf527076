//! Writes the header of an array, as NumPy writes it (docs/formats/npy.md#the-header).
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::DType;

use crate::wire::{MAGIC, MAX_DIMS, TYPES};

/// NumPy puts values at a multiple of this.
const ALIGNMENT: usize = 64;
/// NumPy leaves room for this many digits in the first dimension, for arrays that grow in place.
const MAX_DIGITS: usize = 21;

/// Returns NumPy's name for a type, such as `<f4` for f32; `None` if NumPy lacks the type.
#[must_use]
pub fn type_name(dtype: DType) -> Option<String> {
    let (kind, _) = TYPES.iter().find(|(_, counterpart)| *counterpart == dtype)?;
    let order = if kind.ends_with('1') { '|' } else { '<' };
    Some(format!("{order}{kind}"))
}

/// Returns what stands before the values of a `.npy` file that are little-endian and in C order: the bytes
/// that NumPy writes, of version 1.0. `None` if NumPy lacks the type, or an array of so many dimensions (it
/// has at most 64).
///
/// ```
/// use modelfmt_npy::{DType, Reader};
///
/// let mut file = modelfmt_npy::header(DType::U8, &[3]).ok_or("NumPy has no such array")?;
/// file.extend([1, 2, 3]);
/// assert_eq!(Reader::from_source(file)?.tensor("array")?.bytes(), [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn header(dtype: DType, shape: &[u64]) -> Option<Vec<u8>> {
    let name = type_name(dtype).filter(|_| shape.len() <= MAX_DIMS)?;
    let mut lengths = shape.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    if shape.len() == 1 {
        lengths.push(',');
    }
    let mut text = format!("{{'descr': '{name}', 'fortran_order': False, 'shape': ({lengths}), }}");
    let digits = shape.first().map_or(MAX_DIGITS, |len| len.to_string().len());
    text.extend(std::iter::repeat_n(' ', MAX_DIGITS.saturating_sub(digits)));
    // With the magic, the version, the length and a line feed. At least one space more, also where none is needed.
    let len = MAGIC.len().saturating_add(4).saturating_add(text.len()).saturating_add(1);
    let padding = len.saturating_add(1).next_multiple_of(ALIGNMENT).saturating_sub(len);
    text.extend(std::iter::repeat_n(' ', padding));
    text.push('\n');
    let len = u16::try_from(text.len()).ok()?;
    Some([MAGIC, &[1, 0], &len.to_le_bytes(), text.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use modelfmt_core::Part;

    use super::*;
    use crate::wire::{Elements, decode};

    #[test]
    fn what_is_written_is_read() {
        let shapes: [&[u64]; 5] = [&[], &[0], &[3], &[2, 3], &[u64::MAX; MAX_DIMS]];
        for &(_, dtype) in &TYPES {
            for shape in shapes {
                let bytes = header(dtype, shape).unwrap();
                let read = decode(&bytes, 0, &Part::new("array")).unwrap();
                assert_eq!(read.kind, Ok(Elements { dtype, is_big_endian: false }));
                assert_eq!((read.len, read.is_fortran, &*read.shape), (bytes.len() as u64, false, shape));
                assert_eq!(bytes.len() % ALIGNMENT, 0);
            }
        }
    }

    #[test]
    fn what_numpy_lacks_has_no_header() {
        assert_eq!(header(DType::BF16, &[1]), None);
        assert_eq!(header(DType::F32, &[1; MAX_DIMS + 1]), None);
    }
}
