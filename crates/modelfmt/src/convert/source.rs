//! What a source says besides its tensors, whatever its format.

use tensor_core::value::{Object, Value};

use super::fit::Misfit;
use super::reserved::{self, Reserved};
use crate::error::Result;
use crate::format::Format;
use crate::model::Model;

/// The metadata of a source.
pub(super) struct Content {
    /// The format of the source, which is not always the one that the model came from.
    pub(super) format: Format,
    /// Keys at top level, of formats whose metadata is a JSON object or strings.
    pub(super) keys: Object,
    /// What the source has under the reserved key, or would have, if its metadata is not an object of JSON.
    pub(super) reserved: Option<Reserved>,
    /// What no target can hold.
    pub(super) losses: Vec<Misfit>,
    /// What the source says of the model's name and architecture outside of `keys`.
    pub(super) name: Option<String>,
    pub(super) architecture: Option<String>,
    /// What to tell the user.
    pub(super) notes: Vec<String>,
}

impl Content {
    pub(super) fn read(model: &Model) -> Result<Self> {
        let format = model.format();
        let mut content = Self {
            format,
            keys: Object::new(),
            reserved: None,
            losses: Vec::new(),
            name: None,
            architecture: None,
            notes: Vec::new(),
        };
        match format {
            Format::Mag | Format::Oinf => content.reserved = Some(native(model)?),
            Format::Aero | Format::AeroSet => content.read_aero(model)?,
            Format::SafetensorsSharded => content.read_safetensors_set(model)?,
            _ => content.keys = object(model.metadata()?),
        }
        if format == Format::Gguf {
            content.read_gguf();
        }
        content.take_reserved();
        Ok(content)
    }

    fn take_reserved(&mut self) {
        let Some(reserved) = self.keys.get(reserved::KEY).and_then(Reserved::parse) else { return };
        self.keys.remove(reserved::KEY);
        self.reserved = Some(reserved);
    }

    /// MJSN is the metadata; the manifest is made anew, and what it has of its own is a loss (DECISIONS, AERO, "MMSG content").
    fn read_aero(&mut self, model: &Model) -> Result<()> {
        const OURS: [&str; 5] = ["format", "model", "chunks", "shards", "quant_descriptors"];
        let mut parts = object(model.metadata()?);
        self.keys = object(parts.remove("json").unwrap_or_default());
        let manifest = object(parts.remove("manifest").unwrap_or_default());
        let said = |key| manifest.get("model")?.get(key)?.as_str().map(str::to_owned);
        (self.name, self.architecture) = (said("name"), said("architecture"));
        for key in manifest.keys().filter(|key| !OURS.contains(key)) {
            self.losses.push(Misfit::loss("manifest key", key, "the manifest is written anew"));
        }
        super::targets::aero_losses(model, &mut self.losses)
    }

    /// The index's metadata, with what the files say beyond it, which the reserved key notes. `total_size` counts bytes of that layout and is not carried.
    fn read_safetensors_set(&mut self, model: &Model) -> Result<()> {
        self.keys = object(model.metadata()?);
        if self.keys.get("total_size").is_some_and(|total| matches!(total, Value::Int(_))) {
            self.keys.remove("total_size");
        }
        #[cfg(feature = "safetensors")]
        if let Some(set) = model.as_safetensors_sharded() {
            let mut reserved = Reserved::new(model.format());
            for (number, file) in set.index().files().iter().enumerate() {
                let shard = set.shard(number).map_err(|error| model.failed(error.erase()))?;
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
                            self.losses.push(Misfit::loss("metadata key", key, why));
                        }
                    }
                }
            }
            self.reserved = Some(reserved);
        }
        Ok(())
    }

    fn read_gguf(&mut self) {
        let text = |key| self.keys.get(key).and_then(Value::as_str).map(str::to_owned);
        (self.name, self.architecture) = (text("general.name"), text("general.architecture"));
        for (key, value) in &self.keys {
            if !is_json(value) {
                self.notes
                    .push(format!("metadata key {key:?}: JSON has no NaN and no infinity; written as text"));
            }
        }
    }
}

/// What a model says besides its tensors, whichever format it is in at present: what conversion carries, without what
/// formats in between have asked for.
pub(crate) fn said(model: &Model) -> Result<Object> {
    let Content { mut keys, reserved, .. } = Content::read(model)?;
    if let Some(Reserved { metadata, sizevars, changes, via, .. }) = reserved {
        changes.undo(&mut keys);
        via.iter().rev().for_each(|(_, changes)| changes.undo(&mut keys));
        for (key, value) in metadata {
            // The model's own word comes first, and another under the same key is not lost beside it.
            if let Some(other) =
                keys.insert(key.as_str(), value).filter(|other| keys.get(&key) != Some(other))
            {
                keys.insert(format!("{}.{key}", model.format()), other);
            }
        }
        keys.extend(sizevars.into_iter().map(|(name, value)| (format!("sizevars.{name}"), value)));
    }
    Ok(keys)
}

/// Whether JSON has every number in a value.
fn is_json(value: &Value) -> bool {
    match value {
        Value::Float(x) => x.is_finite(),
        Value::Array(items) => items.iter().all(is_json),
        _ => true,
    }
}

/// What the reserved key says of a source whose metadata is not a JSON object.
fn native(model: &Model) -> Result<Reserved> {
    let mut reserved = Reserved::new(model.format());
    reserved.metadata = exact(model)?;
    if let Some(Value::Object(sizevars)) = object(model.details()?).remove("sizevars") {
        reserved.sizevars = sizevars;
    }
    Ok(reserved)
}

/// The metadata as `inspect --json` prints it, but with the bits of floats that JSON cannot hold.
fn exact(model: &Model) -> Result<Object> {
    #[cfg(feature = "oinf")]
    if let Some(oinf) = model.as_oinf() {
        return Ok(oinf.index().metadata().map(|(key, value)| (key, value.to_value_exact())).collect());
    }
    let mut keys = object(model.metadata()?);
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

fn object(value: Value) -> Object {
    if let Value::Object(object) = value { object } else { Object::new() }
}
