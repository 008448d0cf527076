//! Programs as text.

use std::fmt;

use crate::Program;
use crate::program::Step;
use crate::scaling::By;

impl Program {
    /// The steps in the order in which they are done, such as `transpose`, `cast f32`, `add 1`. Steps that take several tensors
    /// print the names of the others, as far as `name` knows the inputs.
    #[must_use]
    pub fn steps(&self, name: &dyn Fn(usize) -> Option<String>) -> Vec<String> {
        self.chain(name, false)
    }

    /// The steps that are done to the first tensor, without what is added to it; nothing is named.
    #[must_use]
    pub fn steps_of_first(&self) -> Vec<String> {
        self.chain(&|_| None, true)
    }

    /// The chain of steps to the first input; with `through_sums`, what is added on the way is left out.
    fn chain(&self, name: &dyn Fn(usize) -> Option<String>, through_sums: bool) -> Vec<String> {
        let mut steps = Vec::new();
        let mut program = self;
        // Backwards.
        loop {
            if let (Step::Sum(first, _), true) = (&program.step, through_sums) {
                program = first;
                continue;
            }
            steps.extend(program.step_text(name));
            let Some(before) = program.chained() else { break };
            program = before;
        }
        steps.reverse();
        steps
    }

    /// What the last step is done to, unless its text names that.
    fn chained(&self) -> Option<&Self> {
        match self.step {
            Step::Sum(..) | Step::LowRank { .. } => None,
            _ => self.before().into_iter().next(),
        }
    }

    /// The last step; nothing for an input.
    fn step_text(&self, name: &dyn Fn(usize) -> Option<String>) -> Option<String> {
        Some(match &self.step {
            Step::Input { .. } => return None,
            Step::Constant(values) => format!("{} numbers", values.len()),
            Step::Known(_) => format!("known {} {:?}", self.dtype(), self.shape()),
            Step::Retype(_) => format!("as {} {:?}", self.dtype(), self.shape()),
            Step::Reshape(_) => format!("reshape {:?}", self.shape()),
            Step::Permute { axes, .. } if axes[..] == [1, 0] => "transpose".to_owned(),
            Step::Permute { axes, .. } => {
                let axes: Vec<String> = axes.iter().map(usize::to_string).collect();
                format!("permute {}", axes.join(" "))
            }
            Step::Slice { axis, start, .. } => {
                let len = self.shape().get(*axis).copied().unwrap_or_default();
                format!("slice {start}..{} of dimension {axis}", start.saturating_add(len))
            }
            Step::Concat { parts, axis } => format!("concatenate {} along dimension {axis}", parts.len()),
            Step::Plus { number, .. } => format!("add {number}"),
            Step::Times { number, .. } => format!("multiply by {number}"),
            Step::Sum(a, b) => format!("({}) + ({})", a.text(name), b.text(name)),
            Step::Cast(_) => format!("cast {}", self.dtype()),
            Step::Dequantize(_) => format!("dequantize {}", self.dtype()),
            Step::Quantize(_, None) => format!("quantize {}", self.dtype()),
            Step::Quantize(_, Some(_)) => format!("quantize {} by importance", self.dtype()),
            Step::Unpack { packing, .. } => packing.to_string(),
            Step::Pack(_) => "pack 4 bits".to_owned(),
            Step::AtMost { most, .. } => format!("at most {most}"),
            Step::Lookup { table, .. } => format!("look up in {}", Named(&table.text(name), table.shape())),
            Step::Scale { scales, scaling, by, .. } => {
                let blocks: Vec<String> = scaling.blocks().map(|block| block.to_string()).collect();
                let blocks = match &blocks[..] {
                    _ if scaling.is_by_column() => " by groups of columns".to_owned(),
                    _ if scaling.is_in_blocks() => format!(" in blocks of {}", blocks.join(" × ")),
                    _ => String::new(),
                };
                let verb = match by {
                    By::Times => "scale by",
                    By::Minus => "subtract",
                    By::Over => "divide by",
                };
                format!("{verb} {}{blocks}", Named(&scales.text(name), scales.shape()))
            }
            Step::Affine { .. } => "scale × (number − zero point)".to_owned(),
            Step::LowRank { tall, wide, number } => {
                let product = format!("({}) × ({})", tall.text(name), wide.text(name));
                if number.to_bits() == 1.0_f32.to_bits() { product } else { format!("{product} × {number}") }
            }
        })
    }

    /// The first input and the steps that follow.
    fn text(&self, name: &dyn Fn(usize) -> Option<String>) -> String {
        let mut first = self;
        while let Some(before) = first.chained() {
            first = before;
        }
        let input = match first.step {
            Step::Input { number, .. } => name(number),
            _ => None,
        };
        input.into_iter().chain(self.steps(name)).collect::<Vec<_>>().join(", ")
    }
}

/// The name of scales, or their shape if it is not known.
struct Named<'a>(&'a str, &'a [u64]);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self("", shape) => write!(f, "a tensor of shape {shape:?}"),
            Self(name, _) if name.contains(", ") => write!(f, "({name})"),
            Self(name, _) => f.write_str(name),
        }
    }
}

/// Prints the steps in the order in which they are done, such as `transpose, cast f32, add 1`. An input that is unchanged prints
/// nothing; of a concatenation, only what is done to the first tensor is printed.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.steps(&|_| None).join(", "))
    }
}
