//! Times the performance-critical parts of modelfmt-core, for daily work on them.
//!
//! `cargo bench --bench core -- stats` measures one of them. `cargo test` runs each once.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    missing_docs,
    reason = "it measures: a fault may end it"
)]

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use modelfmt_bench::data::{Noise, Values};
use modelfmt_core::{AlignedBuf, Bytes, DType, TensorInfo, TensorView, author::NameTable};
use modelfmt_write::TensorData;
use tensor_stats::stats_of_bytes;

fn main() {
    divan::main();
}

const ELEMENTS: usize = 1 << 20;
const NAMES: usize = 10_000;
const NUMBERS: [DType; 6] = [DType::I8, DType::F16, DType::BF16, DType::F32, DType::I32, DType::F64];
const ENCODED: [DType; 5] = [DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1, DType::Q8_0];

/// Returns values of a tensor: any bits are numbers of any type.
fn values(dtype: DType) -> AlignedBuf {
    let nbytes = dtype.nbytes(&[ELEMENTS as u64]).unwrap();
    let mut values = AlignedBuf::zeroed(nbytes as usize).unwrap();
    let kind = if dtype == DType::F16 { Values::F16 } else { Values::F32 };
    Noise::new(kind).read(0, 0, &mut values).unwrap();
    values
}

fn names() -> Vec<String> {
    (0..NAMES).map(|number| format!("model.layers.{number}.weight")).collect()
}

fn table(names: &[String]) -> NameTable {
    let mut table = NameTable::with_capacity(names.len());
    for name in names {
        table.push(name).unwrap();
    }
    table
}

#[divan::bench]
fn names_push(bencher: Bencher<'_, '_>) {
    let names = names();
    bencher.counter(ItemsCount::new(NAMES)).bench(|| table(black_box(&names)));
}

#[divan::bench]
fn names_find(bencher: Bencher<'_, '_>) {
    let names = names();
    let table = table(&names);
    bencher
        .counter(ItemsCount::new(NAMES))
        .bench(|| names.iter().filter_map(|name| table.find(name)).sum::<usize>());
}

#[divan::bench(args = NUMBERS)]
fn stats(bencher: Bencher<'_, '_>, dtype: DType) {
    let values = values(dtype);
    bencher.counter(BytesCount::of_slice(&values[..])).bench(|| stats_of_bytes(dtype, &values).unwrap());
}

#[divan::bench(args = NUMBERS)]
fn to_f32(bencher: Bencher<'_, '_>, dtype: DType) {
    let values = values(dtype);
    let shape = [ELEMENTS as u64];
    let info = TensorInfo::new("w", dtype, &shape).unwrap();
    let view = TensorView::new(info, Bytes::Borrowed(&values)).unwrap();
    bencher.counter(BytesCount::of_slice(&values[..])).bench(|| view.to_f32().unwrap());
}

#[divan::bench(args = DType::ALL.iter().filter(|&&dtype| ggml_quant::can_decode(dtype)))]
fn decode(bencher: Bencher<'_, '_>, &dtype: &DType) {
    let blocks = values(dtype);
    let mut out = vec![0.0; ELEMENTS];
    bencher
        .counter(BytesCount::of_slice(&out))
        .bench_local(|| ggml_quant::decode(dtype, black_box(&blocks), &mut out).unwrap());
}

#[divan::bench(args = ENCODED)]
fn encode(bencher: Bencher<'_, '_>, dtype: DType) {
    let bytes = values(DType::F32);
    let values: &[f32] = bytemuck::cast_slice(&bytes);
    let mut blocks = vec![0; dtype.nbytes(&[ELEMENTS as u64]).unwrap() as usize];
    bencher
        .counter(BytesCount::of_slice(values))
        .bench_local(|| ggml_quant::encode(dtype, black_box(values), &mut blocks).unwrap());
}
