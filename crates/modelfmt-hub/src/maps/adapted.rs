//! Adapters (LoRA) through a map: what llama.cpp adds to a weight.

use tensor_program::Program;

use super::Map;
use super::pattern::Numbers;
use super::steps::Step;
use crate::{Config, MapError};

impl Map {
    /// Returns a function that checks whether the rows of a weight are its inputs, as in the linear layers of
    /// GPT-2. Otherwise they are its outputs. It returns `None` for a tensor that the map does not take.
    pub fn input_rows(self, config: &Config) -> impl Fn(&str) -> Option<bool> + use<> {
        let config = config.completed(&self.file.defaults, &self.file.aliases);
        move |weight| {
            let (entry, _) = self.entry(&config, weight).ok()??;
            let (_, tensor) = self.tensors.get(entry)?;
            Some(matches!(tensor.steps.first(), Some(Step::Transpose)))
        }
    }

    /// Returns the matrix B of an adapter for a weight of a folder, in llama.cpp's form, and llama.cpp's name
    /// of the weight. A is unchanged, because the steps of maps move rows only. `shape` is the shape of the
    /// product B · A: outputs and inputs.
    ///
    /// # Errors
    /// If the map does not know the weight, it has another shape, or a step cannot be applied to B alone.
    pub fn adapted(
        &self,
        config: &Config,
        weight: &str,
        shape: [u64; 2],
        b: Program,
    ) -> Result<(String, Program), MapError> {
        let config = config.completed(&self.file.defaults, &self.file.aliases);
        self.check_required(&config)?;
        let refused = |why: &str| MapError::NoAdapter { name: weight.to_owned(), why: why.to_owned() };
        let Some((entry, numbers)) = self.entry(&config, weight)? else {
            return Err(refused("the map leaves the tensor out"));
        };
        if numbers.expert.is_some() {
            return Err(refused("llama.cpp has the experts of a layer in one tensor"));
        }
        let Some((_, tensor)) = self.tensors.get(entry) else {
            return Err(refused("the map does not know the tensor"));
        };
        let (is_transposed, steps) = match &tensor.steps[..] {
            [Step::Transpose, steps @ ..] => (true, steps),
            steps => (false, steps),
        };
        if let Some(known) = &tensor.shape {
            let [outputs, inputs] = shape;
            let stored = if is_transposed { [inputs, outputs] } else { shape };
            known.check(&config, weight, &stored)?;
        }
        let moves_rows = |step: &Step| matches!(step, Step::Pair(_) | Step::Gather(..));
        if !steps.iter().all(moves_rows) {
            return Err(refused("the map computes the tensor"));
        }
        let b = steps.iter().try_fold(b, |b, step| step.apply(b, &config, weight))?;
        Ok((self.output(entry, Numbers { expert: None, ..numbers }), b))
    }
}
