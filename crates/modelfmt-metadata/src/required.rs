//! Fills in the keys that AERO, APR and APR2 require: from the options, or else from the source
//! (docs/formats/conversion.md#names-that-formats-ask-for).

use modelfmt_core::value::{Object, Value, json};

use super::names::{APR_VERSION, FROM_CONFIG, ModelNames, NO_STEM, UNKNOWN};
use super::reserved::Changes;
use modelfmt_model::formats::Format;
use modelfmt_model::formats::capabilities::{Metadata as Kind, MetadataSchema};
use modelfmt_rules::options::{ConvertOptions, MetadataOptions};

/// The values that are known for required keys.
pub(crate) struct RequiredKeys<'a> {
    pub(crate) source: Format,
    /// Names in the source outside of its keys.
    pub(crate) names: ModelNames,
    /// Names in a config.json beside the source, which are the last choice.
    pub(crate) config: ModelNames,
    /// The reason to state if the value is in neither.
    pub(crate) not_stated: &'static str,
    /// The required keys that a model with typed metadata has.
    pub(crate) typed: Object,
    pub(crate) options: &'a ConvertOptions,
    pub(crate) stem: &'a str,
}

impl RequiredKeys<'_> {
    /// Sets the keys from the options, and the keys that the target requires and that are missing or have another kind of value.
    pub(crate) fn fill(&self, target: Format, keys: &mut Object, notes: &mut Vec<String>) -> Changes {
        let mut changes = Changes::default();
        let known = target.properties().schema;
        let (is_apr, is_apr2) = (known == Some(MetadataSchema::Apr), known == Some(MetadataSchema::Apr2));
        let MetadataOptions { model_name, architecture, model_type, .. } = &self.options.metadata;
        let text = |value: &Option<String>| value.as_deref().map(Value::from);
        let architecture_value = |text| if is_apr2 { object_of(text) } else { Value::from(text) };
        let given = [
            (if is_apr { "name" } else { "model_name" }, text(model_name)),
            ("architecture", architecture.as_deref().map(architecture_value)),
            ("model_type", text(model_type)),
        ];
        let found =
            self.own_architecture(keys, if is_apr || is_apr2 { "architecture" } else { "model_type" });
        for (key, value) in given.into_iter().filter_map(|(key, value)| Some((key, value?))) {
            keys.insert(key, value);
        }
        let mut lacks = |key: &str, is_good: fn(&Value) -> bool, value: Value, note: Option<&str>| {
            let there = keys.get(key).or(self.typed.get(key));
            if keys.get(key).is_some_and(is_good) {
                return;
            }
            if let Some(own) = self.typed.get(key).filter(|own| is_good(own) && own.is_json()) {
                return changes.set(keys, key, own.clone());
            }
            // `--metadata` replaces this value later.
            let is_given = self.options.metadata.set.as_ref().is_some_and(|given| given.contains_key(key));
            let other = there.map(|_| "because the format asks for another kind of value than there is");
            if let Some(note) = other.or(note).filter(|_| !is_given) {
                let text = json::to_string(&value).unwrap_or_default();
                notes.push(format!("{key} is {text}, {note}"));
            }
            changes.set(keys, key, value);
        };
        let is_text = |value: &Value| value.as_str().is_some();
        let note = match (&found, &self.config.architecture) {
            (Some(_), _) => None,
            (None, Some(_)) => Some(FROM_CONFIG),
            (None, None) => Some(self.not_stated),
        };
        let found = found.or_else(|| self.config.architecture.clone()).unwrap_or_else(|| UNKNOWN.to_owned());
        if is_apr2 {
            let plain = architecture.clone().filter(|text| json::parse_object(text.as_bytes()).is_err());
            let note = note.filter(|_| plain.is_none());
            let is_architecture = |value: &Value| matches!(value, Value::Object(_) | Value::String(_));
            lacks("apr_version", is_text, APR_VERSION.into(), None);
            lacks("model_type", is_text, plain.unwrap_or(found).into(), note);
            lacks("architecture", is_architecture, Object::new().into(), None);
        } else if is_apr {
            lacks("model_type", is_text, architecture.clone().unwrap_or(found).into(), note);
        } else if known.is_some() {
            let (name, from) = self.name();
            lacks("model_name", |_| true, name.into(), from);
            lacks("architecture", |_| true, found.into(), note);
        }
        changes
    }

    /// Returns the model's name, and where it comes from if the source itself does not have it.
    pub(crate) fn name(&self) -> (&str, Option<&'static str>) {
        match (&self.names.name, &self.config.name) {
            (Some(name), _) => (name, None),
            (None, Some(name)) => (name, Some(FROM_CONFIG)),
            // Standard input has no name.
            (None, None) if self.stem == NO_STEM => (self.stem, Some(self.not_stated)),
            (None, None) => (self.stem, Some("taken from the file name")),
        }
    }

    /// Returns a known name of the architecture: `names.architecture` or the text under `key`. The former
    /// takes precedence for GGUF, the latter for other formats.
    fn own_architecture(&self, keys: &Object, key: &str) -> Option<String> {
        let there = keys.get(key).and_then(Value::as_str).map(str::to_owned);
        let found = self.names.architecture.clone();
        if self.source.capabilities().metadata == Kind::TypedLists {
            found.or(there)
        } else {
            there.or(found)
        }
    }

    /// Returns the name of the architecture for AERO's manifest, and whether it is from a config.json. In the
    /// metadata, the key may be an object.
    pub(crate) fn architecture(&self, keys: &Object) -> (String, bool) {
        let there = keys.get("architecture").and_then(Value::as_str).map(str::to_owned);
        let found = there.or_else(|| self.own_architecture(keys, "model_type"));
        let is_from_config = found.is_none() && self.config.architecture.is_some();
        let found = found.or_else(|| self.config.architecture.clone()).unwrap_or_else(|| UNKNOWN.to_owned());
        (found, is_from_config)
    }
}

/// Converts the value of `--architecture` for APR2: an object from its text, or a name, which becomes an
/// object.
fn object_of(text: &str) -> Value {
    let named = || Object::from_iter([("name", text)]);
    json::parse_object(text.as_bytes()).unwrap_or_else(|_| named()).into()
}
