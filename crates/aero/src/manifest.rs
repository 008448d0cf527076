//! The manifest (MMSG): decodes the parts that a reader needs, and encodes it.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::value::{Object, Value};

use crate::msgpack::{self, DEPTH, Walker};

/// The keys that the specification defines for a manifest.
pub(crate) const KEYS: [&str; 5] = ["format", "model", "chunks", "shards", "quant_descriptors"];

/// Adds the entries of a manifest that the JSON does not have, except those that only describe the file
/// itself.
pub(crate) fn flatten(mut keys: Object, manifest: Object) -> Object {
    for (key, value) in manifest {
        match value {
            Value::Object(model) if key == "model" => put_model(&mut keys, "manifest.model.", model),
            _ if KEYS.contains(&key.as_str()) => {}
            value => keys.insert_with_prefix("manifest.", &key, value),
        }
    }
    keys
}

/// Adds the model's name and architecture from a manifest or a set's index, under the keys that writers use
/// in the JSON. If the JSON has a different value, the key gets `prefix`.
pub(crate) fn put_model(keys: &mut Object, prefix: &str, model: Object) {
    for (inner, value) in model {
        let key = match inner.as_str() {
            "name" => "model_name",
            "architecture" => "architecture",
            _ => {
                keys.insert_with_prefix(prefix, &inner, value);
                continue;
            }
        };
        match keys.get(key) {
            None => _ = keys.insert(key, value),
            // A JSON object has more information than a name.
            Some(known) if *known == value || known.as_str().is_none() => {}
            Some(_) => keys.insert_with_prefix(prefix, &inner, value),
        }
    }
}

/// The parts of a manifest's `quant_descriptors` that a reader needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Descriptors {
    /// `quant_id` and `ggml_type`, sorted.
    ggml: Vec<(u64, u64)>,
}

impl Descriptors {
    /// Decodes the descriptors from a manifest. A descriptor that does not match the specification is left
    /// out, and its tensors stay packed. This builds no tree, because a byte of the file could become 32
    /// bytes of a tree (docs/formats/aero.md#packed-tensors).
    pub(crate) fn of(manifest: &[u8]) -> Self {
        let mut ggml: Vec<(u64, u64)> = Vec::new();
        if let Some(mut list) = msgpack::find(Walker::new(manifest), "quant_descriptors") {
            for position in 0..list.array().unwrap_or(0) {
                ggml.extend(Self::descriptor(list, position.into()));
                if list.skip(DEPTH).is_err() {
                    break;
                }
            }
        }
        Self::new(ggml)
    }

    /// Creates descriptors of ggml's codecs from pairs of `quant_id` and `ggml_type`.
    pub(crate) fn new(mut ggml: Vec<(u64, u64)>) -> Self {
        ggml.sort_unstable();
        Self { ggml }
    }

    /// Decodes `quant_id` and `ggml_type` of the descriptor at the walker's position.
    fn descriptor(at: Walker<'_>, position: u64) -> Option<(u64, u64)> {
        if msgpack::find(at, "codec")?.text().ok()? != b"ggml" {
            return None;
        }
        let id = match msgpack::find(at, "quant_id") {
            Some(mut id) => id.uint().ok()?,
            None => position,
        };
        Some((id, msgpack::find(at, "ggml_type")?.uint().ok()?))
    }

    pub(crate) fn ggml_type(&self, id: u64) -> Option<u64> {
        let found = self.ggml.binary_search_by_key(&id, |&(other, _)| other).ok()?;
        self.ggml.get(found).map(|&(_, number)| number)
    }
}

/// A shard as the manifest lists it.
pub(crate) struct ListedShard {
    pub(crate) shard_id: u64,
    pub(crate) toc_index: u64,
    pub(crate) size_bytes: u64,
    pub(crate) tensor_count: u64,
}

/// Encodes an MMSG. `chunks` has the role, type and TOC position of each metadata chunk, in TOC order.
/// `quants` has the ggml types and their names, in the order of their `quant_id`.
pub(crate) fn manifest(
    name: &str,
    architecture: &str,
    chunks: &[(&str, &str, u64)],
    shards: &[ListedShard],
    quants: &[(u32, &str)],
) -> Object {
    let format =
        Object::from_iter([("name", Value::from("AERO")), ("version", [0u64, 1].into_iter().collect())]);
    let model = Object::from_iter([("name", name), ("architecture", architecture)]);
    let metadata = chunks.iter().map(|&(role, fourcc, index)| {
        let chunk: [(&str, Value); 3] =
            [("role", role.into()), ("fourcc", fourcc.into()), ("toc_index", index.into())];
        Object::from_iter(chunk)
    });
    let weights = shards.iter().map(|shard| {
        let chunk: [(&str, Value); 4] = [
            ("role", "weights".into()),
            ("fourcc", "WTSH".into()),
            ("toc_index", shard.toc_index.into()),
            ("shard_id", shard.shard_id.into()),
        ];
        Object::from_iter(chunk)
    });
    let listed = shards.iter().map(|shard| {
        let shard: [(&str, Value); 5] = [
            ("shard_id", shard.shard_id.into()),
            ("toc_index", shard.toc_index.into()),
            ("size_bytes", shard.size_bytes.into()),
            ("tensor_count", shard.tensor_count.into()),
            ("mmap_critical", true.into()),
        ];
        Object::from_iter(shard)
    });
    let mut object = Object::new();
    object.insert("format", format);
    object.insert("model", model);
    object.insert("chunks", metadata.chain(weights).collect::<Value>());
    object.insert("shards", listed.collect::<Value>());
    if !quants.is_empty() {
        let descriptor = |(id, &(ggml_type, name)): (usize, &(u32, &str))| {
            let descriptor: [(&str, Value); 4] = [
                ("quant_id", id.into()),
                ("codec", "ggml".into()),
                ("ggml_type", ggml_type.into()),
                ("name", name.into()),
            ];
            Object::from_iter(descriptor)
        };
        object.insert("quant_descriptors", quants.iter().enumerate().map(descriptor).collect::<Value>());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_found_by_id_or_position() {
        let manifest = manifest("m", "a", &[], &[], &[(2, "q4_0"), (8, "q8_0")]);
        let of = |manifest: &Object| Descriptors::of(&msgpack::encode(manifest).unwrap());
        let descriptors = of(&manifest);
        assert_eq!((descriptors.ggml_type(1), descriptors.ggml_type(2)), (Some(8), None));
        let list: Value = [Object::from_iter([("codec", Value::from("ggml")), ("ggml_type", 6.into())])]
            .into_iter()
            .collect();
        let manifest = Object::from_iter([("quant_descriptors", list)]);
        assert_eq!(of(&manifest).ggml_type(0), Some(6));
        for nothing in [&b""[..], b"\xc0", b"\x80", b"\x81\xb1quant_descriptors\x05"] {
            assert_eq!(Descriptors::of(nothing).ggml_type(0), None);
        }
    }
}
