//! Models in memory, and comparisons of two models.

use modelfmt::convert::{Conversion, ConvertOptions, Converted};
use modelfmt::{DType, Error, Execution, Format, Model, OpenOptions};
use modelfmt_core::source::shared_files;
use modelfmt_core::value::{Object, Value, json};
use modelfmt_write::{MemoryFile, MemoryFolder, TensorSpec};

/// A tensor from which a model is built.
#[derive(Clone, Debug)]
pub struct T {
    pub name: &'static str,
    pub dtype: DType,
    pub shape: Vec<u64>,
    pub bytes: Vec<u8>,
}

/// Returns a tensor whose bytes differ from place to place and are valid values of any type.
pub fn tensor(name: &'static str, dtype: DType, shape: &[u64]) -> T {
    let nbytes = dtype.nbytes(shape).unwrap();
    let modulus = if dtype == DType::Bool { 2 } else { 101 };
    let seed = name.bytes().map(u64::from).sum::<u64>();
    let bytes = (0..nbytes).map(|i| ((i * 7 + seed) % modulus) as u8).collect();
    T { name, dtype, shape: shape.to_vec(), bytes }
}

/// Returns random bytes, which are the same for the same seed.
pub fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// Returns a tensor with these f32 values.
pub fn floats(name: &'static str, shape: &[u64], values: &[f32]) -> T {
    T {
        name,
        dtype: DType::F32,
        shape: shape.to_vec(),
        bytes: values.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}

/// Returns the notes of a conversion as text.
pub fn notes(done: &Converted) -> Vec<String> {
    done.notes.iter().map(ToString::to_string).collect()
}

pub fn object(text: &str) -> Object {
    json::parse_object(text.as_bytes()).unwrap()
}

fn specs(tensors: &[T]) -> impl Iterator<Item = TensorSpec<'_>> {
    tensors.iter().map(|t| TensorSpec::new(t.name, t.dtype, &t.shape[..]))
}

fn values(tensors: &[T]) -> Vec<&[u8]> {
    tensors.iter().map(|t| t.bytes.as_slice()).collect()
}

/// Returns a safetensors file in memory.
pub fn safetensors(tensors: &[T], metadata: &str) -> Model {
    let options = modelfmt_safetensors::WriteOptions::new();
    let metadata = object(metadata);
    let plan = modelfmt_safetensors::Plan::new(specs(tensors), Some(&metadata), &options).unwrap();
    let file = MemoryFile::new();
    plan.write(&values(tensors), &file, &Execution::sequential()).unwrap();
    open("m.safetensors", file.into_bytes())
}

/// Returns an APR2 file in memory.
pub fn apr2(tensors: &[T], metadata: &str) -> Model {
    let metadata = apr2::Metadata::from(object(metadata));
    let plan = apr2::Plan::new(specs(tensors), &metadata, &apr2::WriteOptions::new()).unwrap();
    let file = MemoryFile::new();
    plan.write(&values(tensors), &file, &Execution::sequential()).unwrap();
    open("m.apr", file.into_bytes())
}

/// Returns an APR file in memory.
pub fn apr(tensors: &[T], metadata: &str) -> Model {
    let metadata = apr::Metadata::from(object(metadata));
    let plan = apr::Plan::new(specs(tensors), &metadata, &apr::WriteOptions::new()).unwrap();
    let file = MemoryFile::new();
    plan.write(&values(tensors), &file, &Execution::sequential()).unwrap();
    open("m.apr", file.into_bytes())
}

/// Returns a MAG file in memory.
pub fn mag(tensors: &[T], metadata: &[(&str, Value)]) -> Model {
    let entries: Object = metadata.iter().cloned().collect();
    let plan = mag::Plan::new(specs(tensors), &entries, &mag::WriteOptions::new()).unwrap();
    let file = MemoryFile::new();
    plan.write(&values(tensors), &file, &Execution::sequential()).unwrap();
    open("m.mag", file.into_bytes())
}

/// Returns an OINF file in memory. A tensor without bytes is only declared.
pub fn oinf(tensors: &[T], metadata: &oinf::Metadata<'_>) -> Model {
    let spec = |t| match t {
        &T { name, dtype, ref shape, ref bytes } if bytes.is_empty() => {
            TensorSpec::declared(name, dtype, &shape[..])
        }
        T { name, dtype, shape, .. } => TensorSpec::new(*name, *dtype, &shape[..]),
    };
    let plan = oinf::Plan::new(tensors.iter().map(spec), metadata, &oinf::WriteOptions::new()).unwrap();
    let file = MemoryFile::new();
    plan.write(&values(tensors), &file, &Execution::sequential()).unwrap();
    open("m.oinf", file.into_bytes())
}

/// Returns a GGUF file in memory (version 3), with strings as metadata.
pub fn gguf(tensors: &[T], metadata: &[(&str, &str)]) -> Model {
    let text = |out: &mut Vec<u8>, text: &str| {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    };
    let mut out = b"GGUF\x03\0\0\0".to_vec();
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        text(&mut out, key);
        out.extend(8u32.to_le_bytes());
        text(&mut out, value);
    }
    let mut offset = 0u64;
    for t in tensors {
        text(&mut out, t.name);
        out.extend((t.shape.len() as u32).to_le_bytes());
        t.shape.iter().rev().for_each(|dim| out.extend(dim.to_le_bytes()));
        out.extend(t.dtype.ggml_type().unwrap().to_le_bytes());
        out.extend(offset.to_le_bytes());
        offset = (offset + t.bytes.len() as u64).next_multiple_of(32);
    }
    for t in tensors {
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(&t.bytes);
    }
    out.resize(out.len().next_multiple_of(32), 0);
    open("m.gguf", out)
}

pub fn open(name: &str, bytes: Vec<u8>) -> Model {
    Model::from_source(name, bytes).unwrap()
}

pub fn options(change: impl FnOnce(&mut ConvertOptions)) -> ConvertOptions {
    let mut options = ConvertOptions::default();
    change(&mut options);
    options
}

/// Converts in memory and opens the result.
pub fn try_convert(
    model: &Model,
    target: Format,
    options: &ConvertOptions,
) -> Result<(Model, Converted), Error> {
    let name = format!("m.{target}");
    if target.is_set() {
        let index = match target {
            Format::AeroSet => "m.aeroset.json",
            Format::SafetensorsSharded => "m.safetensors.index.json",
            _ => "m.apr",
        };
        let folder = MemoryFolder::default();
        let converted = Conversion::to_format(model, target).options(options).plan()?.write_to_files(
            index,
            &folder,
            &Execution::default(),
        )?;
        let files = folder.files();
        // The first file of a split GGUF opens the split, whatever its name.
        let is_split = target == Format::GgufSharded;
        let index = if is_split { converted.files[0].path.as_str() } else { index };
        let source = Box::new(files.0[index].clone());
        let name = if is_split { index } else { &name };
        let opened = OpenOptions::new().open_source(name, source, Some(shared_files(files)))?;
        return Ok((opened, converted));
    }
    let file = MemoryFile::new();
    let converted = Conversion::to_format(model, target).options(options).write_to_sink(&file)?;
    let bytes = file.into_bytes();
    assert_eq!(converted.files.len(), 1);
    assert_eq!(converted.files[0].nbytes, bytes.len() as u64);
    Ok((open(&name, bytes), converted))
}

pub fn convert(model: &Model, target: Format, options: &ConvertOptions) -> Model {
    try_convert(model, target, options).unwrap_or_else(|error| panic!("{target}: {}", all(&error))).0
}

/// Returns the text of an error with everything that it lists.
pub fn all(error: &Error) -> String {
    let mut text = error.to_string();
    if let Error::Unsupported { unsupported, .. } = error {
        unsupported.iter().for_each(|item| text.push_str(&format!("\n  {item}")));
    }
    text
}

/// Name, dtype, shape and values.
pub type Described = (String, DType, Vec<u64>, Option<Vec<u8>>);

/// Returns each tensor of a model in its order, with its values.
pub fn tensors(model: &Model) -> Vec<Described> {
    let values =
        |position, has_data: bool| has_data.then(|| model.tensor(position).unwrap().bytes().to_vec());
    let all = model.tensors().enumerate();
    all.map(|(i, t)| (t.name.to_owned(), t.dtype, t.shape.to_vec(), values(i, t.has_data))).collect()
}

/// Returns metadata and size variables.
pub fn metadata(model: &Model) -> (Value, Option<Value>) {
    (model.metadata().unwrap(), model.details().unwrap().get("sizevars").cloned())
}

/// Returns the object that carries everything, in formats that have one.
pub fn json_of(model: &Model) -> Object {
    let metadata = model.metadata().unwrap();
    let json = metadata.get("json").cloned().unwrap_or(metadata);
    json.as_object().cloned().unwrap_or_default()
}

pub fn assert_same(a: &Model, b: &Model, what: &str) {
    assert_eq!(tensors(a), tensors(b), "tensors, {what}");
    if a.format() == Format::Oinf && a.container().version() == b.container().version() {
        let quants =
            |model: &Model| (0..model.tensor_count()).map(|at| model.quant(at).unwrap()).collect::<Vec<_>>();
        assert_eq!(quants(a), quants(b), "quant payloads, {what}");
    }
    if matches!(a.format(), Format::Aero | Format::AeroSet) {
        let (a, mut b) = (json_of(a), json_of(b));
        if a.is_empty() {
            // A file without MJSN gets one, with the keys that our writer requires.
            b.retain(|key, _| !["model_name", "architecture", "modelfmt"].contains(&key));
        }
        assert_eq!(a, b, "metadata, {what}");
        return;
    }
    assert_eq!(metadata(a), metadata(b), "metadata, {what}");
}
