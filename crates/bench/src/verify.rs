//! Checks every byte of a file, compared with the bare hash, checksum or decoder over the same bytes.

use std::fs::File;
use std::hint::black_box;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use modelfmt::modelfmt_core::Encoding;
use modelfmt::verify::Status;
use modelfmt::{Execution, Model, VerifyLevel};
use modelfmt_core::{DType, author::PIECE};

use crate::data::{Form, Noise, Tensors, Values};
use crate::map::map;
use crate::race::{Race, on_threads, race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, ensure, threads};

/// The size of an LZ4 block of APR2.
const BLOCK: usize = 64 << 10;

/// A file, and the work with which its verification is compared.
struct Case {
    id: &'static str,
    form: Form,
    values: Values,
    /// The divisor of the usual size of all tensors.
    part: u64,
    raw: Raw,
    target: f64,
    /// The target for verifying by path, compared with positioned reads as well.
    path_target: f64,
    /// The checks that must find a changed byte.
    checks: &'static [&'static str],
}

/// The bare work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Raw {
    Blake3,
    /// Three hashes: those of chunks, tensors and pages begin at different bytes, and so share nothing.
    Blake3Thrice,
    Crc32,
    Lz4,
}

const CASES: [Case; 6] = [
    Case {
        id: "aero",
        form: Form::Aero,
        values: Values::F32,
        part: 1,
        raw: Raw::Blake3,
        target: 0.85,
        path_target: 0.85,
        checks: &["chunk-hashes"],
    },
    Case {
        id: "aero-all",
        form: Form::AeroAll,
        values: Values::F32,
        part: 1,
        raw: Raw::Blake3Thrice,
        target: 1.2,
        path_target: 1.2,
        checks: &["chunk-hashes", "tensor-hashes", "page-hashes"],
    },
    Case {
        id: "apr2",
        form: Form::Apr2,
        values: Values::F32,
        part: 1,
        raw: Raw::Crc32,
        target: 0.8,
        path_target: 0.85,
        checks: &["crc"],
    },
    Case {
        id: "apr",
        form: Form::Apr,
        values: Values::F32,
        part: 1,
        raw: Raw::Crc32,
        target: 0.8,
        path_target: 0.8,
        checks: &["crc"],
    },
    Case {
        id: "apr2-lz4-f16",
        form: Form::Apr2Lz4,
        values: Values::F16,
        part: 2,
        raw: Raw::Lz4,
        target: 0.75,
        path_target: 0.75,
        checks: &["crc"],
    },
    Case {
        id: "apr2-lz4-pruned",
        form: Form::Apr2Lz4,
        values: Values::Pruned,
        part: 2,
        raw: Raw::Lz4,
        target: 0.75,
        path_target: 0.75,
        checks: &["crc"],
    },
];

impl Case {
    /// Returns the ids of the rows: from a map, by path, compared with both parts of the work on LZ4 blocks,
    /// on one thread and several.
    fn ids(&self) -> [String; 4] {
        ["verify", "verify-path", "verify-both", "threads"].map(|group| match group {
            "threads" => format!("threads/verify-{}", self.id),
            group => format!("{group}/{}", self.id),
        })
    }

    fn title(&self) -> &'static str {
        match (self.values, self.form) {
            (Values::F16, _) => "APR2 LZ4, f16 that hardly compresses",
            (Values::Pruned, _) => "APR2 LZ4, pruned f16",
            (Values::F32, form) => form.title(),
        }
    }
}

/// Verifies files from a map and by their paths, and on one and two threads.
pub(crate) fn run(bench: &mut Bench) -> Result {
    for case in &CASES {
        if case.ids().iter().any(|id| bench.wants(id)) {
            measure(bench, case)?;
        }
    }
    Ok(())
}

fn measure(bench: &mut Bench, case: &Case) -> Result {
    let path = bench.file("verify");
    let dtype = if case.values == Values::F32 { DType::F32 } else { DType::F16 };
    let tensors = Tensors::layers(dtype, 16, (bench.sizes.verify_mib << 20) / case.part);
    tensors.to_file(case.form, &Noise::new(case.values), &path)?;
    changed_bytes_are_found(case, &path)?;
    let mapped = Model::from_source("verify", map(&path)?)?;
    let read = Model::open(&path)?;
    let bytes = map(&path)?;
    let bare = Bare::new(case.raw, &mapped, &bytes)?;
    let threads = bench.sizes.threads;
    let [id, path_id, both_id, threads_id] = case.ids();
    let crc = Bare::new(Raw::Crc32, &mapped, &bytes)?;
    let name = case.raw.name();
    if bench.wants(&id) {
        let race = race(bench.rounds(7), || seconds(|| verify(&mapped, threads)), || bare.timed(threads))?;
        let work = format!("verify every byte from a map: speed of the bare {name} on {threads} threads");
        bench.add(row(id, work, case, &race, Target::AtLeast(case.target)));
    }
    if bench.wants(&path_id) {
        let file = File::open(&path)?;
        let race = race(
            bench.rounds(7),
            || seconds(|| verify(&read, threads)),
            || bare.timed_by_path(&file, threads),
        )?;
        let work = format!(
            "verify every byte by path: speed of positioned reads and the bare {name} of each on {threads} threads"
        );
        bench.add(row(path_id, work, case, &race, Target::AtLeast(case.path_target)));
    }
    if case.raw == Raw::Lz4 && bench.wants(&both_id) {
        // The CRC covers the stored bytes, so the decoder alone is not enough for any reader.
        let race = race(
            bench.rounds(7),
            || seconds(|| verify(&mapped, threads)),
            || {
                seconds(|| {
                    crc.run(threads);
                    bare.run(threads);
                    Ok(())
                })
            },
        )?;
        let work = format!(
            "verify every byte from a map: speed of the bare CRC-32 and then the bare LZ4 decoder on {threads} threads"
        );
        bench.add(row(both_id, work, case, &race, Target::None));
    }
    if bench.wants(&threads_id) {
        let case = format!("verify {}", case.title());
        let bare = |threads| bare.timed(threads).map(|_| ());
        threads::compare_with(bench, (threads_id, &case), 1.7, |threads| verify(&mapped, threads), bare)?;
    }
    drop((mapped, read, bare, crc));
    drop(bytes);
    crate::remove(&path)
}

fn row(id: String, work: String, case: &Case, race: &Race, target: Target) -> Row {
    Row {
        id,
        work,
        case: case.title().to_owned(),
        samples: race.speedups(),
        unit: Unit::Times,
        target,
        note: race.times(),
    }
}

fn verify(model: &Model, threads: usize) -> Result {
    let report = model.verify_with(VerifyLevel::Full, &Execution { threads, progress: None });
    ensure(report.is_ok(), || format!("a good file is said to be bad: {report:?}"))
}

/// Makes sure that each of the timed checks reads the values: it must find a changed byte.
fn changed_bytes_are_found(case: &Case, path: &Path) -> Result {
    let model = Model::open(path)?;
    verify(&model, 2)?;
    let file = File::options().read(true).write(true).open(path)?;
    let middle = file.metadata()?.len() / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, middle)?;
    file.write_all_at(&[byte[0] ^ 1], middle)?;
    let report = model.verify(VerifyLevel::Full);
    file.write_all_at(&byte, middle)?;
    for check in case.checks {
        let failed = report.check(check).is_some_and(|check| check.status == Status::Failed);
        ensure(failed, || format!("{check} did not find a changed byte: {report:?}"))?;
    }
    verify(&model, 2)
}

impl Raw {
    const fn name(self) -> &'static str {
        match self {
            Self::Blake3 => "BLAKE3",
            Self::Blake3Thrice => "BLAKE3 three times",
            Self::Crc32 => "CRC-32",
            Self::Lz4 => "LZ4 decoder",
        }
    }
}

/// The bare work over one file.
enum Bare<'a> {
    Pieces {
        bytes: &'a [u8],
        hash: fn(&[u8]),
    },
    /// LZ4 blocks: the range of each, and the length to which it expands.
    Blocks {
        bytes: &'a [u8],
        blocks: Vec<(Range<usize>, usize)>,
    },
}

impl<'a> Bare<'a> {
    fn new(raw: Raw, model: &Model, bytes: &'a [u8]) -> Result<Self> {
        Ok(match raw {
            Raw::Blake3 => Self::Pieces {
                bytes,
                hash: |piece| {
                    black_box(blake3::hash(piece));
                },
            },
            Raw::Blake3Thrice => Self::Pieces {
                bytes,
                hash: |piece| {
                    for _ in 0..3 {
                        black_box(blake3::hash(black_box(piece)));
                    }
                },
            },
            Raw::Crc32 => Self::Pieces {
                bytes,
                hash: |piece| {
                    black_box(crc32fast::hash(piece));
                },
            },
            Raw::Lz4 => Self::Blocks { bytes, blocks: blocks(model, bytes)? },
        })
    }

    /// Times the bare work over bytes in memory.
    fn timed(&self, threads: usize) -> Result<f64> {
        seconds(|| {
            self.run(threads);
            Ok(())
        })
    }

    fn run(&self, threads: usize) {
        match self {
            Self::Pieces { bytes, hash } => {
                let pieces: Vec<_> = bytes.chunks(PIECE as usize).collect();
                on_threads(threads, pieces.len(), || (), |(), number| hash(pieces[number]));
            }
            Self::Blocks { bytes, blocks } => {
                let groups: Vec<_> = blocks.chunks(PIECE as usize / BLOCK).collect();
                let buffer = || vec![0; BLOCK];
                on_threads(threads, groups.len(), buffer, |buffer, number| {
                    for (place, len) in groups[number] {
                        decode(&bytes[place.clone()], &mut buffer[..*len]);
                    }
                });
            }
        }
    }

    /// Times the bare work over bytes that are read first, each piece with a positioned read.
    fn timed_by_path(&self, file: &File, threads: usize) -> Result<f64> {
        let read = |buffer: &mut [u8], at: usize| {
            assert!(file.read_exact_at(black_box(buffer), at as u64).is_ok(), "a file of ours is read");
        };
        let piece = PIECE as usize;
        seconds(|| {
            match self {
                Self::Pieces { bytes, hash } => {
                    let count = bytes.len().div_ceil(piece);
                    on_threads(
                        threads,
                        count,
                        || vec![0; piece],
                        |buffer, number| {
                            let at = number * piece;
                            let buffer = &mut buffer[..piece.min(bytes.len() - at)];
                            read(buffer, at);
                            hash(buffer);
                        },
                    );
                }
                Self::Blocks { blocks, .. } => {
                    let groups: Vec<_> = blocks.chunks(piece / BLOCK).collect();
                    // A block that LZ4 cannot compress takes a little more than its content.
                    let buffers = || (vec![0; 2 * piece], vec![0; BLOCK]);
                    on_threads(threads, groups.len(), buffers, |(stored, decoded), number| {
                        let [(first, _), ..] = groups[number] else { return };
                        let end = groups[number].last().map_or(first.end, |(last, _)| last.end);
                        read(&mut stored[..end - first.start], first.start);
                        for (place, len) in groups[number] {
                            let place = place.start - first.start..place.end - first.start;
                            decode(&stored[place], &mut decoded[..*len]);
                        }
                    });
                }
            }
            Ok(())
        })
    }
}

/// Decodes a block.
fn decode(block: &[u8], out: &mut [u8]) {
    let len = out.len();
    let decoded = lz4_flex::block::decompress_into(block, out);
    assert_eq!(black_box(decoded).ok(), Some(len), "a block of ours decodes");
}

/// Returns the ranges of the LZ4 blocks of all compressed tensors. A length of four bytes precedes each.
fn blocks(model: &Model, bytes: &[u8]) -> Result<Vec<(Range<usize>, usize)>> {
    let mut blocks = Vec::new();
    for (position, info) in model.tensors().enumerate() {
        let location = model.location(position)?;
        if location.encoding != Encoding::Lz4 {
            continue;
        }
        let mut at = location.offset.ok_or("a compressed tensor without values")? as usize;
        let end = at + location.stored_nbytes as usize;
        let mut values = info.nbytes as usize;
        while let Some((header, _)) = bytes[at..end].split_first_chunk() {
            let begin = at + header.len();
            at = begin + u32::from_le_bytes(*header) as usize;
            let len = values.min(BLOCK);
            blocks.push((begin..at, len));
            values -= len;
        }
    }
    ensure(!blocks.is_empty(), || "no tensor is compressed".to_owned())?;
    Ok(blocks)
}
