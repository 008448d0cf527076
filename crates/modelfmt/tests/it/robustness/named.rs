//! Errors name the file in which they occur, and name it once.

use std::fs;
use std::path::Path;

use aero::ReaderExt as _;
use modelfmt::Model;
use modelfmt::modelfmt_core::source::FileSource;
use modelfmt::modelfmt_core::{
    Error, OpenFile, OpenSet, Reader,
    author::{FileIndex, ShardMap},
};

use testkit::error_text;

/// Opens and reads a golden file with the format's own reader and with the umbrella crate, whole and cut
/// short.
fn check<I: FileIndex>(golden: &str) {
    let folder = tempfile::tempdir().unwrap();
    let bytes = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(golden)).unwrap();
    let (whole, cut) = (folder.path().join("whole"), folder.path().join("cut"));
    fs::write(&whole, &bytes).unwrap();
    fs::write(&cut, &bytes[..bytes.len() / 3]).unwrap();

    let error = Reader::<OpenFile<I, FileSource>>::open(&cut).map(drop).unwrap_err();
    named_once(&error, &cut);
    assert!(!matches!(error.inner(), Error::InFile { .. }), "{error:?}");
    named_once(&Model::open(&cut).unwrap_err(), &cut);

    let reader = Reader::<OpenFile<I, FileSource>>::open(&whole).unwrap();
    let error = reader.tensor("absent").unwrap_err();
    named_once(&error, &whole);
    assert!(matches!(error.inner(), Error::NotFound { .. }), "{error:?}");
    named_once(&reader.tensor(1000).unwrap_err(), &whole);
    named_once(&reader.read_into(0, u64::MAX, &mut [0]).unwrap_err(), &whole);
    named_once(&reader.read_range(0, 1..u64::MAX).unwrap_err(), &whole);

    // A file that becomes shorter while it is open: an error of reading, with its cause.
    let model = Model::open(&whole).unwrap();
    fs::OpenOptions::new().write(true).open(&whole).unwrap().set_len(16).unwrap();
    let has_bytes = |position: &usize| reader.tensors().info(*position).is_some_and(|info| info.nbytes > 0);
    let position = (0..reader.tensors().len()).find(has_bytes).unwrap();
    let error = reader.tensor(position).unwrap_err();
    named_once(&error, &whole);
    assert!(error.is_io() && std::error::Error::source(&error).is_some(), "{error:?}");
    named_once(&model.tensor(position).map(drop).unwrap_err(), &whole);
}

fn named_once(error: &dyn std::error::Error, path: &Path) {
    let text = error_text(error);
    assert_eq!(text.matches(&*path.to_string_lossy()).count(), 1, "{text}");
}

#[test]
fn every_format_names_its_file() {
    check::<aero::Index>("aero/hashes.aero");
    check::<mag::Index>("mag/names.mag");
    check::<oinf::Index>("oinf/shapes.oinf");
    check::<apr2::Index>("apr2/shapes.apr");
    check::<modelfmt_gguf::Index>("gguf/shapes.gguf");
    check::<modelfmt_safetensors::Index>("safetensors/names.safetensors");
}

#[test]
fn what_only_aero_has_names_its_file_too() {
    let path = testkit::testdata("aero/dtypes.aero");
    let reader = aero::Reader::open(&path).unwrap();
    let errors = [
        reader.checked().tensor("absent").map(drop).unwrap_err(),
        reader.checked().tensor(1000).map(drop).unwrap_err(),
        reader.read_range("absent", 0..1).map(drop).unwrap_err(),
        reader.read_range(1000, 0..1).map(drop).unwrap_err(),
        reader.checked().read_range(0, 0..u64::MAX).map(drop).unwrap_err(),
        reader.chunk(aero::FourCC::WTSH, "absent").map(drop).unwrap_err(),
    ];
    errors.iter().for_each(|error| named_once(error, &path));
    assert!(matches!(errors[1].inner(), Error::NotFound { .. }), "{:?}", errors[1]);
}

/// Checks a set whose index is sound but one of whose files is not.
fn check_set<M: ShardMap>(index: &Path, tensor: &str, part: &str) {
    let set = Reader::<OpenSet<M, _>>::open(index).unwrap();
    for error in [set.tensor(tensor).unwrap_err(), set.open_all().unwrap_err()] {
        named_once(&error, index);
        assert_eq!(error_text(&error).matches(part).count(), 1, "{}", error_text(&error));
    }
    named_once(&set.tensor("absent").unwrap_err(), index);
    let error = Model::open(index).and_then(|model| model.tensor(tensor).map(drop)).unwrap_err();
    named_once(&error, index);
    assert_eq!(error.to_string().matches(part).count(), 1, "{error}");
}

#[test]
fn a_set_names_its_index_and_the_broken_file() {
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("m.safetensors.index.json");
    fs::write(&index, r#"{"metadata": {}, "weight_map": {"w": "first-file", "v": "no-file"}}"#).unwrap();
    fs::write(folder.path().join("first-file"), [9; 40]).unwrap();
    check_set::<modelfmt_safetensors::SetIndex>(&index, "w", "first-file");
    fs::remove_file(folder.path().join("first-file")).unwrap();
    check_set::<modelfmt_safetensors::SetIndex>(&index, "w", "first-file");
    fs::write(&index, "{").unwrap();
    named_once(
        &Reader::<OpenSet<modelfmt_safetensors::SetIndex, _>>::open(&index).map(drop).unwrap_err(),
        &index,
    );
}

#[test]
fn an_aeroset_names_its_index() {
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("m.aeroset.json");
    for text in [
        "{",
        r#"{"format": {"name": "AEROSET", "version": [0, 2]}, "parts": [],
            "global_tidx": {"path": "gone", "sha256": "", "size_bytes": 0}}"#,
    ] {
        fs::write(&index, text).unwrap();
        named_once(&aero::SetReader::open(&index).map(drop).unwrap_err(), &index);
        let error = Model::open(&index).unwrap_err().to_string();
        assert_eq!(error.matches("m.aeroset.json").count(), 1, "{error}");
    }
}
