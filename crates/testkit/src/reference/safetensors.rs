//! safetensors.

use serde_json::{Map, Value};

use super::{Input, Model, Tensor, members, nbytes, part};

/// The format's name, ours, and how many elements take how many bytes.
const DTYPES: [(&str, &str, u64, u64); 22] = [
    ("BOOL", "bool", 1, 1),
    ("U8", "u8", 1, 1),
    ("I8", "i8", 1, 1),
    ("U16", "u16", 1, 2),
    ("I16", "i16", 1, 2),
    ("U32", "u32", 1, 4),
    ("I32", "i32", 1, 4),
    ("U64", "u64", 1, 8),
    ("I64", "i64", 1, 8),
    ("F16", "f16", 1, 2),
    ("BF16", "bf16", 1, 2),
    ("F32", "f32", 1, 4),
    ("F64", "f64", 1, 8),
    ("C64", "c64", 1, 8),
    ("F8_E4M3", "f8_e4m3", 1, 1),
    ("F8_E5M2", "f8_e5m2", 1, 1),
    ("F8_E8M0", "f8_e8m0", 1, 1),
    ("F8_E4M3FNUZ", "f8_e4m3fnuz", 1, 1),
    ("F8_E5M2FNUZ", "f8_e5m2fnuz", 1, 1),
    ("F6_E2M3", "f6_e2m3", 4, 3),
    ("F6_E3M2", "f6_e3m2", 4, 3),
    ("F4", "f4", 2, 1),
];

pub(super) fn read(file: &[u8]) -> Option<Model> {
    let mut input = Input::new(file, 0);
    let len = input.u64()?;
    let header = members(input.bytes(len)?)?;
    let data = file.get(usize::try_from(input.at).ok()?..)?;
    let mut model = Model { tensors: Vec::new(), metadata: Some(Map::new().into()), checksums_hold: true };
    for (name, value) in header {
        if name != "__metadata__" {
            model.tensors.push(tensor(name, &value, data)?);
        } else if !value.is_null() {
            model.metadata = Some(value);
        }
    }
    Some(model)
}

fn tensor(name: String, entry: &Value, data: &[u8]) -> Option<Tensor> {
    let dtype = entry.get("dtype")?.as_str()?;
    let &(_, dtype, elements, bytes) = DTYPES.iter().find(|(theirs, ..)| *theirs == dtype)?;
    let numbers = |key| entry.get(key)?.as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<_>>>();
    let (shape, offsets) = (numbers("shape")?, numbers("data_offsets")?);
    let &[begin, end] = &offsets[..] else { return None };
    if nbytes(&shape, elements, bytes)? != end.checked_sub(begin)? {
        return None;
    }
    let bytes = part(data, begin, end - begin)?.to_vec();
    Some(Tensor { name, dtype: dtype.to_owned(), shape, bytes: Some(bytes) })
}
