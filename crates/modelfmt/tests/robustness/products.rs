//! Work that could grow with a product: tensors times files, tensors times the bytes that they share. Counted, never timed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use modelfmt::{ConvertOptions, DType, Format, InspectOptions, Level, Model, OpenOptions, Work};
use tensor_core::Source;
use tensor_core::source::{FileId, Files, MemoryFiles, any_files};
use tensor_core::value::Object;
use tensor_core::write::{MemoryFolder, TensorSpec};
use testkit::{CountingSource, peak};

/// The index of a set of each format, by which [`set`] knows the format.
const INDEXES: [&str; 3] = ["m.aeroset.json", "m.apr.json", "m.safetensors.index.json"];

/// A set of so many tensors of 64 bytes in files that hold so many of them.
fn set(index: &str, tensors: usize, in_a_file: usize) -> MemoryFiles {
    let specs = || (0..tensors).map(|n| TensorSpec::new(format!("tensor.{n}"), DType::U8, vec![64]));
    let (data, folder, work) = (vec![[7u8; 64]; tensors], MemoryFolder::default(), Work::sequential());
    let size = 64 * in_a_file as u64;
    if index == INDEXES[0] {
        let metadata = Object::from_iter([("model_name", "m"), ("architecture", "demo")]);
        let options = aero::WriteOptions::new().uuid([7; 16]).shard_size(size).part_size(size);
        let plan = aero::SetPlan::new(index, specs(), &metadata, &options).unwrap();
        plan.write(&data, &folder, &work).unwrap();
    } else if index == INDEXES[1] {
        let metadata = apr2::Metadata::new("demo", Object::new());
        let options = apr2::WriteOptions::new().shard_size(size);
        let plan = apr2::SetPlan::new(index, specs(), &metadata, &options).unwrap();
        plan.write(&data, &folder, &work).unwrap();
    } else {
        let options = modelfmt_safetensors::WriteOptions::new().shard_size(size);
        let plan = modelfmt_safetensors::SetPlan::new("m", specs(), None, &options).unwrap();
        plan.write(&data, &folder, &work).unwrap();
    }
    folder.files()
}

/// Files that count what is opened and read, and that can all be the same file for the system.
#[derive(Clone)]
struct Watched {
    files: Arc<MemoryFiles>,
    opened: Arc<AtomicU64>,
    nbytes: Arc<AtomicU64>,
    id: Option<FileId>,
}

impl Watched {
    fn new(files: MemoryFiles) -> Self {
        Self { files: Arc::new(files), opened: Arc::default(), nbytes: Arc::default(), id: None }
    }

    fn model(&self, index: &str) -> Model {
        let source = self.files.open(index).unwrap();
        OpenOptions::new().open_source(index, Box::new(source), Some(any_files(self.clone()))).unwrap()
    }

    /// Files opened and bytes read since it was asked last.
    fn counted(&self) -> [u64; 2] {
        [self.opened.swap(0, Ordering::Relaxed), self.nbytes.swap(0, Ordering::Relaxed)]
    }
}

impl Files for Watched {
    type Source = WatchedSource;
    fn open(&self, path: &str) -> io::Result<WatchedSource> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(WatchedSource { inner: self.files.open(path)?, nbytes: Arc::clone(&self.nbytes), id: self.id })
    }
}

struct WatchedSource {
    inner: Arc<[u8]>,
    nbytes: Arc<AtomicU64>,
    id: Option<FileId>,
}

impl Source for WatchedSource {
    fn len(&self) -> u64 {
        Source::len(&self.inner)
    }
    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.nbytes.fetch_add(out.len() as u64, Ordering::Relaxed);
        self.inner.read_into(offset, out)
    }
    fn shared(&self) -> Option<&(dyn Source + Sync)> {
        Some(self)
    }
    fn id(&self) -> Option<FileId> {
        self.id
    }
}

/// The set with its last file damaged in its index, so that this is read and then refused.
fn damage(mut files: MemoryFiles, index: &str) -> MemoryFiles {
    let (path, bytes) = files
        .0
        .iter()
        .rfind(|(path, _)| *path != index && !path.contains("index."))
        .map(|(path, bytes)| (path.clone(), bytes.to_vec()))
        .unwrap();
    let source = Arc::new(CountingSource::new(bytes.clone()));
    Model::from_source("part", source.clone()).unwrap();
    let middle = source.nbytes() as usize * 3 / 4;
    let flipped = |at: usize| testkit::patched(&bytes, at, &[bytes[at] ^ 0x80]);
    let damaged = (middle..bytes.len())
        .step_by(7)
        .map(flipped)
        .find(|b| Model::from_source("part", b.clone()).is_err());
    files.0.insert(path, damaged.unwrap().into());
    files
}

/// What opening a model of `n` tensors in one damaged file costs, for each command.
fn cost_of_damage(index: &str, n: usize) -> Vec<[u64; 2]> {
    let files = Watched::new(damage(set(index, n, n), index));
    let work = Work::sequential();
    let verify = |model: &Model| assert!(!model.verify_with(Level::Full, &work).is_ok());
    let inspect = |model: &Model| {
        assert!(model.inspect(&InspectOptions::new(), &work).is_err());
        assert!(model.tensors().count() < n || index == INDEXES[0]);
    };
    let convert = |model: &Model| {
        let out = tensor_core::write::MemoryFile::new();
        let options = ConvertOptions::default();
        assert!(modelfmt::convert_to_sink(model, Format::Aero, &out, &options, &work).is_err());
    };
    let runs: [&dyn Fn(&Model); 3] = [&verify, &inspect, &convert];
    let cost = |run: &&dyn Fn(&Model)| {
        let model = files.model(index);
        files.counted();
        run(&model);
        files.counted()
    };
    runs.iter().map(cost).collect()
}

#[test]
fn a_damaged_file_of_a_set_is_tried_once() {
    for index in INDEXES {
        let [one, two] = [500, 1000].map(|n| cost_of_damage(index, n));
        println!("{index}: {one:?}, {two:?}");
        for (one, two) in one.iter().zip(&two) {
            // The set of APR2 has two files; `verify` opens a damaged one a second time, for the hash of all its bytes.
            assert!(one[0] == two[0] && one[0] <= 3, "{index}: opened {one:?} {two:?}");
            assert!(two[1] <= 21 * one[1] / 10 + 4096, "{index}: read {one:?} {two:?}");
        }
    }
}

/// Many links to one file: each is a file of the set, and the index of all of them is held once.
#[test]
fn many_paths_to_one_file_hold_its_index_once() {
    let index = INDEXES[2];
    let files = set(index, 2000, 2000);
    let (_, shard) = files.0.iter().find(|(path, _)| *path != index).unwrap();
    let held = |links: usize, id: Option<FileId>| {
        let paths = (0..links).map(|n| format!("link{n}"));
        let map: Vec<String> = paths.clone().map(|path| format!(r#""of {path}":"{path}""#)).collect();
        let text = format!(r#"{{"weight_map":{{{}}}}}"#, map.join(","));
        let mut linked = MemoryFiles::default();
        linked.0.insert(index.to_owned(), text.into_bytes().into());
        linked.0.extend(paths.map(|path| (path, Arc::clone(shard))));
        let model = Watched { id, ..Watched::new(linked) }.model(index);
        peak(|| assert!(!model.verify_with(Level::Header, &Work::sequential()).is_ok())).1
    };
    let id = Some(FileId::new(1, 2));
    assert!(held(50, None) > 10 * held(1, None), "as many files");
    let (one, many) = (held(1, id), held(50, id));
    println!("{one} bytes for one path, {many} for fifty");
    // What is found beyond that is some lines of text for each: it has tensors that the index does not look for.
    assert!(many < 10 * one, "{one} {many}");
}
