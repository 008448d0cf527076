//! The toy through the umbrella: blocking, and from files that have to be waited for.
#![allow(clippy::unwrap_used, reason = "this is test code")]

use std::path::PathBuf;

use modelfmt::edit::{EditOptions, NewValue};
use modelfmt::modelfmt_core::source::MemoryFiles;
use modelfmt::{AsyncModel, Conversion, DType, Execution, Format, Model, VerifyLevel};
use testkit::{SlowFiles, block_on};

/// What the program is tried with too: the f32 tensor `w` with 1.5 and -2, and the u8 scalar `up` with 7.
fn file() -> PathBuf {
    std::env::var_os("MODELFMT_TOY").unwrap().into()
}

fn is_right(model: &Model) {
    let w = model.tensor("w").unwrap();
    assert_eq!((w.dtype(), &w.shape()[..]), (DType::F32, &[2, 1][..]));
    assert_eq!(w.to_vec::<f32>().unwrap(), [1.5, -2.0]);
    assert_eq!(&*model.read_range("up", 0..1).unwrap(), [7]);
}

#[test]
fn it_is_opened_checked_and_converted() {
    let model = Model::open(file()).unwrap();
    assert_eq!(model.format(), Format::Toy);
    is_right(&model);
    let error = model.checked().tensor("w").unwrap_err().to_string();
    assert!(error.contains("model.toy") && error.contains("\"w\""), "its files have no digests: {error}");
    modelfmt::verify(file(), VerifyLevel::Full, &Execution::default()).report.into_result().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for name in ["m.safetensors", "m.aero"] {
        let path = folder.path().join(name);
        Conversion::new(&model, &path).write().unwrap();
        let other = Model::open(&path).unwrap();
        assert_eq!(other.tensor("w").unwrap().bytes(), model.tensor("w").unwrap().bytes());
    }
}

#[test]
fn it_is_edited() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.toy");
    std::fs::copy(file(), &path).unwrap();
    let mut options = EditOptions::default();
    options.rename.push("w=a.longer.name".parse().unwrap());
    modelfmt::edit(&path, &options, &Execution::default()).unwrap();
    let longer = Model::open(&path).unwrap();
    assert_eq!(longer.tensor("a.longer.name").unwrap().to_vec::<f32>().unwrap(), [1.5, -2.0]);
    options.rename = vec!["a.longer.name=w".parse().unwrap()];
    modelfmt::edit(&path, &options, &Execution::default()).unwrap();
    is_right(&Model::open(&path).unwrap());
    let before = std::fs::read(&path).unwrap();
    assert_eq!(before, std::fs::read(file()).unwrap());

    options.rename.clear();
    options.set.push(("author".to_owned(), NewValue::Text("me".to_owned())));
    let error = modelfmt::edit(&path, &options, &Execution::default()).unwrap_err().to_string();
    assert!(error.contains("m.toy") && error.contains("TOY has none"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn it_is_opened_and_checked_where_files_are_waited_for() {
    let files = MemoryFiles([("m.toy".to_owned(), std::fs::read(file()).unwrap().into())].into());
    block_on(async {
        let model = AsyncModel::open(SlowFiles(&files), "m.toy").await.unwrap();
        assert_eq!(model.format(), Format::Toy);
        assert_eq!(model.tensor("w").await.unwrap().to_vec::<f32>().unwrap(), [1.5, -2.0]);
        assert_eq!(&*model.read_range("up", 0..1).await.unwrap(), [7]);
        model.verify(VerifyLevel::Full).await.into_result().unwrap();
    });
}
