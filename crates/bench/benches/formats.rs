//! Times the operations of each format, for daily work on one. `cargo xtask bench` compares them with other
//! programs.
//!
//! `cargo bench --bench formats -- mag` measures one format, `-- verify` one kind of work. `cargo test` runs
//! each once.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    missing_docs,
    reason = "it measures: a fault may end it"
)]

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use modelfmt_bench::data::{Form, Noise, Tensors, Values, matrix};
use modelfmt_core::{DType, Execution, VerifyLevel};
use modelfmt_write::Discard;
use testkit::gguf::Gguf;

fn main() {
    divan::main();
}

const FORMS: [Form; 8] = [
    Form::Aero,
    Form::AeroAll,
    Form::Mag,
    Form::Oinf,
    Form::Apr2,
    Form::Apr2Lz4,
    Form::Apr,
    Form::Safetensors,
];

/// A model of many small tensors, in which the index matters.
fn small() -> Tensors {
    Tensors::many(10_000)
}

/// A model of few large tensors, in which the values matter.
fn large() -> Tensors {
    Tensors::layers(DType::F16, 4, 16 << 20)
}

/// `f16` values, a part of which is zero, so that LZ4 is worthwhile.
const VALUES: Noise = Noise::new(Values::Pruned);

#[divan::bench(args = FORMS)]
fn open(bencher: Bencher<'_, '_>, form: Form) {
    let tensors = small();
    let file = tensors.to_memory(form, &VALUES).unwrap();
    bencher.counter(ItemsCount::new(tensors.len())).bench(|| form.open(black_box(&file)).unwrap());
}

/// GGUF is not among the forms that are written, so its file is built here.
#[divan::bench]
fn open_gguf(bencher: Bencher<'_, '_>) {
    const F32: u32 = 0;
    let tensors = small();
    let file = (0..tensors.len())
        .fold(Gguf::new(), |file, number| file.tensor(tensors.name(number), F32, &[2, 2], &[0; 16]))
        .build();
    bencher
        .counter(ItemsCount::new(tensors.len()))
        .bench(|| modelfmt_gguf::Reader::from_source(black_box(&file[..])).unwrap());
}

#[divan::bench(args = FORMS)]
fn find(bencher: Bencher<'_, '_>, form: Form) {
    let tensors = small();
    let file = tensors.to_memory(form, &VALUES).unwrap();
    let model = form.open(&file).unwrap();
    let name = tensors.name(tensors.len() / 2);
    bencher.bench_local(|| model.find(black_box(name)));
}

#[divan::bench(args = FORMS)]
fn read(bencher: Bencher<'_, '_>, form: Form) {
    let file = large().to_memory(form, &VALUES).unwrap();
    let model = form.open(&file).unwrap();
    let tensor = model.find(&matrix(0)).unwrap();
    let mut values = vec![0; model.info(tensor).unwrap().nbytes as usize];
    bencher
        .counter(BytesCount::of_slice(&values))
        .bench_local(|| model.values_into(tensor, 0, black_box(&mut values), None).unwrap());
}

/// On one thread, because [`Execution`] decides how work is shared.
#[divan::bench(args = FORMS)]
fn verify(bencher: Bencher<'_, '_>, form: Form) {
    let file = large().to_memory(form, &VALUES).unwrap();
    let model = form.open(&file).unwrap();
    let work = Execution { threads: 1, progress: None };
    bencher
        .counter(BytesCount::of_slice(&file))
        .bench_local(|| assert!(model.verify(VerifyLevel::Full, &work).is_ok()));
}

/// Writes values from memory: hashed, compressed, and then discarded.
#[divan::bench(args = FORMS)]
fn write(bencher: Bencher<'_, '_>, form: Form) {
    let tensors = large();
    let values = tensors.values(&VALUES).unwrap();
    bencher
        .counter(BytesCount::new(tensors.nbytes()))
        .bench_local(|| tensors.write(form, &values, &Discard::default()).unwrap());
}

/// Does the same for the many small tensors: planning, and the index.
#[divan::bench(args = FORMS)]
fn write_index(bencher: Bencher<'_, '_>, form: Form) {
    let tensors = small();
    let values = tensors.values(&VALUES).unwrap();
    bencher
        .counter(ItemsCount::new(tensors.len()))
        .bench_local(|| tensors.write(form, &values, &Discard::default()).unwrap());
}
