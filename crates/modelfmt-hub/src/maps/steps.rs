//! The steps of a map, and the programs that they make.

use std::str::FromStr;

use tensor_core::DType;
use tensor_program::{Program, ProgramError};

use crate::{Config, MapError};

/// A step of a map.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Rows and columns change places.
    Transpose,
    /// All dimensions become one.
    Flatten,
    /// A number is added, in `f32`.
    Add(f32),
    /// The values become `f32`.
    F32,
    /// The two halves of each head are interleaved. This key of the config counts the heads.
    Pair(String),
    /// The rows are groups of this many parts, and this key of the config counts the groups. The first parts
    /// of all groups come first.
    Gather(String, u64),
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "{text:?} is no step; steps are transpose, flatten, f32, add N, pair KEY and gather KEY N"
            )
        };
        match text.split_once(' ') {
            None => match text {
                "transpose" => Ok(Self::Transpose),
                "flatten" => Ok(Self::Flatten),
                "f32" => Ok(Self::F32),
                _ => Err(unknown()),
            },
            Some(("add", number)) => number.parse().map(Self::Add).map_err(|_| unknown()),
            Some(("pair", key)) => Ok(Self::Pair(key.to_owned())),
            Some(("gather", rest)) => {
                let (key, parts) = rest.split_once(' ').ok_or_else(unknown)?;
                Ok(Self::Gather(key.to_owned(), parts.parse().map_err(|_| unknown())?))
            }
            Some(_) => Err(unknown()),
        }
    }
}

impl Step {
    /// Adds the step to a program. Errors name the tensor `name`.
    pub(crate) fn apply(&self, program: Program, config: &Config, name: &str) -> Result<Program, MapError> {
        let failed = |error: ProgramError| MapError::Step { name: name.to_owned(), error };
        match self {
            Self::Transpose => program.transposed().map_err(failed),
            Self::Flatten => {
                let count = program.shape().iter().product();
                program.reshaped(&[count]).map_err(failed)
            }
            Self::Add(number) => {
                program.cast(DType::F32).and_then(|program| program.plus(*number)).map_err(failed)
            }
            Self::F32 => program.cast(DType::F32).map_err(failed),
            Self::Pair(key) => {
                // The halves of each head are interleaved.
                let heads = config.count(key)?;
                swapped(program, heads, 2, [0, 2, 1]).map_err(failed)
            }
            Self::Gather(key, parts) => {
                let groups = config.count(key)?;
                swapped(program, groups, *parts, [1, 0, 2]).map_err(failed)
            }
        }
    }
}

/// Cuts the first dimension into groups of parts, and permutes these three dimensions: groups, parts, and
/// rows in a part.
fn swapped(program: Program, groups: u64, parts: u64, order: [usize; 3]) -> Result<Program, ProgramError> {
    let shape = program.shape().to_vec();
    let Some((rows, rest)) = shape.split_first() else {
        return program.permuted(&[0]); // the error says that a scalar has no rows
    };
    let count = groups.checked_mul(parts).filter(|count| *count > 0 && rows.is_multiple_of(*count));
    let inner = count.map_or(0, |count| rows / count);
    let in_groups: Vec<u64> = [groups, parts, inner].iter().chain(rest).copied().collect();
    let axes: Vec<usize> = order.into_iter().chain(3..in_groups.len()).collect();
    // With a count that does not divide the rows, the new shape has another number of elements, and the error says so.
    program.reshaped(&in_groups)?.permuted(&axes)?.reshaped(&shape)
}
