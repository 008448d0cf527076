//! What a bill of materials states about one model.

use modelfmt_core::value::{Object, Value};
use modelfmt_core::{Execution, Location};
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_metadata::config;
use modelfmt_metadata::{card, names};
use modelfmt_model::error::Result;
use modelfmt_model::formats::capabilities::Metadata as MetadataKind;
use modelfmt_model::hub_names::ABOUT_WEIGHTS;
use modelfmt_model::model::Model;

use super::base::{self, Base};
use super::files::{self, HashedFile};
use super::licence::Licences;
use super::text::{is_known, text};
use crate::inspect::facts::{ADAPTER_CONFIG, CONFIG, config as json_beside, keys};
use crate::inspect::{ModelFacts, ModelKind, Totals};

/// The model card of a hub folder.
const CARD: &str = "README.md";

/// The keys for the version of a model.
const VERSION: [&str; 3] = ["general.version", "model_version", "version"];

/// What is known about a model.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) version: Option<String>,
    pub(super) family: Option<String>,
    pub(super) licences: Licences,
    pub(super) bases: Vec<Base>,
    /// Other facts by name: format, numbers of parameters and tensors, dtypes.
    pub(super) facts: Vec<(String, String)>,
    pub(super) files: Vec<HashedFile>,
    pub(super) tensors: Vec<Tensor>,
    /// The keys whose signatures were verified.
    pub(super) signers: Vec<String>,
}

/// A tensor with the digest of its values.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) dtype: &'static str,
    pub(super) shape: String,
    pub(super) location: Location,
    /// BLAKE3-256 of its values, uncompressed, 64 lower-case hex digits; `None` without values.
    pub(super) blake3: Option<String>,
}

impl Subject {
    pub(super) fn of(model: &Model, with_tensors: bool, work: &Execution<'_>) -> Result<Self> {
        model.open_all()?;
        let is_of_hub = is_of_hub(model);
        let descriptions = descriptions(model, is_of_hub);
        let known = crate::inspect::facts(model)?;
        let beside = if is_of_hub { files_beside() } else { Vec::new() };
        Ok(Self {
            name: name(model, &descriptions),
            version: first(&descriptions, &VERSION),
            family: known.family.as_deref().and_then(text),
            licences: Licences::of(&descriptions),
            bases: base::all(&descriptions),
            facts: facts(model, known),
            files: files::hashed(model, &beside, work)?,
            tensors: if with_tensors { tensors(model, work)? } else { Vec::new() },
            signers: signers(model)?,
        })
    }

    /// Returns the file of a model that has only one file. The digests of that file are those of the model.
    pub(super) fn only_file(&self) -> Option<&HashedFile> {
        match &*self.files {
            [file] => Some(file),
            _ => None,
        }
    }
}

/// Returns the names of the files next to the weights that belong to a hub folder, in the order in which the
/// bill of materials lists them.
fn files_beside() -> Vec<&'static str> {
    let [config, others @ ..] = ABOUT_WEIGHTS;
    [config, ADAPTER_CONFIG].into_iter().chain(others).chain([CARD]).collect()
}

/// What a model states about itself, and whose signatures were verified.
#[cfg(feature = "report")]
#[derive(Clone, Debug)]
pub(crate) struct Stated {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    pub(crate) licences: Vec<String>,
    /// The names of the models that it was made from.
    pub(crate) bases: Vec<String>,
    /// The keys whose signatures were verified.
    pub(crate) signers: Vec<String>,
}

#[cfg(feature = "report")]
impl Stated {
    pub(crate) fn of(model: &Model) -> Result<Self> {
        let descriptions = descriptions(model, is_of_hub(model));
        let licences = Licences::of(&descriptions).all;
        Ok(Self {
            name: name(model, &descriptions),
            version: first(&descriptions, &VERSION),
            licences: licences.iter().map(|licence| licence.as_str().to_owned()).collect(),
            bases: base::all(&descriptions).into_iter().map(|base| base.name).collect(),
            signers: signers(model)?,
        })
    }
}

/// Checks whether the files next to a model belong to it. This is so if the model is the weights of a hub
/// folder, whose own metadata contains little.
fn is_of_hub(model: &Model) -> bool {
    let metadata = model.format().capabilities().metadata;
    let is_weights = matches!(metadata, MetadataKind::Strings | MetadataKind::Index | MetadataKind::ReadOnly);
    is_weights && [CONFIG, ADAPTER_CONFIG].iter().any(|name| json_beside(model, name).is_some())
}

/// Returns the objects that describe a model, the most trusted first: its metadata, the model card in its
/// metadata, the model card next to it, and the base model of an adapter.
fn descriptions(model: &Model, is_of_hub: bool) -> Vec<Object> {
    let own = keys(model).0;
    let mut descriptions: Vec<Object> =
        own.get("model_card").and_then(Value::as_object).cloned().into_iter().collect();
    descriptions.insert(0, own);
    if is_of_hub {
        descriptions.extend(card_beside(model).map(|text| card::parse(&text)));
        descriptions.extend(json_beside(model, ADAPTER_CONFIG).map(|adapter| {
            // Take only this key: `version` and similar keys would belong to something else.
            let base = adapter.get("base_model_name_or_path").cloned().unwrap_or(Value::Null);
            Object::from_iter([("base_model_name_or_path", base)])
        }));
    }
    descriptions
}

#[cfg(not(target_arch = "wasm32"))]
fn card_beside(model: &Model) -> Option<String> {
    const MAX_LEN: u64 = 1 << 20;
    let text = config::file(model.sidecars(), CARD, MAX_LEN).ok()??;
    String::from_utf8(text).ok()
}

/// Returns `None`: there are no files here.
#[cfg(target_arch = "wasm32")]
fn card_beside(_: &Model) -> Option<String> {
    None
}

/// Returns the first text or integer under one of these keys.
fn first(descriptions: &[Object], keys: &[&str]) -> Option<String> {
    let mut stated =
        descriptions.iter().flat_map(|description| keys.iter().filter_map(|key| description.get(key)));
    stated.find_map(|stated| match stated {
        Value::String(stated) => text(stated).filter(|stated| is_known(stated)),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    })
}

/// Returns the name that the model states, or the name of its file or folder. A component must have a name.
fn name(model: &Model, descriptions: &[Object]) -> String {
    let common = || model.common_metadata().ok()?.name;
    first(descriptions, &["general.name", "model_name", "modelspec.title", "name"])
        .or_else(|| common().as_deref().and_then(text))
        .or_else(|| folder_name(model))
        .or_else(|| text(names::stem_of(model)))
        .unwrap_or_else(|| "model".to_owned())
}

/// Returns the name of the folder for a path such as `.`.
fn folder_name(model: &Model) -> Option<String> {
    let path = Some(model.path()).filter(|path| path.file_name().is_none())?;
    text(&path.canonicalize().ok()?.file_name()?.to_string_lossy())
}

/// Returns facts by name.
fn facts(model: &Model, known: ModelFacts) -> Vec<(String, String)> {
    let ModelFacts { parameters, layers, kind, scheme, .. } = known;
    let totals = Totals::of(model.tensors());
    let mut facts = vec![("format".to_owned(), model.format().name().to_owned())];
    let mut add = |name: &str, value: Option<String>| {
        facts.extend(value.map(|value| (name.to_owned(), value)));
    };
    add("formatVersion", model.container().version().as_deref().and_then(text));
    add("kind", (kind != ModelKind::Other).then(|| kind.name().to_owned()));
    add("parameters", parameters.map(|count| count.to_string()));
    add("layers", layers.map(|count| count.to_string()));
    add("quantization", scheme.as_deref().and_then(text));
    add("tensors", Some(totals.all.tensors.to_string()));
    for (dtype, sums) in &totals.by_dtype {
        add(&format!("dtype:{dtype}:tensors"), Some(sums.tensors.to_string()));
        add(&format!("dtype:{dtype}:elements"), Some(sums.elements.to_string()));
    }
    facts
}

fn tensors(model: &Model, work: &Execution<'_>) -> Result<Vec<Tensor>> {
    let mut tensors = Vec::new();
    let mut with_data = Vec::new();
    for (position, info) in model.tensors().enumerate() {
        let shape: Vec<String> = info.shape.iter().map(u64::to_string).collect();
        if info.has_data {
            with_data.push((position, tensors.len()));
        }
        tensors.push(Tensor {
            name: info.name.to_owned(),
            dtype: info.dtype.name(),
            shape: format!("[{}]", shape.join(", ")),
            location: model.location(position)?,
            blake3: None,
        });
    }
    let positions: Vec<usize> = with_data.iter().map(|(position, _)| *position).collect();
    for ((_, place), hash) in with_data.iter().zip(model.hashes(&positions, work)?) {
        if let Some(tensor) = tensors.get_mut(*place) {
            tensor.blake3 = Some(hash.to_hex().to_string());
        }
    }
    Ok(tensors)
}

/// Returns the trusted keys that have signed the model, inside the file or next to it. Any other signature is
/// only a claim.
fn signers(model: &Model) -> Result<Vec<String>> {
    let mut signers = Vec::new();
    if model.sealing().is_signed
        && let Value::Object(details) = model.details()?
        && let Some(signatures) = details.get("signatures").and_then(Value::as_array)
    {
        for signature in signatures.iter() {
            let is_named = signature.get("is_named").and_then(Value::as_bool) == Some(true);
            let key = signature.get("key_id").and_then(Value::as_str).filter(|_| is_named);
            signers.extend(key.map(str::to_owned));
        }
    }
    #[cfg(all(feature = "sign", not(target_arch = "wasm32")))]
    if let Some(signature) = model.detached_signature().filter(|found| found.is_trusted == Some(true)) {
        signers.extend(signature.key_id);
    }
    Ok(signers)
}
