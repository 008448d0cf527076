use std::convert::Infallible;

use proptest::prelude::*;

use std::sync::Arc;

use tensor_core::{SmallType, TensorInfo};

use crate::{Affine, DType, Lost, Program, ProgramError, ReadError, Scaling, ValueError};

/// Returns the values of an input: element `i` of input `n` is `1000 n + i`, as a float.
fn input(number: usize, count: u64) -> Vec<f32> {
    (0..count).map(|i| (1000 * number as u64 + i) as f32).collect()
}

/// Returns all values of a program over `f32`, read in pieces of `piece` bytes.
fn values(program: &Program, piece: usize) -> Vec<f32> {
    let len = usize::try_from(program.nbytes().unwrap()).unwrap();
    let mut bytes = vec![0; len];
    for (number, out) in bytes.chunks_mut(piece).enumerate() {
        let mut read = |input_number: usize, at: u64, out: &mut [u8]| {
            let all: Vec<u8> = input(input_number, 4096).iter().flat_map(|x| x.to_le_bytes()).collect();
            let at = usize::try_from(at).unwrap();
            out.copy_from_slice(&all[at..at + out.len()]);
            Ok::<(), Infallible>(())
        };
        program.read((number * piece) as u64, out, &mut read).unwrap();
    }
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn f32s(number: usize, shape: &[u64]) -> Program {
    Program::input(number, DType::F32, shape)
}

/// Returns the position of an index in a row-major tensor of `shape`.
fn place(shape: &[u64], index: &[u64]) -> u64 {
    shape.iter().zip(index).fold(0, |at, (len, i)| at * len + i)
}

/// Returns all indices of a shape, in order.
fn indices(shape: &[u64]) -> Vec<Vec<u64>> {
    shape.iter().fold(vec![Vec::new()], |all, len| {
        all.iter().flat_map(|index| (0..*len).map(move |i| [&index[..], &[i]].concat())).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Every element of a permuted tensor is the one that the definition names, for pieces of any length.
    #[test]
    fn permuted_elements_are_where_they_belong(
        (shape, axes) in prop::collection::vec(1..5u64, 1..5).prop_flat_map(|shape| {
            let axes: Vec<usize> = (0..shape.len()).collect();
            (Just(shape), Just(axes).prop_shuffle())
        }),
        piece in 1..200usize,
    ) {
        let program = f32s(0, &shape).permuted(&axes).unwrap();
        let expected: Vec<f32> = indices(program.shape()).iter().map(|index| {
            let mut source = vec![0; index.len()];
            axes.iter().zip(index).for_each(|(&axis, &i)| source[axis] = i);
            place(&shape, &source) as f32
        }).collect();
        prop_assert_eq!(values(&program, piece), expected);
    }

    /// Slices of concatenated tensors are the tensors again.
    #[test]
    fn concatenated_tensors_can_be_told_apart(
        (shape, axis) in prop::collection::vec(1..5u64, 1..4).prop_flat_map(|shape| {
            let rank = shape.len();
            (Just(shape), 0..rank)
        }),
        lens in prop::collection::vec(1..4u64, 2..4),
        piece in 1..100usize,
    ) {
        let part = |number: usize, len: u64| {
            let mut shape = shape.clone();
            shape[axis] = len;
            f32s(number, &shape)
        };
        let parts: Vec<Program> = lens.iter().enumerate().map(|(number, len)| part(number, *len)).collect();
        let program = Program::concatenated(parts.clone(), axis).unwrap();
        let expected: Vec<f32> = indices(program.shape()).iter().map(|index| {
            let (mut number, mut i) = (0, index[axis]);
            while i >= lens[number] {
                i -= lens[number];
                number += 1;
            }
            let mut own = index.clone();
            own[axis] = i;
            1000.0 * number as f32 + place(parts[number].shape(), &own) as f32
        }).collect();
        prop_assert_eq!(values(&program, piece), expected);
        let start: u64 = lens[0];
        let sliced = program.sliced(axis, start, lens[1]).unwrap();
        prop_assert_eq!(values(&sliced, piece), values(&parts[1], 64));
    }

    /// A program followed by its undoing gives back the input.
    #[test]
    fn undone_is_as_it_was(
        steps in prop::collection::vec(0..5u8, 1..6),
        piece in 1..300usize,
    ) {
        let mut program = f32s(0, &[4, 6, 2]);
        for step in steps {
            program = match step {
                0 => program.permuted(&[2, 0, 1]).unwrap(),
                1 => { let shape: Vec<u64> = program.shape().iter().rev().copied().collect(); program.reshaped(&shape).unwrap() }
                2 => program.plus(1.0).unwrap(),
                3 => program.times(2.0).unwrap(),
                _ => program.permuted(&[1, 0, 2]).unwrap(),
            };
        }
        let back = program.undone(program.clone()).unwrap();
        prop_assert_eq!(back.len(), 1);
        prop_assert_eq!((back[0].0, back[0].1.shape()), (0, &[4, 6, 2][..]));
        prop_assert_eq!(values(&back[0].1, piece), input(0, 48));
    }
}

#[test]
fn steps_that_compute_do_so_in_f32() {
    let program = f32s(0, &[3]).times(2.0).unwrap().plus(0.5).unwrap().sum(f32s(1, &[3])).unwrap();
    assert_eq!(values(&program, 5), [1000.5, 1003.5, 1006.5]);
    assert_eq!(values(&Program::constant(vec![1.0, 2.0, 3.0]), 8), [1.0, 2.0, 3.0]);
}

#[test]
fn casts_are_exact_where_they_widen_and_rounded_where_not() {
    let numbers = [0.0_f32, -1.5, 1.0 + 1.0 / 256.0, 65_504.0, f32::INFINITY];
    let source: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    for dtype in [DType::F16, DType::BF16] {
        let narrow = Program::input(0, DType::F32, &[5]).cast(dtype).unwrap();
        let mut out = vec![0; 10];
        let mut read = |_: usize, at: u64, out: &mut [u8]| {
            let at = usize::try_from(at).unwrap();
            out.copy_from_slice(&source[at..at + out.len()]);
            Ok::<(), Infallible>(())
        };
        narrow.read(0, &mut out, &mut read).unwrap();
        let wide = Program::input(0, dtype, &[5]).cast(DType::F32).unwrap();
        let mut back = vec![0; 20];
        let mut again = |_: usize, at: u64, to: &mut [u8]| {
            let at = usize::try_from(at).unwrap();
            to.copy_from_slice(&out[at..at + to.len()]);
            Ok::<(), Infallible>(())
        };
        wide.read(0, &mut back, &mut again).unwrap();
        let back: Vec<f32> = back.as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x)).collect();
        let expected = match dtype {
            DType::F16 => [0.0, -1.5, 1.0 + 1.0 / 256.0, 65_504.0, f32::INFINITY],
            _ => [0.0, -1.5, 1.0, 65_536.0, f32::INFINITY],
        };
        assert_eq!(back, expected, "{dtype}");
    }
}

#[test]
fn a_large_transposed_matrix_is_read_in_runs() {
    let program = Program::input(0, DType::F32, &[512, 512]).transposed().unwrap();
    let mut reads = 0;
    let mut out = vec![0; 512 * 512 * 4];
    let mut read = |_: usize, _: u64, out: &mut [u8]| {
        reads += 1;
        out.fill(0);
        Ok::<(), Infallible>(())
    };
    program.read(0, &mut out, &mut read).unwrap();
    assert!(reads <= 6, "{reads}");
    // A cast takes as much at once as the caller reads, and parts of rows are read together, too.
    let cast = Program::input(0, DType::BF16, &[512, 512]).transposed().unwrap().cast(DType::F16).unwrap();
    let mut reads = 0;
    let mut read = |_: usize, _: u64, out: &mut [u8]| {
        reads += 1;
        out.fill(0);
        Ok::<(), Infallible>(())
    };
    cast.read(1000, &mut out[..500_000], &mut read).unwrap();
    assert!(reads <= 12, "{reads}");
}

#[test]
fn an_error_of_an_input_is_returned() {
    let program = f32s(0, &[2, 2]).transposed().unwrap();
    let mut read = |_: usize, _: u64, _: &mut [u8]| Err("damaged");
    assert_eq!(program.read(0, &mut [0; 16], &mut read), Err(ReadError::Read("damaged")));
}

#[test]
fn what_does_not_fit_is_refused() {
    let blocks = || Program::input(0, DType::Q4_0, &[64, 64]);
    let f16 = || Program::input(0, DType::F16, &[2, 3]);
    let text = |result: Result<Program, ProgramError>| result.unwrap_err().to_string();
    assert_eq!(
        text(blocks().transposed()),
        "permute moves elements of whole bytes, and q4_0 has none; dequantize it first"
    );
    assert_eq!(text(f16().plus(1.0)), "add takes f32, not f16");
    assert_eq!(text(blocks().cast(DType::F32)), "cast takes numbers, not q4_0");
    assert_eq!(
        text(f16().reshaped(&[4])),
        "reshape does not fit the shape [2, 3]: [4] has another number of elements"
    );
    assert_eq!(
        text(f16().permuted(&[0, 0])),
        "permute does not fit the shape [2, 3]: [0, 0] does not name each dimension once"
    );
    assert_eq!(
        text(f16().sliced(1, 2, 2)),
        "slice does not fit the shape [2, 3]: dimension 1 has no 2 indices from 2 on"
    );
    assert_eq!(text(f16().sliced(2, 0, 1)), "slice does not fit the shape [2, 3]: it has no dimension 2");
    assert_eq!(
        text(Program::concatenated(vec![f16(), Program::input(1, DType::F16, &[2, 2])], 0)),
        "concatenate does not fit the shape [2, 2]: the first tensor has the shape [2, 3]"
    );
    assert_eq!(
        text(Program::stacked(vec![f16(), f32s(1, &[2, 3])])),
        "concatenate takes tensors of one dtype, not f32"
    );
    assert_eq!(
        text(Program::concatenated(Vec::new(), 0)),
        "concatenate does not fit the shape []: there is no tensor"
    );
    assert_eq!(
        text(f32s(0, &[2]).sum(f32s(1, &[3]))),
        "add does not fit the shape [2]: the other tensor has the shape [3]"
    );
    let huge = Program::input(0, DType::F32, &[u64::MAX, 2]);
    assert_eq!(
        text(huge.transposed()),
        format!("permute does not fit the shape [{}, 2]: it is too large", u64::MAX)
    );
    let mut deep = f32s(0, &[2]);
    let refused = loop {
        match deep.clone().plus(1.0) {
            Ok(next) => deep = next,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.to_string(), "a program has at most 64 steps in a row");
    let half = f32s(0, &[4]).sliced(0, 0, 2).unwrap();
    assert_eq!(half.undone(half.clone()).unwrap_err().to_string(), "slice cannot be undone");
    let none = f32s(0, &[4]).times(0.0).unwrap();
    assert_eq!(none.undone(none.clone()).unwrap_err().to_string(), "multiply by 0 cannot be undone");
}

#[test]
fn a_program_says_what_it_does() {
    let stacked = Program::stacked(vec![f32s(0, &[2, 3]).transposed().unwrap(), f32s(1, &[3, 2])]).unwrap();
    assert_eq!(
        stacked.plus(1.0).unwrap().cast(DType::F16).unwrap().to_string(),
        "transpose, reshape [1, 3, 2], concatenate 2 along dimension 0, add 1, cast f16"
    );
    assert_eq!(
        f32s(0, &[4]).sliced(0, 1, 2).unwrap().times(2.0).unwrap().to_string(),
        "slice 1..3 of dimension 0, multiply by 2"
    );
    assert_eq!(f32s(0, &[4]).to_string(), "");
    assert_eq!(f32s(3, &[4]).sum(f32s(1, &[4])).unwrap().inputs(), [3, 1]);
    assert_eq!((f32s(3, &[4]).copied(), f32s(3, &[4]).plus(1.0).unwrap().copied()), (Some(3), None));
}

/// Reads a program over one input of these bytes, in pieces of `piece` bytes.
fn bytes_of(program: &Program, inputs: &[Vec<u8>], piece: usize) -> Result<(Vec<u8>, Lost), ValueError> {
    let mut bytes = vec![0xa5; usize::try_from(program.nbytes().unwrap()).unwrap()];
    let mut lost = Lost::default();
    for (number, out) in bytes.chunks_mut(piece).enumerate() {
        let mut read = |input: usize, at: u64, out: &mut [u8]| {
            let at = usize::try_from(at).unwrap();
            out.copy_from_slice(&inputs[input][at..at + out.len()]);
            Ok::<(), Infallible>(())
        };
        match program.read((number * piece) as u64, out, &mut read) {
            Ok(found) => lost.add(found),
            Err(ReadError::Values(error)) => return Err(error),
            Err(ReadError::Read(never)) => match never {},
        }
    }
    Ok((bytes, lost))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn bytes(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Returns `count` small numbers that every dtype can hold.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|n| (n % 7) as f32).collect()
}

#[test]
fn every_number_is_cast_in_pieces_of_any_length() {
    let castable = DType::ALL.iter().copied().filter(|&dtype| crate::is_castable(dtype));
    for to in castable.filter(|dtype| *dtype != DType::F32) {
        // A count that does not fill the last byte, except for a dtype that has only whole bytes.
        let count = if to.nbytes(&[301]).is_some() { 301 } else { 304 };
        let source = bytes(&numbers(usize::try_from(count).unwrap()));
        let program = Program::input(0, DType::F32, &[count]).cast(to).unwrap();
        let (whole, _) = bytes_of(&program, std::slice::from_ref(&source), usize::MAX / 2).unwrap();
        for piece in [1, 3, 64, 1000] {
            let (pieces, _) = bytes_of(&program, std::slice::from_ref(&source), piece).unwrap();
            assert_eq!(pieces, whole, "{to}, pieces of {piece}");
        }
        // Numbers from 0 to 6 come back if the dtype can hold them.
        let back = Program::input(0, to, &[count]).cast(DType::F32).unwrap();
        for piece in [5, 4000] {
            let (found, _) = bytes_of(&back, std::slice::from_ref(&whole), piece).unwrap();
            let has_them = crate::holds_every_value(to, DType::U4) || SmallType::from_dtype(to).is_none();
            if has_them && to != DType::Bool {
                assert_eq!(found, source, "{to}");
            }
        }
        // Casts from any dtype to one whose elements are narrower, beginning within a byte.
        let narrow = Program::input(0, to, &[count]).cast(DType::I4);
        if to != DType::I4 {
            let narrow = narrow.unwrap();
            let all = bytes_of(&narrow, std::slice::from_ref(&whole), 4000);
            // F8E8M0 has no 0 and makes it a NaN.
            assert_eq!(all.is_err(), to == DType::F8E8M0, "{to}");
            assert_eq!(bytes_of(&narrow, std::slice::from_ref(&whole), 1), all, "{to}");
        }
    }
}

#[test]
fn a_cast_counts_what_it_loses_and_finds_what_it_cannot_make() {
    let mut values = numbers(70_000);
    values[69_000] = 1e30;
    let program = Program::input(0, DType::F32, &[70_000]).cast(DType::F16).unwrap();
    let (_, lost) = bytes_of(&program, &[bytes(&values)], 1 << 20).unwrap();
    assert_eq!(lost, Lost { infinite: 1, ..Lost::default() });
    values[69_001] = f32::NAN;
    let program = Program::input(0, DType::F32, &[70_000]).cast(DType::I8).unwrap();
    for piece in [100, 1 << 20] {
        let error = bytes_of(&program, &[bytes(&values)], piece).unwrap_err();
        assert_eq!(error.to_string(), "element 69001 is a NaN, and i8 has none");
    }
    let program = Program::input(0, DType::F32, &[70_016]).quantized(DType::Q8_0).unwrap();
    values.resize(70_016, 0.0);
    let error = bytes_of(&program, &[bytes(&values)], 1 << 20).unwrap_err();
    assert_eq!(
        error.to_string(),
        "element 69001 is a NaN or beyond the range of f32, and blocks of q8_0 cannot say so"
    );
}

#[test]
fn blocks_are_what_their_crate_makes() {
    // The first matrix has more elements than are encoded at once.
    for (dtype, rows) in [(DType::Q8_0, 275), (DType::Q4_0, 9), (DType::Q4K, 9), (DType::Q6K, 9)] {
        let values: Vec<f32> = (0..rows * 256).map(|n| ((n * 37 % 1001) as f32 - 500.0) / 64.0).collect();
        let program = Program::input(0, DType::F32, &[rows, 256]).quantized(dtype).unwrap();
        let mut expected = vec![0; usize::try_from(program.nbytes().unwrap()).unwrap()];
        ggml_quant::encode(dtype, &values, &mut expected).unwrap();
        for piece in [expected.len() / 30 + 1, 1 << 20] {
            let (blocks, lost) = bytes_of(&program, &[bytes(&values)], piece).unwrap();
            assert!(blocks == expected && lost == Lost::default(), "{dtype}");
        }
        let back = Program::input(0, dtype, &[rows, 256]).dequantized().unwrap();
        let mut decoded = vec![0.0; values.len()];
        ggml_quant::decode(dtype, &expected, &mut decoded).unwrap();
        for piece in [3001, 1 << 20] {
            let (found, _) = bytes_of(&back, std::slice::from_ref(&expected), piece).unwrap();
            assert_eq!(floats(&found), decoded, "{dtype}");
        }
        // Converts from one kind of blocks to another.
        let again = back.quantized(DType::Q5_0).unwrap();
        assert_eq!(again.to_string(), "dequantize f32, quantize q5_0");
        let mut twice = vec![0; usize::try_from(again.nbytes().unwrap()).unwrap()];
        ggml_quant::encode(DType::Q5_0, &decoded, &mut twice).unwrap();
        assert_eq!(bytes_of(&again, std::slice::from_ref(&expected), 9999).unwrap().0, twice, "{dtype}");
    }
}

#[test]
fn rows_that_are_padded_are_decoded_without_the_padding() {
    let mut blocks = vec![0; 4 * 144];
    let values: Vec<f32> = (0..1024).map(|n| (n % 19) as f32).collect();
    ggml_quant::encode(DType::Q4K, &values, &mut blocks).unwrap();
    let info = TensorInfo::with_nbytes("w", DType::Q4K, &[2, 300], 4 * 144, true);
    let program = Program::tensor(0, &info).dequantized().unwrap();
    let mut decoded = vec![0.0; 1024];
    ggml_quant::decode(DType::Q4K, &blocks, &mut decoded).unwrap();
    let expected = [&decoded[..300], &decoded[512..812]].concat();
    for piece in [13, 5000] {
        let (found, _) = bytes_of(&program, std::slice::from_ref(&blocks), piece).unwrap();
        assert_eq!(floats(&found), expected);
    }
}

#[test]
fn scales_multiply_the_elements_that_they_are_for() {
    let weight = numbers(6 * 256);
    let scales = [2.0, 3.0, 4.0, 5.0, 6.0, 7.0_f32];
    let scaling = Scaling::new(&[6, 256], &[3, 2], Some(&[2, 128])).unwrap();
    let of = Program::input(0, DType::F32, &[6, 256]);
    let by = Program::input(1, DType::BF16, &[3, 2]).cast(DType::F32).unwrap();
    let program = of.clone().scaled(by.clone(), scaling.clone()).unwrap();
    let names = |number: usize| Some(["w", "w_scale"][number].to_owned());
    assert_eq!(program.steps(&names), ["scale by (w_scale, cast f32) in blocks of 2 × 128"]);
    let stored: Vec<u8> = scales.iter().flat_map(|x| x.to_le_bytes()[2..].to_vec()).collect();
    let expected: Vec<f32> =
        weight.iter().enumerate().map(|(at, x)| x * scales[at / 256 / 2 * 2 + at % 256 / 128]).collect();
    for piece in [10, 999, 1 << 20] {
        let inputs = [bytes(&weight), stored.clone()];
        assert_eq!(floats(&bytes_of(&program, &inputs, piece).unwrap().0), expected);
    }
    let one = Program::input(1, DType::F32, &[1, 1]);
    let program_of_one = of.clone().scaled(one, Scaling::new(&[6, 256], &[1, 1], None).unwrap()).unwrap();
    assert_eq!(program_of_one.to_string(), "scale by a tensor of shape [1, 1]");
    let (found, _) = bytes_of(&program_of_one, &[bytes(&weight), bytes(&[0.5])], 1000).unwrap();
    assert_eq!(floats(&found), weight.iter().map(|x| x * 0.5).collect::<Vec<_>>());
    let other = Program::input(1, DType::F32, &[2, 2]);
    assert_eq!(
        of.scaled(other, scaling).unwrap_err().to_string(),
        "scale does not fit the shape [6, 256]: scales of the shape [2, 2] are for another"
    );
    assert_eq!(program.undone(program.clone()).unwrap_err().to_string(), "scale cannot be undone");
}

#[test]
fn zero_points_are_subtracted_in_f64() {
    let affine = Arc::new(Affine::new(Some(0), vec![0.5, 0.25], Some(vec![3, -1]), &[2, 3]));
    let program = Program::input(0, DType::I8, &[2, 3])
        .cast(DType::F64)
        .and_then(|program| program.affine(affine))
        .and_then(|program| program.cast(DType::F32))
        .unwrap();
    assert_eq!(program.to_string(), "cast f64, scale × (number − zero point), cast f32");
    for piece in [1, 100] {
        let (found, _) = bytes_of(&program, &[vec![1, 2, 3, 4, 5, 6]], piece).unwrap();
        assert_eq!(floats(&found), [-1.0, -0.5, 0.0, 1.25, 1.5, 1.75]);
    }
}

#[test]
fn a_low_rank_product_is_the_product() {
    for (rows, rank, columns) in [(3, 2, 5), (40, 7, 9), (2, 3, 9000), (1, 1, 1), (4, 0, 3), (5, 9000, 3)] {
        let tall: Vec<f32> = (0..rows * rank).map(|n| (n % 11) as f32 - 5.0).collect();
        let wide: Vec<f32> = (0..rank * columns).map(|n| (n % 13) as f32 - 6.0).collect();
        let program = Program::input(0, DType::F32, &[rows as u64, rank as u64])
            .low_rank(Program::input(1, DType::F32, &[rank as u64, columns as u64]), 0.5)
            .unwrap();
        let base: Vec<f32> = (0..rows * columns).map(|n| n as f32 / 8.0).collect();
        let sum = f32s(2, &[rows as u64, columns as u64]).sum(program.clone()).unwrap();
        let expected: Vec<f32> = (0..rows * columns)
            .map(|at| {
                let (row, column) = (at / columns, at % columns);
                (0..rank).map(|k| tall[row * rank + k] * wide[k * columns + column]).sum::<f32>() * 0.5
            })
            .collect();
        for piece in [12, 1001, 1 << 20] {
            let (found, _) = bytes_of(&program, &[bytes(&tall), bytes(&wide)], piece).unwrap();
            assert_eq!(floats(&found), expected, "{rows} × {rank} × {columns}");
            let (found, _) = bytes_of(&sum, &[bytes(&tall), bytes(&wide), bytes(&base)], piece).unwrap();
            let expected: Vec<f32> =
                expected.iter().zip(&base).map(|(product, base)| base + product).collect();
            assert_eq!(floats(&found), expected, "added to the base: {rows} × {rank} × {columns}");
        }
    }
    let tall = || Program::input(0, DType::F32, &[3, 2]);
    let wide = Program::input(1, DType::F32, &[2, 5]);
    let sum = Program::input(2, DType::F32, &[3, 5]).sum(tall().low_rank(wide, 2.0).unwrap()).unwrap();
    let names = |number: usize| Some(["b", "a", "w"][number].to_owned());
    assert_eq!(sum.steps(&names), ["(w) + ((b) × (a) × 2)"]);
    assert_eq!(
        tall().low_rank(tall(), 1.0).unwrap_err().to_string(),
        "multiply low-rank does not fit the shape [3, 2]: the other matrix has the shape [3, 2]"
    );
}

/// A product is added to 16-bit floats in place. The result and the counts equal those of a sum in `f32` and
/// a cast.
#[test]
fn a_product_is_added_to_halves_and_rounded_once() {
    let (rows, columns) = (70, 1000);
    let halves: Vec<u8> =
        (0..70_000_u32).flat_map(|n| [(n * 37).to_le_bytes()[0], (n * 37).to_le_bytes()[1]]).collect();
    let tall: Vec<f32> = (0..rows * 5).map(|n| (n % 11) as f32 * 2f32.powi(n % 40 - 30)).collect();
    let wide: Vec<f32> = (0..5 * columns).map(|n| (n % 13) as f32 * 2f32.powi(n % 37 - 30)).collect();
    let inputs = [halves, bytes(&tall), bytes(&wide)];
    let shape = [rows as u64, columns as u64];
    for half in [DType::BF16, DType::F16] {
        let product = f32s(1, &[shape[0], 5]).low_rank(f32s(2, &[5, shape[1]]), 3.7).unwrap();
        let sum = Program::input(0, half, &shape).cast(DType::F32).unwrap().sum(product).unwrap();
        let (floats, _) = bytes_of(&sum, &inputs, 1 << 20).unwrap();
        let rounded = f32s(0, &shape).cast(half).unwrap();
        let expected = bytes_of(&rounded, &[floats], 1 << 20).unwrap();
        // A sum in `f32` is hardly ever beyond bf16.
        assert!(half == DType::BF16 || expected.1.infinite > 0 && expected.1.zero > 0);
        let merged = sum.cast(half).unwrap();
        for piece in [998, 1 << 20] {
            assert_eq!(bytes_of(&merged, &inputs, piece).unwrap(), expected, "{half}, {piece}");
        }
    }
}

#[test]
fn moves_are_done_before_a_product() {
    let numbers = |count: usize| (0..count).map(|n| (n % 17) as f32 - 8.0).collect::<Vec<_>>();
    let weight = |number: usize, rows: u64, columns: u64| {
        let delta = f32s(number + 1, &[rows, 2]).low_rank(f32s(number + 2, &[2, columns]), 0.5).unwrap();
        f32s(number, &[rows, columns]).sum(delta).unwrap().cast(DType::F16).unwrap()
    };
    let heads = |program: Program| {
        let program = program.reshaped(&[2, 2, 3, 5]).unwrap().permuted(&[0, 2, 1, 3]).unwrap();
        program.reshaped(&[12, 5]).unwrap()
    };
    let stack = Program::stacked(vec![heads(weight(0, 12, 5)), weight(3, 12, 5)]).unwrap();
    let sizes = [60, 24, 10, 60, 24, 10].map(|count| bytes(&numbers(count)));
    let turned = "(a, reshape [2, 2, 3, 5], permute 0 2 1 3, reshape [12, 5]) + ((b, reshape [2, 2, 3, 2], permute 0 2 1 3, reshape [12, 2]) × (c) × 0.5)";
    for (program, step) in [
        (heads(weight(0, 12, 5)), turned),
        (weight(0, 12, 5).transposed().unwrap(), "(a, transpose) + ((c, transpose) × (b, transpose) × 0.5)"),
        (
            heads(weight(0, 12, 5)).transposed().unwrap(),
            "permute 0 2 1 3, reshape [12, 2], transpose) × 0.5)",
        ),
        (weight(0, 12, 5).sliced(0, 3, 7).unwrap(), "((b, slice 3..10 of dimension 0) × (c) × 0.5)"),
        (weight(0, 12, 5).sliced(1, 1, 3).unwrap(), "((b) × (c) × 0.5, slice 1..4 of dimension 1)"),
        (stack, "reshape [12, 2]) × (c) × 0.5, reshape [1, 12, 5])"),
    ] {
        assert!(program.multiplies() && !f32s(0, &[2]).multiplies());
        let moved = program.clone().with_moves_first().unwrap();
        assert_eq!((moved.dtype(), moved.shape()), (program.dtype(), program.shape()));
        let names = |number: usize| Some(["a", "b", "c", "d", "e", "f"][number].to_owned());
        let text = moved.steps(&names).join(", ");
        assert!(text.contains(step), "{text}");
        assert_eq!(bytes_of(&moved, &sizes, 8).unwrap().0, bytes_of(&program, &sizes, 8).unwrap().0);
    }
}

#[test]
fn inputs_can_be_replaced() {
    let inner = Program::input(7, DType::BF16, &[3, 2]).transposed().unwrap();
    let outer = Program::input(0, DType::BF16, &[2, 3]).cast(DType::F16).unwrap();
    let both = outer.over(&|number| (number == 0).then(|| inner.clone())).unwrap();
    assert_eq!((both.to_string(), both.inputs()), ("transpose, cast f16".to_owned(), vec![7]));
    assert_eq!(outer.over(&|_| None).unwrap(), outer);
    let wrong = outer.over(&|_| Some(Program::input(1, DType::F32, &[2, 3])));
    assert_eq!(wrong.unwrap_err().to_string(), "input does not fit the shape [2, 3]: it is now f32 [2, 3]");
}

#[test]
fn dtypes_that_do_not_fit_are_refused() {
    let text = |result: Result<Program, ProgramError>| result.unwrap_err().to_string();
    let f32 = || f32s(0, &[2, 32]);
    assert_eq!(text(f32().cast(DType::Q4_0)), "cast makes numbers, not q4_0");
    assert_eq!(text(f32().dequantized()), "dequantize takes blocks, not f32");
    assert_eq!(text(f32().quantized(DType::F16)), "quantize makes blocks, not f16");
    assert_eq!(text(f32().quantized(DType::AprQ8)), "quantize makes blocks, not apr_q8");
    assert_eq!(
        text(f32().quantized(DType::Q4K)),
        "quantize does not fit the shape [2, 32]: it is no whole blocks of q4_k"
    );
    assert_eq!(
        text(Program::input(0, DType::Q4_0, &[32]).quantized(DType::Q8_0)),
        "quantize takes numbers, not q4_0"
    );
}

#[test]
fn known_values_and_rows_of_bytes_are_programs() {
    let known = Program::known(DType::U8, &[2, 3], vec![1, 2, 3, 4, 5, 6]).unwrap();
    let turned = known.clone().transposed().unwrap();
    let mut none = |_: usize, _: u64, _: &mut [u8]| Err::<(), &str>("there are no inputs");
    let mut out = [0; 4];
    turned.read(1, &mut out, &mut none).unwrap();
    assert_eq!((out, known.undone(f32s(0, &[2, 3])).unwrap()), ([4, 2, 5, 3], Vec::new()));
    assert!(Program::known(DType::F32, &[2, 3], vec![0; 6]).is_err());
    // The rows of a matrix of blocks: 34 bytes for 32 numbers.
    let rows = Program::input(0, DType::Q8_0, &[4, 32]).retyped(DType::U8, &[4, 34]).unwrap();
    let moved = rows.reshaped(&[2, 2, 34]).unwrap().permuted(&[1, 0, 2]).unwrap();
    let back = moved.reshaped(&[4, 34]).unwrap().retyped(DType::Q8_0, &[4, 32]).unwrap();
    let mut source = |_: usize, at: u64, out: &mut [u8]| {
        (at..).zip(out).for_each(|(at, out)| *out = u8::try_from(at % 251).unwrap());
        Ok::<(), Infallible>(())
    };
    let mut out = [0; 34];
    back.read(34, &mut out, &mut source).unwrap();
    assert_eq!((out[0], out[33], back.only_moves()), (68, 101, true));
    assert_eq!(back.undone(back.clone()).unwrap()[0].1.dtype(), DType::Q8_0);
    assert!(back.retyped(DType::Q8_0, &[4, 64]).is_err());
}
