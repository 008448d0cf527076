//! Written sets can be read back, sets by the format's own tool can be read, and parts are opened when
//! needed.
#![cfg(all(feature = "set", feature = "zstd"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test that fails may panic"
)]

use std::io;
use std::sync::{Arc, Mutex};

use aero::SetReaderExt as _;
use aero::{
    DType, Error, Execution, Fault, SetIndex, SetPlan, SetReader, TensorSpec, VerifyLevel, WriteError,
    WriteOptions,
};
use modelfmt_core::source::{Files, MemoryFiles};
use modelfmt_core::value::{Object, Value, json};
use modelfmt_core::{Container, Limits};
use modelfmt_write::MemoryFolder;

const INDEX: &str = "model.aeroset.json";

fn metadata() -> Object {
    Object::from_iter([
        ("model_name", Value::from("tiny")),
        ("architecture", "demo".into()),
        ("layers", 2.into()),
    ])
}

fn values(nbytes: usize, seed: usize) -> Vec<u8> {
    (0..nbytes).map(|i| ((i ^ seed).wrapping_mul(0x9E37_79B9) >> 11) as u8).collect()
}

fn write(sizes: &[usize], options: &WriteOptions, threads: usize) -> MemoryFiles {
    let specs = sizes
        .iter()
        .enumerate()
        .map(|(n, &len)| TensorSpec::new(format!("t{n}"), DType::U8, vec![len as u64]));
    let plan = SetPlan::new(INDEX, specs, &metadata(), options).unwrap();
    let data: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(n, &len)| values(len, n)).collect();
    let folder = MemoryFolder::default();
    plan.write(&data, &folder, &Execution { threads, progress: None }).unwrap();
    let files = folder.files();
    let names: Vec<_> = plan.file_names().chain([INDEX.to_owned()]).collect();
    assert_eq!(files.0.len(), names.len());
    assert!(names.iter().all(|name| files.0.contains_key(name)));
    files
}

fn options() -> WriteOptions {
    WriteOptions::new().uuid([5; 16])
}

/// Files that record what has been opened.
#[derive(Clone)]
struct ObservedSource(MemoryFiles, Arc<Mutex<Vec<String>>>);

impl Files for ObservedSource {
    type Source = Arc<[u8]>;
    fn open(&self, path: &str) -> io::Result<Arc<[u8]>> {
        self.1.lock().unwrap().push(path.to_owned());
        self.0.open(path)
    }
}

#[test]
fn what_is_written_is_read_and_verifies() {
    let sizes = [100, 0, 5000, 64, 1, 3000, 2999, 10, 0];
    for options in [
        options(),
        options().shard_size(3000),
        options().shard_size(1).shards_per_part(1),
        options().part_size(4000).tensor_hashes(true).control_hash(true).page_hashes(Some(512)),
        options().shard_size(100).zstd(None).shards_per_part(2).tensor_hashes(true),
    ] {
        let files = write(&sizes, &options, 1);
        assert_eq!(files.0, write(&sizes, &options, 2).0);
        let set = SetReader::from_files(files, INDEX).unwrap();
        for (n, &len) in sizes.iter().enumerate() {
            assert_eq!(set.tensor(&format!("t{n}")).unwrap().bytes(), values(len, n));
            let mut out = vec![0; len / 2];
            set.read_into(n, (len / 4) as u64, &mut out).unwrap();
            assert_eq!(out, values(len, n)[len / 4..][..len / 2]);
            assert_eq!(set.checked().tensor(&format!("t{n}")).unwrap().bytes(), values(len, n));
            let range = (len / 3) as u64..(len / 2) as u64;
            assert_eq!(*set.checked().read_range(n, range).unwrap(), values(len, n)[len / 3..len / 2]);
        }
        assert_eq!(set.metadata().unwrap(), metadata());
        let size: usize = set.files().0.values().map(|bytes| bytes.len()).sum();
        assert_eq!(set.file_size(), size as u64);
        for level in [VerifyLevel::Header, VerifyLevel::Control, VerifyLevel::Full] {
            let report = set.verify(level);
            assert!(report.is_ok(), "{:?}", report.errors);
        }
        for number in 0..set.index().parts().len() {
            let json = set.part(number).unwrap().metadata().unwrap();
            assert!(json.keys().eq(["architecture", "model_name"]));
        }
    }
}

#[test]
fn an_empty_model_is_a_set_without_parts() {
    let files = write(&[], &options(), 2);
    let set = SetReader::from_files(files, INDEX).unwrap();
    assert_eq!((set.tensors().len(), set.index().parts().len()), (0, 0));
    assert!(set.verify(VerifyLevel::Full).is_ok());
}

#[test]
fn the_index_is_laid_out_as_decided() {
    let files = write(&[100, 100], &options().part_size(100), 1);
    let text = std::str::from_utf8(&files.0[INDEX]).unwrap();
    let start = "{\n  \"format\": {\n    \"name\": \"AEROSET\",\n    \"version\": [\n      0,\n      2\n    ]\n  },\n  \"model\": {\n    \"name\": \"tiny\",\n    \"architecture\": \"demo\"\n  },\n  \"parts\": [\n    {\n      \"path\": \"model.part-000.aero\",\n      \"sha256\": \"";
    assert!(text.starts_with(start), "{text}");
    assert!(text.ends_with('}'));
    let tree = json::parse(text.as_bytes()).unwrap();
    let part = tree.get("parts").unwrap().as_array().unwrap().get(1).unwrap();
    assert_eq!(part.get("shards").unwrap().as_array().unwrap().get(0), Some(1.into()));
    // The chunks and the index of a part use the numbers of the whole set.
    let set = SetReader::from_files(files, INDEX).unwrap();
    let part = set.part(1).unwrap();
    assert!(part.index().chunks().any(|chunk| chunk.name == "weights.shard1"));
    assert_eq!(part.index().entry(0).unwrap().shard_id, 1);
}

#[test]
fn a_hundred_parts_open_one_when_a_tensor_is_read() {
    let files = write(&[64; 100], &options().shard_size(64).shards_per_part(1), 2);
    let opened = Arc::new(Mutex::new(Vec::new()));
    let set = SetReader::from_files(ObservedSource(files, Arc::clone(&opened)), INDEX).unwrap();
    assert_eq!((set.index().parts().len(), set.tensors().len()), (100, 100));
    assert_eq!(*opened.lock().unwrap(), [INDEX, "model.index.aero"]);
    for _ in 0..3 {
        assert_eq!(set.tensor("t42").unwrap().bytes(), values(64, 42));
    }
    assert_eq!(*opened.lock().unwrap(), [INDEX, "model.index.aero", "model.part-042.aero"]);
}

#[test]
fn a_folder_has_one_index() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(SetReader::open(folder.path()), Err(Error::Open { .. })));
    let specs = [TensorSpec::new("a", DType::U8, vec![3])];
    let plan = SetPlan::new("other.aeroset.json", specs, &metadata(), &options()).unwrap();
    let overwrite = modelfmt_write::Overwrite::Refuse;
    plan.write_folder(folder.path(), overwrite, &[[1u8, 2, 3]], &Execution::default()).unwrap();
    assert_eq!(SetReader::open(folder.path()).unwrap().tensor("a").unwrap().bytes(), [1, 2, 3]);
    let again = plan.write_folder(folder.path(), overwrite, &[[1u8, 2, 3]], &Execution::default());
    assert!(matches!(again, Err(WriteError::Write { .. })), "{again:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing is left behind");
    std::fs::copy(folder.path().join("other.aeroset.json"), folder.path().join("b.aeroset.json")).unwrap();
    assert!(matches!(SetReader::open(folder.path()), Err(Error::Open { .. })));
}

/// Returns a set of two parts with one shard each, after a change.
fn changed(change: impl FnOnce(&mut MemoryFiles)) -> MemoryFiles {
    let mut files = write(&[100, 100], &options().part_size(100), 1);
    change(&mut files);
    files
}

fn replace(files: &mut MemoryFiles, path: &str, from: &str, to: &str) {
    let text = std::str::from_utf8(&files.0[path]).unwrap();
    assert!(text.contains(from), "{text}");
    let text = text.replacen(from, to, 1);
    files.0.insert(path.to_owned(), Arc::from(text.as_bytes()));
}

fn flip(files: &mut MemoryFiles, path: &str, at: usize) {
    let mut bytes = files.0[path].to_vec();
    bytes[at] ^= 1;
    files.0.insert(path.to_owned(), bytes.into());
}

#[test]
fn a_broken_index_is_refused() {
    let refused = |from: &str, to: &str| {
        let files = changed(|files| replace(files, INDEX, from, to));
        match SetReader::from_files(files, INDEX) {
            Err(Error::Malformed { fault, .. }) => fault,
            other => panic!("{from} → {to}: {:?}", other.map(|_| ())),
        }
    };
    for path in ["../part-000.aero", "/part-000.aero", "C:part-000.aero", "a/../../b", "a\\\\b", ""] {
        assert!(matches!(refused("model.part-000.aero", path), Fault::Path { .. }), "{path}");
    }
    assert!(matches!(refused("\"model.index.aero\"", "\"..\""), Fault::Path { .. }));
    for path in ["model.part-001.aero", "./model.part-001.aero", "model.index.aero", "./././model.index.aero"]
    {
        let fault = refused("model.part-000.aero", path);
        assert!(matches!(fault, Fault::Path { fault: "the set lists this file twice", .. }), "{path}");
    }
    assert!(matches!(refused("AEROSET", "AERO"), Fault::Set(_)));
    assert!(matches!(refused("      2\n", "      3\n"), Fault::Set(_)));
    assert!(matches!(refused("\"parts\"", "\"ports\""), Fault::Set(_)));
    assert!(matches!(refused("\"global_tidx\"", "\"global\""), Fault::Set(_)));
    assert!(matches!(refused("\"size_bytes\"", "\"size\""), Fault::Set(_)));
    assert!(matches!(refused("\"shards\"", "\"size_bytes\""), Fault::Common(_)), "a duplicate key");
    assert!(matches!(refused("{", "["), Fault::Common(_)));
    let deep = [vec![b'['; 10_000], vec![b']'; 10_000]].concat();
    assert!(SetIndex::parse(&deep, &Limits::default()).is_err());
    let files = changed(|files| drop(files.0.remove("model.index.aero")));
    assert!(matches!(SetReader::from_files(files, INDEX), Err(Error::Open { .. })));
    let mut limits = Limits::default();
    limits.entries = 1;
    let text = changed(|_| ()).0[INDEX].clone();
    assert!(matches!(SetIndex::parse(&text, &limits), Err(Error::Limit { .. })));
}

#[test]
fn what_is_wrong_with_a_set_is_found() {
    type Change = fn(&mut MemoryFiles);
    let cases: &[(&str, VerifyLevel, Change, &str)] = &[
        (
            "a missing part",
            VerifyLevel::Header,
            |files| drop(files.0.remove("model.part-001.aero")),
            "structure",
        ),
        (
            "another size",
            VerifyLevel::Header,
            |files| replace(files, INDEX, "\"size_bytes\": ", "\"size_bytes\": 1"),
            "structure",
        ),
        (
            "a shard twice",
            VerifyLevel::Header,
            |files| replace(files, INDEX, "        1\n", "        0\n"),
            "structure",
        ),
        (
            "a shard of no part",
            VerifyLevel::Header,
            |files| replace(files, INDEX, "        1\n", "        7\n"),
            "structure",
        ),
        (
            "a SHA-256 that is none",
            VerifyLevel::Header,
            |files| replace(files, INDEX, "\"sha256\": \"", "\"sha256\": \"x"),
            "structure",
        ),
        (
            "a weight",
            VerifyLevel::Full,
            |files| {
                let at = files.0["model.part-001.aero"].len() - 1;
                flip(files, "model.part-001.aero", at);
            },
            "set-hashes",
        ),
        (
            "a weight",
            VerifyLevel::Full,
            |files| {
                let at = files.0["model.part-001.aero"].len() - 1;
                flip(files, "model.part-001.aero", at);
            },
            "chunk-hashes",
        ),
        (
            "the identity of the index",
            VerifyLevel::Full,
            |files| flip(files, "model.index.aero", 52),
            "set-hashes",
        ),
        (
            "parts that change places",
            VerifyLevel::Header,
            |files| {
                let [a, b] = ["model.part-000.aero", "model.part-001.aero"].map(|path| files.0[path].clone());
                files.0.insert("model.part-000.aero".to_owned(), b);
                files.0.insert("model.part-001.aero".to_owned(), a);
            },
            "structure",
        ),
    ];
    for (name, level, change, check) in cases {
        let set = SetReader::from_files(changed(change), INDEX).unwrap();
        let report = set.verify(*level);
        let found = report.check(check).unwrap();
        assert_eq!(found.status, modelfmt_core::Status::Failed, "{name}: {report:?}");
    }
}

#[test]
fn reading_from_a_broken_set_says_what_is_wrong() {
    let set =
        SetReader::from_files(changed(|files| drop(files.0.remove("model.part-001.aero"))), INDEX).unwrap();
    assert!(set.tensor("t0").is_ok());
    assert!(matches!(set.tensor("t1"), Err(Error::Open { path, .. }) if path == "model.part-001.aero"));
    let set =
        SetReader::from_files(changed(|files| replace(files, INDEX, "        1\n", "        7\n")), INDEX)
            .unwrap();
    assert!(matches!(set.tensor("t1"), Err(Error::Malformed { fault: Fault::Set(_), .. })));
    assert!(matches!(set.tensor("t2"), Err(Error::NotFound { .. })));
    let specs = [TensorSpec::new("a", DType::U8, vec![3])];
    for name in ["../x.aeroset.json", "/x", "a:b.aeroset.json", ""] {
        let plan = SetPlan::new(name, specs.clone(), &metadata(), &options());
        assert!(matches!(plan, Err(WriteError::Unsupported { .. })), "{name}");
    }
}

#[test]
fn a_part_that_does_not_list_a_tensor_has_it_by_the_number_of_its_shard() {
    // The second part is rewritten without its tensor index.
    let files = changed(|files| {
        use aero::{ChunkFlags, ChunkWriter, FourCC, NewChunk};
        let file = modelfmt_write::MemoryFile::new();
        let shard =
            NewChunk::new(FourCC::WTSH, "weights.shard1").with_flags(ChunkFlags::CHUNK_IS_MMAP_CRITICAL);
        let mut writer = ChunkWriter::new(&file, [5; 16], vec![shard]).unwrap();
        writer.put(0, values(100, 1)).unwrap();
        writer.finish().unwrap();
        files.0.insert("model.part-001.aero".to_owned(), file.into_bytes().into());
    });
    let set = SetReader::from_files(files, INDEX).unwrap();
    assert_eq!(set.tensor("t1").unwrap().bytes(), values(100, 1));
    let mut out = [0; 10];
    set.read_into(1, 50, &mut out).unwrap();
    assert_eq!(out, values(100, 1)[50..60]);
    assert!(matches!(set.read_into(1, 91, &mut out), Err(Error::OutOfRange { .. })));
}

/// The hash in the global index covers the values, and no part needs to have it.
#[test]
fn the_hashes_of_the_global_index_are_checked() {
    let hashed = write(&[100, 100], &options().part_size(100).tensor_hashes(true), 1);
    // Parts without hashes, under a global index that has them. The set's SHA-256 and size for it are
    // corrected.
    let mut files = write(&[100, 100], &options().part_size(100), 1);
    files.0.insert("model.index.aero".to_owned(), hashed.0["model.index.aero"].clone());
    let last = |files: &MemoryFiles| {
        let text = String::from_utf8(files.0[INDEX].to_vec()).unwrap();
        text[text.rfind("\"global_tidx\"").unwrap()..].to_owned()
    };
    let (was, is) = (last(&files), last(&hashed));
    replace(&mut files, INDEX, &was, &is);
    let report = SetReader::from_files(files.clone(), INDEX).unwrap().verify(VerifyLevel::Full);
    assert!(report.is_ok(), "{report:?}");
    let at = files.0["model.part-001.aero"].len() - 1;
    flip(&mut files, "model.part-001.aero", at);
    let set = SetReader::from_files(files, INDEX).unwrap();
    assert!(set.checked().tensor("t0").is_ok() && set.checked().tensor("t1").is_err());
    let report = set.verify(VerifyLevel::Full);
    let named = |error: &&String| error.contains("\"t1\"") && error.contains("hash_b3 of the global index");
    assert_eq!(report.errors.iter().filter(named).count(), 1, "{report:?}");
    assert_eq!(report.check("tensor-hashes").unwrap().status, modelfmt_core::Status::Failed);
}

#[test]
fn a_set_in_a_folder_below_is_found_beside_its_index() {
    let specs = [TensorSpec::new("a", DType::U8, vec![3])];
    let plan = SetPlan::new("deep/m.aeroset.json", specs, &metadata(), &options()).unwrap();
    let folder = MemoryFolder::default();
    plan.write(&[[1u8, 2, 3]], &folder, &Execution::default()).unwrap();
    let set = SetReader::from_files(folder.files(), "deep/m.aeroset.json").unwrap();
    assert_eq!(set.tensor("a").unwrap().bytes(), [1, 2, 3]);
    assert!(set.verify(VerifyLevel::Full).is_ok());
}
