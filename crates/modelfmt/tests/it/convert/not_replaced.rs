//! Files that a conversion must not replace: its inputs, files of other sets, and other files next to OUT.

use std::fs;
use std::path::Path;

use modelfmt::Conversion;
use modelfmt::{DType, Error, Execution, Format, Model, VerifyLevel};
use modelfmt_write::Overwrite;

use super::common::{T, notes, options, safetensors, tensor, tensors};

fn source(count: usize) -> Model {
    let tensors: Vec<T> =
        ["a", "b", "c", "d"].iter().take(count).map(|name| tensor(name, DType::F32, &[100])).collect();
    safetensors(&tensors, "{}")
}

const SETS: [(Format, &str); 3] = [
    (Format::AeroSet, ".aeroset.json"),
    (Format::Apr2Sharded, ".apr"),
    (Format::SafetensorsSharded, ".safetensors.index.json"),
];

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Writes a set into a folder, with each tensor in its own file.
fn write_set(folder: &Path, (format, ending): (Format, &str), stem: &str, count: usize) -> Vec<String> {
    let path = folder.join(format!("{stem}{ending}"));
    let options = options(|o| {
        o.output.overwrite = Overwrite::Replace;
        o.output.shard_size = Some(1);
    });
    let done = Conversion::new(&source(count), path).to(format).options(&options).write().unwrap();
    let mut files: Vec<String> = done.files.into_iter().map(|file| file.path).collect();
    files.sort();
    files
}

fn assert_sound(path: &Path, count: usize) {
    let model = Model::open(path).unwrap();
    let report = model.verify(VerifyLevel::Full);
    assert!(report.is_ok(), "{}: {:?}", path.display(), report.errors);
    assert_eq!(tensors(&model), tensors(&source(count)));
}

/// Returns the bytes of every file in a folder.
fn bytes(folder: &Path) -> Vec<(String, Vec<u8>)> {
    names(folder).into_iter().map(|name| (name.clone(), fs::read(folder.join(name)).unwrap())).collect()
}

fn refused(result: Result<modelfmt::convert::Converted, Error>, path: &Path, what: &str) {
    match result {
        Err(error @ Error::Write { .. }) => {
            let text = error.to_string();
            assert!(text.starts_with(&path.display().to_string()) && text.contains(what), "{text}");
        }
        other => panic!("{}: {other:?}", path.display()),
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_is_read_is_never_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let once = options(|o| o.output.overwrite = Overwrite::Replace);
    Conversion::new(&source(2), path("in")).to(Format::Safetensors).options(&once).write().unwrap();
    fs::hard_link(path("in"), path("hard")).unwrap();
    std::os::unix::fs::symlink("in", path("soft")).unwrap();
    fs::create_dir(path("sub")).unwrap();
    let before = bytes_of(&path("in"));
    let model = Model::open(path("soft")).unwrap();
    for out in ["in", "hard", "soft", "sub/../in"] {
        let done = Conversion::new(&model, path(out)).to(Format::Safetensors).options(&once).write();
        refused(done, &path(out), "input");
    }
    assert_eq!((bytes_of(&path("in")), names(folder.path()).len()), (before, 4));
    // An input that was only named in the options.
    let named = options(|o| {
        o.output.overwrite = Overwrite::Replace;
        o.output.inputs = vec![path("other")];
    });
    fs::write(path("other"), "x").unwrap();
    refused(
        Conversion::new(&model, path("other")).to(Format::Mag).options(&named).write(),
        &path("other"),
        "input",
    );
    // A model in memory has no file, whatever its name.
    let name = path("in").display().to_string();
    let memory = Model::from_source(&name, fs::read(path("in")).unwrap()).unwrap();
    Conversion::new(&memory, path("in")).to(Format::Safetensors).options(&once).write().unwrap();
}

#[cfg(unix)]
fn bytes_of(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

#[test]
fn a_part_of_the_input_is_never_replaced() {
    for set in SETS {
        let folder = tempfile::tempdir().unwrap();
        let files = write_set(folder.path(), set, "m", 3);
        let index = folder.path().join(format!("m{}", set.1));
        let before = bytes(folder.path());
        let model = Model::open(&index).unwrap();
        // Into itself, and a single file in place of each of its files.
        let again = options(|o| {
            o.output.overwrite = Overwrite::Replace;
            o.output.shard_size = Some(1);
        });
        let done = Conversion::new(&model, &index).to(set.0).options(&again).write();
        refused(done, &index, "input");
        let once = options(|o| o.output.overwrite = Overwrite::Replace);
        for file in &files {
            let out = folder.path().join(file);
            refused(Conversion::new(&model, &out).to(Format::Mag).options(&once).write(), &out, "input");
        }
        assert_eq!(bytes(folder.path()), before);
    }
}

#[test]
fn sets_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    for set in SETS {
        for stem in ["a", "b", "a.b"] {
            all.extend(write_set(folder.path(), set, stem, 3));
        }
    }
    all.sort();
    assert_eq!(names(folder.path()), all);
    for (_, ending) in SETS {
        ["a", "b", "a.b"]
            .iter()
            .for_each(|stem| assert_sound(&folder.path().join(format!("{stem}{ending}")), 3));
    }
    assert!(
        all.contains(&"a.index.aero".to_owned()) && all.contains(&"b.part-002.aero".to_owned()),
        "{all:?}"
    );
}

#[test]
fn a_file_of_another_set_is_never_replaced() {
    for set in SETS {
        let folder = tempfile::tempdir().unwrap();
        let files = write_set(folder.path(), set, "m", 3);
        let index = folder.path().join(format!("m{}", set.1));
        let before = bytes(folder.path());
        let once = options(|o| o.output.overwrite = Overwrite::Replace);
        for file in files.iter().filter(|file| !index.ends_with(file)) {
            let out = folder.path().join(file);
            let done = Conversion::new(&source(1), &out).to(Format::Mag).options(&once).write();
            refused(done, &out, &format!("m{}", set.1));
        }
        // Another index whose files would have the same names.
        if set.0 != Format::SafetensorsSharded {
            let out = folder.path().join("m.json");
            let again = options(|o| {
                o.output.overwrite = Overwrite::Replace;
                o.output.shard_size = Some(1);
            });
            let done = Conversion::new(&source(3), &out).to(set.0).options(&again).write();
            let Err(Error::Write { path, source }) = done else { panic!("{done:?}") };
            assert!(files.iter().any(|file| path.ends_with(file)), "{}", path.display());
            assert!(source.to_string().contains(&format!("m{}", set.1)), "{source}");
        }
        assert_eq!(bytes(folder.path()), before);
        assert_sound(&index, 3);
    }
}

/// A writer that is killed while it names the files of a set leaves its index as a temporary file, next to
/// files with their final names.
#[test]
fn a_set_that_was_cut_off_is_written_again() {
    for set in SETS {
        let folder = tempfile::tempdir().unwrap();
        write_set(folder.path(), set, "m", 3);
        let index = folder.path().join(format!("m{}", set.1));
        let partial = folder.path().join(".modelfmt-0123456789abcdef-00000001.partial");
        fs::rename(&index, &partial).unwrap();
        // As long as its writer is alive, its files are a set.
        let writer = fs::File::open(&partial).unwrap();
        writer.lock().unwrap();
        let again = options(|o| (o.output.overwrite, o.output.shard_size) = (Overwrite::Replace, Some(1)));
        let begun = Conversion::new(&source(3), &index).to(set.0).options(&again).write();
        assert!(begun.unwrap_err().to_string().contains("it is a file of the set"));
        drop(writer);
        write_set(folder.path(), set, "m", 3);
        assert_sound(&index, 3);
    }
}

#[test]
fn what_a_shorter_set_leaves_is_removed_with_the_old_index() {
    for set in SETS {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let long = write_set(folder.path(), set, "m", 4);
        // One of the files also belongs to another set, and one file belongs to no set.
        let shared = long.iter().rfind(|file| !file.ends_with(set.1) || file.contains("-of-")).unwrap();
        fs::write(path("other.json"), format!(r#"{{"weight_map": {{"w": "{shared}"}}}}"#)).unwrap();
        fs::write(path("m-notes.txt"), "mine").unwrap();
        let name = format!("m{}", set.1);
        let text = fs::read_to_string(path(&name)).unwrap();
        let text = text.replacen('{', r#"{"parts": [{"path": "m-notes.txt"}],"#, 1);
        let hostile = set.0 != Format::AeroSet;
        if hostile {
            fs::write(path(&name), text).unwrap();
        }
        let options = options(|o| {
            o.output.overwrite = Overwrite::Replace;
            o.output.shard_size = Some(1);
        });
        let done = Conversion::new(&source(2), path(&name)).to(set.0).options(&options).write();
        // APR2 and safetensors have the number of files in their names, so all old files are stale. AEROSET
        // overwrites its files.
        let done = done.unwrap();
        assert_sound(&path(&name), 2);
        let mut expected: Vec<String> = done.files.iter().map(|file| file.path.clone()).collect();
        expected.extend(["other.json".to_owned(), "m-notes.txt".to_owned(), shared.clone()]);
        expected.sort();
        assert_eq!(names(folder.path()), expected);
        let removed = notes(&done).iter().filter(|note| note.contains("removed")).count();
        assert_eq!(removed, if set.0 == Format::AeroSet { 1 } else { 3 }, "{:?}", notes(&done));

        // A single file in place of the index.
        let once = self::options(|o| o.output.overwrite = Overwrite::Replace);
        Conversion::new(&source(1), path(&name)).to(Format::Safetensors).options(&once).write().unwrap();
        let mut expected = vec![name, "other.json".to_owned(), "m-notes.txt".to_owned(), shared.clone()];
        expected.sort();
        assert_eq!(names(folder.path()), expected);
    }
}

#[test]
fn a_set_of_which_a_file_exists_is_refused_before_any_work() {
    for set in SETS {
        let folder = tempfile::tempdir().unwrap();
        let files = write_set(folder.path(), set, "m", 2);
        let index = folder.path().join(format!("m{}", set.1));
        for file in &files {
            let before = bytes(folder.path());
            for other in files.iter().filter(|other| *other != file) {
                fs::rename(folder.path().join(other), folder.path().join(format!("{other}.away"))).unwrap();
            }
            let count = |_| panic!("work was done");
            let work = Execution { threads: 1, progress: Some(&count) };
            let options = options(|o| o.output.shard_size = Some(1));
            let error = Conversion::new(&source(2), &index)
                .to(set.0)
                .options(&options)
                .execution(&work)
                .write()
                .unwrap_err();
            assert!(matches!(&error, Error::Exists { path } if path.ends_with(file)), "{error:?}");
            for other in files.iter().filter(|other| *other != file) {
                fs::rename(folder.path().join(format!("{other}.away")), folder.path().join(other)).unwrap();
            }
            assert_eq!(bytes(folder.path()), before);
        }
    }
}

#[test]
fn names_that_cannot_be_are_refused_and_long_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let long = format!("{}.mag", "m".repeat(251));
    Conversion::new(&source(1), path(&long)).to(Format::Mag).write().unwrap();
    assert_eq!(names(folder.path()), [long.as_str()]);
    let count = |_| panic!("work was done");
    let work = Execution { threads: 1, progress: Some(&count) };
    let longer = path(&format!("{}.mag", "m".repeat(252)));
    Conversion::new(&source(1), &longer).to(Format::Mag).execution(&work).write().unwrap_err();
    for (format, ending) in SETS {
        // The name of the index is short enough, but the names of its files are not.
        let out = path(&format!("{}{ending}", "m".repeat(255 - ending.len())));
        let options = options(|o| o.output.shard_size = Some(1));
        Conversion::new(&source(2), &out).to(format).options(&options).execution(&work).write().unwrap_err();
    }
    assert_eq!(names(folder.path()), [long]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_set_has_the_name_that_was_asked_for_or_none() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    for (format, ending) in SETS {
        let name = [b"m\xff", ending.as_bytes()].concat();
        let out = folder.path().join(std::ffi::OsStr::from_bytes(&name));
        let options = options(|o| o.output.shard_size = Some(1));
        let error = Conversion::new(&source(1), &out).to(format).options(&options).write().unwrap_err();
        assert!(error.to_string().contains("UTF-8"), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // A single file may have any name.
    let out = folder.path().join(std::ffi::OsStr::from_bytes(b"m\xff.mag"));
    Conversion::new(&source(1), &out).to(Format::Mag).write().unwrap();
    assert_eq!(tensors(&Model::open(out).unwrap()), tensors(&source(1)));
}
