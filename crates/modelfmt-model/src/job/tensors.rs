//! The tensors that were chosen to be written.

use std::collections::BTreeMap;

use modelfmt_core::{Container, DType};
use modelfmt_write::TensorSpec;

use crate::job::affine::Affine;
use crate::job::renamed::Renamed;
use crate::job::scaling::Scaling;
use crate::quant::Quant;
use modelfmt_rules::options::Declared;

/// Where a tensor comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The tensor of the model at this position.
    Model(usize),
    /// The declared tensor of this number, which has no values.
    Declared(usize),
    /// The tensor of this number that is in memory, among those that are declared.
    #[cfg(not(target_arch = "wasm32"))]
    Given(usize),
}

/// A tensor that is written.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Where it is from.
    pub origin: Origin,
    /// The type that it has.
    pub from: DType,
    /// The type that it gets.
    pub to: DType,
    /// What becomes of its shape.
    pub shape: Shape,
    /// The number of what makes values of its numbers, among the scalings of [`Tensors`].
    pub scaling: Option<usize>,
}

impl Item {
    /// Whether its values are written as they are.
    pub fn is_copied(&self) -> bool {
        self.from == self.to && self.scaling.is_none()
    }
}

/// What makes values of the numbers of a tensor that is dequantized.
#[derive(Clone, Debug, PartialEq)]
pub enum ScaledBy {
    /// Another tensor.
    Tensor(Scaling),
    /// What its file has beside them.
    Quant(Affine),
}

/// What becomes of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// It stays.
    Same,
    /// A scalar that is written as `[1]`.
    One,
    /// A `[1]` that was a scalar, and is one again.
    Scalar,
}

/// The tensors that are written, and those that the target's metadata lists because it cannot declare them.
#[derive(Default)]
pub struct Tensors {
    /// The tensors with values, in the order in which they are written.
    pub items: Vec<Item>,
    /// The tensors of the model that are written under another name.
    pub renamed: Renamed,
    /// The tensors that [`Origin::Declared`] and `Origin::Given` number.
    pub declared: Vec<Declared>,
    /// Tensors without values, by their place among all, that travel in the reserved key.
    pub listed: Vec<(u64, Declared)>,
    /// Names of scalars that are written as `[1]`.
    pub scalars: Vec<String>,
    /// The scales that [`Item::scaling`] numbers.
    pub scalings: Vec<ScaledBy>,
    /// ScaledBy and zero points that stay beside the values, by the names of their tensors.
    pub quants: Vec<(String, Quant)>,
    /// Where the target sorts: by their order here, the positions that the tensors will have; none if they are sorted.
    pub order: Vec<u64>,
    /// The elements that are written as blocks of each type.
    pub blocks: BTreeMap<DType, u64>,
}

impl Tensors {
    /// What the writer of the target needs to know about an item.
    pub(crate) fn spec<'s>(
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
        // Rows that are filled up to whole blocks have a length that dtype and shape do not say.
        let is_own = item.to == DType::Packed || (item.from == item.to && item.to.nbytes(shape).is_none());
        spec.packed_nbytes = if is_own { nbytes } else { 0 };
        Some(spec)
    }

    /// The name under which an item is written.
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
