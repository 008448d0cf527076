//! Edits in every format: metadata has the values that were set, tensors are unchanged, and every checksum of
//! the file is right.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "this is test code")]

mod sets;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use modelfmt::convert::Overwrite;
use modelfmt::convert::RenameRule;
use modelfmt::edit::{Edit, Edited};
use modelfmt::edit::{EditMethod, EditOptions, NewValue};
use modelfmt::modelfmt_core::value::{Object, Value, json};
use modelfmt::{Error, Execution, Format, Model, VerifyLevel, View, edit};
use proptest::prelude::*;

/// Returns every golden file, including those of the formats' own tools.
fn files() -> Vec<PathBuf> {
    let folders = ["aero", "apr", "apr2", "gguf", "mag", "oinf", "safetensors"];
    let all = folders.iter().flat_map(|name| [(*name).to_owned(), format!("reference/{name}")]);
    let files = all.chain(["reference".to_owned()]).flat_map(|folder| {
        let entries = fs::read_dir(testkit::testdata(&folder)).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect::<Vec<_>>()
    });
    let models = |path: &PathBuf| modelfmt::folder::probe(path).is_ok_and(|look| look.format.is_some());
    let mut files: Vec<PathBuf> = files.filter(models).collect();
    files.sort();
    files
}

/// Returns the values of all tensors by name, and the findings of `verify`.
fn content(path: &Path) -> (Vec<(String, Vec<u8>)>, Vec<String>) {
    let model = Model::open(path).unwrap();
    let value = |position: usize| match model.tensor(position) {
        Ok(view) => format!("{} {:?} {:?}", view.dtype(), view.shape(), view.bytes()).into_bytes(),
        Err(_) => b"none".to_vec(), // it is declared, or broken
    };
    let names = model.tensors().map(|info| info.name.to_owned());
    let values = names.enumerate().map(|(position, name)| (name, value(position))).collect();
    let report = modelfmt::verify(path, VerifyLevel::Full, &Execution::default()).report;
    (values, report.errors)
}

fn copied(from: &Path, into: &Path) -> PathBuf {
    let path = into.join(from.file_name().unwrap());
    fs::copy(from, &path).unwrap();
    path
}

/// Returns the metadata of a file by key, in the format's own form.
fn metadata(path: &Path) -> Object {
    let model = Model::open(path).unwrap();
    let own = model.metadata().unwrap();
    if model.format() == Format::Aero {
        return own.get("json").and_then(Value::as_object).cloned().unwrap_or_default();
    }
    own.as_object().cloned().unwrap_or_default()
}

fn run(path: &Path, options: &EditOptions) -> Result<Edited, Error> {
    edit(path, options, &Execution::default())
}

/// Sorts the names and values.
fn sorted(mut values: Vec<(String, Vec<u8>)>) -> Vec<(String, Vec<u8>)> {
    values.sort();
    values
}

#[test]
fn every_file_can_be_edited_or_says_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let (mut edited, mut refused) = (0, Vec::new());
    for source in files() {
        let path = copied(&source, folder.path());
        let Ok(model) = Model::open(&path) else { continue };
        let format = model.format();
        let (before, found) = content(&path);
        let old = metadata(&path);
        drop(model);
        let mut options = EditOptions::default();
        options.set.push(("a.new-key".to_owned(), NewValue::Text("7".to_owned())));
        let short = before.iter().map(|(name, _)| name).filter(|name| name.len() < 40 && !name.contains('*'));
        let short: Vec<&String> = short.filter(|name| !name.is_empty()).take(9).collect();
        let rule = |name: &&String| RenameRule::new(name.as_str(), format!("X.{name}")).unwrap();
        options.rename.extend(short.iter().map(rule));
        match run(&path, &options) {
            Ok(done) => {
                edited += 1;
                assert_ne!(done.method, EditMethod::Unchanged, "{}", source.display());
                assert_eq!(done.renamed, short.len());
            }
            Err(error) => {
                let text = error.to_string() + &source_of(&error);
                let known = [
                    "only read",
                    "big-endian",
                    "compressed",
                    "Unsupported",
                    "cannot be edited",
                    "no tensors",
                    "list of tensors",
                    "one of gguf",
                    "MJSN",
                ];
                assert!(known.iter().any(|known| text.contains(known)), "{}: {text}", source.display());
                assert_eq!(content(&path), (before, found), "{}", source.display());
                refused.push(format!("{}: {text}", source.display()));
                continue;
            }
        }
        let (after, still) = content(&path);
        let new = |name: &String| if short.contains(&name) { format!("X.{name}") } else { name.clone() };
        let expected = before.iter().map(|(name, value)| (new(name), value.clone())).collect();
        assert_eq!(sorted(after), sorted(expected), "{}", source.display());
        // A file that was sound still is, and there are no new findings.
        assert!(still.len() <= found.len(), "{}: {still:?} and not {found:?}", source.display());
        let new = metadata(&path);
        let expected = match format {
            Format::Safetensors => Value::from("7"),
            Format::Oinf => json::parse(br#"{"type":"i64","value":7}"#).unwrap(),
            _ => Value::from(7),
        };
        assert_eq!(new.get("a.new-key"), Some(&expected), "{}", source.display());
        for (key, value) in &old {
            assert_eq!(new.get(key), Some(value), "{}: {key}", source.display());
        }
        // And back: a file from which metadata is removed has room, and its metadata is what it was.
        let mut back = EditOptions::default();
        back.unset.push("a.new-key".to_owned());
        back.rename
            .extend(options.rename.iter().map(|rule| RenameRule::new(rule.new_name(), rule.old()).unwrap()));
        run(&path, &back).unwrap();
        assert_eq!(sorted(content(&path).0), sorted(before), "{}", source.display());
        assert_eq!(metadata(&path), old, "{}", source.display());
    }
    assert!(edited > 60, "{edited}; {refused:#?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), copied_names().len());
}

fn copied_names() -> std::collections::BTreeSet<String> {
    files().iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

fn source_of(error: &Error) -> String {
    let mut text = String::new();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(&format!("; {inner}"));
        cause = inner.source();
    }
    text
}

/// Writes a file with the format's own writer, with tensors of these names and lengths.
fn written(format: Format, folder: &Path, tensors: &[(String, usize)], numbers: &[(String, i64)]) -> PathBuf {
    let values: Vec<Vec<f32>> = tensors.iter().map(|(_, len)| vec![1.5; *len]).collect();
    let views = tensors.iter().zip(&values);
    let views: Vec<_> = views
        .map(|((name, len), values)| (name.as_str(), View::new(values, [*len as u64]).unwrap()))
        .collect();
    let mut metadata = Object::new();
    for (key, number) in numbers {
        metadata.insert(key.as_str(), held(format, *number));
    }
    if matches!(format, Format::Apr | Format::Apr2) {
        metadata.insert("model_type", "test");
    }
    if format == Format::Apr2 {
        metadata.insert("architecture", "test");
    }
    let path = folder.join("m.model");
    let _ = fs::remove_file(&path);
    modelfmt::convert::save_as(format, &path, views, &metadata).unwrap();
    path
}

/// Returns a number in the form in which the format holds it.
fn held(format: Format, number: i64) -> Value {
    match format {
        Format::Safetensors => number.to_string().into(),
        _ => number.into(),
    }
}

const FORMATS: [Format; 7] =
    [Format::Aero, Format::Mag, Format::Oinf, Format::Apr2, Format::Apr, Format::Safetensors, Format::Gguf];

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn edits_of_any_model_are_what_was_asked_for(
        format in proptest::sample::select(&FORMATS[..]),
        tensors in proptest::collection::btree_map("[a-z][a-z0-9.]{0,12}", 1usize..40, 1..6),
        numbers in proptest::collection::btree_map("k[.][a-z]{1,9}", any::<i32>().prop_map(i64::from), 0..5),
        edits in proptest::collection::vec(
            (proptest::collection::btree_map("k[.][a-z]{1,9}", any::<i32>().prop_map(i64::from), 0..4), any::<prop::sample::Index>(), "[a-z]{0,3}"),
            1..4,
        ),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let numbers: Vec<_> = numbers.into_iter().collect();
        let tensors: Vec<_> = tensors.into_iter().collect();
        let path = written(format, folder.path(), &tensors, &numbers);
        let mut expected: BTreeMap<String, i64> = numbers.into_iter().collect();
        let mut values = content(&path).0;
        for (set, gone, prefix) in edits {
            let mut options = EditOptions::default();
            for (number, (key, value)) in set.iter().enumerate() {
                let given = match number % 2 {
                    0 => NewValue::Text(value.to_string()),
                    _ => NewValue::Value(held(format, *value)),
                };
                options.set.push((key.clone(), given));
            }
            if !expected.is_empty() {
                let gone = expected.keys().nth(gone.index(expected.len())).unwrap().clone();
                expected.remove(&gone);
                options.unset.push(gone);
            }
            expected.extend(set);
            options.rename.push(format!("*={prefix}*").parse().unwrap());
            values.iter_mut().for_each(|(name, _)| name.insert_str(0, &prefix));
            run(&path, &options).unwrap();
            let (after, found) = content(&path);
            prop_assert!(found.is_empty(), "{format}: {found:?}");
            prop_assert_eq!(sorted(after), sorted(values.clone()));
            let found = metadata(&path);
            let numbers = found.iter().filter(|(key, _)| key.starts_with("k."));
            let number = |value: &Value| value.to_plain().as_i64().or_else(|| value.as_str()?.parse().ok());
            let numbers: BTreeMap<String, i64> =
                numbers.map(|(key, value)| (key.to_owned(), number(value).unwrap())).collect();
            prop_assert_eq!(numbers, expected.clone(), "{}", format);
        }
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        prop_assert_eq!(left.len(), 1, "{:?}", left);
    }
}

fn one(format: Format, folder: &Path) -> PathBuf {
    let tensors = [("a".to_owned(), 3), ("b".to_owned(), 5), ("c".to_owned(), 2)];
    written(format, folder, &tensors, &[("k.one".to_owned(), 1)])
}

#[test]
fn tensors_go_and_leave_everything_else() {
    for format in FORMATS {
        let folder = tempfile::tempdir().unwrap();
        let path = one(format, folder.path());
        let mut options = EditOptions::default();
        options.drop.push("b".to_owned());
        // The name of a removed tensor is free.
        options.rename.push("c=b".parse().unwrap());
        options.set.push(("k.two".to_owned(), NewValue::Text("2".to_owned())));
        let before = content(&path).0;
        let edited = run(&path, &options).unwrap();
        assert_eq!((edited.method, edited.dropped, edited.renamed), (EditMethod::Written, 1, 1), "{format}");
        let (after, found) = content(&path);
        assert!(found.is_empty(), "{format}: {found:?}");
        let of = |name: &str| before.iter().find(|(known, _)| known == name).unwrap().1.clone();
        assert_eq!(sorted(after), [("a".to_owned(), of("a")), ("b".to_owned(), of("c"))], "{format}");
        let metadata = metadata(&path);
        assert_eq!(metadata.get("k.two").map(|two| two.to_plain()), Some(held(format, 2)), "{format}");
        assert!(metadata.contains_key("k.one"));
        options.drop = vec!["z*".to_owned()];
        assert!(matches!(run(&path, &options), Err(Error::NoMatch { .. })));
    }
}

/// A dry run reports the same as the edit, or fails like the edit, and writes nothing.
#[test]
fn a_dry_run_does_all_but_write() {
    let drop_b = || {
        let mut options = EditOptions::default();
        options.drop.push("b".to_owned());
        options
    };
    for format in FORMATS {
        let folder = tempfile::tempdir().unwrap();
        let path = one(format, folder.path());
        let (bytes, work) = (fs::read(&path).unwrap(), Execution::default());
        let dry = |out| Edit::new(&path, &drop_b()).unwrap().dry_run(out, Overwrite::Refuse, &work);
        let planned = dry(None).unwrap();
        let nowhere = folder.path().join("nowhere").join("m");
        assert!(matches!(dry(Some(&nowhere)), Err(Error::Write { .. })), "{format}");
        assert!(matches!(dry(Some(&path)), Err(Error::Usage { .. })), "{format}");
        assert_eq!((&fs::read(&path).unwrap(), fs::read_dir(folder.path()).unwrap().count()), (&bytes, 1));
        let mut edited = run(&path, &drop_b()).unwrap();
        edited.changed_nbytes = 0;
        assert_eq!(planned, edited, "{format}");
    }
    // The hash of values that would be copied is checked.
    let folder = tempfile::tempdir().unwrap();
    let path = one(Format::Aero, folder.path());
    let place = Model::open(&path).unwrap().container().location(0).unwrap().offset.unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[usize::try_from(place).unwrap()] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let dry = Edit::new(&path, &drop_b()).unwrap().dry_run(None, Overwrite::Replace, &Execution::default());
    assert!(matches!(dry, Err(Error::Damaged { .. })), "{dry:?}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn another_file_is_written_and_the_old_one_stays() {
    for format in FORMATS {
        let folder = tempfile::tempdir().unwrap();
        let path = one(format, folder.path());
        let bytes = fs::read(&path).unwrap();
        let mut options = EditOptions::default();
        options.rename.push("*=x.*".parse().unwrap());
        let out = folder.path().join("out");
        let write =
            |overwrite| Edit::new(&path, &options).unwrap().write_to(&out, overwrite, &Execution::default());
        assert_eq!(write(Overwrite::Refuse).unwrap().method, EditMethod::NewFile);
        assert!(matches!(write(Overwrite::Refuse), Err(Error::Exists { .. })));
        write(Overwrite::Replace).unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes);
        assert!(content(&out).1.is_empty());
        assert!(content(&out).0.iter().all(|(name, _)| name.starts_with("x.")));
        let same = Edit::new(&path, &options).unwrap();
        assert!(same.write_to(&path, Overwrite::Replace, &Execution::default()).unwrap_err().is_usage());
        // Nor is a file replaced that is read with this one.
        let signature = folder.path().join(format!("{}.sig", path.file_name().unwrap().display()));
        fs::write(&signature, "signed").unwrap();
        let edit = Edit::new(&path, &options).unwrap();
        let refused = edit.write_to(&signature, Overwrite::Replace, &Execution::default()).unwrap_err();
        assert!(refused.to_string().contains("is read with the file that is edited"), "{refused}");
        assert_eq!(fs::read_to_string(&signature).unwrap(), "signed");
    }
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    for format in FORMATS {
        let folder = tempfile::tempdir().unwrap();
        let path = one(format, folder.path());
        let bytes = fs::read(&path).unwrap();
        let refused = |change: &dyn Fn(&mut EditOptions)| {
            let mut options = EditOptions::default();
            change(&mut options);
            let error = run(&path, &options).unwrap_err();
            assert_eq!(fs::read(&path).unwrap(), bytes);
            error
        };
        let unset = refused(&|options| options.unset.push("k.onee".to_owned()));
        assert!(unset.to_string().contains("did you mean \"k.one\""), "{unset}");
        for (key, is_noted) in [("k.onee", true), ("something", false)] {
            let mut options = EditOptions::default();
            options.set.push((key.to_owned(), NewValue::Text("1".to_owned())));
            let edit = Edit::new(&path, &options).unwrap();
            let copy = folder.path().join(format!("{key}.copy"));
            let edited = edit.write_to(&copy, Overwrite::Refuse, &Execution::default()).unwrap();
            let notes = edited.notes.iter().map(ToString::to_string).collect::<String>();
            assert_eq!(
                notes.contains("\"k.onee\" is a new key, and the file has \"k.one\""),
                is_noted,
                "{notes}"
            );
        }
        assert!(matches!(refused(&|o| o.rename.push("a=b".parse().unwrap())), Error::SameName { .. }));
        assert!(matches!(refused(&|o| o.rename.push("z=b".parse().unwrap())), Error::NoMatch { .. }));
        let null = |o: &mut EditOptions| o.set.push(("k.n".to_owned(), NewValue::Value(Value::Null)));
        if !matches!(format, Format::Aero | Format::Apr | Format::Apr2) {
            assert!(matches!(refused(&null), Error::Refused { .. }), "{format}");
        }
        let mut nothing = EditOptions::default();
        nothing.set.push(("k.one".to_owned(), NewValue::Text("1".to_owned())));
        assert_eq!(run(&path, &nothing).unwrap().method, EditMethod::Unchanged, "{format}");
    }
}

/// Metadata that determines the meaning of the values cannot be changed alone.
#[test]
fn metadata_that_place_values_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = one(Format::Gguf, folder.path());
    let mut options = EditOptions::default();
    options.set.push(("general.alignment".to_owned(), NewValue::Text("64".to_owned())));
    assert!(matches!(run(&path, &options), Err(Error::Refused { .. })));
    let path = one(Format::Aero, folder.path());
    options.set = vec![("source_format".to_owned(), NewValue::Text("gguf".to_owned()))];
    options.set.push(("k".to_owned(), NewValue::Text("1".to_owned())));
    let before = content(&path);
    // Shapes of one dimension are the same in both orders.
    run(&path, &options).unwrap();
    assert_eq!(content(&path), before);
    let path = copied(&testkit::testdata("aero/shapes.aero"), folder.path());
    assert!(matches!(run(&path, &options), Err(Error::NotEditable { .. })));
}

/// Writes the journal of an edit of this file that was interrupted before it changed the first byte.
fn interrupt(path: &Path) {
    let bytes = fs::read(path).unwrap();
    let journal = testkit::journal::of_one(bytes.len() as u64, 0, &bytes[..1], &[!bytes[0]]);
    fs::write(modelfmt_write::edit::journal_path(path), journal).unwrap();
}

#[test]
fn a_file_whose_edit_was_interrupted_is_not_read_before_it_is_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = one(Format::Safetensors, folder.path());
    let journal = modelfmt_write::edit::journal_path(&path);
    interrupt(&path);
    let error = Model::open(&path).unwrap_err();
    assert!(matches!(error, Error::Interrupted { .. }) && error.code() == "interrupted");
    let mut options = EditOptions::default();
    options.set.push(("k".to_owned(), NewValue::Text("v".to_owned())));
    // Planning an edit, as a dry run does, restores nothing.
    let bytes = fs::read(&path).unwrap();
    assert_eq!(Edit::new(&path, &options).unwrap_err().code(), "interrupted");
    assert!(journal.exists() && fs::read(&path).unwrap() == bytes);
    let edited = run(&path, &options).unwrap();
    assert!(edited.notes.iter().any(|note| note.text.contains("undone")), "{:?}", edited.notes);
    assert!(!journal.exists() && Model::open(&path).is_ok());
}

#[test]
fn an_outboard_of_before_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = one(Format::Safetensors, folder.path());
    modelfmt::outboard::outboard(&path, Overwrite::Refuse, &Execution::default()).unwrap();
    let mut options = EditOptions::default();
    options.set.push(("k".to_owned(), NewValue::Text("v".to_owned())));
    let edited = run(&path, &options).unwrap();
    assert!(edited.notes.iter().any(|note| note.text.contains("outboard")), "{:?}", edited.notes);
}

/// What a conversion left to be restored follows the edit.
#[test]
fn a_model_comes_back_with_what_was_edited() {
    let folder = tempfile::tempdir().unwrap();
    let source = testkit::testdata("gguf/arrays.gguf");
    let (there, back) = (folder.path().join("m.aero"), folder.path().join("m.gguf"));
    let convert = |from: &Path, to: Format, out: &Path| {
        let model = Model::open(from).unwrap();
        modelfmt::Conversion::new(&model, out).to(to).write().unwrap();
    };
    convert(&source, Format::Aero, &there);
    let before = metadata(&source);
    let gone = before.keys().next().unwrap().to_owned();
    let mut options = EditOptions::default();
    options.set.push((gone.clone(), NewValue::Text("\"other\"".to_owned())));
    run(&there, &options).unwrap();
    convert(&there, Format::Gguf, &back);
    assert_eq!(metadata(&back).get(&gone), Some(&Value::from("other")));
    for (key, value) in before.iter().filter(|(key, _)| *key != gone) {
        assert_eq!(metadata(&back).get(key), Some(value), "{key}");
    }
}

/// Reserved room is used: every edit is in place until the room is full.
#[test]
fn room_that_was_left_is_used() {
    for format in FORMATS {
        let folder = tempfile::tempdir().unwrap();
        let (path, roomy) = (one(format, folder.path()), folder.path().join("roomy"));
        let mut options = modelfmt::convert::ConvertOptions::default();
        options.output.reserve = Some(2000);
        let model = Model::open(&path).unwrap();
        let converted = modelfmt::Conversion::new(&model, &roomy).to(format).options(&options).write();
        if format == Format::Oinf {
            assert!(converted.unwrap_err().is_usage());
            continue;
        }
        converted.unwrap();
        let values = content(&path).0;
        assert_eq!((content(&roomy).0, content(&roomy).1), (values.clone(), Vec::new()), "{format}");
        let len = fs::metadata(&roomy).unwrap().len();
        for (round, how) in [
            (20, EditMethod::InPlace),
            (40, EditMethod::InPlace),
            (10, EditMethod::InPlace),
            (2000, EditMethod::NewFile),
        ] {
            let mut options = EditOptions::default();
            for number in 0..round {
                let key = if format == Format::Mag { format!("k.{number}") } else { format!("k{number}") };
                options.set.push((key, NewValue::Value(held(format, 7))));
            }
            let edited = run(&roomy, &options).unwrap();
            let is_known = edited.method == how || (round == 10 && edited.method == EditMethod::Unchanged);
            assert!(is_known, "{format} {round}: {:?}", edited.method);
            assert_eq!((content(&roomy).0, content(&roomy).1), (values.clone(), Vec::new()), "{format}");
            assert!(
                edited.method == EditMethod::NewFile || fs::metadata(&roomy).unwrap().len() == len,
                "{format}"
            );
        }
    }
}

/// Copies the files of a set into a folder.
fn copied_set(files: &[&str], folder: &Path) -> Vec<PathBuf> {
    files.iter().map(|file| copied(&testkit::testdata(file), folder)).collect()
}

const SAFETENSORS_SET: [&str; 6] = [
    "safetensors/set.safetensors.index.json",
    "safetensors/set-00001-of-00005.safetensors",
    "safetensors/set-00002-of-00005.safetensors",
    "safetensors/set-00003-of-00005.safetensors",
    "safetensors/set-00004-of-00005.safetensors",
    "safetensors/set-00005-of-00005.safetensors",
];

#[test]
fn a_file_of_a_set_is_not_edited_alone() {
    let folder = tempfile::tempdir().unwrap();
    let paths = copied_set(&SAFETENSORS_SET, folder.path());
    let bytes = fs::read(&paths[1]).unwrap();
    let mut options = EditOptions::default();
    options.set.push(("k".to_owned(), NewValue::Text("v".to_owned())));
    let error = run(&paths[1], &options).unwrap_err();
    assert!(matches!(&error, Error::NotEditable { why, .. } if why.contains("set.safetensors.index.json")));
    assert_eq!(fs::read(&paths[1]).unwrap(), bytes);
    fs::remove_file(&paths[0]).unwrap();
    run(&paths[1], &options).unwrap();
}

#[test]
fn a_set_is_not_read_through_a_file_that_is_being_edited() {
    let folder = tempfile::tempdir().unwrap();
    let paths = copied_set(&SAFETENSORS_SET, folder.path());
    interrupt(&paths[3]);
    let model = Model::open(&paths[0]).unwrap();
    let text = model.open_all().unwrap_err();
    let text = text.to_string() + &source_of(&text);
    assert!(text.contains("interrupted") && text.contains("set-00003"), "{text}");
}

#[test]
fn keys_go_by_patterns_that_are_no_keys_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    // AERO's metadata has parts named json and manifest; here these are ordinary keys.
    let keys = ["format", "json", "manifest", "ss_a", "ss_*", "ss_b"].map(|key| (key, "1"));
    modelfmt::save(&path, [("w", View::new(&[1.0f32], [1]).unwrap())], &Object::from_iter(keys)).unwrap();
    let unset = |keys: &[&str]| {
        let mut options = EditOptions::default();
        options.unset.extend(keys.iter().map(|&key| key.to_owned()));
        edit(&path, &options, &Execution::default())
    };
    assert_eq!(unset(&["ss_*"]).unwrap().unset, 1);
    assert_eq!(unset(&["ss_[ab]", "*_b"]).unwrap().unset, 2);
    assert_eq!(metadata(&path).keys().collect::<Vec<_>>(), ["format", "json", "manifest"]);
    for nothing in ["ss_*", "["] {
        assert!(matches!(unset(&[nothing]).unwrap_err(), Error::NoSuchKey { key, .. } if key == nothing));
    }
}

/// A program that expects u32 does not read other types.
#[cfg(feature = "gguf")]
#[test]
fn a_value_keeps_its_type_or_a_note_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let keys: Object =
        [("n", Value::from(-7)), ("x", Value::from(0.5)), ("text", Value::from("1"))].into_iter().collect();
    modelfmt::save(&path, [("w", View::new(&[1.0f32], [1]).unwrap())], &keys).unwrap();
    let set = |key: &str, value: Value| {
        let mut options = EditOptions::default();
        options.set.push((key.to_owned(), NewValue::Value(value)));
        let notes = edit(&path, &options, &Execution::default()).unwrap().notes;
        notes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    // Each of these would have another type if the key were new.
    assert!(set("n", Value::from(7)).is_empty() && set("x", Value::from(2)).is_empty());
    assert!(set("n", Value::from(-7)).is_empty() && set("text", Value::from("2")).is_empty());
    let notes = set("text", Value::from(2.5));
    assert_eq!(
        notes,
        [r#"metadata key "text" had the type string and has f64 now; programs may ask for string"#]
    );
    assert!(set("n", Value::from("x"))[0].contains("had the type i32 and has string now"));
}

#[cfg(feature = "gguf")]
#[test]
fn a_note_names_each_removed_key_that_llama_cpp_needs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let keys: Object = [("general.architecture", "llama"), ("general.name", "x"), ("llama.block_count", "1")]
        .map(|(key, value)| (key, Value::from(value)))
        .into_iter()
        .collect();
    modelfmt::save(&path, [("w", View::new(&[1.0f32], [1]).unwrap())], &keys).unwrap();
    let mut options = EditOptions::default();
    options.unset = vec!["general.*".to_owned(), "llama.block_count".to_owned()];
    let notes = edit(&path, &options, &Execution::default()).unwrap().notes;
    let notes: Vec<_> = notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        ["general.architecture", "llama.block_count"]
            .map(|key| format!("llama.cpp does not load a GGUF file without {key:?}"))
    );
}

/// Returns the number of read calls of this thread.
#[cfg(target_os = "linux")]
fn reads() -> u64 {
    let counts = fs::read_to_string("/proc/thread-self/io").unwrap();
    let count = counts.lines().find_map(|line| line.strip_prefix("syscr: "));
    count.unwrap().parse().unwrap()
}

/// In addition to a write of one page and its flush, every system call counts.
#[cfg(target_os = "linux")]
#[test]
fn an_edit_of_one_page_reads_the_file_as_few_times_as_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    modelfmt::save(&path, [("w", View::new(&[1.0f32], [1]).unwrap())], &Object::from_iter([("k", "1")]))
        .unwrap();
    let mut options = EditOptions::default();
    options.set.push(("k".to_owned(), NewValue::Text("2".to_owned())));
    let start = reads();
    let before = reads();
    let edited = edit(&path, &options, &Execution::sequential()).unwrap();
    let taken = reads() - before - (before - start); // to look at the count takes reads, too
    // The format, the length of the header, the header, and its text; then what differs, before and after the
    // file is locked.
    assert_eq!((taken, edited.method), (6, EditMethod::InPlace));
}
