//! The keys that formats ask for, and where the names of a model come from.

use std::path::Path;

use modelfmt_core::value::{Object, Value};

use modelfmt_model::formats::Format;
use modelfmt_model::formats::capabilities::{MetadataSchema, SetNaming};
use modelfmt_model::model::Model;

/// Keys that AERO, APR and APR2 ask for, of which a model that came from elsewhere knows nothing
/// (docs/formats/conversion.md#names-that-formats-ask-for).
pub(crate) const AERO_KEYS: &[&str] = &["model_name", "architecture"];
pub(crate) const APR_KEYS: &[&str] = &["model_type"];
pub(crate) const APR2_KEYS: &[&str] = &["apr_version", "model_type", "architecture"];

/// The keys that formats with this JSON metadata ask for.
pub(crate) const fn required_keys(schema: MetadataSchema) -> &'static [&'static str] {
    match schema {
        MetadataSchema::Aero => AERO_KEYS,
        MetadataSchema::Apr2 => APR2_KEYS,
        MetadataSchema::Apr => APR_KEYS,
    }
}

/// Whether the key is one that some format asks for, which a conversion may add or replace.
pub(crate) fn is_asked_for(key: &str) -> bool {
    AERO_KEYS.iter().chain(APR2_KEYS).any(|asked| *asked == key)
}

pub(crate) fn is_same_family(a: Format, b: Format) -> bool {
    let schema = |format: Format| format.properties().schema;
    a == b || schema(a).is_some_and(|known| schema(b) == Some(known))
}

/// Whether a conversion puts this value under a key that a format asks for where it knows nothing better
/// (docs/formats/conversion.md#names-that-formats-ask-for).
pub(crate) fn is_filler(key: &str, value: &Value) -> bool {
    match key {
        "apr_version" => value.as_str() == Some(APR_VERSION),
        "architecture" if value.as_object().is_some_and(Object::is_empty) => true,
        "architecture" | "model_type" => value.as_str() == Some(UNKNOWN),
        "model_name" => value.as_str() == Some(NO_STEM),
        _ => false,
    }
}

/// Whether a conversion puts this value under a key that a format asks for, of a model that does not have the key.
pub(crate) fn is_added(key: &str, value: &Value, keys: &Object, said: &KnownNames) -> bool {
    if is_filler(key, value) {
        return true;
    }
    let Some(text) = value.as_str() else { return false };
    let of_key = |key: &str| keys.get(key).and_then(Value::as_str);
    let is_said = |names: [Option<&str>; 5]| names.contains(&Some(text));
    let KnownNames { own, config, stem } = said;
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

/// What is where a source does not say what a format asks for.
pub(crate) const UNKNOWN: &str = "unknown";
/// Why it does.
pub(crate) const SILENT: &str = "because the source does not say";
/// The same, where a config.json may say and does not count.
pub(crate) const NOT_COVERED: &str = "because the source does not say, and the pin or the signature does not cover the config.json beside the file";
/// Where it is from a config.json.
pub const BESIDE: &str = "from the config.json beside the file";
pub(crate) const APR_VERSION: &str = "2.0.0";

/// The names of a model that formats ask for.
#[derive(Clone, Debug)]
pub(crate) struct ModelNames {
    pub(crate) name: Option<String>,
    pub(crate) architecture: Option<String>,
}

/// Where the names of a model come from.
#[derive(Clone, Debug)]
pub(crate) struct KnownNames {
    /// What it says itself.
    pub(crate) own: ModelNames,
    /// What a config.json beside it says.
    pub(crate) config: ModelNames,
    /// The name of its file, without the ending.
    pub(crate) stem: String,
}

/// The name of a model whose file has none.
pub(crate) const NO_STEM: &str = "model";

/// The name of a model's file without its ending, of a split also without what number it has of how many.
pub fn stem_of(model: &Model) -> &str {
    let stem = stem(model.path());
    let split = stem.rsplit_once("-of-").and_then(|(rest, _)| Some(rest.rsplit_once('-')?.0));
    split
        .filter(|stem| model.format().properties().set_naming == SetNaming::Numbered && !stem.is_empty())
        .unwrap_or(stem)
}

/// The name of a file without its ending.
pub fn stem(path: &Path) -> &str {
    const ENDINGS: [&str; 2] = [".aeroset.json", ".safetensors.index.json"];
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.filter(|&name| name != "-").unwrap_or(NO_STEM); // standard input has no name
    let known = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending));
    let stem = || Path::new(name).file_stem().and_then(|stem| stem.to_str());
    known.filter(|stem| !stem.is_empty()).or_else(stem).unwrap_or(NO_STEM)
}
