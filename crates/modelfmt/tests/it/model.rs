//! An open model: its tensors, reads of all kinds, and models made from tensors in memory.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use std::path::{Path, PathBuf};

use modelfmt::convert::Saving;
use modelfmt::convert::TypeRule;
use modelfmt::convert::{ConvertOptions, Overwrite};
use modelfmt::modelfmt_core::AnyError;
use modelfmt::modelfmt_write::TensorSpec;
use modelfmt::{DType, Error, Execution, Format, Model, Object, Value, View};

fn testdata(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(path)
}

/// One file with digests of its values, one without, one compressed, and the sets.
const FILES: [&str; 6] = [
    "aero/hashes.aero",
    "apr2/lz4.apr",
    "mag/names.mag",
    "safetensors/names.safetensors",
    "apr2/set/sharded.apr",
    "safetensors/set.safetensors.index.json",
];

#[test]
fn a_model_is_iterated_in_both_directions() {
    for file in FILES {
        let model = Model::open(testdata(file)).unwrap();
        let mut names = Vec::new();
        for tensor in &model {
            names.push(tensor.name);
        }
        assert_eq!(names.len(), model.tensor_count());
        let backwards: Vec<_> = model.tensors().rev().map(|tensor| tensor.name).collect();
        assert!(backwards.iter().rev().eq(&names), "{file}");
        let mut both = model.tensors();
        assert_eq!(both.next().map(|tensor| tensor.name), names.first().copied());
        assert_eq!(both.next_back().map(|tensor| tensor.name), names.get(1..).and_then(<[_]>::last).copied());
        assert_eq!(both.count(), names.len().saturating_sub(2));
    }
}

#[test]
fn every_way_to_read_gives_the_same_bytes() {
    for file in FILES {
        let model = Model::open(testdata(file)).unwrap();
        for tensor in &model {
            let whole = model.tensor(tensor.name).unwrap();
            let half = tensor.nbytes / 2;
            let part = model.read_range(tensor.name, half..tensor.nbytes).unwrap();
            assert_eq!(*part, whole.bytes()[usize::try_from(half).unwrap()..], "{file}");
            assert!(model.read_range(tensor.name, 0..tensor.nbytes + 1).is_err());
            let without_digest = |error: Error| match error {
                Error::File { error, .. } => matches!(error.inner(), AnyError::NoHash { .. }),
                _ => false,
            };
            match model.checked().tensor(tensor.name) {
                Ok(checked) => {
                    assert_eq!(checked.bytes(), whole.bytes());
                    let checked = model.checked().read_range(tensor.name, half..tensor.nbytes).unwrap();
                    assert_eq!(*checked, *part);
                }
                Err(error) => assert!(without_digest(error), "{file}"),
            }
        }
        let missing = "no such tensor";
        assert!(matches!(model.checked().tensor(missing), Err(Error::NoSuchTensor { .. })));
        assert!(matches!(model.checked().read_range(missing, 0..0), Err(Error::NoSuchTensor { .. })));
        assert!(matches!(model.read_range(missing, 0..0), Err(Error::NoSuchTensor { .. })));
    }
}

#[test]
fn a_damaged_tensor_is_read_unless_it_is_checked() {
    let mut bytes = std::fs::read(testdata("aero/hashes.aero")).unwrap();
    let sound = Model::open(testdata("aero/hashes.aero")).unwrap();
    let position = (0..sound.tensor_count())
        .find(|&position| sound.location(position).unwrap().stored_nbytes > 0)
        .unwrap();
    let name = sound.tensors().nth(position).unwrap().name;
    let at = sound.location(position).unwrap().offset.unwrap();
    bytes[usize::try_from(at).unwrap()] ^= 1;
    let damaged = Model::from_source("damaged.aero", bytes).unwrap();
    assert!(damaged.tensor(name).is_ok() && damaged.read_range(name, 0..1).is_ok());
    let error = damaged.checked().tensor(name).unwrap_err().to_string();
    assert!(error.starts_with("damaged.aero: "), "{error}");
    assert!(damaged.checked().read_range(name, 0..1).is_err());
}

fn view() -> View<'static> {
    View::new(&[1.0f32, 2.0, 3.0, 4.0], [2, 2]).unwrap()
}

#[test]
fn tensors_in_memory_are_saved_in_every_format_that_is_written() {
    let folder = tempfile::tempdir().unwrap();
    for &format in Format::ALL.iter().filter(|format| format.is_writable()) {
        let path = folder.path().join(format!("tiny.{format}.safetensors")); // the name is not what decides
        let tensors = || [("b", view()), ("a", View::new(&[7i32, -7], [2]).unwrap())];
        modelfmt::convert::save_as(format, &path, tensors(), &Object::new()).unwrap();
        let path = match format {
            Format::SafetensorsSharded => path.with_extension("safetensors.index.json"),
            // A split of one file is an ordinary file.
            Format::GgufSharded => path.with_extension("safetensors.gguf"),
            _ => path,
        };
        let model = Model::open(&path).unwrap();
        assert_eq!(model.format(), if format == Format::GgufSharded { Format::Gguf } else { format });
        assert_eq!(model.tensor("b").unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(model.tensor("a").unwrap().to_vec::<i32>().unwrap(), [7, -7]);
        assert_eq!(model.tensors().find(|tensor| tensor.name == "a").unwrap().dtype, DType::I32);
        assert!(model.verify(modelfmt::VerifyLevel::Full).is_ok(), "{format}");
        let again = modelfmt::convert::save_as(format, &path, tensors(), &Object::new());
        assert!(matches!(again, Err(Error::Exists { .. })), "{format}: a file is not replaced");
    }
}

#[test]
fn values_that_are_supplied_are_saved_with_a_choice_of_layout() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.aero");
    let specs = || [TensorSpec::new("w", DType::U8, vec![3])];
    let mut options = ConvertOptions::default();
    options.aero.tensor_hashes = true;
    let save = |format, options: &ConvertOptions| {
        let saving = Saving::new(format, &path, specs(), &Object::new(), options)?;
        saving.write(&[[1u8, 2, 3]], &Execution::default())
    };
    save(Format::Aero, &options).unwrap();
    assert!(Model::open(&path).unwrap().checked().tensor("w").is_ok(), "the tensor has a hash");
    assert!(matches!(save(Format::Aero, &options), Err(Error::Exists { .. })));
    options.output.overwrite = Overwrite::Replace;
    save(Format::Aero, &options).unwrap();

    // Options for models that are read, or for other formats, are refused before anything is written.
    let before = std::fs::read(&path).unwrap();
    let changes: [fn(&mut ConvertOptions); 4] = [
        |options| options.tensors.include.push("*".to_owned()),
        |options| options.types.rules.push(TypeRule::cast(DType::F32)),
        |options| options.output.align = Some(64),
        |options| options.output.version = Some("9".to_owned()),
    ];
    for change in changes {
        let mut wrong = options.clone();
        change(&mut wrong);
        assert!(matches!(save(Format::Aero, &wrong), Err(Error::Usage { .. })), "{wrong:?}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);

    // A set that replaces another set leaves none of its files.
    let index = folder.path().join("set.safetensors");
    let save = |sizes: &[u64], size| {
        let specs: Vec<_> =
            sizes.iter().map(|n| TensorSpec::new(format!("t{n}"), DType::U8, vec![*n])).collect();
        let data: Vec<Vec<u8>> = sizes.iter().map(|n| vec![0; usize::try_from(*n).unwrap()]).collect();
        let mut options = ConvertOptions::default();
        (options.output.overwrite, options.output.shard_size) = (Overwrite::Replace, Some(size));
        let saving = Saving::new(Format::Safetensors, &index, specs, &Object::new(), &options).unwrap();
        saving.write(&data, &Execution::default()).unwrap();
        std::fs::read_dir(folder.path()).unwrap().count()
    };
    let many = save(&[100, 101, 102, 103], 100);
    assert!(save(&[100, 101], 1000) < many);
}

#[test]
fn metadata_is_saved_as_far_as_the_format_holds_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let metadata = Object::from_iter([("license", Value::from("MIT")), ("layers", 12.into())]);
    for name in ["m.aero", "m.apr", "m.oinf"] {
        modelfmt::save(path(name), [("w", view())], &metadata).unwrap();
        let tree = Model::open(path(name)).unwrap().metadata().unwrap();
        let own = tree.get("json").unwrap_or(&tree);
        let layers = own.get("layers").unwrap();
        assert_eq!(layers.get("value").unwrap_or(layers).as_u64(), Some(12), "{name}");
    }
    let tree = Model::open(path("m.aero")).unwrap().metadata().unwrap();
    assert_eq!(tree.path(["json", "model_name"]).and_then(Value::as_str), Some("m"), "after the file");
    for (name, key) in [("m.safetensors", "layers"), ("m.mag", "license")] {
        match modelfmt::save(path(name), [("w", view())], &metadata) {
            Err(Error::Unsupported { unsupported, .. }) => {
                assert_eq!(unsupported.len(), 1);
                assert!(unsupported[0].to_string().contains(key));
            }
            other => panic!("{name}: {other:?}"),
        }
        assert!(!path(name).exists());
    }
}

#[test]
fn what_cannot_be_saved_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let save = |name: &str, tensors: &[(&'static str, View<'static>)]| {
        modelfmt::save(path(name), tensors.iter().cloned(), &Object::new())
    };
    for name in ["m", "m.bin", "m.json"] {
        assert!(matches!(save(name, &[("w", view())]), Err(Error::Usage { .. })), "{name}");
    }
    let apr1 = modelfmt::convert::save_as(Format::Apr1, path("m.apr"), [("w", view())], &Object::new());
    assert!(matches!(apr1, Err(Error::Usage { .. })));
    let wide = View::new(&[1.0f64], [1]).unwrap();
    for (name, tensors) in [
        ("m.mag", [("w", view()), ("w", view())]),
        ("m.mag", [("w", view()), ("x", wide.clone())]),
        ("m.apr", [("w", view()), ("x", wide)]),
    ] {
        assert!(matches!(save(name, &tensors), Err(Error::Refused { .. })), "{name}");
    }
    assert!(matches!(save("no/such/folder.mag", &[("w", view())]), Err(Error::Write { .. })));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
