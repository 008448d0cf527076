//! Names that a config.json next to a source gives to the model.

use modelfmt::convert::{Preset, TypeRule};
use modelfmt::{DType, Execution, Format};

use super::common::{T, json_of, notes, options, safetensors, tensor, try_convert};

/// Returns a safetensors file in its own folder, with this config.json.
fn beside(config: &[u8], metadata: &str) -> (tempfile::TempDir, modelfmt::Model) {
    beside_of(config, &safetensors(&[tensor("w", DType::F32, &[2])], metadata))
}

/// Does the same, with this source.
fn beside_of(config: &[u8], source: &modelfmt::Model) -> (tempfile::TempDir, modelfmt::Model) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    modelfmt::Conversion::new(source, &path)
        .to(Format::Safetensors)
        .options(&options(|_| {}))
        .write()
        .unwrap();
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
    // A conversion with it has lost nothing, and can be converted back.
    for found in [&aero, &apr2] {
        assert!(modelfmt::diff::diff(&model, found, &Execution::default()).unwrap().is_same());
        let back = try_convert(found, Format::Safetensors, &options(|_| {})).unwrap().0;
        assert!(json_of(&back).is_empty());
    }
    // What the source states, and what the user states, take precedence.
    let (_folder, model) = beside(config, r#"{"model_type": "gpt2", "model_name": "own"}"#);
    let found = json_of(&try_convert(&model, Format::Aero, &options(|_| {})).unwrap().0);
    assert_eq!(found.get("model_name"), Some(&"own".into()));
    assert_eq!(found.get("architecture"), Some(&"gpt2".into()));
    let given = options(|o| o.metadata.architecture = Some("llama".to_owned()));
    let found = json_of(&try_convert(&model, Format::Aero, &given).unwrap().0);
    assert_eq!(found.get("architecture"), Some(&"llama".into()));
    // Only `architectures` is present.
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

/// A cache of the hub has links to files, which may have been deleted.
#[cfg(unix)]
#[test]
fn a_config_whose_link_leads_nowhere_is_an_error() {
    let (folder, model) = beside(b"{}", "{}");
    let config = folder.path().join("config.json");
    std::fs::remove_file(&config).unwrap();
    std::os::unix::fs::symlink("../blobs/0", &config).unwrap();
    let error = try_convert(&model, Format::Gguf, &options(|_| {})).unwrap_err().to_string();
    assert!(error.contains("config.json: No such file"), "{error}");
}

/// Returns the architecture in a conversion to AERO, and the notes about config.json.
fn named(model: &modelfmt::Model) -> (Option<modelfmt::Value>, Vec<String>) {
    let (found, done) = try_convert(model, Format::Aero, &options(|_| {})).unwrap();
    let notes = notes(&done).into_iter().filter(|note| note.contains("config.json"));
    (json_of(&found).get("architecture").cloned(), notes.collect())
}

#[test]
fn a_config_that_a_pin_does_not_cover_is_not_read() {
    let (_folder, model) = beside(br#"{"model_type": "bert"}"#, "{}");
    let bytes = std::fs::read(model.path()).unwrap();
    let pin = modelfmt::Pin::B3(*blake3::hash(&bytes).as_bytes());
    let pinned = modelfmt::OpenOptions::new().pin(pin).open(model.path()).unwrap();
    let (architecture, notes) = named(&pinned);
    assert_eq!(architecture, Some("unknown".into()));
    assert!(notes.iter().all(|note| note.contains("does not cover the config.json")), "{notes:?}");
    assert_eq!(notes.len(), 2, "{notes:?}");
    // The same if it is one of several models.
    let others =
        modelfmt::Model::merged([pinned, safetensors(&[tensor("v", DType::F32, &[2])], "{}")]).unwrap();
    assert_eq!(named(&others).0, Some("unknown".into()));
    // Without a pin, it is used, and a note says what was taken from it.
    let (architecture, notes) = named(&model);
    assert_eq!(architecture, Some("bert".into()));
    assert_eq!(notes, [r#"architecture is "bert", from the config.json beside the file"#]);
}

#[cfg(feature = "sign")]
#[test]
fn a_config_counts_with_a_key_if_it_is_what_was_signed() {
    use modelfmt::keys::{KeyType, PrivateKey};
    use modelfmt::oms::{SignOptions, VerifyOptions, sign};
    let key = PrivateKey::from_bytes(KeyType::P256, &[7; 32]).unwrap();
    let work = Execution::default();
    let open = |model: &std::path::Path| {
        let keys = [key.public().clone()];
        let files = modelfmt::signed::signed_files(model, &keys, &VerifyOptions::new(), &work).unwrap();
        modelfmt::OpenOptions::new().signed_files(files).open(model).unwrap()
    };
    let (folder, model) = beside(br#"{"model_type": "bert"}"#, "{}");
    let (path, config) = (model.path(), folder.path().join("config.json"));
    sign(path, &key, &SignOptions::new(), &work).unwrap();
    let (architecture, notes) = named(&open(path));
    assert_eq!(architecture, Some("unknown".into()));
    assert!(notes.iter().all(|note| note.contains("does not cover the config.json")), "{notes:?}");
    assert_eq!(notes.len(), 2, "{notes:?}");
    // The signature of the folder covers it.
    std::fs::remove_file(path.with_file_name("model.safetensors.sig")).unwrap();
    sign(folder.path(), &key, &SignOptions::new(), &work).unwrap();
    let signed = open(path);
    assert_eq!(named(&signed).0, Some("bert".into()));
    // A file that was written after it was hashed is not read.
    std::fs::write(&config, br#"{"model_type": "gpt2"}"#).unwrap();
    let (architecture, notes) = named(&signed);
    assert_eq!(architecture, Some("unknown".into()));
    assert!(notes.iter().any(|note| note.contains("config.json is ignored: bytes 0 to 22")), "{notes:?}");
    // A file that the signer left out is not read.
    std::fs::remove_file(folder.path().join("model.sig")).unwrap();
    let options = SignOptions::new().ignore(["config.json".to_owned()]);
    sign(folder.path(), &key, &options, &work).unwrap();
    assert_eq!(named(&open(path)).0, Some("unknown".into()));
}

/// If only AERO's manifest has a name, and no key states it, a note says where it comes from.
#[test]
fn a_name_of_the_manifest_alone_is_noted() {
    let config = br#"{"_name_or_path": "org/tiny", "model_type": "bert"}"#;
    let (_folder, model) = beside(config, r#"{"model_name": "own"}"#);
    let (_, notes) = named(&model);
    let name = r#"model_name of the manifest is "org/tiny", from the config.json beside the file"#;
    assert!(notes.iter().any(|note| note == name), "{notes:?}");
}

#[test]
fn the_architecture_that_presets_go_by_is_noted() {
    let name = "model.layers.0.self_attn.v_proj.weight";
    let zeros = T { name, dtype: DType::F32, shape: vec![256, 256], bytes: vec![0; 4 << 16] };
    let source = safetensors(&[zeros], "{}");
    let (_folder, model) = beside_of(br#"{"model_type": "llama"}"#, &source);
    let preset = options(|o| {
        o.types.rules = vec![TypeRule::quantize(Preset::Q4KM)];
        o.tensors.map = Some("none".to_owned());
    });
    let notes = notes(&try_convert(&model, Format::Gguf, &preset).unwrap().1);
    let expected = r#"types are chosen for the architecture "llama", from the config.json beside the file"#;
    assert!(notes.iter().any(|note| note == expected), "{notes:?}");
}
