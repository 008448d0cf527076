//! Several tensors at once: into a folder, a numpy archive, or a safetensors file. All are written, or none.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use modelfmt::convert::Overwrite;
use modelfmt::extract::{ExtractAllAs, ExtractAs, ExtractOptions, Extracted, extract_all};
use modelfmt::{DType, Error, Execution, Model, Object, View, save};

const FOLDER: ExtractAllAs = ExtractAllAs::Folder(ExtractAs::Npy);

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(path)
}

fn extract(
    model: &Model,
    names: &[&str],
    out: &Path,
    kind: ExtractAllAs,
    change: impl FnOnce(&mut ExtractOptions),
) -> Result<Extracted, Error> {
    let mut options = ExtractOptions::default();
    change(&mut options);
    extract_all(model, names, out, kind, &options, &Execution { threads: 2, progress: None })
}

fn files(folder: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

/// What numpy says about each array: name, type, shape and a digest of its bytes.
const NUMPY: &str = "
import sys, numpy as np, hashlib, os
z = np.load(sys.argv[1]) if sys.argv[1].endswith('.npz') else {
    n[:-4]: np.load(os.path.join(sys.argv[1], n)) for n in sorted(os.listdir(sys.argv[1]))}
for name in z:
    a = z[name]
    print(name, a.dtype.str, list(a.shape), hashlib.sha256(a.tobytes()).hexdigest())
";

#[test]
fn numpy_reads_the_archive_and_the_folder_as_what_they_were_made_of() {
    let folder = tempfile::tempdir().unwrap();
    let (archive, arrays) = (folder.path().join("m.npz"), folder.path().join("arrays"));
    let model = Model::open(golden("reference/one-shard.aero")).unwrap();
    let cast = |options: &mut ExtractOptions| options.cast = Some(DType::F32);
    // Integers and booleans are unchanged; bf16 and blocks become f32.
    let extracted = extract(&model, &["*"], &archive, ExtractAllAs::Npz, cast).unwrap();
    assert_eq!((extracted.tensors, extracted.nbytes), (18, fs::metadata(&archive).unwrap().len()));
    extract(&model, &["*"], &arrays, FOLDER, cast).unwrap();
    let seen = testkit::python(NUMPY, &[archive.to_str().unwrap()]);
    let lines: BTreeSet<&str> = seen.lines().collect();
    assert_eq!(lines.len(), 18);
    let by_file = testkit::python(NUMPY, &[arrays.to_str().unwrap()]);
    assert_eq!(by_file.replace("%2F", "/").replace("%3A", ":").lines().collect::<BTreeSet<_>>(), lines);
    // Each tensor is the same as in a conversion.
    let converted = folder.path().join("m.safetensors");
    extract(&model, &["*"], &converted, ExtractAllAs::Safetensors, |options| {
        options.dequantize = Some(DType::F32);
    })
    .unwrap();
    let hash = "import sys, hashlib\nprint(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())";
    for name in ["embed.weight", "int.u64", "blk.0.q4_0", "mask"] {
        let view = Model::open(&converted).unwrap();
        let bytes = folder.path().join("bytes");
        fs::write(&bytes, view.tensor(name).unwrap().bytes()).unwrap();
        let hash = testkit::python(hash, &[bytes.to_str().unwrap()]);
        assert!(
            lines.iter().any(|line| line.starts_with(&format!("{name} ")) && line.ends_with(hash.trim())),
            "{name}"
        );
    }
}

#[test]
fn a_safetensors_file_has_these_tensors_and_the_metadata_that_it_can_hold() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("m.safetensors"), folder.path().join("part.safetensors"));
    let values = [1.0f32, 2.0];
    // Names that would be patterns.
    let names = ["a*", "ab", "a[0]", "{a,b}", "a\\b", "b"];
    let tensors = names.map(|name| (name, View::new(&values, [2]).unwrap()));
    save(&path, tensors, &Object::from_iter([("format", "pt")])).unwrap();
    let model = Model::open(&path).unwrap();
    let extracted =
        extract(&model, &["a*", "a[0]", "{a,b}", "a\\b"], &out, ExtractAllAs::Safetensors, |_| ()).unwrap();
    assert!(extracted.notes.is_empty(), "{:?}", extracted.notes);
    let part = Model::open(&out).unwrap();
    let found: Vec<&str> = part.tensors().map(|info| info.name).collect();
    assert_eq!(found, ["a*", "a[0]", "{a,b}", "a\\b"]);
    assert_eq!(modelfmt::diff::flat_metadata(&part).unwrap(), Object::from_iter([("format", "pt")]));
}

#[test]
fn names_do_not_lead_out_of_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("m.safetensors"), folder.path().join("out"));
    let values = [1u8];
    let names = ["../x", "/tmp/y", "a/b", "..", ""];
    save(&path, names.map(|name| (name, View::new(&values, [1]).unwrap())), &Object::default()).unwrap();
    let model = Model::open(&path).unwrap();
    extract(&model, &["*"], &out, ExtractAllAs::Folder(ExtractAs::Bin), |_| ()).unwrap();
    let expected = ["..%2Fx.bin", "%2Ftmp%2Fy.bin", "a%2Fb.bin", "...bin", ".bin"];
    assert_eq!(files(&out), expected.map(str::to_owned).into());
    let archive = folder.path().join("m.npz");
    extract(&model, &["*"], &archive, ExtractAllAs::Npz, |_| ()).unwrap();
    let seen = testkit::python(NUMPY, &[archive.to_str().unwrap()]);
    let names: Vec<&str> = seen.lines().map(|line| line.split(" |u1").next().unwrap()).collect();
    assert_eq!(names, ["..%2Fx", "%2Ftmp%2Fy", "a/b", "..", ""]);
}

/// A name that is too long for a file is shortened, and the others are extracted as usual.
#[test]
fn a_name_that_is_too_long_ends_in_a_hash() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("m.safetensors"), folder.path().join("out"));
    let values = [1u8, 2, 3];
    // The names are equal as far as a file name has room.
    let long = ["a", "b"].map(|end| "long/".repeat(1_000) + end);
    let names = ["w", &long[0], &long[1]];
    let tensors = (0..).zip(names).map(|(at, name)| (name, View::new(&values[at..=at], [1]).unwrap()));
    save(&path, tensors, &Object::default()).unwrap();
    let model = Model::open(&path).unwrap();
    let extracted = extract(&model, &["*"], &out, ExtractAllAs::Folder(ExtractAs::Bin), |_| ()).unwrap();
    let content: Vec<(String, u8)> =
        files(&out).into_iter().map(|name| (name.clone(), fs::read(out.join(name)).unwrap()[0])).collect();
    let [first, second, (name, value)] = &content[..] else { panic!("{content:?}") };
    assert_eq!((&**name, *value), ("w.bin", 1));
    assert_eq!(BTreeSet::from([first.1, second.1]), BTreeSet::from([2, 3]));
    for (name, _) in [first, second] {
        assert!(name.starts_with("long%2Flong%2F") && name.len() <= 255, "{name}");
    }
    let note =
        extracted.notes.iter().map(ToString::to_string).find(|note| note.contains("too long")).unwrap();
    assert!(note.contains("and 1 more name ends in a hash too"), "{note}");
    // An archive has no such limit.
    let archive = folder.path().join("m.npz");
    extract(&model, &["*"], &archive, ExtractAllAs::Npz, |_| ()).unwrap();
    let seen = testkit::python(NUMPY, &[archive.to_str().unwrap()]);
    assert!(seen.lines().any(|line| line.starts_with(&long[1])), "{seen}");
}

/// numpy leaves out `.npy` and looks for the exact name first, so it would read `w` by the name `w.npy`.
#[test]
fn an_archive_has_no_two_arrays_of_one_name() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("m.npz");
    let path = folder.path().join("m.safetensors");
    let tensors = ["w", "w.npy", "x.npy"].map(|name| (name, View::new(&[1.0f32], [1]).unwrap()));
    save(&path, tensors, &Object::new()).unwrap();
    let model = Model::open(&path).unwrap();
    let error = extract(&model, &["w*"], &archive, ExtractAllAs::Npz, |_| ()).unwrap_err().to_string();
    assert!(error.contains("\"w.npy\"") && error.contains("which numpy would read"), "{error}");
    assert!(!archive.exists());
    extract(&model, &["w.npy", "x.npy"], &archive, ExtractAllAs::Npz, |_| ()).unwrap();
    let seen = testkit::python(NUMPY, &[archive.to_str().unwrap()]);
    assert!(["w.npy", "x.npy"].iter().all(|name| seen.lines().any(|line| line.starts_with(name))), "{seen}");
}

/// If a tensor cannot be written, or is damaged, or a file exists, none of the others is left behind.
#[test]
fn all_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let bf16 = Model::open(golden("reference/one-shard.aero")).unwrap();
    for (kind, name) in
        [(FOLDER, "out"), (ExtractAllAs::Npz, "m.npz"), (ExtractAllAs::Safetensors, "m.safetensors")]
    {
        let error = extract(&bf16, &["*"], &folder.path().join(name), kind, |_| ()).unwrap_err();
        assert!(matches!(error, Error::NotExtractable { .. } | Error::Unsupported { .. }), "{error}");
    }
    let damaged = folder.path().join("damaged.aero");
    let mut bytes = fs::read(golden("reference/one-shard.aero")).unwrap();
    bytes[1500] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let model = Model::open(&damaged).unwrap();
    for (kind, name) in
        [(FOLDER, "out"), (ExtractAllAs::Npz, "m.npz"), (ExtractAllAs::Safetensors, "m.safetensors")]
    {
        let error = extract(&model, &["int.*"], &folder.path().join(name), kind, |_| ()).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
    }
    assert_eq!(files(folder.path()), ["damaged.aero".to_owned()].into());

    fs::create_dir(&out).unwrap();
    fs::write(out.join("int.u16.npy"), "mine").unwrap();
    let error = extract(&bf16, &["int.*"], &out, FOLDER, |_| ()).unwrap_err();
    assert!(matches!(&error, Error::Exists { path } if path.ends_with("int.u16.npy")), "{error}");
    assert_eq!(files(&out), ["int.u16.npy".to_owned()].into());
    extract(&bf16, &["int.*"], &out, FOLDER, |options| options.overwrite = Overwrite::Replace).unwrap();
    assert_eq!(files(&out).len(), 7);
}

#[test]
fn tensors_without_data_are_left_out_unless_they_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::open(golden("reference/simple_model.oinf")).unwrap();
    let declared = model.tensors().find(|info| !info.has_data).unwrap().name.to_owned();
    let bin = ExtractAllAs::Folder(ExtractAs::Bin);
    let extracted = extract(&model, &["*"], &folder.path().join("a"), bin, |_| ()).unwrap();
    assert_eq!((extracted.tensors, extracted.notes.len()), (4, 1), "{:?}", extracted.notes);
    let error = extract(&model, &[&declared], &folder.path().join("b"), bin, |_| ()).unwrap_err();
    assert!(matches!(error, Error::NotExtractable { .. }), "{error}");
    let error = extract(&model, &["nothing.*"], &folder.path().join("b"), bin, |_| ()).unwrap_err();
    assert_eq!(error.code(), "nothing-selected");
}
