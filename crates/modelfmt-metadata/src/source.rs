//! The metadata of a source, in a form for all formats.

use modelfmt_core::value::{Object, Value, json};

use super::names::{ModelNames, UNKNOWN};
use super::non_finite;
use super::reserved::{self, Reserved};
use modelfmt_model::error::Result;
use modelfmt_model::formats::Format;
use modelfmt_model::formats::capabilities::{Metadata as Kind, MetadataSchema};
use modelfmt_model::model::Model;
use modelfmt_rules::options::ConvertOptions;
use modelfmt_rules::wording::unsupported::Unsupported;

/// The metadata of a source.
pub struct Content {
    /// The format of the source, which is not always the model's original format.
    pub(crate) format: Format,
    /// Whether the metadata has value types that only this format has. For MAG, that depends on the version.
    pub(crate) is_native: bool,
    /// Keys at top level, for formats whose metadata is a JSON object or strings.
    pub(crate) keys: Object,
    /// The reserved object of the source, or what it would contain if the source's metadata is not a JSON object.
    pub reserved: Option<Reserved>,
    /// Parts that no target can hold.
    pub(crate) losses: Vec<Unsupported>,
    /// Parts that only a file of the same format can hold.
    pub(crate) own: Vec<Unsupported>,
    /// Parts that only a set of the same format can hold.
    pub(crate) own_set: Vec<Unsupported>,
    /// The model's name and architecture, from the source outside of `keys`.
    pub(crate) names: ModelNames,
    /// The model's name and architecture, from a config.json beside the source.
    pub(crate) config: ModelNames,
    /// Whether there is a config.json that is ignored, because the requested pin or signature does not cover
    /// it or a policy refuses it.
    pub(crate) is_config_ignored: bool,
    /// Members of AERO's manifest that are not made again for a new file.
    pub(crate) manifest: Object,
    /// Whether the model was an AERO file whose shapes are in ggml's order, according to `source_format`. The shapes have been
    /// reversed, so the output does not have that value at top level.
    pub(crate) shapes_reversed: bool,
    /// Keys whose values are the original ones again, while the file has them in another form.
    pub(crate) restored: Vec<String>,
    /// Notes for the user.
    pub(crate) notes: Vec<String>,
    /// Keys that the target gets if the source does not have them, because its programs ask for them.
    pub(crate) asked_for: Vec<(String, Value)>,
}

impl Content {
    /// Makes the content of a file of this format from its keys.
    pub fn new(format: Format, keys: Object) -> Self {
        Self {
            format,
            is_native: false,
            keys,
            reserved: None,
            losses: Vec::new(),
            own: Vec::new(),
            own_set: Vec::new(),
            manifest: Object::new(),
            names: ModelNames { name: None, architecture: None },
            config: ModelNames { name: None, architecture: None },
            is_config_ignored: false,
            shapes_reversed: false,
            restored: Vec::new(),
            notes: Vec::new(),
            asked_for: Vec::new(),
        }
    }

    /// Adds keys that the target gets if the source does not have them, because its programs ask for them.
    #[must_use]
    pub fn asked_for(mut self, keys: Vec<(String, Value)>) -> Self {
        self.asked_for = keys;
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn noted(mut self, note: Option<String>) -> Self {
        self.notes.extend(note);
        self
    }

    /// Reads the metadata of a model.
    ///
    /// # Errors
    /// If the metadata does not decode, or a file of a set is missing.
    pub fn read(model: &Model) -> Result<Self> {
        Self::read_for(model, &ConvertOptions::default())
    }

    /// Reads the metadata of a model; for a model merged from several, their joined metadata. `options` say which keys the caller
    /// gives.
    pub fn read_for(model: &Model, options: &ConvertOptions) -> Result<Self> {
        let mut all: Option<Self> = None;
        let mut tensors = 0u64;
        for member in model.members() {
            let content = Self::read_one(member)?;
            match &mut all {
                None => all = Some(content),
                Some(all) => all.join(content, member.path(), tensors, options),
            }
            tensors = tensors.saturating_add(member.tensor_count() as u64);
        }
        let mut all = all.unwrap_or_else(|| Self::new(model.format(), Object::new()));
        if model.is_merged() {
            all.losses.append(&mut all.own_set);
        }
        Ok(all)
    }

    fn read_one(model: &Model) -> Result<Self> {
        let format = model.format();
        let common = model.common_metadata()?;
        let mut content = Self {
            is_native: common.native.is_some(),
            losses: common.losses,
            own: common.own,
            own_set: common.own_set,
            manifest: common.manifest,
            names: ModelNames { name: common.name, architecture: common.architecture },
            shapes_reversed: common.shapes_reversed,
            ..Self::new(format, common.keys)
        };
        content.reserved = match (common.native, common.types, common.files) {
            (Some(metadata), _, _) => Some(native(model, metadata)?),
            (None, Some(types), _) => Some(Reserved::with_hints(format, types.into())),
            (None, None, Some(files)) => Some(Reserved { files, ..Reserved::new(format) }),
            (None, None, None) if format.capabilities().metadata == Kind::Numbers => {
                Some(Reserved { is_object: true, ..Reserved::new(format) })
            }
            (None, None, None) => None,
        };
        if format.capabilities().metadata == Kind::TypedLists {
            for (key, _) in content.keys.iter().filter(|(_, value)| !value.is_json()) {
                content.notes.push(format!("metadata key {key:?}: {}", non_finite::NOTE));
            }
        }
        content.take_reserved();
        content.name_itself();
        #[cfg(not(target_arch = "wasm32"))]
        {
            content.config = super::config::names(model, &mut content.notes);
            content.is_config_ignored = super::config::is_ignored(model);
        }
        Ok(content)
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn key(&self, key: &str) -> Option<&Value> {
        self.keys.get(key)
    }

    /// Returns the name of the architecture: from the options, or else the source, or else a config.json
    /// beside it.
    pub fn architecture<'a>(&'a self, options: &'a ConvertOptions) -> Option<&'a str> {
        self.own_architecture(options).or(self.config.architecture.as_deref())
    }

    /// Returns the name of the architecture, if it is from a config.json.
    pub fn architecture_of_config(&self, options: &ConvertOptions) -> Option<&str> {
        self.config.architecture.as_deref().filter(|_| self.own_architecture(options).is_none())
    }

    fn own_architecture<'a>(&'a self, options: &'a ConvertOptions) -> Option<&'a str> {
        let key = |key| self.keys.get(key).and_then(Value::as_str);
        let given = options.metadata.architecture.as_deref().or(options.metadata.model_type.as_deref());
        let stated = given.or(self.names.architecture.as_deref()).filter(|name| *name != UNKNOWN);
        let keys = ["general.architecture", "architecture", "model_type"].into_iter();
        stated.or_else(|| keys.filter_map(key).find(|name| *name != UNKNOWN))
    }

    fn take_reserved(&mut self) {
        let found = match self.keys.get(reserved::KEY) {
            // With `stringify`, safetensors has GGUF's values as text, and also the reserved object.
            Some(Value::String(text)) if self.format.capabilities().metadata == Kind::Strings => {
                let parsed = json::parse(text.as_bytes()).ok();
                parsed.as_ref().and_then(Reserved::parse).filter(|reserved| !reserved.hints.is_empty())
            }
            other => other.and_then(Reserved::parse),
        };
        let Some(mut reserved) = found else { return };
        self.keys.remove(reserved::KEY);
        let is_aero = reserved.format.properties().schema == Some(MetadataSchema::Aero);
        let unreadable = reserved.format.fns().and_then(|fns| fns.unreadable);
        self.shapes_reversed |=
            is_aero && unreadable.is_some_and(|unreadable| !unreadable(&reserved.aside).is_empty());
        for (key, value) in std::mem::take(&mut reserved.aside) {
            // A key that is at top level already takes precedence.
            if !self.keys.contains_key(&key) {
                self.keys.insert(key, value);
            }
        }
        self.restored = super::typed_lists::restore(&mut self.keys, &mut reserved.hints, reserved.format);
        non_finite::restore(&mut self.keys, &reserved.floats);
        self.reserved = Some(reserved);
    }

    /// Takes the names from typed metadata, under the keys that other formats require.
    fn name_itself(&mut self) {
        let Some(reserved) = &self.reserved else { return };
        let text = |key| reserved.metadata.get(key)?.to_plain().as_str().map(str::to_owned);
        if self.names.name.is_none() {
            self.names.name = text("model_name");
        }
        if self.names.architecture.is_none() {
            self.names.architecture = text("architecture").or_else(|| text("model_type"));
        }
    }
}

/// Returns the reserved object for a source whose metadata has value types that only its format has.
fn native(model: &Model, metadata: Object) -> Result<Reserved> {
    let (sizevars, quants) = (model.sizevars(), crate::quants::read(model)?);
    Ok(Reserved { metadata, sizevars, quants, ..Reserved::new(model.format()) })
}

/// Returns the metadata as one flat list, from the reader of the format.
pub(crate) fn own_keys(model: &Model) -> Result<Object> {
    model.container().flat_metadata().map_err(|error| model.failed(error))
}
