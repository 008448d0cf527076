//! Compares with an independent reader in Python, based on PyPI's `cryptography` and `blake3`, on the test
//! vectors of SEAL 1 and on what we write: random models that are signed, encrypted in every way, hidden,
//! compressed, or in shards.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use std::fs;
use std::path::Path;

use apr2_seal::seal::{Identity, Passphrase, RawKey, SealOptions, SigningKey};
use apr2_seal::value::{Object, Value, json};
use apr2_seal::{
    Compression, DType, Execution, Metadata, Overwrite, Plan, SetPlan, TensorSpec, WriteOptions,
};
use modelfmt_write::NewFolder;

/// Returns the oracle's result for each case.
fn oracle(cases: Vec<Object>) -> Vec<Object> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cases.json");
    let cases: Value = cases.into_iter().map(Value::from).collect();
    fs::write(&path, json::to_string(&cases).unwrap()).unwrap();
    let script =
        concat!(include_str!("../../../apr2/tests/oracle/lz4.py"), include_str!("../oracle/seal.py"));
    let said = testkit::python_with("model-signing-1.1.1", script, &[path.to_str().unwrap()]);
    let said = json::parse(said.as_bytes()).unwrap();
    said.as_array().unwrap().iter().map(Value::into_object).collect()
}

fn text<'o>(object: &'o Object, key: &str) -> &'o str {
    object.get(key).unwrap_or_else(|| panic!("no {key} in {object:?}")).as_str().unwrap()
}

fn objects(object: &Object, key: &str) -> Vec<Object> {
    object.get(key).unwrap().as_array().unwrap().iter().map(Value::into_object).collect()
}

/// Returns a list of the vectors' key names in the form in which the oracle takes keys.
fn named(vectors: &Object, case: &Object) -> Object {
    let at = |path: [&str; 3]| {
        let value = vectors.get(path[0]).unwrap().as_object().unwrap().get(path[1]).unwrap();
        if path[2].is_empty() {
            value.clone()
        } else {
            value.as_object().unwrap().get(path[2]).unwrap().clone()
        }
    };
    let list = |key: &str| case.get(key).and_then(Value::as_array).into_iter().flat_map(|list| list.iter());
    let mut out = Object::new();
    let trust = list("trust").map(|name| at(["sign", name.as_str().unwrap(), "public"]));
    out.insert("trust", trust.collect::<Value>());
    let keys = list("keys").map(|key| {
        let (kind, name) = key.as_str().unwrap().split_once(':').unwrap();
        let secret = at([kind, name, if kind == "x25519" { "secret" } else { "" }]);
        Value::from(Object::from_iter([(kind, secret)]))
    });
    out.insert("keys", keys.collect::<Value>());
    for key in ["threshold", "min_revision"] {
        if let Some(value) = case.get(key) {
            out.insert(key, value.clone());
        }
    }
    out
}

#[test]
fn the_oracle_says_of_the_vectors_what_they_say() {
    let folder = testkit::testdata("seal");
    let vectors = json::parse(&fs::read(folder.join("vectors.json")).unwrap()).unwrap().into_object();
    let (mut cases, mut expected) = (Vec::new(), Vec::new());
    for list in ["files", "outcomes", "tampered"] {
        for case in objects(&vectors, list) {
            let mut asked = named(&vectors, &case);
            asked.insert("file", folder.join(text(&case, "file")).to_str().unwrap());
            if list == "tampered" {
                asked.insert("offset", case.get("offset").unwrap().clone());
                asked.insert("xor", case.get("xor").unwrap().clone());
            }
            cases.push(asked);
            expected.push(case);
        }
    }
    let set = vectors.get("set").unwrap().clone().into_object();
    let mut asked = named(&vectors, &set);
    asked.insert("file", folder.join(text(&set, "manifest")).to_str().unwrap());
    asked.insert("set", true);
    cases.push(asked);
    expected.push(set);
    for (said, case) in oracle(cases).iter().zip(&expected) {
        let outcome = case.get("expect").and_then(Value::as_str).unwrap_or("ok");
        assert_eq!(text(said, "outcome"), outcome, "{case:?}");
        if case.get("tensors").is_some() {
            let hashes = |object: &Object| -> Vec<String> {
                objects(object, "tensors").iter().map(|tensor| text(tensor, "blake3").to_owned()).collect()
            };
            assert_eq!(hashes(said), hashes(case), "{case:?}");
            assert_eq!(text(said, "statement"), text(case, "statement"));
        }
    }
}

/// The number of models that are sealed, and read by the oracle.
const MODELS: u64 = 40;

/// Reproducible numbers that look random.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn bytes(&mut self, len: usize, is_noise: bool) -> Vec<u8> {
        (0..len)
            .map(|at| if is_noise { self.next().to_le_bytes()[3] } else { (at / 50).to_le_bytes()[0] })
            .collect()
    }

    fn secret(&mut self) -> [u8; 32] {
        self.bytes(32, true).try_into().unwrap()
    }
}

/// Lengths at which segments, blocks and pages begin or end, and some in between.
const LENGTHS: [usize; 12] = [0, 1, 15, 16, 17, 1000, 65_535, 65_536, 65_537, 131_072, 262_128, 300_000];

struct Model {
    specs: Vec<TensorSpec<'static>>,
    values: Vec<Vec<u8>>,
}

fn model(noise: &mut Noise) -> Model {
    let mut model = Model { specs: Vec::new(), values: Vec::new() };
    for number in 0..noise.below(6) {
        let len = LENGTHS[usize::try_from(noise.below(12)).unwrap()];
        let is_noise = noise.below(2) == 0;
        let spec = match noise.below(3) {
            0 if len.is_multiple_of(4) => {
                TensorSpec::new(format!("重み.{number}"), DType::F32, vec![1, len as u64 / 4])
            }
            1 => TensorSpec::new(format!("q.{number}"), DType::Q8_0, vec![len as u64 / 34, 32]),
            _ => TensorSpec::new(format!("tensor {number}"), DType::U8, vec![len as u64]),
        };
        let len = usize::try_from(spec.dtype.nbytes(&spec.shape).unwrap()).unwrap();
        model.values.push(noise.bytes(len, is_noise));
        model.specs.push(spec);
    }
    model
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns how a model is sealed, and one case for each way to open it.
fn sealing(noise: &mut Noise, number: u64) -> (SealOptions, Vec<Object>) {
    let mut seal = SealOptions::new().revision(noise.below(9));
    let (mut trust, mut keys) = (Vec::new(), Vec::new());
    for _ in 0..number % 3 {
        let key = SigningKey::from_bytes(&noise.secret());
        trust.push(hex(&key.verifying_key().to_bytes()));
        seal = seal.sign(key);
    }
    let mut key =
        |kind: &str, secret: &[u8]| keys.push(Object::from_iter([(kind, Value::from(hex(secret)))]));
    if number & 1 == 1 {
        let secret = noise.secret();
        let recipient = Identity::from_bytes(&secret).recipient();
        seal = seal.recipient(if noise.below(2) == 0 { recipient } else { recipient.anonymous() });
        key("x25519", &secret);
    }
    if number & 2 == 2 {
        let secret = noise.secret();
        seal = seal.raw_key(RawKey::from_bytes(&secret), noise.bytes(usize::try_from(number).unwrap(), true));
        key("raw", &secret);
    }
    // This takes 64 MiB here and in the oracle.
    if number % 8 == 4 {
        seal = seal.passphrase(Passphrase::from_bytes("Öffne dich".as_bytes()).unwrap());
        key("passphrase", "Öffne dich".as_bytes());
    }
    let trust: Value = trust.into_iter().map(Value::from).collect();
    let case = |keys: Vec<Object>| {
        let keys: Value = keys.into_iter().map(Value::from).collect();
        Object::from_iter([("trust", trust.clone()), ("keys", keys)])
    };
    // Without a key, everything but the values is checked.
    let cases = [Vec::new()].into_iter().chain(keys.into_iter().map(|key| vec![key])).map(case).collect();
    (seal, cases)
}

fn write(
    model: &Model,
    seal: &SealOptions,
    options: &WriteOptions,
    shards: bool,
    path: &Path,
) -> Option<[u8; 32]> {
    let metadata = Metadata::new("oracle", Object::from_iter([("n", 3)]));
    let work = Execution::default();
    if shards {
        let options = options.shard_size(200_000);
        let plan = SetPlan::new("model.apr", model.specs.clone(), &metadata, &options).unwrap();
        let folder = NewFolder::new(path.parent().unwrap(), Overwrite::Refuse);
        seal.write_set(&plan, &model.values, &folder, &work).unwrap();
        return None;
    }
    let plan = Plan::new(model.specs.clone(), &metadata, options).unwrap();
    let file = modelfmt_write::MemoryFile::new();
    let written = seal.write(&plan, &model.values, &file, &work).unwrap();
    fs::write(path, file.into_bytes()).unwrap();
    Some(written.statement)
}

#[test]
fn the_oracle_reads_what_we_seal() {
    let folder = tempfile::tempdir().unwrap();
    let mut noise = Noise(0x5ea1_5ea1);
    let mut hidden_sets = 0;
    let (mut cases, mut expected) = (Vec::new(), Vec::new());
    for number in 0..MODELS {
        let model = model(&mut noise);
        let (seal, ways) = sealing(&mut noise, number);
        let is_set = number % 5 == 3;
        let hides = seal.encrypts() && noise.below(if is_set { 2 } else { 3 }) == 0;
        hidden_sets += u64::from(is_set && hides);
        let seal = seal.hide_index(hides);
        let lz4 = if noise.below(2) == 0 { Compression::Lz4 } else { Compression::None };
        let path = folder.path().join(number.to_string()).join("model.apr");
        fs::create_dir(path.parent().unwrap()).unwrap();
        let statement = write(&model, &seal, &WriteOptions::new().compression(lz4), is_set, &path);
        let tensors: Vec<(String, String)> = model
            .specs
            .iter()
            .zip(&model.values)
            .map(|(spec, values)| (spec.name.to_string(), blake3::hash(values).to_hex().to_string()))
            .collect();
        for mut case in ways {
            case.insert("file", path.to_str().unwrap());
            case.insert("set", is_set);
            let has_key = !case.get("keys").unwrap().as_array().unwrap().is_empty();
            let shown = if has_key || !seal.encrypts() { tensors.clone() } else { Vec::new() };
            expected.push((number, statement, shown));
            cases.push(case);
        }
    }
    assert!(cases.len() > 80 && hidden_sets > 2, "{}, {hidden_sets}", cases.len());
    for (said, (number, statement, tensors)) in oracle(cases).iter().zip(expected) {
        assert_eq!(text(said, "outcome"), "ok", "model {number}");
        let found: Vec<_> = objects(said, "tensors")
            .iter()
            .map(|tensor| (text(tensor, "name").to_owned(), text(tensor, "blake3").to_owned()))
            .collect();
        assert_eq!(found, tensors, "model {number}");
        if let Some(statement) = statement {
            assert_eq!(text(said, "statement"), hex(&statement), "model {number}");
        }
    }
}
