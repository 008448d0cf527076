//! compressed-tensors, NVFP4 and MXFP4.

use modelfmt::DType;
use modelfmt_core::SmallType;

use super::super::common::{T, tensor};
use super::{
    Noise, bfloats, bytes, check, config, f32s, folder, folder_of, halves, i32s, pack_columns, pack_rows,
    refused,
};

fn norm() -> T {
    tensor("norm", DType::F32, &[3])
}

/// Returns the positions (row, column) in order.
fn places(rows: u64, columns: u64) -> impl Iterator<Item = (usize, usize)> {
    (0..rows as usize).flat_map(move |row| (0..columns as usize).map(move |column| (row, column)))
}

#[test]
fn whole_numbers_of_8_bits_are_decoded() {
    let mut noise = Noise::new(11);
    for (rows, columns, scale_shape) in [
        (33, 40, vec![33, 1]),
        (33, 40, vec![1]),
        (33, 40, vec![33, 4]),
        (4, 300, vec![4, 3]),
        (5, 64, vec![5]),
    ] {
        for has_zeros in [false, true] {
            let numbers: Vec<u8> = noise.numbers(rows * columns, 256).iter().map(|n| *n as u8).collect();
            let (scales, factors) = bfloats("w.weight_scale", &scale_shape, &mut noise);
            let zeros: Vec<u8> = noise.numbers(factors.len() as u64, 256).iter().map(|n| *n as u8).collect();
            let mut all = vec![bytes("w.weight", DType::I8, &[rows, columns], numbers.clone()), scales];
            if has_zeros {
                all.push(bytes("w.weight_zero_point", DType::I8, &scale_shape, zeros.clone()));
            }
            all.extend([norm(), f32s("w.input_scale", &[1], &[0.5])]);
            let groups = if scale_shape.len() == 2 { scale_shape[1] as usize } else { 1 };
            let expected = places(rows, columns).map(|(row, column)| {
                let group =
                    if scale_shape == [1] { 0 } else { row * groups + column * groups / columns as usize };
                let zero = if has_zeros { f32::from(zeros[group] as i8) } else { 0.0 };
                (f32::from(numbers[row * columns as usize + column] as i8) - zero) * factors[group]
            });
            let expected: Vec<f32> = expected.collect();
            let (_folder, model) = folder(&all, &[]);
            check(&model, "w.weight", &[rows, columns], &expected, &format!("{scale_shape:?}"));
        }
    }
}

struct Packed {
    bits: u64,
    rows: u64,
    columns: u64,
    group: Option<u64>,
    has_zeros: bool,
    act_order: bool,
}

fn packed(case: &Packed, noise: &mut Noise) -> (Vec<T>, Vec<f32>) {
    let &Packed { bits, rows, columns, group, has_zeros, act_order } = case;
    let (in_word, most) = (32 / bits, 1_u64 << bits);
    let groups = group.map_or(1, |group| columns.div_ceil(group));
    let numbers = noise.numbers(rows * columns, most);
    let pad = |numbers: &[u32], row: u64| -> Vec<u32> {
        let len = row.next_multiple_of(in_word) as usize;
        let pad = |row: &[u32]| row.iter().copied().chain(std::iter::repeat(0)).take(len).collect::<Vec<_>>();
        numbers.chunks(row as usize).flat_map(pad).collect()
    };
    let words = pack_columns(&pad(&numbers, columns), rows as usize, bits as usize);
    let (scales, factors) = bfloats("w.weight_scale", &[rows, groups], noise);
    let shape: Vec<u8> = [rows, columns].iter().flat_map(|len| len.to_le_bytes()).collect();
    let mut all = vec![
        i32s("w.weight_packed", &[rows, columns.div_ceil(in_word)], words),
        scales,
        bytes("w.weight_shape", DType::I64, &[2], shape),
    ];
    let zeros = noise.numbers(rows * groups, most);
    if has_zeros {
        // Packed along the rows, which may not fill the last words.
        let filled = rows.next_multiple_of(in_word) * groups;
        let long: Vec<u32> =
            zeros.iter().copied().chain(std::iter::repeat(0)).take(filled as usize).collect();
        let words = pack_rows(&long, groups as usize, bits as usize);
        all.push(i32s("w.weight_zero_point", &[rows.div_ceil(in_word), groups], words));
    }
    let size = group.unwrap_or(columns);
    let mut index: Vec<u32> = (0..columns).map(|at| (at / size) as u32).collect();
    if act_order {
        index.reverse();
        index.swap(1, columns as usize - 2);
        all.push(i32s("w.weight_g_idx", &[columns], index.clone()));
    }
    all.push(norm());
    let half = 1 << (bits - 1);
    let value = |(row, column): (usize, usize)| {
        let group = row * groups as usize + index[column] as usize;
        let number = numbers[row * columns as usize + column] as i32 - half;
        let zero = if has_zeros { zeros[group] as i32 - half } else { 0 };
        (number as f32 - zero as f32) * factors[group]
    };
    (all, places(rows, columns).map(value).collect())
}

#[test]
fn packed_numbers_are_decoded() {
    let mut noise = Noise::new(12);
    for bits in [4, 8] {
        for (rows, columns, group) in
            [(24, 64, Some(32)), (24, 64, None), (13, 44, Some(16)), (9, 192, Some(96))]
        {
            for (has_zeros, act_order) in [(false, false), (true, false), (false, true), (true, true)] {
                let case = Packed { bits, rows, columns, group, has_zeros, act_order };
                let (all, expected) = packed(&case, &mut noise);
                let size = group.map_or("null".to_owned(), |group| group.to_string());
                let text = config(&format!(
                    r#"{{"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {{"group_0":
                    {{"weights": {{"num_bits": {bits}, "group_size": {size}, "type": "int"}}}}}}}}"#
                ));
                let (_folder, model) = folder_of(&all, &text);
                let what = format!("{bits} bits, {rows} x {columns}, {group:?}, {has_zeros} {act_order}");
                check(&model, "w.weight", &[rows, columns], &expected, &what);
            }
        }
    }
    // The shapes also show the width; -1 means that the groups are in order.
    let case = Packed { bits: 4, rows: 24, columns: 64, group: Some(32), has_zeros: false, act_order: false };
    let (mut all, expected) = packed(&case, &mut noise);
    all.push(i32s("w.weight_g_idx", &[64], vec![u32::MAX; 64]));
    let (_folder, model) = folder(&all, &[]);
    check(&model, "w.weight", &[24, 64], &expected, "without a config");
    // False statements are refused.
    all[2] = bytes(
        "w.weight_shape",
        DType::I64,
        &[2],
        [u64::MAX, 64].iter().flat_map(|n| n.to_le_bytes()).collect(),
    );
    let found = refused(&folder(&all, &[]).1);
    assert!(found.contains("\".weight_shape\" is [-1, 64], and there are 24 rows"), "{found}");
    all[2] = bytes(
        "w.weight_shape",
        DType::I64,
        &[2],
        [24_u64, 100].iter().flat_map(|n| n.to_le_bytes()).collect(),
    );
    let found = refused(&folder(&all, &[]).1);
    assert!(found.contains("8 words in a row are not clearly numbers of 1, 2, 4 or 8 bits"), "{found}");
}

const E2M1: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

fn e2m1(code: u8) -> f32 {
    let magnitude = E2M1[usize::from(code & 7)];
    if code & 8 == 0 { magnitude } else { -magnitude }
}

fn small(dtype: DType, codes: &[u8]) -> Vec<f32> {
    let mut out = vec![0.0; codes.len()];
    SmallType::from_dtype(dtype).unwrap().decode(codes, &mut out);
    out
}

fn codes(noise: &mut Noise, count: u64, below: u64) -> Vec<u8> {
    noise.numbers(count, below).iter().map(|n| *n as u8).collect()
}

#[test]
fn nvfp4_is_decoded() {
    let mut noise = Noise::new(13);
    let (rows, columns) = (20_u64, 96_u64);
    let numbers = codes(&mut noise, rows * columns / 2, 256);
    let scales = codes(&mut noise, rows * columns / 16, 0x7f);
    let factors = small(DType::F8E4M3, &scales);
    let value = |(row, column): (usize, usize), scale: &dyn Fn(f32) -> f32| {
        let byte = numbers[(row * 96 + column) / 2];
        let code = if column.is_multiple_of(2) { byte & 15 } else { byte >> 4 };
        e2m1(code) * scale(factors[row * 6 + column / 16])
    };
    let of_all = 3.17e-4_f32;
    let scales = |shape: &[u64]| bytes("w.weight_scale", DType::F8E4M3, shape, scales.clone());
    for (modelopt, all) in [
        (
            true,
            [
                bytes("w.weight", DType::U8, &[rows, columns / 2], numbers.clone()),
                f32s("w.weight_scale_2", &[], &[of_all]),
            ],
        ),
        (
            false,
            [
                bytes("w.weight_packed", DType::U8, &[rows, columns / 2], numbers.clone()),
                f32s("w.weight_global_scale", &[1], &[of_all]),
            ],
        ),
    ] {
        let [first, second] = all;
        let tensors =
            [first.clone(), scales(&[rows, 6]), second.clone(), norm(), f32s("w.input_scale", &[], &[1.0])];
        let scale = |x: f32| if modelopt { x * of_all } else { x / of_all };
        let expected: Vec<f32> = places(rows, columns).map(|place| value(place, &scale)).collect();
        let (_folder, model) = folder(&tensors, &[]);
        check(&model, "w.weight", &[rows, columns], &expected, "nvfp4");
        // Scales in the order of kernels are padded to whole tiles.
        let swizzled = bytes("w.weight_scale", DType::F8E4M3, &[128, 8], vec![0x38; 1024]);
        let found = refused(&folder(&[first.clone(), swizzled, second.clone()], &[]).1);
        assert!(found.contains("swizzled: those of [20, 6] in tiles of 128 × 4"), "{found}");
        let found = refused(
            &folder(&[first, bytes("w.weight_scale", DType::F8E4M3, &[20, 5], vec![1; 100]), second], &[]).1,
        );
        assert!(found.contains("have the shape [20, 5], and [20, 6] is needed"), "{found}");
    }
}

#[test]
fn mxfp4_is_decoded() {
    let mut noise = Noise::new(14);
    let (rows, columns) = (6_u64, 64_u64);
    let numbers = codes(&mut noise, 2 * rows * columns / 2, 256);
    let powers: Vec<u8> = codes(&mut noise, 2 * rows * columns / 32, 20).iter().map(|x| x + 118).collect();
    let value = |row: usize, column: usize| {
        let byte = numbers[(row * 64 + column) / 2];
        let code = if column.is_multiple_of(2) { byte & 15 } else { byte >> 4 };
        e2m1(code) * 2.0_f32.powi(i32::from(powers[row * 2 + column / 32]) - 127)
    };
    // MXFP4 of compressed-tensors.
    let tensors = [
        bytes("w.weight_packed", DType::U8, &[2 * rows, columns / 2], numbers.clone()),
        bytes("w.weight_scale", DType::U8, &[2 * rows, columns / 32], powers.clone()),
        norm(),
    ];
    let expected: Vec<f32> = places(2 * rows, columns).map(|(row, column)| value(row, column)).collect();
    check(&folder(&tensors, &[]).1, "w.weight", &[2 * rows, columns], &expected, "mxfp4");
    // MXFP4 of experts, whose matrices are stored in the order of multiplication.
    let tensors = [
        bytes("experts.w_blocks", DType::U8, &[2, rows, columns / 32, 16], numbers.clone()),
        bytes("experts.w_scales", DType::U8, &[2, rows, columns / 32], powers.clone()),
        norm(),
    ];
    let at = |(expert, (column, row)): (usize, (usize, usize))| value(expert * 6 + row, column);
    let all = (0..2).flat_map(|expert| places(columns, rows).map(move |place| (expert, place)));
    let expected: Vec<f32> = all.map(at).collect();
    check(&folder(&tensors, &[]).1, "experts.w", &[2, columns, rows], &expected, "mxfp4 of experts");
}

#[test]
fn halves_are_scales_too() {
    let mut noise = Noise::new(15);
    let (scales, factors) = halves("w.weight_scale", &[4, 1], &mut noise);
    let tensors =
        [bytes("w.weight", DType::I8, &[4, 2], vec![1, 2, 3, 4, 255, 254, 128, 127]), scales, norm()];
    let numbers = [1.0, 2.0, 3.0, 4.0, -1.0, -2.0, -128.0, 127.0];
    let expected: Vec<f32> =
        numbers.iter().enumerate().map(|(at, number)| number * factors[at / 2]).collect();
    check(&folder(&tensors, &[]).1, "w.weight", &[4, 2], &expected, "f16");
    // Scales that belong to no part of the weight.
    let wrong = [tensors[0].clone(), halves("w.weight_scale", &[3, 1], &mut noise).0];
    let found = refused(&folder(&wrong, &[]).1);
    assert!(found.contains("scales of shape [3, 1] do not fit its shape [4, 2]"), "{found}");
}
