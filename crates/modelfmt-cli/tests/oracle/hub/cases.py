"""Small random models: for each family, configs as files of the hub have them."""

import copy

import models

VOCABULARY = 67
TOKENS = {"vocab_size": VOCABULARY}
# Heads of q share heads of k and v, the dimensions of heads do not follow from the model's, and no two sizes
# are equal.
SHARED = TOKENS | {
    "hidden_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "intermediate_size": 56,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
}
# q has as many dimensions as the model, so its matrix is square and its shape does not show which side is
# which.
SQUARE = SHARED | {"head_dim": None, "num_attention_heads": 4, "num_key_value_heads": 4}
EXPERTS = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 28}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
GPT2 = TOKENS | {"n_embd": 40, "n_layer": 2, "n_head": 5, "n_positions": 64}
GEMMA2 = SHARED | {
    "query_pre_attn_scalar": 12,
    "sliding_window": 9,
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
}
GEMMA3 = SHARED | {"num_hidden_layers": 7, "query_pre_attn_scalar": 12, "sliding_window": 9, "sliding_window_pattern": 6}
GRANITE = SHARED | {
    "head_dim": None,
    "num_attention_heads": 5,
    "num_key_value_heads": 1,
    "embedding_multiplier": 12.0,
    "attention_multiplier": 0.2,
    "residual_multiplier": 0.22,
    "logits_scaling": 8.0,
}
PHI3 = SHARED | {"head_dim": None, "num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": None, "pad_token_id": 0}
LONG = {"type": "longrope", "long_factor": [1.5, 2.5, 3.5, 4.5, 5.5], "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4]}
BERT = TOKENS | {
    "hidden_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 5,
    "intermediate_size": 72,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
}

ONE_NORM = SQUARE | {"layer_norm_eps": 1e-5}
NEOX = TOKENS | {
    "hidden_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 56,
    "max_position_embeddings": 64,
    "rotary_pct": 0.6,
    "rotary_emb_base": 5000,
    "layer_norm_eps": 1e-5,
    "hidden_act": "gelu",
    "use_parallel_residual": True,
}
FALCON = TOKENS | {
    "hidden_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "layer_norm_epsilon": 1e-5,
    "max_position_embeddings": 64,
    "multi_query": True,
    "parallel_attn": True,
    "new_decoder_architecture": False,
    "alibi": False,
    "bias": False,
}
DEEP = TOKENS | {
    "hidden_size": 16,
    "num_hidden_layers": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 64,
    "rope_theta": 10000.0,
    "logit_scale": 0.5,
    "use_qk_norm": True,
}
T5 = TOKENS | {
    "d_model": 40,
    "d_kv": 12,
    "d_ff": 56,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 16,
    "feed_forward_proj": "gated-gelu",
    "is_encoder_decoder": True,
    "decoder_start_token_id": 0,
    "tie_word_embeddings": False,
}
COHERE2 = ONE_NORM | {
    "num_hidden_layers": 5,
    "num_key_value_heads": 2,
    "logit_scale": 0.25,
    "sliding_window": 9,
    "sliding_window_pattern": 4,
    "tie_word_embeddings": True,
}
BLOOM = TOKENS | {"hidden_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "layer_norm_epsilon": 1e-5}
STABLE = ONE_NORM | {"num_key_value_heads": 2, "partial_rotary_factor": 0.4}
NOMIC = TOKENS | {
    "n_embd": 40,
    "n_layer": 2,
    "n_head": 5,
    "n_inner": 72,
    "n_positions": 64,
    "type_vocab_size": 2,
    "rotary_emb_base": 1000,
    "rotary_emb_scale_base": None,
    "layer_norm_epsilon": 1e-12,
    "activation_function": "swiglu",
    "causal": False,
}

# The name of a case, the class, `model_type`, the config, and special properties: `prefix` of the names,
# `dtype` of the file, `shards` (the number of files), `as_is` (nothing is cast, so llama.cpp rounds its
# operands to the dtype), `longest` (only the longest text), `encoded` (an encoder gets the text in reverse),
# `tokenizer` (the folder has one, of bytes), `renamed` (names of config keys in files of early libraries).
CASES: list[tuple[str, type, str, dict, dict]] = [
    ("llama", models.Llama, "llama", SHARED | {"tie_word_embeddings": False}, {}),
    ("llama, bf16 in three files", models.Llama, "llama", SHARED, {"dtype": "bfloat16", "shards": 3}),
    ("llama, with a tokenizer", models.Llama, "llama", SHARED | {"vocab_size": 258, "bos_token_id": 256, "eos_token_id": 257}, {"tokenizer": True}),
    ("llama, f16 as it is", models.Llama, "llama", SHARED, {"dtype": "float16", "as_is": True}),
    ("llama, square", models.Llama, "llama", SQUARE, {}),
    ("llama, tied, biases", models.Llama, "llama", SHARED | {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}, {}),
    ("llama, linear", models.Llama, "llama", SHARED | {"rope_scaling": {"type": "linear", "factor": 4.0}}, {}),
    ("llama 3", models.Llama, "llama", SHARED | {"rope_theta": 500000.0, "rope_scaling": LLAMA3}, {}),
    ("llama, yarn", models.Llama, "llama", SHARED | {"rope_scaling": YARN}, {}),
    ("llama, yarn, attention_factor", models.Llama, "llama", SHARED | {"rope_scaling": YARN | {"attention_factor": 1.3}}, {}),
    ("qwen3, yarn, mscale", models.Qwen3, "qwen3", SHARED | {"rope_scaling": YARN | {"mscale": 0.7, "mscale_all_dim": 0.4}}, {}),
    ("mistral", models.Llama, "mistral", SHARED | {"sliding_window": None, "rope_theta": 1e6}, {}),
    ("mixtral, bf16 as it is", models.Mixtral, "mixtral", SHARED | {"num_local_experts": 5, "num_experts_per_tok": 5}, {"dtype": "bfloat16", "as_is": True}),
    ("mixtral", models.Mixtral, "mixtral", SHARED | {"num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": None}, {}),
    ("qwen2", models.Qwen2, "qwen2", SQUARE | {"num_key_value_heads": 2, "use_sliding_window": False, "sliding_window": 64}, {}),
    ("qwen2, yarn", models.Qwen2, "qwen2", SQUARE | {"num_key_value_heads": 2, "rope_scaling": YARN, "tie_word_embeddings": True}, {}),
    (
        "qwen2_moe",
        models.Qwen2Moe,
        "qwen2_moe",
        SQUARE | EXPERTS | {"shared_expert_intermediate_size": 44, "norm_topk_prob": False, "decoder_sparse_step": 1, "mlp_only_layers": []},
        {},
    ),
    ("qwen3", models.Qwen3, "qwen3", SHARED | {"tie_word_embeddings": True}, {}),
    ("qwen3_moe", models.Qwen3Moe, "qwen3_moe", SHARED | EXPERTS | {"norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": []}, {}),
    ("gemma", models.Gemma, "gemma", SHARED | {"hidden_activation": "gelu_pytorch_tanh"}, {}),
    ("gemma2", models.Gemma2, "gemma2", GEMMA2, {}),
    ("gemma2, bf16", models.Gemma2, "gemma2", GEMMA2, {"dtype": "bfloat16"}),
    ("gemma2, bf16 as it is", models.Gemma2, "gemma2", GEMMA2, {"dtype": "bfloat16", "as_is": True}),
    ("gemma3", models.Gemma3, "gemma3_text", GEMMA3, {}),
    ("gemma3, linear", models.Gemma3, "gemma3_text", GEMMA3 | {"rope_scaling": {"rope_type": "linear", "factor": 8.0}}, {}),
    ("phi3", models.Phi3, "phi3", PHI3 | {"original_max_position_embeddings": 256, "rope_scaling": None}, {}),
    ("phi3, long", models.Phi3, "phi3", PHI3 | {"original_max_position_embeddings": 16, "rope_scaling": LONG}, {"longest": True}),
    ("phi3, short", models.Phi3, "phi3", PHI3 | {"original_max_position_embeddings": 256, "max_position_embeddings": 1024, "rope_scaling": LONG}, {}),
    (
        "phi4 mini",
        models.Phi3,
        "phi3",
        PHI3 | {"original_max_position_embeddings": 256, "rope_scaling": None, "partial_rotary_factor": 0.6, "tie_word_embeddings": True},
        {},
    ),
    ("gpt2, f16 as it is", models.Gpt2, "gpt2", GPT2, {"dtype": "float16", "as_is": True}),
    ("gpt2", models.Gpt2, "gpt2", GPT2, {}),
    ("gpt2, plain names, square", models.Gpt2, "gpt2", GPT2 | {"n_inner": 40}, {"prefix": ""}),
    ("starcoder2", models.Starcoder2, "starcoder2", SQUARE | {"num_key_value_heads": 2, "use_bias": True, "norm_epsilon": 1e-5}, {}),
    ("starcoder2, untied", models.Starcoder2, "starcoder2", SQUARE | {"tie_word_embeddings": False}, {}),
    ("olmo2", models.Olmo2, "olmo2", SQUARE | {"num_key_value_heads": 2}, {}),
    ("granite", models.Granite, "granite", GRANITE | {"tie_word_embeddings": True}, {}),
    ("granite, biases", models.Granite, "granite", GRANITE | {"attention_bias": True, "mlp_bias": True}, {}),
    ("bert, f16 as it is", models.Bert, "bert", BERT, {"dtype": "float16", "as_is": True}),
    ("bert", models.Bert, "bert", BERT, {}),
    ("bert, plain names", models.Bert, "bert", BERT, {"prefix": ""}),
    ("phi", models.Phi, "phi", ONE_NORM | {"partial_rotary_factor": 0.6, "hidden_act": "gelu_new", "qk_layernorm": False}, {}),
    ("gpt_neox", models.GptNeox, "gpt_neox", NEOX, {}),
    ("gpt_neox, in sequence", models.GptNeox, "gpt_neox", NEOX | {"use_parallel_residual": False}, {}),
    ("falcon", models.Falcon, "falcon", FALCON, {}),
    ("falcon, untied", models.Falcon, "falcon", FALCON | {"tie_word_embeddings": False}, {}),
    ("falcon, old names", models.Falcon, "RefinedWebModel", FALCON, {"renamed": {"num_attention_heads": "n_head", "num_hidden_layers": "n_layer"}}),
    ("cohere", models.Cohere, "cohere", ONE_NORM | {"num_key_value_heads": 2, "logit_scale": 0.25, "use_qk_norm": False}, {}),
    ("cohere, deep", models.Cohere, "cohere", DEEP, {}),
    ("stablelm", models.StableLm, "stablelm", STABLE | {"use_qkv_bias": True, "qk_layernorm": False}, {}),
    ("stablelm, parallel", models.StableLm, "stablelm", STABLE | {"use_parallel_residual": True, "qk_layernorm": True}, {}),
    (
        "stablelm, old names",
        models.StableLm,
        "stablelm_epoch",
        STABLE | {"num_key_value_heads": 4},
        {"renamed": {"layer_norm_eps": "norm_eps", "partial_rotary_factor": "rope_pct"}},
    ),
    ("glm4", models.Glm4, "glm4", SHARED | {"partial_rotary_factor": 0.5, "attention_bias": True}, {}),
    ("olmo", models.Olmo, "olmo", SQUARE | {"num_key_value_heads": 2, "clip_qkv": None}, {}),
    ("olmo, clipped", models.Olmo, "olmo", SQUARE | {"clip_qkv": 0.7, "tie_word_embeddings": True}, {}),
    ("t5", models.T5, "t5", T5, {"encoded": True}),
    ("t5, as many layers", models.T5, "t5", T5 | {"num_decoder_layers": 3, "relative_attention_num_buckets": 32}, {"encoded": True}),
    ("seed_oss", models.Qwen2, "seed_oss", SHARED | {"attention_bias": True, "attention_out_bias": False}, {}),
    ("arcee", models.Arcee, "arcee", SHARED | {"hidden_act": "relu2"}, {}),
    ("ernie4_5", models.Ernie45, "ernie4_5", SHARED | {"use_bias": False, "tie_word_embeddings": True}, {}),
    ("olmoe", models.Olmoe, "olmoe", SQUARE | {"num_experts": 5, "num_experts_per_tok": 2, "norm_topk_prob": False, "clip_qkv": None}, {}),
    ("cohere2", models.Cohere2, "cohere2", COHERE2, {}),
    ("gpt_bigcode", models.GptBigCode, "gpt_bigcode", GPT2 | {"multi_query": True, "activation_function": "gelu_pytorch_tanh"}, {}),
    ("bloom", models.Bloom, "bloom", BLOOM, {}),
    ("bloom, six heads", models.Bloom, "bloom", BLOOM | {"num_attention_heads": 6, "hidden_size": 48}, {}),
    ("nomic_bert", models.NomicBert, "nomic_bert", NOMIC, {}),
]


def tokenizer() -> dict:
    """A tokenizer.json whose tokens are bytes: those that are letters as they are, others as letters from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = plain + [0x100 + number for number in range(256 - len(plain))]
    order = plain + [byte for byte in range(256) if byte not in plain]
    vocabulary = {chr(letter): byte for letter, byte in zip(letters, order)}
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    bytes_alone = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "added_tokens": [{"id": 256, "content": "<s>"} | special, {"id": 257, "content": "</s>"} | special],
        "pre_tokenizer": bytes_alone,
        "decoder": bytes_alone,
        "model": {"type": "BPE", "vocab": vocabulary | {"<s>": 256, "</s>": 257}, "merges": []},
    }


def file_of(family: str, config: dict) -> dict:
    """The config as a file of the hub's libraries up to version 4 has it."""
    return copy.deepcopy(config) | {"model_type": family, "torch_dtype": "float32"}


def newer(config: dict) -> dict:
    """The same as files of version 5 have it."""
    new = {key: value for key, value in config.items() if key not in ("rope_theta", "rope_scaling", "rope_local_base_freq")}
    new["dtype"] = new.pop("torch_dtype")
    if "rotary_pct" in config:
        parts = {"partial_rotary_factor": new.pop("rotary_pct"), "rope_theta": new.pop("rotary_emb_base")}
        new["rope_parameters"] = {"rope_type": "default"} | parts
    if "rope_theta" in config:
        rope = {"rope_theta": config["rope_theta"], "rope_type": "default"} | (config.get("rope_scaling") or {})
        if "type" in rope:
            rope["rope_type"] = rope.pop("type")
        for key in ("partial_rotary_factor", "original_max_position_embeddings"):
            if key in config:
                rope[key] = new.pop(key)
        new["rope_parameters"] = rope
    if each := new.pop("sliding_window_pattern", None):
        kinds = ["sliding_attention"] * (each - 1) + ["full_attention"]
        new["layer_types"] = [kinds[i % each] for i in range(config["num_hidden_layers"])]
    if each == 6:
        local = {"rope_theta": config.get("rope_local_base_freq", 10000.0), "rope_type": "default"}
        new["rope_parameters"] = {"full_attention": new["rope_parameters"], "sliding_attention": local}
    return new
