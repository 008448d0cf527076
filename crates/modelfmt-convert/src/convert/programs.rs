//! Describes what a conversion does to each tensor, for people to read.

use std::collections::BTreeSet;

use modelfmt_core::DType;
use modelfmt_model::job::tensors::OutputTensors;
use modelfmt_model::model::Model;

/// How a tensor of the output is made: from which tensors, and by which steps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorProgram {
    /// The name in the output.
    pub tensor: String,
    /// The dtype in the output.
    pub dtype: DType,
    /// The shape in the output, slowest dimension first.
    pub shape: Vec<u64>,
    /// The names of the source tensors that it is made from, each once, in the order of the steps. Empty for
    /// a tensor that has no values and is not in the source.
    pub from: Vec<String>,
    /// The steps in their order, such as `transpose` or `cast f16`; empty if the values are copied.
    pub steps: Vec<String>,
}

/// What a conversion does to the tensors of its source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Programs {
    /// The tensors of the output, in the order in which they are written.
    pub tensors: Vec<TensorProgram>,
    /// The names of the source tensors that are not used by any tensor of the output.
    pub left_out: Vec<String>,
}

impl Programs {
    /// Describes the tensors that are chosen from a model. Each tensor of the source is either used or left
    /// out.
    pub(super) fn of(model: &Model, tensors: &OutputTensors) -> Self {
        let mut used = BTreeSet::new();
        let made = tensors.items.iter().filter_map(|item| {
            let source = Some(model.container());
            let spec = tensors.spec(source, item)?;
            let program = tensors.program(model.container(), item).ok().flatten();
            // For a hub folder, the steps of the family's map come first.
            let program =
                program.and_then(|program| program.over(&|input| model.program(input).cloned()).ok());
            let mut from = Vec::new();
            for input in program.iter().flat_map(|program| program.inputs()) {
                let name = model.input_name(input).unwrap_or_default();
                if !from.iter().any(|known| known == name) {
                    from.push(name.to_owned());
                }
                used.insert(input);
            }
            let name = |input: usize| model.input_name(input).map(str::to_owned);
            let steps = program.map(|program| program.steps(&name)).unwrap_or_default();
            let (tensor, shape) = (spec.name.clone().into_owned(), spec.shape.to_vec());
            Some(TensorProgram { tensor, dtype: spec.dtype, shape, from, steps })
        });
        let tensors = made.collect();
        let inputs = (0..).map_while(|input| Some((input, model.input_name(input)?)));
        let left_out = inputs.filter(|(input, _)| !used.contains(input));
        Self { tensors, left_out: left_out.map(|(_, name)| name.to_owned()).collect() }
    }
}
