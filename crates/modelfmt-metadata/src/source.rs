//! What a source says besides its tensors, whatever its format.

use modelfmt_core::value::{Object, Value, json};

use super::names::{ModelNames, UNKNOWN};
use super::non_finite;
use super::reserved::{self, Reserved};
use modelfmt_model::error::Result;
use modelfmt_model::formats::Format;
use modelfmt_model::formats::capabilities::{Metadata as Kind, MetadataSchema};
use modelfmt_model::model::Model;
use modelfmt_model::unsupported::Unsupported;
use modelfmt_rules::options::ConvertOptions;

/// The metadata of a source.
pub struct Content {
    /// The format of the source, which is not always the one that the model came from.
    pub(crate) format: Format,
    /// Whether its metadata is of kinds that only its format has. For MAG, that depends on the version.
    pub(crate) is_native: bool,
    /// Keys at top level, of formats whose metadata is a JSON object or strings.
    pub(crate) keys: Object,
    /// What the source has under the reserved key, or would have, if its metadata is not an object of JSON.
    pub reserved: Option<Reserved>,
    /// What no target can hold.
    pub(crate) losses: Vec<Unsupported>,
    /// What only a file of the same format can hold.
    pub(crate) own: Vec<Unsupported>,
    /// What only a set of the same format can hold.
    pub(crate) own_set: Vec<Unsupported>,
    /// What the source says about the model's name and architecture outside of `keys`.
    pub(crate) said: ModelNames,
    /// What a config.json beside it says about them.
    pub(crate) config: ModelNames,
    /// Whether one is there and is not read, because what was demanded of the model says nothing about it.
    pub(crate) is_config_ignored: bool,
    /// AERO: what the manifest says beyond what is made again.
    pub(crate) manifest: Object,
    /// Whether the model was an AERO file whose shapes are in ggml's order, as `source_format` says. They have been turned, so nothing
    /// that is written says it at top level.
    pub(crate) is_turned: bool,
    /// The keys whose values are what they were before they came into this format, and are in it as something else.
    pub(crate) restored: Vec<String>,
    /// What to tell the user.
    pub(crate) notes: Vec<String>,
}

impl Content {
    /// Keys and values for a file of that format.
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
            said: ModelNames { name: None, architecture: None },
            config: ModelNames { name: None, architecture: None },
            is_config_ignored: false,
            is_turned: false,
            restored: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Reads the metadata of a model.
    ///
    /// # Errors
    /// If it does not decode, or a file of a set is missing.
    pub fn read(model: &Model) -> Result<Self> {
        Self::read_for(model, &ConvertOptions::default())
    }

    /// For a model that was made of several, what they say together. The caller may give some of the keys.
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
        let said = model.said()?;
        let mut content = Self {
            is_native: said.native.is_some(),
            losses: said.losses,
            own: said.own,
            own_set: said.own_set,
            manifest: said.manifest,
            said: ModelNames { name: said.name, architecture: said.architecture },
            is_turned: said.is_turned,
            ..Self::new(format, said.keys)
        };
        content.reserved = match (said.native, said.types, said.files) {
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

    /// The name of the architecture: what the caller says, else the source, else a config.json beside it.
    pub fn architecture<'a>(&'a self, options: &'a ConvertOptions) -> Option<&'a str> {
        self.own_architecture(options).or(self.config.architecture.as_deref())
    }

    /// The same, if it is from a config.json.
    pub fn architecture_of_config(&self, options: &ConvertOptions) -> Option<&str> {
        self.config.architecture.as_deref().filter(|_| self.own_architecture(options).is_none())
    }

    fn own_architecture<'a>(&'a self, options: &'a ConvertOptions) -> Option<&'a str> {
        let key = |key| self.keys.get(key).and_then(Value::as_str);
        let given = options.metadata.architecture.as_deref().or(options.metadata.model_type.as_deref());
        let stated = given.or(self.said.architecture.as_deref()).filter(|name| *name != UNKNOWN);
        let keys = ["general.architecture", "architecture", "model_type"].into_iter();
        stated.or_else(|| keys.filter_map(key).find(|name| *name != UNKNOWN))
    }

    fn take_reserved(&mut self) {
        let found = match self.keys.get(reserved::KEY) {
            // With `stringify`, what GGUF holds is text in safetensors, and so is this.
            Some(Value::String(text)) if self.format.capabilities().metadata == Kind::Strings => {
                let parsed = json::parse(text.as_bytes()).ok();
                parsed.as_ref().and_then(Reserved::parse).filter(|reserved| !reserved.hints.is_empty())
            }
            other => other.and_then(Reserved::parse),
        };
        let Some(mut reserved) = found else { return };
        self.keys.remove(reserved::KEY);
        let is_aero = reserved.format.properties().schema == Some(MetadataSchema::Aero);
        let unreadable = reserved.format.driver().and_then(|driver| driver.unreadable);
        self.is_turned |=
            is_aero && unreadable.is_some_and(|unreadable| !unreadable(&reserved.aside).is_empty());
        for (key, value) in std::mem::take(&mut reserved.aside) {
            // What is there by now counts.
            if !self.keys.contains_key(&key) {
                self.keys.insert(key, value);
            }
        }
        self.restored = super::typed_lists::restore(&mut self.keys, &mut reserved.hints, reserved.format);
        non_finite::restore(&mut self.keys, &reserved.floats);
        self.reserved = Some(reserved);
    }

    /// What a model whose metadata is typed says under the names that other formats ask for.
    fn name_itself(&mut self) {
        let Some(reserved) = &self.reserved else { return };
        let text = |key| reserved.metadata.get(key)?.to_plain().as_str().map(str::to_owned);
        if self.said.name.is_none() {
            self.said.name = text("model_name");
        }
        if self.said.architecture.is_none() {
            self.said.architecture = text("architecture").or_else(|| text("model_type"));
        }
    }
}

/// What the reserved key says about a source whose metadata is of kinds that only its format has.
fn native(model: &Model, metadata: Object) -> Result<Reserved> {
    let (sizevars, quants) = (model.sizevars(), crate::quants::read(model)?);
    Ok(Reserved { metadata, sizevars, quants, ..Reserved::new(model.format()) })
}

/// The metadata as one flat list, as the reader of the format gives it.
pub(crate) fn own_keys(model: &Model) -> Result<Object> {
    model.container().flat_metadata().map_err(|error| model.failed(error))
}
