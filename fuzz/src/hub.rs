//! Converts a GGUF with untrusted keys to a hub folder.

use std::collections::BTreeMap;
use std::convert::Infallible;

use modelfmt::value::json;
use modelfmt::{DType, Object, Value};
use modelfmt_hub::HubTensor;
use modelfmt_hub::back::{Folder, Gguf};

use super::Depth;

/// The most bytes of a tensor that are computed.
const MOST: u64 = 1 << 12;

/// Makes a folder from keys and tensors in JSON: `{"keys": {…}, "tensors": [[name, dtype, [dimensions]],
/// …]}`.
pub fn folder(input: &[u8], _: Depth) {
    let Ok(input) = json::parse_object(input) else { return };
    let keys = input.get("keys").cloned().unwrap_or_default().into_object();
    let list = input.get("tensors").and_then(Value::as_array).cloned().unwrap_or_default();
    let tensor = |value: Value| {
        let parts = value.as_array()?;
        let dtype: DType = parts.get(1)?.as_str()?.parse().ok()?;
        let shape = parts.get(2)?.as_array()?.iter().map(|dim| dim.as_u64()).collect::<Option<Vec<u64>>>()?;
        // A reader of GGUF refuses other shapes.
        (shape.len() <= 4 && dtype.nbytes(&shape).is_some())
            .then(|| Some((parts.get(0)?.as_str()?.to_owned(), dtype, shape)))?
    };
    let tensors: Vec<(String, DType, Vec<u64>)> = list.iter().filter_map(tensor).collect();
    let list: Vec<HubTensor<'_>> =
        (tensors.iter()).map(|(name, dtype, shape)| HubTensor { name, dtype: *dtype, shape }).collect();
    let floats = |key: &str| -> Option<Vec<f32>> {
        let list = input.get(key)?.as_array()?;
        list.iter().map(|number| number.as_f64().map(|number| number as f32)).collect()
    };
    let factors: BTreeMap<String, Vec<f32>> = (modelfmt_hub::back::FACTORS.iter())
        .filter_map(|name| Some(((*name).to_owned(), floats(name)?)))
        .collect();
    let Ok(folder) = Folder::of(&Gguf { keys: &keys, tensors: &list, factors }, None) else { return };
    for (name, _) in &folder.files {
        assert!(!name.contains(['/', '\\']) && !name.starts_with('.'), "{name}");
    }
    let check = |object: &Object| json::to_string(&Value::Object(object.clone())).is_ok();
    assert!(check(&keys), "what was parsed can be written");
    for group in &folder.groups {
        let otherwise = group.check.iter().flat_map(|check| check.otherwise.iter());
        for (_, program) in group.tensors.iter().chain(otherwise) {
            let len = program.nbytes().expect("a tensor has a length").min(MOST);
            let mut out = vec![0; usize::try_from(len).expect("it is short")];
            let mut zeros = |_: usize, _: u64, out: &mut [u8]| {
                out.fill(0);
                Ok::<(), Infallible>(())
            };
            _ = program.read(0, &mut out, &mut zeros);
        }
    }
}
