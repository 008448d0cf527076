//! Data of a folder for which GGUF has no key. A GGUF that is made from the folder carries it.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;

use modelfmt_value::{Object, Value, json};
use tensor_core::DType;
use tensor_program::Program;

use super::names::{Origin, Origins};
use super::table::{Exception, Table};
use super::{BASE_KEYS, CONFIG, FACTORS, FILE, Gguf, KNOWN_VERSION, MAP, TENSORS, VALUES, VERSION};
use super::{config, delta};
use crate::maps::Map;
use crate::maps::pattern::key_of;
use crate::{Config, HubTensor, Key, MapError, Mapped};

/// Keys that a GGUF carries.
#[derive(Clone, Debug, Default)]
pub struct ExtraKeys {
    /// The keys.
    pub keys: Vec<(String, Key)>,
    /// What cannot be carried, for the user.
    pub notes: Vec<String>,
}

/// Returns the programs that undo what a map does, over the tensors of the folder, each with the number of
/// the tensor. If the values of a program are not those of the tensor, the tensor itself has to be carried.
///
/// # Errors
/// If a step cannot be undone at all.
pub fn inverse_programs(mapped: &Mapped) -> Result<Vec<(usize, Program)>, MapError> {
    let mut found = Vec::new();
    for made in mapped.tensors.iter().filter(|made| !made.program.only_moves()) {
        let failed = |error| MapError::Step { name: made.name.clone(), error };
        found.extend(made.program.undone(made.program.clone()).map_err(failed)?);
    }
    Ok(found)
}

/// Makes the keys for a folder: its config, its tensors, and the bytes of those that cannot be undone.
///
/// # Errors
/// If the map cannot be undone.
pub fn extra_keys(
    map: &Map,
    config: &Object,
    tensors: &[HubTensor<'_>],
    mapped: &Mapped,
    values: impl IntoIterator<Item = (usize, Vec<u8>)>,
) -> Result<ExtraKeys, MapError> {
    let mut extra = ExtraKeys::default();
    let is_known = Map::named(map.name()).is_ok_and(|own| own.name() == map.name());
    let name = if is_known { map.name() } else { "" };
    extra.keys.push((VERSION.to_owned(), Key::U32(KNOWN_VERSION)));
    extra.keys.push((MAP.to_owned(), Key::Text(name.to_owned())));
    let made: Vec<HubTensor<'_>> = (mapped.tensors.iter())
        .map(|made| HubTensor { name: &made.name, dtype: made.program.dtype(), shape: made.program.shape() })
        .collect();
    let keys: Object = mapped.keys.iter().map(|(key, value)| (key.as_str(), plain(value))).collect();
    let gguf = Gguf { keys: &keys, tensors: &made, factors: factors(mapped) };
    let mut table = Table::usual(map);
    table.prefix = usual_prefix(map, mapped, tensors).unwrap_or(table.prefix);
    table.dtype = usual_dtype(mapped, tensors);
    let origins = Origins::of(map, &table, &Config::of(config.clone()), &made)?;
    correct(&mut table, &origins.found, tensors, map);
    table.left_out.clone_from(&mapped.left_out);
    extra.config(config::from_keys(map, &gguf), config);
    for (number, bytes) in values {
        if let Some(tensor) = tensors.get(number) {
            table.values.push(tensor.name.to_owned());
            extra.keys.push((format!("{VALUES}{}", tensor.name), Key::Bytes(bytes)));
        }
    }
    extra.keys.push((TENSORS.to_owned(), Key::Text(table.to_text())));
    Ok(extra)
}

impl ExtraKeys {
    /// Adds what a config has beyond `base`, which follows from other keys.
    fn config(&mut self, base: Object, wanted: &Object) {
        let known: Value = base.keys().collect();
        let mut own = delta::between(&Value::Object(base), &Value::Object(wanted.clone()));
        own.insert(BASE_KEYS, known);
        match json::to_string(&Value::Object(own)) {
            Ok(text) => self.keys.push((format!("{FILE}{CONFIG}"), Key::Text(text))),
            Err(error) => self.notes.push(format!("{CONFIG} is not stored in the GGUF: {error}")),
        }
    }
}

/// Adds to a table what differs between `origins`, which follow from the table, and the tensors of the
/// folder.
fn correct(table: &mut Table, origins: &[Origin], hub: &[HubTensor<'_>], map: &Map) {
    let mut by_name = HashMap::new();
    for tensor in hub {
        for prefix in &map.file.prefixes {
            if let Some(rest) = tensor.name.strip_prefix(prefix.as_str()) {
                by_name.entry(rest).or_insert((prefix, tensor));
            }
        }
    }
    for origin in origins {
        let Some((prefix, tensor)) = by_name.get(&*origin.key) else { continue };
        let other = Exception {
            prefix: (**prefix != table.prefix).then(|| (*prefix).clone()),
            dtype: (tensor.dtype != origin.dtype).then_some(tensor.dtype),
            shape: (tensor.shape != origin.shape).then(|| tensor.shape.to_vec()),
        };
        if other != Exception::default() {
            table.except.insert(origin.key.clone(), other);
        }
    }
}

/// Returns the plain value of a key, as a reader of GGUF returns it.
pub(crate) fn plain(key: &Key) -> Value {
    match key {
        Key::Text(text) => Value::from(text.as_str()),
        Key::U32(number) => Value::from(u64::from(*number)),
        Key::F32(number) => Value::Float(f64::from(*number)),
        Key::Bool(flag) => Value::Bool(*flag),
        Key::Texts(texts) => texts.iter().map(String::as_str).collect(),
        Key::F32s(numbers) => numbers.iter().map(|number| Value::Float(f64::from(*number))).collect(),
        Key::I32s(numbers) => numbers.iter().map(|number| Value::from(i64::from(*number))).collect(),
        Key::Bytes(bytes) => bytes.iter().map(|byte| Value::from(u64::from(*byte))).collect(),
    }
}

/// Returns the values of the tensors that are made from a config.
fn factors(mapped: &Mapped) -> BTreeMap<String, Vec<f32>> {
    let known = mapped.tensors.iter().filter(|made| FACTORS.contains(&&*made.name));
    known.map(|made| (made.name.clone(), numbers(&made.program))).collect()
}

/// Computes the values of a program without inputs.
fn numbers(program: &Program) -> Vec<f32> {
    let len = program.nbytes().and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
    let mut bytes = vec![0; len];
    let mut none = |_: usize, _: u64, _: &mut [u8]| Ok::<(), Infallible>(());
    match program.read(0, &mut bytes, &mut none) {
        Ok(_) => bytes.as_chunks::<4>().0.iter().map(|number| f32::from_le_bytes(*number)).collect(),
        Err(_) => Vec::new(),
    }
}

/// Returns the prefix of the first tensor that the map takes.
fn usual_prefix(map: &Map, mapped: &Mapped, tensors: &[HubTensor<'_>]) -> Option<String> {
    let first = mapped.tensors.iter().find_map(|made| made.program.inputs().into_iter().next());
    let name = tensors.get(first?)?.name;
    let known = |prefix: &&String| {
        name.strip_prefix(prefix.as_str()).is_some_and(|rest| {
            let (key, _) = key_of(rest);
            map.tensors.iter().any(|(pattern, _)| pattern.key() == key)
        })
    };
    map.file.prefixes.iter().find(known).cloned()
}

/// Returns the dtype that most of the tensors that are `f32` in the GGUF had before.
fn usual_dtype(mapped: &Mapped, tensors: &[HubTensor<'_>]) -> Option<DType> {
    let mut counts = BTreeMap::<&str, (u64, DType)>::new();
    for made in mapped.tensors.iter().filter(|made| made.is_f32) {
        for input in made.program.inputs() {
            let dtype = tensors.get(input)?.dtype;
            let floats = [DType::F32, DType::F16, DType::BF16];
            if floats.contains(&dtype) {
                let (count, _) = counts.entry(dtype.name()).or_insert((0, dtype));
                *count = count.saturating_add(1);
            }
        }
    }
    counts.into_values().max_by_key(|(count, _)| *count).map(|(_, dtype)| dtype)
}
