//! Makes a config from the keys and tensors of a GGUF.

use modelfmt_value::{Object, Value};
use tensor_core::DType;

use super::Gguf;
use super::number::shortest;
use super::rope;
use crate::maps::Map;
use crate::maps::file::{KeyEntry, Kind, Required};
use crate::number::rounded;
use crate::{Config, Key};

/// Makes a config without what only its writer knew. What `config.json` has beyond this is carried as a
/// difference.
pub(crate) fn from_keys(map: &Map, gguf: &Gguf<'_>) -> Object {
    let mut config = Object::new();
    if let Some(family) = map.file.families.first() {
        config.insert("model_type", family.as_str());
    }
    for (path, required) in &map.file.require {
        if let Required::OneOf(values) = required
            && let Some(value) = values.first()
        {
            insert(&mut config, path, value.clone());
        }
    }
    for (name, entry) in &map.file.metadata {
        let KeyEntry::Config { kind, path, or, times, .. } = entry else { continue };
        let Some(found) = gguf.keys.get(&map.key_name(name)) else { continue };
        let found = match (kind, found) {
            (Kind::F32, Value::Float(number)) => Value::Float(shortest(rounded(*number))),
            _ => found.clone(),
        };
        // Of two keys with the same meaning, the hub's library may know only the second.
        if let Some(other) = or.as_ref().filter(|other| *times == 1 && !config.contains_key(other)) {
            insert(&mut config, other, found.clone());
        }
        insert(&mut config, path, found);
    }
    insert_same(map, &mut config);
    let has = |name: &str| gguf.tensors.iter().any(|tensor| tensor.name == name);
    for (_, tensor) in &map.tensors {
        let is_there = has(&tensor.to.replace("{i}", "0"));
        if let Some(key) = tensor.unless.as_ref().filter(|_| !tensor.to.contains('{')) {
            insert(&mut config, key, Value::Bool(!is_there));
        }
        if let Some(key) = &tensor.when {
            insert(&mut config, key, Value::Bool(is_there));
        }
    }
    // Old GGUF files do not state the size of the vocabulary.
    let rows = gguf.tensors.iter().find(|tensor| tensor.name == "token_embd.weight");
    if let Some(rows) = rows.and_then(|tensor| tensor.shape.first())
        && !config.contains_key("vocab_size")
    {
        config.insert("vocab_size", *rows);
    }
    rope::insert_scaling(map, gguf, &mut config);
    config
}

/// Adds the values that must be those of other keys, if the hub's library would take others.
fn insert_same(map: &Map, config: &mut Object) {
    let known = Config::of(config.clone()).completed(&map.file.defaults, &map.file.aliases);
    let layers = known.count(&map.file.layers).ok();
    for (path, required) in &map.file.require {
        let Required::Same { key, with_layers } = required else { continue };
        let key = match with_layers {
            Some((count, other)) if Some(*count) == layers => other,
            _ => key,
        };
        let is_stated = Config::of(config.clone()).get(path).is_some();
        if let Some(value) = known.get(key).filter(|value| !is_stated && known.get(path) != Some(value)) {
            insert(config, path, value.clone());
        }
    }
}

/// Adds to the config of a GGUF from another tool what programs of the hub need and no tensor depends on: the
/// class, the special tokens, and the dtype that most of the weights have.
pub(crate) fn add_inferred_keys(map: &Map, gguf: &Gguf<'_>, config: &mut Object) {
    if let Some(class) = &map.file.class {
        config.insert("architectures", [class.as_str()].into_iter().collect::<Value>());
    }
    for (name, key) in [("bos_token_id", "bos"), ("eos_token_id", "eos"), ("pad_token_id", "padding")] {
        let found = gguf.keys.get(&format!("tokenizer.ggml.{key}_token_id"));
        if let Some(id @ Value::Int(_)) = found
            && !config.contains_key(name)
        {
            config.insert(name, id.clone());
        }
    }
    let floats = [(DType::F16, "float16"), (DType::BF16, "bfloat16"), (DType::F32, "float32")];
    let nbytes = |dtype: DType| {
        let of = gguf.tensors.iter().filter(|tensor| tensor.dtype == dtype);
        of.map(|tensor| dtype.nbytes(tensor.shape).unwrap_or(0)).fold(0, u64::saturating_add)
    };
    let most = floats.into_iter().map(|(dtype, name)| (nbytes(dtype), name)).max();
    if let Some((_, name)) = most.filter(|(nbytes, _)| *nbytes > 0) {
        config.insert("torch_dtype", name);
    }
}

/// Sets the value at a path of keys.
fn insert(config: &mut Object, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            config.insert(path, value);
        }
        Some((first, rest)) => {
            let mut inner = config.get(first).cloned().unwrap_or_default().into_object();
            insert(&mut inner, rest, value);
            config.insert(first, inner);
        }
    }
}

/// Checks whether a value of a GGUF is the value of a key.
pub(crate) fn is_same(key: &Key, value: &Value) -> bool {
    let numbers = |value: &Value| match value {
        Value::Float(number) => Some(rounded(*number).to_bits()),
        other => other.as_f64().map(|number| rounded(number).to_bits()),
    };
    match key {
        Key::Text(text) => value.as_str() == Some(text),
        Key::U32(number) => value.as_u64() == Some(u64::from(*number)),
        Key::F32(number) => numbers(value) == Some(number.to_bits()),
        Key::Bool(flag) => value.as_bool() == Some(*flag),
        Key::Texts(texts) => {
            value.as_array().and_then(modelfmt_value::List::texts).is_some_and(|own| own == *texts)
        }
        Key::F32s(all) => value.as_array().is_some_and(|own| {
            own.len() == all.len() && own.iter().zip(all).all(|(own, x)| numbers(&own) == Some(x.to_bits()))
        }),
        Key::I32s(all) => value.as_array().is_some_and(|own| {
            own.len() == all.len() && own.iter().zip(all).all(|(own, x)| own.as_i64() == Some(i64::from(*x)))
        }),
        Key::Bytes(all) => value.as_array().is_some_and(|own| {
            own.len() == all.len() && own.iter().zip(all).all(|(own, x)| own.as_u64() == Some(u64::from(*x)))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_objects_in_objects() {
        let mut config = Object::from_iter([("a", Value::from(1u64))]);
        insert(&mut config, "b.c.d", Value::from(2u64));
        insert(&mut config, "b.e", Value::from(3u64));
        insert(&mut config, "a.x", Value::from(4u64));
        assert_eq!(
            modelfmt_value::json::to_string(&Value::Object(config)).unwrap(),
            r#"{"a":{"x":4},"b":{"c":{"d":2},"e":3}}"#
        );
    }
}
