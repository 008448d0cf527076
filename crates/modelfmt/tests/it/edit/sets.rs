//! Edits of models of several files.

use super::*;

const SETS: [(Format, &str); 4] = [
    (Format::AeroSet, "m.aeroset.json"),
    (Format::Apr2Sharded, "m.apr.json"),
    (Format::SafetensorsSharded, "m.safetensors.index.json"),
    (Format::GgufSharded, "m-00001-of-00005.gguf"),
];

const NAMES: [&str; 5] = ["a", "b.weight", "c", "d", "e"];

/// Writes a set of five files with values. Returns the path of its index.
fn set(format: Format, name: &str, folder: &Path) -> PathBuf {
    let values: Vec<f32> = (0..64u8).map(f32::from).collect();
    let views = NAMES.map(|name| (name, View::new(&values, [values.len() as u64]).unwrap()));
    let metadata = Object::from_iter([
        ("model_name", "m"),
        ("architecture", "old"),
        ("model_type", "test"),
        ("k.one", "one"),
    ]);
    let single = folder.join("single.safetensors");
    modelfmt::save(&single, views, &metadata).unwrap();
    let out = match format {
        Format::GgufSharded => folder.join("m.gguf"),
        _ => folder.join(name),
    };
    let mut options = modelfmt::convert::ConvertOptions::default();
    options.output.shard_size = Some(if format == Format::AeroSet { 256 } else { 300 });
    let model = Model::open(&single).unwrap();
    modelfmt::Conversion::new(&model, out).to(format).options(&options).write().unwrap();
    fs::remove_file(single).unwrap();
    folder.join(name)
}

/// Returns the metadata of the model.
fn metadata_of(path: &Path) -> Object {
    let own = Model::open(path).unwrap().metadata().unwrap();
    own.get("json").and_then(Value::as_object).cloned().unwrap_or_else(|| own.into_object())
}

fn all_bytes(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

/// Returns the names of the files that differ.
fn changed(before: &BTreeMap<PathBuf, Vec<u8>>, folder: &Path) -> Vec<String> {
    let after = all_bytes(folder);
    assert!(after.keys().eq(before.keys()), "{:?}", after.keys());
    let differ = after.iter().filter(|(path, bytes)| before.get(*path) != Some(bytes));
    differ.map(|(path, _)| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

fn with(change: impl FnOnce(&mut EditOptions)) -> EditOptions {
    let mut options = EditOptions::default();
    change(&mut options);
    options
}

fn text(key: &str, value: &str) -> (String, NewValue) {
    (key.to_owned(), NewValue::Text(value.to_owned()))
}

#[test]
fn every_set_is_edited_and_every_check_of_it_is_true() {
    for (format, name) in SETS {
        let folder = tempfile::tempdir().unwrap();
        let path = set(format, name, folder.path());
        assert!(folder.path().read_dir().unwrap().count() >= 5, "{format}");
        let (before, found) = content(&path);
        assert!(found.is_empty() && before.len() == 5, "{format}: {found:?}");
        let options = with(|options| {
            options.set.push(text("k.two", "two"));
            options.unset.push("k.one".to_owned());
            options.rename.push("*=a.longer.name.of.*".parse().unwrap());
        });
        let edited = run(&path, &options).unwrap();
        assert_eq!((edited.set, edited.unset, edited.renamed), (1, 1, 5), "{format}");
        let (after, found) = content(&path);
        assert!(found.is_empty(), "{format}: {found:?}");
        let expected: Vec<_> =
            before.iter().map(|(name, value)| (format!("a.longer.name.of.{name}"), value.clone())).collect();
        assert_eq!(sorted(after), sorted(expected), "{format}");
        let metadata = metadata_of(&path);
        assert_eq!(metadata.get("k.two").map(|two| two.to_plain()), Some(Value::from("two")), "{format}");
        assert!(!metadata.contains_key("k.one"), "{format}");
        // Metadata that the set already has is not written again.
        let bytes = all_bytes(folder.path());
        let again = with(|options| options.set.push(text("k.two", "two")));
        assert_eq!(run(&path, &again).unwrap().method, EditMethod::Unchanged, "{format}");
        assert_eq!(changed(&bytes, folder.path()), Vec::<String>::new());
        // And back, now that there is room.
        let back = with(|options| {
            options.unset.push("k.two".to_owned());
            options.set.push(text("k.one", "one"));
            options.rename.push("a.longer.name.of.*=*".parse().unwrap());
        });
        run(&path, &back).unwrap();
        let (after, found) = content(&path);
        assert!(found.is_empty() && sorted(after) == sorted(before), "{format}: {found:?}");
    }
}

#[test]
fn only_the_files_that_it_concerns_change() {
    let of_names: [&[&str]; 4] = [
        &["m.aeroset.json", "m.index.aero", "m.part-003.aero"],
        &["m.apr.json", "m.apr-00004-of-00005.apr"],
        &["m.safetensors.index.json", "m-00004-of-00005.safetensors"],
        &["m-00004-of-00005.gguf"],
    ];
    let of_metadata: [&[&str]; 4] = [
        &["m.aeroset.json", "m.index.aero"],
        &["m.apr.json", "m.apr-00001-of-00005.apr"],
        &["m.safetensors.index.json"],
        &["m-00001-of-00005.gguf"],
    ];
    for (((format, name), of_names), of_metadata) in SETS.into_iter().zip(of_names).zip(of_metadata) {
        let folder = tempfile::tempdir().unwrap();
        let path = set(format, name, folder.path());
        let bytes = all_bytes(folder.path());
        run(&path, &with(|options| options.set.push(text("k.new", &"long".repeat(99))))).unwrap();
        let mut expected: Vec<&str> = of_metadata.to_vec();
        expected.sort_unstable();
        assert_eq!(changed(&bytes, folder.path()), expected, "{format}");
        let bytes = all_bytes(folder.path());
        run(&path, &with(|options| options.rename.push("d=dd".parse().unwrap()))).unwrap();
        let mut expected: Vec<&str> = of_names.to_vec();
        expected.sort_unstable();
        // If a name fits into its file, the file keeps its length, and the manifest keeps everything about it
        // except the name.
        assert_eq!(changed(&bytes, folder.path()), expected, "{format}");
        assert!(content(&path).1.is_empty(), "{format}");
    }
}

/// Metadata that several files have is changed in all of them.
#[test]
fn what_files_repeat_follows() {
    for (format, name) in SETS {
        let folder = tempfile::tempdir().unwrap();
        let path = set(format, name, folder.path());
        run(&path, &with(|options| options.set.push(text("architecture", "new-one")))).unwrap();
        assert!(content(&path).1.is_empty(), "{format}");
        let files = all_bytes(folder.path());
        let has = |bytes: &Vec<u8>, word: &[u8]| bytes.windows(word.len()).any(|bytes| bytes == word);
        for (path, bytes) in files {
            assert!(!has(&bytes, b"\"old\""), "{format}: {}", path.display());
        }
    }
}

#[test]
fn golden_sets_are_edited() {
    for files in [
        &["safetensors/set.safetensors.index.json"; 1][..],
        &["aero/set/model.aeroset.json"],
        &["apr2/set"],
        &["reference/gguf/split-00002-of-00003.gguf"],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let first = testkit::testdata(files[0]);
        let from = if first.is_dir() { first.clone() } else { first.parent().unwrap().to_owned() };
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() && path.extension().is_none_or(|ending| ending != "txt") {
                copied(&path, folder.path());
            }
        }
        let path = match first.is_dir() {
            true => folder.path().to_owned(),
            false => folder.path().join(first.file_name().unwrap()),
        };
        let (before, found) = content(&path);
        let options = with(|options| {
            options.set.push(text("k.new", "new"));
            options.rename.push("*=x.*".parse().unwrap());
        });
        run(&path, &options).unwrap();
        let (after, still) = content(&path);
        assert!(still.len() <= found.len(), "{files:?}: {still:?}");
        let expected = before.into_iter().map(|(name, value)| (format!("x.{name}"), value)).collect();
        assert_eq!(sorted(after), sorted(expected), "{files:?}");
        assert_eq!(
            metadata_of(&path).get("k.new").map(|new| new.to_plain()),
            Some(Value::from("new")),
            "{files:?}"
        );
    }
}

/// The hashes in an AEROSET's index are renewed, but not for files that were damaged before.
#[test]
fn a_damaged_file_gets_no_new_hash() {
    let folder = tempfile::tempdir().unwrap();
    let (format, name) = SETS[0];
    let path = set(format, name, folder.path());
    let part = folder.path().join("m.part-003.aero");
    let mut bytes = fs::read(&part).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&part, bytes).unwrap();
    let bytes = all_bytes(folder.path());
    let error = run(&path, &with(|options| options.rename.push("d=dd".parse().unwrap()))).unwrap_err();
    assert!(
        error.to_string().contains("m.part-003.aero") || source_of(&error).contains("damaged"),
        "{error}"
    );
    assert_eq!(changed(&bytes, folder.path()), Vec::<String>::new());
    // A damaged file that the edit does not change is no obstacle.
    run(&path, &with(|options| options.rename.push("a=aa".parse().unwrap()))).unwrap();
}

#[test]
fn what_a_set_cannot_become_is_refused_and_nothing_changes() {
    for (format, name) in SETS {
        let folder = tempfile::tempdir().unwrap();
        let path = set(format, name, folder.path());
        let bytes = all_bytes(folder.path());
        let refused = |change: &dyn Fn(&mut EditOptions)| {
            let error = run(&path, &with(change)).unwrap_err();
            assert_eq!(changed(&bytes, folder.path()), Vec::<String>::new(), "{format}");
            error
        };
        let unset = refused(&|options| options.unset.push("k.onee".to_owned()));
        assert!(unset.to_string().contains("did you mean \"k.one\""), "{format}: {unset}");
        assert!(matches!(refused(&|o| o.rename.push("a=d".parse().unwrap())), Error::SameName { .. }));
        assert!(matches!(refused(&|o| o.rename.push("z=d".parse().unwrap())), Error::NoMatch { .. }));
        let dropped = refused(&|o| o.drop.push("a".to_owned()));
        assert!(
            matches!(&dropped, Error::NotEditable { .. }) && dropped.to_string().contains("name an output")
        );
        let edit = Edit::new(&path, &with(|o| o.rename.push("a=aa".parse().unwrap()))).unwrap();
        for out in [&path, &folder.path().join(name)] {
            let again = Edit::new(&path, &with(|o| o.rename.push("a=aa".parse().unwrap()))).unwrap();
            let refused = again.write_to(out, Overwrite::Replace, &Execution::default());
            assert!(matches!(refused, Err(Error::Usage { .. })), "{format}");
        }
        assert!(edit.check(Some(&folder.path().join(".")), Overwrite::Refuse).is_err());
        assert_eq!(changed(&bytes, folder.path()), Vec::<String>::new(), "{format}");
    }
}

/// With another output, a set is written again with all changes and without removed tensors. The old set
/// stays as it is.
#[test]
fn a_set_is_edited_into_another_one() {
    for (format, name) in SETS {
        let folder = tempfile::tempdir().unwrap();
        let path = set(format, name, folder.path());
        let (before, bytes) = (content(&path).0, all_bytes(folder.path()));
        let options = with(|options| {
            options.set.push(text("k.two", "two"));
            options.unset.push("k.one".to_owned());
            options.rename.push("*=new.*".parse().unwrap());
            options.drop.push("[bd]*".to_owned());
        });
        let out = match format {
            Format::GgufSharded => "n.gguf".to_owned(),
            _ => name.replacen('m', "n", 1),
        };
        let edit = Edit::new(&path, &options).unwrap();
        assert_eq!((edit.method(), edit.dropped()), (EditMethod::Written, 2), "{format}");
        let (target, again) = (folder.path().join(&out), Edit::new(&path, &options).unwrap());
        let planned = again.dry_run(Some(&target), Overwrite::Refuse, &Execution::default()).unwrap();
        assert!(all_bytes(folder.path()) == bytes, "{format}");
        let mut edited =
            edit.write_to(folder.path().join(&out), Overwrite::Refuse, &Execution::default()).unwrap();
        assert_eq!((edited.set, edited.unset, edited.renamed, edited.dropped), (1, 1, 3, 2), "{format}");
        assert_eq!(edited.method, EditMethod::Written);
        edited.changed_nbytes = 0;
        assert_eq!(planned, edited, "{format}");
        // The old files are unchanged.
        let now = all_bytes(folder.path());
        assert!(bytes.iter().all(|(path, bytes)| now.get(path) == Some(bytes)), "{format}");
        assert!(now.len() >= bytes.len() + 3, "{format}: {:?}", now.keys());
        let (after, found) = content(&edited.path);
        assert!(found.is_empty(), "{format}: {found:?}");
        let kept = before.into_iter().filter(|(name, _)| !name.starts_with(['b', 'd']));
        let expected: Vec<_> = kept.map(|(name, value)| (format!("new.{name}"), value)).collect();
        assert_eq!(sorted(after), sorted(expected), "{format}");
        let metadata = metadata_of(&edited.path);
        assert_eq!(metadata.get("k.two").map(|two| two.to_plain()), Some(Value::from("two")), "{format}");
        assert!(!metadata.contains_key("k.one"), "{format}");
        let again = Edit::new(&path, &options).unwrap();
        let exists = again.write_to(&edited.path, Overwrite::Refuse, &Execution::default());
        assert!(matches!(exists, Err(Error::Exists { .. })), "{format}");
    }
}

#[test]
fn a_value_of_another_type_in_a_split_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (format, name) = SETS.into_iter().find(|(format, _)| *format == Format::GgufSharded).unwrap();
    let path = set(format, name, folder.path());
    let number = ("k.one".to_owned(), NewValue::Value(Value::from(2.5)));
    let edited = run(&path, &with(|options| options.set.push(number))).unwrap();
    let notes: Vec<String> = edited.notes.iter().map(ToString::to_string).collect();
    let expected = r#"metadata key "k.one" had the type string and has f64 now; programs may ask for string"#;
    assert_eq!(notes, [expected]);
}

/// A file of a set is not edited alone, even if the index is two folders above it.
#[test]
fn a_file_far_below_its_index_is_not_edited_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (format, name) = SETS[2];
    let path = set(format, name, folder.path());
    let deep = folder.path().join("weights/parts");
    fs::create_dir_all(&deep).unwrap();
    let mut index = fs::read_to_string(&path).unwrap();
    for number in 1..=5 {
        let name = format!("m-0000{number}-of-00005.safetensors");
        fs::rename(folder.path().join(&name), deep.join(&name)).unwrap();
        index = index.replace(&name, &format!("weights/parts/{name}"));
    }
    fs::write(&path, index).unwrap();
    let options = with(|options| options.rename.push("*=x.*".parse().unwrap()));
    let error = run(&deep.join("m-00001-of-00005.safetensors"), &options).unwrap_err();
    assert!(error.to_string().contains("it is a file of the model that"), "{error}");
    // The index only repeats names, so it stays right if other metadata of a file changes: the folders above
    // are not even searched.
    let metadata = with(|options| options.set.push(text("k.two", "two")));
    run(&deep.join("m-00001-of-00005.safetensors"), &metadata).unwrap();
    assert!(content(&path).1.is_empty());
    run(&path, &options).unwrap();
    assert!(content(&path).1.is_empty());
}

#[test]
fn a_model_that_changed_since_the_edit_was_prepared_is_left_alone() {
    for (format, name) in SETS.into_iter().chain([(Format::Safetensors, "m.safetensors")]) {
        for drop in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path =
                if format.is_set() { set(format, name, folder.path()) } else { one(format, folder.path()) };
            let name = Model::open(&path).unwrap().tensors().next().unwrap().name.to_owned();
            let options = with(|options| {
                options.set.push(text("k.two", "two"));
                options.drop.extend(drop.then_some(name));
            });
            let edit = Edit::new(&path, &options).unwrap();
            // Another program replaces the file by a copy, which could be any file.
            let copy = folder.path().join("copy");
            fs::copy(&path, &copy).unwrap();
            fs::rename(&copy, &path).unwrap();
            let before = all_bytes(folder.path());
            let work = Execution::default();
            let error = match drop && format.is_set() {
                true => edit.write_to(folder.path().join("n.json"), Overwrite::Refuse, &work),
                false => edit.write(&work),
            };
            let error = error.unwrap_err();
            assert!(matches!(error, Error::EditConflict { .. }), "{format}: {error}");
            assert!(changed(&before, folder.path()).is_empty());
        }
    }
}

/// Another program writes while the values are copied. What is read then comes from two files, and says
/// nothing about either.
#[test]
fn a_model_that_changes_meanwhile_is_not_called_damaged() {
    for format in [Format::Safetensors, Format::Aero, Format::Gguf, Format::Mag] {
        for is_dry in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = one(format, folder.path());
            let name = Model::open(&path).unwrap().tensors().next().unwrap().name.to_owned();
            let edit = Edit::new(&path, &with(|options| options.drop.push(name))).unwrap();
            let meanwhile = |_: u64| {
                fs::write(&path, b"of somebody else").unwrap();
                std::ops::ControlFlow::Continue(())
            };
            let work = Execution { progress: Some(&meanwhile), ..Execution::sequential() };
            let error = match is_dry {
                true => edit.dry_run(None, Overwrite::Refuse, &work).map(drop),
                false => edit.write(&work).map(drop),
            };
            // A dry run succeeds if it reads nothing after the change.
            let is_told = matches!(error, Err(Error::EditConflict { .. }));
            assert!(is_told || (is_dry && error.is_ok()), "{format}: {error:?}");
            assert_eq!(fs::read(&path).unwrap(), b"of somebody else");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }
}

/// A link in a model of several files is replaced. The file that it leads to is kept, because others may use
/// it.
#[cfg(unix)]
#[test]
fn links_in_a_set_are_replaced() {
    let (cache, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    set(Format::SafetensorsSharded, "m.safetensors.index.json", cache.path());
    let before = all_bytes(cache.path());
    for path in before.keys() {
        std::os::unix::fs::symlink(path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let path = folder.path().join("m.safetensors.index.json");
    let options = with(|options| {
        options.set.push(text("k.two", "two"));
        options.rename.push("a=z".parse().unwrap());
    });
    let edited = run(&path, &options).unwrap();
    let noted = edited.notes.iter().filter(|note| note.text.contains("is a file of its own now")).count();
    assert_eq!(noted, 2, "{:?}", edited.notes);
    assert!(changed(&before, cache.path()).is_empty());
    assert!(!path.is_symlink() && content(&path).0.iter().any(|(name, _)| name == "z"));
}

/// A download cache has links to files that are named after their content.
#[cfg(unix)]
#[test]
fn a_file_that_a_link_leads_to_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let blob = one(Format::Safetensors, folder.path());
    let link = folder.path().join("link.safetensors");
    std::os::unix::fs::symlink(&blob, &link).unwrap();
    let mut options = EditOptions::default();
    options.set.push(("k.two".to_owned(), NewValue::Text("two".to_owned())));
    let notes = run(&link, &options).unwrap().notes;
    let is_noted = |notes: &[modelfmt::wording::Note]| {
        notes.iter().any(|note| note.text.contains("is a link, and the file that it leads to"))
    };
    assert!(is_noted(&notes), "{notes:?}");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    options.set.push(("k.three".to_owned(), NewValue::Text("three".to_owned())));
    assert!(!is_noted(&run(&blob, &options).unwrap().notes));
    let first = Model::open(&blob).unwrap().tensors().next().unwrap().name.to_owned();
    let mut drop = EditOptions::default();
    drop.drop.push(first);
    let dropped = run(&link, &drop).unwrap();
    assert!(dropped.dropped == 1 && is_noted(&dropped.notes), "{dropped:?}");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}
