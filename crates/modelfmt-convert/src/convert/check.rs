//! Checks options without opening a file: the target must support them, and their values must be valid.

use std::fmt;

use modelfmt_core::DType;

use modelfmt_model::error::{Error, Result};
use modelfmt_model::formats::Format;
use modelfmt_model::formats::capabilities::Alignments;
use modelfmt_rules::options::ConvertOptions;
use modelfmt_rules::options::rules::{Quantization, TYPES, TypeChange, TypeRule, is_plain};
use modelfmt_rules::wording::Choice;
use modelfmt_rules::wording::Remedy;
use tensor_program::is_castable;

/// Fails for options that the target does not support, and for values that are never valid.
pub(super) fn check(options: &ConvertOptions, target: Format) -> Result<()> {
    if let Some(choice) = options.chosen().find(|choice| !target.takes(*choice)) {
        let is_for: Vec<Format> = Format::ALL.iter().copied().filter(|format| format.takes(choice)).collect();
        let why = format!("{target} does not have this option; it is for {}", List(&is_for, "and"));
        return Err(Error::usage(choice, why));
    }
    check_values(options)?;
    let alignments = target.properties().alignments;
    let is_alignment = |align: u32| match alignments {
        Alignments::PowersOfTwo => align.is_power_of_two(),
        Alignments::None | Alignments::Of32And64 => matches!(align, 32 | 64),
    };
    if let Some(align) = options.output.align.filter(|&align| !is_alignment(align)) {
        let good = if alignments == Alignments::PowersOfTwo { "a power of two" } else { "32 or 64 bytes" };
        return Err(Error::usage(Choice::Align, format!("tensors are aligned to {good}, not to {align}")));
    }
    if options.output.shard_size == Some(0) {
        return Err(Error::usage(Choice::ShardSize, "is 0; give a number of bytes, such as 2GiB"));
    }
    if options.output.shards.is_some() && options.output.shard_size.is_some() {
        return Err(Error::usage(
            Choice::Shards,
            "the size of the files follows from their number; give one of the two",
        ));
    }
    const MAX_RESERVE: u64 = 1 << 30;
    if options.output.reserve.is_some_and(|nbytes| nbytes > MAX_RESERVE) {
        return Err(Error::usage(Choice::Reserve, "a header has room for at most 1GiB"));
    }
    if options.aero.page_hashes == Some(0) {
        return Err(Error::usage(Choice::PageHashes, "pages have 1 byte or more; 4MiB is usual"));
    }
    Ok(())
}

/// Fails for dtypes that values cannot have, and for scales that no rule uses.
pub(super) fn check_values(options: &ConvertOptions) -> Result<()> {
    let dequantizes = |rule: &TypeRule| matches!(rule.change, TypeChange::Dequantize(_));
    if !options.types.scales.is_empty() && !options.types.rules.iter().any(dequantizes) {
        return Err(Error::usage(
            Choice::Scales,
            "it is used only when weights are dequantized, and no rule dequantizes",
        ));
    }
    if options.types.imatrix.is_some() && !options.types.rules.iter().any(|rule| rule.blocks().is_some()) {
        return Err(Error::usage(
            Choice::Imatrix,
            "it is used only when weights are quantized, and no rule quantizes",
        ));
    }
    options.types.rules.iter().try_for_each(check_rule)
}

/// Fails for a dtype that a rule cannot produce.
fn check_rule(rule: &TypeRule) -> Result<()> {
    let is_ggml = |dtype: DType| dtype.ggml_type().is_some() && ggml_quant::can_encode(dtype);
    let why = match rule.change {
        TypeChange::Dequantize(dtype) if !is_plain(dtype) => {
            format!("blocks are decoded to f32, f16 or bf16, not to {dtype}")
        }
        TypeChange::Quantize(Quantization::Type(dtype)) if !is_ggml(dtype) && !is_plain(dtype) => {
            format!("there is no encoder for {dtype}, only for {TYPES}")
        }
        TypeChange::Cast(dtype) if !is_castable(dtype) => format!(
            "values cannot be cast to {dtype}; they can to bool, integers such as i8 and floats such as bf16"
        ),
        _ => return Ok(()),
    };
    Err(Error::Usage { choice: rule.choice(), why, remedy: other_way(rule) })
}

/// Prints `a, b and c`.
struct List<'a, T>(&'a [T], &'static str);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(items, and) = self;
        for (i, item) in items.iter().enumerate() {
            match (i, i + 1 == items.len()) {
                (0, _) => write!(f, "{item}")?,
                (_, true) => write!(f, " {and} {item}")?,
                (_, false) => write!(f, ", {item}")?,
            }
        }
        Ok(())
    }
}

/// Returns the remedy for a cast to a block dtype, or for a quantization to a dtype of numbers.
fn other_way(rule: &TypeRule) -> Option<Remedy> {
    match rule.change {
        TypeChange::Cast(dtype) if ggml_quant::can_encode(dtype) && dtype.ggml_type().is_some() => {
            Some(Remedy::Quantize(dtype))
        }
        TypeChange::Quantize(Quantization::Type(dtype)) if is_castable(dtype) => {
            Some(Remedy::Cast { to: dtype, by_name: rule.glob.is_some() })
        }
        _ => None,
    }
}
