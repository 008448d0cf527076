//! Reads the elements of a tensor in another order, in long runs.
//!
//! The shapes were checked when the program was built: the length of every tensor in bytes fits a `u64`, and
//! so does every position in it.

/// The most bytes that are read at once where elements are far apart.
const SPAN: u64 = 256 << 10;

/// Fills a buffer with elements of the source, from the given element on.
pub(crate) type Elements<'r, E> = dyn FnMut(u64, &mut [u8]) -> Result<(), E> + 'r;

/// A dimension of the result.
#[derive(Clone, Copy, Debug)]
struct Dim {
    len: u64,
    /// The distance between neighbours along this dimension, in elements of the source.
    stride: u64,
}

/// Where each element of the result is in the source.
pub(crate) struct Layout {
    /// The dimensions without those of length 1. Neighbouring dimensions that form one run are merged.
    dims: Vec<Dim>,
    first: u64,
}

impl Layout {
    /// Returns the layout of a row-major tensor of `shape` whose dimensions are put in the order of `axes`.
    pub(crate) fn permuted(shape: &[u64], axes: &[usize]) -> Self {
        let strides = strides(shape);
        let dims =
            axes.iter().filter_map(|&axis| Some(Dim { len: *shape.get(axis)?, stride: *strides.get(axis)? }));
        Self { dims: joined(dims), first: 0 }
    }

    /// Returns the layout of a slice of a row-major tensor of `shape`: `len` indices of one dimension, from
    /// `start` on.
    pub(crate) fn sliced(shape: &[u64], axis: usize, start: u64, len: u64) -> Self {
        let strides = strides(shape);
        let dims = shape
            .iter()
            .zip(&strides)
            .enumerate()
            .map(|(at, (&own, &stride))| Dim { len: if at == axis { len } else { own }, stride });
        let first = strides.get(axis).map_or(0, |stride| stride * start);
        Self { dims: joined(dims), first }
    }

    /// Fills `out` with elements of `size` bytes, from the element `at` of the result on. `read` fills a
    /// buffer with elements of the source, from a given element on. A gap of up to `gap` bytes between two
    /// wanted runs is read too, instead of calling `read` again.
    pub(crate) fn gather<E>(
        &self,
        at: u64,
        out: &mut [u8],
        (size, gap): (usize, u64),
        read: &mut Elements<'_, E>,
    ) -> Result<(), E> {
        match self.dims.last() {
            Some(last) if last.stride != 1 => self.across(at, out, (size, gap), read),
            _ => self.along(at, out, size, read),
        }
    }

    /// Reads runs along the last dimension, whose neighbours are also neighbours in the source.
    fn along<E>(
        &self,
        mut at: u64,
        out: &mut [u8],
        size: usize,
        read: &mut Elements<'_, E>,
    ) -> Result<(), E> {
        let run = self.dims.last().map_or(1, |last| last.len).max(1);
        let mut rest = out;
        while !rest.is_empty() {
            let left = bytes(run - at % run, size);
            let (piece, tail) = rest.split_at_mut(left.min(rest.len()));
            read(self.place(at), piece)?;
            at += (piece.len() / size) as u64;
            rest = tail;
        }
        Ok(())
    }

    /// Reads runs along a dimension that is not the last one, as in a transposed matrix, and puts each
    /// element in its place.
    fn across<E>(
        &self,
        mut at: u64,
        out: &mut [u8],
        (size, gap): (usize, u64),
        read: &mut Elements<'_, E>,
    ) -> Result<(), E> {
        let along = self.dims.iter().rposition(|dim| dim.stride == 1);
        // Without such a dimension each element is a run.
        let (inner, rows) = along.map_or((1, 1), |along| {
            let inner: u64 = self.dims.iter().skip(along + 1).map(|dim| dim.len).product();
            (inner, self.dims.get(along).map_or(1, |dim| dim.len))
        });
        let (mut rest, mut scratch) = (out, Vec::new());
        while !rest.is_empty() {
            let there = (rest.len() / size) as u64;
            let (row, column) = (at / inner, at % inner);
            // Whole rows, or a part of one row.
            let whole = if column > 0 { 1 } else { (there / inner).min(rows - row % rows).max(1) };
            let columns = (inner - column).min(there);
            let (piece, tail) = rest.split_at_mut(bytes(whole * columns, size));
            let mut done = 0;
            while done < columns {
                let (count, step) = self.coalesce(at + done, columns - done, whole, (size as u64, gap));
                scratch.resize(bytes((count - 1) * step + whole, size), 0);
                read(self.place(at + done), &mut scratch)?;
                for number in 0..count {
                    let own = scratch.get(bytes(number * step, size)..).unwrap_or_default();
                    let begin = bytes(done + number, size);
                    let rows = piece.chunks_exact_mut(bytes(columns, size));
                    for (row, element) in rows.zip(own.chunks_exact(size)) {
                        if let Some(place) = row.get_mut(begin..begin + size) {
                            place.copy_from_slice(element);
                        }
                    }
                }
                done += count;
            }
            (at, rest) = (at + whole * columns, tail);
        }
        Ok(())
    }

    /// Returns how many of the elements from `at` on, at most `most`, begin runs of `whole` elements that are
    /// read at once together with the gaps between them, and the distance between these runs in the source.
    fn coalesce(&self, at: u64, most: u64, whole: u64, (size, gap): (u64, u64)) -> (u64, u64) {
        let first = self.place(at);
        let next = if most > 1 { self.place(at + 1) } else { 0 };
        let Some(step) = next.checked_sub(first).filter(|step| *step >= whole) else { return (1, 0) };
        if (step - whole) * size > gap {
            return (1, 0);
        }
        let mut count = 2;
        let ends = |count: u64| (count * step + whole) * size <= SPAN;
        while count < most && ends(count) && self.place(at + count) == first + count * step {
            count += 1;
        }
        (count, step)
    }

    /// Returns the position in the source of the element `at` of the result.
    fn place(&self, mut at: u64) -> u64 {
        let mut place = self.first;
        for dim in self.dims.iter().rev() {
            place += at % dim.len * dim.stride;
            at /= dim.len;
        }
        place
    }
}

/// Returns the distance between neighbours along each dimension of a row-major tensor.
fn strides(shape: &[u64]) -> Vec<u64> {
    let mut strides = vec![1; shape.len()];
    let mut product = 1;
    for (stride, len) in strides.iter_mut().zip(shape).rev() {
        *stride = product;
        product *= (*len).max(1);
    }
    strides
}

/// Leaves out dimensions of one element, and merges two dimensions that form one run.
fn joined(dims: impl Iterator<Item = Dim>) -> Vec<Dim> {
    let mut joined: Vec<Dim> = Vec::new();
    for dim in dims.filter(|dim| dim.len != 1) {
        match joined.last_mut() {
            Some(before) if before.stride == dim.len * dim.stride => {
                *before = Dim { len: before.len * dim.len, stride: dim.stride };
            }
            _ => joined.push(dim),
        }
    }
    joined
}

/// Returns the length of `count` elements in bytes, saturated to `usize`.
fn bytes(count: u64, size: usize) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(size)
}
