//! Computes the values of a program, in pieces.

use tensor_core::{DType, SmallType, TensorInfo};

use crate::cast::{Lost, NotANumber, cast};
use crate::gather::Layout;
use crate::low_rank::Product;
use crate::number::{add, from_bytes, to_bytes, update};
use crate::packing::Packing;
use crate::program::Step;
use crate::{Program, ReadError, ValueError, blocks};

/// Reads the values of inputs. A closure `|number, at, out|` implements this.
pub trait Inputs {
    /// The error when values cannot be read.
    type Error;

    /// Fills `out` with values of an input from byte `at` on, little-endian and row-major.
    ///
    /// # Errors
    /// Returns an error if the values cannot be read.
    fn read(&mut self, number: usize, at: u64, out: &mut [u8]) -> Result<(), Self::Error>;
}

impl<E, F: FnMut(usize, u64, &mut [u8]) -> Result<(), E>> Inputs for F {
    type Error = E;

    fn read(&mut self, number: usize, at: u64, out: &mut [u8]) -> Result<(), E> {
        self(number, at, out)
    }
}

/// The most elements of a tensor that are converted or added at once. They are whole blocks of every dtype.
const RUN: usize = 1 << 16;

/// The most elements that are added at once. The more, the fewer times the wide matrix of a low-rank product
/// is read.
const SUMMED: usize = RUN << 2;

/// The longest gap between two wanted ranges of an input, in bytes, that is read instead of reading twice.
const GAP: u64 = 8 << 10;

/// The shortest run of elements that is whole bytes, and its length.
#[derive(Clone, Copy)]
struct Unit {
    elements: u64,
    nbytes: u64,
}

impl Unit {
    fn of(dtype: DType) -> Self {
        // Dtypes without blocks are only copied or dequantized, and neither uses the unit.
        let (elements, nbytes) = dtype.block().map_or((1, 1), |block| (block.elements, block.nbytes));
        Self { elements: u64::from(elements.max(1)), nbytes: u64::from(nbytes.max(1)) }
    }

    /// Returns the length in bytes of whole units.
    fn nbytes_of(self, elements: u64) -> u64 {
        (elements / self.elements).saturating_mul(self.nbytes)
    }

    /// Returns the number of elements in whole units.
    fn elements_in(self, nbytes: usize) -> u64 {
        (nbytes as u64 / self.nbytes).saturating_mul(self.elements)
    }
}

impl Program {
    /// Fills `out` with the values of the result from byte `at` on, little-endian and row-major. The range
    /// must be within the result. If the last step is a cast, returns how many values it did not keep.
    ///
    /// Besides `out`, this holds at most 1 MiB for each step, 4 MiB for one that follows a permutation or a
    /// sum, or as much as `out` where elements change places. Where a matrix is transposed, pieces of 1 MiB
    /// and more are read in longer runs.
    ///
    /// # Errors
    /// [`ReadError::Read`] with the first error of `inputs`; [`ReadError::Values`] if a value cannot be computed.
    pub fn read<I: Inputs>(
        &self,
        at: u64,
        out: &mut [u8],
        inputs: &mut I,
    ) -> Result<Lost, ReadError<I::Error>> {
        if let Step::Input { number, .. } = &self.step {
            return inputs.read(*number, at, out).map(|()| Lost::default()).map_err(ReadError::Read);
        }
        let unit = Unit::of(self.dtype());
        let len = size(unit.nbytes);
        // The first and the last unit may be only partly within `out`.
        let skip = size(at % unit.nbytes);
        let (mut first, mut rest) = ((at / unit.nbytes).saturating_mul(unit.elements), out);
        let mut lost = Lost::default();
        if skip > 0 || rest.len() < len {
            let (head, tail) = rest.split_at_mut(len.saturating_sub(skip).min(rest.len()));
            lost.add(self.part(first, skip, head, inputs)?);
            (first, rest) = (first.saturating_add(unit.elements), tail);
        }
        let whole = rest.len() / len * len;
        let (middle, tail) = rest.split_at_mut(whole);
        lost.add(self.elements(first, middle, inputs)?);
        lost.add(self.part(first.saturating_add(unit.elements_in(whole)), 0, tail, inputs)?);
        Ok(lost)
    }

    /// Fills `out` with a part of one unit, from byte `skip` of the unit on.
    fn part<I: Inputs>(
        &self,
        first: u64,
        skip: usize,
        out: &mut [u8],
        inputs: &mut I,
    ) -> Result<Lost, ReadError<I::Error>> {
        if out.is_empty() {
            return Ok(Lost::default());
        }
        let mut unit = vec![0; size(Unit::of(self.dtype()).nbytes)];
        let lost = self.elements(first, &mut unit, inputs)?;
        let part = unit.get(skip..skip.saturating_add(out.len())).unwrap_or_default();
        out.iter_mut().zip(part).for_each(|(out, byte)| *out = *byte);
        Ok(lost)
    }

    /// Returns the length of an element in bytes, for dtypes whose elements are whole bytes.
    fn size(&self) -> usize {
        size(Unit::of(self.dtype()).nbytes)
    }

    /// Like [`elements`](Self::elements), but fills with zeros beyond the last element.
    fn padded<I: Inputs>(
        &self,
        first: u64,
        out: &mut [u8],
        inputs: &mut I,
    ) -> Result<(), ReadError<I::Error>> {
        let begin = Unit::of(self.dtype()).nbytes_of(first);
        let there = size(self.nbytes().unwrap_or(0).saturating_sub(begin)).min(out.len());
        let (out, beyond) = out.split_at_mut(there);
        beyond.fill(0);
        self.elements(first, out, inputs).map(drop)
    }

    /// Fills `out` with whole units, from the element `first` on, which begins a unit.
    pub(crate) fn elements<I: Inputs>(
        &self,
        first: u64,
        out: &mut [u8],
        inputs: &mut I,
    ) -> Result<Lost, ReadError<I::Error>> {
        if out.is_empty() {
            return Ok(Lost::default());
        }
        match &self.step {
            Step::Input { number, .. } => {
                let at = Unit::of(self.dtype()).nbytes_of(first);
                inputs.read(*number, at, out).map_err(ReadError::Read)?;
            }
            Step::Constant(values) => {
                let values = values.get(size(first)..).unwrap_or_default();
                to_bytes(values, out);
            }
            Step::Known(bytes) => {
                let at = size(Unit::of(self.dtype()).nbytes_of(first));
                let values = bytes.get(at..).unwrap_or_default();
                out.iter_mut().zip(values).for_each(|(out, byte)| *out = *byte);
            }
            Step::Retype(of) => {
                let at = Unit::of(self.dtype()).nbytes_of(first);
                return of.read(at, out, inputs);
            }
            Step::Reshape(of) => return of.elements(first, out, inputs),
            Step::Permute { of, axes } => {
                let layout = Layout::permuted(of.shape(), axes);
                of.gather(&layout, first, out, inputs)?;
            }
            Step::Slice { of, axis, start } => {
                let len = self.shape().get(*axis).copied().unwrap_or_default();
                let layout = Layout::sliced(of.shape(), *axis, *start, len);
                of.gather(&layout, first, out, inputs)?;
            }
            Step::Concat { parts, axis } => self.concatenate(parts, *axis, first, out, inputs)?,
            Step::Plus { of, number } => {
                of.elements(first, out, inputs)?;
                update(out, |x| x + number);
            }
            Step::Times { of, number } => {
                of.elements(first, out, inputs)?;
                update(out, |x| x * number);
            }
            Step::Sum(a, b) => {
                a.elements(first, out, inputs)?;
                sum(b, first, out, inputs)?;
            }
            Step::Cast(of) => return self.cast_of(of, first, out, inputs),
            Step::Quantize(of, None) => self.quantize(of, first, out, inputs)?,
            Step::Quantize(of, Some(importance)) => self.quantize_rows(of, importance, first, out, inputs)?,
            Step::Affine { of, affine } => {
                of.elements(first, out, inputs)?;
                apply(affine, first, out);
            }
            Step::Unpack { of, packing } => self.unpack(of, *packing, first, out, inputs)?,
            Step::Pack(of) => {
                let (mut at, mut numbers) = (first, Vec::new());
                for out in out.chunks_mut(RUN) {
                    numbers.resize(out.len().saturating_mul(2), 0);
                    of.elements(at.saturating_mul(2), &mut numbers, inputs)?;
                    for (out, [low, high]) in out.iter_mut().zip(numbers.as_chunks::<2>().0) {
                        *out = low & 0xf | high << 4;
                    }
                    at = at.saturating_add(out.len() as u64);
                }
            }
            Step::AtMost { of, most } => {
                of.elements(first, out, inputs)?;
                if let Some((at, &found)) = out.iter().enumerate().find(|(_, number)| **number > *most) {
                    let element = first.saturating_add(at as u64);
                    return Err(ValueError::TooLarge { element, found, most: *most }.into());
                }
            }
            Step::Dequantize(_) | Step::Scale { .. } | Step::LowRank { .. } | Step::Lookup { .. } => {
                let (mut at, mut floats) = (first, Vec::new());
                for out in out.chunks_mut(self.run().saturating_mul(size_of::<f32>())) {
                    floats.resize(out.len() / size_of::<f32>(), 0.0);
                    self.floats(at, &mut floats, inputs)?;
                    to_bytes(&floats, out);
                    at = at.saturating_add(floats.len() as u64);
                }
            }
        }
        Ok(Lost::default())
    }

    /// Fills `out` with elements of an `f32` tensor, from the element `first` on.
    pub(crate) fn floats<I: Inputs>(
        &self,
        first: u64,
        out: &mut [f32],
        inputs: &mut I,
    ) -> Result<(), ReadError<I::Error>> {
        match &self.step {
            Step::Cast(of) if of.decodes_at(first, out.len()) => {
                // Does what a cast does, without writing the floats to bytes in between.
                let mut source = vec![0; size(Unit::of(of.dtype()).nbytes_of(out.len() as u64))];
                of.padded(first, &mut source, inputs)?;
                if let Some(small) = SmallType::from_dtype(of.dtype()) {
                    small.decode(&source, out);
                }
                Ok(())
            }
            Step::Dequantize(of) => {
                let nbytes = of.nbytes().unwrap_or(0);
                let info = TensorInfo::with_nbytes("", of.dtype(), of.shape(), nbytes, true);
                blocks::decode(&info, first, out, |at, bytes| of.read(at, bytes, inputs).map(drop))
                    .map_err(ReadError::flatten)
            }
            Step::Lookup { of, table } => {
                let mut values = vec![0.0; size(table.shape().iter().product())];
                table.floats(0, &mut values, inputs)?;
                let mut numbers = vec![0; out.len()];
                of.elements(first, &mut numbers, inputs)?;
                for (out, &number) in out.iter_mut().zip(&numbers) {
                    // The table has an element for each number.
                    *out = values.get(usize::from(number)).copied().unwrap_or(f32::NAN);
                }
                Ok(())
            }
            Step::Scale { of, scales, scaling, op } => {
                of.floats(first, out, inputs)?;
                scaling.apply(*op, first, out, |begin, count| {
                    let mut found = vec![0.0; size(count)];
                    scales.floats(begin, &mut found, inputs).map(|()| found)
                })
            }
            Step::LowRank { tall, wide, number } => {
                let product = Product { tall, wide, number: *number };
                product.replace(first, out, &mut |of, first, out| of.floats(first, out, inputs))
            }
            _ => {
                let run = self.run();
                let mut bytes = vec![0; out.len().min(run).saturating_mul(size_of::<f32>())];
                let mut at = first;
                for out in out.chunks_mut(run) {
                    let bytes =
                        bytes.get_mut(..out.len().saturating_mul(size_of::<f32>())).unwrap_or_default();
                    self.elements(at, bytes, inputs)?;
                    from_bytes(bytes, out);
                    at = at.saturating_add(out.len() as u64);
                }
                Ok(())
            }
        }
    }

    /// Fills `out` with elements in another order.
    fn gather<I: Inputs>(
        &self,
        layout: &Layout,
        first: u64,
        out: &mut [u8],
        inputs: &mut I,
    ) -> Result<(), ReadError<I::Error>> {
        // Reading a gap from an input, or unpacking it, costs little compared with another read. Computing it
        // costs more.
        let is_cheap = self.copied().is_some() || self.is_unpacked();
        let gap = if is_cheap { GAP } else { 0 };
        layout.gather(first, out, (self.size(), gap), &mut |at, out| self.elements(at, out, inputs).map(drop))
    }

    /// If `of` adds a product to 16-bit floats of this program's dtype, computes the cast of that sum in one
    /// go. Otherwise returns `None`.
    fn merge_halves<I: Inputs>(
        &self,
        of: &Self,
        first: u64,
        out: &mut [u8],
        inputs: &mut I,
    ) -> Option<Result<Lost, ReadError<I::Error>>> {
        let Step::Sum(base, product) = &of.step else { return None };
        let (Step::Cast(base), Some(product)) = (&base.step, Product::of(product)) else { return None };
        if base.dtype() != self.dtype() || !matches!(self.dtype(), DType::BF16 | DType::F16) {
            return None;
        }
        let merged = base.elements(first, out, inputs).and_then(|_| {
            product
                .add_to_halves(self.dtype(), first, out, &mut |of, first, out| of.floats(first, out, inputs))
        });
        Some(merged)
    }

    /// Casts the elements of another tensor.
    fn cast_of<I: Inputs>(
        &self,
        of: &Self,
        first: u64,
        out: &mut [u8],
        inputs: &mut I,
    ) -> Result<Lost, ReadError<I::Error>> {
        if let Some(lost) = self.merge_halves(of, first, out, inputs) {
            return lost;
        }
        let (from, to) = (Unit::of(of.dtype()), Unit::of(self.dtype()));
        let not_a_number = |first: u64, NotANumber(element): NotANumber| ValueError::NotANumber {
            element: first.saturating_add(element as u64),
            dtype: self.dtype(),
        };
        // The number of elements in a unit is a power of two, so the larger one is a multiple of the smaller.
        let group = from.elements.max(to.elements);
        let mut begin = first / group * group;
        let mut skip = size(to.nbytes_of(first.saturating_sub(begin)));
        let (mut rest, mut source, mut lost) = (out, Vec::new(), Lost::default());
        while !rest.is_empty() {
            let wanted =
                to.elements_in(skip.saturating_add(rest.len())).div_ceil(group).saturating_mul(group);
            let count = wanted.min(of.run() as u64);
            source.resize(size(from.nbytes_of(count)), 0);
            of.padded(begin, &mut source, inputs)?;
            let len = size(to.nbytes_of(count));
            let (head, tail) = rest.split_at_mut(len.saturating_sub(skip).min(rest.len()));
            let found = if head.len() == len {
                cast(of.dtype(), self.dtype(), &source, head)
            } else {
                let mut whole = vec![0; len];
                let found = cast(of.dtype(), self.dtype(), &source, &mut whole);
                let part = whole.get(skip..).unwrap_or_default();
                head.iter_mut().zip(part).for_each(|(out, byte)| *out = *byte);
                found
            };
            lost.add(found.map_err(|fault| not_a_number(begin, fault))?);
            (rest, skip, begin) = (tail, 0, begin.saturating_add(count));
        }
        Ok(lost)
    }

    /// Encodes the elements of another tensor as blocks.
    fn quantize<I: Inputs>(
        &self,
        of: &Self,
        first: u64,
        out: &mut [u8],
        inputs: &mut I,
    ) -> Result<(), ReadError<I::Error>> {
        let to = Unit::of(self.dtype());
        let (mut at, mut floats) = (first, Vec::new());
        let run = size(to.nbytes_of(of.run() as u64));
        for out in out.chunks_mut(run) {
            let count = to.elements_in(out.len());
            floats.resize(size(count), 0.0);
            of.as_floats(at, &mut floats, inputs)?;
            let encoded = ggml_quant::encode(self.dtype(), &floats, out);
            encoded.map_err(|error| ValueError::encoding(error, at, self.dtype()))?;
            at = at.saturating_add(count);
        }
        Ok(())
    }

    /// Encodes the elements of another tensor as blocks, weighted by the importance of each column. Whole
    /// rows are encoded, because ggml's scales depend on the whole row.
    fn quantize_rows<I: Inputs>(
        &self,
        of: &Self,
        importance: &[f32],
        first: u64,
        out: &mut [u8],
        inputs: &mut I,
    ) -> Result<(), ReadError<I::Error>> {
        let to = Unit::of(self.dtype());
        let columns = self.shape().last().copied().unwrap_or_default().max(1);
        let rows = self.shape().iter().rev().skip(1).fold(1u64, |rows, dim| rows.saturating_mul(*dim));
        let groups = (importance.len() as u64 / columns).max(1);
        let (mut row, skipped) = (first / columns, first % columns);
        let mut skip = size(to.nbytes_of(skipped));
        let mut floats = vec![0.0; size(columns)];
        let mut blocks = vec![0; size(to.nbytes_of(columns))];
        let mut rest = out;
        while !rest.is_empty() {
            let at = row.saturating_mul(columns);
            of.as_floats(at, &mut floats, inputs)?;
            let group = row / (rows / groups).max(1);
            let importance = importance.chunks_exact(floats.len()).nth(size(group)).unwrap_or_default();
            let encoded = ggml_quant::encode_weighted(self.dtype(), &floats, importance, &mut blocks);
            encoded.map_err(|error| ValueError::encoding(error, at, self.dtype()))?;
            let part = blocks.get(skip..).unwrap_or_default();
            let len = part.len().min(rest.len()).max(1);
            let (head, tail) = rest.split_at_mut(len);
            head.iter_mut().zip(part).for_each(|(out, byte)| *out = *byte);
            (rest, skip, row) = (tail, 0, row.saturating_add(1));
        }
        Ok(())
    }

    /// Fills `out` with elements from `first` on, as `f32`.
    fn as_floats<I: Inputs>(
        &self,
        first: u64,
        out: &mut [f32],
        inputs: &mut I,
    ) -> Result<(), ReadError<I::Error>> {
        if self.is_computed() {
            return self.floats(first, out, inputs);
        }
        let mut source = vec![0; size(Unit::of(self.dtype()).nbytes_of(out.len() as u64))];
        self.padded(first, &mut source, inputs)?;
        if self.dtype() == DType::F32 {
            from_bytes(&source, out);
        } else {
            let mut middle = vec![0; out.len().saturating_mul(size_of::<f32>())];
            // A NaN stays a NaN, and numbers beyond the range become infinite; the encoder refuses both.
            _ = cast(self.dtype(), DType::F32, &source, &mut middle);
            from_bytes(&middle, out);
        }
        Ok(())
    }

    /// Returns the number of elements that the next step takes at once. It is larger where elements change
    /// places, so that they are read in longer runs.
    fn run(&self) -> usize {
        const MOVED: usize = RUN << 3;
        match &self.step {
            Step::Permute { .. } => MOVED,
            Step::Sum(..) => SUMMED,
            Step::Reshape(of)
            | Step::Retype(of)
            | Step::Cast(of)
            | Step::Plus { of, .. }
            | Step::Times { of, .. }
            | Step::Unpack { of, .. }
            | Step::Lookup { of, .. }
            | Step::Scale { of, .. } => of.run(),
            _ => RUN,
        }
    }

    /// Checks whether these are floats of at most a byte, and whether the `count` elements from `first` on
    /// are whole units and few enough for one run.
    fn decodes_at(&self, first: u64, count: usize) -> bool {
        let unit = Unit::of(self.dtype()).elements;
        let is_small = self.dtype().is_float() && SmallType::from_dtype(self.dtype()).is_some();
        is_small && count <= RUN && first.is_multiple_of(unit) && (count as u64).is_multiple_of(unit)
    }

    /// Checks whether the last step computes floats.
    const fn is_computed(&self) -> bool {
        matches!(
            self.step,
            Step::Dequantize(_) | Step::Scale { .. } | Step::LowRank { .. } | Step::Lookup { .. }
        )
    }

    /// Checks whether the last step, apart from changes of the shape, takes numbers from bytes.
    fn is_unpacked(&self) -> bool {
        match &self.step {
            Step::Unpack { .. } => true,
            Step::Reshape(of) => of.is_unpacked(),
            _ => false,
        }
    }

    /// Takes numbers of few bits from the bytes of another tensor.
    fn unpack<I: Inputs>(
        &self,
        of: &Self,
        packing: Packing,
        first: u64,
        out: &mut [u8],
        inputs: &mut I,
    ) -> Result<(), ReadError<I::Error>> {
        let (mut at, mut source) = (first, Vec::new());
        for out in out.chunks_mut(self.run()) {
            let end = at.saturating_add(out.len() as u64);
            let (begin, skip) = packing.place(at);
            let (last, rest) = packing.place(end);
            let len = last.saturating_sub(begin).saturating_add(u64::from(rest > 0));
            source.resize(size(len), 0);
            of.elements(begin, &mut source, inputs)?;
            packing.unpack(&source, skip, out);
            at = end;
        }
        Ok(())
    }

    /// Reads runs of the parts in turn.
    fn concatenate<I: Inputs>(
        &self,
        parts: &[Self],
        axis: usize,
        first: u64,
        out: &mut [u8],
        inputs: &mut I,
    ) -> Result<(), ReadError<I::Error>> {
        let size = self.size();
        let inner: u64 = self.shape().iter().skip(axis).skip(1).product();
        let run = |part: &Self| part.shape().get(axis).map_or(0, |len| len.saturating_mul(inner));
        let row = run(self).max(1);
        let (mut at, mut rest) = (first, out);
        while !rest.is_empty() {
            let (number, mut begin) = (at / row, 0u64);
            let within = at % row;
            for part in parts {
                let own = run(part);
                let end = begin.saturating_add(own);
                let from = at.saturating_sub(number.saturating_mul(row)).max(within);
                if (begin..end).contains(&from) && !rest.is_empty() {
                    let left = usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX);
                    let (piece, tail) = rest.split_at_mut(left.saturating_mul(size).min(rest.len()));
                    let place = number.saturating_mul(own).saturating_add(from.saturating_sub(begin));
                    part.elements(place, piece, inputs).map(drop)?;
                    (at, rest) = (at.saturating_add((piece.len() / size) as u64), tail);
                }
                begin = end;
            }
        }
        Ok(())
    }
}

/// Adds the elements of another `f32` tensor to `out`.
fn sum<I: Inputs>(
    of: &Program,
    first: u64,
    out: &mut [u8],
    inputs: &mut I,
) -> Result<(), ReadError<I::Error>> {
    if let Some(product) = Product::of(of) {
        let out = out.as_chunks_mut::<4>().0;
        return product.add(first, out, &mut |of, first, out| of.floats(first, out, inputs));
    }
    let (mut at, mut other) = (first, Vec::new());
    for out in out.chunks_mut(SUMMED * size_of::<f32>()) {
        other.resize(out.len() / size_of::<f32>(), 0.0);
        of.floats(at, &mut other, inputs)?;
        add(out, &other);
        at = at.saturating_add(other.len() as u64);
    }
    Ok(())
}

/// Replaces `f64` numbers in place by their values.
fn apply(affine: &crate::Affine, first: u64, out: &mut [u8]) {
    const AT_ONCE: usize = 1 << 10;
    let mut numbers = [0.0; AT_ONCE];
    let mut at = first;
    for out in out.as_chunks_mut::<8>().0.chunks_mut(AT_ONCE) {
        let numbers = numbers.get_mut(..out.len()).unwrap_or_default();
        numbers.iter_mut().zip(&*out).for_each(|(number, bytes)| *number = f64::from_le_bytes(*bytes));
        affine.apply(at, numbers);
        out.iter_mut().zip(&*numbers).for_each(|(bytes, number)| *bytes = number.to_le_bytes());
        at = at.saturating_add(out.len() as u64);
    }
}

/// Converts a length to `usize`, saturating.
fn size(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
