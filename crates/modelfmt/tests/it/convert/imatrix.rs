//! `--imatrix`: the importance of columns, and files that are not importance matrices.

use std::fs;
use std::path::Path;

use modelfmt::convert::{ConvertOptions, TypeRule};
use modelfmt::{DType, Format, Model};

use super::common::{all, convert, floats, notes, options, safetensors, try_convert};

fn source() -> Model {
    let values: Vec<f32> = (0..512_u16).map(|i| f32::from(i % 37) - 18.0).collect();
    let tensors = ["blk.0.attn_v.weight", "blk.0.attn_q.weight"].map(|name| floats(name, &[2, 256], &values));
    safetensors(&tensors, "{}")
}

fn with(path: &Path, rule: &str) -> ConvertOptions {
    let path = path.to_owned();
    options(move |o| {
        o.types.rules = vec![TypeRule::parse_quantize(rule).unwrap()];
        o.types.imatrix = Some(path);
    })
}

/// Returns a `.dat` file with one entry.
pub(super) fn dat(name: &str, calls: i32, values: &[f32]) -> Vec<u8> {
    let mut bytes = 1_i32.to_le_bytes().to_vec();
    bytes.extend(i32::try_from(name.len()).unwrap().to_le_bytes());
    bytes.extend(name.bytes());
    bytes.extend(calls.to_le_bytes());
    bytes.extend(i32::try_from(values.len()).unwrap().to_le_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

#[test]
fn columns_count_by_their_importance() {
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("imatrix.dat");
    let sums: Vec<f32> = (0..256_u16).map(f32::from).collect();
    fs::write(&path, dat("blk.0.attn_v.weight", 4, &sums)).unwrap();
    let (small, done) = try_convert(&source(), Format::Aero, &with(&path, "q4_k")).unwrap();
    let note = "is used for 1 tensor; it says nothing of \"blk.0.attn_q.weight\"";
    assert!(notes(&done).iter().any(|text| text.contains(note)), "{:?}", notes(&done));
    let values = source().tensor("blk.0.attn_v.weight").unwrap().to_vec::<f32>().unwrap();
    let mut expected = [0; 288];
    let means: Vec<f32> = sums.iter().map(|sum| sum / 4.0).collect();
    ggml_quant::encode_weighted(DType::Q4K, &values, &means, &mut expected).unwrap();
    assert_eq!(small.tensor("blk.0.attn_v.weight").unwrap().bytes(), expected);
    let plain =
        convert(&source(), Format::Aero, &options(|o| o.types.rules = vec![TypeRule::quantize(DType::Q4K)]));
    let bytes = |model: &Model| model.tensor("blk.0.attn_q.weight").unwrap().bytes().to_vec();
    assert_eq!(bytes(&small), bytes(&plain));
}

#[test]
fn what_is_no_importance_matrix_is_refused_by_name() {
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("imatrix.dat");
    let name = "blk.0.attn_v.weight";
    let sound = dat(name, 1, &[1.0; 256]);
    let with_number = |at: usize, number: i32| {
        let mut bytes = sound.clone();
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        bytes
    };
    let twice = [&2_i32.to_le_bytes()[..], &sound[4..], &sound[4..]].concat();
    let rows: [(Vec<u8>, &str); 12] = [
        (Vec::new(), "it cannot be read"),
        (b"GGUF".to_vec(), "imatrix.dat"),
        (with_number(0, 0), "it has 0 entries"),
        (with_number(0, -5), "it has -5 entries"),
        (with_number(0, i32::MAX), "the file ends within the name's length of entry 1"),
        (with_number(4, i32::MAX), "the name's length of entry 0 is 2147483647"),
        (with_number(4, -1), "the name's length of entry 0 is -1"),
        (with_number(8 + name.len() + 4, i32::MAX), "the number of values of entry 0 is 2147483647"),
        (twice, "twice"),
        (dat(name, 1, &[1.0; 255]), "it has 255 numbers for"),
        (dat(name, 1, &[f32::NAN; 256]), "is not from 0 to 1e18"),
        (dat(name, 1, &[-1.0; 256]), "is not from 0 to 1e18"),
    ];
    for (bytes, why) in rows {
        fs::write(&path, &bytes).unwrap();
        let text = all(&try_convert(&source(), Format::Aero, &with(&path, "q4_k")).unwrap_err());
        assert!(text.contains(why), "{why}: {text}");
    }
    for end in 4..sound.len() {
        fs::write(&path, &sound[..end]).unwrap();
        assert!(try_convert(&source(), Format::Aero, &with(&path, "q4_k")).is_err(), "{end}");
    }
    fs::write(&path, &sound).unwrap();
    let text = all(&try_convert(&source(), Format::Aero, &with(&path, "q2_k_s")).unwrap_err());
    assert!(text.contains("\"blk.0.attn_q.weight\"") && text.contains("q2_k_s"), "{text}");
    let text = all(&try_convert(&source(), Format::Aero, &with(&path, "f16")).unwrap_err());
    assert!(text.contains("no rule quantizes"), "{text}");
}
