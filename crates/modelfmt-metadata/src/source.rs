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
        let mut content = Self::new(format, Object::new());
        let kind = format.capabilities().metadata;
        match (kind, format.properties().schema) {
            _ if is_native(model) => content.reserved = Some(native(model)?),
            (Kind::Index, _) => content.read_safetensors_set(model)?,
            (_, Some(MetadataSchema::Aero)) => content.read_aero(model)?,
            (_, Some(MetadataSchema::Apr2)) if format.is_set() => content.read_apr2_set(model)?,
            _ => content.keys = own_keys(model)?,
        }
        losses(model, &mut content.own, &mut content.losses)?;
        if kind == Kind::TypedLists {
            #[cfg(feature = "gguf")]
            content.read_gguf_set(model);
            content.read_gguf(model);
        }
        if kind == Kind::Numbers && content.reserved.is_none() {
            let mut reserved = Reserved::new(format);
            reserved.is_object = true;
            content.reserved = Some(reserved);
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
        #[cfg(feature = "aero")]
        {
            let is_aero = reserved.format.properties().schema == Some(MetadataSchema::Aero);
            self.is_turned |= is_aero && aero::is_from_gguf(&reserved.aside);
        }
        for (key, value) in std::mem::take(&mut reserved.aside) {
            // What is there by now counts.
            if !self.keys.contains_key(&key) {
                self.keys.insert(key, value);
            }
        }
        self.restored = super::typed_lists::restore(&mut self.keys, &mut reserved.hints);
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

    /// MJSN is the metadata. The manifest is made again, and what it has of its own goes into AERO again.
    fn read_aero(&mut self, model: &Model) -> Result<()> {
        let mut parts = model.metadata()?.into_object();
        self.keys = parts.remove("json").unwrap_or_default().into_object();
        #[cfg(feature = "aero")]
        {
            self.is_turned = aero::is_from_gguf(&self.keys);
        }
        let manifest = parts.remove("manifest").unwrap_or_default().into_object();
        let said = manifest.get("model").and_then(Value::as_object).cloned().unwrap_or_default();
        self.take_names("manifest key", &said);
        #[cfg(feature = "aero")]
        if let Some(set) = model.as_aeroset() {
            self.take_names(INDEX_KEY, set.index().model());
            let keys =
                [("base_url", set.index().base_url().is_some()), ("cache", set.index().cache().is_some())];
            for (key, _) in keys.into_iter().filter(|(_, is_there)| *is_there) {
                self.own_set.push(Unsupported::loss(INDEX_KEY, key, "only the index of an AEROSET has it"));
            }
        }
        let text = |key| said.get(key).and_then(Value::as_str).map(str::to_owned);
        self.said = ModelNames { name: text("name"), architecture: text("architecture") };
        self.manifest = manifest;
        self.manifest.retain(|key, _| !MANIFEST.contains(&key));
        for key in self.manifest.keys() {
            let why = "the manifest of an AERO file has it, and no other format has a manifest";
            self.own.push(Unsupported::loss("manifest key", key, why));
        }
        Ok(())
    }

    /// Name and architecture of a manifest, or of the index of a set, where the keys do not say them. What it says otherwise is
    /// lost, because it is made again of the keys.
    fn take_names(&mut self, kind: &'static str, said: &Object) {
        for (inner, value) in said {
            let key = match inner {
                "name" => "model_name",
                "architecture" => "architecture",
                _ => {
                    let why = "it is made again, with name and architecture";
                    self.losses.push(Unsupported::loss(kind, &format!("model.{inner}"), why));
                    continue;
                }
            };
            match self.keys.get(key) {
                None => _ = self.keys.insert(key, value.clone()),
                Some(known) if known == value || known.as_str().is_none() => {}
                Some(_) => {
                    let why = "the JSON metadata says something else, and the manifest is made from that";
                    self.losses.push(Unsupported::loss(kind, &format!("model.{inner}"), why));
                }
            }
        }
    }

    /// The index's metadata, with what the files say beyond it, which the reserved key notes. `total_size` counts bytes of that layout and is not carried.
    fn read_safetensors_set(&mut self, model: &Model) -> Result<()> {
        self.keys = own_keys(model)?;
        #[cfg(feature = "safetensors")]
        if let Some(set) = model.as_safetensors_sharded() {
            for key in set.index().unknown_keys() {
                let why = "only the metadata of the index is carried over";
                self.losses.push(Unsupported::loss(INDEX_KEY, key, why));
            }
            let mut reserved = Reserved::new(model.format());
            for (number, file) in set.index().files().iter().enumerate() {
                let shard = set.shard(number).map_err(|error| model.failed(error))?;
                for (key, value) in shard.index().metadata().into_iter().flatten() {
                    // The first says it; what a later one says differently is a loss.
                    match self.keys.get(key) {
                        None => {
                            self.keys.insert(key, value.clone());
                            reserved.files.push(key.to_owned());
                        }
                        Some(known) if known == value => {}
                        Some(_) => {
                            let why = format!("{file:?} says something else than a file before it");
                            self.losses.push(Unsupported::loss("metadata key", key, why));
                        }
                    }
                }
            }
            self.reserved = Some(reserved);
        }
        Ok(())
    }

    /// The metadata is that of the first shard. The others repeat what every file of the format needs; what one says beyond
    /// that is lost.
    fn read_apr2_set(&mut self, model: &Model) -> Result<()> {
        self.keys = own_keys(model)?;
        #[cfg(feature = "apr2")]
        if let Some(set) = model.as_apr2_sharded() {
            for (number, listed) in set.index().shards().enumerate().skip(1) {
                let shard = set.shard(number).map_err(|error| model.failed(error))?;
                let others = shard.index().metadata().object().iter();
                for (key, _) in others.filter(|&(key, value)| self.keys.get(key) != Some(value)) {
                    let file = listed.path;
                    let why =
                        format!("{file:?} says it, and the metadata of a set is that of its first file");
                    self.losses.push(Unsupported::loss("metadata key", key, why));
                }
            }
        }
        Ok(())
    }

    /// What the files of a split say beyond the first, whose metadata is the model's.
    #[cfg(feature = "gguf")]
    fn read_gguf_set(&mut self, model: &Model) {
        for (number, key) in model.as_gguf_sharded().into_iter().flat_map(|set| set.index().strangers()) {
            let why = format!(
                "file {number} of the split says it, and the metadata of the model is that of the first"
            );
            self.losses.push(Unsupported::loss("metadata key", key, why));
        }
    }

    #[cfg_attr(not(feature = "gguf"), expect(unused_variables, reason = "there is no model of it"))]
    fn read_gguf(&mut self, model: &Model) {
        #[cfg(feature = "gguf")]
        {
            let mut hints = super::typed_lists::hints(model);
            // Room in that file, and nothing that the model says.
            self.keys.remove(modelfmt_gguf::PADDING);
            hints.types.remove(modelfmt_gguf::PADDING);
            hints.keys.retain(|key| key != modelfmt_gguf::PADDING);
            self.reserved = Some(Reserved::with_hints(model.format(), hints));
        }
        let text = |key| self.keys.get(key).and_then(Value::as_str).map(str::to_owned);
        self.said = ModelNames { name: text("general.name"), architecture: text("general.architecture") };
        for (key, value) in &self.keys {
            if !value.is_json() {
                self.notes.push(format!("metadata key {key:?}: {}", non_finite::NOTE));
            }
        }
    }
}

/// What a loss calls a key of the index of a set.
#[cfg(any(feature = "aero", feature = "safetensors"))]
const INDEX_KEY: &str = "key of the set's index";

/// The keys of a manifest that are made again.
pub(crate) const MANIFEST: [&str; 5] = ["format", "model", "chunks", "shards", "quant_descriptors"];

/// Whether the metadata of a model is of kinds that only its format has. For MAG, that depends on the version.
pub(crate) fn is_native(model: &Model) -> bool {
    #[cfg(feature = "mag")]
    if let Some(mag) = model.as_mag() {
        return mag.index().manifest().is_none();
    }
    matches!(model.format().capabilities().metadata, Kind::Numbers | Kind::Typed)
}

/// What the reserved key says about a source whose metadata is not a JSON object.
fn native(model: &Model) -> Result<Reserved> {
    let mut reserved = Reserved::new(model.format());
    reserved.metadata = exact(model)?;
    reserved.sizevars = model.sizevars();
    reserved.quants = crate::quants::read(model)?;
    Ok(reserved)
}

/// The metadata as `inspect --json` prints it, but with the bits of floats that JSON cannot hold.
fn exact(model: &Model) -> Result<Object> {
    #[cfg(feature = "oinf")]
    if let Some(oinf) = model.as_oinf() {
        return Ok(oinf.index().metadata().map(|(key, value)| (key, value.to_value_exact())).collect());
    }
    let mut keys = model.metadata()?.into_object();
    for (_, value) in keys.iter_mut() {
        if let Value::Float(x) = value
            && !x.is_finite()
        {
            let bits = format!("{:016x}", x.to_bits());
            *value = Value::Object([("type", "f64"), ("bits", &bits)].into_iter().collect());
        }
    }
    Ok(keys)
}

/// The metadata as one flat list, as the reader of the format gives it.
pub(crate) fn own_keys(model: &Model) -> Result<Object> {
    model.container().flat_metadata().map_err(|error| model.failed(error))
}

/// What a source has that other formats, or none, can hold.
pub(crate) fn losses(model: &Model, own: &mut Vec<Unsupported>, lost: &mut Vec<Unsupported>) -> Result<()> {
    match model.format().driver().and_then(|driver| driver.losses) {
        Some(losses) => losses(model.opened(), own, lost).map_err(|error| model.failed(error)),
        None => Ok(()),
    }
}
