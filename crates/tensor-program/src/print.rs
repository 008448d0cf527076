//! Programs as text.

use std::fmt;

use crate::Program;
use crate::program::Step;
use crate::scaling::ScaleOp;

impl Program {
    /// Lists the steps in the order in which they are done, such as `transpose`, `cast f32`, `add 1`. A step
    /// that takes several tensors prints the names of the others, as far as `name` knows the inputs.
    #[must_use]
    pub fn steps(&self, name: &dyn Fn(usize) -> Option<String>) -> Vec<String> {
        self.chain(name, false)
    }

    /// Lists the steps that are done to the first tensor, without sums with other tensors. No input is named.
    #[must_use]
    pub fn steps_of_first(&self) -> Vec<String> {
        self.chain(&|_| None, true)
    }

    /// Lists the steps from the first input on. With `through_sums`, tensors added on the way are left out.
    fn chain(&self, name: &dyn Fn(usize) -> Option<String>, through_sums: bool) -> Vec<String> {
        let mut steps = Vec::new();
        let mut program = self;
        // From the last step to the first.
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

    /// Returns the program to which the last step is applied, unless the step's text includes it.
    fn chained(&self) -> Option<&Self> {
        match self.step {
            Step::Sum(..) | Step::LowRank { .. } => None,
            _ => self.before().into_iter().next(),
        }
    }

    /// Returns the text of the last step, or `None` for an input.
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
            Step::Scale { scales, scaling, op, .. } => {
                let blocks: Vec<String> = scaling.blocks().map(|block| block.to_string()).collect();
                let blocks = match &blocks[..] {
                    _ if scaling.is_by_column() => " by groups of columns".to_owned(),
                    _ if scaling.is_in_blocks() => format!(" in blocks of {}", blocks.join(" × ")),
                    _ => String::new(),
                };
                let verb = match op {
                    ScaleOp::Times => "scale by",
                    ScaleOp::Minus => "subtract",
                    ScaleOp::Over => "divide by",
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

    /// Returns the first input and the steps that follow it.
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

/// The name of a tensor of scales, or its shape if the name is not known.
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

/// Prints the steps in the order in which they are done, such as `transpose, cast f32, add 1`. An unchanged
/// input prints nothing. Of a concatenation, only the steps of the first tensor are printed.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.steps(&|_| None).join(", "))
    }
}
