//! A naive computation of statistics: all values in memory, sorted.

use super::*;

pub(super) const DTYPES: &[DType] = &[
    DType::Bool,
    DType::I8,
    DType::U8,
    DType::I16,
    DType::U16,
    DType::F16,
    DType::BF16,
    DType::I32,
    DType::U32,
    DType::F32,
    DType::I64,
    DType::U64,
    DType::F64,
];

/// Returns the values as `f64`, and also as integers if they are integers.
pub(super) fn decode(dtype: DType, bytes: &[u8]) -> (Vec<f64>, Vec<i128>) {
    fn all<T: bytemuck::Pod>(bytes: &[u8], decode: impl Fn(T) -> f64) -> Vec<f64> {
        bytes.chunks_exact(size_of::<T>()).map(|b| decode(bytemuck::pod_read_unaligned(b))).collect()
    }
    fn both<T: bytemuck::Pod + Into<i128>>(bytes: &[u8]) -> (Vec<f64>, Vec<i128>) {
        let whole = bytes.chunks_exact(size_of::<T>()).map(|b| bytemuck::pod_read_unaligned::<T>(b).into());
        let whole: Vec<i128> = whole.collect();
        (whole.iter().map(|&x| x as f64).collect(), whole)
    }
    match dtype {
        DType::Bool => (bytes.iter().map(|&byte| f64::from(byte != 0)).collect(), vec![]),
        DType::I8 => both::<i8>(bytes),
        DType::U8 => both::<u8>(bytes),
        DType::I16 => both::<i16>(bytes),
        DType::U16 => both::<u16>(bytes),
        DType::I32 => both::<i32>(bytes),
        DType::U32 => both::<u32>(bytes),
        DType::I64 => both::<i64>(bytes),
        DType::U64 => both::<u64>(bytes),
        DType::F16 => (all(bytes, half::f16::to_f64), vec![]),
        DType::BF16 => (all(bytes, half::bf16::to_f64), vec![]),
        DType::F32 => (all(bytes, |x: f32| f64::from(x)), vec![]),
        _ => (all(bytes, |x: f64| x), vec![]),
    }
}

/// Returns the edges and counts of `numpy.histogram` by its algorithm: computes the bin, then corrects it by
/// the edges.
pub(super) fn histogram(values: &[f64], min: f64, max: f64) -> ([f64; 11], [u64; 10]) {
    let step = (max - min) / 10.0;
    let mut edges = [max; 11];
    for (i, edge) in edges.iter_mut().enumerate().take(10) {
        *edge = i as f64 * step + min;
    }
    let mut counts = [0; 10];
    for value in values {
        let mut bin = (((value - min) / (max - min) * 10.0) as usize).min(9);
        if *value < edges[bin] {
            bin -= 1;
        }
        if *value >= edges[bin + 1] && bin != 9 {
            bin += 1;
        }
        counts[bin] += 1;
    }
    (edges, counts)
}
