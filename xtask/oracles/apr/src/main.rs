//! Reads and writes APR files with aprender's own crate.
//!
//! `read FILE…` prints one JSON object for each file: its metadata as the crate understands it, and its
//! tensors with their bytes in hex. `write SPECS FOLDER` writes a file for each model in the JSON list SPECS,
//! named by its number.

use std::error::Error;
use std::fs;
use std::path::Path;

use apr_format::v2::{
    AprV2Flags, AprV2Metadata, AprV2Reader, AprV2StreamingWriter, AprV2Writer, TensorDType, required_file_len,
};
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["read", ref files @ ..] => files.iter().try_for_each(|file| Ok(println!("{}", read(file)?))),
        ["write", specs, folder] => {
            let specs: Vec<Value> = serde_json::from_slice(&fs::read(specs)?)?;
            let numbered = specs.iter().enumerate();
            numbered
                .map(|(number, spec)| write(spec, &Path::new(folder).join(format!("{number}.apr"))))
                .collect()
        }
        _ => Err("read FILE… | write SPECS FOLDER".into()),
    }
}

fn read(path: &str) -> Result<Value> {
    let file = fs::read(path)?;
    let reader = AprV2Reader::from_bytes(&file).map_err(|error| format!("{path}: {error}"))?;
    let tensor = |name: &str| -> Result<Value> {
        let entry = reader.get_tensor(name).ok_or("a tensor")?;
        let bytes = reader.get_tensor_data(name).ok_or("its values")?;
        Ok(json!({ "name": name, "dtype": entry.dtype.name(), "shape": entry.shape, "bytes": hex(bytes) }))
    };
    let tensors: Vec<Value> = reader.tensor_names().into_iter().map(tensor).collect::<Result<_>>()?;
    let metadata: Value = serde_json::from_slice(&reader.metadata().to_json()?)?;
    Ok(json!({
        "metadata": metadata,
        "tensors": tensors,
        "aligned": reader.verify_alignment(),
        "has_vocab": reader.header().flags.contains(AprV2Flags::HAS_VOCAB),
        "row_major": reader.header().flags.is_layout_valid(),
        "missing": required_file_len(&file)?.saturating_add(4).abs_diff(file.len() as u64),
    }))
}

/// One of the two writers of the crate.
enum Writer {
    Whole(AprV2Writer),
    Streaming(AprV2StreamingWriter),
}

fn write(spec: &Value, path: &Path) -> Result<()> {
    let metadata = AprV2Metadata::from_json(spec["metadata"].to_string().as_bytes())?;
    let mut writer = match spec["streaming"].as_bool() {
        Some(true) => Writer::Streaming(AprV2StreamingWriter::new(metadata)?),
        _ => Writer::Whole(AprV2Writer::new(metadata)),
    };
    for tensor in spec["tensors"].as_array().ok_or("a list of tensors")? {
        let name = tensor["name"].as_str().ok_or("a name")?;
        let dtype = dtype(tensor["dtype"].as_str().ok_or("a dtype")?)?;
        let shape: Vec<usize> = serde_json::from_value(tensor["shape"].clone())?;
        let bytes = unhex(tensor["bytes"].as_str().ok_or("bytes")?)?;
        let floats: Vec<f32> =
            bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        // Whether the crate itself quantizes the tensor, from floats.
        let is_encoded = tensor["encode"].as_bool() == Some(true);
        match (&mut writer, dtype) {
            (Writer::Whole(writer), TensorDType::AprQ4) if is_encoded => {
                writer.add_q4_tensor(name, shape, &floats)
            }
            (Writer::Whole(writer), TensorDType::AprQ8) if is_encoded => {
                writer.add_q8_tensor(name, shape, &floats)
            }
            (Writer::Whole(writer), dtype) => writer.add_tensor(name, dtype, shape, bytes),
            (Writer::Streaming(writer), dtype) => writer.add_tensor(name, dtype, shape, &bytes)?,
        }
    }
    match writer {
        Writer::Whole(mut writer) => fs::write(path, writer.write()?)?,
        Writer::Streaming(writer) => writer.finalize(path)?,
    }
    Ok(())
}

fn dtype(name: &str) -> Result<TensorDType> {
    use TensorDType::{AprQ4, AprQ8, BF16, F16, F32, F64, I8, I32, I64, Q4K, Q6K, U8};
    let all = [F32, F16, BF16, F64, I32, I64, I8, U8, AprQ4, AprQ8, Q4K, Q6K];
    let name = name.strip_prefix("apr_").unwrap_or(name);
    all.into_iter().find(|dtype| dtype.name() == name).ok_or_else(|| format!("no dtype {name}").into())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    let pair = |pair: &[u8]| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?);
    text.as_bytes().chunks(2).map(pair).collect()
}
