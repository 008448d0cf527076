//! What conversions do with metadata.

use modelfmt::{DType, Format};
use modelfmt_core::source::shared_files;
use modelfmt_core::value::{Object, Value, json};
use modelfmt_write::{MemoryFolder, TensorSpec};

use super::common::{
    all, apr2, convert, gguf, json_of, mag, notes, object, oinf, options, safetensors, tensor, try_convert,
};

fn one() -> [super::common::T; 1] {
    [tensor("w", DType::F32, &[2])]
}

fn text(object: &Object) -> String {
    json::to_string_sorted(object).unwrap()
}

#[test]
fn keys_of_json_stand_at_top_level_verbatim() {
    let source = safetensors(&one(), r#"{"format": "pt", "model_type": "gpt2"}"#);
    let apr2 = convert(&source, Format::Apr2, &options(|_| {}));
    assert_eq!(
        text(&json_of(&apr2)),
        concat!(
            r#"{"apr_version":"2.0.0","architecture":{},"format":"pt","model_type":"gpt2","#,
            r#""modelfmt":{"added":["apr_version","architecture"],"format":"safetensors","version":1}}"#
        )
    );
    let back = convert(&apr2, Format::Safetensors, &options(|_| {}));
    assert_eq!(text(&json_of(&back)), r#"{"format":"pt","model_type":"gpt2"}"#);
}

#[test]
fn names_come_from_what_the_source_says() {
    let source = gguf(&one(), &[("general.name", "Tiny"), ("general.architecture", "llama"), ("k", "v")]);
    let (apr2, done) = try_convert(&source, Format::Apr2, &options(|_| {})).unwrap();
    let found = json_of(&apr2);
    assert_eq!(found.get("model_type"), Some(&"llama".into()));
    assert_eq!((found.get("k"), found.get("general.name")), (Some(&"v".into()), Some(&"Tiny".into())));
    assert_eq!(notes(&done), Vec::<String>::new());

    let source = mag(&one(), &[]);
    let (apr2, done) = try_convert(&source, Format::Apr2, &options(|_| {})).unwrap();
    assert_eq!(json_of(&apr2).get("model_type"), Some(&"unknown".into()));
    assert_eq!(notes(&done), ["model_type is \"unknown\", because the source does not say"]);

    let given = options(|o| o.metadata.set = Some(Object::from_iter([("model_type", "bert")])));
    let (apr2, done) = try_convert(&source, Format::Apr2, &given).unwrap();
    assert_eq!(json_of(&apr2).get("model_type"), Some(&"bert".into()));
    assert_eq!(notes(&done), Vec::<String>::new());
}

#[test]
fn the_architecture_of_apr2_is_an_object_and_that_of_aero_a_name() {
    let source =
        apr2(&one(), r#"{"apr_version": "2.0.0", "model_type": "whisper", "architecture": {"n": 1}}"#);
    let (aero, done) = try_convert(&source, Format::Aero, &options(|_| {})).unwrap();
    assert_eq!(
        text(&json_of(&aero)),
        concat!(
            r#"{"apr_version":"2.0.0","architecture":{"n":1},"model_name":"m","model_type":"whisper","#,
            r#""modelfmt":{"added":["model_name"],"format":"apr2","version":1}}"#
        )
    );
    let manifest = aero.metadata().unwrap().path(["manifest", "model"]).unwrap().as_object().unwrap().clone();
    assert_eq!(text(&manifest), r#"{"architecture":"whisper","name":"m"}"#);
    assert_eq!(notes(&done), [r#"model_name is "m", taken from the file name"#]);
    let bytes = modelfmt_write::MemoryFile::new();
    modelfmt::Conversion::to_format(&source, Format::Apr2)
        .options(&options(|_| {}))
        .write_to_sink(&bytes)
        .unwrap();
    let (_, done) =
        try_convert(&super::common::open("-", bytes.into_bytes()), Format::Aero, &options(|_| {})).unwrap();
    assert_eq!(notes(&done), [r#"model_name is "model", because the source does not say"#]);

    let named = options(|o| o.metadata.architecture = Some("llama".to_owned()));
    let aero = convert(&mag(&one(), &[]), Format::Aero, &named);
    let apr2 = convert(&aero, Format::Apr2, &options(|_| {}));
    let found = json_of(&apr2);
    assert_eq!(found.get("model_type"), Some(&"llama".into()));
    assert_eq!(found.get("architecture"), Some(&"llama".into()));
    assert_eq!(json_of(&convert(&apr2, Format::Aero, &options(|_| {}))), json_of(&aero));
}

#[test]
fn the_reserved_key_passes_verbatim_through_other_targets() {
    let source = mag(&one(), &[("epoch", Value::from(1))]);
    let aero = convert(&source, Format::Aero, &options(|_| {}));
    let apr2 = convert(&aero, Format::Apr2, &options(|_| {}));
    assert_eq!(json_of(&aero).get("modelfmt"), json_of(&apr2).get("modelfmt"));
    let oinf = convert(&apr2, Format::Oinf, &options(|_| {}));
    assert_eq!(text(&json_of(&oinf)), r#"{"epoch":{"type":"i64","value":1}}"#);
}

#[test]
fn what_the_user_says_comes_first() {
    let source = apr2(&one(), r#"{"apr_version": "2.0.0", "model_type": "a", "architecture": {"n": 1}}"#);
    let options = options(|o| {
        o.metadata.model_name = Some("name".to_owned());
        o.metadata.model_type = Some("type".to_owned());
        o.metadata.architecture = Some(r#"{"n_layer": 4}"#.to_owned());
        o.metadata.set = Some(object(r#"{"apr_version": "2.0.1", "x": [1, null]}"#));
    });
    let found = json_of(&convert(&source, Format::Apr2, &options));
    for (key, expected) in [
        ("model_name", r#""name""#),
        ("model_type", r#""type""#),
        ("architecture", r#"{"n_layer":4}"#),
        ("apr_version", r#""2.0.1""#),
        ("x", "[1,null]"),
    ] {
        assert_eq!(json::to_string(found.get(key).unwrap()).unwrap(), expected, "{key}");
    }
    let plain = super::common::options(|o| o.metadata.architecture = Some("whisper".to_owned()));
    let found = json_of(&convert(&mag(&one(), &[]), Format::Apr2, &plain));
    assert_eq!(found.get("architecture"), Some(&Value::Object(object(r#"{"name": "whisper"}"#))));
    assert_eq!(found.get("model_type"), Some(&"whisper".into()));
}

#[test]
fn what_a_target_cannot_hold_is_listed_or_dropped_and_listed() {
    let metadata =
        oinf::Metadata::new().sizevar("D", 4).value("text", "a").value("n", 5u8).value("x", 0.5f32);
    let source = oinf(&one(), &metadata);
    let error = all(&try_convert(&source, Format::Mag, &options(|_| {})).unwrap_err());
    assert_eq!(
        error,
        concat!(
            "m.oinf: does not fit mag: 2 items; options that help: lossy\n",
            "  metadata key \"text\": mag holds integers below 2^63 and floats, not a str (lossy)\n",
            "  size variable \"D\": mag has no size variables (lossy)"
        )
    );
    let (found, done) = try_convert(&source, Format::Mag, &options(|o| o.metadata.lossy = true)).unwrap();
    assert_eq!(text(&json_of(&found)), r#"{"n":5,"x":0.5}"#);
    let dropped: Vec<String> = done.dropped.iter().map(|item| item.what()).collect();
    assert_eq!(dropped, ["metadata key \"text\"", "size variable \"D\""]);

    let (found, done) =
        try_convert(&source, Format::Safetensors, &options(|o| o.metadata.lossy = true)).unwrap();
    assert_eq!((text(&json_of(&found)), done.dropped.len()), (r#"{"text":"a"}"#.to_owned(), 3));
}

#[test]
fn what_only_the_files_of_a_set_say_stays_there() {
    let plan = |name: &str| {
        let options = modelfmt_safetensors::WriteOptions::new().file_metadata(object(r#"{"format": "pt"}"#));
        let index = object(r#"{"total_parameters": 2, "by": "us"}"#);
        let specs = [TensorSpec::new("w", DType::F32, vec![2])];
        let plan = modelfmt_safetensors::SetPlan::new(name, specs, Some(&index), &options).unwrap();
        let folder = MemoryFolder::default();
        plan.write(&[[0u8; 8]], &folder, &modelfmt::Execution::default()).unwrap();
        folder.files()
    };
    let files = plan("m");
    let source = Box::new(files.0["m.safetensors.index.json"].clone());
    let source = modelfmt::OpenOptions::new().open_source("m", source, Some(shared_files(files))).unwrap();
    let index = r#"{"by":"us","total_parameters":2,"total_size":8}"#;
    let check = |model: &modelfmt::Model| {
        assert_eq!(text(&json_of(model)), index);
        let shard = model.as_safetensors_sharded().unwrap().shard(0).unwrap();
        assert_eq!(text(shard.index().metadata().unwrap()), r#"{"by":"us","format":"pt"}"#);
    };
    check(&source);
    let aero = convert(&source, Format::Aero, &options(|_| {}));
    assert_eq!(json_of(&aero).get("format"), Some(&"pt".into()));
    check(&convert(&aero, Format::SafetensorsSharded, &options(|_| {})));
    check(&convert(&source, Format::SafetensorsSharded, &options(|_| {})));
    let (one, done) = try_convert(&aero, Format::Safetensors, &options(|o| o.metadata.lossy = true)).unwrap();
    assert_eq!(text(&json_of(&one)), r#"{"by":"us","format":"pt"}"#);
    assert_eq!(done.dropped.len(), 1);
}

#[test]
fn numbers_of_mag_are_typed_values_of_oinf_also_by_way_of_json() {
    let source = mag(&one(), &[("epoch", Value::from(-1)), ("lr", Value::from(f64::NAN))]);
    let direct = convert(&source, Format::Oinf, &options(|_| {}));
    let expected = r#"{"epoch":{"type":"i64","value":-1},"lr":{"type":"f64","value":"NaN"}}"#;
    assert_eq!(text(&json_of(&direct)), expected);
    let apr2 = convert(&source, Format::Apr2, &options(|_| {}));
    assert_eq!(text(&json_of(&convert(&apr2, Format::Oinf, &options(|_| {})))), expected);
}

#[test]
fn metadata_of_the_user_takes_the_form_of_the_target() {
    let given = |text: &str| options(|o| o.metadata.set = Some(object(text)));
    let source = mag(&one(), &[("epoch", Value::from(1))]);
    let plain = given(
        r#"{"a": true, "b": 1, "c": 18446744073709551615, "d": 1.5, "e": "x", "f": [1, 2], "epoch": {"type": "u8", "value": 9}}"#,
    );
    assert_eq!(
        text(&json_of(&convert(&source, Format::Oinf, &plain))),
        concat!(
            r#"{"a":{"type":"bool","value":true},"b":{"type":"i64","value":1},"#,
            r#""c":{"type":"u64","value":18446744073709551615},"d":{"type":"f64","value":1.5},"#,
            r#""e":{"type":"str","value":"x"},"epoch":{"type":"u8","value":9},"#,
            r#""f":{"dtype":"i64","shape":[2],"type":"ndarray","value":[1,2]}}"#
        )
    );
    let found = convert(&source, Format::Mag, &given(r#"{"epoch": 2.5, "k": 3}"#));
    assert_eq!(text(&json_of(&found)), r#"{"epoch":2.5,"k":3}"#);
    let error = try_convert(&source, Format::Safetensors, &given(r#"{"epoch": 2.5}"#)).unwrap_err();
    assert!(error.to_string().contains("metadata of safetensors are strings, not a float"), "{error}");
    let error = try_convert(&source, Format::Oinf, &given(r#"{"a b": 1, "c": "d e"}"#)).unwrap_err();
    assert!(
        all(&error).contains("texts of oinf have only A-Z a-z 0-9 . _ -, and this has ' '"),
        "{}",
        all(&error)
    );
}

#[test]
fn size_variables_and_declared_tensors_are_added_to_oinf() {
    let options = options(|o| {
        o.oinf.sizevars = vec![("D".to_owned(), 128), ("E".to_owned(), 2)];
        let shape = vec![2, 3];
        o.oinf.declare = vec![modelfmt::convert::Declared { name: "y".to_owned(), dtype: DType::I16, shape }];
    });
    let source = oinf(&one(), &oinf::Metadata::new().sizevar("D", 1));
    let found = convert(&source, Format::Oinf, &options);
    assert_eq!(
        text(found.details().unwrap().get("sizevars").unwrap().as_object().unwrap()),
        r#"{"D":128,"E":2}"#
    );
    let y = found.tensors().find(|t| t.name == "y").unwrap();
    assert_eq!((y.dtype, y.shape, y.has_data), (DType::I16, &[2, 3][..], false));
}

/// A model that itself has a key of that name is restored unchanged, whatever containers on the way require.
#[test]
fn a_key_that_somebody_else_uses_is_kept_aside() {
    let tensors = [tensor("x", DType::F32, &[])];
    for own in
        [r#"{"modelfmt": "mine"}"#, r#"{"a": "b", "modelfmt": "{\"version\": 1}"}"#, r#"{"modelfmt": ""}"#]
    {
        let source = safetensors(&tensors, own);
        for target in [Format::Aero, Format::AeroSet, Format::Apr2, Format::Apr] {
            let (there, done) = try_convert(&source, target, &options(|_| {})).unwrap();
            assert!(
                notes(&done).iter().any(|note| note.starts_with("modelfmt is stored separately")),
                "{target}"
            );
            let second = convert(&there, Format::Apr2, &options(|_| {}));
            for there in [there, second] {
                let (back, done) = try_convert(&there, Format::Safetensors, &options(|_| {})).unwrap();
                assert_eq!((json_of(&back), done.dropped), (object(own), vec![]), "{target}");
                assert_eq!(back.tensors().next().map(|x| x.shape.len()), Some(0), "{target}");
                assert_eq!(differing(&source, &there), Vec::<String>::new(), "{target}");
            }
        }
    }
    // A reserved key that modelfmt itself wrote is still recognized as such.
    let through = convert(&safetensors(&tensors, "{}"), Format::Aero, &options(|_| {}));
    assert!(json_of(&convert(&through, Format::Safetensors, &options(|_| {}))).is_empty());
}

#[test]
fn a_reserved_key_of_a_stranger_makes_nothing_vanish() {
    let source = |reserved: &str| {
        let rest = r#""apr_version": "2.0.0", "model_type": "t", "architecture": {}, "license": "MIT""#;
        apr2(&[tensor("w", DType::F32, &[2])], &format!("{{{rest}, \"epoch\": 5, \"modelfmt\": {reserved}}}"))
    };
    let lossy = options(|o| o.metadata.lossy = true);
    // It claims to have added a license.
    let added = source(r#"{"version": 1, "format": "mag", "added": ["license"]}"#);
    let error = all(&try_convert(&added, Format::Mag, &options(|_| {})).unwrap_err());
    assert!(
        error.contains("metadata key \"license\"") && error.contains("metadata key \"modelfmt\""),
        "{error}"
    );
    let kept = convert(&added, Format::SafetensorsSharded, &lossy);
    assert_eq!(json_of(&kept).get("license"), Some(&"MIT".into()));
    // Another value for a key that exists.
    let twice = source(r#"{"version": 1, "format": "mag", "metadata": {"epoch": 3}}"#);
    let error = all(&try_convert(&twice, Format::Mag, &options(|_| {})).unwrap_err());
    assert!(error.contains("metadata key \"epoch\": the model had another value"), "{error}");
    let same = source(r#"{"version": 1, "format": "mag", "metadata": {"epoch": 5}}"#);
    let error = all(&try_convert(&same, Format::Mag, &options(|_| {})).unwrap_err());
    assert!(!error.contains("epoch"), "{error}");
    let found = modelfmt::diff::diff(&twice, &same, &modelfmt::Execution::default()).unwrap();
    let keys: Vec<&str> = found.metadata.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["modelfmt.epoch"]);
    // An entry that only a later version knows.
    let later = source(r#"{"version": 1, "format": "mag", "later": true}"#);
    let error = all(&try_convert(&later, Format::Mag, &options(|_| {})).unwrap_err());
    assert!(error.contains("metadata key \"modelfmt.later\""), "{error}");
}

#[test]
fn keys_of_the_files_of_a_set_are_found_in_time_that_grows_with_their_number() {
    const COUNT: usize = 200_000; // to move each out by itself takes minutes
    let keys: Vec<String> = (0..COUNT).map(|n| format!("\"k{n}\"")).collect();
    let pairs: Vec<String> = keys.iter().map(|key| format!("{key}:\"\"")).collect();
    let metadata = format!(
        r#"{{"apr_version": "2.0.0", "model_type": "t", "architecture": {{}}, {},
            "modelfmt": {{"version": 1, "format": "safetensors-sharded", "files": [{}]}}}}"#,
        pairs.join(","),
        keys.join(",")
    );
    let found =
        convert(&apr2(&one(), &metadata), Format::SafetensorsSharded, &options(|o| o.metadata.lossy = true));
    assert!(!json_of(&found).contains_key("k0"));
}

fn differing(a: &modelfmt::Model, b: &modelfmt::Model) -> Vec<String> {
    let diff = modelfmt::diff::diff(a, b, &modelfmt::Execution::default()).unwrap();
    diff.metadata.into_iter().map(|entry| entry.key).collect()
}

#[test]
fn the_reserved_key_never_decides_what_diff_says() {
    let honest = safetensors(&one(), r#"{"architecture": "llama", "license": "MIT"}"#);
    let source = |reserved: &str| {
        let rest = r#""apr_version": "2.0.0", "model_type": "unknown", "license": "MIT""#;
        apr2(&one(), &format!(r#"{{{rest}, "architecture": "evil", "modelfmt": {reserved}}}"#))
    };
    for reserved in [
        r#"{"version": 1, "format": "safetensors", "replaced": {"architecture": "llama"}}"#,
        r#"{"version": 1, "format": "safetensors", "added": ["architecture", "apr_version", "model_type"]}"#,
        r#"{"version": 1, "format": "safetensors", "via": [{"format": "aero", "added": ["architecture"]}]}"#,
        r#"{"version": 1, "format": "safetensors", "via": [{"format": "aero", "replaced": {"architecture": "llama"}}]}"#,
        r#"{"version": 1, "format": "oinf", "metadata": {"architecture": {"type": "str", "value": "llama"}}}"#,
    ] {
        let evil = source(reserved);
        assert!(differing(&honest, &evil).contains(&"architecture".to_owned()), "{reserved}");
        assert!(differing(&evil, &honest).contains(&"architecture".to_owned()), "{reserved}");
    }
    // It does not report as missing what only one of them has.
    let without = safetensors(&one(), r#"{"license": "MIT"}"#);
    let added = source(r#"{"version": 1, "format": "safetensors", "added": ["architecture"]}"#);
    assert_eq!(differing(&without, &added), ["architecture"]);
}

#[test]
fn what_lost_nothing_is_the_same_to_diff() {
    let metadata = oinf::Metadata::new()
        .sizevar("D", 4)
        .value("text", "a.b")
        .value("n", 5u8)
        .value("x", 0.1f32)
        .value("bits", oinf::Bitset::from_bits([true, false]).unwrap())
        .value("m", oinf::NdArray::new(DType::I8, vec![2, 2], vec![1, 2, 3, 4]).unwrap());
    let sources = [
        safetensors(&one(), r#"{"format": "pt", "model_type": "gpt2"}"#),
        mag(&one(), &[("epoch", Value::from(7)), ("nan", Value::from(f64::NAN))]),
        oinf(&one(), &metadata),
        apr2(
            &one(),
            r#"{"apr_version": "2.0.0", "model_type": "t", "architecture": {"n": 1}, "k": [1, {"a": 2}]}"#,
        ),
        gguf(&one(), &[("general.name", "g"), ("general.architecture", "llama")]),
    ];
    for source in &sources {
        for target in Format::ALL.iter().copied().filter(|format| format.is_writable()) {
            let Ok((found, _)) = try_convert(source, target, &options(|_| {})) else { continue };
            assert_eq!(differing(source, &found), [""; 0], "{} to {target}", source.format());
            assert_eq!(differing(&found, source), [""; 0], "{target} from {}", source.format());
        }
    }
    let oinf = convert(&sources[0], Format::Oinf, &options(|_| {}));
    assert_eq!(text(&json_of(&oinf)).matches("\"type\":\"str\"").count(), 2, "it went through");
    let flat = modelfmt::diff::flat_metadata(&sources[2]).unwrap();
    let expected = r#"{"bits":[true,false],"m":[[1,2],[3,4]],"n":5,"sizevars.D":4,"text":"a.b","x":0.10000000149011612}"#;
    assert_eq!(text(&flat), expected);
}

#[test]
fn names_that_the_user_gives_are_not_taken_for_ours() {
    let given = [
        options(|o| {
            o.metadata.model_name = Some("Tiny".to_owned());
            o.metadata.architecture = Some("llama".to_owned());
        }),
        options(|o| o.metadata.set = Some(object(r#"{"model_name": "Tiny", "architecture": "llama"}"#))),
    ];
    for given in given {
        let aero = convert(&mag(&one(), &[]), Format::Aero, &given);
        let error = all(&try_convert(&aero, Format::Mag, &options(|_| {})).unwrap_err());
        assert!(
            error.contains("2 items")
                && error.contains("\"model_name\"")
                && error.contains("\"architecture\""),
            "{error}"
        );
        // Also by way of another container.
        let apr2 = convert(&aero, Format::Apr2, &options(|_| {}));
        assert_eq!(json_of(&apr2).get("model_name"), Some(&"Tiny".into()));
        let error = all(&try_convert(&apr2, Format::Mag, &options(|_| {})).unwrap_err());
        assert!(error.contains("\"model_name\"") && error.contains("\"architecture\""), "{error}");
        let aero = convert(&safetensors(&one(), "{}"), Format::Aero, &given);
        let back = convert(&aero, Format::Safetensors, &options(|_| {}));
        assert_eq!(text(&json_of(&back)), r#"{"architecture":"llama","model_name":"Tiny"}"#);
    }
}

#[test]
fn what_stands_beside_type_and_value_is_not_dropped() {
    let beside = r#"{"k": {"type": "str", "value": "x", "note": "y"}}"#;
    let given = options(|o| o.metadata.set = Some(object(beside)));
    for target in [Format::Oinf, Format::Safetensors, Format::Mag] {
        let error = all(&try_convert(&mag(&one(), &[]), target, &given).unwrap_err());
        assert!(error.contains("metadata key \"k\""), "{target}: {error}");
    }
    let reserved = format!(
        r#"{{"apr_version": "2.0.0", "model_type": "t", "architecture": {{}}, "modelfmt": {{"version": 1, "format": "oinf", "metadata": {beside}}}}}"#
    );
    let error = all(&try_convert(&apr2(&one(), &reserved), Format::Oinf, &options(|_| {})).unwrap_err());
    assert!(error.contains("has a member \"note\""), "{error}");
    // A user's object that looks like a typed value is an object.
    let own = apr2(
        &one(),
        r#"{"apr_version": "2.0.0", "model_type": "t", "architecture": "a", "k": {"type": "str", "value": "x"}}"#,
    );
    let error = all(&try_convert(&own, Format::Oinf, &options(|_| {})).unwrap_err());
    assert!(error.contains("metadata key \"k\": oinf holds numbers"), "{error}");
}

#[test]
fn integers_stay_what_they_are() {
    let json = r#"{"apr_version": "2.0.0", "model_type": "t", "architecture": "a", "mixed": [1, 2.5], "large": 1000000000000000019884624838656}"#;
    let source = apr2(&one(), json);
    let aero = convert(&source, Format::Aero, &options(|_| {}));
    assert!(text(&json_of(&aero)).contains(r#""large":1000000000000000019884624838656"#));
    let set = convert(&aero, Format::SafetensorsSharded, &options(|_| {}));
    assert!(text(&json_of(&set)).contains(r#""large":1000000000000000019884624838656"#));
    for target in [Format::Oinf, Format::Mag] {
        let error = all(&try_convert(&source, target, &options(|_| {})).unwrap_err());
        assert!(error.contains("\"mixed\"") && error.contains("\"large\""), "{target}: {error}");
    }
}

#[test]
fn the_architecture_of_apr2_stays_what_it_is() {
    let keys = |architecture: &str| {
        let rest = r#""apr_version": "2.0.0", "model_type": "whisper""#;
        apr2(&one(), &format!(r#"{{{rest}, "architecture": {architecture}}}"#))
    };
    let source = keys(r#""Whisper""#);
    assert!(source.verify(modelfmt::VerifyLevel::Full).is_ok());
    for target in [Format::Apr2, Format::Apr2Sharded, Format::Aero] {
        let (found, _) = try_convert(&source, target, &options(|_| {})).unwrap();
        assert_eq!(json_of(&found).get("architecture"), Some(&"Whisper".into()), "{target}");
        assert!(found.verify(modelfmt::VerifyLevel::Full).is_ok(), "{target}");
    }
    // Another value, which our writer refuses, patched into the bytes.
    let plan = |architecture: &str| {
        let metadata = object(&format!(
            r#"{{"apr_version": "2.0.0", "model_type": "t", "architecture": {architecture}}}"#
        ));
        let plan = apr2::Plan::new([], &apr2::Metadata::from(metadata), &apr2::WriteOptions::new())?;
        let file = modelfmt_write::MemoryFile::new();
        let none: [&[u8]; 0] = [];
        plan.write(&none, &file, &modelfmt::Execution::sequential())?;
        Ok::<_, apr2::WriteError>(file.into_bytes())
    };
    assert!(plan("5").is_err());
    let good = plan(r#""5""#).unwrap();
    let at = good.windows(3).position(|bytes| bytes == br#""5""#).unwrap();
    let bad = super::common::open("m.apr", [&good[..at], b" 5 ", &good[at + 3..]].concat());
    let report = bad.verify(modelfmt::VerifyLevel::Full);
    assert!(report.errors.iter().any(|error| error.contains("an object or a string")), "{report:?}");
    let error = all(&try_convert(&bad, Format::Apr2, &options(|_| {})).unwrap_err());
    assert!(error.contains("metadata key \"architecture\": apr2 asks for another kind of value"), "{error}");
}
