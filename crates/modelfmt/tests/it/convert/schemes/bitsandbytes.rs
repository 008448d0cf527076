//! bitsandbytes: blocks of indexes into a table, and rows of 8-bit numbers.

use modelfmt::DType;

use super::super::common::{T, tensor};
use super::{Noise, bytes, check, f32s, folder, refused};

const STATE: &str = "w.weight.quant_state.bitsandbytes__nf4";

/// Returns the tensors of a weight, and its values. `state` is the JSON of its quantization state.
fn four_bits(count: u64, is_nested: bool, state: &str, name: &'static str) -> (Vec<T>, Vec<f32>) {
    let mut noise = Noise::new(21 + count);
    let codes: Vec<u8> = noise.numbers(count.div_ceil(2), 256).iter().map(|n| *n as u8).collect();
    let table: Vec<f32> = (0..16).map(|n| (n as f32 - 7.3) * 0.137).collect();
    let blocks = count.div_ceil(64);
    let mut all = vec![
        bytes("w.weight", DType::U8, &[count.div_ceil(2), 1], codes.clone()),
        f32s("w.weight.quant_map", &[16], &table),
        bytes(name, DType::U8, &[state.len() as u64], state.as_bytes().to_vec()),
        tensor("norm", DType::F32, &[3]),
    ];
    let magnitudes: Vec<f32> = if is_nested {
        let numbers: Vec<u8> = noise.numbers(blocks, 256).iter().map(|n| *n as u8).collect();
        let nested: Vec<f32> = (0..256).map(|n| (n as f32 - 127.0) * 0.0071).collect();
        let own: Vec<f32> = (0..blocks.div_ceil(256)).map(|n| 0.3 + n as f32 * 0.11).collect();
        all.push(bytes("w.weight.absmax", DType::U8, &[blocks], numbers.clone()));
        all.push(f32s("w.weight.nested_quant_map", &[256], &nested));
        all.push(f32s("w.weight.nested_absmax", &[own.len() as u64], &own));
        let value = |(at, number): (usize, &u8)| nested[usize::from(*number)] * own[at / 256] + 0.0625_f32;
        numbers.iter().enumerate().map(value).collect()
    } else {
        let own: Vec<f32> = (0..blocks).map(|n| 0.2 + n as f32 * 0.013).collect();
        all.push(f32s("w.weight.absmax", &[blocks], &own));
        own
    };
    let value = |at: u64| {
        let byte = codes[at as usize / 2];
        // The first number is in the high bits.
        let code = if at.is_multiple_of(2) { byte >> 4 } else { byte & 15 };
        table[usize::from(code)] * magnitudes[at as usize / 64]
    };
    (all, (0..count).map(value).collect())
}

fn state(shape: &str, more: &str) -> String {
    format!(r#"{{"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": {shape}{more}}}"#)
}

#[test]
fn places_in_a_table_are_decoded() {
    let nested = r#", "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.0625"#;
    for (rows, columns) in [(16, 96), (300, 64), (7, 33), (520, 256)] {
        for (is_nested, more) in [(false, ""), (true, nested)] {
            for name in [STATE, "w.weight.quant_state.bitsandbytes__fp4"] {
                let quant_state = state(&format!("[{rows}, {columns}]"), more);
                let (all, expected) = four_bits(rows * columns, is_nested, &quant_state, name);
                let what = format!("{rows} x {columns}, {is_nested}");
                check(&folder(&all, &[]).1, "w.weight", &[rows, columns], &expected, &what);
            }
        }
    }
}

#[test]
fn states_that_lie_are_refused() {
    let nested = r#", "nested_blocksize": 0, "nested_offset": 0.5"#;
    let bomb = "[".repeat(60_000);
    for (quant_state, is_nested, why) in [
        (state("[16, 97]", ""), false, "its quant_state says the shape [16, 97], and there are 768 bytes"),
        (state("[18446744073709551615, 2]", ""), false, "its quant_state says the shape"),
        (state("[16, -96]", ""), false, "it has no \"shape\""),
        (state("[16, 96]", "").replace("64,", "0,"), false, "its \"blocksize\" is not a number above 0"),
        (
            state("[16, 96]", "").replace("64,", "48,"),
            false,
            "scales of shape [24] do not fit its shape [1536] in blocks of 48",
        ),
        (state("[16, 96]", nested), true, "its \"nested_blocksize\" is not a number above 0"),
        (state("[16, 96]", r#", "nested_blocksize": 256"#), true, "its \"nested_offset\" is no number"),
        (bomb, false, "it is not good JSON"),
        (" ".repeat(70_000), false, "at most 65536 bytes of JSON are read"),
    ] {
        let (all, _) = four_bits(16 * 96, is_nested, &quant_state, STATE);
        let found = refused(&folder(&all, &[]).1);
        assert!(found.contains(why), "{found}");
    }
    let (mut all, _) = four_bits(16 * 96, false, &state("[16, 96]", ""), STATE);
    all[1] = f32s("w.weight.quant_map", &[15], &[0.0; 15]);
    let found = refused(&folder(&all, &[]).1);
    assert!(found.contains("a table of 16 elements is needed"), "{found}");
    all.remove(2);
    let found = refused(&folder(&all, &[]).1);
    assert!(found.contains("the tensor with its quant_state is not there"), "{found}");
}

#[test]
fn rows_of_8_bits_are_decoded() {
    let mut noise = Noise::new(22);
    let (rows, columns) = (40_u64, 130_u64);
    let numbers: Vec<u8> = noise.numbers(rows * columns, 256).iter().map(|n| *n as u8).collect();
    let magnitudes: Vec<f32> = (0..rows).map(|n| 0.7 + n as f32 * 0.031).collect();
    let mut all = vec![
        bytes("w.weight", DType::I8, &[rows, columns], numbers.clone()),
        f32s("w.SCB", &[rows], &magnitudes),
        bytes("w.weight_format", DType::U8, &[], vec![0]),
        tensor("norm", DType::F32, &[3]),
    ];
    // The library multiplies by the reciprocal.
    let value = |(at, number): (usize, &u8)| {
        f32::from(*number as i8) * magnitudes[at / columns as usize] * 7.874_016e-3_f32
    };
    assert_eq!((1.0_f32 / 127.0).to_bits(), (7.874_015_718_698_502e-3_f64 as f32).to_bits());
    let expected: Vec<f32> = numbers.iter().enumerate().map(value).collect();
    check(&folder(&all, &[]).1, "w.weight", &[rows, columns], &expected, "int8");
    all[2] = bytes("w.weight_format", DType::U8, &[], vec![2]);
    let found = refused(&folder(&all, &[]).1);
    assert!(found.contains("\"w.weight_format\" is [2], and only rows (0) are decoded"), "{found}");
}
