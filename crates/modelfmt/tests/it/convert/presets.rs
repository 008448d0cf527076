//! `--quantize` with a preset: each tensor gets the type that llama.cpp gives it.

use modelfmt::convert::{ConvertOptions, Preset, TypeRule};
use modelfmt::{DType, Format, Model};

use super::common::{T, all, convert, floats, gguf, notes, options, safetensors, try_convert};

/// Returns a model of 8 layers, with Hugging Face's names.
fn llama(columns: u64) -> Vec<T> {
    let values = vec![0.5; usize::try_from(2 * columns).unwrap()];
    let matrix = |name: String| floats(name.leak(), &[2, columns], &values);
    let mut all = vec![matrix("model.embed_tokens.weight".to_owned())];
    for layer in 0..8 {
        for part in ["self_attn.q_proj", "self_attn.v_proj", "mlp.down_proj"] {
            all.push(matrix(format!("model.layers.{layer}.{part}.weight")));
        }
        let norm = format!("model.layers.{layer}.input_layernorm.weight");
        all.push(floats(norm.leak(), &[columns], &values[..values.len() / 2]));
    }
    all.push(matrix("lm_head.weight".to_owned()));
    all
}

fn quantize(rules: &[&str]) -> ConvertOptions {
    options(|o| o.types.rules = rules.iter().map(|rule| TypeRule::parse_quantize(rule).unwrap()).collect())
}

fn dtype(model: &Model, name: &str) -> DType {
    model.tensors().find(|tensor| tensor.name == name).unwrap().dtype
}

/// Returns the types of a tensor in the 8 layers.
fn layers(model: &Model, part: &str) -> Vec<DType> {
    (0..8).map(|layer| dtype(model, &format!("model.layers.{layer}.{part}.weight"))).collect()
}

#[test]
fn each_tensor_gets_its_type() {
    use DType::{F32, Q4K, Q6K};
    let source = safetensors(&llama(256), "{}");
    let (small, done) = try_convert(&source, Format::Aero, &quantize(&["q4_k_m"])).unwrap();
    assert_eq!(layers(&small, "self_attn.q_proj"), [Q4K; 8]);
    let more = [Q6K, Q4K, Q4K, Q6K, Q4K, Q4K, Q6K, Q6K];
    assert_eq!(layers(&small, "self_attn.v_proj"), more);
    assert_eq!(layers(&small, "mlp.down_proj"), more);
    assert_eq!(dtype(&small, "model.embed_tokens.weight"), Q4K);
    assert_eq!(dtype(&small, "lm_head.weight"), Q6K);
    assert_eq!(dtype(&small, "model.layers.0.input_layernorm.weight"), F32);
    let left = "not quantized, because q4_k_m leaves such tensors as they are: \"model.layers.0.input_layernorm.weight\", ";
    assert!(notes(&done).iter().any(|note| note.starts_with(left)), "{:?}", notes(&done));
    assert_eq!(done.changed.iter().filter(|changed| changed.to == Q6K).count(), 9);
    let mut blocks = [0; 420];
    ggml_quant::encode(Q6K, &[0.5; 512], &mut blocks).unwrap();
    assert_eq!(small.tensor("lm_head.weight").unwrap().bytes(), blocks);
}

#[test]
fn rows_that_are_not_whole_blocks_get_another_type() {
    use DType::{F16, Q5_0, Q8_0};
    let narrow = convert(&safetensors(&llama(96), "{}"), Format::Aero, &quantize(&["q4_k_m"]));
    assert_eq!(layers(&narrow, "self_attn.v_proj"), [Q8_0, Q5_0, Q5_0, Q8_0, Q5_0, Q5_0, Q8_0, Q8_0]);
    assert_eq!(dtype(&narrow, "lm_head.weight"), Q8_0);
    let odd = convert(&safetensors(&llama(40), "{}"), Format::Aero, &quantize(&["q4_k_m"]));
    assert_eq!(layers(&odd, "self_attn.v_proj"), [F16; 8]);
}

#[test]
fn rules_with_patterns_stand_beside_a_preset() {
    use DType::{F32, Q4K, Q5K, Q6K, Q8_0};
    let source = safetensors(&llama(256), "{}");
    let rules = ["q4_k_s", "lm_head.weight=q8_0", "*.mlp.*=q5_k_m", "*.7.mlp.*=q4_k"];
    let mixed = convert(&source, Format::Aero, &quantize(&rules));
    assert_eq!(layers(&mixed, "self_attn.v_proj"), [Q5K, Q5K, Q5K, Q5K, Q4K, Q4K, Q4K, Q4K]);
    assert_eq!(layers(&mixed, "mlp.down_proj"), [Q6K, Q5K, Q5K, Q6K, Q5K, Q5K, Q6K, Q4K]);
    assert_eq!(dtype(&mixed, "lm_head.weight"), Q8_0);
    let some = convert(&source, Format::Aero, &quantize(&["*.v_proj.weight=mostly_q8_0"]));
    assert_eq!(layers(&some, "self_attn.v_proj"), [Q8_0; 8]);
    assert_eq!(layers(&some, "self_attn.q_proj"), [F32; 8]);
}

#[test]
fn what_is_left_out_does_not_count() {
    use DType::{Q4K, Q5K};
    let source = safetensors(&llama(256), "{}");
    let mut options = quantize(&["q4_k_s"]);
    options.tensors.exclude.push("*.0.self_attn.*".to_owned());
    let small = convert(&source, Format::Aero, &options);
    let name = |layer: u32| format!("model.layers.{layer}.self_attn.v_proj.weight");
    let types: Vec<DType> = (1..8).map(|layer| dtype(&small, &name(layer))).collect();
    assert_eq!(types, [Q5K, Q5K, Q5K, Q5K, Q4K, Q4K, Q4K]);
}

#[test]
fn the_architecture_is_what_the_source_says() {
    use DType::{Q4K, Q5K, Q6K, Q8_0};
    let mut tensors = vec![floats("output.weight", &[2, 256], &[0.5; 512])];
    for layer in 0..16 {
        tensors.push(floats(format!("blk.{layer}.ffn_down.weight").leak(), &[2, 256], &[0.5; 512]));
    }
    let types = |architecture: &str, given: Option<&str>| {
        let source = gguf(&tensors, &[("general.architecture", architecture)]);
        let mut options = quantize(&["q4_k_m"]);
        options.metadata.architecture = given.map(str::to_owned);
        let small = convert(&source, Format::Aero, &options);
        let down = |layer: u32| dtype(&small, &format!("blk.{layer}.ffn_down.weight"));
        (dtype(&small, "output.weight"), down(0), down(1), down(2))
    };
    assert_eq!(types("llama", None), (Q6K, Q6K, Q6K, Q4K));
    assert_eq!(types("falcon", None), (Q8_0, Q6K, Q5K, Q4K));
    assert_eq!(types("llama", Some("falcon")), (Q8_0, Q6K, Q5K, Q4K));
}

#[test]
fn models_without_a_known_name_are_refused() {
    let source = safetensors(&[floats("w.weight", &[2, 256], &[0.5; 512])], "{}");
    let text = all(&try_convert(&source, Format::Aero, &quantize(&["q5_k_m"])).unwrap_err());
    let why = "m.safetensors: does not fit aero: quantize q5_k_m: it chooses types by the names of tensors, and no \
               tensor has a name that it knows, such as \"blk.0.attn_v.weight\" or \"model.layers.0.self_attn.v_proj.weight\" (quantize to q5_k)";
    assert!(text.starts_with(why), "{text}");
}

#[test]
fn types_that_the_target_lacks_are_listed() {
    let source = safetensors(&llama(256), "{}");
    let text = all(&try_convert(&source, Format::Apr2, &quantize(&["q4_k_m"])).unwrap_err());
    assert!(
        text.contains("\n  quantize q4_k_m: apr2 has no q4_k, which the preset gives some tensors"),
        "{text}"
    );
    assert!(
        text.contains("\n  quantize q4_k_m: apr2 has no q6_k, which the preset gives some tensors"),
        "{text}"
    );
    assert!(try_convert(&source, Format::Apr2, &quantize(&["mostly_q8_0"])).is_ok());
}

#[test]
fn what_is_no_type_and_no_preset_is_refused() {
    let refused = |text: &str| TypeRule::parse_quantize(text).unwrap_err().to_string();
    let why = "no such type and no such preset; there are the types q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs, and the presets \
               q2_k_s q3_k_s q3_k_m q3_k_l q4_k_s q4_k_m q5_k_s q5_k_m, and with mostly_ before it q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q6_k iq4_nl iq4_xs";
    assert_eq!(refused("iq3_m"), why);
    assert_eq!(refused("*.weight=q4_k_l"), why);
    // The list after `there are` is true.
    for name in
        ["q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs"]
    {
        assert!(ggml_quant::can_encode(name.parse().unwrap()), "{name}");
    }
    let listed: Vec<&str> = why.split([' ', ',']).collect();
    for preset in Preset::ALL {
        let name = preset.name();
        assert!(listed.contains(&name.trim_start_matches("mostly_")), "{name}");
    }
}
