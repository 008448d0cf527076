//! The keys that formats require, and the sources of a model's names.

use std::path::Path;

use modelfmt_core::value::{Object, Value};

use modelfmt_model::formats::Format;
use modelfmt_model::formats::capabilities::{MetadataSchema, SetNaming};
use modelfmt_model::model::Model;

/// Keys that AERO, APR and APR2 require and that a model from another format does not have
/// (docs/formats/conversion.md#names-that-formats-ask-for).
pub(crate) const AERO_KEYS: &[&str] = &["model_name", "architecture"];
pub(crate) const APR_KEYS: &[&str] = &["model_type"];
pub(crate) const APR2_KEYS: &[&str] = &["apr_version", "model_type", "architecture"];

/// Keys of a tokenizer, without which aprender's programs do not run a model. An APR gets them if there are
/// files of a tokenizer beside the model.
const APR_TOKENIZER_KEYS: &[&str] =
    &["tokenizer.vocabulary", "tokenizer.vocab_size", "tokenizer.merges", "tokenizer.model_type"];

/// Returns the keys that formats with this JSON metadata require.
pub(crate) const fn required_keys(schema: MetadataSchema) -> &'static [&'static str] {
    match schema {
        MetadataSchema::Aero => AERO_KEYS,
        MetadataSchema::Apr2 => APR2_KEYS,
        MetadataSchema::Apr => APR_KEYS,
    }
}

/// Checks whether some format requires the key, so that a conversion may add or replace it.
pub(crate) fn is_required_key(key: &str) -> bool {
    AERO_KEYS.iter().chain(APR2_KEYS).chain(APR_TOKENIZER_KEYS).any(|required| *required == key)
}

pub(crate) fn is_same_family(a: Format, b: Format) -> bool {
    let schema = |format: Format| format.properties().schema;
    a == b || schema(a).is_some_and(|known| schema(b) == Some(known))
}

/// Checks whether this value is the placeholder that a conversion writes under a required key if it knows no
/// value (docs/formats/conversion.md#names-that-formats-ask-for).
pub(crate) fn is_placeholder(key: &str, value: &Value) -> bool {
    match key {
        "apr_version" => value.as_str() == Some(APR_VERSION),
        "architecture" if value.as_object().is_some_and(Object::is_empty) => true,
        "architecture" | "model_type" => value.as_str() == Some(UNKNOWN),
        "model_name" => value.as_str() == Some(NO_STEM),
        _ => false,
    }
}

/// Checks whether a conversion writes this value under a required key if the model does not have the key.
pub(crate) fn is_added(key: &str, value: &Value, keys: &Object, known: &KnownNames) -> bool {
    if is_placeholder(key, value) {
        return true;
    }
    let Some(text) = value.as_str() else { return false };
    let of_key = |key: &str| keys.get(key).and_then(Value::as_str);
    let is_said = |names: [Option<&str>; 5]| names.contains(&Some(text));
    let KnownNames { own, config, stem } = known;
    match key {
        "model_name" => {
            is_said([own.name.as_deref(), config.name.as_deref(), of_key("general.name"), Some(stem), None])
        }
        "architecture" | "model_type" => is_said([
            own.architecture.as_deref(),
            config.architecture.as_deref(),
            of_key("general.architecture"),
            of_key("architecture"),
            of_key("model_type"),
        ]),
        _ => false,
    }
}

/// The value of a required key that the source does not have.
pub(crate) const UNKNOWN: &str = "unknown";
/// The reason for [`UNKNOWN`], as part of a note.
pub(crate) const NOT_STATED: &str = "because the source does not say";
/// The same reason, if there is a config.json that is ignored.
pub(crate) const NOT_COVERED: &str = "because the source does not say, and the pin or the signature does not cover the config.json beside the file";
/// The origin of a value from a config.json, as part of a note.
pub const FROM_CONFIG: &str = "from the config.json beside the file";
pub(crate) const APR_VERSION: &str = "2.0.0";

/// The names of a model that formats require.
#[derive(Clone, Debug)]
pub(crate) struct ModelNames {
    pub(crate) name: Option<String>,
    pub(crate) architecture: Option<String>,
}

/// The names of a model, by their source.
#[derive(Clone, Debug)]
pub(crate) struct KnownNames {
    /// The names in the model itself.
    pub(crate) own: ModelNames,
    /// The names in a config.json beside the model.
    pub(crate) config: ModelNames,
    /// The name of the file without its ending.
    pub(crate) stem: String,
}

/// The stem for a model whose file has no name, such as standard input.
pub(crate) const NO_STEM: &str = "model";

/// Returns the name of a model's file without its ending. For a GGUF split also without its number, such as
/// `-00001-of-00003`.
pub fn stem_of(model: &Model) -> &str {
    let stem = stem(model.path());
    let split = stem.rsplit_once("-of-").and_then(|(rest, _)| Some(rest.rsplit_once('-')?.0));
    split
        .filter(|stem| model.format().properties().set_naming == SetNaming::Numbered && !stem.is_empty())
        .unwrap_or(stem)
}

/// Returns the name of a file without its ending.
pub fn stem(path: &Path) -> &str {
    const ENDINGS: [&str; 2] = [".aeroset.json", ".safetensors.index.json"];
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.filter(|&name| name != "-").unwrap_or(NO_STEM); // standard input has no name
    let known = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending));
    let stem = || Path::new(name).file_stem().and_then(|stem| stem.to_str());
    known.filter(|stem| !stem.is_empty()).or_else(stem).unwrap_or(NO_STEM)
}
