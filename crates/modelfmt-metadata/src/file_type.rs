//! Sets the keys of GGUF that say how a model is quantized, `general.file_type` and
//! `general.quantization_version`, in the same way as llama.cpp.

use modelfmt_core::DType;
use modelfmt_core::value::{Object, Value};

use modelfmt_model::job::tensors::{Item, OutputTensors};
use modelfmt_rules::options::ConvertOptions;
use modelfmt_rules::options::rules::{Quantization, TypeChange, TypeRule};

/// The key of the number.
pub const FILE_TYPE: &str = "general.file_type";
const VERSION: &str = "general.quantization_version";

/// ggml's `GGML_QNT_VERSION`.
const QUANTIZATION_VERSION: u32 = 2;

/// Sets both keys in the metadata of a GGUF file. A key that is no longer true is removed, with a note.
pub(crate) fn state(
    keys: &mut Object,
    options: &ConvertOptions,
    tensors: &OutputTensors,
    notes: &mut Vec<String>,
) {
    let is_given = |key: &str| options.metadata.set.as_ref().is_some_and(|given| given.contains_key(key));
    let stated = keys.get(FILE_TYPE).and_then(|key| key.get("value")?.as_u64());
    // A key that is set again moves to the end, as in llama.cpp.
    let mut put = |key: &str, number: u32| {
        if !is_given(key) {
            keys.remove(key);
            keys.insert(key, Object::from_iter([("type", Value::from("u32")), ("value", number.into())]));
        }
    };
    if !tensors.blocks.is_empty() {
        if options.types.rules.iter().any(|rule| rule.blocks().is_some()) {
            put(VERSION, QUANTIZATION_VERSION);
            if let Some(number) = quantized(options) {
                put(FILE_TYPE, number);
            } else if let Some(number) = stated.and_then(|stated| partly_quantized(options, tensors, stated))
            {
                match number {
                    Some(number) => put(FILE_TYPE, number),
                    None if is_given(FILE_TYPE) => {}
                    None => {
                        keys.remove(FILE_TYPE);
                        notes.push(format!("{FILE_TYPE} is left out: types of tensors have changed"));
                    }
                }
            }
        }
        return;
    }
    let is_changed = |item: &Item| item.from != item.to;
    if !tensors.items.iter().any(is_changed) {
        return;
    }
    if keys.contains_key(FILE_TYPE) && !is_given(FILE_TYPE) {
        keys.remove(FILE_TYPE);
        match floats(options) {
            Some(number) => {
                let value = Object::from_iter([("type", Value::from("u32")), ("value", number.into())]);
                keys.insert(FILE_TYPE, value);
            }
            None => notes.push(format!("{FILE_TYPE} is left out: types of tensors have changed")),
        }
    }
    if !is_given(VERSION) && keys.remove(VERSION).is_some() {
        notes.push(format!("{VERSION} is left out: no tensor is quantized any more"));
    }
}

/// Returns the number of the file type that a rule for all tensors quantizes to.
fn quantized(options: &ConvertOptions) -> Option<u32> {
    let rules = options.types.rules.iter().rev().filter(|rule| rule.glob.is_none());
    of_blocks(rules.filter_map(TypeRule::blocks).next()?)
}

/// Returns the number of the file type if only rules for some tensors quantize: the float type of the others,
/// or, if no tensor has it any more, the block type of most values, which may have no number. `None` if the
/// stated number stays.
fn partly_quantized(options: &ConvertOptions, tensors: &OutputTensors, stated: u64) -> Option<Option<u32>> {
    const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
    let is_left = |number: u32| tensors.items.iter().any(|item| of_floats(item.to) == Some(number));
    let stated = FLOATS.into_iter().filter_map(of_floats).find(|number| u64::from(*number) == stated)?;
    let float = floats(options).unwrap_or(stated);
    if is_left(float) {
        return (float != stated).then_some(Some(float));
    }
    let (dtype, _) = tensors.blocks.iter().max_by_key(|(_, elements)| **elements)?;
    Some(of_blocks(Quantization::Type(*dtype)))
}

fn of_blocks(quantization: Quantization) -> Option<u32> {
    match quantization {
        Quantization::Preset(preset) => Some(preset.file_type()),
        // llama.cpp takes these names for the middle presets.
        Quantization::Type(DType::Q3K) => Some(modelfmt_rules::presets::Preset::Q3KM.file_type()),
        Quantization::Type(DType::Q4K) => Some(modelfmt_rules::presets::Preset::Q4KM.file_type()),
        Quantization::Type(DType::Q5K) => Some(modelfmt_rules::presets::Preset::Q5KM.file_type()),
        Quantization::Type(dtype) => {
            let preset = modelfmt_rules::presets::Preset::ALL
                .iter()
                .find(|preset| preset.base() == dtype && preset.name().starts_with("mostly_"));
            preset.map(|preset| preset.file_type())
        }
    }
}

/// Returns the number of the float file type that a rule for all tensors casts or decodes to.
fn floats(options: &ConvertOptions) -> Option<u32> {
    let rules =
        || options.types.rules.iter().rev().filter(|rule| rule.glob.is_none()).map(TypeRule::effective);
    let cast = |change| if let TypeChange::Cast(dtype) = change { Some(dtype) } else { None };
    let decoded = |change| if let TypeChange::Dequantize(dtype) = change { Some(dtype) } else { None };
    of_floats(rules().find_map(cast).or_else(|| rules().find_map(decoded))?)
}

/// Returns llama.cpp's number (`llama_ftype`) for a model most of whose values have this float type.
#[must_use]
pub const fn of_floats(dtype: DType) -> Option<u32> {
    match dtype {
        DType::F32 => Some(0),
        DType::F16 => Some(1),
        DType::BF16 => Some(32),
        _ => None,
    }
}
