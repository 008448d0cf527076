//! Converts a PEFT adapter to a GGUF for llama.cpp with two matrices for each weight. The map of its base
//! renames and rearranges them.

use std::path::{Path, PathBuf};

use modelfmt_core::DType;
use modelfmt_core::author::Shortened;
use modelfmt_core::value::{Value, json};
use modelfmt_hub::{Config, Key, Map, MapError};
use modelfmt_metadata::config;
use modelfmt_model::error::{Error, Result};
use modelfmt_model::model::Model;
use modelfmt_model::model::mapped::{Computed, Program};
use modelfmt_model::sidecars::Sidecars;
use modelfmt_rules::options::ConvertOptions;
use modelfmt_rules::wording::{Choice, Note};
use tensor_program::ProgramError;

use crate::lora::{Change, EMBEDDING, Kind, Orientation, f64_of, failed, peft};
use crate::mapping::is_gguf;
use crate::maps::{head, read_map};

/// Returns the adapter for llama.cpp, if the model is a PEFT adapter.
pub(crate) fn mapped(model: &Model, options: &ConvertOptions) -> Result<Option<(Model, Vec<Note>)>> {
    let is_one = peft::is_adapter(model);
    match &options.tensors.base {
        Some(_) if !is_one => {
            let why = "it is not a PEFT adapter, and only PEFT adapters have a base".to_owned();
            Err(Error::Unmapped { path: model.path().to_owned(), why, help: None })
        }
        _ if !is_one => Ok(None),
        base => {
            let folder = base.clone().map_or_else(|| stated_base(model), Ok)?;
            Adapter { model, folder: &folder }.mapped(options.tensors.map.as_deref()).map(Some)
        }
    }
}

/// Returns a PEFT adapter with the names of a GGUF, if the base is a GGUF.
pub(crate) fn named_as_in(base: &Model, adapter: &Model, options: &ConvertOptions) -> Result<Option<Model>> {
    let named = if is_gguf(base.format()) { mapped(adapter, options)? } else { None };
    Ok(named.map(|(named, _)| named))
}

/// Returns the folder that the adapter names as its base.
fn stated_base(model: &Model) -> Result<PathBuf> {
    const MAX_LEN: u64 = 1 << 20;
    let text = config::file(model.sidecars(), peft::CONFIG, MAX_LEN).map_err(|why| failed(model, why))?;
    let stated = text.and_then(|text| json::parse(&text).ok());
    let stated =
        stated.as_ref().and_then(|config| config.get("base_model_name_or_path")).and_then(Value::as_str);
    // The path is relative to the working directory, as in PEFT, or to the folder of the adapter.
    let file = model.input_paths().next();
    let beside = stated.and_then(|stated| Some(file.as_deref()?.parent()?.join(stated)));
    match (stated.map(Path::new), beside) {
        (Some(folder), _) if folder.is_dir() => Ok(folder.to_owned()),
        (_, Some(folder)) if folder.is_dir() => Ok(folder),
        _ => {
            let named = stated.map_or_else(String::new, |stated| format!(", {:?},", Shortened(stated)));
            let why = format!(
                "its base{named} is no folder here, and its heads and its family are not known without it"
            );
            Err(Error::Unmapped { path: model.path().to_owned(), why, help: Some(Choice::Base) })
        }
    }
}

struct Adapter<'a> {
    model: &'a Model,
    /// The folder of the base.
    folder: &'a Path,
}

impl Adapter<'_> {
    fn unmapped(&self, error: &MapError) -> Error {
        Error::Unmapped { path: self.model.path().to_owned(), why: error.to_string(), help: None }
    }

    fn mapped(&self, asked: Option<&str>) -> Result<(Model, Vec<Note>)> {
        let changes = peft::changes(self.model)?;
        let config = self.config()?;
        let map = match asked {
            Some(asked) => read_map(asked, self.model)?,
            None => {
                let family = config.model_type().unwrap_or_default();
                Map::of_family(family).map_err(|error| self.unmapped(&error))?
            }
        };
        let alpha = self.common_alpha(&changes)?;
        let mut tensors = Vec::new();
        for change in &changes {
            tensors.extend(self.pair(change, alpha, (&map, &config))?);
        }
        let keys = [
            ("general.architecture", Key::Text(map.architecture().to_owned())),
            ("general.type", Key::Text("adapter".to_owned())),
            ("adapter.type", Key::Text("lora".to_owned())),
            ("adapter.lora.alpha", Key::F32(alpha)),
        ];
        let keys = keys.map(|(key, value)| (key.to_owned(), value));
        let mapped = self.model.mapped(&head(self.model, &keys)?, tensors)?;
        let note = format!("the map {} gives the adapter's tensors the names of llama.cpp", map.name());
        Ok((mapped, vec![Note::from(note)]))
    }

    fn config(&self) -> Result<Config> {
        const MAX_LEN: u64 = 1 << 20;
        let path = self.folder.join("config.json");
        let failed = |why: String| failed(self.model, format!("{}: {why}", path.display()));
        let options = self.model.related_options();
        if path.is_file() {
            options.open_other(&path)?; // fails with the reason if a policy refuses it
        }
        // This does not wait for a pipe of that name.
        let beside = Sidecars::in_folder(&options, self.folder);
        let text = config::file(&beside, "config.json", MAX_LEN).map_err(failed)?;
        let text = text.ok_or_else(|| failed("it is not there, and says what the base is".to_owned()))?;
        Config::parse(&text).map_err(|error| failed(error.to_string()))
    }

    /// Returns the alpha for the file, which llama.cpp divides by the rank of each pair: the first that is
    /// not 0, because llama.cpp takes the rank instead of 0.
    fn common_alpha(&self, changes: &[Change]) -> Result<f32> {
        for change in changes {
            if let Some(alpha) = self.alpha(change)?.filter(|alpha| *alpha != 0.0) {
                let why =
                    || failed(self.model, format!("{:?}: its factor is too large", Shortened(&change.base)));
                return alpha.is_finite().then_some(alpha).ok_or_else(why);
            }
        }
        Err(failed(self.model, "all its factors are 0, which llama.cpp takes for 1".to_owned()))
    }

    /// Returns the alpha that llama.cpp would divide by the rank of the pair.
    #[expect(clippy::cast_possible_truncation, reason = "GGUF has it as f32")]
    fn alpha(&self, change: &Change) -> Result<Option<f32>> {
        let Kind::Delta(delta) = &change.kind else { return Ok(None) };
        let rank = self.model.info(delta.a)?.shape.first().copied().unwrap_or(0);
        Ok(Some((delta.number * f64_of(rank)) as f32))
    }

    /// Returns the two matrices of a weight.
    fn pair(&self, change: &Change, alpha: f32, (map, config): (&Map, &Config)) -> Result<[Computed; 2]> {
        let refused = |why: &str| failed(self.model, format!("{:?}: {why}", Shortened(&change.base)));
        let Kind::Delta(delta) = &change.kind else {
            return Err(refused(
                "llama.cpp's adapters have no whole tensors; merge it into its base (--lora)",
            ));
        };
        let input = |number: usize| Ok::<_, Error>(Program::tensor(number, &self.model.info(number)?));
        let (a, b) = (input(delta.a)?, input(delta.b)?);
        let shape = [b.shape().first().copied().unwrap_or(0), a.shape().last().copied().unwrap_or(0)];
        let step = |error: ProgramError| refused(&error.to_string());
        // If the alpha of the pair is not that of the file, B is multiplied by their quotient.
        let own = self.alpha(change)?.unwrap_or(alpha);
        let factor = own / alpha;
        if !factor.is_finite() {
            return Err(refused("its factor is too large beside those of the others"));
        }
        let b =
            if own == alpha { b } else { b.cast(DType::F32).and_then(|b| b.times(factor)).map_err(step)? };
        let (name, a, b) = if delta.orientation == Orientation::Transposed {
            let [outputs, inputs] = shape;
            // (B · A)ᵀ is the change of an embedding, whose rows are tokens.
            let (name, a) = map
                .adapted(config, &change.base, [inputs, outputs], a.transposed().map_err(step)?)
                .map_err(|error| self.unmapped(&error))?;
            if name != EMBEDDING {
                return Err(refused("llama.cpp has this embedding as another kind of tensor"));
            }
            (name, a, b)
        } else {
            let (name, b) =
                map.adapted(config, &change.base, shape, b).map_err(|error| self.unmapped(&error))?;
            if name == EMBEDDING {
                return Err(refused("llama.cpp takes an embedding's adapter transposed, and this is none"));
            }
            (name, a, b)
        };
        let computed = |side: &str, program| Computed::new(format!("{name}.{side}"), program);
        Ok([computed("lora_a", a), computed("lora_b", b)])
    }
}
