//! Split GGUFs: their names, and other files in the same folder.

use std::path::Path;

use modelfmt::{DType, Execution, Format, Model, VerifyLevel};
use modelfmt_write::MemoryFile;

use super::common::{notes, options, safetensors, tensor};

/// Returns the files of a folder with their contents.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let mut files: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

fn names(folder: &Path) -> Vec<String> {
    files(folder).into_iter().map(|(name, _)| name).collect()
}

fn three() -> Model {
    let three = ["a", "b", "c"].map(|name| tensor(name, DType::F32, &[100]));
    safetensors(&three, r#"{"general.name": "x"}"#)
}

fn split(
    source: &Model,
    out: &Path,
    shard_size: u64,
    force: bool,
) -> Result<modelfmt::convert::Converted, modelfmt::Error> {
    let options = options(|o| {
        o.output.shard_size = Some(shard_size);
        if force {
            o.output.overwrite = modelfmt::convert::Overwrite::Replace;
        }
    });
    modelfmt::Conversion::new(source, out)
        .to(Format::Gguf)
        .options(&options)
        .execution(&Execution::sequential())
        .write()
}

/// The size of a file with two tensors of 400 bytes and what precedes them.
const TWO: u64 = 1200;

#[test]
fn a_shard_size_makes_a_split_whose_files_are_named_after_out() {
    let folder = tempfile::tempdir().unwrap();
    for out in ["m.gguf", "n-00007-of-00009.gguf", "o"] {
        let (out, stem) = (folder.path().join(out), out[..1].to_owned());
        let done = modelfmt::Conversion::new(&three(), &out)
            .to(Format::GgufSharded)
            .options(&options(|o| o.output.shard_size = Some(1)))
            .execution(&Execution::sequential())
            .write()
            .unwrap();
        assert_eq!(done.format, Format::GgufSharded);
        let expected = [1, 2, 3].map(|number| format!("{stem}-{number:05}-of-00003.gguf"));
        assert_eq!(done.files.iter().map(|file| file.path.clone()).collect::<Vec<_>>(), expected);
        for name in &expected {
            let model = Model::open(folder.path().join(name)).unwrap();
            assert_eq!((model.format(), model.tensor_count()), (Format::GgufSharded, 3));
            assert!(model.verify(VerifyLevel::Full).is_ok());
        }
    }
    assert_eq!(names(folder.path()).len(), 9);
    let error = split(&three(), &folder.path().join(".gguf"), 1, false).unwrap_err();
    assert!(error.is_usage() && error.to_string().starts_with("output: "), "{error}");
    // If everything fits in one file, this is an ordinary file.
    let done = split(&three(), &folder.path().join("p.gguf"), 1 << 20, false).unwrap();
    assert_eq!(done.files[0].path, "p.gguf");
    assert_eq!(Model::open(folder.path().join("p.gguf")).unwrap().format(), Format::Gguf);
    // A stream can take only one file.
    let file = MemoryFile::new();
    let set = options(|o| o.output.shard_size = Some(1));
    let error = modelfmt::Conversion::to_format(&three(), Format::Gguf)
        .options(&set)
        .execution(&Execution::sequential())
        .write_to_sink(&file)
        .unwrap_err();
    assert!(error.is_usage(), "{error}");
}

#[test]
fn a_split_takes_the_place_of_an_older_one_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m.gguf");
    split(&three(), &out, 1, false).unwrap();
    let before = files(folder.path());
    // Whatever its number of files, an existing split is not replaced unless this is requested.
    for (shard_size, existing) in
        [(1, "m-00001-of-00003.gguf"), (TWO, "m-00001-of-00003.gguf"), (1 << 20, "m-00001-of-00003.gguf")]
    {
        let error = split(&three(), &out, shard_size, false).unwrap_err();
        let existing = folder.path().join(existing);
        assert!(matches!(&error, modelfmt::Error::Exists { path } if *path == existing), "{error}");
        assert_eq!(files(folder.path()), before);
    }
    let done = split(&three(), &out, TWO, true).unwrap();
    assert_eq!(names(folder.path()), ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]);
    assert_eq!(
        notes(&done).iter().filter(|note| note.contains("is removed")).count(),
        3,
        "{:?}",
        notes(&done)
    );
    split(&three(), &out, TWO, true).unwrap();
    assert_eq!(names(folder.path()).len(), 2);
    // A split of one file, and a file with such a name that is not a GGUF.
    std::fs::write(folder.path().join("m-00001-of-00004.gguf"), "text").unwrap();
    split(&three(), &out, 1 << 20, true).unwrap();
    assert_eq!(names(folder.path()), ["m-00001-of-00004.gguf", "m.gguf"]);
}

#[test]
fn a_split_keeps_its_hands_off_its_neighbours() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    split(&three(), &path("m.gguf"), 1, false).unwrap();
    split(&three(), &path("mm.gguf"), 1, false).unwrap();
    std::fs::write(path("m.gguf"), "one").unwrap();
    let before = files(folder.path());
    // A single file that would take the place of a part.
    let one = options(|o| o.output.overwrite = modelfmt::convert::Overwrite::Replace);
    let error = modelfmt::Conversion::new(&three(), path("m-00002-of-00003.gguf"))
        .to(Format::Gguf)
        .options(&one)
        .execution(&Execution::sequential())
        .write();
    let error = error.unwrap_err();
    let why = format!(
        "{error}: {}",
        std::error::Error::source(&error).map_or_else(String::new, ToString::to_string)
    );
    assert!(why.contains("it is a file of the set m-00001-of-00003.gguf, which would be broken"), "{why}");
    assert_eq!(files(folder.path()), before);
    // Parts that are inputs are kept, also under the name of the output.
    let input = Model::open(path("m-00001-of-00003.gguf")).unwrap();
    split(&input, &path("m.gguf"), 1, true).unwrap_err();
    assert_eq!(files(folder.path()), before);
    split(&input, &path("m.gguf"), TWO, true).unwrap();
    assert_eq!(Model::open(path("m-00003-of-00003.gguf")).unwrap().tensor_count(), 3);
    assert_eq!(Model::open(path("m-00001-of-00002.gguf")).unwrap().tensor_count(), 3);
    assert_eq!(Model::open(path("mm-00001-of-00003.gguf")).unwrap().tensor_count(), 3);
    assert_eq!(std::fs::read(path("m.gguf")).unwrap(), b"one");
    // A single file with the name of the first part: the rest of the old split is removed, as with the index
    // of a set.
    let done = modelfmt::Conversion::new(&three(), path("mm-00001-of-00003.gguf"))
        .to(Format::Gguf)
        .options(&one)
        .execution(&Execution::sequential())
        .write();
    assert_eq!(notes(&done.unwrap()).iter().filter(|note| note.contains("is removed")).count(), 2);
}

/// A split has no name of its own, so a model is named after its files without their numbers.
#[test]
fn a_model_is_named_after_the_split_and_not_after_a_file_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let source = safetensors(&[tensor("a", DType::F32, &[100]), tensor("b", DType::F32, &[100])], "{}");
    split(&source, &folder.path().join("small-model.gguf"), 1, false).unwrap();
    let model = Model::open(folder.path().join("small-model-00002-of-00002.gguf")).unwrap();
    let found = super::common::convert(&model, Format::Aero, &options(|_| {}));
    assert_eq!(super::common::json_of(&found).get("model_name"), Some(&"small-model".into()));
    assert!(modelfmt::diff::diff(&model, &found, &Execution::default()).unwrap().is_same());
}
