//! Puts weights in the place of the tensors that they are stored as.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use modelfmt_model::error::Result;
use modelfmt_model::model::Model;
use modelfmt_model::model::mapped::Computed;
use tensor_program::Program;

use super::{Failure, Schemes, StoredWeight, tensors};

/// Weights that replace the tensors that they are stored as.
#[derive(Debug, Default)]
pub struct Replacements {
    /// The weights, by the position of the tensor that each replaces.
    weights: BTreeMap<usize, Computed>,
    /// The positions of tensors that are left out.
    used: BTreeSet<usize>,
}

impl Replacements {
    /// Puts a weight in the place of its tensors, with the values that `program` computes from the model.
    /// `scheme` is the scheme that the program decodes.
    pub fn add(&mut self, weight: &StoredWeight, program: Program, scheme: Option<String>) {
        let origins = vec![weight.name.clone()];
        let computed = Computed { origins, scheme, ..Computed::new(weight.name.clone(), program) };
        let mut parts = weight.parts();
        if let Some(first) = parts.next() {
            self.weights.insert(first, computed);
        }
        self.used.extend(parts.chain(weight.activation_tensors()));
    }

    /// Puts a tensor in the place of the tensor at a position.
    pub fn insert(&mut self, position: usize, tensor: Computed) {
        self.weights.insert(position, tensor);
    }

    /// Leaves out tensors.
    pub fn leave_out(&mut self, positions: impl IntoIterator<Item = usize>) {
        self.used.extend(positions);
    }

    /// Returns the weights.
    pub fn weights(&self) -> impl Iterator<Item = &Computed> {
        self.weights.values()
    }

    /// Returns all tensors of the model: the weights in their places, and the others unchanged.
    #[must_use]
    pub fn tensors(mut self, model: &Model) -> Vec<Computed> {
        let mut all = Vec::new();
        for (position, info) in tensors(model) {
            if let Some(weight) = self.weights.remove(&position) {
                all.push(weight);
            } else if !self.used.contains(&position) {
                all.push(Computed::new(info.name.to_owned(), Program::tensor(position, &info)));
            }
        }
        all
    }

    /// Returns the model with the weights in their places, or the model itself if there are none.
    ///
    /// # Errors
    /// If two tensors have the same name.
    pub fn apply(self, model: &Model) -> Result<Cow<'_, Model>> {
        if self.weights.is_empty() {
            return Ok(Cow::Borrowed(model));
        }
        Ok(Cow::Owned(model.decoded(self.tensors(model))?))
    }
}

/// Returns the model with the weights of these names decoded, if they are stored as several tensors and no
/// tensor has the name. Weights that cannot be decoded stay as they are stored.
///
/// # Errors
/// If a tensor of such a weight cannot be read.
pub fn named<'m, N: AsRef<str>>(model: &'m Model, names: &[N]) -> Result<Cow<'m, Model>> {
    let names: HashSet<&str> = names.iter().map(AsRef::as_ref).collect();
    let mut replacements = Replacements::default();
    if names.iter().all(|name| model.container().find(name).is_some()) {
        return Ok(Cow::Borrowed(model));
    }
    for weight in Schemes::find(model, true)?.weights {
        if names.contains(&*weight.name) && model.container().find(&weight.name).is_none() {
            match weight.program(model) {
                Ok(program) => replacements.add(&weight, program, Some(weight.text())),
                Err(Failure::Why(_)) => {}
                Err(Failure::Read(error)) => return Err(error),
            }
        }
    }
    replacements.apply(model)
}
