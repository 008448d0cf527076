//! Converts a hub folder to what llama.cpp loads: tensors and metadata go through the map of its family
//! (`modelfmt_hub`).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use modelfmt_core::author::Shortened;
use modelfmt_core::value::Value;
use modelfmt_hub::back::licence_keys;
use modelfmt_hub::{Config, HubTensor, Key, MadeTensor, Map, MapError, POOLING, pooling};
use modelfmt_metadata::{card, config, file_type};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::formats::Format;
use modelfmt_model::model::Model;
use modelfmt_model::model::mapped::Computed;
use modelfmt_rules::options::ConvertOptions;
use modelfmt_rules::wording::{Choice, Note};

use crate::lora::{HasInputRows, Made};
use crate::mapping::{NONE, Takes, is_gguf};
use crate::maps::{head, read_map};
use crate::tokenizer::gguf as tokenizer;
use crate::{block_scales, extra_keys, gguf_of_adapter};

/// The name of the file that describes the model of a folder.
const CONFIG: &str = "config.json";

/// Returns the model to convert, and notes. For a hub folder or a PEFT adapter that becomes a GGUF, this is
/// the model that the family's map computes. Otherwise it is the model itself. `changed` names the tensors
/// that adapters have changed; none of them may be left out.
pub(crate) fn map<'m>(
    model: &'m Model,
    target: Format,
    options: &ConvertOptions,
    changed: &BTreeSet<String>,
) -> Result<(Cow<'m, Model>, Vec<Note>)> {
    let as_it_is = || Ok((Cow::Borrowed(model), Vec::new()));
    let asked = options.tensors.map.as_deref();
    if !is_gguf(target) || asked == Some(NONE) {
        return as_it_is();
    }
    if is_gguf(model.format()) {
        return match asked {
            None => as_it_is(),
            Some(_) => {
                Err(Error::usage(Choice::Map, "the model is a GGUF already; maps are for folders of the hub"))
            }
        };
    }
    if let Some((mapped, notes)) = gguf_of_adapter::mapped(model, options)? {
        return Ok((Cow::Owned(mapped), notes));
    }
    let folder = Folder { model };
    let Some(config) = folder.config(asked)? else { return as_it_is() };
    let Some(map) = folder.map(asked, &config)? else { return as_it_is() };
    let (mapped, notes) = folder.mapped((&map, &config), options.metadata.pre.as_deref(), changed)?;
    Ok((Cow::Owned(mapped), notes))
}

/// Checks whether a model is a hub folder that becomes a GGUF, so that it is converted through a map unless
/// that fails.
fn will_map(model: &Model, target: Format, options: &ConvertOptions) -> bool {
    let asked = options.tensors.map.as_deref();
    let says_family =
        || config::read(model, &mut Vec::new()).is_some_and(|config| config.get("model_type").is_some());
    is_gguf(target) && !is_gguf(model.format()) && asked != Some(NONE) && (asked.is_some() || says_family())
}

/// Returns a function that says whether the map of a model takes a tensor of a given name. `None` if the
/// model is not [converted through a map](will_map). If [`map`] will fail, the function accepts all names.
pub(crate) fn takes(model: &Model, target: Format, options: &ConvertOptions) -> Option<Box<Takes>> {
    if !will_map(model, target, options) {
        return None;
    }
    let (folder, asked) = (Folder { model }, options.tensors.map.as_deref());
    let config = folder.config(asked).ok().flatten();
    let found = config.and_then(|config| Some((folder.map(asked, &config).ok()??, config)));
    Some(Box::new(move |name| found.as_ref().is_none_or(|(map, config)| map.takes(config, name))))
}

/// Returns what the map of a hub folder computes; `None` for another model.
pub(crate) fn made(model: &Model, options: &ConvertOptions) -> Result<Option<Made>> {
    let asked = options.tensors.map.as_deref().filter(|asked| *asked != NONE);
    let folder = Folder { model };
    let Some(config) = folder.config(asked)? else { return Ok(None) };
    let Some(map) = folder.map(asked, &config)? else { return Ok(None) };
    let tensors: Vec<HubTensor<'_>> = model
        .tensors()
        .map(|info| HubTensor { name: info.name, dtype: info.dtype, shape: info.shape })
        .collect();
    let mapped = map.apply(&config, &tensors).map_err(|error| folder.unmapped(&error))?;
    let tensors = mapped.tensors.into_iter().map(|made| (made.name, made.program)).collect();
    Ok(Some(Made { architecture: map.architecture().to_owned(), tensors }))
}

/// Returns a function that says whether a weight of a hub folder has inputs as rows; `None` for another model,
/// and for a family without a map.
pub(crate) fn has_input_rows(model: &Model, options: &ConvertOptions) -> Option<Box<HasInputRows>> {
    let asked = options.tensors.map.as_deref().filter(|asked| *asked != NONE);
    let folder = Folder { model };
    let config = folder.config(asked).ok()??;
    let map = folder.map(asked, &config).ok()??;
    Some(Box::new(map.input_rows(&config)))
}

/// Returns the model that a map computes from a hub folder, with names, shapes and metadata as in a GGUF, and
/// notes about it. Values are computed when they are read. `map` is a family, or the name or path of a map.
///
/// # Errors
/// [`Error::Usage`] for a map that does not exist, or a model that is not a hub folder; [`Error::Unmapped`]
/// if the map does not fit the model.
pub fn mapped(model: &Model, map: &str) -> Result<(Model, Vec<Note>)> {
    let mut options = ConvertOptions::default();
    options.tensors.map = Some(map.to_owned());
    let (model, notes) = self::map(model, Format::Gguf, &options, &BTreeSet::new())?;
    Ok((model.into_owned(), notes))
}

/// Returns a hub folder or a PEFT adapter as a GGUF, by the map of its family, and notes about it; `None` for
/// another model.
///
/// # Errors
/// [`Error::Unmapped`] if the map does not fit the model.
pub fn as_gguf(model: &Model) -> Result<Option<(Model, Vec<Note>)>> {
    let (mapped, notes) = map(model, Format::Gguf, &ConvertOptions::default(), &BTreeSet::new())?;
    Ok(match mapped {
        Cow::Owned(mapped) => Some((mapped, notes)),
        Cow::Borrowed(_) => None,
    })
}

/// What to do if an adapter changes an output matrix that is not used.
pub(crate) const UNTIE: &str = ": the output of this model is its table of embeddings (`tie_word_embeddings`), \
                                and only families that can have another output take one";

/// Checks whether this is the name of the output matrix.
pub(crate) fn is_head(name: &str) -> bool {
    name == "lm_head.weight" || name.ends_with(".lm_head.weight")
}

/// Returns the key that states the type of most values of the matrices, as llama.cpp's own conversion does.
/// `None` if one has another type. A rule that changes their type also changes the key.
fn stated_type(tensors: &[MadeTensor]) -> Option<(String, Key)> {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for MadeTensor { program, .. } in tensors.iter().filter(|made| made.program.shape().len() > 1) {
        let number = file_type::of_floats(program.dtype())?;
        let count = program.shape().iter().fold(1, |count: u64, &len| count.saturating_mul(len));
        let sum = counts.entry(number).or_default();
        *sum = sum.saturating_add(count);
    }
    let (number, _) = counts.into_iter().max_by_key(|&(_, count)| count)?;
    Some((file_type::FILE_TYPE.to_owned(), Key::U32(number)))
}

/// A model with the files beside it.
struct Folder<'a> {
    model: &'a Model,
}

impl Folder<'_> {
    fn failed(&self, why: &(impl ToString + ?Sized)) -> Error {
        Error::Unmapped { path: self.model.path().to_owned(), why: why.to_string(), help: None }
    }

    /// Makes an error from an error of a map. If the map does not know a family or a tensor, the error
    /// suggests writing names and metadata unchanged.
    fn unmapped(&self, error: &MapError) -> Error {
        let is_unknown = matches!(error, MapError::UnknownFamily { .. } | MapError::UnknownTensor { .. });
        let help = is_unknown.then_some(Choice::Map);
        Error::Unmapped { path: self.model.path().to_owned(), why: error.to_string(), help }
    }

    /// Reads a file beside the model, if there is one.
    fn sidecar(&self, name: &str) -> Result<Option<Vec<u8>>> {
        const MAX_LEN: u64 = 1 << 20;
        config::file(self.model.sidecars(), name, MAX_LEN)
            .map_err(|why| self.failed(&format!("{name}: {why}")))
    }

    /// Reads the config.json; `None` if there is none, and no map was requested.
    fn config(&self, asked: Option<&str>) -> Result<Option<Config>> {
        if let Some(why) = self.model.sidecars().ignored(CONFIG) {
            return Err(self.failed(&why));
        }
        let is_remote = self.model.path().to_string_lossy().contains("://");
        if is_remote && self.model.tensors().any(|info| modelfmt_rules::presets::has_other_name(info.name)) {
            let why = "config.json and the tokenizer are not read from a URL; \
                       download the files with `modelfmt fetch URL FOLDER/`, and convert FOLDER";
            let help = Some(Choice::Map);
            return Err(Error::Unmapped { path: self.model.path().to_owned(), why: why.to_owned(), help });
        }
        match (self.sidecar(CONFIG)?, asked) {
            (Some(text), _) => Config::parse(&text).map(Some).map_err(|error| self.failed(&error)),
            (None, Some(_)) => Err(Error::usage(Choice::Map, "there is no config.json beside the model")),
            (None, None) => Ok(None),
        }
    }

    /// Returns the requested map, or the map of the family. `None` for a model without a stated family, and
    /// for one that has the metadata of a GGUF already.
    fn map(&self, asked: Option<&str>, config: &Config) -> Result<Option<Map>> {
        if let Some(asked) = asked {
            return read_map(asked, self.model).map(Some);
        }
        let Some(family) = config.model_type() else { return Ok(None) };
        if self.model.common_metadata()?.keys.contains_key("general.architecture") {
            return Ok(None);
        }
        Map::of_family(family).map(Some).map_err(|error| self.unmapped(&error))
    }

    /// Returns the model that the map computes, and notes about it.
    fn mapped(
        &self,
        (map, config): (&Map, &Config),
        pre: Option<&str>,
        changed: &BTreeSet<String>,
    ) -> Result<(Model, Vec<Note>)> {
        let model = self.model;
        model.open_all()?;
        let count = model.tensor_count().saturating_sub(block_scales::count_of_scales(model));
        let tensors: Vec<HubTensor<'_>> = model
            .tensors()
            .take(count)
            .map(|info| HubTensor { name: info.name, dtype: info.dtype, shape: info.shape })
            .collect();
        let mapped = match map.apply(config, &tensors) {
            Ok(mapped) => mapped,
            Err(error) => return Err(block_scales::stored(model)?.unwrap_or_else(|| self.unmapped(&error))),
        };
        let mut notes = vec![Note::from(format!(
            "the map {} gives tensors and metadata the names of llama.cpp",
            map.name()
        ))];
        let (mut keys, left_out) = (mapped.keys.clone(), &mapped.left_out);
        if let Some(lost) = left_out.iter().find(|name| changed.contains(*name)) {
            let help = if map.is_tied(config) && is_head(lost) { UNTIE } else { "" };
            return Err(self.failed(&format!(
                "an adapter changes {:?}, and the map {} leaves this tensor out, so the change would be lost{help}",
                Shortened(lost),
                map.name()
            )));
        }
        if let [first, others @ ..] = &left_out[..] {
            let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
            notes.push(Note::from(format!("the map leaves out {:?}{more}", Shortened(first))));
        }
        notes.extend(mapped.notes.iter().cloned().map(Note::from));
        let states_pooling = self.sidecar(POOLING)?;
        if states_pooling.is_some() && !map.pools() {
            notes.push(Note::from(format!(
                "{POOLING} is left out, because the map {} is not for models that embed texts",
                map.name()
            )));
        }
        if let Some(text) = states_pooling.filter(|_| map.pools()) {
            match pooling(&text).map_err(|error| self.failed(&error))? {
                Some(kind) => keys.push((format!("{}.pooling_type", map.architecture()), kind)),
                None => notes.push(Note::from(format!(
                    "llama.cpp does not support the pooling of {POOLING}, so it is left out"
                ))),
            }
        }
        keys.extend(stated_type(&mapped.tensors));
        let name = self.name();
        let (of_tokenizer, about_it) = tokenizer::keys(model, config, &mapped.tensors, pre, name.as_deref())?;
        notes.extend(about_it);
        if let Some(name) = name.filter(|name| tokenizer::is_name(name, &of_tokenizer)) {
            keys.push(("general.name".to_owned(), Key::Text(name)));
        }
        keys.extend(of_tokenizer);
        keys.extend(self.licence()?);
        // Only what the other keys do not say is carried.
        let travelling = extra_keys::keys(model, (map, config), &tensors, (&mapped, &keys), &mut notes)?;
        keys.extend(travelling);
        let made = mapped.tensors.iter().map(|made| (&*made.name, &made.program));
        let scales = block_scales::mapped_scales(model, made).map_err(|why| {
            let (path, help) = (model.path().to_owned(), Some(Choice::Dequantize));
            Error::Unmapped { path, why, help }
        })?;
        let computed = mapped
            .tensors
            .into_iter()
            .map(|made| Computed::new(made.name, made.program).keep_dtype(made.is_f32));
        let mapped = model.mapped(&head(model, &keys)?, computed.chain(scales).collect())?;
        Ok((mapped, notes))
    }

    /// Reads the licence that the model card states.
    fn licence(&self) -> Result<Vec<(String, Key)>> {
        let Some(text) = self.sidecar("README.md")? else { return Ok(Vec::new()) };
        let card = card::parse(&String::from_utf8_lossy(&text));
        let stated = |name| match card.get(name)? {
            Value::String(text) => Some(text.to_string()),
            Value::Array(texts) => texts.get(0)?.as_str().map(str::to_owned),
            _ => None,
        };
        let keys = licence_keys().filter_map(|(name, key)| Some((key.to_owned(), Key::Text(stated(name)?))));
        Ok(keys.collect())
    }

    /// Returns the name of the model from the config, or else the name of the folder.
    fn name(&self) -> Option<String> {
        let folder = || {
            let path = self.model.input_paths().next()?;
            let path = std::path::absolute(path).ok()?;
            Some(path.parent()?.file_name()?.to_string_lossy().into_owned())
        };
        config::model_name(self.model).or_else(folder)
    }
}
