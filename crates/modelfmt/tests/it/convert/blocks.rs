//! Statistics and differences of blocks, for every ggml type that can be decoded.

use modelfmt::{DType, Execution, Model};

use super::common::{T, gguf, noise};

/// Enough elements that statistics take several pieces, the last a short one; the rows are whole blocks of
/// the longest type.
const SHAPE: [u64; 2] = [3, 23 << 10];

/// Returns a tensor of random blocks. One in 32 of the f16 scales is not finite.
fn blocks(dtype: DType) -> T {
    let nbytes = dtype.nbytes(&SHAPE).unwrap() as usize;
    let seed = u64::from(dtype.ggml_type().unwrap());
    T { name: "w", dtype, shape: SHAPE.to_vec(), bytes: noise(seed + 1, nbytes) }
}

fn every_type() -> Vec<DType> {
    let is_decoded = |&dtype: &DType| dtype.ggml_type().is_some() && ggml_quant::can_decode(dtype);
    let all: Vec<_> = DType::ALL.iter().copied().filter(is_decoded).collect();
    assert_eq!(all.len(), 27);
    all
}

fn decoded(tensor: &T) -> Vec<f32> {
    let mut values = vec![0.0; SHAPE.iter().product::<u64>() as usize];
    ggml_quant::decode(tensor.dtype, &tensor.bytes, &mut values).unwrap();
    values
}

#[test]
fn statistics_are_those_of_the_decoded_values() {
    for dtype in every_type() {
        let tensor = blocks(dtype);
        let values = decoded(&tensor);
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let expected = tensor_stats::stats_of_bytes(DType::F32, &bytes).unwrap();
        let finite = || values.iter().copied().filter(|x| x.is_finite()).map(f64::from);
        assert!(finite().count() > 10_000, "{dtype}: too few numbers to tell anything");
        assert_eq!(expected.count, finite().count() as u64);
        assert_eq!(
            (expected.min, expected.max),
            (finite().reduce(f64::min).unwrap(), finite().reduce(f64::max).unwrap())
        );

        let model = gguf(&[tensor], &[]);
        for work in [Execution::sequential(), Execution::default()] {
            assert_eq!(modelfmt::show::stats(&model, 0, &work).unwrap(), expected, "{dtype}");
        }
        let mut text = Vec::new();
        modelfmt::show::show(&model, &mut text, &Execution::default()).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(&format!("w: {dtype}[3, 23552] = {{")), "{text}");
        let nbytes = dtype.nbytes(&SHAPE).unwrap();
        assert!(text.contains(&format!("- [nbytes: {nbytes}, min: ")) && text.contains("- hist:"), "{text}");
    }
}

#[test]
fn one_block_that_changes_is_a_difference_of_its_values() {
    let diff = |a: &Model, b: &Model| modelfmt::diff::diff(a, b, &Execution::default()).unwrap();
    for dtype in every_type() {
        let block = dtype.block().unwrap();
        let (size, last) =
            (block.nbytes as usize, (SHAPE[0] * SHAPE[1]) as usize / block.elements as usize - 1);
        let tensor = blocks(dtype);
        let (model, values) =
            (gguf(&[tensor.clone(), T { name: "other", ..tensor.clone() }], &[]), decoded(&tensor));
        assert!(diff(&model, &model).is_same(), "{dtype}");
        for place in [0, last / 2, last] {
            let mut other = tensor.clone();
            other.bytes[place * size..][..size].copy_from_slice(&noise(99 + place as u64, size));
            let changed = gguf(&[other.clone(), T { name: "other", ..tensor.clone() }], &[]);
            let found = diff(&model, &changed);
            assert!(
                found.only_in_a.is_empty() && found.only_in_b.is_empty() && found.metadata.is_empty(),
                "{found:?}"
            );
            let [one] = found.changed.as_slice() else { panic!("{dtype}, block {place}: {found:?}") };
            assert_eq!(
                (one.name.as_str(), one.dtype, &one.shape),
                ("w", None, &None),
                "{dtype}, block {place}"
            );
            // A NaN counts as the largest.
            let larger = |x: f64, y: f64| if x.is_nan() || y <= x { x } else { y };
            let largest = values.iter().zip(decoded(&other)).map(|(&a, b)| distance(a, b)).fold(0.0, larger);
            assert_ne!(largest, 0.0, "{dtype}, block {place}: a change of nothing");
            let found = one.values.unwrap().max_abs.unwrap();
            assert!(
                found == largest || found.is_nan() && largest.is_nan(),
                "{dtype}, block {place}: {found}"
            );
        }
    }
}

/// Returns the distance between two values: infinite if only one of them is a number, and 0 if neither is and
/// they are the same.
fn distance(a: f32, b: f32) -> f64 {
    if a == b || (a.is_nan() && b.is_nan()) {
        return 0.0;
    }
    if a.is_nan() || b.is_nan() {
        return f64::NAN;
    }
    if a.is_finite() && b.is_finite() { (f64::from(a) - f64::from(b)).abs() } else { f64::INFINITY }
}
