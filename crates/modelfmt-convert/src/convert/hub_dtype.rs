//! The dtype in the config.json of a hub folder. Loaders cast the weights to it, so it must match the
//! converted weights.

use std::collections::BTreeMap;

use modelfmt_core::DType;
use modelfmt_rules::wording::Note;
use modelfmt_write::TensorSpec;

use super::nbytes_of;

/// The file that states the dtype.
const CONFIG: &str = "config.json";
/// The keys of the dtype: the older one, and the newer one.
const KEYS: [&str; 2] = ["\"torch_dtype\"", "\"dtype\""];
/// The dtypes that loaders cast to, with the names that loaders use.
const DTYPES: [(DType, &str); 4] =
    [(DType::F16, "float16"), (DType::BF16, "bfloat16"), (DType::F32, "float32"), (DType::F64, "float64")];

/// Finds the dtype of most of the weights and writes it into the config.json among `files`. Returns a note if
/// the file stated another dtype.
pub(super) fn update_dtype<'a>(
    files: &mut [(String, Vec<u8>)],
    tensors: impl Iterator<Item = TensorSpec<'a>>,
) -> Option<Note> {
    let mut nbytes: BTreeMap<&str, u64> = BTreeMap::new();
    for spec in tensors {
        if let Some((_, name)) = DTYPES.iter().find(|(dtype, _)| *dtype == spec.dtype) {
            let sum = nbytes.entry(name).or_default();
            *sum = sum.saturating_add(nbytes_of(&spec));
        }
    }
    let (&most, _) = nbytes.iter().max_by_key(|(_, nbytes)| **nbytes)?;
    let (_, bytes) = files.iter_mut().find(|(name, _)| name == CONFIG)?;
    let (text, was) = replaced(std::str::from_utf8(bytes).ok()?, most)?;
    *bytes = text.into_bytes();
    Some(Note::from(format!("{CONFIG} states {most} now, as most of the weights are, and not {was}")))
}

/// Replaces every dtype in the text with `dtype`. Returns the new text and the last dtype that was different;
/// `None` if nothing was different.
fn replaced(config: &str, dtype: &str) -> Option<(String, String)> {
    let (mut text, mut was) = (config.to_owned(), None);
    for key in KEYS {
        let mut at = 0;
        while let Some(found) = text.get(at..).and_then(|rest| rest.find(key)) {
            at = at.saturating_add(found).saturating_add(key.len());
            let rest = text.get(at..)?;
            let value = rest.trim_start().strip_prefix(':').map(str::trim_start);
            let Some(value) = value.and_then(|value| value.strip_prefix('"')) else { continue };
            let Some((stated, _)) = value.split_once('"') else { continue };
            if stated == dtype || !DTYPES.iter().any(|(_, name)| *name == stated) {
                continue;
            }
            let start = text.len().saturating_sub(value.len());
            let end = start.saturating_add(stated.len());
            was = Some(stated.to_owned());
            text.replace_range(start..end, dtype);
        }
    }
    Some((text, was?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dtypes_that_are_stated_are_replaced() {
        for (config, expected) in [
            (r#"{"torch_dtype": "bfloat16", "a": 1}"#, Some(r#"{"torch_dtype": "float16", "a": 1}"#)),
            (
                r#"{"dtype":"float32","text_config":{"dtype" : "bfloat16"}}"#,
                Some(r#"{"dtype":"float16","text_config":{"dtype" : "float16"}}"#),
            ),
            (r#"{"torch_dtype": "float16"}"#, None),
            (r#"{"torch_dtype": null, "dtype": "auto", "x": "dtype"}"#, None),
            (r#"{"torch_dtype"#, None),
        ] {
            assert_eq!(replaced(config, "float16").map(|(text, _)| text).as_deref(), expected, "{config}");
        }
    }
}
