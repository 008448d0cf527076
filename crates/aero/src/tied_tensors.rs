//! Tensors that share the bytes of another: these are stored once (docs/formats/aero.md#tied-tensors).
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
            let (home, home_nbytes) = find(of).ok_or_else(|| unfit("the other one is not written"))?;
            if home >= position {
                return Err(unfit("the other one has to come before it"));
            }
            if nbytes != home_nbytes {
                return Err(unfit("the other one has another number of bytes"));
            }
            if nbytes > 0 {
                ties.insert(position, home);
            }
        }
        // For a tensor that is tied to a tied one: earlier tensors are resolved already.
        let positions: Vec<usize> = ties.keys().copied().collect();
        for position in positions {
            let home = ties.get(&position).and_then(|home| ties.get(home)).copied();
            home.into_iter().for_each(|home| _ = ties.insert(position, home));
        }
        Ok(Self(ties))
    }

    /// The position of the tensor whose bytes the one at a position shares; `None` if it has its own.
    pub(crate) fn home(&self, position: usize) -> Option<usize> {
        self.0.get(&position).copied()
    }
}
