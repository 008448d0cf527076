//! Programs whose values are known, and programs over the bytes of blocks.

use crate::program::Step;
use crate::{DType, Program, ProgramError};

impl Program {
    /// Returns a tensor whose values are part of the program. `bytes` are the values as in a file:
    /// little-endian and row-major.
    ///
    /// # Errors
    /// [`ProgramError::WrongShape`] if `bytes` is not as long as a tensor of this dtype and shape.
    pub fn known(dtype: DType, shape: &[u64], bytes: Vec<u8>) -> Result<Self, ProgramError> {
        if dtype.nbytes(shape) != Some(bytes.len() as u64) {
            let why = format!("a tensor of {dtype} has not {} bytes there", bytes.len());
            return Err(ProgramError::WrongShape { step: "known values", shape: shape.to_vec(), why });
        }
        Self::of(Step::Known(bytes.into()), dtype, shape.to_vec())
    }

    /// Reads the same bytes as another dtype and shape. Rows of blocks can thus be moved as rows of bytes,
    /// and be made blocks again afterwards.
    ///
    /// # Errors
    /// [`ProgramError::WrongShape`] if a tensor of this dtype and shape has a different number of bytes.
    pub fn retyped(self, dtype: DType, shape: &[u64]) -> Result<Self, ProgramError> {
        if self.dtype() == dtype && self.shape() == shape {
            return Ok(self);
        }
        if self.nbytes().is_none() || dtype.nbytes(shape) != self.nbytes() {
            return Err(self.wrong("as", format!("{dtype} {shape:?} has another number of bytes")));
        }
        Self::of(Step::Retype(Box::new(self)), dtype, shape.to_vec())
    }

    /// Checks whether the program only moves elements, so that each value of the result is a value of an
    /// input or of the program, bit for bit.
    #[must_use]
    pub fn only_moves(&self) -> bool {
        let moves = match &self.step {
            Step::Input { .. } | Step::Constant(_) | Step::Known(_) => true,
            Step::Reshape(_) | Step::Permute { .. } | Step::Slice { .. } => true,
            Step::Concat { .. } | Step::Retype(_) => true,
            Step::Plus { .. } | Step::Times { .. } | Step::Sum(..) | Step::Cast(_) => false,
            Step::Dequantize(_) | Step::Quantize(..) | Step::Scale { .. } => false,
            Step::Affine { .. } | Step::LowRank { .. } => false,
            Step::Unpack { .. } | Step::Pack(_) | Step::Lookup { .. } => false,
            Step::AtMost { .. } => true,
        };
        moves && self.before().into_iter().all(Self::only_moves)
    }
}
