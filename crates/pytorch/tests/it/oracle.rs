//! PyTorch writes and we read: models with random shapes and views, in both forms, with protocols 2 to 5.
//! Without Debian's `python3-torch` nothing is compared.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use modelfmt_pytorch::{Container, Reader, VerifyLevel};

const SCRIPT: &str = r#"
import sys, json, random, collections, torch
folder = sys.argv[1]
random.seed(11)
torch.manual_seed(11)
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
          torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64]
def fresh():
    shape = [random.randrange(0, 5) for _ in range(random.randrange(0, 4))]
    return (torch.rand(shape) * 100).to(random.choice(DTYPES))
def view(t):
    for _ in range(random.randrange(0, 3)):
        what = random.randrange(6)
        if what == 0: t = t.t() if t.dim() == 2 else t
        elif what == 1 and t.dim(): t = t[random.randrange(0, t.shape[0] + 1):]
        elif what == 2 and t.dim(): t = t[::2]
        elif what == 3: t = t.expand([2, *t.shape])
        elif what == 4 and t.dim() > 1: t = t.transpose(0, -1)
        elif what == 5: t = torch.nn.Parameter(t) if t.is_floating_point() else t
    return t
def raw(t):
    t = t.detach().contiguous()
    t = t.view(torch.int16) if t.dtype == torch.bfloat16 else t
    return t.numpy().tobytes().hex()
def made(depth, path, out):
    kind = random.randrange(3) if depth < 3 else 0
    if kind == 0:
        t = view(random.choice(pool) if pool and random.random() < 0.4 else fresh())
        pool.append(t.detach())
        out.append([path or 'tensor', str(t.dtype), list(t.shape), raw(t)])
        return t
    count = random.randrange(0, 4)
    join = lambda key: f'{path}.{key}' if path else key
    if kind == 1:
        d = random.choice([dict, collections.OrderedDict])()
        for n in range(count):
            key = random.choice([f'k{n}', n, f'größe {n}'])
            d[key] = made(depth + 1, join(str(key)), out)
        if random.random() < 0.5: d['note'] = random.choice([1, 2.5, 'text', None, True, [1, 2], (3,), {'x': 1}])
        return d
    items = [made(depth + 1, join(str(n)), out) for n in range(count)]
    return items if random.random() < 0.5 else tuple(items)
expected = {}
for n in range(int(sys.argv[2])):
    pool, out = [], []
    model = made(0 if n else 9, '', out)
    file = f'm{n}.pt'
    torch.save(model, f'{folder}/{file}', pickle_protocol=2 + n % 4, _use_new_zipfile_serialization=n % 3 != 0)
    expected[file] = out
print(json.dumps(expected))
"#;

#[test]
fn what_torch_writes_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let Some(said) = testkit::debian_python("torch, numpy", SCRIPT, &[path, "120"]) else { return };
    let expected: serde_json::Value = serde_json::from_str(&said).unwrap();
    for (file, tensors) in expected.as_object().unwrap() {
        let reader = Reader::open(folder.path().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let tensors = tensors.as_array().unwrap();
        assert_eq!(reader.tensors().len(), tensors.len(), "{file}");
        assert!(!reader.index().runs_code() && Container::warnings(&reader).is_empty(), "{file}");
        for tensor in tensors {
            let name = tensor[0].as_str().unwrap();
            let found = reader.tensor(name).unwrap_or_else(|error| panic!("{file} {name}: {error}"));
            assert_eq!(serde_json::json!(found.shape()), tensor[2], "{file} {name}");
            let hex: String = found.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, tensor[3].as_str().unwrap(), "{file} {name}");
        }
        reader.verify(VerifyLevel::Full).into_result().unwrap();
    }
}
