//! Small files of each format, for tests that need one of each.

use modelfmt_core::value::Object;
use modelfmt_core::{DType, Execution};
use modelfmt_write::TensorSpec;

use super::model::Model;
use super::writers::Write;
use super::{ggufs, writers};

/// A small file: its format, with its special property, and its bytes.
#[derive(Clone, Debug)]
pub struct Sample {
    /// `aero`, or `aero with zstd` and so on.
    pub name: &'static str,
    /// The file.
    pub bytes: Vec<u8>,
}

const SAMPLES: &[(&str, Write, u8)] = &[
    ("aero", writers::aero, 0),
    ("aero with all hashes", writers::aero, 0b01110),
    ("aero with zstd", writers::aero, 0b00001),
    ("mag", writers::mag, 0),
    ("mag 0.3", writers::mag_any, 0b010),
    ("mag 0.1", writers::mag_any, 0b100),
    ("mag 0.2", writers::mag_any, 0b110),
    ("oinf", writers::oinf, 0),
    ("oinf 2", writers::oinf_any, 0b1110),
    ("apr2", writers::apr2, 0),
    ("apr2 with lz4", writers::apr2, 1),
    ("apr1", write_apr1, 0),
    ("apr", writers::apr, 0),
    ("safetensors", writers::safetensors, 1),
    ("gguf", ggufs::by_hand, 6),
];

/// Returns a small file of each format, the same bytes each time.
///
/// # Panics
/// If a writer refuses it.
#[must_use]
pub fn samples() -> Vec<Sample> {
    let sample = |&(name, write, flags): &(&'static str, Write, u8)| {
        let bytes = write(&model(3), flags, &Execution::sequential())
            .unwrap_or_else(|| panic!("{name} holds the sample"));
        Sample { name, bytes }
    };
    SAMPLES.iter().map(sample).collect()
}

/// Returns the file with `tensors` tensors, to measure what grows with their number.
///
/// # Panics
/// If there is no such sample.
#[must_use]
pub fn sample_of(name: &str, tensors: usize) -> Vec<u8> {
    let (_, write, flags) = SAMPLES.iter().find(|sample| sample.0 == name).expect("a sample of that name");
    write(&model(tensors), *flags, &Execution::sequential()).expect("the format holds the sample")
}

/// Makes tensors of types that every format has; the third one is large enough to be worth compressing.
fn model(tensors: usize) -> Model {
    let mut model = Model { specs: Vec::new(), values: Vec::new(), metadata: Object::new() };
    for number in 0..tensors {
        let (dtype, shape) = match number % 3 {
            0 => (DType::F32, vec![2, 3]),
            1 => (DType::I8, vec![5]),
            _ => (DType::F16, vec![8, 16]),
        };
        let nbytes = dtype.nbytes(&shape).unwrap_or(0);
        model.values.push((0..nbytes).map(|i| (i as u8) % 13).collect());
        model.specs.push(TensorSpec::new(format!("layers.{number}.weight"), dtype, shape));
    }
    model.metadata.insert("answer", 42);
    model.metadata.insert("rate", 0.5);
    model
}

/// Writes APR1, which the crates only read, so that it is written here.
pub(crate) fn write_apr1(model: &Model, _: u8, _: &Execution<'_>) -> Option<Vec<u8>> {
    let metadata = br#"{"model_type":"fuzz","answer":42}"#;
    let mut out = b"APR1".to_vec();
    out.extend((metadata.len() as u32).to_le_bytes());
    out.extend(metadata);
    let (mut entries, mut offset) = (Vec::new(), 0);
    for (spec, values) in model.specs.iter().zip(&model.values) {
        let (dtype, shape) = (spec.dtype.name().to_uppercase(), &spec.shape);
        let size = values.len();
        entries.push(format!(
            r#"{{"name":"{}","dtype":"{dtype}","shape":{shape:?},"offset":{offset},"size":{size}}}"#,
            spec.name
        ));
        offset += size;
    }
    let index = format!("[{}]", entries.join(","));
    out.extend((model.specs.len() as u32).to_le_bytes());
    out.extend((index.len() as u32).to_le_bytes());
    out.extend(index.as_bytes());
    model.values.iter().for_each(|values| out.extend(values));
    let crc = crc32fast::hash(&out);
    out.extend(crc.to_le_bytes());
    Some(out)
}
