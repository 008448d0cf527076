//! The tensors that can be made from BASE: its own, and those that a map, adapters and decoding make from
//! them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use modelfmt_core::{DType, TensorInfo};
use tensor_program::Program;

use super::ProveOptions;
use super::steps::{Recipe, Weighted, recipes};
#[cfg(not(target_arch = "wasm32"))]
use crate::convert::tensors::importance::{Importance, Weights};
use crate::convert::{ConvertOptions, TypeRule};
use modelfmt_derived::Derived;
use modelfmt_model::checked::CheckedValues;
use modelfmt_model::error::{Error, Result};
use modelfmt_model::formats::Format;
use modelfmt_model::model::Model;
use modelfmt_rules::options::rules::TypeChange;

use crate::convert::schemes;

/// A tensor that BASE provides: the number of the source, and the position in that source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct BaseTensor {
    pub(super) source: usize,
    pub(super) position: usize,
}

/// How a tensor of DERIVED is computed from one tensor of BASE.
#[derive(Clone, Debug)]
pub(super) struct Derivation {
    pub(super) from: BaseTensor,
    pub(super) recipe: Recipe,
}

/// BASE, or a model made from it, before tensors get their dtypes.
struct Source<'m> {
    model: Cow<'m, Model>,
    /// Whether a map gave names and shapes.
    is_mapped: bool,
    /// Whether weights that are stored as several tensors are decoded.
    is_decoded: bool,
    /// The names that tensors changed by adapters have before a map.
    changed: BTreeSet<String>,
}

/// BASE, and the models made from it.
pub(super) struct Base<'m> {
    /// The models to look for tensors in, in this order. The last is BASE without a map, with the adapters
    /// merged.
    sources: Vec<Source<'m>>,
    /// The steps of the adapters.
    adapters: Vec<String>,
    /// The importance of the columns that were quantized, and the step that names the matrix.
    #[cfg(not(target_arch = "wasm32"))]
    importance: Importance,
    #[cfg(not(target_arch = "wasm32"))]
    matrix: String,
    pub(super) model: &'m Model,
    /// The files of the hub folder that a GGUF becomes.
    pub(super) files: Vec<(String, Vec<u8>)>,
    pub(super) notes: Vec<String>,
}

impl<'m> Base<'m> {
    /// Maps, merges and decodes BASE in the same way as a conversion to the format of DERIVED.
    pub(super) fn new(model: &'m Model, derived: &Model, options: &ProveOptions) -> Result<Self> {
        model.open_all()?;
        #[cfg(not(target_arch = "wasm32"))]
        let matrix = options.imatrix.as_deref();
        let mut base = Self {
            sources: Vec::new(),
            adapters: adapters(options),
            #[cfg(not(target_arch = "wasm32"))]
            importance: Importance::open(model, matrix)?,
            #[cfg(not(target_arch = "wasm32"))]
            matrix: matrix.map(|path| step("imatrix", path)).unwrap_or_default(),
            model,
            files: Vec::new(),
            notes: Vec::new(),
        };
        base.add_mapped(derived, options)?;
        base.add(None, &[], options)?;
        // Look for decoded weights first.
        base.sources.sort_by_key(|source| !source.is_decoded);
        Ok(base)
    }

    /// Adds the models that a map makes.
    #[cfg(all(feature = "gguf", not(target_arch = "wasm32")))]
    fn add_mapped(&mut self, derived: &Model, options: &ProveOptions) -> Result<()> {
        let asked = options.map.as_deref();
        if modelfmt_derived::is_gguf(self.model.format()) && !modelfmt_derived::is_gguf(derived.format()) {
            return self.add_restored(derived, options);
        }
        let decode = decode();
        self.add(None, &decode, options)?;
        if asked == Some(modelfmt_derived::NONE)
            || (asked.is_none() && !modelfmt_derived::is_gguf(derived.format()))
        {
            return Ok(());
        }
        let done = self.add(Some(asked), &[], options);
        let done = match done {
            // The weights have to be decoded before the map.
            Err(Error::Unmapped { .. }) => self.add(Some(asked), &decode, options),
            done => done,
        };
        match done {
            Err(Error::Unmapped { why, .. }) if asked.is_none() => {
                self.notes.push(format!("BASE is compared as it is, because no map fits it: {why}"));
                Ok(())
            }
            done => done,
        }
    }

    /// Adds the hub folder that a GGUF becomes.
    #[cfg(all(feature = "gguf", not(target_arch = "wasm32")))]
    fn add_restored(&mut self, derived: &Model, options: &ProveOptions) -> Result<()> {
        let (model, asked) = (self.model, options.map.as_deref());
        // A hub folder that was made from a GGUF has Hugging Face's names.
        let is_renamed = derived.tensors().any(|info| model.container().find(info.name).is_none());
        if asked == Some(modelfmt_derived::NONE) || (asked.is_none() && !is_renamed) {
            return Ok(());
        }
        let mut convert = ConvertOptions::default();
        convert.tensors.map.clone_from(&options.map);
        match modelfmt_derived::restored(model, &convert) {
            Ok((weights, restored)) => {
                self.files = restored.files;
                self.notes.extend(restored.notes.iter().map(ToString::to_string));
                let model = Cow::Owned(weights.into_owned());
                let changed = BTreeSet::new();
                self.sources.push(Source { model, is_mapped: true, is_decoded: false, changed });
                Ok(())
            }
            Err(Error::NoHubFolder { .. }) if asked.is_none() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Adds only decoded weights: this build has no maps.
    #[cfg(not(all(feature = "gguf", not(target_arch = "wasm32"))))]
    fn add_mapped(&mut self, _: &Model, options: &ProveOptions) -> Result<()> {
        self.add(None, &decode(), options)
    }

    /// Adds BASE after the conversion steps that these rules and options ask for. The outer `None` of `map`
    /// means no map; the inner `None` means that no particular map was requested.
    fn add(&mut self, map: Option<Option<&str>>, rules: &[TypeRule], options: &ProveOptions) -> Result<()> {
        let mut convert = ConvertOptions::default();
        convert.types.rules = rules.to_vec();
        convert.tensors.lora.clone_from(&options.lora);
        convert.tensors.map = map.flatten().map(str::to_owned);
        convert.metadata.pre.clone_from(&options.pre);
        // GGUF has its own block types for some schemes.
        let target = if map.is_some() { Format::Gguf } else { Format::Safetensors };
        let takes = modelfmt_derived::takes(self.model, target, &convert);
        let takes = takes.as_deref().unwrap_or(&|_: &str| true);
        let decoded = schemes::decoded(self.model, target, target.capabilities(), &convert, Some(takes));
        let (model, is_decoded) = match decoded {
            Ok((Cow::Borrowed(_), _)) if !rules.is_empty() && map.is_none() => return Ok(()),
            Ok((model, _)) => {
                let is_decoded = matches!(model, Cow::Owned(_));
                (model, is_decoded)
            }
            Err(Error::Unsupported { unsupported, .. }) => {
                let why = unsupported.first().map(ToString::to_string).unwrap_or_default();
                self.notes.push(format!("no weight is decoded: {why}"));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let (source, notes) = merged(model, map.is_some(), &convert)?;
        // The map may not apply, for example to a folder without a config.json. BASE is then compared as it
        // is.
        if map.is_some() && !source.is_mapped {
            return Ok(());
        }
        for note in notes.into_iter().filter(|note| !self.notes.contains(note)).collect::<Vec<_>>() {
            self.notes.push(note);
        }
        self.sources.push(Source { is_decoded, ..source });
        Ok(())
    }

    /// Returns the model of a source.
    pub(super) fn source(&self, number: usize) -> &Model {
        self.sources.get(number).map_or(self.model, |source| &source.model)
    }

    /// Returns the number of sources.
    pub(super) const fn count(&self) -> usize {
        self.sources.len()
    }

    /// Returns readers for all tensors that the derivations use, one for each source. The readers check the
    /// values.
    pub(super) fn readers<'w>(
        &self,
        derivations: &(impl Iterator<Item = &'w Derivation> + Clone),
    ) -> Result<Vec<CheckedValues<'_>>> {
        let readers = (0..self.count()).map(|number| {
            let own = derivations.clone().filter(|derivation| derivation.from.source == number);
            let positions: BTreeSet<usize> = own.map(|derivation| derivation.from.position).collect();
            let positions: Vec<usize> = positions.into_iter().collect();
            CheckedValues::new(self.source(number), &positions, true)
        });
        readers.collect()
    }

    /// Finds the tensors with a name, in the order in which to try them.
    pub(super) fn find(&self, name: &str) -> Vec<BaseTensor> {
        let all = (0..self.count()).filter_map(|source| {
            Some(BaseTensor { source, position: self.source(source).container().find(name)? })
        });
        let mut found = Vec::new();
        for tensor in all {
            found.push(tensor);
            // Only a decoded weight also exists in its stored form.
            if !self.is_decoded(tensor) {
                break;
            }
        }
        found
    }

    /// Returns the description of a tensor.
    pub(super) fn info(&self, tensor: BaseTensor) -> Option<TensorInfo<'_>> {
        self.source(tensor.source).container().info(tensor.position)
    }

    fn is_decoded(&self, tensor: BaseTensor) -> bool {
        self.source(tensor.source).scheme(tensor.position).is_some()
    }

    /// Returns the derivations from these tensors to a dtype and a shape, the shortest first.
    ///
    /// # Errors
    /// If the importance matrix belongs to another model.
    pub(super) fn derivations(
        &self,
        all: &[BaseTensor],
        dtype: DType,
        shape: &[u64],
    ) -> Result<Vec<Derivation>> {
        let is_decoded = all.iter().any(|tensor| self.is_decoded(*tensor));
        let mut derivations = Vec::new();
        for &tensor in all {
            let Some(info) = self.info(tensor).filter(|info| info.has_data) else { continue };
            // The stored numbers of a weight with scales are not its values, so they can only be copied.
            if is_decoded && !self.is_decoded(tensor) && info.dtype != dtype {
                continue;
            }
            let program = Program::tensor(tensor.position, &info);
            let has_numbers = self.is_decoded(tensor) && !info.dtype.is_quantized();
            let weighted = self.weighted(info.name, shape, dtype)?;
            let (steps, to) = (self.steps(tensor), (dtype, shape));
            let made = recipes(&program, &steps, has_numbers, to, weighted.as_ref());
            derivations.extend(made.into_iter().map(|recipe| Derivation { from: tensor, recipe }));
        }
        derivations
            .sort_by_key(|derivation| (derivation.recipe.variant.is_some(), derivation.recipe.steps.len()));
        Ok(derivations)
    }

    /// Returns `None`: importance matrices are files, and there are no files here.
    #[cfg(target_arch = "wasm32")]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as where there are files")]
    const fn weighted(&self, _: &str, _: &[u64], _: DType) -> Result<Option<Weighted>> {
        Ok(None)
    }

    /// Returns the importance of the columns of a tensor that was quantized.
    #[cfg(not(target_arch = "wasm32"))]
    fn weighted(&self, name: &str, shape: &[u64], dtype: DType) -> Result<Option<Weighted>> {
        let weights =
            if dtype.is_quantized() { self.importance.weights(name, shape, dtype)? } else { Weights::Unused };
        Ok(match weights {
            Weights::Known(weights) => Some(Weighted { weights, step: self.matrix.clone() }),
            Weights::Unused | Weights::Missing | Weights::OtherSize => None,
        })
    }

    /// Returns the steps before the dtype changes, in short form: the steps of adapters and of a map.
    fn steps(&self, tensor: BaseTensor) -> Vec<String> {
        let Some(source) = self.sources.get(tensor.source) else { return Vec::new() };
        let mut steps = Vec::new();
        if source.model.origins(tensor.position).into_iter().any(|name| source.changed.contains(name)) {
            steps.extend(self.adapters.iter().cloned());
        }
        if source.is_mapped {
            steps.push("map".to_owned());
            let program = source.model.program(tensor.position).filter(|_| !self.is_decoded(tensor));
            steps.extend(program.map(map_steps).unwrap_or_default());
        }
        steps
    }

    /// Returns every tensor that BASE provides. A tensor that a map or decoding only copies is included once.
    pub(super) fn all(&self) -> Vec<BaseTensor> {
        let mut all = Vec::new();
        for (source, own) in self.sources.iter().enumerate() {
            let is_last = !own.is_mapped && !own.is_decoded;
            let positions = (0..own.model.tensor_count()).filter(|&position| {
                let is_copied =
                    || own.model.program(position).is_some_and(|program| program.copied().is_some());
                is_last || !is_copied()
            });
            all.extend(positions.map(|position| BaseTensor { source, position }));
        }
        all
    }

    /// Returns the names of the tensors of BASE that a tensor is made from, each once.
    pub(super) fn names(&self, tensor: BaseTensor) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in self.source(tensor.source).origins(tensor.position) {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        names
    }
}

/// Returns the rule that decodes weights that are stored as several tensors.
fn decode() -> Vec<TypeRule> {
    vec![TypeRule { glob: None, change: TypeChange::Dequantize(DType::F32) }]
}

/// Returns a step for each adapter, with the name of its file or folder.
fn adapters(options: &ProveOptions) -> Vec<String> {
    options.lora.iter().map(|rule| step("lora", &rule.path)).collect()
}

/// Returns a step with the name of a file or folder.
fn step(what: &str, path: &Path) -> String {
    format!("{what}:{}", path.file_name().unwrap_or(path.as_os_str()).to_string_lossy())
}

/// Merges adapters and applies a map, in the same way as a conversion. Returns the result, and notes.
fn merged<'m>(
    model: Cow<'m, Model>,
    will_map: bool,
    options: &ConvertOptions,
) -> Result<(Source<'m>, Vec<String>)> {
    let target = if will_map { Format::Gguf } else { Format::Safetensors };
    let Derived { model, is_mapped, changed, notes } =
        modelfmt_derived::derived(model, target, will_map, options)?;
    let notes = notes.iter().map(ToString::to_string).collect();
    Ok((Source { model, is_mapped, is_decoded: false, changed }, notes))
}

/// Describes what a map does to elements, in short form. Merging adapters is not included: it has steps of
/// its own.
fn map_steps(program: &Program) -> Vec<String> {
    let mut steps = Vec::new();
    let all = program.steps_of_first();
    let has_moves = all.iter().any(|text| text.starts_with("permute") || text == "transpose");
    for text in &all {
        match text.split_once(' ') {
            Some(("permute", _)) => steps.push("permute".to_owned()),
            Some(("reshape", _)) if has_moves => {}
            Some((what @ ("cast" | "quantize" | "dequantize"), dtype)) => {
                steps.push(format!("{what}:{dtype}"));
            }
            _ => steps.push(text.clone()),
        }
    }
    steps
}

/// Returns the number of elements and of bytes of the smallest unit of a dtype that is compared.
pub(super) fn unit(dtype: DType) -> (u64, u64) {
    dtype.block().map_or((1, 1), |block| (u64::from(block.elements.max(1)), u64::from(block.nbytes.max(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A merged adapter has a step with its name, so the sum that merges it adds no step.
    #[test]
    fn a_map_over_an_adapter_prints_the_steps_of_the_map_alone() {
        let matrix = |number, shape: &[u64]| Program::input(number, DType::F32, shape);
        let product = matrix(1, &[4, 2]).low_rank(matrix(2, &[2, 4]), 0.5).unwrap();
        let merged = matrix(0, &[4, 4]).sum(product).unwrap();
        let moved =
            merged.reshaped(&[2, 2, 4]).unwrap().permuted(&[1, 0, 2]).unwrap().reshaped(&[4, 4]).unwrap();
        assert_eq!(map_steps(&moved), ["permute"]);
    }
}
