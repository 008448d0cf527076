//! Format crates are siblings: each has the same types, methods and signatures, and they do the same.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelfmt::Model;
use modelfmt::modelfmt_core::source::{FileSource, Folder};
use modelfmt::modelfmt_core::value::{Object, Value};
use modelfmt::modelfmt_core::{
    Bytes, Container, DType, Execution, Limits, Report, TensorTable, TensorView, VerifyLevel, View,
    author::now,
};
use modelfmt::modelfmt_write::{Overwrite, TensorSpec};

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(path)
}

/// `metadata` has the type that the crate's own writer takes, which differs between crates.
macro_rules! reads {
    ($test:ident, $crate_name:ident, $metadata:ty, $golden:literal) => {
        #[test]
        fn $test() {
            use $crate_name::{AsyncReader, Index, OpenOptions, Reader, Result};
            type File = Reader<FileSource>;
            type Memory = Reader<Vec<u8>>;

            // The ten shared methods, with their signatures.
            let open: fn(&Path) -> Result<File> = |path| File::open(path);
            let from_source: fn(Vec<u8>) -> Result<Memory> = Memory::from_source;
            let tensors: fn(&Memory) -> &TensorTable = |reader| reader.tensors();
            let tensor: for<'a> fn(&'a Memory, &str) -> Result<TensorView<'a>> =
                |reader, name| reader.tensor(name);
            let read_range: for<'a> fn(&'a Memory, &str, Range<u64>) -> Result<Bytes<'a>> =
                |reader, name, range| reader.read_range(name, range);
            let metadata: fn(&Memory) -> Result<$metadata> = Memory::metadata;
            let flat_metadata: fn(&Memory) -> Result<Object> = Memory::flat_metadata;
            let verify: fn(&Memory, VerifyLevel) -> Report = Memory::verify;
            let index: fn(&Memory) -> &Arc<Index> = |reader| reader.index();
            let source: fn(&Memory) -> &Vec<u8> = |reader| reader.source();
            let into_source: fn(Memory) -> Vec<u8> = Memory::into_source;
            // Options, in one style.
            let options: fn() -> OpenOptions = OpenOptions::new;
            let _: fn() -> OpenOptions = OpenOptions::default;
            let limits: fn(OpenOptions, Limits) -> OpenOptions = OpenOptions::limits;
            let open_source: fn(&OpenOptions, Vec<u8>) -> Result<Memory> = OpenOptions::open_source;

            let path = golden($golden);
            let bytes = std::fs::read(&path).unwrap();
            let file = open(&path).unwrap();
            let memory = from_source(bytes.clone()).unwrap();
            let waiting = now(AsyncReader::from_source(bytes.clone())).unwrap();
            assert!(tensors(&memory).len() > 0);
            for (position, info) in tensors(&memory).iter().enumerate() {
                if Container::location(&memory, position).unwrap().offset.is_none() {
                    assert!(
                        tensor(&memory, info.name).is_err() && read_range(&memory, info.name, 0..0).is_err()
                    );
                    continue; // it is only declared
                }
                let whole = tensor(&memory, info.name).unwrap().bytes().to_vec();
                assert_eq!(file.tensor(info.name).unwrap().bytes(), whole);
                assert_eq!(now(waiting.tensor(info.name)).unwrap().bytes(), whole);
                let half = whole.len() as u64 / 2;
                let part = read_range(&memory, info.name, half..info.nbytes).unwrap();
                assert_eq!(*part, whole[whole.len() / 2..]);
                assert_eq!(*file.read_range(info.name, half..info.nbytes).unwrap(), *part);
                assert_eq!(*now(waiting.read_range(info.name, half..info.nbytes)).unwrap(), *part);
                assert_eq!(*now(waiting.read_range(position, half..info.nbytes)).unwrap(), *part);
                assert!(read_range(&memory, info.name, 0..info.nbytes + 1).is_err());
                #[allow(clippy::reversed_empty_ranges, reason = "a caller may")]
                let reversed = read_range(&memory, info.name, 1..0);
                assert!(reversed.is_err());
            }
            assert!(
                tensor(&memory, "no such tensor").is_err()
                    && read_range(&memory, "no such tensor", 0..0).is_err()
            );
            assert!(metadata(&memory).is_ok() && now(waiting.metadata()).is_ok());
            assert_eq!(Container::metadata(&memory).unwrap(), Container::metadata(&file).unwrap());
            let flat = flat_metadata(&memory).unwrap();
            assert_eq!(flat, now(waiting.flat_metadata()).unwrap());
            assert_eq!(flat, Container::flat_metadata(&file).unwrap());
            assert_eq!(flat, modelfmt::diff::flat_metadata(&Model::open(&path).unwrap()).unwrap());
            assert!(flat.values().all(|value| value.without_type().is_none()));
            assert!(verify(&memory, VerifyLevel::Full).is_ok());
            let mut one = Limits::default();
            one.tensors = 0;
            assert!(open_source(&limits(options(), one), bytes.clone()).is_err());
            let again = Memory::with_index(Arc::clone(index(&memory)), bytes.clone()).unwrap();
            assert_eq!((source(&again), tensors(&again).len()), (&bytes, tensors(&memory).len()));
            assert_eq!(into_source(memory), bytes);
        }
    };
}

reads!(aero_reads, aero, Object, "aero/hashes.aero");
reads!(apr2_reads, apr2, &apr2::Metadata, "apr2/lz4.apr");
reads!(apr2_seal_reads, apr2_seal, &apr2_seal::Metadata, "apr2/lz4.apr");
reads!(apr_reads, apr, &apr::Metadata, "apr/names.apr");
reads!(gguf_reads, modelfmt_gguf, &modelfmt_gguf::Metadata, "gguf/shapes.gguf");
reads!(mag_reads, mag, &Object, "mag/names.mag");
reads!(npy_reads, modelfmt_npy, (), "npy/stored.npz");
reads!(pytorch_reads, modelfmt_pytorch, &Object, "pytorch/views.pt");
reads!(oinf_reads, oinf, oinf::Metadata<'_>, "oinf/dtypes.oinf");
reads!(safetensors_reads, modelfmt_safetensors, Option<&Object>, "safetensors/names.safetensors");

/// The set readers, with `files` in the place of a source.
macro_rules! reads_sets {
    ($test:ident, $crate_name:ident, $metadata:ty, $golden:literal) => {
        #[test]
        fn $test() {
            use $crate_name::{AsyncSetReader, OpenOptions, Reader, Result, SetIndex, SetReader};
            type Set = SetReader<Folder>;
            let open: fn(&Path) -> Result<Set> = |path| Set::open(path);
            let open_with: fn(&Path, &OpenOptions) -> Result<Set> =
                |path, options| Set::open_with(path, options);
            let tensor: for<'a> fn(&'a Set, &str) -> Result<TensorView<'a>> = |set, name| set.tensor(name);
            let read_range: for<'a> fn(&'a Set, &str, Range<u64>) -> Result<Bytes<'a>> =
                |set, name, range| set.read_range(name, range);
            let shard: fn(&Set, usize) -> Result<&Reader<FileSource>> = Set::shard;
            let metadata: fn(&Set) -> Result<$metadata> = Set::metadata;
            let flat_metadata: fn(&Set) -> Result<Object> = Set::flat_metadata;
            let index: fn(&Set) -> &Arc<SetIndex> = |set| set.index();
            let verify: fn(&Set, VerifyLevel) -> Report = Set::verify;

            let path = golden($golden);
            let (folder, name) = (path.parent().unwrap(), path.file_name().unwrap().to_str().unwrap());
            let files = || Folder::new(folder);
            let set = open(&path).unwrap();
            let again = open_with(&path, &OpenOptions::new()).unwrap();
            let known = Set::with_index(Arc::clone(index(&set)), files(), &OpenOptions::new());
            let waiting = now(AsyncSetReader::from_files(files(), name)).unwrap();
            let listed = now(waiting.tensors()).unwrap();
            assert!(set.tensors().len() > 0 && shard(&set, 0).is_ok());
            assert_eq!(set.tensors().len(), listed.len());
            for (position, info) in set.tensors().map(Result::unwrap).enumerate() {
                assert_eq!((listed[position], set.find(info.name)), (info, Some(position)));
                let whole = tensor(&set, info.name).unwrap();
                assert_eq!(known.tensor(position).unwrap().bytes(), whole.bytes());
                assert_eq!(now(waiting.tensor(info.name)).unwrap().bytes(), whole.bytes());
                let half = info.nbytes / 2;
                let end = &whole.bytes()[usize::try_from(half).unwrap()..];
                assert_eq!(*read_range(&again, info.name, half..info.nbytes).unwrap(), *end);
                assert_eq!(*again.read_range(position, half..info.nbytes).unwrap(), *end);
                assert_eq!(*now(waiting.read_range(info.name, half..info.nbytes)).unwrap(), *end);
                assert!(read_range(&again, info.name, 0..info.nbytes + 1).is_err());
            }
            assert!(read_range(&set, "no such tensor", 0..0).is_err());
            let set_metadata = metadata(&set).unwrap();
            assert_eq!(format!("{set_metadata:?}"), format!("{:?}", now(waiting.metadata()).unwrap()));
            let flat = flat_metadata(&set).unwrap();
            assert_eq!(flat, now(waiting.flat_metadata()).unwrap());
            assert_eq!(flat, Container::flat_metadata(&set).unwrap());
            let of_model = modelfmt::diff::flat_metadata(&Model::open(&path).unwrap()).unwrap();
            assert!(flat.iter().all(|(key, value)| of_model.get(key) == Some(value)));
            assert!(verify(&set, VerifyLevel::Full).is_ok());
        }
    };
}

reads_sets!(aero_reads_sets, aero, Object, "aero/set/model.aeroset.json");
reads_sets!(apr2_reads_sets, apr2, &apr2::Metadata, "apr2/set/sharded.apr");
reads_sets!(apr2_seal_reads_sets, apr2_seal, &apr2_seal::Metadata, "apr2/set/sharded.apr");
reads_sets!(pytorch_reads_sets, modelfmt_pytorch, &Object, "pytorch/model.bin.index.json");
reads_sets!(safetensors_reads_sets, modelfmt_safetensors, &Object, "safetensors/set.safetensors.index.json");
reads_sets!(
    gguf_reads_sets,
    modelfmt_gguf,
    &modelfmt_gguf::Metadata,
    "reference/gguf/split-00002-of-00003.gguf"
);

/// The result of `metadata` is what the writer takes (by reference, if it is a value).
macro_rules! writes {
    ($test:ident, $crate_name:ident, $first:expr, |$read:ident| $again:expr) => {
        #[test]
        fn $test() {
            use $crate_name::{Plan, Reader, WriteOptions};
            let folder = tempfile::tempdir().unwrap();
            let (saved, planned) = (folder.path().join("saved"), folder.path().join("planned"));
            let view = || View::new(&[1.0f32, 2.0, 3.0, 4.0], [2, 2]).unwrap();
            let first = $first;
            $crate_name::save(&saved, [("a", view()), ("b", view())], &first).unwrap();
            assert!($crate_name::save(&saved, [("a", view())], &first).is_err(), "a file is not replaced");

            let saved = Reader::open(&saved).unwrap();
            assert_eq!(saved.tensor("b").unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
            let specs = ["a", "b"].map(|name| TensorSpec::new(name, DType::F32, vec![2, 2]));
            let values = [view().bytes().to_vec(), view().bytes().to_vec()];
            let $read = saved.metadata().unwrap();
            let plan = Plan::new(specs, $again, &WriteOptions::default()).unwrap();
            plan.write_file(&planned, Overwrite::Refuse, &values, &Execution::default()).unwrap();

            let planned = Reader::open(&planned).unwrap();
            assert_eq!(own_metadata(&planned), own_metadata(&saved));
            for tensor in saved.tensors() {
                let there = planned.tensor(tensor.name).unwrap();
                assert_eq!(there.bytes(), saved.tensor(tensor.name).unwrap().bytes());
            }
        }
    };
}

/// Returns everything except AERO's manifest, which states the identity of the file.
fn own_metadata(reader: &dyn Container) -> Value {
    let tree = reader.metadata().unwrap();
    tree.get("json").cloned().unwrap_or(tree)
}

fn names() -> Object {
    Object::from_iter([("model_name", "tiny"), ("architecture", "none")])
}

writes!(aero_writes, aero, names(), |metadata| &metadata);
writes!(apr2_writes, apr2, apr2::Metadata::new("tiny", Object::new()), |metadata| metadata);
writes!(apr_writes, apr, apr::Metadata::new("tiny", Object::new()), |metadata| metadata);
writes!(mag_writes, mag, Object::from_iter([("epoch", 7)]), |metadata| metadata);
writes!(oinf_writes, oinf, oinf::Metadata::new().value("by", "us"), |metadata| &metadata);
writes!(gguf_writes, modelfmt_gguf, modelfmt_gguf::Metadata::new(), |metadata| metadata);
writes!(safetensors_writes, modelfmt_safetensors, names(), |metadata| metadata);
