//! Tensors that share the bytes of another tensor. The bytes are stored once
//! (docs/formats/aero.md#tied-tensors).
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::BTreeMap;

use modelfmt_core::{Part, TensorTable};

use crate::error::{Fault, WriteError};

/// For each tied tensor, the position of the tensor whose bytes it shares.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ties(BTreeMap<usize, usize>);

impl Ties {
    /// Looks up the tensors with these names.
    pub(crate) fn of(tensors: &TensorTable, named: &BTreeMap<String, String>) -> Result<Self, WriteError> {
        let mut ties = BTreeMap::new();
        for (name, of) in named {
            let unfit =
                |why| WriteError::Unsupported { part: Part::named("tensor", name), fault: Fault::Tie(why) };
            let find = |name: &str| tensors.find(name).and_then(|at| Some((at, tensors.info(at)?.nbytes)));
            let (position, nbytes) = find(name).ok_or_else(|| unfit("it is not written"))?;
            let (other, other_nbytes) = find(of).ok_or_else(|| unfit("the other one is not written"))?;
            if other >= position {
                return Err(unfit("the other one has to come before it"));
            }
            if nbytes != other_nbytes {
                return Err(unfit("the other one has another number of bytes"));
            }
            if nbytes > 0 {
                ties.insert(position, other);
            }
        }
        // Follows chains: a tensor may be tied to a tied tensor. Ties of earlier tensors are already
        // resolved.
        let positions: Vec<usize> = ties.keys().copied().collect();
        for position in positions {
            let other = ties.get(&position).and_then(|other| ties.get(other)).copied();
            other.into_iter().for_each(|other| _ = ties.insert(position, other));
        }
        Ok(Self(ties))
    }

    /// Returns the position of the tensor whose bytes the tensor at `position` shares, or `None` if that
    /// tensor has its own bytes.
    pub(crate) fn tied_to(&self, position: usize) -> Option<usize> {
        self.0.get(&position).copied()
    }
}
