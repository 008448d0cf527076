//! Hub folders that become GGUF and then hub folders again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use modelfmt::convert::{ConvertOptions, Converted, Saving, TypeRule};
use modelfmt::modelfmt_write::{self, TensorSpec};
use modelfmt::value::json;
use modelfmt::wording::{Choice, Remedy, Words};
use modelfmt::{Conversion, DType, Error, Execution, Format, Model, Object, Target, Value};
use modelfmt_gguf::{MetaValue, Metadata, Plan, WriteOptions};
use proptest::prelude::*;
use tempfile::TempDir;

const LAYERS: u64 = 2;
const EXPERTS: u64 = 3;

/// A tensor: name, dtype, shape and bytes.
pub(super) type Tensor = (String, DType, Vec<u64>, Vec<u8>);

/// Returns the built-in maps: their names and texts.
pub(super) fn maps() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../modelfmt-hub/maps");
    let mut maps: Vec<(String, String)> = (fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (path.file_stem().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap())
        })
        .collect();
    maps.sort();
    maps
}

/// Returns the first quoted text of a line that begins with `key`.
fn quoted<'a>(map: &'a str, key: &str) -> Option<&'a str> {
    let line = map.lines().find(|line| line.starts_with(key))?;
    line.split('"').nth(1)
}

/// Returns the names of the tensors that a map has, with numbers, each after its pattern.
fn names(map: &str) -> Vec<(&str, String)> {
    let section = map.split("[tensors]").nth(1).unwrap().split("\n[").next().unwrap();
    let patterns =
        section.lines().filter(|line| line.starts_with('"')).map(|line| line.split('"').nth(1).unwrap());
    let prefix = quoted(map, "prefixes = ").unwrap_or("");
    let mut names = Vec::new();
    for pattern in patterns {
        let layers = if pattern.contains("{i}") { LAYERS } else { 1 };
        let experts = if pattern.contains("{e}") { EXPERTS } else { 1 };
        for (layer, expert) in (0..layers).flat_map(|layer| (0..experts).map(move |expert| (layer, expert))) {
            let name = pattern.replace("{i}", &layer.to_string()).replace("{e}", &expert.to_string());
            names.push((pattern, format!("{prefix}{name}")));
        }
    }
    names
}

pub(super) fn config(map: &str, more: &str) -> Object {
    let family = quoted(map, "families = ").unwrap();
    let text = format!(
        r#"{{"architectures": ["X"], "model_type": "{family}", "hidden_size": 16, "n_embd": 16, "num_attention_heads": 2, "n_head": 2,
        "num_key_value_heads": 2, "head_dim": 8, "query_pre_attn_scalar": 8, "qk_layernorm": {}, "num_hidden_layers": {LAYERS},
        "n_layer": {LAYERS}, "intermediate_size": 10, "vocab_size": 8, "n_positions": 5, "max_position_embeddings": 5,
        "num_local_experts": {EXPERTS}, "num_experts": {EXPERTS}, "moe_intermediate_size": 3, "shared_expert_intermediate_size": 4,
        "norm_topk_prob": {}}}"#,
        family == "stablelm",
        family == "qwen3_moe",
    );
    let mut config = json::parse_object(text.as_bytes()).unwrap();
    let more = format!("{{{}}}", more.trim_start_matches(','));
    for (key, value) in json::parse_object(more.as_bytes()).unwrap() {
        config.insert(key, value);
    }
    config
}

/// Returns a section of a map: keys and values, as they are written.
fn section<'a>(map: &'a str, name: &str) -> Vec<(&'a str, &'a str)> {
    let rest = map.split(&format!("\n[{name}]\n")).nth(1).unwrap_or_default();
    let lines = rest.split("\n[").next().unwrap().lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once(" = "));
    pairs.map(|(key, value)| (key.trim_matches('"'), value.trim_matches('"'))).collect()
}

/// Returns the shape that a map requires for the tensors with a pattern. Open dimensions are 7.
fn shape(map: &str, config: &Object, name: &str) -> Vec<u64> {
    let fits = |pattern: &str| match pattern.strip_prefix('*') {
        Some(end) => name.ends_with(end),
        None => name == pattern,
    };
    let shapes = section(map, "shapes");
    let (_, sizes) =
        (shapes.iter().filter(|(pattern, _)| fits(pattern)).max_by_key(|(pattern, _)| pattern.len()))
            .unwrap_or_else(|| panic!("{name}"));
    let defaults = section(map, "defaults");
    let count = |key: &str| {
        let known = config.get(key).and_then(Value::as_u64);
        let default = || defaults.iter().find(|(own, _)| *own == key)?.1.parse().ok();
        known.or_else(default).unwrap_or_else(|| panic!("{name}: {key}"))
    };
    let factor = |text: &str| text.trim().parse().unwrap_or_else(|_| count(text.trim()));
    let product = |text: &str| text.split('*').map(factor).product::<u64>();
    let size = |text: &str| if text.trim() == "?" { 7 } else { text.split('+').map(product).sum() };
    sizes.split(',').map(size).collect()
}

/// Returns a model of a family. Its values are taken from `bytes`, which are repeated.
pub(super) fn model(map: &str, config: &Object, dtypes: &[DType], bytes: &[u8]) -> Vec<Tensor> {
    let mut bytes = bytes.iter().copied().cycle();
    let of = |(pattern, name): (&str, String)| {
        let shape = shape(map, config, pattern);
        let number: usize = name.bytes().filter(|byte| !byte.is_ascii_digit()).map(usize::from).sum();
        let dtype = dtypes[number % dtypes.len()];
        let len = usize::try_from(dtype.nbytes(&shape).unwrap()).unwrap();
        (name, dtype, shape, bytes.by_ref().take(len).collect())
    };
    let default = section(map, "defaults").contains(&("tie_word_embeddings", "true"));
    let is_tied = config.get("tie_word_embeddings").map_or(default, |tied| *tied == Value::Bool(true));
    let line = map.lines().find(|line| line.starts_with("\"lm_head.weight\""));
    let has_head = line.is_some_and(|line| !(is_tied && line.contains("unless")));
    names(map).into_iter().filter(|(pattern, _)| has_head || !pattern.contains("lm_head")).map(of).collect()
}

fn save(path: &Path, tensors: &[Tensor]) {
    let specs =
        tensors.iter().map(|(name, dtype, shape, _)| TensorSpec::new(name.as_str(), *dtype, shape.clone()));
    let values: Vec<&[u8]> = tensors.iter().map(|(.., bytes)| &bytes[..]).collect();
    let options = ConvertOptions::default();
    let saving = Saving::new(Format::Safetensors, path, specs, &Object::new(), &options).unwrap();
    saving.write(&values, &Execution::default()).unwrap();
}

/// Returns a hub folder.
pub(super) fn folder(tensors: &[Tensor], config: &Object) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    save(&folder.path().join("model.safetensors"), tensors);
    let text = json::to_string(&Value::Object(config.clone())).unwrap();
    fs::write(folder.path().join("config.json"), text).unwrap();
    folder
}

pub(super) fn tensors(path: &Path) -> BTreeMap<String, (DType, Vec<u64>, Vec<u8>)> {
    let model = Model::open(path).unwrap();
    let tensor = |info: modelfmt::TensorInfo<'_>| {
        let bytes = model.tensor(info.name).unwrap().bytes().to_vec();
        (info.name.to_owned(), (info.dtype, info.shape.to_vec(), bytes))
    };
    model.tensors().map(tensor).collect()
}

fn as_map(tensors: &[Tensor]) -> BTreeMap<String, (DType, Vec<u64>, Vec<u8>)> {
    tensors.iter().cloned().map(|(name, dtype, shape, bytes)| (name, (dtype, shape, bytes))).collect()
}

fn config_in(folder: &Path) -> Object {
    json::parse_object(&fs::read(folder.join("config.json")).unwrap()).unwrap()
}

fn hf() -> Target {
    "hf".parse().unwrap()
}

/// Converts a folder to a GGUF in the same folder.
fn to_gguf(folder: &TempDir) -> PathBuf {
    let out = folder.path().join("model.gguf");
    let source = Model::open(folder.path().join("model.safetensors")).unwrap();
    Conversion::new(&source, &out).write().unwrap();
    out
}

/// Converts a GGUF to a folder.
fn to_folder(gguf: &Path, out: &Path, change: impl FnOnce(&mut ConvertOptions)) -> Result<Converted, Error> {
    let model = Model::open(gguf).unwrap();
    Conversion::new(&model, out).to(hf()).with(change).write()
}

/// Returns a small Llama in `bf16`.
pub(super) fn llama(more: &str) -> (TempDir, Vec<Tensor>, Object) {
    of_family("llama", more)
}

/// Returns a small model of a family in `bf16`.
pub(super) fn of_family(family: &str, more: &str) -> (TempDir, Vec<Tensor>, Object) {
    let (_, map) = maps().into_iter().find(|(name, _)| name == family).unwrap();
    let config = config(&map, more);
    let tensors = model(&map, &config, &[DType::BF16], &[0, 0x3c, 1, 0xbd]);
    (folder(&tensors, &config), tensors, config)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn every_family_comes_back(
        dtypes in prop::collection::vec(prop::sample::select(vec![DType::F32, DType::BF16, DType::F16]), 1..6),
        bytes in prop::collection::vec(any::<u8>(), 1..64),
    ) {
        for (name, map) in maps() {
            if ["stablelm", "t5"].contains(&&*name) {
                continue; // what {i} and {e} count there are other keys
            }
            let config = config(&map, "");
            let own = model(&map, &config, &dtypes, &bytes);
            let folder = folder(&own, &config);
            let out = folder.path().join("back");
            let done = to_folder(&to_gguf(&folder), &out, |_| {}).unwrap_or_else(|error| panic!("{name}: {error}"));
            prop_assert!(tensors(&out.join("model.safetensors")) == as_map(&own), "{}", name);
            prop_assert_eq!(config_in(&out), config, "{}", name);
            prop_assert_eq!((done.is_hub_folder, done.dropped), (true, Vec::new()));
        }
    }
}

const TOKENIZER: &str = r#"{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [{"id": 3, "content": "<end>",
    "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}], "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}, "post_processor": null,
    "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
    "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
    "vocab": {"alpha": 0, "beta": 1, "alphabeta": 2}, "merges": ["alpha beta"]}}"#;

#[test]
fn the_files_of_the_tokenizer_come_back() {
    let (folder, _, _) = llama("");
    let files = [
        ("tokenizer.json", TOKENIZER),
        ("tokenizer_config.json", r#"{"model_max_length": 1000000000000000019884624838656}"#),
        ("special_tokens_map.json", r#"{"eos_token": "<end>"}"#),
        ("generation_config.json", r#"{"temperature": 0.6}"#),
        ("chat_template.jinja", "{{ messages }}\n"),
        ("tokenizer.model", "\u{1}\u{2}"),
        ("README.md", "---\nlicense: mit\n---\n# A card"),
        ("notes.txt", "not a part of the model"),
    ];
    files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
    let out = folder.path().join("out");
    let gguf = to_gguf(&folder);
    let keys = Model::open(&gguf).unwrap().common_metadata().unwrap().keys;
    assert_eq!(keys.get("tokenizer.ggml.pre").and_then(Value::as_str), Some("gpt-2"));
    let travels = keys.get("modelfmt.hub.file.tokenizer.json").and_then(Value::as_str).unwrap();
    assert!(!travels.contains("alpha") && travels.contains("ByteLevel"), "{travels}");
    to_folder(&gguf, &out, |_| {}).unwrap();
    for (name, text) in &files[..7] {
        let found = fs::read(out.join(name)).unwrap();
        match json::parse(text.as_bytes()) {
            Ok(value) => assert_eq!(json::parse(&found).unwrap(), value, "{name}"),
            Err(_) => assert_eq!(found, text.as_bytes(), "{name}"),
        }
    }
    assert!(!out.join("notes.txt").exists());
}

#[test]
fn a_set_comes_back_in_shards_or_one_file() {
    let (folder, own, config) = llama("");
    let gguf = to_gguf(&folder);
    let out = folder.path().join("out");
    let done = to_folder(&gguf, &out, |options| options.output.shard_size = Some(2000)).unwrap();
    let names: Vec<&str> = done.files.iter().map(|file| file.path.as_str()).collect();
    assert!(names.contains(&"model.safetensors.index.json") && names.contains(&"config.json"), "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("model-00002-of-")), "{names:?}");
    assert_eq!(tensors(&out.join("model.safetensors.index.json")), as_map(&own));
    // Into the same folder as one file: nothing of the set remains.
    let done = to_folder(&gguf, &out, |options| {
        options.output.shard_size = Some(1 << 20);
        options.output.overwrite = modelfmt::convert::Overwrite::Replace;
    })
    .unwrap();
    assert!(done.notes.iter().any(|note| note.text.contains("is removed")));
    let mut left: Vec<String> =
        fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left, ["config.json", "model.safetensors"]);
    assert_eq!((tensors(&out.join("model.safetensors")), config_in(&out)), (as_map(&own), config));
}

#[test]
fn a_dry_run_writes_nothing() {
    let (folder, own, _) = llama("");
    let model = Model::open(to_gguf(&folder)).unwrap();
    let out = folder.path().join("out");
    let done = Conversion::new(&model, &out).to(hf()).dry_run().unwrap();
    assert_eq!((done.tensors, out.exists()), (own.len(), false));
    let mut names: Vec<&str> = done.files.iter().map(|file| file.path.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["config.json", "model.safetensors"]);
    fs::create_dir(&out).unwrap();
    fs::write(out.join("x"), "").unwrap();
    let error = Conversion::new(&model, &out).to(hf()).dry_run().unwrap_err();
    assert!(matches!(error, Error::Exists { .. }), "{error}");
}

#[test]
fn a_folder_with_files_is_refused_and_nothing_is_left_after_an_error() {
    let (folder, _, _) = llama("");
    let gguf = to_gguf(&folder);
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    to_folder(&gguf, &out, |_| {}).unwrap();
    let error = to_folder(&gguf, &out, |_| {}).unwrap_err();
    assert!(matches!(error, Error::Exists { .. }), "{error}");
    // A file is not a folder, and a folder within a missing folder is not created.
    assert!(matches!(to_folder(&gguf, &gguf, |_| {}).unwrap_err(), Error::Write { .. }));
    assert!(to_folder(&gguf, &folder.path().join("a/b"), |_| {}).is_err());
    // The last tensor of the GGUF is cut off while it is read.
    let damaged = folder.path().join("damaged.gguf");
    fs::copy(&gguf, &damaged).unwrap();
    let model = Model::open(&damaged).unwrap();
    let out = folder.path().join("new");
    let plan = Conversion::new(&model, &out).to(hf()).plan().unwrap();
    fs::OpenOptions::new().write(true).open(&damaged).unwrap().set_len(4096).unwrap();
    assert!(plan.write(&out, &Execution::default()).is_err());
    assert!(!out.exists());
}

#[test]
fn an_input_is_never_replaced() {
    let (folder, _, _) = llama("");
    // A GGUF that has the same name as the weights.
    let gguf = folder.path().join("in");
    fs::create_dir(&gguf).unwrap();
    let gguf = gguf.join("model.safetensors");
    fs::copy(to_gguf(&folder), &gguf).unwrap();
    let before = fs::read(&gguf).unwrap();
    let replace =
        |options: &mut ConvertOptions| options.output.overwrite = modelfmt::convert::Overwrite::Replace;
    let error = to_folder(&gguf, gguf.parent().unwrap(), replace).unwrap_err();
    assert!(error.to_string().contains("file of the input"), "{error}");
    assert_eq!(fs::read(&gguf).unwrap(), before);
}

/// A hub folder is more than its weights. Files beside a GGUF are no part of it.
#[test]
fn no_output_replaces_a_file_beside_the_weights() {
    let (folder, _, _) = llama("");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("vocab.txt"), "a").unwrap();
    fs::write(path("model.safetensors.sig"), "b").unwrap();
    let gguf = to_gguf(&folder);
    let replace = |model: &Path, out: &Path| {
        let model = Model::open(model).unwrap();
        let replace =
            |options: &mut ConvertOptions| options.output.overwrite = modelfmt::convert::Overwrite::Replace;
        Conversion::new(&model, out).to(Format::Gguf).with(replace).write()
    };
    for name in ["config.json", "vocab.txt", "model.safetensors.sig"] {
        let before = fs::read(path(name)).unwrap();
        let error = replace(&path("model.safetensors"), &path(name)).unwrap_err();
        assert!(error.to_string().contains("file of the input"), "{name}: {error}");
        assert_eq!(fs::read(path(name)).unwrap(), before, "{name}");
    }
    // A GGUF says itself what such a file says, but a signature may be about it.
    fs::write(path("model.sig"), "c").unwrap();
    assert!(replace(&gguf, &path("model.sig")).is_err());
    replace(&gguf, &path("vocab.txt")).unwrap();
}

/// Every file that describes the model is in the copy of a folder.
#[test]
fn a_copy_of_a_folder_has_the_files_that_describe_it() {
    let (folder, _, _) = llama("");
    let names = modelfmt::convert::ABOUT_WEIGHTS.into_iter().filter(|name| *name != "config.json");
    for name in names.clone() {
        fs::write(folder.path().join(name), "{}").unwrap();
    }
    let model = Model::open(folder.path()).unwrap();
    let out = folder.path().join("copy");
    Conversion::new(&model, &out).to(hf()).write().unwrap();
    for name in names {
        assert_eq!(fs::read(out.join(name)).unwrap(), b"{}", "{name}");
    }
}

/// Returns a GGUF as other tools write it: our own keys are left out.
fn foreign(gguf: &Path, out: &Path, change: impl FnOnce(&mut BTreeMap<String, Value>)) {
    let model = Model::open(gguf).unwrap();
    let mut keys: BTreeMap<String, Value> = (model.common_metadata().unwrap().keys.into_iter())
        .filter(|(key, _)| !key.starts_with("modelfmt"))
        .collect();
    change(&mut keys);
    let mut metadata = Metadata::new();
    for (key, value) in &keys {
        let value = match value {
            Value::Int(number) => MetaValue::U32(u32::try_from(number.as_u64().unwrap()).unwrap()),
            Value::Float(number) => MetaValue::F32(*number as f32),
            Value::Bool(flag) => MetaValue::Bool(*flag),
            other => MetaValue::String(other.as_str().unwrap()),
        };
        metadata.push(key, value).unwrap();
    }
    let all = tensors(gguf);
    let specs =
        all.iter().map(|(name, (dtype, shape, _))| TensorSpec::new(name.as_str(), *dtype, shape.clone()));
    let values: Vec<&[u8]> = all.values().map(|(.., bytes)| &bytes[..]).collect();
    let plan = Plan::new(specs, &metadata, &WriteOptions::new()).unwrap();
    plan.write_file(out, modelfmt::convert::Overwrite::Refuse, &values, &Execution::default()).unwrap();
}

const LLAMA3: &str = r#", "head_dim": 64, "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}"#;

#[test]
fn a_gguf_of_others_is_restored_only_with_lossy() {
    let (folder, own, config) = llama(LLAMA3);
    let gguf = folder.path().join("foreign.gguf");
    foreign(&to_gguf(&folder), &gguf, |_| {});
    let out = folder.path().join("out");
    let error = to_folder(&gguf, &out, |_| {}).unwrap_err();
    let Error::Unsupported { unsupported, .. } = &error else { panic!("{error}") };
    assert!(unsupported.iter().all(|item| item.remedy == Some(Remedy::Lossy)), "{error}");
    assert!(!out.exists());
    let done = to_folder(&gguf, &out, |options| options.metadata.lossy = true).unwrap();
    assert_eq!(done.dropped, *unsupported);
    let restored = config_in(&out);
    assert_eq!(restored.get("rope_scaling"), config.get("rope_scaling"));
    // Matrices are unchanged, norms are f32.
    let (back, before) = (tensors(&out.join("model.safetensors")), as_map(&own));
    for (name, (dtype, shape, bytes)) in &before {
        let found = &back[name];
        assert_eq!(&found.1, shape, "{name}");
        match shape.len() {
            1 => assert_eq!((*dtype, found.0), (DType::BF16, DType::F32), "{name}"),
            _ => assert_eq!((&found.0, &found.2), (dtype, bytes), "{name}"),
        }
    }
}

#[test]
fn blocks_are_dequantized_if_that_is_asked_for() {
    let (_, map) = maps().into_iter().find(|(name, _)| name == "llama").unwrap();
    let config =
        config(&map, r#", "hidden_size": 32, "head_dim": 16, "intermediate_size": 64, "vocab_size": 32"#);
    let bytes: Vec<u8> = (0..7).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let own = model(&map, &config, &[DType::F32], &bytes);
    let folder = folder(&own, &config);
    let gguf = folder.path().join("q8.gguf");
    let source = Model::open(folder.path().join("model.safetensors")).unwrap();
    Conversion::new(&source, &gguf).quantize(DType::Q8_0).write().unwrap();
    let out = folder.path().join("out");
    let error = super::common::all(&to_folder(&gguf, &out, |_| {}).unwrap_err());
    assert!(error.contains("gguf's q8_0 is not in safetensors") && error.contains("dequantize"), "{error}");
    // The same numbers as from a GGUF that is dequantized first, in the order of the folder.
    let plain = folder.path().join("plain.gguf");
    Conversion::new(&Model::open(&gguf).unwrap(), &plain).dequantize(DType::F32).write().unwrap();
    to_folder(&gguf, &out, |options| options.types.rules.push(TypeRule::dequantize(DType::F32))).unwrap();
    let other = folder.path().join("other");
    to_folder(&plain, &other, |_| {}).unwrap();
    let of = |folder: &Path| tensors(&folder.join("model.safetensors"));
    assert!(of(&out) == of(&other));
    let q = "model.layers.1.self_attn.q_proj.weight";
    assert_eq!((of(&out)[q].0, &of(&out)[q].1), (DType::F32, &vec![32, 32]));
    // Globs match the names in the GGUF.
    let one = folder.path().join("one");
    let rule = |text: &str| text.parse::<TypeRule>().unwrap();
    to_folder(&gguf, &one, |options| {
        options.types.rules = vec![rule("dequantize f32"), rule("dequantize blk.1.attn_q.weight=f16")];
    })
    .unwrap();
    assert_eq!((of(&one)[q].0, of(&one)["lm_head.weight"].0), (DType::F16, DType::F32));
}

/// The flags of the program.
struct Flags;

impl Words for Flags {
    fn choice(&self, choice: Choice) -> &str {
        choice.name()
    }

    fn remedy(&self, remedy: Remedy) -> String {
        format!("{remedy:?}")
    }
}

#[test]
fn what_cannot_be_a_folder_is_refused() {
    let (folder, _, _) = llama("");
    let gguf = to_gguf(&folder);
    let out = folder.path().join("out");
    let refused = |path: &Path, change: &dyn Fn(&mut ConvertOptions)| {
        let model = Model::open(path).unwrap();
        let error =
            Conversion::new(&model, &out).to(hf()).with(|options| change(options)).write().unwrap_err();
        assert!(!out.exists());
        error.in_words(&Flags)
    };
    let plain = |_: &mut ConvertOptions| {};
    let weights = folder.path().join("model.safetensors");
    assert!(refused(&weights, &plain).contains(
        "a folder of the hub is made of a GGUF or of another such folder, and this model is safetensors"
    ));
    assert!(
        refused(&gguf, &|options| options.tensors.map = Some("none".to_owned())).contains("is made by a map")
    );
    let other = refused(&gguf, &|options| options.tensors.map = Some("qwen2".to_owned()));
    assert!(other.contains("it is \"llama\", and the map qwen2 is for \"qwen2\""), "{other}");
    assert!(
        refused(&gguf, &|options| options.tensors.map = Some("nobody".to_owned()))
            .contains("\"nobody\" is neither")
    );
    let mag = Conversion::new(&Model::open(&gguf).unwrap(), &out)
        .to(Format::Mag)
        .with(|options| options.output.hub_folder = true)
        .write()
        .unwrap_err();
    assert!(mag.to_string().contains("are safetensors, not mag"), "{mag}");
    let model = Model::open(&gguf).unwrap();
    let sink = Conversion::new(&model, &out).to(hf()).write_to_sink(&modelfmt_write::MemoryFile::new());
    assert!(sink.unwrap_err().to_string().contains("written into a folder of this machine"));
    let adapter = folder.path().join("adapter.gguf");
    foreign(&gguf, &adapter, |keys| {
        keys.insert("general.type".to_owned(), "adapter".into());
    });
    assert!(refused(&adapter, &plain).contains("`general.type` is \"adapter\""));
    let nobody = folder.path().join("nobody.gguf");
    foreign(&gguf, &nobody, |keys| {
        keys.insert("general.architecture".to_owned(), "nobody".into());
    });
    assert!(refused(&nobody, &plain).contains("there is no map for \"nobody\"; these have one: "));
    let hostile = folder.path().join("hostile.gguf");
    foreign(&gguf, &hostile, |keys| {
        let config = r#"{"set": {"model_type": {"value": [[[[]]]]}}, "drop": ["x"]}"#;
        keys.insert("modelfmt.hub.version".to_owned(), 1u64.into());
        keys.insert("modelfmt.hub.map".to_owned(), "llama".into());
        keys.insert("modelfmt.hub.file.config.json".to_owned(), config.into());
    });
    let error = refused(&hostile, &plain);
    assert!(
        error.contains("metadata key \"modelfmt.hub.file.config.json\": there is no \"x\" to drop"),
        "{error}"
    );
}
