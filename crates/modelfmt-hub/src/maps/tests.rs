use std::convert::Infallible;

use modelfmt_value::Value;
use proptest::prelude::*;
use tensor_core::DType;
use tensor_program::Program;

use super::apply::HubTensor;
use super::pattern::Numbers;
use super::{BUILT_IN, Map};
use crate::{Config, Key, MapError};

const EXPERTS: u64 = 3;
/// A size that maps leave open.
const ANY: u64 = 7;

/// The sizes of a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    layers: u64,
    experts: u64,
    heads: u64,
    kv_heads: u64,
    /// The dimensions of a head, in pairs.
    pairs: u64,
}

impl Sizes {
    pub(crate) const SMALL: Self = Self { layers: 2, experts: EXPERTS, heads: 2, kv_heads: 2, pairs: 4 };

    /// A config that has what every map asks for.
    pub(crate) fn config(self, family: &str, more: &str) -> Config {
        let Self { layers, experts, heads, kv_heads, pairs } = self;
        let (head, hidden) = (2 * pairs, 2 * pairs * heads);
        let kv_heads = match more.contains("num_key_value_heads") {
            true => String::new(),
            false => format!(r#""num_key_value_heads": {kv_heads}, "#),
        };
        let own = match family {
            "t5" => format!(
                r#", "num_layers": {layers}, "num_decoder_layers": {}, "num_heads": {heads}, "d_model": {hidden}, "d_kv": {pairs},
                "d_ff": 10, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false"#,
                layers.div_ceil(2)
            ),
            _ => String::new(),
        };
        let text = format!(
            r#"{{"model_type": "{family}", "num_hidden_layers": {layers}, "n_layer": {layers}, {kv_heads}
            "hidden_size": {hidden}, "n_embd": {hidden}, "num_attention_heads": {heads}, "n_head": {heads}, "head_dim": {head},
            "query_pre_attn_scalar": {head}, "qk_layernorm": {}, "intermediate_size": 10, "vocab_size": 8, "n_positions": 5,
            "max_position_embeddings": 5, "num_local_experts": {experts}, "num_experts": {experts}, "moe_intermediate_size": 3,
            "shared_expert_intermediate_size": 4, "norm_topk_prob": {}{own}{more}}}"#,
            family.starts_with("stablelm"),
            family == "qwen3_moe",
        );
        Config::parse(text.as_bytes()).unwrap()
    }

    /// The tensors of a model that the map knows, all that may be there.
    pub(crate) fn tensors(self, map: &Map, config: &Config) -> Vec<(String, Vec<u64>)> {
        let config = config.completed(&map.file.defaults, &map.file.aliases);
        let prefix = map.file.prefixes.first().unwrap();
        let mut found = Vec::new();
        for (pattern, tensor) in &map.tensors {
            if tensor
                .unless
                .as_ref()
                .is_some_and(|key| config.get(key).and_then(Value::as_bool) == Some(true))
            {
                continue;
            }
            let layers = if pattern.has_layers() { config.count(map.layers(tensor)).unwrap() } else { 1 };
            let experts =
                if pattern.has_experts() { config.count(map.counts(tensor).unwrap()).unwrap() } else { 1 };
            for (layer, expert) in
                (0..layers).flat_map(|layer| (0..experts).map(move |expert| (layer, expert)))
            {
                let numbers = Numbers { layer: Some(layer), expert: Some(expert) };
                let name = format!("{prefix}{}", pattern.name(numbers));
                let shape =
                    tensor.shape.as_ref().unwrap_or_else(|| panic!("{}: {name} has no shape", map.name()));
                let sizes = shape.sizes(&config).unwrap();
                found.push((name, sizes.into_iter().map(|size| size.unwrap_or(ANY)).collect()));
            }
        }
        found
    }
}

pub(crate) fn config(family: &str, more: &str) -> Config {
    Sizes::SMALL.config(family, more)
}

pub(crate) fn tensors(map: &Map, config: &Config) -> Vec<(String, Vec<u64>)> {
    Sizes::SMALL.tensors(map, config)
}

/// The bytes of values that are exact in every float dtype, also with 1 added.
fn values(dtype: DType, shape: &[u64], seed: u64) -> Vec<u8> {
    let count: u64 = shape.iter().product();
    let value = |i: u64| ((i.wrapping_mul(37).wrapping_add(seed * 11) % 61) as f32 - 30.0) / 32.0;
    let bytes: Vec<u8> = (0..count).flat_map(|i| value(i).to_le_bytes()).collect();
    let program = Program::input(0, DType::F32, shape).cast(dtype).unwrap();
    read(&program, &[bytes])
}

pub(crate) fn read(program: &Program, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![0; usize::try_from(program.nbytes().unwrap()).unwrap()];
    let mut source = |number: usize, at: u64, out: &mut [u8]| {
        let at = usize::try_from(at).unwrap();
        out.copy_from_slice(&inputs[number][at..at + out.len()]);
        Ok::<(), Infallible>(())
    };
    program.read(0, &mut out, &mut source).unwrap();
    out
}

/// Maps a model, and undoes that. The tensors must be the same, bit for bit.
fn undone(name: &str, map: &Map, sizes: Sizes, dtype: DType, seed: u64) {
    let config = sizes.config(&map.file.families[0], "");
    let named = sizes.tensors(map, &config);
    let hub: Vec<HubTensor<'_>> =
        named.iter().map(|(name, shape)| HubTensor { name, dtype, shape }).collect();
    let mapped = map.apply(&config, &hub).unwrap_or_else(|error| panic!("{name}: {error}"));
    let inputs: Vec<Vec<u8>> =
        (seed..).zip(&hub).map(|(seed, tensor)| values(dtype, tensor.shape, seed)).collect();
    let outputs: Vec<Vec<u8>> = mapped.tensors.iter().map(|made| read(&made.program, &inputs)).collect();
    let mut seen = vec![false; hub.len()];
    for (number, made) in mapped.tensors.iter().enumerate() {
        let result = Program::input(number, made.program.dtype(), made.program.shape());
        for (input, back) in made.program.undone(result).unwrap() {
            assert_eq!((back.dtype(), back.shape()), (dtype, hub[input].shape), "{name}: {}", made.name);
            assert!(read(&back, &outputs) == inputs[input], "{name}: {} of {}", hub[input].name, made.name);
            assert!(!std::mem::replace(&mut seen[input], true), "{name}: {}", hub[input].name);
        }
    }
    assert!(seen.iter().all(|seen| *seen), "{name}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn every_map_can_be_undone(
        layers in 1_u64..4,
        experts in 1_u64..5,
        heads in 1_u64..5,
        kv_heads in 1_u64..3,
        pairs in 1_u64..4,
        seed in 0_u64..1000,
    ) {
        let sizes = Sizes { layers, experts, heads: heads * kv_heads, kv_heads, pairs };
        for (name, text) in BUILT_IN {
            let map = Map::parse(name, text).unwrap();
            for dtype in [DType::F32, DType::BF16, DType::F16] {
                undone(name, &map, sizes, dtype, seed);
            }
        }
    }
}

/// Values of untrusted configs.
fn hostile() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "null",
        "true",
        "0",
        "1",
        "3",
        "-1",
        "65535",
        "18446744073709551615",
        "1e308",
        "-0.5",
        "0.3",
        "\"x\"",
        "[]",
        "[1, \"x\"]",
        "{}",
        "{\"type\": \"yarn\", \"factor\": 0}",
        "{\"rope_type\": \"llama3\", \"factor\": 1, \"low_freq_factor\": 4,
        \"high_freq_factor\": 4, \"original_max_position_embeddings\": 0}",
        "{\"type\": \"linear\", \"factor\": -1e308}",
        "{\"type\": \"longrope\", \"long_factor\": [1, 2], \"short_factor\": [0, 1e999]}",
        "{\"full_attention\": {\"rope_theta\": 1}, \"sliding_attention\": 5}",
        "[\"full_attention\", \"sliding_attention\"]",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// An untrusted config is mapped or refused.
    #[test]
    fn configs_of_strangers_make_no_panic(changes in prop::collection::vec((any::<usize>(), hostile()), 1..4)) {
        for (name, text) in BUILT_IN {
            let map = Map::parse(name, text).unwrap();
            let own = Sizes::SMALL.config(&map.file.families[0], "");
            let named = Sizes::SMALL.tensors(&map, &own);
            let hub: Vec<HubTensor<'_>> =
                named.iter().map(|(name, shape)| HubTensor { name, dtype: DType::F16, shape }).collect();
            let mut keys: Vec<String> = own.written().iter().map(|(key, _)| key.to_owned()).collect();
            let more = ["rope_scaling", "rope_parameters", "rope_theta", "partial_rotary_factor", "layer_types", "sliding_window"];
            keys.extend(more.map(str::to_owned));
            let mut object = own.written().clone();
            for (at, value) in &changes {
                // Numbers that no `f64` holds are not JSON.
                if let Ok(value) = modelfmt_value::json::parse(value.as_bytes()) {
                    object.insert(keys[at % keys.len()].clone(), value);
                }
            }
            let text = modelfmt_value::json::to_string(&Value::Object(object)).unwrap();
            let made = map.apply(&Config::parse(text.as_bytes()).unwrap(), &hub);
            prop_assert!(made.is_err() || !made.unwrap().tensors.is_empty());
        }
    }

    /// An untrusted map is read or refused, and so is what it makes.
    #[test]
    fn maps_of_strangers_make_no_panic(
        number in any::<usize>(),
        changes in prop::collection::vec((any::<usize>(), any::<usize>()), 1..6),
    ) {
        let (name, text) = BUILT_IN[number % BUILT_IN.len()];
        let own = Map::parse(name, text).unwrap();
        let config = Sizes::SMALL.config(&own.file.families[0], "");
        let named = Sizes::SMALL.tensors(&own, &config);
        let mut lines: Vec<&str> = text.lines().collect();
        for (from, to) in changes {
            let (from, to) = (from % lines.len(), to % lines.len());
            // Lines change places, or one is there twice.
            if from % 2 == 0 { lines.swap(from, to) } else { lines[to] = lines[from] }
        }
        if let Ok(map) = Map::parse("strange", &lines.join("\n")) {
            let hub: Vec<HubTensor<'_>> =
                named.iter().map(|(name, shape)| HubTensor { name, dtype: DType::BF16, shape }).collect();
            let made = map.apply(&config, &hub);
            prop_assert!(made.is_err() || made.unwrap().tensors.len() <= hub.len() + 2);
        }
    }
}

#[test]
fn vectors_are_f32_and_matrices_keep_their_type() {
    for family in Map::families() {
        let map = Map::of_family(&family).unwrap();
        let config = config(&family, "");
        let named = tensors(&map, &config);
        let hub: Vec<HubTensor<'_>> =
            named.iter().map(|(name, shape)| HubTensor { name, dtype: DType::BF16, shape }).collect();
        for made in map.apply(&config, &hub).unwrap().tensors {
            let is_vector = made.program.shape().len() < 2;
            assert!(made.is_f32 || !is_vector, "{family}: {}", made.name);
            assert_eq!(made.program.dtype() == DType::F32, made.is_f32, "{family}: {}", made.name);
        }
    }
}

#[test]
fn vectors_of_f64_become_f32_and_other_types_are_refused() {
    let map = Map::of_family("llama").unwrap();
    let config = config("llama", "");
    let named = tensors(&map, &config);
    let apply = |dtype: DType| {
        let hub: Vec<HubTensor<'_>> = (named.iter())
            .map(|(name, shape)| {
                let is_norm = name == "model.norm.weight";
                HubTensor { name, dtype: if is_norm { dtype } else { DType::F32 }, shape }
            })
            .collect();
        map.apply(&config, &hub)
    };
    let mapped = apply(DType::F64).unwrap();
    let norm = mapped.tensors.iter().find(|made| made.name == "output_norm.weight").unwrap();
    assert_eq!(norm.program.dtype(), DType::F32);
    for dtype in [DType::I32, DType::I8, DType::U8, DType::Bool] {
        assert_eq!(
            apply(dtype).unwrap_err().to_string(),
            format!(
                "tensor \"model.norm.weight\" is {dtype}, and llama.cpp takes floating-point numbers there"
            )
        );
    }
}

#[test]
fn rotations_that_are_not_understood_are_refused() {
    for (more, why) in [
        (
            r#""rope_theta": 5.0, "rope_parameters": {"rope_theta": 6.0}"#,
            "`rope_theta` is 5.0, and `rope_parameters.rope_theta` is 6.0;",
        ),
        (r#""rope_scaling": "linear""#, "`rope_scaling` is a string, not an object"),
        (r#""rope_scaling": 2.0"#, "`rope_scaling` is a float, not an object"),
        (r#""rope_parameters": []"#, "`rope_parameters` is an array, not an object"),
        (
            r#""rope_scaling": {"factor": 2.0}"#,
            "`rope_scaling.factor` is 2.0, and `rope_scaling` has no `rope_type`",
        ),
        (r#""rope_parameters": {"rope_theta": 5.0, "factor": 2}"#, "has no `rope_type`"),
        (r#""rope_scaling": {"type": 5}"#, "`rope_scaling.type` is an integer, not a text"),
        (r#""rope_theta": 0"#, "`rope_theta` is 0, and rotations need a number above 0"),
        (r#""rope_theta": 1e300"#, "rotations need a number above 0 that fits in f32"),
        (r#""rope_scaling": {"type": "linear", "factor": -4}"#, "`rope_scaling.factor` is -4, and"),
        (r#""rope_scaling": {"type": "linear", "factor": 1e-60}"#, "`rope_scaling.factor` is 0.000"),
        (
            r#""rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 4294967296}"#,
            "`rope_scaling.original_max_position_embeddings` is 4294967296, and GGUF holds a count below 2^32",
        ),
        (
            r#""rope_scaling": {"type": "yarn", "factor": 4, "attention_factor": "x"}"#,
            "`rope_scaling.attention_factor` is a string, not a number",
        ),
        (
            r#""rope_scaling": {"type": "yarn", "factor": 4, "mscale": -1}"#,
            "`rope_scaling.mscale` is -1, and rotations need",
        ),
    ] {
        let error = refused(|_| {}, &format!(", {more}"));
        assert!(error.starts_with("config.json: ") && error.contains(why), "{more}: {error}");
    }
    let map = Map::of_family("llama").unwrap();
    for more in [
        r#""rope_theta": 5, "rope_parameters": {"rope_theta": 5.0, "partial_rotary_factor": 1.0}"#,
        r#""rope_scaling": null"#,
        r#""rope_scaling": {}"#,
        r#""rope_scaling": {"rope_theta": 5.0, "type": "default"}"#,
    ] {
        let config = config("llama", &format!(", {more}"));
        let named = tensors(&map, &config);
        let hub: Vec<HubTensor<'_>> =
            named.iter().map(|(name, shape)| HubTensor { name, dtype: DType::F32, shape }).collect();
        assert!(map.apply(&config, &hub).is_ok(), "{more}");
    }
}

/// The error for a Llama whose tensors and config are changed.
fn refused(change: impl FnOnce(&mut Vec<(String, Vec<u64>)>), more: &str) -> String {
    let map = Map::of_family("llama").unwrap();
    let config = config("llama", more);
    let mut named = tensors(&map, &config);
    change(&mut named);
    let hub: Vec<HubTensor<'_>> =
        named.iter().map(|(name, shape)| HubTensor { name, dtype: DType::F16, shape }).collect();
    map.apply(&config, &hub).unwrap_err().to_string()
}

#[test]
fn what_does_not_fit_is_said() {
    let add = |name: &'static str| {
        move |tensors: &mut Vec<(String, Vec<u64>)>| tensors.push((name.to_owned(), vec![16]))
    };
    let drop = |name: &'static str| {
        move |tensors: &mut Vec<(String, Vec<u64>)>| tensors.retain(|(own, _)| own != name)
    };
    assert_eq!(
        refused(add("model.layers.0.mlp.extra.weight"), ""),
        "tensor \"model.layers.0.mlp.extra.weight\": the map llama does not know it"
    );
    assert_eq!(
        refused(add("model.layers.2.input_layernorm.weight"), ""),
        "tensor \"model.layers.2.input_layernorm.weight\": config.json says that `num_hidden_layers` is 2"
    );
    assert_eq!(
        refused(drop("model.layers.1.mlp.up_proj.weight"), ""),
        "tensor \"model.layers.1.mlp.up_proj.weight\" is not there, and \"blk.1.ffn_up.weight\" is made of it"
    );
    assert_eq!(
        refused(drop("lm_head.weight"), ""),
        "tensor \"lm_head.weight\" is not there, and \"output.weight\" is made of it"
    );
    assert_eq!(
        refused(
            |tensors| tensors
                .iter_mut()
                .filter(|(name, _)| name.contains("q_proj.weight"))
                .for_each(|(_, shape)| *shape = vec![6, 6]),
            ""
        ),
        "tensor \"model.layers.0.self_attn.q_proj.weight\" has the shape [6, 6]; by config.json it is [16, 16]"
    );
    for (more, why) in [
        (
            r#", "rope_scaling": {"type": "dynamic"}"#,
            "config.json: `rope_scaling.type` is \"dynamic\", and the map llama has no counterpart of it",
        ),
        (r#", "rope_scaling": {"rope_type": "llama3"}"#, "config.json has no `rope_scaling.factor`"),
        (r#", "rope_theta": "x""#, "config.json: `rope_theta` is a string, not a number"),
        (
            r#", "num_key_value_heads": 4294967296"#,
            "config.json: `num_key_value_heads` is an integer, not a count below 2^32",
        ),
    ] {
        assert_eq!(refused(|_| {}, more), why);
    }
    let map = Map::of_family("qwen3_moe").unwrap();
    let config = config("qwen3", "");
    assert_eq!(
        map.apply(&config, &[]).unwrap_err().to_string(),
        "config.json: `norm_topk_prob` is false, and llama.cpp computes qwen3moe with true only"
    );
    assert!(matches!(Map::of_family("nobody"), Err(MapError::UnknownFamily { .. })));
}

#[test]
fn experts_are_stacked_and_all_there() {
    let map = Map::of_family("mixtral").unwrap();
    let config = config("mixtral", "");
    let mut named = tensors(&map, &config);
    // The order of a folder is by name.
    named.sort();
    let hub = |named: &'static [(String, Vec<u64>)]| -> Vec<HubTensor<'static>> {
        named.iter().map(|(name, shape)| HubTensor { name, dtype: DType::F32, shape }).collect()
    };
    let all = hub(Box::leak(named.clone().into_boxed_slice()));
    let mapped = map.apply(&config, &all).unwrap();
    let stacked = mapped.tensors.iter().find(|made| made.name == "blk.1.ffn_up_exps.weight").unwrap();
    assert_eq!(stacked.program.shape(), [EXPERTS, 10, 16]);
    let origins: Vec<&str> = stacked.program.inputs().into_iter().map(|input| all[input].name).collect();
    let expected: Vec<String> =
        (0..EXPERTS).map(|e| format!("model.layers.1.block_sparse_moe.experts.{e}.w3.weight")).collect();
    assert_eq!(origins, expected);
    named.retain(|(name, _)| name != &expected[1]);
    assert_eq!(
        map.apply(&config, &hub(Box::leak(named.into_boxed_slice()))).unwrap_err().to_string(),
        format!("tensor {:?} is not there, and \"blk.1.ffn_up_exps.weight\" is made of it", expected[1])
    );
}

#[test]
fn tied_weights_are_written_once() {
    let map = Map::of_family("llama").unwrap();
    let tied = config("llama", r#", "tie_word_embeddings": true"#);
    let mut named = tensors(&map, &tied);
    named.push(("lm_head.weight".to_owned(), vec![8, 16]));
    named.push(("model.layers.0.self_attn.rotary_emb.inv_freq".to_owned(), vec![4]));
    let hub: Vec<HubTensor<'_>> =
        named.iter().map(|(name, shape)| HubTensor { name, dtype: DType::F32, shape }).collect();
    let mapped = map.apply(&tied, &hub).unwrap();
    assert_eq!(mapped.left_out, ["lm_head.weight", "model.layers.0.self_attn.rotary_emb.inv_freq"]);
    assert!(mapped.tensors.iter().all(|made| made.name != "output.weight"));
}

#[test]
fn the_length_of_command_r_is_that_of_its_training() {
    let map = Map::of_family("cohere").unwrap();
    let length = |more: &str| {
        let config = Sizes::SMALL.config("cohere", more);
        let keys = map.keys(&config.completed(&map.file.defaults, &map.file.aliases)).unwrap();
        keys.into_iter().find(|(key, _)| key == "command-r.context_length").unwrap().1
    };
    assert_eq!(length(""), Key::U32(5));
    assert_eq!(length(r#", "model_max_length": 131072"#), Key::U32(131_072));
}

#[test]
fn scaled_rotations_become_keys_and_tensors() {
    let map = Map::of_family("llama").unwrap();
    let of = |more: &str| {
        let config = config("llama", more);
        let named = tensors(&map, &config);
        let hub: Vec<HubTensor<'_>> =
            named.iter().map(|(name, shape)| HubTensor { name, dtype: DType::F32, shape }).collect();
        map.apply(&config, &hub).unwrap()
    };
    let key = |mapped: &super::apply::Mapped, key: &str| {
        mapped.keys.iter().find(|(own, _)| own == key).map(|(_, value)| value.clone())
    };
    let linear = of(r#", "rope_scaling": {"type": "linear", "factor": 4}"#);
    assert_eq!(key(&linear, "llama.rope.scaling.type"), Some(Key::Text("linear".to_owned())));
    assert_eq!(key(&linear, "llama.rope.scaling.factor"), Some(Key::F32(4.0)));
    let llama3 = of(
        r#", "rope_parameters": {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 64}"#,
    );
    let factors = llama3.tensors.last().unwrap();
    assert_eq!((&*factors.name, factors.program.shape()), ("rope_freqs.weight", &[4][..]));
    let found: Vec<f32> =
        read(&factors.program, &[]).as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x)).collect();
    // Wavelengths of 6.3, 63, 628 and 6283 tokens: the first is short of 16, the second is between 16 and 64, the others are long.
    assert_eq!((found[0], &found[2..]), (1.0, &[8.0, 8.0][..]));
    assert!(found[1] > 1.0 && found[1] < 8.0, "{found:?}");
}

#[test]
fn maps_of_others_are_checked() {
    let good = BUILT_IN.iter().find(|(name, _)| *name == "llama").unwrap().1;
    let bad = |text: &str| Map::parse("mine.toml", text).unwrap_err().to_string();
    for (from, to, why) in [
        ("architecture = \"llama\"\n", "", "it has no `architecture`"),
        ("layers = \"num_hidden_layers\"", "layers = 5", "`layers` is an integer, not text"),
        ("[defaults]", "[defaulds]", "`defaulds` is no key of a map"),
        ("[\"linear\", \"llama3\", \"yarn\"]", "[\"ntk\"]", "rope_scaling: \"ntk\" is no kind of it"),
        (
            "pair num_key_value_heads",
            "twist",
            "\"twist\" is no step; steps are transpose, flatten, f32, add N, pair KEY and gather KEY N",
        ),
        ("\"blk.{i}.attn_v.weight\"", "\"blk.attn_v.weight\"", "has {i} if"),
        ("\"blk.{i}.attn_v.weight\"", "\"blk.{i}.attn_q.weight\"", "both become \"blk.{i}.attn_q.weight\""),
        ("\"blk.{i}.attn_v.weight\"", "5", "is neither a name nor a table"),
        (
            "{ u32 = \"vocab_size\" }",
            "{ u32 = \"vocab_size\", f32 = \"x\" }",
            "it has one of `u32`, `f32`, `bool` and `is`",
        ),
        (
            "{ u32 = \"vocab_size\" }",
            "{ u64 = \"vocab_size\" }",
            "it has one of `u32`, `f32`, `bool` and `is`",
        ),
        ("{ u32 = \"vocab_size\" }", "{ u32 = \"vocab_size\", time = 4 }", "`time` is no key of a map"),
        (
            "{ u32 = \"vocab_size\" }",
            "{ is = 5000000000 }",
            "`is` is 5000000000, not text, true, false, a number",
        ),
        ("{ u32 = \"vocab_size\" }", "{ is = -3 }", "`is` is -3, not text"),
        ("vocab_size = {", "vocab_size = [", "mine.toml: TOML parse error"),
    ] {
        assert!(good.contains(from), "{from}");
        let error = bad(&good.replacen(from, to, 1));
        assert!(
            error.contains(why) && error.starts_with("the map mine.toml: ") && !error.contains('\n'),
            "{error}"
        );
    }
    let experts =
        good.replacen("\"model.layers.{i}.mlp.up_proj.weight\"", "\"model.layers.{i}.mlp.{e}.up.weight\"", 1);
    assert!(bad(&experts).contains("`experts` does not say what counts them"));
    assert_eq!(Map::parse("mine.toml", good).unwrap().name(), "mine.toml");
}
