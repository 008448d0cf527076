//! How a model is quantized, according to its metadata and the files beside it.

#[cfg(not(target_arch = "wasm32"))]
use modelfmt_core::value::Object;
use modelfmt_core::value::{ParseOptions, Value, json};
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;

/// The value that says how a model is quantized, as written by the library that made the model; null if there
/// is none.
pub(super) struct QuantizationConfig {
    config: Value,
    /// Whether a config.json is ignored, because the pin or the signature does not cover it.
    is_ignored: bool,
}

/// Files that older libraries write instead of a part of config.json.
#[cfg(not(target_arch = "wasm32"))]
const OTHERS: &[&str] = &["quantize_config.json", "quant_config.json", "hf_quant_config.json"];

/// The maximum number of values in a file.
const MAX_NODES: u64 = 1 << 16;

impl QuantizationConfig {
    /// Reads the value from the metadata of the model, or the config.json beside it, or the file of an older
    /// library.
    pub(super) fn of(model: &Model) -> Result<Self> {
        if let Some(config) = within(&model.metadata()?) {
            return Ok(Self { config, is_ignored: false });
        }
        #[cfg(target_arch = "wasm32")]
        let is_ignored = false;
        #[cfg(not(target_arch = "wasm32"))]
        let is_ignored = model.members().any(crate::config::is_ignored);
        #[cfg(not(target_arch = "wasm32"))]
        for member in model.members() {
            let found = crate::config::read(member, &mut Vec::new()).as_ref().and_then(within);
            if let Some(config) = found.or_else(|| Self::other(member)) {
                return Ok(Self { config, is_ignored });
            }
        }
        Ok(Self { config: Value::Null, is_ignored })
    }

    /// Reads the value from the file of an older library. A file that cannot be read is ignored.
    #[cfg(not(target_arch = "wasm32"))]
    fn other(model: &Model) -> Option<Value> {
        const MAX_LEN: u64 = 1 << 20;
        OTHERS.iter().find_map(|name| {
            let text = crate::config::file(model.sidecars(), name, MAX_LEN).ok()??;
            let parsed = json::parse_with(&text, ParseOptions::new().with_max_nodes(MAX_NODES)).ok()?;
            let config = parsed.get("quantization").cloned().unwrap_or(parsed);
            // The name of the file implies the method.
            let mut config: Object = config.as_object().cloned()?;
            let method = match *name {
                "quantize_config.json" => "gptq",
                "quant_config.json" => "awq",
                _ => "modelopt",
            };
            if !config.contains_key("quant_method") {
                config.insert("quant_method", method);
            }
            Some(Value::Object(config))
        })
    }

    /// Returns the text under a key, in lower case.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.config.get(key)?.as_str().map(str::to_ascii_lowercase)
    }

    /// Returns the non-negative integer under a key.
    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.config.get(key)?.as_u64()
    }

    /// Checks whether the value under a key is true.
    pub(super) fn is_true(&self, key: &str) -> bool {
        matches!(self.config.get(key), Some(Value::Bool(true)))
    }

    /// Checks whether there is a value with this key, other than null and an empty object.
    pub(super) fn has(&self, key: &str) -> bool {
        match self.config.get(key) {
            None | Some(Value::Null) => false,
            Some(Value::Object(object)) => !object.is_empty(),
            Some(_) => true,
        }
    }

    /// Returns a number that compressed-tensors states for the weights of each group of layers: each value
    /// once, ascending.
    pub(super) fn of_groups(&self, key: &str) -> Vec<u64> {
        let groups = self.config.get("config_groups").and_then(Value::as_object);
        let values = groups.into_iter().flat_map(|groups| groups.values());
        let mut found: Vec<u64> =
            values.filter_map(|group| group.get("weights")?.get(key)?.as_u64()).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns the message for a missing value.
    pub(super) fn missing(&self, what: &str) -> String {
        let why = if self.is_ignored { ", which the pin or the signature does not cover" } else { "" };
        format!(
            "{what} is stated in quantization_config of the config.json beside the model{why}, and it is not there"
        )
    }
}

/// Returns the value within a config or within metadata, where it may be JSON text.
fn within(config: &Value) -> Option<Value> {
    const MAX_TEXT: usize = 1 << 20;
    let found = ["quantization_config", "compression_config"].iter().find_map(|key| {
        let text = config.get("text_config").and_then(|text| text.get(key));
        config.get(key).or(text).filter(|value| !matches!(value, Value::Null))
    })?;
    match found.as_str() {
        Some(text) if text.len() > MAX_TEXT => None,
        Some(text) => json::parse_with(text.as_bytes(), ParseOptions::new().with_max_nodes(MAX_NODES)).ok(),
        None => Some(found.clone()),
    }
}
