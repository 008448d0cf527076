//! Computes the statistics of a tensor, compared with adding up its values.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use modelfmt_core::{DType, Source, author::PIECE};
use modelfmt_write::TensorData;
use tensor_stats::{Histogram, Stats, stats_of_bytes_parallel, stats_parallel};

use crate::data::{Form, Noise, Tensors, Values};
use crate::open::measured;
use crate::race::{on_threads, race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, ensure, threads};

/// Measures time and memory.
pub(crate) fn run(bench: &mut Bench) -> Result {
    let [time, reads, memory, threads_id] =
        ["stats/time", "stats/reads", "stats/memory", "threads/stats"].map(str::to_owned);
    if [&time, &reads, &threads_id].into_iter().any(|id| bench.wants(id)) {
        let mut values = vec![0.0f32; ((bench.sizes.stats_mib << 20) as usize) / size_of::<f32>()];
        Noise::new(Values::F32).read(0, 0, bytemuck::cast_slice_mut(&mut values))?;
        check(&values)?;
        let stats = |threads| {
            let stats = stats_of_bytes_parallel(DType::F32, bytemuck::cast_slice(&values), threads)?;
            black_box(stats);
            Ok(())
        };
        let threads = bench.sizes.threads;
        if bench.wants(&time) {
            let race = race(
                bench.rounds(5),
                || seconds(|| stats(threads)),
                || {
                    seconds(|| {
                        sum(&values, threads);
                        Ok(())
                    })
                },
            )?;
            bench.add(Row {
                id: time,
                work: format!(
                    "statistics with histogram and exact median of {} MiB of f32 in memory: time of adding it up, on {threads} threads",
                    bench.sizes.stats_mib
                ),
                case: "f32".to_owned(),
                samples: race.costs(),
                unit: Unit::Times,
                target: Target::AtMost(4.0),
                note: race.times(),
            });
        }
        if bench.wants(&reads) {
            bench.add(passes(bytemuck::cast_slice(&values), threads, reads)?);
        }
        if bench.wants(&threads_id) {
            threads::compare(bench, (threads_id, "statistics"), 1.7, stats)?;
        }
    }
    if bench.wants(&memory) {
        bench.add(peak(bench, memory)?);
    }
    Ok(())
}

/// Measures how often the values are read.
fn passes(bytes: &[u8], threads: usize, id: String) -> Result<Row> {
    let nbytes = AtomicU64::new(0);
    let count = bytes.len() / size_of::<f32>();
    stats_parallel(DType::F32, count as u64, threads, |first, out: &mut [u8]| {
        nbytes.fetch_add(out.len() as u64, Ordering::Relaxed);
        bytes.read_into(first * size_of::<f32>() as u64, out)
    })?;
    Ok(Row {
        id,
        work: "bytes that this reads, as a part of the tensor".to_owned(),
        case: "f32".to_owned(),
        samples: vec![nbytes.into_inner() as f64 / bytes.len() as f64],
        unit: Unit::Times,
        target: Target::None,
        note: String::new(),
    })
}

/// Compares the statistics with values that are computed in another way.
fn check(values: &[f32]) -> Result {
    let Stats { count, min, max, mean, median, histogram, .. } =
        stats_of_bytes_parallel(DType::F32, bytemuck::cast_slice(values), 2)?;
    let mut sorted = values.to_vec();
    let middle = sorted.len() / 2;
    let (below, upper, _) = sorted.select_nth_unstable_by(middle, f32::total_cmp);
    let lower = below.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exact = f64::midpoint(f64::from(lower), f64::from(*upper)); // there is an even number of values
    let sum: f64 = values.iter().copied().map(f64::from).sum();
    let least = values.iter().copied().fold(f32::INFINITY, f32::min);
    let most = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let Histogram::Bins { counts, .. } = histogram else { return Err("no bins".into()) };
    let same = count == values.len() as u64
        && (min, max) == (f64::from(least), f64::from(most))
        && median.to_bits() == exact.to_bits()
        && (mean - sum / count as f64).abs() < 1e-9
        && counts.iter().sum::<u64>() == count;
    ensure(same, || format!("median {median}, not {exact}; mean {mean}; {min} to {max}; {counts:?}"))
}

/// Adds up all values as `f64`, in sixteen sums, so that no addition waits for another.
fn sum(values: &[f32], threads: usize) {
    const LANES: usize = 16;
    let pieces: Vec<_> = values.chunks(PIECE as usize / size_of::<f32>()).collect();
    on_threads(
        threads,
        pieces.len(),
        || (),
        |(), number| {
            let (chunks, rest) = pieces[number].as_chunks::<LANES>();
            let mut sums = [0.0; LANES];
            for chunk in chunks {
                for (sum, value) in sums.iter_mut().zip(chunk) {
                    *sum += f64::from(*value);
                }
            }
            let rest: f64 = rest.iter().copied().map(f64::from).sum();
            black_box(sums.iter().sum::<f64>() + rest);
        },
    );
}

/// Measures the peak memory of a process that computes statistics by the file's path.
fn peak(bench: &Bench, id: String) -> Result<Row> {
    let path = bench.file("stats.safetensors");
    let tensors = Tensors::one(DType::F32, bench.sizes.stats_mib << 20);
    tensors.to_file(Form::Safetensors, &Noise::new(Values::F32), &path)?;
    let [peak] = measured(
        &bench.heap,
        &["stats".as_ref(), bench.sizes.threads.to_string().as_ref(), path.as_os_str()],
    )?;
    crate::remove(&path)?;
    let mib = |nbytes: f64| nbytes / f64::from(1 << 20);
    Ok(Row {
        id,
        work: "memory of a process that computes these statistics of a file".to_owned(),
        case: "f32".to_owned(),
        samples: vec![mib(peak)],
        unit: Unit::MiB,
        target: Target::AtMost((1.1 * mib(tensors.nbytes() as f64)).round()),
        note: "the tensor and a tenth of it".to_owned(),
    })
}
