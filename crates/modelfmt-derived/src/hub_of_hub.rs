//! Converts a hub folder to another one: the weights change as the options say, and the files beside them are
//! copied.

use std::collections::BTreeSet;

use modelfmt_core::author::Shortened;
use modelfmt_core::value::Value;
use modelfmt_hub::back::file_names;
use modelfmt_hub::{Config, Map};
use modelfmt_metadata::config;
use modelfmt_model::error::{Error, Result};
use modelfmt_model::hub_names::ABOUT_WEIGHTS;
use modelfmt_model::model::Model;
use modelfmt_rules::options::ConvertOptions;
use modelfmt_rules::wording::{Choice, Note};

use crate::gguf_of_hub::{UNTIE, is_head};
use crate::mapping::Restored;

/// The file that makes a folder a hub folder.
const CONFIG: &str = "config.json";

/// Reads the files beside the weights; `None` if the model was not opened as a hub folder. `changed` names the
/// tensors that adapters have changed.
pub(crate) fn restore(
    model: &Model,
    options: &ConvertOptions,
    changed: &BTreeSet<String>,
) -> Result<Option<Restored>> {
    const MAX_LEN: u64 = 1 << 20;
    /// The most bytes of a file that no GGUF carries.
    const MAX_OTHER: u64 = 64 << 20;
    if !model.path().is_dir() {
        return Ok(None);
    }
    let failed = |why: String| Error::Unmapped { path: model.path().to_owned(), why, help: None };
    let file = |name: &str, max_len| config::file(model.sidecars(), name, max_len);
    let Some(text) = file(CONFIG, MAX_LEN).map_err(|why| failed(format!("{CONFIG}: {why}")))? else {
        return Ok(None);
    };
    if options.tensors.map.is_some() {
        return Err(Error::usage(Choice::Map, "the model is a folder of the hub already; maps are for GGUF"));
    }
    let stated = Config::parse(&text).map_err(|error| failed(error.to_string()))?;
    let family = stated.model_type().and_then(|family| Map::of_family(family).ok());
    let is_tied = family.map_or_else(
        || stated.get("tie_word_embeddings").and_then(Value::as_bool) == Some(true),
        |map| map.is_tied(&stated),
    );
    if let Some(lost) = changed.iter().find(|name| is_tied && is_head(name)) {
        let why = "and the hub's library does not read this tensor, so the change would be lost";
        return Err(failed(format!("an adapter changes {:?}, {why}{UNTIE}", Shortened(lost))));
    }
    if stated.get("quantization_config").is_some() && !options.types.rules.is_empty() {
        let why = "the folder is quantized, and its config.json says how; weights of other types need another \
                   config.json: convert it to a file, or to GGUF";
        return Err(Error::usage(Choice::Target, why));
    }
    let (mut files, mut notes) = (vec![(CONFIG.to_owned(), text)], Vec::new());
    let is_other = |name: &&str| *name != CONFIG && file_names().all(|(other, _)| other != *name);
    let others = ABOUT_WEIGHTS.into_iter().filter(is_other).map(|name| (name, MAX_OTHER));
    for (name, max_len) in file_names().chain(others) {
        match file(name, max_len) {
            Ok(found) => files.extend(found.map(|bytes| (name.to_owned(), bytes))),
            Err(why) => notes.push(Note::from(format!("{name} is not copied: {why}"))),
        }
    }
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    notes.push(Note::from(format!("{} are copied", names.join(", "))));
    Ok(Some(Restored { files, losses: Vec::new(), notes }))
}
