//! Work that could grow with a product: tensors times files, or tensors times the bytes that they share. It
//! is counted, never timed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use modelfmt::convert::ConvertOptions;
use modelfmt::inspect::InspectOptions;
use modelfmt::{DType, Execution, Format, Model, OpenOptions, VerifyLevel};
use modelfmt_core::Source;
use modelfmt_core::source::{FileId, Files, MemoryFiles, shared_files};
use modelfmt_core::value::{Object, Value, json};
use modelfmt_write::{MemoryFolder, TensorSpec};
use testkit::{CountingSource, peak};

/// The names of the index of a set in each format, from which [`set`] knows the format.
const INDEXES: [&str; 3] = ["m.aeroset.json", "m.apr.json", "m.safetensors.index.json"];

/// Returns a set with this many tensors of 64 bytes, in files that hold this many of them.
fn set(index: &str, tensors: usize, in_a_file: usize) -> MemoryFiles {
    let specs = || (0..tensors).map(|n| TensorSpec::new(format!("tensor.{n}"), DType::U8, vec![64]));
    let (data, folder, work) = (vec![[7u8; 64]; tensors], MemoryFolder::default(), Execution::sequential());
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
struct ObservedSource {
    files: Arc<MemoryFiles>,
    opened: Arc<AtomicU64>,
    nbytes: Arc<AtomicU64>,
    id: Option<FileId>,
}

impl ObservedSource {
    fn new(files: MemoryFiles) -> Self {
        Self { files: Arc::new(files), opened: Arc::default(), nbytes: Arc::default(), id: None }
    }

    fn model(&self, index: &str) -> Model {
        let source = self.files.open(index).unwrap();
        OpenOptions::new().open_source(index, Box::new(source), Some(shared_files(self.clone()))).unwrap()
    }

    /// Returns the files opened and bytes read since the last call.
    fn counted(&self) -> [u64; 2] {
        [self.opened.swap(0, Ordering::Relaxed), self.nbytes.swap(0, Ordering::Relaxed)]
    }
}

impl Files for ObservedSource {
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

/// Returns the set with its last file damaged in its index, so that this file is read and then refused.
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

/// Returns the cost of each command for a model of `n` tensors in one damaged file.
fn cost_of_damage(index: &str, n: usize) -> Vec<[u64; 2]> {
    let files = ObservedSource::new(damage(set(index, n, n), index));
    let work = Execution::sequential();
    let verify = |model: &Model| assert!(!model.verify_with(VerifyLevel::Full, &work).is_ok());
    let inspect = |model: &Model| {
        assert!(modelfmt::inspect::inspect(model, &InspectOptions::new(), &work).is_err());
        assert!(model.tensors().count() < n || index == INDEXES[0]);
    };
    let convert = |model: &Model| {
        let out = modelfmt_write::MemoryFile::new();
        let options = ConvertOptions::default();
        assert!(
            modelfmt::Conversion::to_format(model, Format::Aero)
                .options(&options)
                .execution(&work)
                .write_to_sink(&out)
                .is_err()
        );
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
            // The APR2 set has two files. `verify` opens a damaged file a second time, for the hash of all
            // its bytes.
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
        let model = ObservedSource { id, ..ObservedSource::new(linked) }.model(index);
        peak(|| assert!(!model.verify_with(VerifyLevel::Header, &Execution::sequential()).is_ok())).1
    };
    let id = Some(FileId::new(1, 2));
    assert!(held(50, None) > 10 * held(1, None), "as many files");
    let (one, many) = (held(1, id), held(50, id));
    println!("{one} bytes for one path, {many} for fifty");
    // Each additional link adds only some lines of text as a finding: the file has tensors that the index
    // does not look for in it.
    assert!(many < 10 * one, "{one} {many}");
}

/// Returns an APR2 set with this many tensors. For the manifest each is in its own file; for the system all
/// are in one file.
fn links(manifest: &str, tensors: usize) -> ObservedSource {
    let specs = (0..tensors).map(|n| TensorSpec::new(format!("tensor.{n}"), DType::U8, vec![64]));
    let metadata = apr2::Metadata::new("demo", Object::new());
    let plan = apr2::Plan::new(specs, &metadata, &apr2::WriteOptions::new()).unwrap();
    let file = modelfmt_write::MemoryFile::new();
    plan.write(&vec![[7u8; 64]; tensors], &file, &Execution::sequential()).unwrap();
    let file: Arc<[u8]> = file.into_bytes().into();
    let (size, crc) = (file.len(), crc32fast::hash(&file));
    let shard = |n: usize| format!(r#"{{"file":"link{n}","size":{size},"crc32":"{crc:08x}"}}"#);
    let shards: Vec<String> = (0..tensors).map(shard).collect();
    let map: Vec<String> = (0..tensors).map(|n| format!(r#""tensor.{n}":{n}"#)).collect();
    let text = format!(
        r#"{{"apr_version":"2.0.0","sharded":true,"shard_count":{tensors},"shards":[{}],"tensor_shard_map":{{{}}}}}"#,
        shards.join(","),
        map.join(","),
    );
    let mut files = MemoryFiles::default();
    files.0.insert(manifest.to_owned(), text.into_bytes().into());
    files.0.extend((0..tensors).map(|n| (format!("link{n}"), Arc::clone(&file))));
    ObservedSource { id: Some(FileId::new(1, 2)), ..ObservedSource::new(files) }
}

/// Returns an AEROSET with this many tensors. For the index each is in a shard of its own part; for the
/// system all are in one file.
fn linked_parts(index: &str, tensors: usize) -> ObservedSource {
    let specs = (0..tensors).map(|n| TensorSpec::new(format!("tensor.{n}"), DType::U8, vec![64]));
    let metadata = Object::from_iter([("model_name", "m"), ("architecture", "demo")]);
    let options =
        aero::WriteOptions::new().uuid([7; 16]).shard_size(64).shards_per_part(1000).control_hash(true);
    let plan = aero::SetPlan::new(index, specs, &metadata, &options).unwrap();
    let folder = MemoryFolder::default();
    plan.write(&vec![[7u8; 64]; tensors], &folder, &Execution::sequential()).unwrap();
    let mut files = folder.files();
    let part = files.0.remove("m.part-000.aero").unwrap();
    let mut text = json::parse_object(&files.0[index]).unwrap();
    let Some(Value::Array(parts)) = text.get("parts") else { panic!("parts") };
    let Some(Value::Object(one)) = parts.iter().next() else { panic!("a part") };
    let link = |n: usize| {
        let mut part = one.clone();
        part.insert("path", format!("link{n}"));
        part.insert("shards", [n as u64].into_iter().collect::<Value>());
        Value::from(part)
    };
    let links: Value = (0..tensors).map(link).collect();
    text.insert("parts", links);
    files.0.insert(index.to_owned(), json::to_string(&text).unwrap().into_bytes().into());
    files.0.extend((0..tensors).map(|n| (format!("link{n}"), Arc::clone(&part))));
    ObservedSource { id: Some(FileId::new(1, 2)), ..ObservedSource::new(files) }
}

/// Returns options that ignore metadata, which does not matter here.
fn lossy() -> ConvertOptions {
    let mut options = ConvertOptions::default();
    options.metadata.lossy = true;
    options
}

/// A statement of a file about its bytes is checked once, however many paths lead to the file.
#[test]
fn a_file_with_many_names_is_checked_once() {
    for (index, set) in [(INDEXES[0], linked_parts as fn(&str, usize) -> ObservedSource), (INDEXES[1], links)]
    {
        let read = |n: usize| {
            let files = set(index, n);
            let model = files.model(index);
            files.counted();
            let out = modelfmt_write::MemoryFile::new();
            modelfmt::Conversion::to_format(&model, Format::Safetensors)
                .options(&lossy())
                .execution(&Execution::sequential())
                .write_to_sink(&out)
                .unwrap();
            files.counted()[1]
        };
        let [one, two] = [100, 200].map(read);
        println!("{index}: {one} bytes read for 100 paths, {two} for 200");
        assert!(two <= 21 * one / 10, "{index}: {one} {two}");
    }
}

/// The number of bytes of values in the files of [`over_each_other`].
const SHARED: u64 = 1 << 18;

/// Returns an AERO file with this many tensors that share the same bytes. With a step, each contains all but
/// the first bytes of the previous tensor.
fn over_each_other(tensors: usize, step: u64) -> Vec<u8> {
    use aero::{ChunkWriter, FourCC, NewChunk};
    let mut tidx = b"\x81\xa7tensors\xdd".to_vec();
    tidx.extend(u32::try_from(tensors).unwrap().to_be_bytes());
    for n in 0..tensors {
        let (name, offset) = (format!("{n:08}"), n as u64 * step);
        let number = |n: u64| [&[0xcf][..], &n.to_be_bytes()].concat();
        let len = number(SHARED - offset);
        for part in [
            &b"\x86\xa4name\xa8"[..],
            name.as_bytes(),
            b"\xa5dtype\x05\xa5shape\x91",
            &len,
            b"\xa8shard_id\x00\xa8data_off",
            &number(offset),
            b"\xa8data_len",
            &len,
        ] {
            tidx.extend(part);
        }
    }
    let values: Vec<u8> = (0..SHARED).map(|n| (n * n % 251) as u8).collect();
    let file = modelfmt_write::MemoryFile::new();
    let chunks = vec![NewChunk::new(FourCC::TIDX, "tensors"), NewChunk::new(FourCC::WTSH, "weights.shard0")];
    let mut writer = ChunkWriter::new(&file, [7; 16], chunks).unwrap();
    writer.put(0, tidx).unwrap();
    writer.put(1, values).unwrap();
    writer.finish().unwrap();
    file.into_bytes()
}

/// Returns the number of bytes that some work reads.
fn read_by(bytes: &[u8], run: impl FnOnce(&Model)) -> u64 {
    let source = Arc::new(CountingSource::new(bytes.to_vec()));
    let model = Model::from_source("tied.aero", source.clone()).unwrap();
    source.reset();
    run(&model);
    source.nbytes()
}

#[test]
fn tied_tensors_are_read_once() {
    let work = Execution::sequential();
    let hash = |model: &Model| {
        let found = modelfmt::inspect::inspect(model, &InspectOptions::new().hash(true), &work).unwrap();
        let first = found.tensors[0].blake3.unwrap();
        assert_eq!(first, model.hash(0, &work).unwrap());
        assert!(found.tensors.iter().all(|tensor| tensor.blake3 == Some(first)));
    };
    let show = |model: &Model| {
        let mut out = Vec::new();
        modelfmt::show::show(model, &mut out, &work).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches("- [nbytes: 262144, min: 0").count(), model.tensor_count());
    };
    let diff = |model: &Model| {
        let mut changed = over_each_other(model.tensor_count(), 0);
        *changed.last_mut().unwrap() ^= 1;
        let other = Model::from_source("other.aero", changed).unwrap();
        let found = modelfmt::diff::diff(model, &other, &work).unwrap();
        assert_eq!(found.changed.len(), model.tensor_count());
        assert!(found.changed.iter().all(|changed| changed.values.unwrap().max_abs.is_some()));
    };
    let verify = |model: &Model| assert!(model.verify_with(VerifyLevel::Full, &work).is_ok());
    let check = |model: &Model| {
        let found = modelfmt::check::check(model, &work).unwrap().tensors;
        assert_eq!(found.len(), model.tensor_count() - 1);
        assert!(found.iter().all(|tensor| tensor.same_as.as_deref() == Some("00000000")));
    };
    let runs: [&dyn Fn(&Model); 5] = [&hash, &show, &diff, &verify, &check];
    for (what, run) in ["hash", "show", "diff", "verify", "check"].into_iter().zip(runs) {
        let [one, two] = [200, 400].map(|n| read_by(&over_each_other(n, 0), run));
        println!("{what}: {one} bytes read for 200 tied tensors, {two} for 400");
        assert!(two < 8 * SHARED, "{what}: {one}, {two}");
    }
}

/// Each of the tied tensors would be written separately.
#[test]
fn tied_tensors_are_not_extracted_beyond_a_multiple_of_their_file() {
    use modelfmt::extract::{ExtractAllAs, ExtractOptions, extract_all};
    let folder = tempfile::tempdir().unwrap();
    let model = Model::from_source("tied.aero", over_each_other(200, 0)).unwrap();
    let extract = |name: &str| {
        let (out, options) = (folder.path().join("m.npz"), ExtractOptions::default());
        extract_all(&model, &[name], out, ExtractAllAs::Npz, &options, &Execution::sequential())
    };
    assert_eq!(extract("*").unwrap_err().code(), "limit");
    assert_eq!(extract("0000000?").unwrap().tensors, 10);
}

#[test]
fn tensors_over_parts_of_each_other_are_not_read_again_and_again() {
    let work = Execution::sequential();
    let run = |which: usize, model: &Model| match which {
        0 => modelfmt::inspect::inspect(model, &InspectOptions::new().hash(true), &work).map(drop),
        1 => modelfmt::show::show(model, &mut Vec::new(), &work),
        2 => modelfmt::check::check(model, &work).map(drop),
        _ => modelfmt::diff::diff(model, model, &work).map(drop),
    };
    for which in 0..4 {
        let read = read_by(&over_each_other(200, 16), |model| {
            let refused = run(which, model).unwrap_err().to_string();
            assert!(refused.contains("tensors that lie over each other"), "{refused}");
        });
        assert!(read < 4 * SHARED, "{read}");
        // A few tied tensors are processed as usual.
        read_by(&over_each_other(8, 16), |model| run(which, model).unwrap());
    }
}

/// Sizes that the index of a set claims do not allow more work.
#[test]
fn a_set_that_says_it_is_large_may_ask_for_no_more() {
    let work = Execution::sequential();
    let mut files = MemoryFiles::default();
    for path in ["index.aero", "part-000.aero"] {
        files.0.insert(path.to_owned(), over_each_other(200, 16).into());
    }
    let file =
        |path: &str| format!(r#""path":"{path}","sha256":"{}","size_bytes":{}"#, "0".repeat(64), 1u64 << 60);
    let text = format!(
        r#"{{"format":{{"name":"AEROSET","version":[0,2]}},"model":{{"name":"m","architecture":"a"}},"parts":[{{{},"shards":[0]}}],"global_tidx":{{{}}}}}"#,
        file("part-000.aero"),
        file("index.aero"),
    );
    files.0.insert("m.aeroset.json".to_owned(), text.into_bytes().into());
    let model = ObservedSource::new(files).model("m.aeroset.json");
    assert_eq!(model.tensor_count(), 200);
    let refused = [
        modelfmt::inspect::inspect(&model, &InspectOptions::new().hash(true), &work).map(drop),
        modelfmt::show::show(&model, &mut Vec::new(), &work),
        modelfmt::diff::diff(&model, &model, &work).map(drop),
    ];
    for refused in refused {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("tensors that lie over each other"), "{refused}");
    }
    let mut options = ConvertOptions::default();
    (options.metadata.lossy, options.no_verify) = (true, true);
    let out = modelfmt_write::MemoryFile::new();
    let refused = modelfmt::Conversion::to_format(&model, Format::Safetensors)
        .options(&options)
        .execution(&work)
        .write_to_sink(&out)
        .unwrap_err();
    assert!(refused.to_string().contains("allow_ties"), "{refused}");
}

#[test]
fn a_conversion_that_ties_would_multiply_is_refused_unless_asked_for() {
    let work = Execution::sequential();
    let convert = |tensors: usize, step: u64, allow_ties: bool| {
        let model = Model::from_source("tied.aero", over_each_other(tensors, step)).unwrap();
        let mut options = ConvertOptions::default();
        options.tensors.allow_ties = allow_ties;
        let out = modelfmt_write::MemoryFile::new();
        let done = modelfmt::Conversion::to_format(&model, Format::Safetensors)
            .options(&options)
            .execution(&work)
            .write_to_sink(&out);
        done.map(|done| (notes(&done), out.into_bytes().len() as u64))
    };
    for step in [0, 1] {
        let refused = convert(40, step, false).unwrap_err();
        assert!(matches!(refused, modelfmt::Error::Unsupported { .. }), "{refused}");
        assert!(refused.to_string().contains("allow_ties"), "{refused}");
    }
    let is_noted = |notes: &[String], what: &str| notes.iter().any(|note| note.starts_with(what));
    let (notes, len) = convert(40, 0, true).unwrap();
    assert!(len > 40 * SHARED && is_noted(&notes, "39 tensors have their bytes in common"), "{notes:?}");
    let (notes, _) = convert(2, 0, false).unwrap();
    assert!(is_noted(&notes, "1 tensor has its bytes in common"), "{notes:?}");
    let (notes, _) = convert(1, 0, false).unwrap();
    assert!(!notes.iter().any(|note| note.contains("in common")), "{notes:?}");
}

#[test]
fn ties_are_kept_in_aero() {
    let (tensors, work) = (40, Execution::sequential());
    let convert = |model: &Model, options: &ConvertOptions| {
        let out = modelfmt_write::MemoryFile::new();
        let done = modelfmt::Conversion::to_format(model, Format::Aero)
            .options(options)
            .execution(&work)
            .write_to_sink(&out)
            .unwrap();
        let bytes = out.into_bytes();
        (Model::from_source("out.aero", bytes.clone()).unwrap(), bytes.len() as u64, notes(&done))
    };
    let model = Model::from_source("tied.aero", over_each_other(tensors, 0)).unwrap();
    let mut options = ConvertOptions::default();
    options.aero.tensor_hashes = true;
    options.aero.page_hashes = Some(1 << 16);
    let (out, len, notes) = convert(&model, &options);
    assert!(len < SHARED + SHARED / 8, "{len}");
    let note = "39 tensors have their bytes in common with others; they are written once";
    assert!(notes.iter().any(|found| found == note), "{notes:?}");
    assert!(out.verify(VerifyLevel::Full).is_ok());
    for position in 0..tensors {
        assert_eq!(out.tensor(position).unwrap().bytes(), model.tensor(position).unwrap().bytes());
        assert_eq!(out.location(position).unwrap().offset, out.location(0).unwrap().offset);
    }
    // And again, from the output. Tensors that are cast differently have their own bytes.
    let mut cast = ConvertOptions::default();
    cast.types.rules =
        ["cast 0000000[12]=i16", "cast 00000003=i32"].map(|rule| rule.parse().unwrap()).to_vec();
    let (again, len, notes) = convert(&out, &cast);
    assert!(again.verify(VerifyLevel::Full).is_ok());
    assert!((7 * SHARED..8 * SHARED).contains(&len), "1 + 2 + 4 times: {len}");
    assert!(notes.iter().any(|note| note.starts_with("37 tensors")), "{notes:?}");
    assert!(
        notes.iter().any(|note| note.starts_with("2 tensors") && note.contains("by itself")),
        "{notes:?}"
    );
    let offset = |position: usize| again.location(position).unwrap().offset;
    assert!(
        offset(1) == offset(2) && offset(0) == offset(4) && offset(0) != offset(1) && offset(3) != offset(1)
    );
    assert_eq!(again.tensor(2).unwrap().bytes(), again.tensor(1).unwrap().bytes());
    // A set stores each tensor separately: its bytes must be in a file that lists it.
    let files = MemoryFolder::default();
    let options = ConvertOptions::default();
    let refused = modelfmt::Conversion::to_format(&model, Format::AeroSet).options(&options).plan();
    assert!(refused.map(drop).unwrap_err().to_string().contains("allow_ties"));
    let mut allowed = ConvertOptions::default();
    allowed.tensors.allow_ties = true;
    let set = modelfmt::Conversion::to_format(&model, Format::AeroSet).options(&allowed).plan().unwrap();
    set.write_to_files("m.aeroset.json", &files, &work).unwrap();
}

fn notes(done: &modelfmt::convert::Converted) -> Vec<String> {
    done.notes.iter().map(ToString::to_string).collect()
}
