//! Every golden model, intact and damaged, through [`AsyncModel`] over files that do not respond at once. It
//! must see the same as [`Model`].
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use aero::ReaderExt as _;
use modelfmt::convert::Overwrite;
use modelfmt::modelfmt_core::TensorInfo;
use modelfmt::modelfmt_core::load::LoadOptions;
use modelfmt::modelfmt_core::plan::{Pick, Slice};
use modelfmt::modelfmt_core::source::{Files, MemoryFiles, shared_files};
use modelfmt::{AsyncModel, Error, Execution, Format, Limits, Model, OpenOptions, Pin, VerifyLevel};
use testkit::{SlowFiles, block_on, error_text, report_lines};

/// What a driver sees of a model.
#[derive(Debug, PartialEq)]
struct Seen {
    format: Format,
    tensors: Result<Vec<String>, String>,
    /// By name: whole, checked, a part, the part checked, a slice, the slice checked.
    values: Vec<[Result<Vec<u8>, String>; 6]>,
    /// All values at once, unverified and verified, and the number of bytes that were not verified. (In an
    /// APR file that is compressed as a whole, no bytes belong to a single tensor, so the number is left
    /// out.)
    loaded: [Loaded; 2],
    /// By position.
    at: Vec<Result<Vec<u8>, String>>,
    /// `None` if it cannot be decoded.
    metadata: Option<String>,
    /// The version, the size and the files. As far as they can be read: the format's own metadata, its
    /// special features, and the location of each tensor.
    facts: String,
    report: Vec<String>,
}

/// The error does not matter, because it depends on which request fails first.
type Loaded = Result<(Vec<Vec<u8>>, u64), ()>;
type Outcome = Result<Seen, String>;

/// A part of a tensor's bytes that most tensors have.
const PART: Range<u64> = 1..3;

fn names(tensors: &Result<Vec<String>, String>, found: impl Iterator<Item = String>) -> Vec<String> {
    if tensors.is_ok() { found.collect() } else { Vec::new() }
}

/// Returns a part of every tensor that has a dimension.
fn slice() -> Slice {
    "::2".parse().unwrap()
}

/// Returns memory for all tensors that have values, if their descriptions are known.
fn buffers(is_known: bool, infos: &[TensorInfo<'_>]) -> (Vec<Pick>, Vec<Vec<u8>>) {
    let known = infos.iter().enumerate().filter(|(_, info)| is_known && info.has_data);
    let buffer = |(position, info): (usize, &TensorInfo<'_>)| {
        (Pick::whole(position), vec![0; usize::try_from(info.nbytes).unwrap()])
    };
    known.filter(|(_, info)| info.nbytes < 1 << 24).map(buffer).unzip()
}

fn by_model(options: &OpenOptions, files: &MemoryFiles, name: &str) -> Outcome {
    let source = files.open(name).map_err(|error| error.to_string())?;
    let model =
        options.open_source(name, Box::new(source), Some(shared_files(files.clone()))).map_err(error_text)?;
    let infos = || model.tensors().map(|info| format!("{info:?}")).collect();
    let tensors = model.open_all().map(|()| infos()).map_err(error_text);
    let names = names(&tensors, model.tensors().map(|info| info.name.to_owned()));
    let value = |name: &String| {
        [
            model.tensor(name).map(|tensor| tensor.bytes().to_vec()).map_err(error_text),
            model.checked().tensor(name).map(|tensor| tensor.bytes().to_vec()).map_err(error_text),
            model.read_range(name, PART).map(|bytes| bytes.to_vec()).map_err(error_text),
            model.checked().read_range(name, PART).map(|bytes| bytes.to_vec()).map_err(error_text),
            model.slice(name, &slice()).map(|slice| slice.bytes().to_vec()).map_err(error_text),
            model.checked().slice(name, &slice()).map(|slice| slice.bytes().to_vec()).map_err(error_text),
        ]
    };
    let loaded = [false, true].map(|verify| {
        let (picks, mut buffers) = buffers(tensors.is_ok(), &model.tensors().collect::<Vec<_>>());
        let mut out: Vec<_> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
        let options = LoadOptions::new().verify(verify);
        let loaded = model.load_into(&picks, &mut out, &options, &Execution::sequential());
        loaded.map(|loaded| (buffers, loaded.unverified)).map_err(drop)
    });
    let at = |n| model.tensor(n).map(|tensor| tensor.bytes().to_vec()).map_err(error_text);
    let metadata = model.container().flat_metadata();
    let container = model.container();
    let places: Vec<_> = (0..model.tensor_count()).map(|n| model.location(n).ok()).collect();
    let facts = (container.version(), container.file_size(), container.file_paths());
    Ok(Seen {
        facts: format!("{facts:?} {:?} {:?} {places:?}", model.metadata().ok(), model.details().ok()),
        format: model.format(),
        values: names.iter().map(value).collect(),
        loaded,
        at: (0..model.tensor_count()).map(at).collect(),
        tensors,
        metadata: metadata.ok().map(|keys| format!("{keys:?}")),
        report: report_lines(&model.container().verify(VerifyLevel::Full, &Execution::default())),
    })
}

async fn by_async_model(options: &OpenOptions, files: &MemoryFiles, name: &str) -> Outcome {
    let model = options.open_async(SlowFiles(files), name).await.map_err(error_text)?;
    assert_eq!(model.name(), name);
    let infos = model.tensors().await;
    let tensors = infos.as_ref().map(|infos| infos.iter().map(|info| format!("{info:?}")).collect());
    let tensors = tensors.map_err(error_text);
    let names = names(&tensors, infos.iter().flatten().map(|info| info.name.to_owned()));
    let (mut values, mut at) = (Vec::new(), Vec::new());
    for name in &names {
        values.push([
            model.tensor(name).await.map(|tensor| tensor.bytes().to_vec()).map_err(error_text),
            model.checked().tensor(name).await.map(|tensor| tensor.bytes().to_vec()).map_err(error_text),
            model.read_range(name, PART).await.map(|bytes| bytes.to_vec()).map_err(error_text),
            model.checked().read_range(name, PART).await.map(|bytes| bytes.to_vec()).map_err(error_text),
            model.slice(name, &slice()).await.map(|slice| slice.bytes().to_vec()).map_err(error_text),
            model
                .checked()
                .slice(name, &slice())
                .await
                .map(|slice| slice.bytes().to_vec())
                .map_err(error_text),
        ]);
    }
    let mut loaded = Vec::new();
    for verify in [false, true] {
        let (picks, mut buffers) = buffers(tensors.is_ok(), infos.as_deref().unwrap_or_default());
        let mut out: Vec<_> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
        let options = LoadOptions::new().verify(verify);
        let done = model.load_into(&picks, &mut out, &options, &Execution::sequential()).await;
        loaded.push(done.map(|loaded| (buffers, loaded.unverified)).map_err(drop));
    }
    for position in 0..model.tensor_count() {
        at.push(model.tensor(position).await.map(|tensor| tensor.bytes().to_vec()).map_err(error_text));
    }
    let mut places = Vec::new();
    for position in 0..model.tensor_count() {
        let place = model.location(position).await.ok();
        let info = model.info(position).await.ok().filter(|info| info.has_data && info.nbytes < 1 << 24);
        if let (Some(info), Some(Ok(expected))) = (info, at.get(position)) {
            let mut out = vec![0; usize::try_from(info.nbytes).unwrap()];
            model.read_into(position, 0, &mut out).await.unwrap();
            assert_eq!(out, *expected, "{name}: {}", info.name);
        }
        places.push(place);
    }
    assert_eq!(model.open_all().await.is_ok(), tensors.is_ok());
    let facts = (model.version(), model.file_size().await, model.file_paths());
    let (own, details) = (model.metadata().await.ok(), model.details().await.ok());
    Ok(Seen {
        facts: format!("{facts:?} {own:?} {details:?} {places:?}"),
        format: model.format(),
        tensors,
        values,
        loaded: loaded.try_into().unwrap(),
        at,
        metadata: model.flat_metadata().await.ok().map(|keys| format!("{keys:?}")),
        report: report_lines(&model.verify(VerifyLevel::Full).await),
    })
}

/// Checks that both drivers see the same, or the same error.
fn agree(what: &str, options: &OpenOptions, files: &MemoryFiles, name: &str) -> Outcome {
    let expected = by_model(options, files, name);
    let found = block_on(by_async_model(options, files, name));
    if let (Ok(found), Ok(expected)) = (&found, &expected) {
        assert_eq!(found.loaded, expected.loaded, "{what}");
    }
    assert_eq!(found, expected, "{what}");
    expected
}

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

/// Returns the files of a folder, which may belong to sets.
fn files_of(folder: &Path) -> MemoryFiles {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let files = entries.filter(|path| path.is_file() && path.extension().is_none_or(|end| end != "txt"));
    MemoryFiles(files.map(|path| (name(&path), std::fs::read(&path).unwrap().into())).collect())
}

fn folders(root: &Path, found: &mut Vec<PathBuf>) {
    found.push(root.to_owned());
    let entries = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).for_each(|path| folders(&path, found));
}

#[test]
fn every_golden_model_is_what_model_sees() {
    let options = OpenOptions::new();
    let mut all = Vec::new();
    folders(&testdata(), &mut all);
    let mut formats = BTreeSet::new();
    for folder in all {
        let files = files_of(&folder);
        for (name, bytes) in &files.0 {
            let what = folder.join(name).display().to_string();
            let Ok(seen) = agree(&what, &options, &files, name) else { continue };
            formats.insert(seen.format.name());
            for eighth in [1, 4, 7] {
                let at = bytes.len() * eighth / 8;
                let mut damaged = bytes.to_vec();
                damaged[at] ^= 0x41;
                let mut changed = files.clone();
                changed.0.insert(name.clone(), Arc::from(&*damaged));
                let _ = agree(&format!("{what} with byte {at} changed"), &options, &changed, name);
                damaged.truncate(at);
                changed.0.insert(name.clone(), Arc::from(&*damaged));
                let _ = agree(&format!("{what} cut at {at}"), &options, &changed, name);
            }
        }
    }
    let every: BTreeSet<&str> = Format::ALL.iter().map(|format| format.name()).collect();
    assert_eq!(formats, every, "there are golden files of every format");
}

#[test]
fn an_aero_file_is_opened_by_its_pin() {
    let files = files_of(&testdata().join("aero"));
    let pin = aero::Reader::from_source(&files.0["hashes.aero"][..]).unwrap().pin().unwrap().unwrap();
    let options = OpenOptions::new().pin(Pin::Aero(pin));
    agree("pinned", &options, &files, "hashes.aero").unwrap();
    let error = agree("another file", &options, &files, "dtypes.aero").unwrap_err();
    assert!(error.contains("dtypes.aero"), "{error}");
}

#[test]
fn a_file_of_any_format_is_opened_by_its_hash() {
    for (folder, name) in
        [("aero", "hashes.aero"), ("safetensors", "dtypes.safetensors"), ("gguf", "types.gguf")]
    {
        let plain = files_of(&testdata().join(folder));
        let bytes = plain.0[name].clone();
        let copy = tempfile::tempdir().unwrap();
        std::fs::write(copy.path().join(name), &bytes).unwrap();
        let written =
            modelfmt::outboard::outboard(copy.path().join(name), Overwrite::Refuse, &Execution::sequential());
        let options = OpenOptions::new().pin(Pin::B3(written.unwrap().blake3));
        let outboard = std::fs::read(copy.path().join(format!("{name}.obao4"))).unwrap();
        let mut proved = plain.clone();
        proved.0.insert(format!("{name}.obao4"), outboard.into());
        for files in [&plain, &proved] {
            let seen = agree(name, &options, files, name).unwrap();
            assert!(seen.loaded.iter().all(|loaded| loaded.as_ref().unwrap().1 == 0), "{name}");
            for eighth in 0..8 {
                let at = bytes.len() * eighth / 8;
                let (mut damaged, mut changed) = (bytes.to_vec(), files.clone());
                damaged[at] ^= 1;
                changed.0.insert(name.to_owned(), damaged.into());
                agree(&format!("{name} with byte {at} changed"), &options, &changed, name).unwrap_err();
            }
        }
        let mut other = proved.clone();
        other.0.insert(format!("{name}.obao4"), Arc::from(&b"no outboard"[..]));
        agree("a hostile outboard", &options, &other, name).unwrap_err();
    }
    let refused = |folder: &str, name: &str, pin| {
        let files = files_of(&testdata().join(folder));
        let error = block_on(OpenOptions::new().pin(pin).open_async(SlowFiles(&files), name)).unwrap_err();
        assert!(matches!(error, Error::Unpinnable { .. }) || matches!(error, Error::File { .. }), "{error}");
    };
    refused("safetensors", "set.safetensors.index.json", Pin::B3([0; 32]));
    refused("apr2", "dtypes.apr", Pin::Seal([0; 32]));
}

#[test]
fn a_set_is_opened_by_the_hash_of_its_index() {
    let files = files_of(&testdata().join("aero/set"));
    let name = files.0.keys().find(|name| name.ends_with(".aeroset.json")).unwrap().clone();
    let pin =
        |files: &MemoryFiles| OpenOptions::new().pin(Pin::B3(*blake3::hash(&files.0[&name]).as_bytes()));
    let seen = agree("pinned", &pin(&files), &files, &name).unwrap();
    assert_eq!(seen.format, Format::AeroSet);
    assert!(seen.loaded.iter().all(|loaded| loaded.as_ref().unwrap().1 == 0));
    for (path, bytes) in files.0.iter().filter(|(path, _)| path.ends_with(".aero")) {
        let (mut changed, mut damaged) = (files.clone(), bytes.to_vec());
        damaged[20] ^= 1;
        changed.0.insert(path.clone(), damaged.into());
        let seen = agree(path, &pin(&files), &changed, &name);
        assert!(seen.is_err() || seen.is_ok_and(|seen| seen.at.iter().any(Result::is_err)), "{path}");
    }
    // In a folder, together with other files.
    let below = files.0.iter().map(|(name, bytes)| (format!("models/{name}"), bytes.clone()));
    let below = MemoryFiles(below.collect());
    let model = block_on(pin(&files).open_async(SlowFiles(&below), &format!("models/{name}"))).unwrap();
    assert!(block_on(model.tensor(0)).is_ok());
    let mut other = files.clone();
    other.0.insert(name.clone(), Arc::from([&files.0[&name], &b"\n"[..]].concat()));
    agree("another index", &pin(&files), &other, &name).unwrap_err();
}

#[test]
fn limits_hold_and_other_files_are_refused() {
    let files = files_of(&testdata().join("safetensors"));
    let index = "set.safetensors.index.json";
    let mut limits = Limits::default();
    limits.index_len = 10;
    let tight = OpenOptions::new().limits(limits);
    // A file that is too long to be read whole is not taken for an index.
    let error = block_on(tight.open_async(SlowFiles(&files), index)).unwrap_err();
    assert!(matches!(error, Error::UnknownFormat { .. }), "{error}");
    let file = files.0.keys().find(|name| name.ends_with(".safetensors")).unwrap();
    let _ = agree("a tight limit", &tight, &files, file).unwrap_err();
    let error = block_on(AsyncModel::open(SlowFiles(&files), "nothing")).unwrap_err();
    assert!(matches!(error, Error::Open { .. }), "{error}");
    let model = block_on(AsyncModel::open(SlowFiles(&files), file)).unwrap();
    let error = block_on(model.tensor("no such tensor")).unwrap_err();
    assert!(matches!(error, Error::NoSuchTensor { .. }), "{error}");
    assert_eq!(model.format(), Model::open(testdata().join("safetensors").join(file)).unwrap().format());
}

/// Files that record which of them are opened.
struct Noted<'a>(&'a MemoryFiles, &'a Mutex<Vec<String>>);

impl Files for Noted<'_> {
    type Source = Arc<[u8]>;

    fn open(&self, path: &str) -> std::io::Result<Arc<[u8]>> {
        self.1.lock().unwrap().push(path.to_owned());
        self.0.open(path)
    }
}

#[test]
fn the_index_of_a_set_is_opened_once() {
    for index in ["safetensors/set.safetensors.index.json", "aero/set/model.aeroset.json"] {
        let path = testdata().join(index);
        let (files, name) = (files_of(path.parent().unwrap()), path.file_name().unwrap().to_str().unwrap());
        let opened = Mutex::new(Vec::new());
        let model = block_on(AsyncModel::open(Noted(&files, &opened), name)).unwrap();
        block_on(model.open_all()).unwrap();
        assert!(model.format().is_set());
        let times = opened.lock().unwrap().iter().filter(|path| *path == name).count();
        assert_eq!(times, 1, "{index}");
    }
}
