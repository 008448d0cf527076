//! Every golden set, intact and damaged, through both drivers: files that respond at once, and files that do
//! not. Both see the same tensors, values, metadata, reports and errors.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use modelfmt::modelfmt_core::plan::Slice;
use modelfmt::modelfmt_core::source::MemoryFiles;
use modelfmt::modelfmt_core::{
    AsyncReader, Container, OpenSet, Reader, TensorInfo, TensorView,
    author::{Opened as _, ShardMap},
};
use modelfmt::{Execution, VerifyLevel};
use testkit::{SlowFiles, block_on, error_text, report_lines};

/// What a reader sees of a set.
#[derive(Debug, PartialEq)]
struct Seen {
    tensors: Vec<Result<String, String>>,
    values: Vec<Result<Vec<u8>, String>>,
    /// The same values, read with checks.
    checked: Vec<Result<Vec<u8>, String>>,
    /// A few bytes from the middle of each tensor, unchecked and checked.
    slices: Vec<[Result<Vec<u8>, String>; 2]>,
    /// Every second row without the first column.
    parts: Vec<Result<Vec<u8>, String>>,
    all: Result<(), String>,
    metadata: Result<String, String>,
    report: Vec<String>,
}

type Outcome = Result<Seen, String>;

fn middle(info: Result<TensorInfo<'_>, String>) -> Range<u64> {
    let nbytes = info.map_or(8, |info| info.nbytes);
    nbytes / 3..nbytes / 3 + (nbytes / 2).min(100_000)
}

fn rows() -> Slice {
    "::2,1:".parse().unwrap()
}

fn len(range: &Range<u64>) -> usize {
    usize::try_from(range.end - range.start).unwrap()
}

fn bytes(view: &TensorView<'_>) -> Vec<u8> {
    view.bytes().to_vec()
}

fn by_source<M: ShardMap>(files: &MemoryFiles, index: &str) -> Outcome {
    let set = Reader::<OpenSet<M, _>>::from_files(files, index).map_err(error_text)?;
    let positions = 0..set.index().tensor_count();
    let slices = |position| {
        let range = middle(set.info(position).map_err(error_text));
        let mut out = vec![0; len(&range)];
        let read = set.read_into(position, range.start, &mut out).map(|()| out).map_err(error_text);
        [read, set.checked().read_range(position, range).map(|b| b.to_vec()).map_err(error_text)]
    };
    Ok(Seen {
        tensors: set.tensors().map(|info| info.map(|info| format!("{info:?}")).map_err(error_text)).collect(),
        values: positions.clone().map(|n| set.tensor(n).map(|t| bytes(&t)).map_err(error_text)).collect(),
        checked: positions
            .clone()
            .map(|n| set.checked().tensor(n).map(|t| bytes(&t)).map_err(error_text))
            .collect(),
        slices: positions.clone().map(slices).collect(),
        parts: positions
            .flat_map(|n| [set.slice(n, &rows()), set.checked().slice(n, &rows())])
            .map(|part| part.map(|part| part.bytes().to_vec()).map_err(error_text))
            .collect(),
        all: set.open_all().map_err(error_text),
        metadata: set.metadata_tree().map(|tree| format!("{tree:?}")).map_err(error_text),
        report: report_lines(&Container::verify(&set, VerifyLevel::Full, &Execution::default())),
    })
}

async fn by_future<M: ShardMap>(files: &MemoryFiles, index: &str) -> Outcome {
    let set = AsyncReader::<OpenSet<M, _>>::from_files(SlowFiles(files), index).await.map_err(error_text)?;
    let (mut tensors, mut values, mut checked, mut slices) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut parts = Vec::new();
    for position in 0..set.tensor_count() {
        let info = set.info(position).await.map_err(error_text);
        let range = middle(info.clone());
        tensors.push(info.map(|info| format!("{info:?}")));
        values.push(set.tensor(position).await.map(|tensor| bytes(&tensor)).map_err(error_text));
        checked.push(set.checked().tensor(position).await.map(|tensor| bytes(&tensor)).map_err(error_text));
        let mut out = vec![0; len(&range)];
        let read = set.read_into(position, range.start, &mut out).await.map(|()| out).map_err(error_text);
        let part = set.checked().read_range(position, range).await.map(|b| b.to_vec()).map_err(error_text);
        slices.push([read, part]);
        let part = set.slice(position, &rows()).await;
        parts.push(part.map(|part| part.bytes().to_vec()).map_err(error_text));
        let part = set.checked().slice(position, &rows()).await;
        parts.push(part.map(|part| part.bytes().to_vec()).map_err(error_text));
    }
    let all = set.tensors().await.map(|infos| infos.len());
    assert_eq!(all.is_ok(), tensors.iter().all(Result::is_ok));
    Ok(Seen {
        tensors,
        values,
        checked,
        slices,
        parts,
        all: set.open_all().await.map_err(error_text),
        metadata: set.metadata_tree().await.map(|tree| format!("{tree:?}")).map_err(error_text),
        report: report_lines(&set.verify(VerifyLevel::Full).await),
    })
}

/// Checks that the drivers agree on a set.
fn agree<M: ShardMap>(what: &str, files: &MemoryFiles, index: &str) -> Outcome {
    let expected = by_source::<M>(files, index);
    assert_eq!(block_on(by_future::<M>(files, index)), expected, "{what}");
    expected
}

/// Returns the files of a folder whose names begin with `begin`.
fn folder(folder: &str, begin: &str) -> MemoryFiles {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(folder);
    let mut files = MemoryFiles::default();
    for entry in std::fs::read_dir(&root).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_file() && name.starts_with(begin) && !name.ends_with(".txt") {
            files.0.insert(name.to_owned(), std::fs::read(&path).unwrap().into());
        }
    }
    files
}

/// Checks a set. `states_hashes` says whether the set has digests of its values that a checked read could
/// use.
fn check<M: ShardMap>(files: &MemoryFiles, index: &str, states_hashes: bool) {
    let seen = agree::<M>("intact", files, index).unwrap();
    assert!(!seen.values.is_empty() && seen.values.iter().all(Result::is_ok), "{seen:?}");
    if states_hashes {
        assert_eq!(seen.checked, seen.values);
        assert!(seen.slices.iter().all(|[read, checked]| read == checked));
    } else {
        let is_refused = |checked: &Result<Vec<u8>, String>| match checked {
            Ok(bytes) => bytes.is_empty(),
            Err(error) => error.contains("cannot be verified"),
        };
        assert!(seen.checked.iter().all(is_refused), "{:?}", seen.checked);
    }
    for (name, bytes) in &files.0 {
        let mut changed = files.clone();
        changed.0.remove(name);
        let outcome = agree::<M>(&format!("without {name}"), &changed, index);
        assert!(outcome.is_err() || outcome.unwrap().all.is_err());
        for damage in 1..8 {
            let at = bytes.len() * damage / 8;
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 0x41;
            changed.0.insert(name.clone(), Arc::from(&*damaged));
            let seen = agree::<M>(&format!("{name} with byte {at} changed"), &changed, index);
            if let Ok(seen) = seen
                && states_hashes
            {
                for (checked, value) in seen.checked.iter().zip(&seen.values) {
                    assert!(checked.is_err() || checked == value, "{name}, byte {at}");
                }
            }
            damaged.truncate(at);
            changed.0.insert(name.clone(), Arc::from(&*damaged));
            let _ = agree::<M>(&format!("{name} cut at {at}"), &changed, index);
        }
    }
}

#[test]
fn both_drivers_read_an_aeroset() {
    check::<aero::SetIndex>(&folder("aero/set", "model."), "model.aeroset.json", true);
}

#[test]
fn both_drivers_read_an_aeroset_by_another_tool() {
    check::<aero::SetIndex>(&folder("reference/aeroset", ""), "model.aeroset.json", true);
}

#[test]
fn both_drivers_read_sharded_apr2() {
    check::<apr2::SetIndex>(&folder("apr2/set", "sharded"), "sharded.apr", true);
    check::<apr2_seal::SetIndex>(&folder("apr2/set", "sharded"), "sharded.apr", true);
}

#[test]
fn both_drivers_read_sharded_safetensors() {
    let index = "set.safetensors.index.json";
    check::<modelfmt::safetensors::SetIndex>(&folder("safetensors", "set"), index, false);
}

#[test]
fn both_drivers_read_a_split_gguf_by_each_of_its_files() {
    let files = folder("reference/gguf", "split-");
    for number in 1..=3 {
        let name = format!("split-0000{number}-of-00003.gguf");
        check::<modelfmt::gguf::SetIndex>(&files, &name, false);
    }
}

/// A changed value is found by a checked read of its tensor, and by no other read if the tensor has its own
/// digest.
#[test]
fn a_damaged_value_is_found_by_a_checked_read_of_it() {
    let mut files = folder("aero/set", "model.");
    let set = Reader::<OpenSet<aero::SetIndex, _>>::from_files(&files, "model.aeroset.json").unwrap();
    let location = (0..set.index().tensor_count()).find_map(|n| {
        let location = Container::location(&set, n).unwrap();
        (location.stored_nbytes > 0).then_some((n, location))
    });
    let (position, location) = location.unwrap();
    let path = location.file.unwrap();
    let mut damaged = files.0[&path].to_vec();
    damaged[usize::try_from(location.offset.unwrap()).unwrap()] ^= 1;
    files.0.insert(path.clone(), damaged.into());
    let set = Reader::<OpenSet<aero::SetIndex, _>>::from_files(&files, "model.aeroset.json").unwrap();
    assert!(set.tensor(position).is_ok());
    let error = error_text(set.checked().tensor(position).unwrap_err());
    assert!(error.contains(&path) && error.contains("BLAKE3"), "{error}");
}
