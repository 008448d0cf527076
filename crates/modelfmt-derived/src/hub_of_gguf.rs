//! Converts a GGUF to a hub folder: `modelfmt_hub` restores tensors, metadata and the files beside them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use modelfmt_core::DType;
use modelfmt_hub::back::{Check, FACTORS, Folder, Gguf, Group, Loss};
use modelfmt_hub::{HubTensor, Map, MapError};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::model::Model;
use modelfmt_model::model::mapped::{Computed, Program};
use modelfmt_rules::options::ConvertOptions;
use modelfmt_rules::wording::unsupported::Unsupported;
use modelfmt_rules::wording::{Choice, Note};

use crate::extra_keys::are_same;
use crate::mapping::{NONE, Restored, is_gguf};
use crate::maps::read_map;

/// The maximum number of factors of a rotation: one for each two dimensions of a head.
const MAX_FACTORS: u64 = 1 << 16;

/// Replaces a GGUF by the weights of the hub folder that it becomes, and returns the rest of the folder.
pub(crate) fn restore(model: &mut Cow<'_, Model>, options: &ConvertOptions) -> Result<Restored> {
    if !is_gguf(model.format()) {
        let why = format!(
            "a folder of the hub is made of a GGUF or of another such folder, and this model is {}",
            model.format()
        );
        return Err(Error::usage(Choice::Target, why));
    }
    let asked = options.tensors.map.as_deref();
    if asked == Some(NONE) {
        return Err(Error::usage(
            Choice::Map,
            "a folder of the hub is made by a map; give its name, or a file",
        ));
    }
    let map = asked.map(|asked| read_map(asked, model)).transpose()?;
    model.open_all()?;
    let (restored, weights) = Source { model }.restored(map)?;
    *model = Cow::Owned(weights);
    Ok(restored)
}

/// The GGUF.
struct Source<'a> {
    model: &'a Model,
}

impl Source<'_> {
    fn failed(&self, why: &impl ToString) -> Error {
        Error::NoHubFolder { path: self.model.path().to_owned(), why: why.to_string() }
    }

    fn restored(&self, map: Option<Map>) -> Result<(Restored, Model)> {
        let model = self.model;
        let keys = model.common_metadata()?.keys;
        let kind = keys.get("general.type").and_then(|kind| kind.as_str());
        if let Some(kind) = kind.filter(|kind| *kind != "model") {
            return Err(self.failed(&format!("`general.type` is {kind:?}, not \"model\"")));
        }
        let tensors: Vec<HubTensor<'_>> = model
            .tensors()
            .map(|info| HubTensor { name: info.name, dtype: info.dtype, shape: info.shape })
            .collect();
        let factors = self.factors(&tensors)?;
        let gguf = Gguf { keys: &keys, tensors: &tensors, factors };
        let folder = Folder::of(&gguf, map).map_err(|error: MapError| self.failed(&error))?;
        let Folder { map, groups, files, losses, notes, .. } = folder;
        let mut losses: Vec<Unsupported> = losses.iter().map(unsupported).collect();
        let mut computed = Vec::new();
        for Group { input, tensors: own, check } in groups {
            let own = match check {
                Some(Check { again, found, otherwise, why }) if !are_same(model, &again, &found)? => {
                    let name = tensors.get(input).map_or("", |tensor| tensor.name);
                    losses.push(unsupported(&Loss {
                        kind: "tensor",
                        name: name.to_owned(),
                        why: why.to_owned(),
                    }));
                    otherwise
                }
                _ => own,
            };
            computed.extend(own.into_iter().map(|(name, program)| Computed::new(name, program)));
        }
        let mut said =
            vec![Note::from(format!("the map {map} gives tensors and config.json the names of the hub"))];
        said.extend(notes.into_iter().map(Note::from));
        let weights = model.mapped(&head(model)?, computed)?;
        Ok((Restored { files, losses, notes: said }, weights))
    }

    /// Reads the factors of rotations, which are tensors in a GGUF and belong to the config of a hub folder.
    fn factors(&self, tensors: &[HubTensor<'_>]) -> Result<BTreeMap<String, Vec<f32>>> {
        let mut found = BTreeMap::new();
        for (number, tensor) in
            tensors.iter().enumerate().filter(|(_, tensor)| FACTORS.contains(&tensor.name))
        {
            let count = Program::input(number, tensor.dtype, tensor.shape).nbytes().unwrap_or(u64::MAX) / 4;
            if tensor.dtype != DType::F32 || tensor.shape.len() != 1 || count > MAX_FACTORS {
                continue;
            }
            let mut bytes = vec![0; usize::try_from(count).unwrap_or(0) * 4];
            self.model.read_into(number, 0, &mut bytes)?;
            let numbers = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
            found.insert(tensor.name.to_owned(), numbers.collect());
        }
        Ok(found)
    }
}

fn unsupported(loss: &Loss) -> Unsupported {
    Unsupported::loss(loss.kind, &loss.name, loss.why.as_str())
}

/// Makes a safetensors file without tensors, with the metadata that the hub's libraries expect.
fn head(model: &Model) -> Result<Model> {
    const HEADER: &str = r#"{"__metadata__":{"format":"pt"}}"#;
    let mut file = (HEADER.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(HEADER.as_bytes());
    Model::from_source(&model.path().to_string_lossy(), file)
}
