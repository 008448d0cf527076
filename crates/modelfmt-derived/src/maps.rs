//! What all maps need: the map that was requested, and a GGUF that has only keys.

use std::path::Path;

use modelfmt_core::Execution;
use modelfmt_gguf::{ArrayBuf, MetaValue, Metadata, Plan, ValueType, WriteOptions};
use modelfmt_hub::{Key, Map, MapError};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::model::Model;
use modelfmt_rules::wording::Choice;
use modelfmt_write::{MemoryFile, TensorSpec};

/// Makes a GGUF that has these keys and no tensors, under the path of the model.
pub(crate) fn head(model: &Model, keys: &[(String, Key)]) -> Result<Model> {
    let failed = |why: String| Error::Unmapped { path: model.path().to_owned(), why, help: None };
    let mut metadata = Metadata::new();
    for (key, value) in keys {
        push(&mut metadata, key, value).map_err(|fault| failed(format!("metadata key {key:?}: {fault}")))?;
    }
    let file = MemoryFile::new();
    let written = Plan::new(std::iter::empty::<TensorSpec<'_>>(), &metadata, &WriteOptions::new())
        .and_then(|plan| plan.write(&[[0_u8; 0]; 0], &file, &Execution::default()));
    written.map_err(|error| failed(error.to_string()))?;
    Model::from_source(&model.path().to_string_lossy(), file.into_bytes())
}

/// Adds a value with its type.
fn push(metadata: &mut Metadata, key: &str, value: &Key) -> Result<(), modelfmt_gguf::Fault> {
    fn array<'v>(
        kind: ValueType,
        members: impl Iterator<Item = MetaValue<'v>>,
    ) -> Result<ArrayBuf, modelfmt_gguf::Fault> {
        let mut array = ArrayBuf::new(kind);
        for member in members {
            array.push(member)?;
        }
        Ok(array)
    }
    match value {
        Key::Text(text) => metadata.push(key, MetaValue::String(text)),
        Key::U32(number) => metadata.push(key, MetaValue::U32(*number)),
        Key::F32(number) => metadata.push(key, MetaValue::F32(*number)),
        Key::Bool(flag) => metadata.push(key, MetaValue::Bool(*flag)),
        Key::Texts(texts) => {
            let texts = texts.iter().map(|text| MetaValue::String(text));
            metadata.push(key, array(ValueType::String, texts)?.as_value())
        }
        Key::F32s(numbers) => {
            let numbers = numbers.iter().map(|number| MetaValue::F32(*number));
            metadata.push(key, array(ValueType::F32, numbers)?.as_value())
        }
        Key::I32s(numbers) => {
            let numbers = numbers.iter().map(|number| MetaValue::I32(*number));
            metadata.push(key, array(ValueType::I32, numbers)?.as_value())
        }
        Key::Bytes(bytes) => {
            let bytes = bytes.iter().map(|byte| MetaValue::U8(*byte));
            metadata.push(key, array(ValueType::U8, bytes)?.as_value())
        }
    }
}

/// Reads the requested map: a family, a built-in map by its name, or a file, which the policy of the model
/// judges.
pub(crate) fn read_map(asked: &str, model: &Model) -> Result<Map> {
    const MAX_LEN: u64 = 1 << 20;
    let usage = |why: String| Error::usage(Choice::Map, why);
    match Map::named(asked) {
        Err(MapError::UnknownFamily { .. }) => {}
        found => return found.map_err(|error| usage(error.to_string())),
    }
    let path = Path::new(asked);
    let is_path = asked.contains(['/', '\\', '.']);
    if !is_path && !path.exists() {
        let known: Vec<String> = Map::families().collect();
        return Err(usage(format!(
            "{asked:?} is neither a file nor a family with a map: {}",
            known.join(", ")
        )));
    }
    let failed = |source| Error::Open { path: path.to_owned(), source };
    let source = model.related_options().open_other(path)?;
    if source.len() > MAX_LEN {
        return Err(usage(format!("{asked}: a map is at most 1 MiB")));
    }
    let bytes = source.read(0..source.len()).map_err(failed)?.to_vec();
    let text = String::from_utf8(bytes).map_err(|_| usage(format!("{asked}: a map is UTF-8")))?;
    Map::parse(asked, &text).map_err(|error| usage(error.to_string()))
}
