use std::collections::BTreeMap;

use modelfmt_value::{Object, Value, json};
use proptest::prelude::*;
use tensor_core::DType;
use tensor_program::Program;

use super::extra_keys::plain;
use super::{ExtraKeys, Folder, Gguf, Group, extra_keys, inverse_programs};
use crate::maps::tests::{Sizes, read};
use crate::{Config, HubTensor, Key, Map};

/// A model of a folder: names, dtypes, shapes and values.
#[derive(Clone, Debug)]
struct Model(Vec<(String, DType, Vec<u64>, Vec<u8>)>);

impl Model {
    fn list(&self) -> Vec<HubTensor<'_>> {
        self.0.iter().map(|(name, dtype, shape, _)| HubTensor { name, dtype: *dtype, shape }).collect()
    }

    fn values(&self) -> Vec<Vec<u8>> {
        self.0.iter().map(|(.., values)| values.clone()).collect()
    }

    fn sorted(mut self) -> Self {
        self.0.sort();
        self
    }
}

/// A model of the map whose values are taken from `bytes`, over and over.
fn model(map: &Map, config: &Config, dtypes: &[DType], bytes: &[u8]) -> Model {
    let mut bytes = bytes.iter().copied().cycle();
    // The experts of a layer are of one dtype.
    let of = |(name, shape): (String, Vec<u64>)| {
        let number: usize = name.bytes().filter(|byte| !byte.is_ascii_digit()).map(usize::from).sum();
        let dtype = dtypes[number % dtypes.len()];
        let len = usize::try_from(dtype.nbytes(&shape).unwrap()).unwrap();
        (name, dtype, shape, bytes.by_ref().take(len).collect())
    };
    Model(Sizes::SMALL.tensors(map, config).into_iter().map(of).collect())
}

/// The GGUF that a folder becomes: its tensors and its keys.
fn gguf(map: &Map, text: &Object, model: &Model) -> (Model, Object) {
    let config = Config::of(text.clone());
    let list = model.list();
    let mapped = map.apply(&config, &list).unwrap();
    let values = model.values();
    let differs = |(number, program): (usize, Program)| {
        (read(&program, &values) != values[number]).then(|| (number, values[number].clone()))
    };
    let originals: Vec<(usize, Vec<u8>)> =
        inverse_programs(&mapped).unwrap().into_iter().filter_map(differs).collect();
    let ExtraKeys { keys, notes } = extra_keys(map, text, &list, &mapped, originals).unwrap();
    assert!(notes.is_empty());
    let made = mapped.tensors.iter().map(|made| {
        let (dtype, shape) = (made.program.dtype(), made.program.shape().to_vec());
        (made.name.clone(), dtype, shape, read(&made.program, &values))
    });
    let all = mapped.keys.iter().chain(&keys).map(|(key, value)| (key.as_str(), plain(value)));
    (Model(made.collect()), all.collect())
}

fn folder_of(gguf: &Model, keys: &Object, map: Option<Map>) -> Result<Folder, String> {
    let factors: BTreeMap<String, Vec<f32>> = (gguf.0.iter())
        .filter(|(name, ..)| super::FACTORS.contains(&name.as_str()))
        .map(|(name, _, _, values)| {
            (name.clone(), values.as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x)).collect())
        })
        .collect();
    let list = gguf.list();
    Folder::of(&Gguf { keys, tensors: &list, factors }, map).map_err(|error| error.to_string())
}

/// The tensors of the folder, and the reasons of groups that are not exact.
fn back(gguf: &Model, folder: &Folder) -> (Model, Vec<&'static str>) {
    let values = gguf.values();
    let (mut model, mut inexact) = (Vec::new(), Vec::new());
    for Group { tensors, check, .. } in &folder.groups {
        let is_exact =
            check.as_ref().is_none_or(|check| read(&check.again, &values) == read(&check.found, &values));
        let taken = match check {
            Some(check) if !is_exact => {
                inexact.push(check.why);
                &check.otherwise
            }
            _ => tensors,
        };
        for (name, program) in taken {
            let (dtype, shape) = (program.dtype(), program.shape().to_vec());
            model.push((name.clone(), dtype, shape, read(program, &values)));
        }
    }
    (Model(model), inexact)
}

fn config_of(folder: &Folder) -> Value {
    let (_, text) = folder.files.iter().find(|(name, _)| name == "config.json").unwrap();
    json::parse(text).unwrap()
}

/// The text of a config of a family, with more keys.
fn config_text(family: &str, more: &str) -> Object {
    let all = format!(
        r#"{{"architectures": ["X"], "torch_dtype": "bfloat16", "rms_norm_eps": 1e-05, "n_inner": null{more}}}"#
    );
    let mut object = json::parse_object(all.as_bytes()).unwrap();
    for (key, value) in Sizes::SMALL.config(family, "").written() {
        if !object.contains_key(key) {
            object.insert(key, value.clone());
        }
    }
    object
}

fn dtypes() -> impl Strategy<Value = Vec<DType>> {
    prop::collection::vec(prop::sample::select(vec![DType::F32, DType::BF16, DType::F16]), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Any values of any dtypes come back bit for bit from all families, and so does the config.
    #[test]
    fn every_family_comes_back(
        dtypes in dtypes(),
        bytes in prop::collection::vec(any::<u8>(), 1..64),
        is_plain in any::<bool>(),
    ) {
        // Bytes of any kind are mostly numbers to which nothing can be added; these are like those of norms.
        let plain: Vec<u8> = bytes.iter().flat_map(|byte| [*byte & 0x80, 0x3c | byte & 3]).collect();
        let bytes = if is_plain { plain } else { bytes };
        for family in Map::families() {
            let map = Map::of_family(&family).unwrap();
            let text = config_text(&family, "");
            let model = model(&map, &Config::of(text.clone()), &dtypes, &bytes);
            let (made, keys) = gguf(&map, &text, &model);
            let folder = folder_of(&made, &keys, None).unwrap();
            prop_assert_eq!(&folder.map, map.name());
            prop_assert_eq!(&folder.losses, &[], "{}", family);
            let (restored, inexact) = back(&made, &folder);
            prop_assert_eq!(inexact, Vec::<&str>::new(), "{}", family);
            prop_assert!(restored.sorted().0 == model.sorted().0, "{}", family);
            prop_assert_eq!(config_of(&folder), Value::Object(text), "{}", family);
        }
    }
}

/// A small Llama: its config, its tensors in `bf16`, and the GGUF.
fn llama(more: &str) -> (Object, Model, Model, Object) {
    let map = Map::of_family("llama").unwrap();
    let text = config_text("llama", more);
    let model = model(&map, &Config::of(text.clone()), &[DType::BF16], &[0, 0x3d, 1, 0x3e]);
    let (made, keys) = gguf(&map, &text, &model);
    (text, model, made, keys)
}

const SCALED: &str = r#", "head_dim": 64, "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}"#;

#[test]
fn keys_hold_only_what_others_do_not() {
    let (_, _, _, keys) = llama(SCALED);
    let text = |key: &str| keys.get(key).and_then(Value::as_str).unwrap();
    assert_eq!((text("modelfmt.hub.map"), text("modelfmt.hub.tensors")), ("llama", r#"{"dtype":"bf16"}"#));
    let config = text("modelfmt.hub.file.config.json");
    assert!(config.contains("torch_dtype") && config.contains("low_freq_factor"), "{config}");
    assert!(!config.contains(r#""hidden_size":{"#) && !config.contains(r#""vocab_size":{"#), "{config}");
}

#[test]
fn what_changed_since_is_told() {
    let (_, _, mut made, keys) = llama(SCALED);
    // A norm that bf16 does not hold any more, and other factors.
    for (name, .., values) in &mut made.0 {
        if name == "output_norm.weight" || name == "rope_freqs.weight" {
            values[4] ^= 1;
        }
    }
    let folder = folder_of(&made, &keys, None).unwrap();
    let (restored, inexact) = back(&made, &folder);
    assert_eq!(inexact.len(), 2, "{inexact:?}");
    let norm = restored.0.iter().find(|(name, ..)| name == "model.norm.weight").unwrap();
    assert_eq!(norm.1, DType::F32);
}

#[test]
fn keys_that_are_gone_are_missed() {
    for (gone, lost) in [("modelfmt.hub.tensors", 19), ("modelfmt.hub.file.config.json", 1)] {
        let (_, _, made, mut keys) = llama("");
        keys.remove(gone);
        assert_eq!(folder_of(&made, &keys, None).unwrap().losses.len(), lost, "{gone}");
    }
}

#[test]
fn edited_keys_are_in_the_config() {
    let (_, _, made, mut keys) = llama(r#", "max_position_embeddings": 2048"#);
    keys.insert("llama.context_length", 4096u64);
    let folder = folder_of(&made, &keys, None).unwrap();
    assert_eq!(folder.losses, []);
    assert_eq!(config_of(&folder).get("max_position_embeddings"), Some(&Value::from(4096u64)));
}

#[test]
fn a_gguf_of_others_is_restored_as_far_as_it_says() {
    let (text, _, made, mut keys) = llama(SCALED);
    keys.retain(|key, _| !key.starts_with(super::PREFIX));
    keys.insert("general.license", "mit");
    keys.insert("general.author", "somebody");
    let folder = folder_of(&made, &keys, None).unwrap();
    let card = folder.files.iter().find(|(name, _)| name == "README.md").map(|(_, text)| &**text);
    assert_eq!(card, Some(&b"---\nlicense: \"mit\"\n---\n"[..]));
    let lost = |why: &str| folder.losses.iter().filter(|loss| loss.why.contains(why)).count();
    assert_eq!(lost("its type before it became f32 is unknown"), 19, "{:?}", folder.losses);
    assert_eq!((lost("they are solved"), lost("has no place")), (1, 1));
    let config = config_of(&folder);
    for key in ["hidden_size", "rope_theta", "rms_norm_eps", "rope_scaling", "vocab_size"] {
        assert_eq!(config.get(key), text.get(key), "{key}");
    }
    // Its factors are those of the solved parameters.
    assert_eq!(back(&made, &folder).1, Vec::<&str>::new());
}

#[test]
fn a_gguf_of_others_in_f32_is_exact() {
    let map = Map::of_family("qwen2").unwrap();
    let text = config_text("qwen2", "");
    let model = model(&map, &Config::of(text.clone()), &[DType::F32], &[0, 0, 0x80, 0x3e]);
    let (made, mut keys) = gguf(&map, &text, &model);
    keys.retain(|key, _| !key.starts_with(super::PREFIX));
    let folder = folder_of(&made, &keys, None).unwrap();
    assert_eq!(folder.losses, []);
    assert!(back(&made, &folder).0.sorted().0 == model.sorted().0);
}

/// The largest Gemma 2 and Gemma 3 divide scores by the root of another size than that of a head. No key of
/// the GGUF says so: the number of layers does.
#[test]
fn the_largest_gemmas_of_others_come_back() {
    for (family, layers, scalar) in [("gemma2", 46, 16), ("gemma3_text", 62, 16), ("gemma3_text", 2, 8)] {
        let map = Map::of_family(family).unwrap();
        let more = format!(
            r#", "num_hidden_layers": {layers}, "num_attention_heads": 1, "num_key_value_heads": 1,
            "hidden_size": 16, "head_dim": 8, "query_pre_attn_scalar": {scalar}"#
        );
        let text = config_text(family, &more);
        let model = model(&map, &Config::of(text.clone()), &[DType::F32], &[0, 0, 0x80, 0x3e]);
        let (made, mut keys) = gguf(&map, &text, &model);
        keys.retain(|key, _| !key.starts_with(super::PREFIX));
        let folder = folder_of(&made, &keys, None).unwrap();
        assert_eq!(config_of(&folder).get("query_pre_attn_scalar"), Some(&Value::from(scalar)), "{family}");
        assert!(back(&made, &folder).0.sorted().0 == model.sorted().0);
    }
}

/// The hub's library reads the second of the two keys that state the length.
#[test]
fn command_r_comes_back_with_both_lengths() {
    let map = Map::of_family("cohere").unwrap();
    let text = config_text("cohere", r#", "model_max_length": 4096"#);
    let mut model = model(&map, &Config::of(text.clone()), &[DType::F32], &[0, 0, 0x80, 0x3e]);
    model.0.retain(|(name, ..)| !name.contains("_norm.")); // which models of two layers do not have
    let (made, mut keys) = gguf(&map, &text, &model);
    assert_eq!(config_of(&folder_of(&made, &keys, None).unwrap()), Value::Object(text));
    keys.retain(|key, _| !key.starts_with(super::PREFIX));
    let config = config_of(&folder_of(&made, &keys, None).unwrap());
    for key in ["model_max_length", "max_position_embeddings"] {
        assert_eq!(config.get(key), Some(&Value::from(4096u64)), "{key}");
    }
}

#[test]
fn mixtral_is_not_llama() {
    let map = Map::of_family("mixtral").unwrap();
    let text = config_text("mixtral", "");
    let model = model(&map, &Config::of(text.clone()), &[DType::F32], &[0, 0, 0x80, 0x3e]);
    let (made, mut keys) = gguf(&map, &text, &model);
    keys.retain(|key, _| !key.starts_with(super::PREFIX));
    assert_eq!(folder_of(&made, &keys, None).unwrap().map, "mixtral");
}

/// The error for a small Llama whose keys or tensors are changed.
fn refused(change: impl FnOnce(&mut Model, &mut Object)) -> String {
    let (_, _, mut made, mut keys) = llama("");
    change(&mut made, &mut keys);
    folder_of(&made, &keys, None).map(|_| ()).unwrap_err()
}

#[test]
fn experts_are_counted_before_anything_is_made() {
    let map = Map::of_family("mixtral").unwrap();
    let text = config_text("mixtral", "");
    let model = model(&map, &Config::of(text.clone()), &[DType::F32], &[0, 0, 0x80, 0x3e]);
    let (made, mut keys) = gguf(&map, &text, &model);
    keys.retain(|key, _| !key.starts_with(super::PREFIX));
    for (shape, why) in [
        (vec![4_000_000, 64, 0], "its shape [4000000, 64, 0] has room for no value"),
        (vec![4_000_000, 1, 1], "it has 4000000 experts, the limit is 4096"),
        (vec![5, 10, 16], "it has 5 experts, and `num_local_experts` is 3"),
    ] {
        let mut made = made.clone();
        let up = made.0.iter_mut().find(|(name, ..)| name == "blk.0.ffn_up_exps.weight").unwrap();
        up.2 = shape;
        let error = folder_of(&made, &keys, None).map(|_| ()).unwrap_err();
        assert_eq!(error, format!("tensor \"blk.0.ffn_up_exps.weight\": {why}"));
    }
}

#[test]
fn keys_of_a_tokenizer_that_were_edited_are_lost() {
    const JSON: &str = r#"{"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "added_tokens":
        [{"id": 3, "content": "<s>", "special": true}], "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}}"#;
    const SIDE: &str = r#"{"eos_token": "<s>", "chat_template": "hello"}"#;
    let (_, _, made, mut keys) = llama("");
    let texts = [("tokenizer.json", JSON), ("tokenizer_config.json", SIDE)];
    let files: BTreeMap<String, Vec<u8>> =
        texts.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
    let mut all = crate::TokenizerFiles::new();
    files.iter().for_each(|(name, text)| all.insert(name, text.clone()));
    let embedding = made.0.iter().find(|(name, ..)| name == "token_embd.weight").unwrap();
    let options = crate::TokenizerOptions::new().rows(embedding.2.first().copied());
    let config = Config::parse(b"{}").unwrap();
    let tokenizer = crate::Tokenizer::read(&all, &config, &options).unwrap().unwrap();
    let mut extra = ExtraKeys::default();
    extra.add_files(&files, &tokenizer.keys);
    for (key, value) in tokenizer.keys.iter().chain(&extra.keys) {
        keys.insert(key, plain(value));
    }
    assert_eq!(folder_of(&made, &keys, None).unwrap().losses, []);
    let edited = |key: &str, value: Value| {
        let mut keys = keys.clone();
        keys.insert(key, value);
        folder_of(&made, &keys, None).unwrap()
    };
    // Content of a file that follows from keys changes with them.
    let folder = edited("tokenizer.chat_template", Value::from("bye"));
    assert_eq!(folder.losses, []);
    assert!(folder.files.iter().any(|(_, text)| String::from_utf8_lossy(text).contains("bye")));
    let texts =
        ["z", "b", "ab", "<s>", "[PAD4]", "[PAD5]", "[PAD6]", "[PAD7]"].into_iter().collect::<Value>();
    for (key, value, lost) in [
        ("tokenizer.ggml.pre", Value::from("qwen2"), "tokenizer.ggml.pre"),
        ("tokenizer.ggml.more", Value::from(1u64), "tokenizer.ggml.more"),
        ("tokenizer.ggml.tokens", texts, "tokenizer.json"),
    ] {
        let losses = edited(key, value).losses;
        assert!(losses.iter().any(|loss| loss.name == lost), "{key}: {losses:?}");
    }
}

#[test]
fn bad_keys_are_refused() {
    for (key, value, why) in [
        ("modelfmt.hub.map", "nobody", "none of the maps that are known"),
        ("modelfmt.hub.map", "mistral", "none of the maps that are known"),
        ("modelfmt.hub.map", "qwen2", "it is \"llama\", and the map qwen2 is for \"qwen2\""),
        ("modelfmt.hub.map", "", "which has to be given"),
        ("modelfmt.hub.tensors", "{", "metadata key \"modelfmt.hub.tensors\": "),
        ("modelfmt.hub.tensors", r#"{"prefix": "../"}"#, "`prefix` is none of the map"),
        ("modelfmt.hub.tensors", r#"{"dtype": "q4_0"}"#, "`dtype` is no type of floating-point numbers"),
        ("modelfmt.hub.tensors", r#"{"values": 5}"#, "`values` is no list of names"),
        (
            "modelfmt.hub.tensors",
            r#"{"values": ["x"]}"#,
            "it is not there, and modelfmt.hub.tensors names it",
        ),
        ("modelfmt.hub.tensors", r#"{"except": []}"#, "`except` is an array, not an object"),
        (
            "modelfmt.hub.tensors",
            r#"{"except": {"model.norm.weight": {"shape": [-1]}}}"#,
            "`shape` is no list of dimensions",
        ),
        (
            "modelfmt.hub.tensors",
            r#"{"except": {"model.norm.weight": {"shape": [4, 4]}}}"#,
            "has the shape [4, 4]; by config.json it is [16]",
        ),
        (
            "modelfmt.hub.tensors",
            r#"{"except": {"model.layers.0.self_attn.q_proj.weight": {"shape": [18446744073709551615, 18446744073709551615]}}}"#,
            "tensor \"model.layers.0.self_attn.q_proj.weight\" has the shape [18446744073709551615, ",
        ),
        ("modelfmt.hub.file.config.json", "[]", "expected an object"),
        ("modelfmt.hub.file.config.json", r#"{"of": 5}"#, "`of` is no list of keys"),
        ("modelfmt.hub.file.config.json", r#"{"of": ["x"]}"#, "\"x\" does not follow from the GGUF any more"),
        ("modelfmt.hub.file.tokenizer.json", "[]", "expected an object"),
        ("modelfmt.hub.file.tokenizer.json", r#"{"as": ["x"]}"#, "`as` has \"x\""),
        ("modelfmt.hub.file.vocab.txt", r#"{"value": [1]}"#, "it makes an array, not text"),
        ("modelfmt.hub.file.tokenizer.model", "x", "it is no list of bytes"),
        ("modelfmt.hub.version", "1", "it is no number, and 1 is known"),
        ("modelfmt.hub.file.config.json", r#"{"drop": ["nothing"]}"#, "there is no \"nothing\" to drop"),
        (
            "modelfmt.hub.file.config.json",
            r#"{"drop": ["hidden_size", "num_hidden_layers"]}"#,
            "config.json has no `hidden_size`",
        ),
        (
            "modelfmt.hub.file.config.json",
            r#"{"set": {"num_hidden_layers": {"value": 1}}}"#,
            "config.json says that `num_hidden_layers` is 1",
        ),
        (
            "modelfmt.hub.file.config.json",
            r#"{"set": {"num_hidden_layers": {"value": 18446744073709551615}}}"#,
            "config.json: `num_hidden_layers` is an integer, not a count below 2^32",
        ),
        ("general.architecture", "nobody", "metadata key \"general.architecture\": "),
    ] {
        let error = refused(|_, keys| {
            keys.insert(key, value);
        });
        assert!(error.contains(why), "{key} {value}: {error}");
    }
    let error = refused(|_, keys| {
        keys.insert("modelfmt.hub.version", 2u64);
    });
    assert!(error.contains("it is 2, and 1 is known; a newer modelfmt may read it"), "{error}");
    for key in ["modelfmt.hub.map", "modelfmt.hub.tensors", "modelfmt.hub.file.config.json"] {
        let error = refused(|_, keys| {
            keys.insert(key, 5u64);
        });
        assert_eq!(error, format!("metadata key {key:?}: it is an integer, not text"));
    }
    for (value, why) in [
        (Value::from("x"), "it is no list of bytes"),
        ([1u64, 2].into_iter().collect(), "has not 2 bytes there"),
        ([300u64].into_iter().collect(), "it is no list of bytes"),
    ] {
        let error = refused(|_, keys| {
            keys.insert("modelfmt.hub.values.model.norm.weight", value);
        });
        assert!(error.contains(why), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Untrusted keys and shapes are refused or read.
    #[test]
    fn keys_of_a_stranger_make_no_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), "[]{}\"\\[:,0-9a-z.-]"), 1..4),
        dims in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(vec![0, 1, 3, 1 << 20, u64::MAX])), 0..2),
        dtype in prop::sample::select(vec![DType::F32, DType::BF16, DType::Q8_0, DType::I8]),
    ) {
        let (_, _, mut made, mut keys) = llama(SCALED);
        let names: Vec<String> = keys.keys().map(str::to_owned).collect();
        for (key, at, new) in edits {
            let name = &names[key.index(names.len())];
            match keys.get_mut(name) {
                Some(Value::String(text)) if !text.is_empty() && text.is_ascii() => {
                    let at = at.index(text.len());
                    text.replace_range(at..=at, &new);
                }
                Some(value) => *value = Value::from(at.index(1000) as u64),
                None => {}
            }
        }
        for (tensor, dim) in dims {
            let tensor = &mut made.0[tensor.index(12)];
            tensor.1 = dtype;
            if let Some(first) = tensor.2.first_mut() {
                *first = dim;
            }
        }
        if let Ok(folder) = folder_of(&made, &keys, None) {
            for (_, program) in folder.groups.iter().flat_map(|group| &group.tensors) {
                let len = usize::try_from(program.nbytes().unwrap().min(256)).unwrap();
                let mut zeros = |_: usize, _: u64, out: &mut [u8]| {
                    out.fill(0);
                    Ok::<(), std::convert::Infallible>(())
                };
                program.read(0, &mut vec![0; len], &mut zeros).unwrap();
            }
        }
    }
}

#[test]
fn values_that_do_not_agree_are_not_taken() {
    let (_, _, made, mut keys) = llama("");
    keys.insert("modelfmt.hub.values.model.norm.weight", plain(&Key::Bytes(vec![7; 32])));
    let folder = folder_of(&made, &keys, None).unwrap();
    let (restored, inexact) = back(&made, &folder);
    assert_eq!(inexact.len(), 1);
    let norm = restored.0.iter().find(|(name, ..)| name == "model.norm.weight").unwrap();
    let own = made.0.iter().find(|(name, ..)| name == "output_norm.weight").unwrap();
    assert_eq!((&norm.1, &norm.3), (&DType::F32, &own.3));
}

#[test]
fn tensors_that_no_map_makes_are_told() {
    assert!(
        refused(|made, _| made.0.retain(|(name, ..)| name != "output_norm.weight")).contains("is not there")
    );
    let scalar = |made: &mut Model| {
        let q = made.0.iter_mut().find(|(name, ..)| name == "blk.0.attn_q.weight").unwrap();
        q.2.clear();
    };
    assert!(
        refused(|made, _| scalar(made)).starts_with("tensor \"model.layers.0.self_attn.q_proj.weight\" ")
    );
    let (_, _, mut made, keys) = llama("");
    made.0.push(("extra.weight".to_owned(), DType::F32, vec![1], vec![0; 4]));
    let folder = folder_of(&made, &keys, None).unwrap();
    assert_eq!((folder.losses.len(), folder.losses[0].name.as_str()), (1, "extra.weight"));
}

#[test]
fn rows_of_blocks_are_moved_and_columns_are_not() {
    let (_, _, mut made, keys) = llama(r#", "hidden_size": 32"#);
    for (name, dtype, shape, values) in &mut made.0 {
        if name.ends_with("attn_q.weight") {
            // Rows of 32 numbers.
            (*dtype, *shape, *values) =
                (DType::Q8_0, vec![16, 32], (0..16u8).flat_map(|row| [row; 34]).collect());
        }
    }
    let folder = folder_of(&made, &keys, None).unwrap();
    let (restored, _) = back(&made, &folder);
    let q = restored.0.iter().find(|(name, ..)| name == "model.layers.1.self_attn.q_proj.weight").unwrap();
    assert_eq!((&q.1, &q.2[..]), (&DType::Q8_0, &[16, 32][..]));
    // Two heads of eight rows: those of the first half of a head were the even ones.
    let rows: Vec<u8> = q.3.iter().step_by(34).copied().collect();
    assert_eq!(rows, [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15]);
    let map = Map::of_family("gpt2").unwrap();
    let text = config_text("gpt2", "");
    let model = model(&map, &Config::of(text.clone()), &[DType::F32], &[0, 0, 0x80, 0x3e]);
    let (mut made, keys) = gguf(&map, &text, &model);
    for (name, dtype, shape, _) in &mut made.0 {
        if name == "blk.0.attn_qkv.weight" {
            (*dtype, *shape) = (DType::Q8_0, vec![6, 32]);
        }
    }
    let error = folder_of(&made, &keys, None).unwrap_err();
    assert!(error.contains("convert the GGUF to another with floats first"), "{error}");
}
