//! The steps of a program, and the rules by which they fit together.

use std::sync::Arc;

use tensor_core::{DType, TensorInfo, element_count};

use crate::ProgramError::{NotMovable, TooDeep, WrongResult, WrongShape, WrongType};
use crate::packing::Packing;
use crate::scaling::ScaleOp;
use crate::types::{is_castable, is_number};
use crate::{Affine, ProgramError, Scaling};

/// The most steps in a row, so that untrusted programs cannot exhaust the stack.
const MAX_DEPTH: u32 = 64;

/// The largest rank of a low-rank product, so that a row of the tall matrix is short.
const MAX_RANK: u64 = 1 << 16;

/// How a tensor is computed from others: a tree of steps, each with the dtype and the shape of its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub(crate) step: Step,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<u64>,
    depth: u32,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// The input tensor with this number. The dtype and shape alone do not always give the length of its
    /// values.
    Input { number: usize, nbytes: Option<u64> },
    /// Values that are part of the program.
    Constant(Vec<f32>),
    /// The same elements in another shape.
    Reshape(Box<Program>),
    /// Dimension `i` is dimension `axes[i]` of the tensor before.
    Permute { of: Box<Program>, axes: Vec<usize> },
    /// The indices of one dimension from `start` on.
    Slice { of: Box<Program>, axis: usize, start: u64 },
    /// Tensors one after the other along a dimension.
    Concat { parts: Vec<Program>, axis: usize },
    /// A number added to each element.
    Plus { of: Box<Program>, number: f32 },
    /// Each element times a number.
    Times { of: Box<Program>, number: f32 },
    /// The sum of two tensors.
    Sum(Box<Program>, Box<Program>),
    /// The same numbers in another dtype, rounded once.
    Cast(Box<Program>),
    /// The numbers of blocks.
    Dequantize(Box<Program>),
    /// Numbers as blocks, with the importance of each column for each group of rows, if it is known.
    Quantize(Box<Program>, Option<Arc<[f32]>>),
    /// Each element combined with its scale.
    Scale { of: Box<Program>, scales: Box<Program>, scaling: Scaling, op: ScaleOp },
    /// Numbers of a few bits each, consecutive in bytes.
    Unpack { of: Box<Program>, packing: Packing },
    /// Two numbers of 4 bits in each byte, the first in the low bits.
    Pack(Box<Program>),
    /// The same numbers; reading one that is larger than `most` fails.
    AtMost { of: Box<Program>, most: u8 },
    /// The element of a table at each index.
    Lookup { of: Box<Program>, table: Box<Program> },
    /// Scale × (number − zero point) of each element.
    Affine { of: Box<Program>, affine: Arc<Affine> },
    /// The product of a tall matrix and a wide one, times a number.
    LowRank { tall: Box<Program>, wide: Box<Program>, number: f32 },
    /// Values of any dtype that are part of the program.
    Known(Arc<[u8]>),
    /// The same bytes as another dtype and shape.
    Retype(Box<Program>),
}

impl Program {
    /// Returns an input tensor, unchanged. You choose the numbers of the inputs.
    #[must_use]
    pub fn input(number: usize, dtype: DType, shape: &[u64]) -> Self {
        Self {
            step: Step::Input { number, nbytes: dtype.nbytes(shape) },
            dtype,
            shape: shape.to_vec(),
            depth: 1,
        }
    }

    /// Returns an input tensor with the length in bytes that its file states, because rows may be padded to
    /// whole blocks.
    #[must_use]
    pub fn tensor(number: usize, info: &TensorInfo<'_>) -> Self {
        let step = Step::Input { number, nbytes: Some(info.nbytes) };
        Self { step, dtype: info.dtype, shape: info.shape.to_vec(), depth: 1 }
    }

    /// Returns a vector of `f32` that is part of the program.
    #[must_use]
    pub fn constant(values: Vec<f32>) -> Self {
        let shape = vec![values.len() as u64];
        Self { step: Step::Constant(values), dtype: DType::F32, shape, depth: 1 }
    }

    /// Returns the dtype of the result.
    #[must_use]
    pub const fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the shape of the result, outermost dimension first.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the length of the result in bytes, or `None` if that does not fit a `u64`.
    #[must_use]
    pub fn nbytes(&self) -> Option<u64> {
        match &self.step {
            Step::Input { nbytes, .. } => *nbytes,
            _ => self.dtype.nbytes(&self.shape),
        }
    }

    /// Returns the number of the input if the result is the unchanged values of that input, possibly in
    /// another shape.
    #[must_use]
    pub fn copied(&self) -> Option<usize> {
        match &self.step {
            Step::Input { number, .. } => Some(*number),
            Step::Reshape(of) => of.copied(),
            _ => None,
        }
    }

    /// Returns the numbers of the inputs in the order in which the program uses them. An input that is used
    /// twice is listed twice.
    #[must_use]
    pub fn inputs(&self) -> Vec<usize> {
        let (mut found, mut rest) = (Vec::new(), vec![self]);
        while let Some(program) = rest.pop() {
            if let Step::Input { number, .. } = &program.step {
                found.push(*number);
            }
            rest.extend(program.before().into_iter().rev());
        }
        found
    }

    /// Returns the programs whose results the last step takes, in the step's order.
    pub(crate) fn before(&self) -> Vec<&Self> {
        match &self.step {
            Step::Input { .. } | Step::Constant(_) | Step::Known(_) => Vec::new(),
            Step::Reshape(of)
            | Step::Retype(of)
            | Step::Permute { of, .. }
            | Step::Slice { of, .. }
            | Step::Plus { of, .. }
            | Step::Times { of, .. }
            | Step::Cast(of)
            | Step::Dequantize(of)
            | Step::Quantize(of, _)
            | Step::Unpack { of, .. }
            | Step::Pack(of)
            | Step::AtMost { of, .. }
            | Step::Affine { of, .. } => vec![of],
            Step::Concat { parts, .. } => parts.iter().collect(),
            Step::Sum(a, b)
            | Step::Scale { of: a, scales: b, .. }
            | Step::Lookup { of: a, table: b }
            | Step::LowRank { tall: a, wide: b, .. } => vec![a, b],
        }
    }

    /// Returns the same elements in another shape with as many elements.
    ///
    /// # Errors
    /// [`ProgramError::WrongShape`] if the number of elements differs.
    pub fn reshaped(self, shape: &[u64]) -> Result<Self, ProgramError> {
        const STEP: &str = "reshape";
        if self.shape == shape {
            return Ok(self);
        }
        if element_count(shape).is_none() || element_count(shape) != element_count(&self.shape) {
            return Err(self.wrong(STEP, format!("{shape:?} has another number of elements")));
        }
        // Elements narrower than a byte are consecutive too, and a vector or a scalar has no rows.
        let has_no_rows = self.shape.len() <= 1 && shape.len() <= 1;
        if !(has_no_rows || is_number(self.dtype) && self.nbytes().is_some()) {
            self.movable(STEP)?;
        }
        let dtype = self.dtype;
        Self::of(Step::Reshape(Box::new(self)), dtype, shape.to_vec())
    }

    /// Reorders the dimensions: dimension `i` of the result is dimension `axes[i]`.
    ///
    /// # Errors
    /// [`ProgramError::WrongShape`] if `axes` does not name each dimension once; [`ProgramError::NotMovable`] for blocks.
    pub fn permuted(self, axes: &[usize]) -> Result<Self, ProgramError> {
        const STEP: &str = "permute";
        let mut sorted = axes.to_vec();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..self.shape.len()) {
            return Err(self.wrong(STEP, format!("{axes:?} does not name each dimension once")));
        }
        if axes.is_sorted() {
            return Ok(self);
        }
        self.movable(STEP)?;
        let shape = axes.iter().filter_map(|&axis| self.shape.get(axis).copied()).collect();
        let dtype = self.dtype;
        Self::of(Step::Permute { of: Box::new(self), axes: axes.to_vec() }, dtype, shape)
    }

    /// Transposes a matrix.
    ///
    /// # Errors
    /// [`ProgramError::WrongShape`] if this is not a matrix; [`ProgramError::NotMovable`] for blocks.
    pub fn transposed(self) -> Result<Self, ProgramError> {
        match self.shape.len() {
            2 => self.permuted(&[1, 0]),
            rank => Err(self.wrong("transpose", format!("it has {rank} dimensions, not 2"))),
        }
    }

    /// Takes `len` indices along one dimension, from `start` on.
    ///
    /// # Errors
    /// [`ProgramError::WrongShape`] if the dimension has fewer indices; [`ProgramError::NotMovable`] for
    /// blocks.
    pub fn sliced(self, axis: usize, start: u64, len: u64) -> Result<Self, ProgramError> {
        const STEP: &str = "slice";
        let Some(&there) = self.shape.get(axis) else {
            return Err(self.wrong(STEP, format!("it has no dimension {axis}")));
        };
        if start.checked_add(len).is_none_or(|end| end > there) {
            return Err(self.wrong(STEP, format!("dimension {axis} has no {len} indices from {start} on")));
        }
        if len == there {
            return Ok(self);
        }
        self.movable(STEP)?;
        let mut shape = self.shape.clone();
        shape.get_mut(axis).into_iter().for_each(|dim| *dim = len);
        let dtype = self.dtype;
        Self::of(Step::Slice { of: Box::new(self), axis, start }, dtype, shape)
    }

    /// Joins tensors along a dimension. They have the same dtype, and the same shape except for that
    /// dimension.
    ///
    /// # Errors
    /// [`ProgramError::WrongShape`] or [`ProgramError::WrongType`] if they do not fit together; [`ProgramError::NotMovable`] for
    /// blocks.
    pub fn concatenated(parts: Vec<Self>, axis: usize) -> Result<Self, ProgramError> {
        const STEP: &str = "concatenate";
        let Some(first) = parts.first() else {
            return Err(WrongShape { step: STEP, shape: Vec::new(), why: "there is no tensor".to_owned() });
        };
        if parts.len() == 1 {
            return parts.into_iter().next().ok_or(TooDeep(MAX_DEPTH));
        }
        let (dtype, mut shape) = (first.dtype, first.shape.clone());
        first.movable(STEP)?;
        let mut len = 0u64;
        for part in &parts {
            if part.dtype != dtype {
                return Err(WrongType { step: STEP, takes: "tensors of one dtype", dtype: part.dtype });
            }
            let others = |shape: &[u64]| -> Vec<u64> {
                shape.iter().enumerate().filter(|(at, _)| *at != axis).map(|(_, dim)| *dim).collect()
            };
            let Some(own) = part.shape.get(axis).filter(|_| others(&part.shape) == others(&shape)) else {
                return Err(part.wrong(STEP, format!("the first tensor has the shape {shape:?}")));
            };
            len = len.checked_add(*own).ok_or_else(|| part.wrong(STEP, "it becomes too large".to_owned()))?;
        }
        shape.get_mut(axis).into_iter().for_each(|dim| *dim = len);
        if dtype.nbytes(&shape).is_none() {
            return Err(WrongShape { step: STEP, shape, why: "it becomes too large".to_owned() });
        }
        Self::of(Step::Concat { parts, axis }, dtype, shape)
    }

    /// Stacks tensors of the same shape along a new first dimension.
    ///
    /// # Errors
    /// The errors of [`concatenated`](Self::concatenated).
    pub fn stacked(parts: Vec<Self>) -> Result<Self, ProgramError> {
        let with_one = |part: Self| {
            let shape: Vec<u64> = std::iter::once(1).chain(part.shape.iter().copied()).collect();
            part.reshaped(&shape)
        };
        Self::concatenated(parts.into_iter().map(with_one).collect::<Result<_, _>>()?, 0)
    }

    /// Adds a number to each element, in `f32`.
    ///
    /// # Errors
    /// [`ProgramError::WrongType`] if the dtype is not `f32`.
    pub fn plus(self, number: f32) -> Result<Self, ProgramError> {
        self.computes("add")?;
        let shape = self.shape.clone();
        Self::of(Step::Plus { of: Box::new(self), number }, DType::F32, shape)
    }

    /// Multiplies each element by a number, in `f32`.
    ///
    /// # Errors
    /// [`ProgramError::WrongType`] if the dtype is not `f32`.
    pub fn times(self, number: f32) -> Result<Self, ProgramError> {
        self.computes("multiply")?;
        let shape = self.shape.clone();
        Self::of(Step::Times { of: Box::new(self), number }, DType::F32, shape)
    }

    /// Adds two tensors of the same shape, in `f32`.
    ///
    /// # Errors
    /// [`ProgramError::WrongType`] if a dtype is not `f32`, [`ProgramError::WrongShape`] if the shapes differ.
    pub fn sum(self, other: Self) -> Result<Self, ProgramError> {
        self.computes("add")?;
        other.computes("add")?;
        if self.shape != other.shape {
            return Err(self.wrong("add", format!("the other tensor has the shape {:?}", other.shape)));
        }
        let shape = self.shape.clone();
        Self::of(Step::Sum(Box::new(self), Box::new(other)), DType::F32, shape)
    }

    /// Converts the numbers to another dtype. Each number is rounded once: to the nearest, ties to even, if
    /// the dtype is a float, and toward zero if it is an integer. A number beyond the range becomes infinite
    /// or the end of the range. A NaN stays a NaN; if the dtype has no NaN, reading it fails.
    ///
    /// # Errors
    /// [`ProgramError::WrongType`] and [`ProgramError::WrongResult`] for dtypes whose elements are not
    /// numbers.
    pub fn cast(self, to: DType) -> Result<Self, ProgramError> {
        const STEP: &str = "cast";
        if self.dtype == to {
            return Ok(self);
        }
        if !is_number(self.dtype) {
            return Err(WrongType { step: STEP, takes: "numbers", dtype: self.dtype });
        }
        if !is_castable(to) {
            return Err(WrongResult { step: STEP, makes: "numbers", dtype: to });
        }
        let shape = self.shape_as(STEP, to)?;
        Self::of(Step::Cast(Box::new(self)), to, shape)
    }

    /// Decodes blocks to `f32`.
    ///
    /// # Errors
    /// [`ProgramError::WrongType`] for a dtype that is not quantized or has no decoder.
    pub fn dequantized(self) -> Result<Self, ProgramError> {
        const STEP: &str = "dequantize";
        if !self.dtype.is_quantized() || !ggml_quant::can_decode(self.dtype) {
            return Err(WrongType { step: STEP, takes: "blocks", dtype: self.dtype });
        }
        let shape = self.shape_as(STEP, DType::F32)?;
        Self::of(Step::Dequantize(Box::new(self)), DType::F32, shape)
    }

    /// Encodes numbers as blocks. They are rounded to `f32` first, because the encoders take `f32`. If a
    /// number is not finite, reading fails.
    ///
    /// # Errors
    /// [`ProgramError::WrongType`] if the elements are not numbers, [`ProgramError::WrongResult`] if the
    /// dtype has no encoder, [`ProgramError::WrongShape`] if rows are not whole blocks.
    pub fn quantized(self, to: DType) -> Result<Self, ProgramError> {
        const STEP: &str = "quantize";
        if !is_number(self.dtype) {
            return Err(WrongType { step: STEP, takes: "numbers", dtype: self.dtype });
        }
        if to.block().is_none() || !ggml_quant::can_encode(to) {
            return Err(WrongResult { step: STEP, makes: "blocks", dtype: to });
        }
        let shape = self.shape_as(STEP, to)?;
        Self::of(Step::Quantize(Box::new(self), None), to, shape)
    }

    /// Encodes numbers as blocks, as [`quantized`](Self::quantized) does, weighted by the importance of each
    /// column. `importance` has one number for each column, repeated for each group of rows. All groups, such
    /// as experts, have the same number of rows.
    ///
    /// # Errors
    /// The errors of [`quantized`](Self::quantized), and [`ProgramError::WrongShape`] if the importance does
    /// not fit the rows and groups or the dtype has no weighted encoder.
    pub fn quantized_by(self, to: DType, importance: Arc<[f32]>) -> Result<Self, ProgramError> {
        let Self { shape, .. } = &self;
        let columns = shape.last().copied().unwrap_or_default();
        let rows =
            shape.iter().rev().skip(1).try_fold(1u64, |rows, dim| rows.checked_mul(*dim)).unwrap_or_default();
        let groups = (importance.len() as u64).checked_div(columns).filter(|groups| {
            groups.checked_mul(columns) == Some(importance.len() as u64)
                && *groups > 0
                && rows.is_multiple_of(*groups)
        });
        if groups.is_none() || !ggml_quant::can_encode_weighted(to) {
            let why = format!("there are {} numbers of importance", importance.len());
            return Err(WrongShape { step: "quantize", shape: shape.clone(), why });
        }
        let mut program = self.quantized(to)?;
        if let Step::Quantize(_, by) = &mut program.step {
            *by = Some(importance);
        }
        Ok(program)
    }

    /// Multiplies each element by its scale, in `f32`. `scaling` says which scale that is, for tensors of
    /// these two shapes.
    ///
    /// # Errors
    /// [`ProgramError::WrongType`] if a dtype is not `f32`, [`ProgramError::WrongShape`] if `scaling` is for tensors of other shapes.
    pub fn scaled(self, scales: Self, scaling: Scaling) -> Result<Self, ProgramError> {
        self.combined("scale", scales, scaling, ScaleOp::Times)
    }

    /// Subtracts from each element its offset, in `f32`. `scaling` says which offset that is, for tensors of
    /// these two shapes.
    ///
    /// # Errors
    /// [`ProgramError::WrongType`] if a dtype is not `f32`, [`ProgramError::WrongShape`] if `scaling` is for tensors of other shapes.
    pub fn minus(self, offsets: Self, scaling: Scaling) -> Result<Self, ProgramError> {
        self.combined("subtract", offsets, scaling, ScaleOp::Minus)
    }

    /// Divides each element by its divisor, in `f32`. `scaling` says which divisor that is, for tensors of
    /// these two shapes.
    ///
    /// # Errors
    /// [`ProgramError::WrongType`] if a dtype is not `f32`, [`ProgramError::WrongShape`] if `scaling` is for tensors of other shapes.
    pub fn divided(self, divisors: Self, scaling: Scaling) -> Result<Self, ProgramError> {
        self.combined("divide", divisors, scaling, ScaleOp::Over)
    }

    fn combined(
        self,
        step: &'static str,
        scales: Self,
        scaling: Scaling,
        op: ScaleOp,
    ) -> Result<Self, ProgramError> {
        self.computes(step)?;
        scales.computes(step)?;
        if !scaling.fits(&self.shape, &scales.shape) {
            return Err(self.wrong(step, format!("scales of the shape {:?} are for another", scales.shape)));
        }
        let shape = self.shape.clone();
        Self::of(Step::Scale { of: Box::new(self), scales: Box::new(scales), scaling, op }, DType::F32, shape)
    }

    /// Computes scale × (number − zero point) for each element, in `f64`.
    ///
    /// # Errors
    /// [`ProgramError::WrongType`] if the dtype is not `f64`.
    pub fn affine(self, affine: Arc<Affine>) -> Result<Self, ProgramError> {
        if self.dtype != DType::F64 {
            return Err(WrongType { step: "apply scales", takes: "f64", dtype: self.dtype });
        }
        let shape = self.shape.clone();
        Self::of(Step::Affine { of: Box::new(self), affine }, DType::F64, shape)
    }

    /// Multiplies this matrix by `wide` and by a number, which is what a low-rank adapter adds to a weight.
    /// Both matrices are `f32`, of shapes `[rows, rank]` and `[rank, columns]`. An element is the sum of its
    /// products in `f32`, each rounded and added in the order of the rank, times the number.
    ///
    /// # Errors
    /// [`ProgramError::WrongType`] if a dtype is not `f32`, [`ProgramError::WrongShape`] if the shapes do not fit.
    pub fn low_rank(self, wide: Self, number: f32) -> Result<Self, ProgramError> {
        const STEP: &str = "multiply low-rank";
        self.computes(STEP)?;
        wide.computes(STEP)?;
        let shape = match (&self.shape[..], &wide.shape[..]) {
            (&[rows, rank], &[same, columns]) if rank == same => vec![rows, columns],
            _ => return Err(self.wrong(STEP, format!("the other matrix has the shape {:?}", wide.shape))),
        };
        if wide.shape.first().is_some_and(|&rank| rank > MAX_RANK) {
            return Err(self.wrong(STEP, format!("the rank is more than {MAX_RANK}")));
        }
        if DType::F64.nbytes(&shape).is_none() || self.nbytes().is_none() || wide.nbytes().is_none() {
            return Err(self.wrong(STEP, "it is too large".to_owned()));
        }
        Self::of(Step::LowRank { tall: Box::new(self), wide: Box::new(wide), number }, DType::F32, shape)
    }

    /// Replaces inputs of the program: `of` returns the program that replaces an input, or `None` to keep the
    /// input.
    ///
    /// # Errors
    /// [`ProgramError::WrongShape`] if a replacement has a different dtype or shape;
    /// [`ProgramError::TooDeep`].
    pub fn over(&self, of: &impl Fn(usize) -> Option<Self>) -> Result<Self, ProgramError> {
        let boxed = |program: &Self| program.over(of).map(Box::new);
        let step = match &self.step {
            Step::Input { number, .. } => {
                let Some(other) = of(*number) else { return Ok(self.clone()) };
                if (other.dtype, &other.shape) != (self.dtype, &self.shape) {
                    return Err(self.wrong("input", format!("it is now {} {:?}", other.dtype, other.shape)));
                }
                return Ok(other);
            }
            Step::Constant(_) | Step::Known(_) => return Ok(self.clone()),
            Step::Retype(before) => Step::Retype(boxed(before)?),
            Step::Reshape(before) => Step::Reshape(boxed(before)?),
            Step::Permute { of: before, axes } => Step::Permute { of: boxed(before)?, axes: axes.clone() },
            Step::Slice { of: before, axis, start } => {
                Step::Slice { of: boxed(before)?, axis: *axis, start: *start }
            }
            Step::Concat { parts, axis } => {
                let parts = parts.iter().map(|part| part.over(of)).collect::<Result<_, _>>()?;
                Step::Concat { parts, axis: *axis }
            }
            Step::Plus { of: before, number } => Step::Plus { of: boxed(before)?, number: *number },
            Step::Times { of: before, number } => Step::Times { of: boxed(before)?, number: *number },
            Step::Sum(a, b) => Step::Sum(boxed(a)?, boxed(b)?),
            Step::Cast(before) => Step::Cast(boxed(before)?),
            Step::Dequantize(before) => Step::Dequantize(boxed(before)?),
            Step::Quantize(before, importance) => Step::Quantize(boxed(before)?, importance.clone()),
            Step::Scale { of: before, scales, scaling, op } => {
                Step::Scale { of: boxed(before)?, scales: boxed(scales)?, scaling: scaling.clone(), op: *op }
            }
            Step::Unpack { of: before, packing } => Step::Unpack { of: boxed(before)?, packing: *packing },
            Step::Pack(before) => Step::Pack(boxed(before)?),
            Step::AtMost { of: before, most } => Step::AtMost { of: boxed(before)?, most: *most },
            Step::Lookup { of: before, table } => Step::Lookup { of: boxed(before)?, table: boxed(table)? },
            Step::Affine { of: before, affine } => {
                Step::Affine { of: boxed(before)?, affine: Arc::clone(affine) }
            }
            Step::LowRank { tall, wide, number } => {
                Step::LowRank { tall: boxed(tall)?, wide: boxed(wide)?, number: *number }
            }
        };
        Self::of(step, self.dtype, self.shape.clone())
    }

    pub(crate) fn of(step: Step, dtype: DType, shape: Vec<u64>) -> Result<Self, ProgramError> {
        let made = Self { step, dtype, shape, depth: 0 };
        let deepest = made.before().iter().map(|program| program.depth).max().unwrap_or(0);
        if deepest >= MAX_DEPTH {
            return Err(TooDeep(MAX_DEPTH));
        }
        Ok(Self { depth: deepest.saturating_add(1), ..made })
    }

    /// Returns the shape, unless a tensor of this shape and dtype is too large or has a part of a block.
    fn shape_as(&self, step: &'static str, dtype: DType) -> Result<Vec<u64>, ProgramError> {
        match (dtype.nbytes(&self.shape), dtype.size()) {
            (Some(_), _) => Ok(self.shape.clone()),
            (None, Some(_)) => Err(self.wrong(step, format!("it is too large as {dtype}"))),
            (None, None) => Err(self.wrong(step, format!("it is no whole blocks of {dtype}"))),
        }
    }

    pub(crate) fn wrong(&self, step: &'static str, why: String) -> ProgramError {
        WrongShape { step, shape: self.shape.clone(), why }
    }

    fn movable(&self, step: &'static str) -> Result<(), ProgramError> {
        match self.dtype.size() {
            Some(1..) if self.nbytes().is_none() => Err(self.wrong(step, "it is too large".to_owned())),
            Some(1..) => Ok(()),
            _ => Err(NotMovable { step, dtype: self.dtype }),
        }
    }

    pub(crate) fn computes(&self, step: &'static str) -> Result<(), ProgramError> {
        match self.dtype {
            DType::F32 => Ok(()),
            dtype => Err(WrongType { step, takes: "f32", dtype }),
        }
    }
}
