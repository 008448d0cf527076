//! Undoes programs: computes the inputs from the result.

use crate::program::Step;
use crate::{Program, ProgramError};

impl Program {
    /// Returns the programs that compute the inputs from the result of this program, each with the number of
    /// its input. `result` is the program that supplies the result, with its dtype and shape.
    ///
    /// Adding a number is undone by subtracting it, which may not be exact because of rounding. Compare the
    /// values if that matters.
    ///
    /// # Errors
    /// [`ProgramError::NotInvertible`] for a slice, blocks, packed numbers, a table lookup, the sum or
    /// product of two tensors, scales, or a product with 0; [`ProgramError::WrongShape`] if `result` has a
    /// different shape than this program.
    pub fn undone(&self, result: Self) -> Result<Vec<(usize, Self)>, ProgramError> {
        if result.shape() != self.shape() {
            let why = format!("the result has the shape {:?}", result.shape());
            return Err(ProgramError::WrongShape { step: "undo", shape: self.shape().to_vec(), why });
        }
        let mut found = Vec::new();
        self.undo_into(result, &mut found)?;
        Ok(found)
    }

    fn undo_into(&self, result: Self, found: &mut Vec<(usize, Self)>) -> Result<(), ProgramError> {
        match &self.step {
            Step::Input { number, .. } => found.push((*number, result)),
            Step::Constant(_) | Step::Known(_) => {}
            Step::Retype(of) => of.undo_into(result.retyped(of.dtype(), of.shape())?, found)?,
            Step::Reshape(of) => of.undo_into(result.reshaped(of.shape())?, found)?,
            Step::Permute { of, axes } => {
                let mut back = vec![0; axes.len()];
                for (to, &from) in axes.iter().enumerate() {
                    back.get_mut(from).into_iter().for_each(|place| *place = to);
                }
                of.undo_into(result.permuted(&back)?, found)?;
            }
            Step::Concat { parts, axis } => {
                let mut start = 0u64;
                for part in parts {
                    let len = part.shape().get(*axis).copied().unwrap_or_default();
                    part.undo_into(result.clone().sliced(*axis, start, len)?, found)?;
                    start = start.saturating_add(len);
                }
            }
            Step::Plus { of, number } => of.undo_into(result.plus(-number)?, found)?,
            Step::Times { of, number } => match 1.0 / number {
                back if back.is_finite() => of.undo_into(result.times(back)?, found)?,
                _ => return Err(ProgramError::NotInvertible("multiply by 0")),
            },
            Step::Cast(of) => of.undo_into(result.cast(of.dtype())?, found)?,
            Step::Slice { .. } => return Err(ProgramError::NotInvertible("slice")),
            Step::Sum(..) => return Err(ProgramError::NotInvertible("a sum of two tensors")),
            Step::Dequantize(_) => return Err(ProgramError::NotInvertible("dequantize")),
            Step::Quantize(..) => return Err(ProgramError::NotInvertible("quantize")),
            Step::Scale { .. } => return Err(ProgramError::NotInvertible("scale")),
            Step::Unpack { .. } => return Err(ProgramError::NotInvertible("unpack")),
            Step::Pack(_) => return Err(ProgramError::NotInvertible("pack")),
            Step::AtMost { of, .. } => of.undo_into(result, found)?,
            Step::Lookup { .. } => return Err(ProgramError::NotInvertible("look up")),
            Step::Affine { .. } => return Err(ProgramError::NotInvertible("apply scales")),
            Step::LowRank { .. } => return Err(ProgramError::NotInvertible("multiply low-rank")),
        }
        Ok(())
    }
}
