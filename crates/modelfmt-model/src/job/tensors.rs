//! The tensors that are selected for writing.

use std::collections::BTreeMap;
use std::sync::Arc;

use modelfmt_core::{Container, DType};
use modelfmt_write::TensorSpec;
use tensor_program::{Affine, Program, ProgramError, Scaling};

use crate::quant::Quant;
use modelfmt_rules::options::Declared;
use modelfmt_rules::options::renamed::Renamed;

/// Where a tensor comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The tensor of the model at this position.
    Model(usize),
    /// The declared tensor with this number, which has no values.
    Declared(usize),
    /// The tensor in memory with this number, in the same list as the declared tensors.
    #[cfg(not(target_arch = "wasm32"))]
    Given(usize),
}

/// A tensor that is written, and what happens to it. [`OutputTensors::program`] makes a program of it only
/// when it is needed, because an index may have millions of tensors.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Where the tensor comes from.
    pub origin: Origin,
    /// The dtype in the source.
    pub from: DType,
    /// The dtype in the output.
    pub to: DType,
    /// How the shape changes.
    pub shape: Shape,
    /// The index in [`OutputTensors::scalings`] of the scales that turn its numbers into values.
    pub scaling: Option<usize>,
}

impl Item {
    /// Checks whether the values are copied unchanged.
    pub fn is_copied(&self) -> bool {
        self.from == self.to && self.scaling.is_none()
    }
}

/// The scales of a tensor that is dequantized.
#[derive(Clone, Debug, PartialEq)]
pub enum ScaledBy {
    /// Scales in another tensor.
    Tensor(ScaleTensor),
    /// Scales and zero points that the file has for this tensor.
    Quant(Arc<Affine>),
}

/// A tensor that has the scales of another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScaleTensor {
    /// Its position in the model.
    pub position: usize,
    /// Which elements each scale is for.
    pub scaling: Scaling,
}

/// How the shape of a tensor changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The shape stays the same.
    Same,
    /// A scalar that is written as `[1]`.
    One,
    /// A `[1]` that was a scalar originally, and becomes one again.
    Scalar,
}

/// The tensors that are written, and those that only the target's metadata lists because the format cannot declare them.
#[derive(Default)]
pub struct OutputTensors {
    /// The tensors with values, in the order in which they are written.
    pub items: Vec<Item>,
    /// The tensors of the model that are written under another name.
    pub renamed: Renamed,
    /// The tensors that [`Origin::Declared`] and `Origin::Given` refer to.
    pub declared: Vec<Declared>,
    /// Tensors without values that the reserved key lists, each with its position among all tensors.
    pub listed: Vec<(u64, Declared)>,
    /// Names of scalars that are written as `[1]`.
    pub scalars: Vec<String>,
    /// The scales that [`Item::scaling`] refers to.
    pub scalings: Vec<ScaledBy>,
    /// The importance of each column of the tensors that become blocks, by the position of the tensor in the
    /// model.
    pub importance: BTreeMap<usize, Arc<[f32]>>,
    /// Scales and zero points that are not applied to the values, by the names of their tensors.
    pub quants: Vec<(String, Quant)>,
    /// If the target sorts tensors: the position in the target of each tensor, in the order here. Empty if they are sorted already.
    pub order: Vec<u64>,
    /// The number of elements that are written as blocks, by block dtype.
    pub blocks: BTreeMap<DType, u64>,
}

impl OutputTensors {
    /// Returns the description of an item that the writer of the target needs.
    pub fn spec<'s>(
        &'s self,
        source: Option<&'s (impl Container + ?Sized)>,
        item: &Item,
    ) -> Option<TensorSpec<'s>> {
        let (name, shape, has_data, nbytes) = match item.origin {
            Origin::Model(position) => {
                let info = source?.info(position)?;
                (self.renamed.name(position).unwrap_or(info.name), info.shape, info.has_data, info.nbytes)
            }
            Origin::Declared(number) => {
                let Declared { name, shape, .. } = self.declared.get(number)?;
                (name.as_str(), shape.as_slice(), false, 0)
            }
            #[cfg(not(target_arch = "wasm32"))]
            Origin::Given(number) => {
                let Declared { name, dtype, shape } = self.declared.get(number)?;
                (name.as_str(), shape.as_slice(), true, dtype.nbytes(shape).unwrap_or_default())
            }
        };
        let shape: &[u64] = match item.shape {
            Shape::Same => shape,
            Shape::One => &[1],
            Shape::Scalar => &[],
        };
        let mut spec = TensorSpec::new(name, item.to, shape);
        spec.has_data = has_data;
        // Dtype and shape do not show the length of rows that are padded to whole blocks.
        let is_own = item.to == DType::Packed || (item.from == item.to && item.to.nbytes(shape).is_none());
        spec.packed_nbytes = if is_own { nbytes } else { 0 };
        Some(spec)
    }

    /// Returns the program that computes the values of an item. The inputs are positions in `source`. `None`
    /// for a tensor that is not in the model.
    ///
    /// # Errors
    /// If a step does not fit the tensor.
    pub fn program(
        &self,
        source: &(impl Container + ?Sized),
        item: &Item,
    ) -> Result<Option<Program>, ProgramError> {
        let input = |position: usize| source.info(position).map(|info| Program::tensor(position, &info));
        let Origin::Model(position) = item.origin else { return Ok(None) };
        let Some(program) = input(position) else { return Ok(None) };
        let program = match item.scaling.and_then(|number| self.scalings.get(number)) {
            Some(ScaledBy::Tensor(ScaleTensor { position, scaling })) => {
                let Some(scales) = input(*position) else { return Ok(None) };
                program.cast(DType::F32)?.scaled(scales.cast(DType::F32)?, scaling.clone())?
            }
            Some(ScaledBy::Quant(affine)) => program.cast(DType::F64)?.affine(Arc::clone(affine))?,
            None if item.from.is_quantized() && item.from != item.to => program.dequantized()?,
            None => program,
        };
        let program = match item.to {
            to if to == program.dtype() => program,
            to if to.is_quantized() => match self.importance.get(&position) {
                Some(importance) => program.quantized_by(to, Arc::clone(importance))?,
                None => program.quantized(to)?,
            },
            to => program.cast(to)?,
        };
        match item.shape {
            Shape::Same => Ok(Some(program)),
            Shape::One => program.reshaped(&[1]).map(Some),
            Shape::Scalar => program.reshaped(&[]).map(Some),
        }
    }

    /// Returns the name under which an item is written.
    pub fn name<'s>(&'s self, source: Option<&'s (impl Container + ?Sized)>, item: &Item) -> &'s str {
        let declared = |number: usize| self.declared.get(number).map_or("", |declared| &declared.name);
        match item.origin {
            Origin::Model(position) => {
                let own = || source.and_then(|source| source.info(position)).map_or("", |info| info.name);
                self.renamed.name(position).unwrap_or_else(own)
            }
            Origin::Declared(number) => declared(number),
            #[cfg(not(target_arch = "wasm32"))]
            Origin::Given(number) => declared(number),
        }
    }
}
