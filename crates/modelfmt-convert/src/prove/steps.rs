//! The recipes that are tried for a tensor: one step to its dtype, or two where this is common.

use std::sync::Arc;

use modelfmt_core::{DType, Kind};
use tensor_program::{Program, ProgramError};

/// How to compute the values of a tensor of DERIVED.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    pub(super) program: Program,
    /// The steps, such as `cast:f16` and `quantize:q4_k`.
    pub(super) steps: Vec<String>,
    /// How the numbers of the program become blocks, if the program itself does not quantize them.
    pub(super) variant: Option<Variant>,
}

/// How the arithmetic of another quantizing program differs from ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// Its compiler fused products and sums into operations that round once.
    Contracted,
}

impl Variant {
    /// Returns the word for JSON.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Contracted => "contracted",
        }
    }
}

/// The dtypes to which models are often cast before they are quantized.
const BETWEEN: [DType; 2] = [DType::F16, DType::BF16];

/// The importance of the columns of a tensor, and the step that names its source.
pub(super) struct Weighted {
    pub(super) weights: Arc<[f32]>,
    pub(super) step: String,
}

/// Returns the recipes from a tensor of BASE to a dtype and a shape, the most direct first; empty if there is
/// none. `is_decoded` means that the values of the program are decoded already.
pub(super) fn recipes(
    program: &Program,
    before: &[String],
    is_decoded: bool,
    (dtype, shape): (DType, &[u64]),
    weighted: Option<&Weighted>,
) -> Vec<Recipe> {
    if !fits(program.shape(), shape) {
        return Vec::new();
    }
    let Ok(program) = program.clone().reshaped(shape) else { return Vec::new() };
    let with = |made: Result<Program, ProgramError>, steps: &[String]| {
        let steps = before.iter().chain(steps).cloned().collect();
        made.ok().map(|program| Recipe { program, steps, variant: None })
    };
    // The numbers that are quantized later with the arithmetic of another build.
    let contracted = |numbers: Result<Program, ProgramError>, steps: Vec<String>| {
        let numbers = numbers.ok().filter(|numbers| numbers.clone().quantized(dtype).is_ok())?;
        let made = with(numbers.cast(DType::F32), &steps)?;
        Some(Recipe { variant: Some(Variant::Contracted), ..made })
    };
    let has_variant = weighted.is_none() && ggml_quant::can_encode_contracted(dtype);
    let from = program.dtype();
    if from == dtype && !is_decoded {
        return with(Ok(program), &[]).into_iter().collect();
    }
    let numbers = || if is_decoded { Ok(program.clone()) } else { program.clone().dequantized() };
    let to = |what: &str, dtype: DType| format!("{what}:{dtype}");
    let blocks = |program: Program| match weighted {
        Some(weighted) => program.quantized_by(dtype, Arc::clone(&weighted.weights)),
        None => program.quantized(dtype),
    };
    let last = || weighted.map(|weighted| weighted.step.clone()).into_iter().chain([to("quantize", dtype)]);
    match (is_decoded || from.is_quantized(), dtype.is_quantized()) {
        (false, false) => with(program.cast(dtype), &[to("cast", dtype)]).into_iter().collect(),
        (true, false) => {
            let made = numbers().and_then(|numbers| numbers.cast(dtype));
            with(made, &[to("dequantize", dtype)]).into_iter().collect()
        }
        (false, true) if from.kind() != Kind::Float => Vec::new(),
        (false, true) => {
            let direct = with(blocks(program.clone()), &last().collect::<Vec<_>>());
            let twice = BETWEEN.into_iter().filter(|between| *between != from).filter_map(|between| {
                let made = program.clone().cast(between).and_then(blocks);
                with(made, &std::iter::once(to("cast", between)).chain(last()).collect::<Vec<_>>())
            });
            let plain = direct.into_iter().chain(twice);
            if !has_variant {
                return plain.collect();
            }
            let direct = contracted(Ok(program.clone()), last().collect());
            let twice = BETWEEN.into_iter().filter(|between| *between != from).filter_map(|between| {
                let steps = std::iter::once(to("cast", between)).chain(last()).collect();
                contracted(program.clone().cast(between), steps)
            });
            plain.chain(direct).chain(twice).collect()
        }
        (true, true) => {
            let plain = std::iter::once(DType::F32).chain(BETWEEN).filter_map(|between| {
                let made = numbers().and_then(|numbers| blocks(numbers.cast(between)?));
                with(made, &std::iter::once(to("dequantize", between)).chain(last()).collect::<Vec<_>>())
            });
            if !has_variant {
                return plain.collect();
            }
            let others = std::iter::once(DType::F32).chain(BETWEEN).filter_map(|between| {
                let steps = std::iter::once(to("dequantize", between)).chain(last()).collect();
                contracted(numbers().and_then(|numbers| numbers.cast(between)), steps)
            });
            plain.chain(others).collect()
        }
    }
}

/// Checks whether two shapes mean the same tensor: they are equal, or one is a scalar that a format writes as
/// `[1]`.
pub(super) fn fits(a: &[u64], b: &[u64]) -> bool {
    a == b || matches!((a, b), ([], [1]) | ([1], []))
}
