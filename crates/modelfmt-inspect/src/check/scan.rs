//! The pass over all values. The threads share the pieces of all tensors, so one large tensor uses as many
//! cores as many small tensors.

use modelfmt_core::{AlignedBuf, AnyError, DType, Execution, author::PIECE};
use multiversion::multiversion;
use tensor_stats::{Magnitudes, Outlier, Powers, Scan};

use modelfmt_model::error::Result;
use modelfmt_model::model::Model;
use modelfmt_model::values::{is_numeric, read_elements, read_stored};

/// The result of the pass for one tensor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    pub(super) values: Scan,
    /// A hash that is equal for tensors with equal bytes, and almost never equal for other tensors.
    pub(super) fingerprint: u64,
}

/// Scans the tensors at these positions, each once. `also` is called for each piece, and `take` receives its
/// results in order, with the index of the tensor in `positions`.
pub(super) fn scan<T: Send>(
    model: &Model,
    positions: &[usize],
    work: &Execution<'_>,
    also: impl Fn(&Piece<'_>) -> Result<T> + Sync,
    mut take: impl FnMut(usize, T) + Send,
) -> Result<Vec<Found>> {
    let mut all = vec![Found::default(); positions.len()];
    let take = |place: usize, (found, other): (Found, T)| {
        if let Some(all) = all.get_mut(place) {
            all.values = all.values.then(found.values);
            all.fingerprint = mixed(all.fingerprint, found.fingerprint);
        }
        take(place, other);
    };
    each_piece(model, positions, work, |piece| Ok((piece.found()?, also(piece)?)), take)?;
    Ok(all)
}

/// Finds the outliers of the tensors at these positions. With each outlier, returns how many values of the
/// tensor are in each power of two. The tensors are read once more, so pass only those that may have an
/// outlier according to their [`Scan`].
pub(super) fn outliers(
    model: &Model,
    positions: &[usize],
    work: &Execution<'_>,
) -> Result<Vec<Option<(Outlier, Powers)>>> {
    let mut all = vec![Magnitudes::default(); positions.len()];
    let take = |place: usize, found: Magnitudes| {
        if let Some(all) = all.get_mut(place) {
            *all = std::mem::take(all).then(&found);
        }
    };
    // The progress of the first pass already includes these bytes.
    let no_progress = |_| work.advance(0);
    let quiet = Execution { progress: Some(&no_progress), ..*work };
    each_piece(model, positions, &quiet, |piece| piece.magnitudes(), take)?;
    Ok(all.iter().map(|all| Some((all.outlier()?, all.powers()))).collect())
}

/// Reads the values of tensors in pieces, on several threads. `look` is called for each piece, and `take`
/// receives its results in order, with the index of the tensor in `positions`.
fn each_piece<T: Send>(
    model: &Model,
    positions: &[usize],
    work: &Execution<'_>,
    look: impl Fn(&Piece<'_>) -> Result<T> + Sync,
    mut take: impl FnMut(usize, T) + Send,
) -> Result<()> {
    let mut jobs = Vec::with_capacity(positions.len());
    let mut count = 0u64;
    for &position in positions {
        let job = Job::new(model, position, count)?;
        count = count.saturating_add(job.pieces());
        jobs.push(job);
    }
    let job_of = |number: u64| jobs.partition_point(|job| job.first <= number).saturating_sub(1);
    let one = |buffer: &mut AlignedBuf, number: u64| {
        let place = job_of(number);
        let found = jobs.get(place).map(|job| job.piece(model, number - job.first, buffer, work, &look));
        found.transpose().map(|found| (place, found))
    };
    let take = |(place, found): (usize, Option<T>)| {
        if let Some(found) = found {
            take(place, found);
        }
        Ok(())
    };
    work.each(count, AlignedBuf::default, one, take)
}

/// Checks whether a dtype has values that can be checked one by one.
pub(super) const fn has_numbers(dtype: DType) -> bool {
    is_numeric(dtype) || matches!(dtype, DType::C64)
}

/// The pieces of a tensor.
struct Job {
    position: usize,
    /// The number of its first piece among the pieces of all tensors.
    first: u64,
    /// The dtype in which the tensor is read: its own, `f32` for blocks, or bytes for values that are not
    /// numbers.
    dtype: DType,
    is_numeric: bool,
    is_decoded: bool,
    elements: u64,
    /// The number of elements in a piece. In every dtype they take whole bytes.
    per_piece: u64,
    /// The stored length in bytes, by which progress is counted. Blocks are shorter than their decoded
    /// values.
    nbytes: u64,
}

impl Job {
    fn new(model: &Model, position: usize, first: u64) -> Result<Self> {
        let info = model.info(position)?;
        let is_numeric = has_numbers(info.dtype);
        let is_decoded = is_numeric && info.dtype.is_quantized();
        let (dtype, elements) = match (is_numeric, is_decoded) {
            (false, _) => (DType::U8, info.nbytes),
            (true, true) => (DType::F32, info.elements()),
            (true, false) => (info.dtype, info.elements()),
        };
        let block = dtype.block().map_or((1, 1), |block| (block.elements, block.nbytes));
        let per_piece = PIECE / u64::from(block.1) * u64::from(block.0);
        Ok(Self { position, first, dtype, is_numeric, is_decoded, elements, per_piece, nbytes: info.nbytes })
    }

    const fn pieces(&self) -> u64 {
        self.elements.div_ceil(self.per_piece)
    }

    fn piece<T>(
        &self,
        model: &Model,
        number: u64,
        buffer: &mut AlignedBuf,
        work: &Execution<'_>,
        look: impl Fn(&Piece<'_>) -> Result<T>,
    ) -> Result<T> {
        let first = number.saturating_mul(self.per_piece);
        let count = self.per_piece.min(self.elements.saturating_sub(first));
        let len = self.dtype.nbytes(&[count]).unwrap_or_default();
        let read = self.share(first.saturating_add(count)) - self.share(first);
        let (dtype, is_numeric, position) = (self.dtype, self.is_numeric, self.position);
        let piece = |bytes| Piece { model, position, dtype, is_numeric, first, count, bytes };
        let found = match self.borrowed(model, first, len) {
            Some(bytes) => look(&piece(bytes)),
            None => {
                self.read(model, first, len, buffer)?;
                look(&piece(buffer))
            }
        };
        if work.advance(read).is_break() {
            return Err(model.failed(AnyError::Cancelled));
        }
        found
    }

    /// Returns the number of stored bytes that this many elements count as.
    fn share(&self, elements: u64) -> u64 {
        let share = u128::from(self.nbytes) * u128::from(elements) / u128::from(self.elements.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// Returns the bytes of a piece without a copy, if the file is in memory.
    fn borrowed<'a>(&self, model: &'a Model, first: u64, len: u64) -> Option<&'a [u8]> {
        let begin = self.dtype.nbytes(&[first]).filter(|_| !self.is_decoded)?;
        Some(model.borrow(self.position, begin..begin.checked_add(len)?)?.1)
    }

    fn read(&self, model: &Model, first: u64, len: u64, buffer: &mut AlignedBuf) -> Result<()> {
        let resized = usize::try_from(len).is_ok_and(|len| buffer.resize(len).is_ok());
        if !resized {
            let source = std::io::ErrorKind::OutOfMemory.into();
            return Err(model.failed(AnyError::Io { at: 0, len, source }));
        }
        match (self.is_numeric, self.is_decoded) {
            (false, _) => model.read_into(self.position, first, buffer),
            (true, true) => read_elements(model, self.position, first, buffer),
            (true, false) => read_stored(model, self.position, first, buffer),
        }
    }
}

/// Consecutive values of a tensor.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "report"), allow(dead_code, reason = "only a report asks where a piece belongs"))]
pub(crate) struct Piece<'a> {
    pub(crate) model: &'a Model,
    /// The position of the tensor.
    pub(crate) position: usize,
    /// The dtype of the bytes: `f32` for decoded blocks, or bytes for values that are not numbers.
    pub(crate) dtype: DType,
    pub(crate) is_numeric: bool,
    /// The number of the first element in the tensor.
    pub(crate) first: u64,
    /// The number of elements.
    pub(crate) count: u64,
    pub(crate) bytes: &'a [u8],
}

impl Piece<'_> {
    /// Scans the values and computes the fingerprint, part by part, so that each part is still in the nearest
    /// caches the second time.
    fn found(&self) -> Result<Found> {
        let bad = |error| odd(self.model, self.bytes, error);
        let mut found = Found { values: Scan::default(), fingerprint: self.bytes.len() as u64 };
        let size = self.dtype.size().map(|size| size as usize);
        let size = size.filter(|&size| self.is_numeric && PART.is_multiple_of(size));
        for part in self.bytes.chunks(PART) {
            found.fingerprint = fingerprint(found.fingerprint, part);
            if let Some(size) = size {
                let values = tensor_stats::scan(self.dtype, part, (part.len() / size) as u64).map_err(bad)?;
                found.values = found.values.then(values);
            }
        }
        if self.is_numeric && size.is_none() {
            found.values = tensor_stats::scan(self.dtype, self.bytes, self.count).map_err(bad)?;
        }
        Ok(found)
    }

    fn magnitudes(&self) -> Result<Magnitudes> {
        Magnitudes::of(self.dtype, self.bytes).map_err(|error| odd(self.model, self.bytes, error))
    }
}

/// Returns the error for bytes that are not values of their dtype.
fn odd(model: &Model, bytes: &[u8], error: tensor_stats::Error) -> modelfmt_model::error::Error {
    let source = std::io::Error::new(std::io::ErrorKind::InvalidData, error);
    model.failed(AnyError::Io { at: 0, len: bytes.len() as u64, source })
}

/// An odd number without a pattern.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

const fn mixed(state: u64, word: u64) -> u64 {
    (state ^ word).wrapping_mul(FACTOR).rotate_left(29)
}

/// The number of bytes that are processed together.
const PART: usize = 32 << 10;

/// Continues the hash `print` of the preceding bytes with a part of at most [`PART`] bytes. The result
/// depends on every byte and on the order of the parts, but not on the order of the rows within a part.
/// BLAKE3 hashes decide later whether bytes are equal. This takes only a small part of the time of reading
/// the bytes.
fn fingerprint(mut print: u64, part: &[u8]) -> u64 {
    let (halves, last) = part.as_chunks::<2>();
    let (rows, rest) = halves.as_chunks::<LANES>();
    for four in sums(rows).as_chunks::<4>().0 {
        print = mixed(print, four.iter().fold(0, |word, &lane| word << 16 | u64::from(lane)));
    }
    let last = last.iter().map(|&byte| u64::from(byte));
    let rest = rest.iter().map(|&half| u64::from(u16::from_le_bytes(half)));
    rest.chain(last).fold(print, mixed)
}

/// The number of 16-bit numbers that are added at once.
const LANES: usize = 64;

/// Returns the sum of each lane.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
fn sums(rows: &[[[u8; 2]; LANES]]) -> [u16; LANES] {
    let mut lanes = [0u16; LANES];
    for row in rows {
        for (lane, &half) in lanes.iter_mut().zip(row) {
            *lane = lane.wrapping_add(u16::from_le_bytes(half));
        }
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_depends_on_every_byte() {
        let bytes: Vec<u8> = (0..200u8).collect();
        let fingerprint = |bytes: &[u8]| bytes.chunks(PART).fold(bytes.len() as u64, fingerprint);
        let whole = fingerprint(&bytes);
        let mut seen = std::collections::HashSet::from([whole]);
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert!(fingerprint(&other) != whole && seen.insert(fingerprint(&bytes[..at])), "{at}");
        }
        // The order of parts changes the fingerprint.
        let [one, two] = [1u8, 2].map(|byte| vec![byte; 32 << 10]);
        assert_ne!(fingerprint(&[&one[..], &two].concat()), fingerprint(&[&two[..], &one].concat()));
    }
}
