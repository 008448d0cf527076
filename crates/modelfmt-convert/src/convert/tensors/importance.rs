//! The importance of the columns of tensors that are quantized.

use std::path::Path;
use std::sync::Arc;

use modelfmt_core::author::Shortened;
use modelfmt_core::{DType, TensorInfo};

use super::Chooser;
use crate::convert::imatrix::Imatrix;
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;
use modelfmt_rules::presets;
use modelfmt_rules::wording::unsupported::{Examples, Unsupported};
use modelfmt_rules::wording::{Choice, Note};

/// The importance of columns, as far as it is known, and the tensors that it was used for.
#[derive(Default)]
pub(crate) struct Importance {
    matrix: Option<Imatrix>,
    used: u64,
    /// Tensors that are quantized without.
    without: Vec<String>,
    /// Tensors that are quantized without it.
    ignored: Vec<String>,
}

/// Tensors whose entry in the matrix has the wrong number of columns, where llama.cpp ignores this.
pub(crate) enum Weights {
    /// There is no matrix, or quantization to the dtype does not use one.
    Unused,
    /// The importance of the columns.
    Known(Arc<[f32]>),
    /// The matrix has no entry for the tensor.
    Missing,
    /// The entry has the wrong number of columns, where llama.cpp ignores this.
    OtherSize,
}

impl Importance {
    /// Opens the matrix at `path`, if there is one, with the open options of `model`.
    pub(crate) fn open(model: &Model, path: Option<&Path>) -> Result<Self> {
        let matrix = path.map(|path| Imatrix::open(path, &model.related_options())).transpose()?;
        Ok(Self { matrix, ..Self::default() })
    }

    pub(super) const fn is_known(&self) -> bool {
        self.matrix.is_some()
    }

    /// Returns the importance of the columns of a tensor that is quantized, and records whether it was found.
    fn of(&mut self, name: &str, shape: &[u64], to: DType) -> Result<Option<Arc<[f32]>>> {
        match self.weights(name, shape, to)? {
            Weights::Unused => {}
            Weights::Known(weights) => {
                self.used = self.used.saturating_add(1);
                return Ok(Some(weights));
            }
            Weights::Missing => self.without.push(name.to_owned()),
            Weights::OtherSize => self.ignored.push(name.to_owned()),
        }
        Ok(None)
    }

    /// Looks up a tensor that is quantized.
    pub(crate) fn weights(&self, name: &str, shape: &[u64], to: DType) -> Result<Weights> {
        let Some(matrix) = &self.matrix else { return Ok(Weights::Unused) };
        if to == DType::Q8_0 || !ggml_quant::can_encode_weighted(to) {
            return Ok(Weights::Unused);
        }
        let (gguf_name, expert) = presets::gguf_name(name);
        let Some(found) = matrix.of(&gguf_name)? else { return Ok(Weights::Missing) };
        let (columns, groups) = match *shape {
            [.., groups, _, columns] => (columns, groups),
            [.., columns] => (columns, 1),
            [] => (1, 1),
        };
        let expected = columns.saturating_mul(groups);
        // Each expert may have its own tensor, where GGUF has one tensor for all experts.
        if let Some(expert) = expert.and_then(|expert| usize::try_from(expert).ok())
            && let Some(part) =
                found.chunks_exact(usize::try_from(expected).unwrap_or(usize::MAX).max(1)).nth(expert)
        {
            return Ok(Weights::Known(part.into()));
        }
        if found.len() as u64 == expected && expert.is_none() {
            return Ok(Weights::Known(found));
        }
        if gguf_name == "token_embd.weight" {
            return Ok(Weights::OtherSize);
        }
        let why = format!(
            "it has {} numbers for {:?}, and the tensor has {columns} columns in {groups} groups of rows: it is of another model",
            found.len(),
            Shortened(&gguf_name)
        );
        Err(matrix.refused(why))
    }

    pub(super) fn notes(&self) -> Vec<Note> {
        let Self { matrix: Some(_), used, without, ignored } = self else { return Vec::new() };
        let mut text = match used {
            0 => "is used for no tensor".to_owned(),
            1 => "is used for 1 tensor".to_owned(),
            _ => format!("is used for {used} tensors"),
        };
        let names = |names: &[String]| Examples::of(names.iter().map(String::as_str)).to_string();
        if !without.is_empty() {
            text.push_str(&format!("; it says nothing of {}", names(without)));
        }
        if !ignored.is_empty() {
            text.push_str(&format!("; it is of another size for {}", names(ignored)));
        }
        vec![Note::of(&[Choice::Imatrix], text)]
    }
}

impl Chooser<'_> {
    /// Finds the importance of the columns of a tensor that is quantized. If it is unknown, and a preset
    /// gives this dtype only with known importance, the tensor is reported as unsupported.
    pub(super) fn weigh(&mut self, position: usize, info: &TensorInfo<'_>, to: DType) -> Result<()> {
        if !to.is_quantized() || to == info.dtype || !info.has_data {
            return Ok(());
        }
        match self.importance.of(info.name, info.shape, to)? {
            Some(importance) => {
                self.chosen.importance.insert(position, importance);
            }
            None if self.rules.presets().needs_importance(info.name, to) => {
                let why = "q2_k_s makes q2_k of it only where an importance matrix says which columns matter (--imatrix)";
                self.unsupported.push(Unsupported::tensor(info.name, why.to_owned(), None));
            }
            None => {}
        }
        Ok(())
    }
}
