//! What a config.json beside a source says about its names.

use modelfmt::{DType, Execution, Format};

use super::common::{json_of, notes, options, safetensors, tensor, try_convert};

/// A safetensors file in a folder of its own, with this beside it.
fn beside(config: &[u8], metadata: &str) -> (tempfile::TempDir, modelfmt::Model) {
    let folder = tempfile::tempdir().unwrap();
    let source = safetensors(&[tensor("w", DType::F32, &[2])], metadata);
    let path = folder.path().join("model.safetensors");
    modelfmt::convert(&source, Format::Safetensors, &path, &options(|_| {}), &Execution::default()).unwrap();
    std::fs::write(folder.path().join("config.json"), config).unwrap();
    let model = modelfmt::Model::open(&path).unwrap();
    (folder, model)
}

#[test]
fn a_config_beside_the_source_names_it_where_it_says_nothing_itself() {
    let config = br#"{"_name_or_path": "org/tiny", "model_type": "bert", "architectures": ["BertModel"], "license": "MIT"}"#;
    let (_folder, model) = beside(config, "{}");
    let (aero, done) = try_convert(&model, Format::Aero, &options(|_| {})).unwrap();
    let found = json_of(&aero);
    assert_eq!(found.get("model_name"), Some(&"org/tiny".into()));
    assert_eq!(found.get("architecture"), Some(&"bert".into()));
    assert_eq!(found.get("license"), None, "names only");
    assert_eq!(
        notes(&done).iter().filter(|note| note.contains("from the config.json")).count(),
        2,
        "{:?}",
        notes(&done)
    );
    let (apr2, _) = try_convert(&model, Format::Apr2, &options(|_| {})).unwrap();
    assert_eq!(json_of(&apr2).get("model_type"), Some(&"bert".into()));
    // A conversion with it lost nothing, and comes back.
    for found in [&aero, &apr2] {
        assert!(modelfmt::diff(&model, found, &Execution::default()).unwrap().is_same());
        let back = try_convert(found, Format::Safetensors, &options(|_| {})).unwrap().0;
        assert!(json_of(&back).is_empty());
    }
    // What the source says, and what the user says, come first.
    let (_folder, model) = beside(config, r#"{"model_type": "gpt2", "model_name": "own"}"#);
    let found = json_of(&try_convert(&model, Format::Aero, &options(|_| {})).unwrap().0);
    assert_eq!(found.get("model_name"), Some(&"own".into()));
    assert_eq!(found.get("architecture"), Some(&"gpt2".into()));
    let given = options(|o| o.architecture = Some("llama".to_owned()));
    let found = json_of(&try_convert(&model, Format::Aero, &given).unwrap().0);
    assert_eq!(found.get("architecture"), Some(&"llama".into()));
    // Only `architectures` is there.
    let (_folder, model) = beside(br#"{"architectures": ["BertModel"]}"#, "{}");
    let found = json_of(&try_convert(&model, Format::Aero, &options(|_| {})).unwrap().0);
    assert_eq!(found.get("model_name"), Some(&"model".into()));
    assert_eq!(found.get("architecture"), Some(&"BertModel".into()));
}

#[test]
fn a_hostile_config_is_ignored_with_a_note() {
    let long = [b"{\"model_type\": \"x\", \"y\": \"".as_slice(), &vec![b'a'; 2 << 20], b"\"}"].concat();
    let deep = "[".repeat(1 << 19);
    let many = format!("[{}0]", "0,".repeat(1 << 17));
    for (config, says) in [
        (&b"\xff\xfe"[..], "not good JSON"),
        (b"{\"model_type\": ", "not good JSON"),
        (&long, "longer than 1 MiB"),
        (deep.as_bytes(), "not good JSON"),
        (many.as_bytes(), "not good JSON"),
    ] {
        let (_folder, model) = beside(config, "{}");
        let (found, done) = try_convert(&model, Format::Aero, &options(|_| {})).unwrap();
        assert_eq!(json_of(&found).get("architecture"), Some(&"unknown".into()));
        assert!(
            notes(&done).iter().any(|note| note.contains("config.json is ignored") && note.contains(says)),
            "{:?}",
            notes(&done)
        );
    }
    for config in [r#"{"model_type": 5, "architectures": "x", "_name_or_path": ["y"]}"#, "[]", "null"] {
        let (_folder, model) = beside(config.as_bytes(), "{}");
        let found = json_of(&try_convert(&model, Format::Aero, &options(|_| {})).unwrap().0);
        assert_eq!(found.get("architecture"), Some(&"unknown".into()), "{config}");
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_called_config_is_not_waited_for() {
    let (folder, model) = beside(b"{}", "{}");
    let config = folder.path().join("config.json");
    std::fs::remove_file(&config).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&config).status().unwrap().success());
    assert!(try_convert(&model, Format::Aero, &options(|_| {})).is_ok());
}
