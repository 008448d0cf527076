//! Output files: what each option changes in them, sets, and that nothing is left behind.

use std::fs;
use std::ops::ControlFlow;

use modelfmt::Conversion;
use modelfmt::convert::ConvertOptions;
use modelfmt::convert::TypeRule;
use modelfmt::convert::{Compression, MagChecksum};
use modelfmt::modelfmt_core::Encoding;
use modelfmt::{DType, Error, Execution, Format, Model, VerifyLevel};
use modelfmt_core::value::Value;
use modelfmt_write::Overwrite;

use super::common::{self, T, apr2, floats, options, safetensors, tensor, tensors};

fn source() -> Model {
    let tensors: Vec<T> =
        ["a", "b", "c", "d"].iter().map(|name| tensor(name, DType::F32, &[100, 100])).collect();
    safetensors(&tensors, r#"{"format": "pt"}"#)
}

fn names(folder: &std::path::Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn options_of_mag_and_apr2_do_what_they_say() {
    let lossy = |change: fn(&mut ConvertOptions)| {
        options(|o| {
            o.metadata.lossy = true;
            change(o);
        })
    };
    for (checksum, name) in [(MagChecksum::Crc32, "crc32"), (MagChecksum::Crc32c, "crc32c")] {
        let options = options(|o| {
            o.metadata.lossy = true;
            o.mag.checksum = Some(checksum);
        });
        let details = common::convert(&source(), Format::Mag, &options).details().unwrap();
        assert_eq!(details.get("checksum").and_then(Value::as_str), Some(name));
    }
    let aligned = common::convert(&source(), Format::Apr2, &lossy(|o| o.output.align = Some(32)));
    assert_eq!(aligned.details().unwrap().get("alignment").and_then(Value::as_u64), Some(32));
    let small =
        common::convert(&source(), Format::Apr2, &lossy(|o| o.apr2.compress = Some(Compression::Lz4)));
    assert_eq!(small.location(0).unwrap().encoding, Encoding::Lz4);
    assert_eq!(tensors(&small), tensors(&source()));
    // Compressed tensors are read with their values.
    let raw = common::convert(&small, Format::Apr2, &lossy(|o| o.apr2.compress = Some(Compression::None)));
    assert_eq!((raw.location(0).unwrap().encoding, tensors(&raw)), (Encoding::Raw, tensors(&source())));
}

#[test]
fn options_of_aero_do_what_they_say() {
    let chunks = |change: fn(&mut ConvertOptions)| {
        let model = common::convert(&source(), Format::Aero, &options(change));
        assert!(model.verify(VerifyLevel::Full).is_ok());
        assert_eq!(tensors(&model), tensors(&source()));
        let aero = model.as_aero().unwrap().index();
        let chunks =
            aero.chunks().map(|c| format!("{} {} {:?}", c.fourcc, c.name, c.flags)).collect::<Vec<_>>();
        (chunks, aero.entry(0).unwrap().hash_b3.is_some(), aero.uuid())
    };
    let count = |chunks: &[String], fourcc: &str| chunks.iter().filter(|c| c.starts_with(fourcc)).count();
    let (plain, hashed, _) = chunks(|_| {});
    assert_eq!((plain.len(), hashed), (4, false), "{plain:?}");
    let (sharded, ..) = chunks(|o| o.output.shard_size = Some(90_000));
    assert_eq!(count(&sharded, "WTSH"), 2);
    let (ihsh, ..) = chunks(|o| o.aero.control_hash = true);
    assert_eq!(count(&ihsh, "IHSH"), 1);
    let (pages, ..) = chunks(|o| o.aero.page_hashes = Some(4096));
    assert_eq!(count(&pages, "PHSH"), 1);
    assert!(chunks(|o| o.aero.tensor_hashes = true).1);
    assert_eq!(chunks(|o| o.aero.uuid = Some([9; 16])).2, [9; 16]);
    assert_ne!(chunks(|o| o.aero.no_zstd = true).0, plain);
}

#[test]
fn a_shard_size_makes_sets() {
    let folder = tempfile::tempdir().unwrap();
    let work = Execution::default();
    let shard = options(|o| o.output.shard_size = Some(90_000));
    let done = Conversion::new(&source(), folder.path().join("m.safetensors"))
        .to(Format::Safetensors)
        .options(&shard)
        .execution(&work)
        .write()
        .unwrap();
    assert_eq!(done.format, Format::SafetensorsSharded);
    let expected =
        ["m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors", "m.safetensors.index.json"];
    assert_eq!(names(folder.path()), expected);
    let mut files: Vec<_> = done.files.iter().map(|file| (file.path.clone(), file.nbytes)).collect();
    files.sort();
    let on_disk = |name: &str| (name.to_owned(), fs::metadata(folder.path().join(name)).unwrap().len());
    assert_eq!(files, expected.map(on_disk));
    let set = Model::open(folder.path().join("m.safetensors.index.json")).unwrap();
    assert_eq!(tensors(&set), tensors(&source()));
    // Back into one file: the byte count in the index belongs to the set, and is not carried over.
    let one = common::convert(&set, Format::Safetensors, &options(|_| {}));
    common::assert_same(&source(), &one, "one file again");

    let done = Conversion::new(&set, folder.path().join("m.apr"))
        .to(Format::Apr2)
        .options(&shard)
        .execution(&work)
        .write()
        .unwrap();
    assert_eq!((done.format, done.files.len()), (Format::Apr2Sharded, 3));
    let set = Model::open(folder.path().join("m.apr")).unwrap();
    assert_eq!((set.format(), tensors(&set)), (Format::Apr2Sharded, tensors(&source())));
    assert!(set.verify(VerifyLevel::Full).is_ok());
    let done = Conversion::new(&set, folder.path().join("m.aeroset.json"))
        .to(Format::AeroSet)
        .options(&shard)
        .execution(&work)
        .write()
        .unwrap();
    assert_eq!((done.format, done.files.len()), (Format::AeroSet, 4));
    let set = Model::open(folder.path().join("m.aeroset.json")).unwrap();
    assert_eq!((set.format(), tensors(&set)), (Format::AeroSet, tensors(&source())));
    assert!(set.verify(VerifyLevel::Full).is_ok());
    let named = Conversion::new(&source(), folder.path().join("x.json"))
        .to(Format::SafetensorsSharded)
        .options(&shard)
        .execution(&work)
        .write();
    assert!(named.unwrap_err().is_usage());
}

#[test]
fn files_that_exist_are_kept_unless_they_may_be_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    fs::write(&path, "old").unwrap();
    let write = |overwrite| {
        let options = options(|o| o.output.overwrite = overwrite);
        Conversion::new(&source(), &path).to(Format::Safetensors).options(&options).write()
    };
    let error = write(Overwrite::Refuse).unwrap_err();
    assert!(matches!(&error, Error::Exists { path: found } if *found == path), "{error:?}");
    assert_eq!(fs::read(&path).unwrap(), b"old");
    write(Overwrite::Replace).unwrap();
    assert_eq!(tensors(&Model::open(&path).unwrap()), tensors(&source()));
    assert_eq!(names(folder.path()), ["m.safetensors"]);
}

#[test]
fn nothing_is_left_of_what_fails_or_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let shard = options(|o| o.output.shard_size = Some(50_000));
    let stop = |_| ControlFlow::Break(());
    let work = Execution { threads: 2, progress: Some(&stop) };
    for (target, name) in
        [(Format::Oinf, "m.oinf"), (Format::Apr2, "m.apr"), (Format::SafetensorsSharded, "m.safetensors")]
    {
        let options = if target == Format::Oinf { ConvertOptions::default() } else { shard.clone() };
        Conversion::new(&source(), folder.path().join(name))
            .to(target)
            .options(&options)
            .execution(&work)
            .write()
            .unwrap_err();
        assert_eq!(names(folder.path()), Vec::<String>::new(), "{target}");
    }
    let nan = safetensors(&[floats("w", &[1], &[f32::NAN])], "{}");
    let cast = options(|o| o.types.rules.push(TypeRule::cast(DType::I8)));
    Conversion::new(&nan, folder.path().join("m"))
        .to(Format::Safetensors)
        .options(&cast)
        .write()
        .unwrap_err();
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn progress_counts_the_bytes_of_the_tensors() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let done = AtomicU64::new(0);
    let count = |nbytes| {
        done.fetch_add(nbytes, Ordering::Relaxed);
        ControlFlow::Continue(())
    };
    let work = Execution { threads: 2, progress: Some(&count) };
    let options = options(|o| o.types.rules.push(TypeRule::cast(DType::F16)));
    let model = source();
    let conversion = Conversion::to_format(&model, Format::Apr2).options(&options).plan().unwrap();
    let nbytes = conversion.nbytes();
    assert_eq!(nbytes, 4 * 20_000);
    conversion.write_to_sink(&modelfmt_write::MemoryFile::new(), &work).unwrap();
    let done = done.into_inner();
    assert!((nbytes..nbytes + 1024).contains(&done), "{done}");
}

#[test]
fn a_file_of_apr2_that_promises_to_stream_still_does() {
    let metadata = apr2::Metadata::from(common::object(r#"{"model_type": "t", "architecture": {}}"#));
    let specs = [modelfmt_write::TensorSpec::new("w", DType::F32, vec![2])];
    let plan = apr2::Plan::new(specs, &metadata, &apr2::WriteOptions::new().streaming(true)).unwrap();
    let file = modelfmt_write::MemoryFile::new();
    plan.write(&[[0u8; 8]], &file, &Execution::default()).unwrap();
    let streaming = common::open("s.apr", file.into_bytes());
    let flags = |model: &Model| {
        let model = common::convert(model, Format::Apr2, &options(|_| {}));
        model.as_apr2().unwrap().index().flags().contains(apr2::Flags::STREAMING)
    };
    assert!(flags(&streaming));
    assert!(!flags(&apr2(&[tensor("w", DType::F32, &[1])], r#"{"model_type": "t", "architecture": {}}"#)));
}
