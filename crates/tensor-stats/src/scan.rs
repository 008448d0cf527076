//! Finds obvious faults of values in one pass over their bits: NaN, infinities, all zero, all the same.
//!
//! The loops are folds of bit operations over words, which compilers vectorize. Words are counted one by one
//! only if a fold says that some word is not finite. Words are compared with each other only until two of
//! them differ.

use tensor_core::{DType, SmallType};

use super::Error;
use super::logs::{Logs, MOST_BYTES};

/// A summary of values. [`Scan::then`] joins the summaries of two pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    count: u64,
    nan: u64,
    infinite: u64,
    is_zero: bool,
    /// The bits that all values share, if all are the same.
    bits: Option<u64>,
    first_bad: Option<u64>,
    logs: Logs,
}

impl Scan {
    /// Returns the number of values.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of NaN. A complex number counts once.
    #[must_use]
    pub const fn nan(&self) -> u64 {
        self.nan
    }

    /// Returns the number of infinite values, of either sign. A complex number that is also NaN does not
    /// count here.
    #[must_use]
    pub const fn infinite(&self) -> u64 {
        self.infinite
    }

    /// Returns the index of the first value that is NaN or infinite, counted from 0.
    #[must_use]
    pub const fn first_bad(&self) -> Option<u64> {
        self.first_bad
    }

    /// Checks, from the average size of the values, whether they may have an [`Outlier`](super::Outlier). If
    /// this is false, there is none, and [`Magnitudes`](super::Magnitudes) need not be counted. Always false
    /// for integers and for floats of fewer than 16 bits.
    #[must_use]
    pub const fn may_have_outlier(&self) -> bool {
        self.logs.may_have_outlier(self.count.saturating_sub(self.nan).saturating_sub(self.infinite))
    }

    /// Checks whether there are values and all are zero, of either sign.
    #[must_use]
    pub const fn is_zero(&self) -> bool {
        self.count > 0 && self.is_zero
    }

    /// Checks whether there are values and all are the same number.
    #[must_use]
    pub const fn is_constant(&self) -> bool {
        self.is_zero() || (self.bits.is_some() && self.nan == 0)
    }

    /// Marks the values as floats whose exponents have this many bits.
    const fn with_exponents_of(mut self, bits: u32) -> Self {
        self.logs.exponent_bits = bits;
        self
    }

    /// Joins this summary with the summary of the values that follow.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        match (self.count, next.count) {
            (0, _) => next,
            (_, 0) => self,
            _ => Self {
                count: self.count.saturating_add(next.count),
                nan: self.nan.saturating_add(next.nan),
                infinite: self.infinite.saturating_add(next.infinite),
                is_zero: self.is_zero && next.is_zero,
                bits: self.bits.filter(|_| self.bits == next.bits),
                first_bad: self
                    .first_bad
                    .or_else(|| next.first_bad.map(|index| index.saturating_add(self.count))),
                logs: self.logs.then(next.logs),
            },
        }
    }
}

/// Scans `count` values in `bytes`: little-endian, of any alignment, small types packed.
///
/// ```
/// use tensor_stats::{DType, scan};
///
/// let values: Vec<u8> = [1.0f32, f32::NAN, 1.0].iter().flat_map(|x| x.to_le_bytes()).collect();
/// let found = scan(DType::F32, &values, 3)?;
/// assert_eq!((found.nan(), found.is_zero(), found.is_constant()), (1, false, false));
/// # Ok::<(), tensor_stats::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Unsupported`] for blocks and other types whose values cannot be read one by one;
/// [`Error::Ragged`] if `bytes` is not the length of `count` values.
pub fn scan(dtype: DType, bytes: &[u8], count: u64) -> Result<Scan, Error> {
    if let Some(small) = SmallType::from_dtype(dtype) {
        let bits = count.checked_mul(small.bits().into());
        let fits = bits.is_some_and(|bits| bits.div_ceil(8) <= bytes.len() as u64);
        return match (fits, Codes::of_byte(dtype)) {
            (false, _) => Err(Error::Ragged { dtype, len: bytes.len() }),
            (true, Some(codes)) => Ok(words_of_1(bytes.get(..index(count)).unwrap_or_default(), codes)),
            (true, None) => Ok(decoded(small, bytes, index(count))),
        };
    }
    let size = dtype.size().filter(|_| !dtype.is_quantized()).ok_or(Error::Unsupported(dtype))?;
    if count.checked_mul(size.into()) != Some(bytes.len() as u64) {
        return Err(Error::Ragged { dtype, len: bytes.len() });
    }
    match dtype {
        DType::Bool => Ok(bools(bytes)),
        DType::I8 | DType::U8 => Ok(words_of_1(bytes, Codes::INTEGER)),
        DType::I16 | DType::U16 => Ok(words_of_2(bytes, Codes::INTEGER)),
        DType::I32 | DType::U32 => Ok(words_of_4(bytes, Codes::INTEGER)),
        DType::I64 | DType::U64 => Ok(words_of_8(bytes, Codes::INTEGER)),
        DType::F16 => Ok(words_of_2(bytes, Codes::ieee(16, 10)).with_exponents_of(5)),
        DType::BF16 => Ok(words_of_2(bytes, Codes::ieee(16, 7)).with_exponents_of(8)),
        DType::F32 => Ok(words_of_4(bytes, Codes::ieee(32, 23)).with_exponents_of(8)),
        DType::F64 => Ok(words_of_8(bytes, Codes::ieee(64, 52)).with_exponents_of(11)),
        DType::C64 => Ok(complex(bytes)),
        _ => Err(Error::Unsupported(dtype)),
    }
}

/// Converts a count that is not larger than the number of bytes.
fn index(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// How the bits of a type encode its values.
#[derive(Clone, Copy)]
struct Codes {
    /// The bits that are all 0 in a zero; 0 if the type has no zero.
    magnitude: u64,
    odd: Odd,
}

/// The codes that are not finite.
#[derive(Clone, Copy)]
enum Odd {
    /// All codes are finite.
    None,
    /// This magnitude is the infinity, and larger ones are NaN.
    From { infinity: u64 },
    /// A code whose bits in `mask` are `nan` is NaN. There are no infinities.
    Is { mask: u64, nan: u64 },
}

impl Codes {
    const INTEGER: Self = Self { magnitude: u64::MAX, odd: Odd::None };

    /// Returns the codes of a float as in IEEE 754, with this many bits in total and in the mantissa.
    const fn ieee(bits: u32, mantissa: u32) -> Self {
        let magnitude = (1 << (bits - 1)) - 1;
        Self { magnitude, odd: Odd::From { infinity: magnitude >> mantissa << mantissa } }
    }

    /// Returns the codes of a float of 8 bits.
    const fn of_byte(dtype: DType) -> Option<Self> {
        Some(match dtype {
            DType::F8E5M2 => Self::ieee(8, 2),
            DType::F8E4M3 => Self { magnitude: 0x7f, odd: Odd::Is { mask: 0x7f, nan: 0x7f } },
            DType::F8E4M3Fnuz | DType::F8E5M2Fnuz => {
                Self { magnitude: 0xff, odd: Odd::Is { mask: 0xff, nan: 0x80 } }
            }
            DType::F8E8M0 => Self { magnitude: 0, odd: Odd::Is { mask: 0xff, nan: 0xff } },
            _ => return None,
        })
    }
}

/// The number of bytes that are processed together, so that they are still in the nearest cache when they are
/// read again.
const NEAR: usize = 8 << 10;
const _: () = assert!(NEAR <= MOST_BYTES, "the sums of a part fit");

/// Defines a scan of words of one size.
macro_rules! words {
    ($name:ident, $word:ty) => {
        #[allow(clippy::cast_possible_truncation, reason = "codes have the bits of their words")]
        fn $name(bytes: &[u8], codes: Codes) -> Scan {
            const SIZE: usize = size_of::<$word>();
            let words = bytes.as_chunks::<SIZE>().0;
            let Some(&first) = words.first() else { return Scan::default() };
            let (first, magnitude) = (<$word>::from_le_bytes(first), codes.magnitude as $word);
            let (mut differing, mut set): ($word, $word) = (0, 0);
            let mut found = Scan { count: words.len() as u64, ..Scan::default() };
            let mut seen = 0;
            for near in words.as_flattened().chunks(NEAR) {
                let words = near.as_chunks::<SIZE>().0;
                if differing == 0 || (set == 0 && magnitude != 0) {
                    for &word in words {
                        let word = <$word>::from_le_bytes(word);
                        differing |= word ^ first;
                        set |= word & magnitude;
                    }
                }
                let count = |is: &dyn Fn($word) -> bool| {
                    words.iter().filter(|&&word| is(<$word>::from_le_bytes(word))).count() as u64
                };
                let first_bad = |is: &dyn Fn($word) -> bool| {
                    let at = words.iter().position(|&word| is(<$word>::from_le_bytes(word)))?;
                    Some(seen + at as u64)
                };
                match codes.odd {
                    Odd::From { infinity } => {
                        let mut logs = Logs::of::<SIZE>(near);
                        if logs.largest >= high_bits::<SIZE>(infinity) {
                            let infinity = infinity as $word;
                            found.infinite += count(&|word| word & magnitude == infinity);
                            found.nan += count(&|word| word & magnitude > infinity);
                            found.first_bad =
                                found.first_bad.or_else(|| first_bad(&|word| word & magnitude >= infinity));
                            let finite = words.iter().map(|&word| <$word>::from_le_bytes(word) & magnitude);
                            let finite = finite.filter(|&word| word < infinity);
                            logs = Logs::of_each(finite.map(|word| high_bits::<SIZE>(word.into())));
                        }
                        found.logs = found.logs.then(logs);
                    }
                    Odd::Is { mask, nan } => {
                        let (mask, nan) = (mask as $word, nan as $word);
                        let is_there = words.iter().fold(false, |is_there, &word| {
                            is_there | (<$word>::from_le_bytes(word) & mask == nan)
                        });
                        if is_there {
                            found.nan += count(&|word| word & mask == nan);
                            found.first_bad =
                                found.first_bad.or_else(|| first_bad(&|word| word & mask == nan));
                        }
                    }
                    Odd::None => {}
                }
                seen += words.len() as u64;
            }
            found.is_zero = set == 0 && magnitude != 0;
            found.bits = (differing == 0).then_some(u64::from(first));
            found
        }
    };
}

words!(words_of_1, u8);
words!(words_of_2, u16);
words!(words_of_4, u32);
words!(words_of_8, u64);

/// Returns the highest 16 bits of a word of `SIZE` bytes, or all 8 bits of a byte. In a float they hold the
/// exponent.
#[allow(clippy::cast_possible_truncation, reason = "no word has more bits above those")]
const fn high_bits<const SIZE: usize>(word: u64) -> u16 {
    let below = if SIZE > 2 { 8 * (SIZE - 2) } else { 0 };
    (word >> below) as u16
}

/// Scans booleans; any byte but 0 is true.
fn bools(bytes: &[u8]) -> Scan {
    let (any, all) = bytes.iter().fold((false, true), |(any, all), &x| (any | (x != 0), all & (x != 0)));
    let bits = (any == all && !bytes.is_empty()).then_some(u64::from(any));
    Scan { count: bytes.len() as u64, is_zero: !any, bits, ..Scan::default() }
}

/// Scans complex numbers of two f32.
fn complex(bytes: &[u8]) -> Scan {
    let parts = words_of_4(bytes, Codes::ieee(32, 23));
    let mut found = Scan { is_zero: parts.is_zero, ..words_of_8(bytes, Codes::INTEGER) };
    if parts.nan + parts.infinite > 0 {
        found.first_bad = parts.first_bad.map(|part| part / 2);
        for pair in bytes.as_chunks::<4>().0.as_chunks::<2>().0 {
            let [re, im] = pair.map(f32::from_le_bytes);
            let is_nan = re.is_nan() || im.is_nan();
            found.nan += u64::from(is_nan);
            found.infinite += u64::from(!is_nan && (re.is_infinite() || im.is_infinite()));
        }
    }
    found
}

/// Scans numbers narrower than a byte. None of these types has NaN or infinities.
fn decoded(small: SmallType, bytes: &[u8], count: usize) -> Scan {
    const PART: usize = 1 << 10; // a multiple of what any number of bytes holds in whole
    let mut found = Scan::default();
    let mut values = [0u8; 4 * PART];
    let mut floats = [0f32; PART];
    let part_len = PART * small.bits() as usize / 8;
    let mut left = count;
    for part in bytes.chunks(part_len) {
        let len = left.min(PART);
        let floats = floats.get_mut(..len).unwrap_or_default();
        small.decode(part, floats);
        let values = values.get_mut(..4 * len).unwrap_or_default();
        for (out, value) in values.as_chunks_mut::<4>().0.iter_mut().zip(floats.iter()) {
            *out = value.to_le_bytes();
        }
        found = found.then(words_of_4(values, Codes::ieee(32, 23)));
        left -= len;
    }
    found
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    /// Does the same value by value, for the values as f64.
    fn slow(values: &[f64]) -> Scan {
        let same = values.iter().all(|x| Some(x) == values.first());
        Scan {
            count: values.len() as u64,
            nan: values.iter().filter(|x| x.is_nan()).count() as u64,
            infinite: values.iter().filter(|x| x.is_infinite()).count() as u64,
            is_zero: values.iter().all(|&x| x == 0.0),
            bits: same.then_some(0),
            first_bad: values.iter().position(|x| !x.is_finite()).map(|at| at as u64),
            logs: Logs::default(),
        }
    }

    #[track_caller]
    fn check(dtype: DType, bytes: &[u8], values: &[f64]) {
        let expected = slow(values);
        for cut in [0, values.len() / 3 / 8 * 8, values.len()] {
            let at = bytes.len() * cut / values.len();
            let [a, b] = [(&bytes[..at], cut), (&bytes[at..], values.len() - cut)]
                .map(|(bytes, count)| scan(dtype, bytes, count as u64).unwrap());
            let found = a.then(b);
            assert_eq!((found.count(), found.nan()), (expected.count, expected.nan), "{dtype} {values:?}");
            assert_eq!(found.infinite(), expected.infinite, "{dtype} {values:?}");
            assert_eq!(found.first_bad(), expected.first_bad, "{dtype} {values:?}");
            assert_eq!(found.is_zero(), expected.is_zero, "{dtype} {values:?}");
            assert_eq!(found.is_constant(), expected.is_constant(), "{dtype} {values:?}");
        }
    }

    /// Values that a scan could confuse with each other.
    const SETS: &[&[f64]] = &[
        &[0.0],
        &[-0.0, 0.0],
        &[1.0, 1.0],
        &[1.0, 2.0],
        &[0.0, 0.5],
        &[f64::NAN],
        &[f64::NAN, 1.0],
        &[f64::INFINITY],
        &[f64::INFINITY, f64::NEG_INFINITY],
        &[f64::NEG_INFINITY, f64::NAN, 0.0],
        &[-1.5, -1.5, -1.5],
    ];

    #[test]
    fn floats_are_what_they_are_one_by_one() {
        // Enough for several parts, with the odd values at the front, in the middle and at the end.
        for (set, len) in SETS.iter().flat_map(|set| [1, 2, 3, 16, 2048, 5000].map(|len| (set, len))) {
            let values: Vec<f64> = set.iter().cycle().take(len.max(set.len())).copied().collect();
            let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            check(DType::F64, &bytes, &values);
            #[expect(clippy::cast_possible_truncation, reason = "these are short numbers")]
            let bytes: Vec<u8> = values.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect();
            check(DType::F32, &bytes, &values);
            let bytes: Vec<u8> = values.iter().flat_map(|&x| f16::from_f64(x).to_le_bytes()).collect();
            check(DType::F16, &bytes, &values);
            let bytes: Vec<u8> = values.iter().flat_map(|&x| bf16::from_f64(x).to_le_bytes()).collect();
            check(DType::BF16, &bytes, &values);
        }
        let largest: Vec<u8> = [f64::MAX, f64::MIN, f64::MIN_POSITIVE].map(f64::to_le_bytes).concat();
        check(DType::F64, &largest, &[f64::MAX, f64::MIN, f64::MIN_POSITIVE]);
    }

    /// Finds one odd value among many, wherever it is.
    #[test]
    fn one_nan_among_many_is_found_wherever_it_is() {
        let scanned = |dtype, bytes: &[u8], len: usize| {
            let found = scan(dtype, bytes, len as u64).unwrap();
            (found.nan(), found.infinite(), found.is_constant())
        };
        for len in [1usize, 15, 16, 17, 2047, 2048, 2049, 4100] {
            for at in [0, len / 2, len - 1] {
                let mut values = vec![1f32; len];
                values[at] = f32::from_bits(0x7f80_0001);
                let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
                assert_eq!(scanned(DType::F32, &bytes, len), (1, 0, false), "{at} of {len}");
                values[at] = f32::NEG_INFINITY;
                let bytes: Vec<u8> = values.iter().flat_map(|&x| f64::from(x).to_le_bytes()).collect();
                assert_eq!(scanned(DType::F64, &bytes, len), (0, 1, len == 1), "{at} of {len}");
                let bytes: Vec<u8> = values.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect();
                assert_eq!(scanned(DType::F16, &bytes, len), (0, 1, len == 1), "{at} of {len}");
            }
        }
    }

    /// Values are compared until two of them differ and one is not zero.
    #[test]
    fn one_other_value_among_many_is_found_wherever_it_is() {
        for (len, at) in [(1, 0), (2, 1), (4100, 0), (4100, 2047), (4100, 2048), (4100, 4099)] {
            let mut values = vec![0f32; len];
            let mut scanned = |value: f32| {
                values[at] = value;
                let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
                let found = scan(DType::F32, &bytes, len as u64).unwrap();
                (found.is_zero(), found.is_constant())
            };
            assert_eq!(scanned(-0.0), (true, true), "{at} of {len}");
            assert_eq!(scanned(1e-45), (false, len == 1), "{at} of {len}");
        }
    }

    #[test]
    fn every_code_of_every_small_type() {
        for &dtype in DType::ALL {
            let Some(small) = SmallType::from_dtype(dtype) else { continue };
            for code in 0..=u8::MAX {
                // A few inputs are long, so that they are decoded in parts.
                let times = if code % 64 == 3 { 120 } else { 2 };
                for others in [code, 0] {
                    let bytes: Vec<u8> = [[code; 6], [others; 6]].concat().repeat(times);
                    let count = bytes.len() * 8 / small.bits() as usize;
                    let mut values = vec![0f32; count];
                    small.decode(&bytes, &mut values);
                    let values: Vec<f64> = values.into_iter().map(f64::from).collect();
                    check(dtype, &bytes, &values);
                }
            }
        }
        // Bits after the last element are ignored.
        let found = scan(DType::U4, &[0x22, 0xf2], 3).unwrap();
        assert!(found.is_constant() && found.count() == 3);
    }

    #[test]
    fn integers_and_complex_numbers() {
        for (bytes, zero, constant) in [([0u8; 8], true, true), ([7; 8], false, true)] {
            for dtype in [DType::Bool, DType::I8, DType::U16, DType::I32, DType::U64] {
                let count = 8 / u64::from(dtype.size().unwrap());
                let found = scan(dtype, &bytes, count).unwrap();
                assert_eq!((found.is_zero(), found.is_constant()), (zero, constant), "{dtype}");
            }
        }
        for (bytes, constant) in [([1, 2, 255], true), ([0, 1, 1], false), ([1, 0, 0], false)] {
            assert_eq!(scan(DType::Bool, &bytes, 3).unwrap().is_constant(), constant, "{bytes:?}");
        }
        // In an integer, the highest bit is not ignored as a sign.
        assert!(!scan(DType::I16, &[0, 0x80, 0, 0], 2).unwrap().is_constant());
        let complex = |parts: &[f32]| {
            let bytes: Vec<u8> = parts.iter().flat_map(|x| x.to_le_bytes()).collect();
            scan(DType::C64, &bytes, parts.len() as u64 / 2).unwrap()
        };
        let found = complex(&[f32::NAN, f32::INFINITY, 1.0, f32::INFINITY, 2.0, 3.0]);
        assert_eq!((found.nan(), found.infinite(), found.is_constant()), (1, 1, false));
        assert!(
            complex(&[1.0, 2.0, 1.0, 2.0]).is_constant() && !complex(&[1.0, 1.0, 1.0, 2.0]).is_constant()
        );
        assert!(complex(&[0.0, -0.0, 0.0, 0.0]).is_zero());
    }

    #[test]
    fn bytes_that_are_not_these_values_are_refused() {
        for (dtype, len, count) in
            [(DType::F32, 7, 2), (DType::F32, 8, 3), (DType::I4, 1, 3), (DType::U8, 1, u64::MAX)]
        {
            assert_eq!(scan(dtype, &vec![0; len], count), Err(Error::Ragged { dtype, len }), "{dtype}");
        }
        assert_eq!(scan(DType::Q8_0, &[0; 34], 32), Err(Error::Unsupported(DType::Q8_0)));
        assert_eq!(scan(DType::F16, &[], 0).map(|found| found.is_zero()), Ok(false));
    }
}
