//! Edits files in place and by writing new ones: values stay the same, and damaged values get no fresh hash.

use std::path::Path;

use arbitrary::{Arbitrary, Result, Unstructured};
use modelfmt::edit::{Edit, EditOptions, NewValue};
use modelfmt::{Execution, Model, VerifyLevel};

use super::differ::FORMATS;
use super::drill::Depth;
use super::model::Model as Made;
use super::mutate::mutate;
use super::roundtrips;

const WORK: Execution<'_> = Execution::sequential();

/// A file and an edit of it.
struct Case {
    file: Vec<u8>,
    options: EditOptions,
}

/// Edits a file of ours, possibly damaged. If the edit is refused, the file stays the same; otherwise it has
/// the same values.
pub fn any(bytes: &[u8], _: Depth) {
    let Ok(Some(case)) = case(&mut Unstructured::new(bytes)) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model");
    std::fs::write(&path, &case.file).expect("a file can be written");
    let Ok(before) = Model::from_source("before", case.file.clone()) else { return };
    let found = before.container().verify(VerifyLevel::Full, &WORK).errors;
    let edited = Edit::new(&path, &case.options).and_then(|edit| edit.write(&WORK));
    let what = || format!("{}: {:?}", before.format(), case.options);
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 1, "{}", what());
    if edited.is_err() {
        let found = std::fs::read(&path).expect("the file");
        assert!(found == case.file, "{}: changed, and {edited:?}", what());
        return;
    }
    let after = Model::open(&path).unwrap_or_else(|error| panic!("{}: {error}", what()));
    let report = after.container().verify(VerifyLevel::Full, &WORK);
    assert!(report.is_ok() || !found.is_empty(), "{}: {:?}", what(), report.errors);
    // Broken rules about metadata and padding may be fixed by the edit.
    let of_digests =
        |error: &String| ["crc", "hash", "checksum"].iter().any(|word| error.to_lowercase().contains(word));
    assert!(!report.is_ok() || !found.iter().any(of_digests), "{}: no more of {found:?}", what());
    assert_same(&before, &after, &case.options, &what);
    again(&path, &case.options, &what);
}

/// Checks that everything except the names is unchanged.
fn assert_same(before: &Model, after: &Model, options: &EditOptions, what: &dyn Fn() -> String) {
    assert!(before.format() == after.format() && before.tensor_count() == after.tensor_count(), "{}", what());
    for (position, (old, new)) in before.tensors().zip(after.tensors()).enumerate() {
        let same = (old.dtype, old.shape, old.has_data) == (new.dtype, new.shape, new.has_data);
        assert!(same, "{}: {old:?} became {new:?}", what());
        assert!(!options.rename.is_empty() || old.name == new.name, "{}: {old:?} became {new:?}", what());
        match (before.tensor(position), after.tensor(position)) {
            (Ok(old), Ok(new)) => assert!(old.bytes() == new.bytes(), "{}: values of {position}", what()),
            (Err(_), Err(_)) => {}
            (old, new) => panic!("{}: {:?} became {:?}", what(), old.err(), new.err()),
        }
    }
}

/// Setting a value that is already set writes nothing.
fn again(path: &Path, options: &EditOptions, what: &dyn Fn() -> String) {
    let mut options = options.clone();
    options.rename.clear();
    options.unset.clear();
    if options.is_empty() {
        return;
    }
    let bytes = std::fs::read(path).expect("the file");
    Edit::new(path, &options)
        .and_then(|edit| edit.write(&WORK))
        .unwrap_or_else(|error| panic!("{}, again: {error}", what()));
    assert!(std::fs::read(path).expect("the file") == bytes, "{}: changed again", what());
}

fn case(u: &mut Unstructured<'_>) -> Result<Option<Case>> {
    let (write, fix) = *u.choose(&FORMATS)?;
    let flags = u8::arbitrary(u)?;
    let choices =
        [roundtrips::OINF, roundtrips::SAFETENSORS, roundtrips::APR2, roundtrips::AERO, roundtrips::APR];
    let constraints = *u.choose(&choices)?;
    let model = Made::arbitrary(u, constraints)?;
    let mut options = EditOptions::default();
    let keys: Vec<String> = model.metadata.keys().map(str::to_owned).collect();
    for _ in 0..u.int_in_range(0..=2)? {
        let key = if keys.is_empty() || u.ratio(1, 2)? { text(u)? } else { u.choose(&keys)?.clone() };
        let value = match u.ratio(1, 2)? {
            true => NewValue::Text(text(u)?),
            false => NewValue::Value(super::model::value(u, 2)?),
        };
        options.set.push((key, value));
    }
    if !keys.is_empty() && u.ratio(1, 4)? {
        options.unset.push(u.choose(&keys)?.clone());
    }
    if u.ratio(1, 2)? {
        let new = ["x*", "*.longer.than.before", "*"];
        options.rename.extend(format!("*={}", u.choose(&new)?).parse());
    }
    let Some(mut file) = write(&model, flags, &WORK) else { return Ok(None) };
    if u.ratio(1, 2)? {
        mutate(u, &mut file)?;
        if u.ratio(3, 4)? {
            fix(&mut file);
        }
    }
    Ok(Some(Case { file, options }))
}

/// Returns a text that is short, long, or arbitrary.
fn text(u: &mut Unstructured<'_>) -> Result<String> {
    Ok(match u.int_in_range(0..=3)? {
        0 => "k".to_owned(),
        1 => "long ".repeat(u.int_in_range(1..=2000)?),
        _ => String::arbitrary(u)?.chars().take(40).collect(),
    })
}
