//! Statements in the files of a set besides tensors and metadata: they are kept, or listed as lost.

use std::fs;
use std::path::Path;

use modelfmt::{DType, Format, Model};
use modelfmt_core::value::{Object, Value, json};
use modelfmt_write::{MemoryFile, Overwrite};

use super::common::{T, all, apr2, convert, object, options, safetensors, tensor, try_convert};

fn three() -> [T; 3] {
    ["a", "b", "c"].map(|name| tensor(name, DType::F32, &[10]))
}

/// Writes a set into a folder, with each tensor in its own file.
fn set(folder: &Path, source: &Model, format: Format, index: &str) -> Model {
    let once = options(|o| {
        o.output.overwrite = Overwrite::Replace;
        o.output.shard_size = Some(1);
    });
    modelfmt::Conversion::new(source, folder.join(index)).to(format).options(&once).write().unwrap();
    Model::open(folder.join(index)).unwrap()
}

#[test]
fn a_tensor_that_is_larger_than_a_file_may_be_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let source = safetensors(&three(), "{}");
    for (name, format) in [("m.safetensors.index.json", Format::Safetensors), ("m.aero", Format::Aero)] {
        for (size, expected) in [(39, true), (40, false)] {
            let options = options(|o| {
                o.output.overwrite = Overwrite::Replace;
                o.output.shard_size = Some(size);
            });
            let done = modelfmt::Conversion::new(&source, folder.path().join(name))
                .to(format)
                .options(&options)
                .write();
            let notes = done.unwrap().notes;
            let says = notes.iter().any(|note| note.text.contains("is exceeded by 3 tensors"));
            assert_eq!(says, expected, "{format} {size}: {notes:?}");
        }
    }
}

/// Returns the set with these keys in its index.
fn with_keys(model: &Model, keys: &str) -> Model {
    let mut index = json::parse_object(&fs::read(model.path()).unwrap()).unwrap();
    for (key, value) in object(keys) {
        index.insert(key, value);
    }
    fs::write(model.path(), json::to_string_pretty(&index).unwrap()).unwrap();
    Model::open(model.path()).unwrap()
}

/// Returns the losses of a conversion. It lists all of them, and succeeds if the options allow losses.
fn lost(model: &Model, target: Format) -> String {
    let error = try_convert(model, target, &options(|_| {})).map(drop).unwrap_err();
    convert(model, target, &options(|o| o.metadata.lossy = true));
    all(&error)
}

#[test]
fn an_index_of_aero_says_where_its_files_are_to_be_had() {
    let folder = tempfile::tempdir().unwrap();
    let model = set(folder.path(), &safetensors(&three(), "{}"), Format::AeroSet, "m.aeroset.json");
    let keys = r#"{"base_url": "https://example.org/m/", "cache": {"days": 3}}"#;
    let model = with_keys(&model, keys);
    let of = |model: &Model| -> Object {
        let details = model.details().unwrap();
        ["base_url", "cache"].iter().filter_map(|key| Some((*key, details.get(key)?.clone()))).collect()
    };
    assert_eq!(of(&model), object(keys));
    let again = convert(&model, Format::AeroSet, &options(|_| {}));
    assert_eq!(of(&again), object(keys));
    assert!(again.verify(modelfmt::VerifyLevel::Full).is_ok());
    for target in [Format::Aero, Format::Apr2, Format::Safetensors, Format::Oinf] {
        let text = lost(&model, target);
        assert!(text.contains("\"base_url\"") && text.contains("\"cache\""), "{target}: {text}");
    }
    // Without these keys there is nothing to lose.
    convert(&with_keys(&model, r#"{"base_url": null, "cache": null}"#), Format::Aero, &options(|_| {}));
}

#[test]
fn keys_beside_the_metadata_of_a_safetensors_index_are_not_lost_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let index = "m.safetensors.index.json";
    let model = set(folder.path(), &safetensors(&three(), "{}"), Format::SafetensorsSharded, index);
    convert(&model, Format::Aero, &options(|_| {}));
    let model = with_keys(&model, r#"{"license": "MIT", "weight_maps": {"a": "b"}}"#);
    for target in [Format::Aero, Format::Safetensors, Format::SafetensorsSharded] {
        let text = lost(&model, target);
        assert!(text.contains("\"license\"") && text.contains("\"weight_maps\""), "{target}: {text}");
    }
}

#[test]
fn what_a_later_shard_of_apr2_says_is_not_lost_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let source = apr2(&three(), r#"{"model_type": "t", "architecture": {"name": "a"}, "license": "MIT"}"#);
    let model = set(folder.path(), &source, Format::Apr2Sharded, "m.apr");
    convert(&model, Format::Aero, &options(|_| {}));
    // The third shard has metadata of its own, with another model type.
    let shard = model.as_apr2_sharded().unwrap().index().shard(2).unwrap().path.to_owned();
    let metadata =
        r#"{"apr_version": "2.0.0", "model_type": "u", "architecture": {"name": "a"}, "author": "N"}"#;
    let other = apr2(&three()[2..], metadata);
    let file = MemoryFile::new();
    modelfmt::Conversion::to_format(&other, Format::Apr2)
        .options(&options(|_| {}))
        .write_to_sink(&file)
        .unwrap();
    let path = folder.path().join(shard);
    fs::write(&path, file.into_bytes()).unwrap();
    let mut manifest = json::parse_object(&fs::read(model.path()).unwrap()).unwrap();
    if let Some(Value::Array(shards)) = manifest.get_mut("shards") {
        let mut list: Vec<Value> = shards.iter().collect();
        if let Value::Object(entry) = &mut list[2] {
            entry.insert("size", fs::metadata(&path).unwrap().len());
        }
        *shards = list.into_iter().collect();
    }
    fs::write(model.path(), json::to_string_pretty(&manifest).unwrap()).unwrap();
    let model = Model::open(model.path()).unwrap();
    for target in [Format::Aero, Format::Apr2, Format::Apr2Sharded] {
        let text = lost(&model, target);
        assert!(text.contains("\"author\"") && text.contains("\"model_type\""), "{target}: {text}");
        assert!(
            !text.contains("\"license\"") && text.contains("3 items") || text.contains("2 items"),
            "{text}"
        );
    }
}
