//! A model whose tensors are computed from those of another.

use std::sync::Arc;

use modelfmt_core::DType;

pub use crate::formats::mapped::Computed;
pub use tensor_program::Program;

use super::Model;
use crate::error::{Error, Result};
use crate::formats::Format;
use crate::formats::entry::reader_of;
use crate::formats::mapped::Mapped;
#[cfg(not(target_arch = "wasm32"))]
use crate::sidecars::Sidecars;

impl Model {
    /// Makes a model with the metadata and the format of `head`, whose tensors are computed from those of
    /// this model. The inputs of the programs are positions in this model. Values are computed when they are
    /// read, in bounded memory. Checked reads use the digests in the file of this model.
    ///
    /// # Errors
    /// [`Error::NameTwice`] if two tensors have the same name.
    pub fn mapped(&self, head: &Self, tensors: Vec<Computed>) -> Result<Self> {
        self.computed(head, tensors, true)
    }

    /// Returns this model with other tensors, which are computed from its own. It keeps its sidecar files.
    ///
    /// # Errors
    /// [`Error::NameTwice`] if two tensors have the same name.
    pub fn decoded(&self, tensors: Vec<Computed>) -> Result<Self> {
        self.computed(self, tensors, false)
    }

    /// Returns this model with other tensors, which are computed from those of `inputs`: this model joined
    /// with others. It keeps its sidecar files.
    ///
    /// # Errors
    /// [`Error::NameTwice`] if two tensors have the same name.
    pub fn computed_from(&self, inputs: &Self, tensors: Vec<Computed>) -> Result<Self> {
        let made = inputs.computed(self, tensors, true)?;
        Ok(Self { opened: made.opened, members: Vec::new(), index_file: None, ..self.clone() })
    }

    fn computed(&self, head: &Self, tensors: Vec<Computed>, is_other: bool) -> Result<Self> {
        let inner = reader_of::<Mapped>(self.opened());
        let inner = inner.filter(|inner| inner.decodes() || inner.multiplies());
        // The program that decodes or adapts a weight is composed with what is done to the weight. The result
        // reads longer runs.
        let composed = inner.and_then(|inner| Some((inner, inner.composed(tensors.clone()).ok()?)));
        let (inputs, format, tensors) = match composed {
            Some((inner, composed)) => (Arc::clone(inner.inputs()), inner.format(), composed),
            None => (Arc::clone(&self.opened), self.format, tensors),
        };
        // If the model `head` is itself computed, its metadata is that of its own head.
        let head_of = reader_of::<Mapped>(head.opened()).map_or(&head.opened, Mapped::head);
        let mapped = Mapped::new(Arc::clone(head_of), (inputs, format), tensors);
        let twice = |error: modelfmt_core::value::NameError| Error::NameTwice {
            name: match error {
                modelfmt_core::value::NameError::Duplicate(name) => name,
                other => other.to_string(),
            },
            path: self.path.clone(),
            again: self.path.clone(),
            others: 0,
        };
        #[cfg(target_arch = "wasm32")]
        let _ = is_other;
        Ok(Self {
            format: head.format,
            opened: Arc::new(mapped.map_err(twice)?),
            index_file: None,
            #[cfg(not(target_arch = "wasm32"))]
            // The metadata is that of `head`, so the sidecar files of this model do not apply.
            sidecars: if is_other { Sidecars::Nothing } else { self.sidecars.clone() },
            members: Vec::new(),
            ..self.clone()
        })
    }

    /// Returns the program that computes the tensor at a position, if this model was [mapped](Self::mapped).
    #[must_use]
    pub fn program(&self, position: usize) -> Option<&Program> {
        reader_of::<Mapped>(self.opened())?.program(position)
    }

    /// Returns the format in which the values of the tensor at a position are stored. For a
    /// [mapped](Self::mapped) model, this is the format of the model that it was made from.
    #[must_use]
    pub fn stored_format(&self, position: usize) -> Format {
        match reader_of::<Mapped>(self.opened()) {
            Some(mapped) => mapped.format(),
            None => self.member_at(position).0.format(),
        }
    }

    /// Checks whether the tensor at a position keeps its dtype unless a rule names it. llama.cpp accepts no
    /// other dtype for such a tensor.
    #[must_use]
    pub fn keeps_dtype(&self, position: usize) -> bool {
        reader_of::<Mapped>(self.opened()).is_some_and(|mapped| mapped.keeps_dtype(position))
    }

    /// Returns the scheme in which the weight at a position is stored, if it is [decoded](Self::decoded).
    #[must_use]
    pub fn scheme(&self, position: usize) -> Option<&str> {
        reader_of::<Mapped>(self.opened())?.scheme(position)
    }

    /// Returns the dtype in which the numbers of the weight at a position are stored, if it is
    /// [decoded](Self::decoded).
    #[must_use]
    pub fn stored_dtype(&self, position: usize) -> Option<DType> {
        let mapped = reader_of::<Mapped>(self.opened())?;
        mapped.scheme(position)?;
        let input = mapped.program(position)?.inputs().into_iter().next()?;
        mapped.inputs().info(input).map(|info| info.dtype)
    }

    /// Checks whether the tensor at a position is computed when it is read, instead of copied. A cast may
    /// lose some of its values.
    #[must_use]
    pub fn is_computed(&self, position: usize) -> bool {
        reader_of::<Mapped>(self.opened()).is_some_and(|mapped| mapped.is_computed(position))
    }

    /// Returns the name of the tensor at a position of the model that this one was [mapped](Self::mapped)
    /// from. If this model was not mapped, returns the name of its own tensor.
    #[must_use]
    pub fn input_name(&self, position: usize) -> Option<&str> {
        match reader_of::<Mapped>(self.opened()) {
            Some(mapped) => mapped.input_name(position),
            None => self.container().info(position).map(|info| info.name),
        }
    }

    /// Returns the names that rules and filters match: those of the tensors that a [mapped](Self::mapped)
    /// tensor is computed from, or the tensor's own name.
    #[must_use]
    pub fn origins(&self, position: usize) -> Vec<&str> {
        match reader_of::<Mapped>(self.opened()) {
            Some(mapped) => mapped.origins(position).collect(),
            None => self.container().info(position).map(|info| info.name).into_iter().collect(),
        }
    }
}
