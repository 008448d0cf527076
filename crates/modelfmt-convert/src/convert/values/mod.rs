//! Supplies the values of the tensors that are written: those of the source, unchanged or in another dtype, in pieces.

pub(super) mod cast;
pub(super) mod clipped;

use std::collections::BTreeSet;
use std::ops::Range;

use ggml_quant::QuantError;
use modelfmt_core::{DType, Execution, SmallType, TensorInfo};
use modelfmt_write::{BoxError, TensorData};

use cast::{NotANumber, cast};
use clipped::{Clipped, Counts, Lost};
use modelfmt_model::checked::Checked;
use modelfmt_model::error::{Error, Result};
use modelfmt_model::job::affine::Affine;
use modelfmt_model::job::scaling::Scaling;
use modelfmt_model::job::tensors::{Item, Origin, ScaledBy, Tensors};
use modelfmt_model::model::Model;
use modelfmt_model::quantized::{self, Failed};

/// Values of a model, converted while they are read. Memory does not depend on the size of the tensors.
pub(crate) struct Values<'a> {
    source: Checked<'a>,
    items: &'a [Item],
    scalings: &'a [ScaledBy],
    /// The counts of lost values, with the numbers of the items that are not copied.
    counts: Vec<(usize, Counts)>,
}

impl<'a> Values<'a> {
    /// Prepares to read all tensors. With `verify`, values are checked while they are read.
    pub(crate) fn new(model: &'a Model, tensors: &'a Tensors, verify: bool) -> Result<Self> {
        Self::of(model, tensors, &(0..tensors.items.len()), verify)
    }

    /// Like [`new`](Self::new), if only the tensors in `numbers` are read.
    pub(crate) fn of(
        model: &'a Model,
        tensors: &'a Tensors,
        numbers: &Range<usize>,
        verify: bool,
    ) -> Result<Self> {
        let Tensors { items, scalings, .. } = tensors;
        let read = items.get(numbers.clone()).unwrap_or_default();
        let position = |item: &Item| match item.origin {
            Origin::Model(position) => Some(position),
            _ => None,
        };
        let positions = read.iter().filter_map(position);
        let has_data = |&position: &usize| model.container().info(position).is_some_and(|info| info.has_data);
        let mut positions: Vec<usize> = positions.filter(has_data).collect();
        let used = read.iter().filter_map(|item| scalings.get(item.scaling?));
        let scale_tensors = used.filter_map(|scales| match scales {
            ScaledBy::Tensor(scaling) => Some(scaling.position),
            ScaledBy::Quant(_) => None,
        });
        positions.extend(scale_tensors.collect::<BTreeSet<_>>());
        let source = Checked::new(model, &positions, verify)?;
        let converted = items.iter().enumerate().filter(|(_, item)| !item.is_copied());
        let counts = converted.map(|(number, _)| (number, Counts::default())).collect();
        Ok(Self { source, items, scalings, counts })
    }

    /// Notes that say what is not checked, and why.
    pub(crate) fn notes(&self) -> &[String] {
        self.source.notes()
    }

    /// Checks that the values match the digests in their file. Output may appear only after that.
    pub(crate) fn finish(&self, work: &Execution<'_>) -> Result<()> {
        self.source.finish(work)
    }

    /// Like [`finish`](Self::finish), for a writer that does not know this crate's errors. [`failure`](Self::failure) returns the
    /// error.
    pub(super) fn finish_and_keep(&self, work: &Execution<'_>) -> Result<(), BoxError> {
        self.source.finish(work).map_err(|error| self.source.keep((usize::MAX, 0), error))
    }

    /// The error that stopped a writer, if values could not be read.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.source.failure()
    }

    /// The items that lost values, with the names that `name` returns for their numbers.
    pub(crate) fn clipped<'n>(&self, name: impl Fn(usize) -> &'n str) -> Vec<Clipped> {
        let clipped = self.counts.iter().filter_map(|(number, counts)| {
            let item = self.items.get(*number)?;
            counts.of(name(*number), item.to)
        });
        clipped.collect()
    }

    fn count(&self, number: usize, values: u64, lost: Lost) {
        if let Ok(place) = self.counts.binary_search_by_key(&number, |(number, _)| *number)
            && let Some((_, counts)) = self.counts.get(place)
        {
            counts.add(values, lost);
        }
    }

    fn item(&self, number: usize) -> Option<(Item, usize)> {
        let item = *self.items.get(number)?;
        match item.origin {
            Origin::Model(position) => Some((item, position)),
            _ => None,
        }
    }

    /// Fills `out` with values as they are in their file.
    fn fill(&self, position: usize, offset: u64, out: &mut [u8]) -> Result<(), BoxError> {
        Ok(self.source.read_into(position, offset, out)?)
    }

    fn converted(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<(), BoxError> {
        let (item, position) = self.item(number).ok_or(NO_VALUES)?;
        let Item { from, to, scaling, .. } = item;
        let scales = scaling.and_then(|number| self.scalings.get(number));
        if item.is_copied() {
            return self.fill(position, offset, out);
        }
        // Elements that are not in proportion to their bytes are decoded first, and then converted from f32.
        let info = self.source.info(position).ok_or(NO_VALUES)?;
        let is_decoded = from.is_quantized() && !quantized::is_even(&info);
        let from = if is_decoded { DType::F32 } else { from };
        let unit = Unit::of(from, to).ok_or(NO_VALUES)?;
        let mut scratch = Scratch::default();
        let (mut group, mut skip) = (offset / unit.target, size(offset % unit.target)?);
        let mut rest = out;
        while !rest.is_empty() {
            let wanted = (skip as u64 + rest.len() as u64).div_ceil(unit.target);
            let groups = wanted.min((RUN / unit.elements).max(1));
            let (source_len, len) = (size(groups * unit.source)?, size(groups * unit.target)?);
            // The last packed integers may not fill a group; the rest of the group is zeros.
            let first = group * unit.elements;
            scratch.source.clear();
            scratch.source.resize(source_len, 0);
            if is_decoded {
                self.decode(&info, position, first, &mut scratch)?;
            } else {
                let begin = group * unit.source;
                let there = size(info.nbytes.saturating_sub(begin))?.min(source_len);
                let out = scratch.source.get_mut(..there).unwrap_or_default();
                self.fill(position, begin, out)?;
            }
            let from = match scales {
                Some(ScaledBy::Tensor(scaling)) => {
                    self.multiply(scaling, from, first, &mut scratch)?;
                    DType::F32
                }
                Some(ScaledBy::Quant(affine)) => {
                    let there = size(info.elements().saturating_sub(first))?;
                    scratch.dequantize(affine, from, first, there).map_err(|fault| fault.at(first, to))?;
                    DType::F64
                }
                None => from,
            };
            let take = (len - skip).min(rest.len());
            let (head, tail) = rest.split_at_mut(take);
            let lost = if take == len {
                scratch.convert(from, to, head)
            } else {
                let mut whole = vec![0; len];
                let lost = scratch.convert(from, to, &mut whole);
                head.copy_from_slice(whole.get(skip..skip + take).unwrap_or_default());
                lost
            };
            let values = info.elements().saturating_sub(first).min(groups * unit.elements);
            self.count(number, values, lost.map_err(|fault| fault.at(first, to))?);
            (rest, skip, group) = (tail, 0, group + groups);
        }
        Ok(())
    }
}

impl Values<'_> {
    /// Replaces the elements in `scratch`, which begin at the element `first`, by f32 values multiplied by their scales.
    fn multiply(
        &self,
        scaling: &Scaling,
        from: DType,
        first: u64,
        scratch: &mut Scratch,
    ) -> Result<(), BoxError> {
        let Scratch { source, floats, .. } = scratch;
        floats.clear();
        floats.resize(elements_in(from, source.len()), 0.0);
        if let Some(small) = SmallType::from_dtype(from) {
            small.decode(source, floats);
        }
        scaling.apply(first, floats, |begin, count| self.scales(scaling, begin, count))?;
        source.clear();
        source.extend(floats.iter().flat_map(|x| x.to_le_bytes()));
        Ok(())
    }

    fn scales(&self, scaling: &Scaling, begin: u64, count: u64) -> Result<Vec<f32>, BoxError> {
        let dtype = scaling.dtype;
        let width = u64::from(dtype.size().ok_or(NO_VALUES)?);
        let mut stored = vec![0; size(count * width)?];
        self.fill(scaling.position, begin * width, &mut stored)?;
        let mut floats = vec![0; size(count * 4)?];
        if dtype == DType::F32 {
            floats = stored;
        } else {
            cast(dtype, DType::F32, &stored, &mut floats).map_err(|_| NO_VALUES)?;
        }
        Ok(floats.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }

    /// Fills the source bytes with decoded elements from `first` on, and with zeros beyond the last element.
    fn decode(
        &self,
        info: &TensorInfo<'_>,
        position: usize,
        first: u64,
        scratch: &mut Scratch,
    ) -> Result<(), BoxError> {
        let there = size(info.elements().saturating_sub(first))?.min(scratch.source.len() / 4);
        scratch.floats.clear();
        scratch.floats.resize(there, 0.0);
        let read = |at: u64, bytes: &mut [u8]| self.source.read_into(position, at, bytes);
        quantized::decode(info, first, &mut scratch.floats, read).map_err(|failed| match failed {
            Failed::Read(error) => BoxError::from(error),
            Failed::Decode(error) => error.into(),
        })?;
        let pairs = scratch.source.chunks_exact_mut(4).zip(&scratch.floats);
        pairs.for_each(|(out, value)| out.copy_from_slice(&value.to_le_bytes()));
        Ok(())
    }
}

impl TensorData for Values<'_> {
    fn read(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), BoxError> {
        // The error is kept for the caller of the writer, who adds the path of the file.
        self.converted(tensor, offset, out).map_err(|error| match error.downcast::<Error>() {
            Ok(error) => self.source.keep((tensor, offset), *error),
            Err(other) => other,
        })
    }

    fn borrow(&self, tensor: usize, range: Range<u64>) -> Option<&[u8]> {
        let (item, position) = self.item(tensor)?;
        if item.is_copied() { self.source.borrow(position, range) } else { None }
    }
}

/// The number of elements that are converted at once.
const RUN: u64 = 1 << 16;

/// The smallest number of elements that are whole blocks of both dtypes, and their lengths in bytes.
struct Unit {
    elements: u64,
    source: u64,
    target: u64,
}

impl Unit {
    fn of(from: DType, to: DType) -> Option<Self> {
        let (a, b) = (from.block()?, to.block()?);
        // The number of elements in a block is a power of two, so the larger one is a multiple of the smaller.
        let elements = u64::from(a.elements.max(b.elements));
        let nbytes =
            |block: modelfmt_core::Block| elements / u64::from(block.elements) * u64::from(block.nbytes);
        Some(Self { elements, source: nbytes(a), target: nbytes(b) })
    }
}

#[derive(Default)]
struct Scratch {
    source: Vec<u8>,
    middle: Vec<u8>,
    floats: Vec<f32>,
}

impl Scratch {
    /// Replaces the elements in `source`, which begin at the element `first`, by f64 values, with their scales and zero points
    /// applied. The tensor ends after `there` elements; the zeros behind them stay zeros.
    fn dequantize(&mut self, affine: &Affine, from: DType, first: u64, there: usize) -> Result<(), Fault> {
        let Self { source, middle, .. } = self;
        middle.clear();
        middle.resize(elements_in(from, source.len()) * 8, 0);
        if from == DType::F64 {
            middle.copy_from_slice(source);
        } else {
            cast(from, DType::F64, source, middle)?;
        }
        let words = middle.as_chunks::<8>().0.iter();
        let mut numbers: Vec<f64> = words.map(|word| f64::from_le_bytes(*word)).collect();
        let there = there.min(numbers.len());
        affine.apply(first, numbers.get_mut(..there).unwrap_or_default());
        source.clear();
        source.extend(numbers.iter().flat_map(|x| x.to_le_bytes()));
        Ok(())
    }

    /// Converts the whole blocks in `source`. Returns how many values were lost, except for blocks, which keep no value exactly.
    fn convert(&mut self, from: DType, to: DType, out: &mut [u8]) -> Result<Lost, Fault> {
        let Self { source, middle, floats } = self;
        let from = if from.is_quantized() {
            floats.resize(elements_in(from, source.len()), 0.0);
            ggml_quant::decode(from, source, floats)?;
            source.clear();
            source.extend(floats.iter().flat_map(|x| x.to_le_bytes()));
            DType::F32
        } else {
            from
        };
        if !to.is_quantized() {
            return if from == to {
                out.copy_from_slice(source);
                Ok(Lost::default())
            } else {
                Ok(cast(from, to, source, out)?)
            };
        }
        let values = if from == DType::F32 {
            &*source
        } else {
            middle.resize(elements_in(from, source.len()) * 4, 0);
            cast(from, DType::F32, source, middle)?;
            &*middle
        };
        floats.clear();
        floats.extend(values.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
        ggml_quant::encode(to, floats, out)?;
        Ok(Lost::default())
    }
}

/// The number of elements in this many bytes of whole blocks.
fn elements_in(dtype: DType, nbytes: usize) -> usize {
    let count = |n: u32| usize::try_from(n).unwrap_or(1).max(1);
    dtype.block().map_or(0, |block| nbytes / count(block.nbytes) * count(block.elements))
}

/// Why a run of elements could not be converted. Elements are counted from the first one of the run.
#[derive(Debug)]
enum Fault {
    NotANumber(NotANumber),
    Quant(QuantError),
}

impl From<NotANumber> for Fault {
    fn from(fault: NotANumber) -> Self {
        Self::NotANumber(fault)
    }
}

impl From<QuantError> for Fault {
    fn from(fault: QuantError) -> Self {
        Self::Quant(fault)
    }
}

impl Fault {
    /// The error for the tensor: the run begins at the element `first` and is converted to this dtype.
    fn at(self, first: u64, dtype: DType) -> BoxError {
        let absolute = |element: usize| first.saturating_add(element as u64);
        match self {
            Self::NotANumber(NotANumber(element)) => {
                format!("element {} is a NaN, and {dtype} has none", absolute(element)).into()
            }
            Self::Quant(QuantError::NotFinite { element }) => {
                let why = format!("is a NaN or beyond the range of f32, and blocks of {dtype} cannot say so");
                format!("element {} {why}", absolute(element)).into()
            }
            Self::Quant(QuantError::ScaleOverflow { element }) => {
                let why = format!("needs a scale or minimum beyond 65504, the largest that {dtype} has");
                format!("the block at element {} {why}", absolute(element)).into()
            }
            Self::Quant(other) => other.into(),
        }
    }
}

const NO_VALUES: &str = "the tensor has no values";

fn size(n: u64) -> Result<usize, &'static str> {
    // Runs are short, so every length fits into `usize`.
    usize::try_from(n).map_err(|_| NO_VALUES)
}
