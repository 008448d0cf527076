//! Reads a file that is checked by its outboard, compared with the same reads and the bare hash of the same
//! bytes.

use std::hint::black_box;

use modelfmt_core::proof::VerifiedSource;
use modelfmt_core::source::FileSource;
use modelfmt_core::{DType, Execution, Source};
use modelfmt_write::MemoryFile;
use modelfmt_write::write_outboard;

use crate::data::{Form, Noise, Tensors, Values};
use crate::race::{on_threads, race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, ensure, remove};

/// The size of a read in bytes.
const PIECE: usize = 1 << 20;

/// Reads a file in pieces with positioned reads, on the same number of threads for both sides.
pub(crate) fn run(bench: &mut Bench) -> Result {
    let ids = ["proof/read", "proof/outboard"].map(str::to_owned);
    if !ids.iter().any(|id| bench.wants(id)) {
        return Ok(());
    }
    let path = bench.file("proof");
    Tensors::layers(DType::F32, 16, bench.sizes.verify_mib << 20).to_file(
        Form::Safetensors,
        &Noise::new(Values::F32),
        &path,
    )?;
    let (file, sink, threads) = (FileSource::open(&path)?, MemoryFile::new(), bench.sizes.threads);
    let work = Execution { threads, progress: None };
    let hash = write_outboard(&file, &sink, &work)?;
    let proved = VerifiedSource::by_outboard(FileSource::open(&path)?, hash, sink.into_bytes())?;
    let other = VerifiedSource::by_outboard(FileSource::open(&path)?, [0; 32], vec![0; 64])
        .and_then(|source| source.read(0..1).map(drop));
    ensure(other.is_err(), || "a wrong hash passes".to_owned())?;
    let [read_id, outboard_id] = ids;
    let bare = |source: &FileSource| {
        seconds(|| {
            read(source, threads, |piece| {
                black_box(blake3::hash(piece));
            })
        })
    };
    if bench.wants(&read_id) {
        let race = race(bench.rounds(7), || seconds(|| read(&proved, threads, |_| ())), || bare(&file))?;
        bench.add(Row {
            id: read_id,
            work: format!(
                "read a file by an outboard in memory: time of the same reads and the bare BLAKE3 of each, {threads} threads"
            ),
            case: "pieces of 1 MiB".to_owned(),
            samples: race.costs(),
            unit: Unit::Times,
            target: Target::AtMost(1.15),
            note: race.times(),
        });
    }
    if bench.wants(&outboard_id) {
        let race = race(
            bench.rounds(7),
            || {
                seconds(|| {
                    black_box(write_outboard(&file, &MemoryFile::new(), &work)?);
                    Ok(())
                })
            },
            || bare(&file),
        )?;
        bench.add(Row {
            id: outboard_id,
            work: format!(
                "make the outboard of a file: time of reads of 1 MiB and the bare BLAKE3 of each, {threads} threads"
            ),
            case: "into memory".to_owned(),
            samples: race.costs(),
            unit: Unit::Times,
            target: Target::None,
            note: race.times(),
        });
    }
    drop((file, proved));
    remove(&path)
}

fn read(source: &(impl Source + Sync), threads: usize, look: impl Fn(&[u8]) + Sync) -> Result {
    let len = source.len() as usize;
    on_threads(
        threads,
        len.div_ceil(PIECE),
        || vec![0; PIECE],
        |buffer, number| {
            let at = number * PIECE;
            let piece = &mut buffer[..PIECE.min(len - at)];
            assert!(source.read_into(at as u64, piece).is_ok(), "a good file is read");
            look(piece);
            black_box(piece);
        },
    );
    Ok(())
}
