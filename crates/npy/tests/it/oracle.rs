//! NumPy writes and we read: every type, order and version, stored and compressed. Our headers are NumPy's.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use std::fs;

use modelfmt_npy::value::Value;
use modelfmt_npy::{Container, DType, Execution, Reader, VerifyLevel};

const SCRIPT: &str = r#"
import sys, json, numpy as np
folder = sys.argv[1]
rng = np.random.default_rng(7)
arrays, expected = {}, {}
def note(file, name, a):
    a = np.ascontiguousarray(a).reshape(np.shape(a))
    le = a.astype(a.dtype.newbyteorder('<'))
    expected.setdefault(file, []).append([name, list(a.shape), le.tobytes().hex()])
n = 0
for dt in ['?', 'i1', 'u1', '<i2', '>i2', '<u2', '<i4', '>i4', '<u4', '<i8', '>i8', '<u8', '<f2', '>f2', '<f4', '>f4', '<f8', '>f8', '<c8', '>c8']:
    for shape in [(), (0,), (3,), (2, 3), (4, 1, 5), (2, 0, 3)]:
        for order in 'CF':
            a = np.array(rng.integers(0, 100, shape)).astype(dt)
            a = np.array(a, order=order)
            file = f'a{n}.npy'
            with open(f'{folder}/{file}', 'wb') as f:
                np.lib.format.write_array(f, a, version=[(1, 0), (2, 0), (3, 0)][n % 3])
            note(file, 'array', a)
            arrays[f'x{n}'] = a
            n += 1
arrays['größe/ü'] = np.arange(100000, dtype='<f4').reshape(250, 400)
arrays['transposed'] = np.asfortranarray(arrays['größe/ü'])
np.savez(f'{folder}/stored.npz', **arrays)
np.savez_compressed(f'{folder}/deflated.npz', **arrays)
for name, a in arrays.items():
    note('stored.npz', name, a)
    note('deflated.npz', name, a)
print(json.dumps(expected))
"#;

#[test]
fn what_numpy_writes_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let said = testkit::python(SCRIPT, &[folder.path().to_str().unwrap()]);
    let expected: serde_json::Value = serde_json::from_str(&said).unwrap();
    for (file, arrays) in expected.as_object().unwrap() {
        let path = folder.path().join(file);
        let reader = Reader::open(&path).unwrap();
        let memory = Reader::from_source(fs::read(&path).unwrap()).unwrap();
        assert_eq!(reader.tensors().len(), arrays.as_array().unwrap().len(), "{file}");
        for array in arrays.as_array().unwrap() {
            let name = array[0].as_str().unwrap();
            let found = reader.tensor(name).unwrap();
            assert_eq!(serde_json::json!(found.shape()), array[1], "{file} {name}");
            assert_eq!(hex(found.bytes()), array[2].as_str().unwrap(), "{file} {name}");
            let len = found.bytes().len() as u64;
            for (from, to) in [(0, len), (len / 3, len), (1.min(len), len / 2), (len / 2, len / 2 + 1)] {
                let (from, to) = (from.min(len), to.clamp(from.min(len), len));
                let part = reader.read_range(name, from..to).unwrap();
                assert_eq!(*part, found.bytes()[from as usize..to as usize], "{file} {name} {from}..{to}");
                assert_eq!(*memory.read_range(name, from..to).unwrap(), *part, "{file} {name} {from}..{to}");
            }
        }
        reader.verify(VerifyLevel::Full).into_result().unwrap();
        let report = memory.verify_with(VerifyLevel::Full, &Execution { threads: 1, progress: None });
        report.into_result().unwrap();
        assert_eq!(Container::metadata(&reader).unwrap(), Value::Object(Default::default()));
    }
}

/// Prints what NumPy writes before the values, for shapes whose headers have lengths around a multiple of 64.
const HEADERS: &str = r#"
import io, json, numpy as np
headers = []
for dt in ['?', 'i1', 'u1', '<i2', '<u2', '<i4', '<u4', '<i8', '<u8', '<f2', '<f4', '<f8', '<c8']:
    for shape in [(), (0,), (7,), (2, 3), (10, 0), *[(n * 9, *(k * (1,))) for n in (1, 11) for k in range(32)]]:
        a = np.zeros(shape, dt)
        f = io.BytesIO()
        np.save(f, a)
        headers.append([np.dtype(dt).str, shape, f.getvalue()[:f.getbuffer().nbytes - a.nbytes].hex()])
print(json.dumps(headers))
"#;

#[test]
fn headers_are_those_of_numpy() {
    let said = testkit::python(HEADERS, &[]);
    let headers: Vec<(String, Vec<u64>, String)> = serde_json::from_str(&said).unwrap();
    assert_eq!(headers.len(), 13 * (5 + 64));
    for (name, shape, expected) in headers {
        let named = |dtype: &DType| modelfmt_npy::type_name(*dtype).as_deref() == Some(&*name);
        let dtype = DType::ALL.iter().copied().find(named).unwrap();
        assert_eq!(hex(&modelfmt_npy::header(dtype, &shape).unwrap()), expected, "{name} {shape:?}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
