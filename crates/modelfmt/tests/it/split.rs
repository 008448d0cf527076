//! Split GGUF models: any file opens the whole model, and a file alone is not a model.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "this is test code")]

use std::fs;
use std::path::{Path, PathBuf};

use modelfmt::convert::ConvertOptions;
use modelfmt::{Execution, Format, Model, Object, VerifyLevel, View};

fn copied(into: &Path, numbers: &[u32]) -> Vec<PathBuf> {
    let from = testkit::testdata("reference/gguf");
    let copy = |number: &u32| {
        let name = format!("split-0000{number}-of-00003.gguf");
        let path = into.join(&name);
        fs::copy(from.join(&name), &path).unwrap();
        path
    };
    numbers.iter().map(copy).collect()
}

#[test]
fn any_file_and_the_folder_are_the_whole_model() {
    let folder = tempfile::tempdir().unwrap();
    let paths = copied(folder.path(), &[1, 2, 3]);
    for path in paths.iter().map(PathBuf::as_path).chain([folder.path()]) {
        let model = Model::open(path).unwrap();
        assert_eq!((model.format(), model.tensor_count()), (Format::GgufSharded, 5));
        let report = model.container().verify(VerifyLevel::Full, &Execution::default());
        assert!(report.is_ok(), "{:?}", report.errors);
        let details = model.details().unwrap();
        assert_eq!(details.get("files").unwrap().as_array().unwrap().len(), 3);
        let metadata = model.metadata().unwrap();
        assert!(metadata.get("split.count").is_none() && metadata.get("general.name").is_some());
    }
    let looked = modelfmt::folder::probe(&paths[1]).unwrap();
    assert_eq!(looked.files, ["split-00003-of-00003.gguf"]);
}

/// A single source has no other files, and the error says what to do.
#[test]
fn a_source_of_one_file_says_what_to_do() {
    let file = "split-00002-of-00003.gguf";
    let bytes = fs::read(testkit::testdata("reference/gguf").join(file)).unwrap();
    let help = "open it by its path (or give the files to open_source)";
    for (name, help) in [(file, help), ("part.gguf", "its name is not of the form NAME-00001-of-00003.gguf")]
    {
        let error = Model::from_source(name, bytes.clone()).unwrap_err();
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(inner) = cause {
            text.push_str(&format!("; {inner}"));
            cause = inner.source();
        }
        assert!(text.contains(help), "{text}");
    }
}

#[test]
fn a_part_of_a_model_is_never_opened() {
    let folder = tempfile::tempdir().unwrap();
    for path in copied(folder.path(), &[1, 3]) {
        let error = Model::open(&path).unwrap_err();
        let text = format!("{error}: {:?}", std::error::Error::source(&error).map(ToString::to_string));
        assert!(text.contains("split-00002-of-00003.gguf"), "{text}");
    }
    let renamed = folder.path().join("m.gguf");
    fs::rename(folder.path().join("split-00001-of-00003.gguf"), &renamed).unwrap();
    assert!(Model::open(&renamed).is_err());
    let bytes = fs::read(testkit::testdata("reference/gguf/split-00001-of-00003.gguf")).unwrap();
    assert!(Model::from_source("split-00001-of-00003.gguf", bytes).is_err());
}

#[cfg(feature = "aero")]
#[test]
fn a_split_converts_as_one_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = testkit::testdata("reference/gguf/split-00003-of-00003.gguf");
    let model = Model::open(&path).unwrap();
    let out = folder.path().join("m.aero");
    let options = ConvertOptions::default();
    modelfmt::Conversion::new(&model, &out).to(Format::Aero).options(&options).write().unwrap();
    let again = Model::open(&out).unwrap();
    for (a, b) in model.tensors().zip(again.tensors()) {
        assert_eq!((a.name, a.dtype, a.shape), (b.name, b.dtype, b.shape));
        assert_eq!(model.tensor(a.name).unwrap().bytes(), again.tensor(b.name).unwrap().bytes());
    }
    let json = again.metadata().unwrap();
    assert_eq!(json.path(["json", "general.name"]), model.metadata().unwrap().get("general.name"));
    assert!(json.path(["json", "split.count"]).is_none());
}

/// A shell pattern names all files of a split, or the parts of a set and its index.
#[test]
fn files_of_one_set_are_one_model() {
    let folder = tempfile::tempdir().unwrap();
    let mut paths = copied(folder.path(), &[1, 2, 3]);
    let merged = |paths: &[PathBuf]| Model::merged(paths.iter().map(|path| Model::open(path).unwrap()));
    for _ in 0..3 {
        paths.rotate_left(1);
        let whole = merged(&paths).unwrap();
        assert_eq!((whole.path(), whole.tensor_count()), (&*paths[0], 5));
    }
    let (index, one) = (folder.path().join("m.safetensors.index.json"), folder.path().join("one.mag"));
    let values = ["a", "b", "c"].map(|name| (name, View::new(&[1.0f32; 64], [64]).unwrap()));
    modelfmt::save(&one, values, &Object::default()).unwrap();
    let mut options = ConvertOptions::default();
    options.output.shard_size = Some(600);
    let one = Model::open(&one).unwrap();
    modelfmt::Conversion::new(&one, &index).to(Format::SafetensorsSharded).options(&options).write().unwrap();
    let parts = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut parts: Vec<PathBuf> = parts.filter(|path| path.extension().unwrap() == "safetensors").collect();
    assert!(parts.len() > 1);
    assert_eq!(merged(&parts).unwrap().tensor_count(), 3);
    parts.push(index.clone());
    let whole = merged(&parts).unwrap();
    assert_eq!((whole.path(), whole.tensor_count()), (&*index, 3));
    // A file that is given twice is not a part of itself.
    let twice = [parts[0].clone(), parts[0].clone()];
    assert!(merged(&twice).unwrap_err().to_string().contains("two tensors with one name"));
}
