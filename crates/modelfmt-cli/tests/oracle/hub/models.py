"""Models as their authors describe them, over the names and the keys of the hub.

Each model is a class whose `run` computes the logits of some tokens (or their embeddings) in float64. The weights are made as they are
asked for.
"""

import math

import numpy as np
from parts import (
    Weights,
    attend,
    chosen,
    frequencies,
    gelu_erf,
    gelu_tanh,
    layer_norm,
    rms,
    rotate,
    sigmoid,
    silu,
    softmax,
)


class Llama:
    """Layers of attention and of a gated feed-forward network, each after a norm."""

    theta = 10000.0
    eps = 1e-6
    qkv_bias = False
    neighbours = False
    activation = staticmethod(silu)

    def __init__(self, config: dict, weights: Weights) -> None:
        self.c, self.w = config, weights
        self.hidden, self.heads = config["hidden_size"], config["num_attention_heads"]
        self.kv_heads = config.get("num_key_value_heads") or self.heads
        self.head = config.get("head_dim") or self.hidden // self.heads
        self.scale = 1 / math.sqrt(self.head)

    def run(self, tokens: list[int]) -> np.ndarray:
        x = self.embed(tokens)
        for i in range(self.c["num_hidden_layers"]):
            x = self.layer(i, f"model.layers.{i}.", x)
        return self.logits(self.norm("model.norm", x))

    def embed(self, tokens: list[int]) -> np.ndarray:
        return self.w.table("model.embed_tokens.weight", self.c["vocab_size"], self.hidden)[tokens]

    def logits(self, x: np.ndarray) -> np.ndarray:
        if self.c.get("tie_word_embeddings", False):
            return x @ self.w.table("model.embed_tokens.weight", self.c["vocab_size"], self.hidden).T
        return self.w.linear("lm_head", x, self.c["vocab_size"])

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        return rms(x, self.w.vector(name + ".weight", x.shape[-1], 1.0), self.c.get("rms_norm_eps", self.eps))

    def layer(self, i: int, at: str, x: np.ndarray) -> np.ndarray:
        x = x + self.attention(i, at + "self_attn.", self.norm(at + "input_layernorm", x))
        return x + self.mlp(i, at + "mlp.", self.norm(at + "post_attention_layernorm", x))

    def has_qkv_bias(self) -> bool:
        return self.c.get("attention_bias", self.qkv_bias)

    def qkv(self, at: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        def of(name: str, heads: int) -> np.ndarray:
            return self.w.linear(at + name, x, heads * self.head, self.has_qkv_bias()).reshape(len(x), heads, self.head)

        return of("q_proj", self.heads), of("k_proj", self.kv_heads), of("v_proj", self.kv_heads)

    def rotated(self, i: int, x: np.ndarray) -> np.ndarray:
        size = int(self.head * self.c.get("partial_rotary_factor", 1.0))
        frequency, strength = frequencies(
            size, self.c.get("rope_theta", self.theta), self.c.get("rope_scaling"), self.c["max_position_embeddings"], len(x)
        )
        return rotate(x, frequency, strength, self.neighbours)

    def window(self, i: int) -> int | None:
        return None

    def attention(self, i: int, at: str, x: np.ndarray) -> np.ndarray:
        q, k, v = self.qkv(at, x)
        q, k = self.rotated(i, self.headwise(at + "q", q)), self.rotated(i, self.headwise(at + "k", k))
        seen = attend(q, k, v, self.scale, window=self.window(i), cap=self.c.get("attn_logit_softcapping"))
        return self.w.linear(at + "o_proj", seen, self.hidden, self.has_o_bias())

    def has_o_bias(self) -> bool:
        return self.c.get("attention_bias", False)

    def headwise(self, at: str, x: np.ndarray) -> np.ndarray:
        """What is done with each head of q and k before it is rotated."""
        return x

    def mlp(self, i: int, at: str, x: np.ndarray) -> np.ndarray:
        return self.gated(at, x, self.c["intermediate_size"])

    def gated(self, at: str, x: np.ndarray, size: int, names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")) -> np.ndarray:
        bias = self.c.get("mlp_bias", False)
        gate, up = (self.w.linear(at + name, x, size, bias) for name in names[:2])
        return self.w.linear(at + names[2], self.activation(gate) * up, self.hidden, bias)


class Mixtral(Llama):
    eps = 1e-5
    theta = 1e6

    def layer(self, i: int, at: str, x: np.ndarray) -> np.ndarray:
        x = x + self.attention(i, at + "self_attn.", self.norm(at + "input_layernorm", x))
        return x + self.experts(at + "block_sparse_moe.", self.norm(at + "post_attention_layernorm", x))

    def experts(self, at: str, x: np.ndarray) -> np.ndarray:
        count = self.c["num_local_experts"]
        shares = chosen(softmax(self.w.linear(at + "gate", x, count)), self.c["num_experts_per_tok"], True)
        names, size = ("w1", "w3", "w2"), self.c["intermediate_size"]
        return sum(shares[:, [e]] * self.gated(f"{at}experts.{e}.", x, size, names) for e in range(count))


class Qwen2(Llama):
    qkv_bias = True

    def has_o_bias(self) -> bool:
        return False


class Qwen2Moe(Qwen2):
    normalised = False

    def mlp(self, i: int, at: str, x: np.ndarray) -> np.ndarray:
        shared = self.gated(at + "shared_expert.", x, self.c["shared_expert_intermediate_size"])
        return self.experts(at, x) + sigmoid(self.w.linear(at + "shared_expert_gate", x, 1)) * shared

    def experts(self, at: str, x: np.ndarray) -> np.ndarray:
        count, size = self.c["num_experts"], self.c["moe_intermediate_size"]
        probabilities = softmax(self.w.linear(at + "gate", x, count))
        shares = chosen(probabilities, self.c["num_experts_per_tok"], self.c.get("norm_topk_prob", False))
        return sum(shares[:, [e]] * self.gated(f"{at}experts.{e}.", x, size) for e in range(count))


class Qwen3(Llama):
    def headwise(self, at: str, x: np.ndarray) -> np.ndarray:
        return self.norm(at + "_norm", x)


class Qwen3Moe(Qwen3):
    mlp_experts = Qwen2Moe.experts

    def mlp(self, i: int, at: str, x: np.ndarray) -> np.ndarray:
        return self.mlp_experts(at, x)


class Gemma(Llama):
    """The weights of its norms are what is added to 1. The table of embeddings is the output too."""

    activation = staticmethod(gelu_tanh)

    def embed(self, tokens: list[int]) -> np.ndarray:
        return super().embed(tokens) * math.sqrt(self.hidden)

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        return rms(x, 1 + self.w.vector(name + ".weight", x.shape[-1]), self.c.get("rms_norm_eps", self.eps))

    def logits(self, x: np.ndarray) -> np.ndarray:
        x = x @ self.w.table("model.embed_tokens.weight", self.c["vocab_size"], self.hidden).T
        cap = self.c.get("final_logit_softcapping")
        return cap * np.tanh(x / cap) if cap else x


class Gemma2(Gemma):
    def __init__(self, config: dict, weights: Weights) -> None:
        super().__init__(config, weights)
        self.scale = 1 / math.sqrt(config["query_pre_attn_scalar"])

    def layer(self, i: int, at: str, x: np.ndarray) -> np.ndarray:
        seen = self.attention(i, at + "self_attn.", self.norm(at + "input_layernorm", x))
        x = x + self.norm(at + "post_attention_layernorm", seen)
        fed = self.mlp(i, at + "mlp.", self.norm(at + "pre_feedforward_layernorm", x))
        return x + self.norm(at + "post_feedforward_layernorm", fed)

    def window(self, i: int) -> int | None:
        return self.c["sliding_window"] if i % 2 == 0 else None


class Gemma3(Gemma2):
    theta = 1e6

    def headwise(self, at: str, x: np.ndarray) -> np.ndarray:
        return self.norm(at + "_norm", x)

    def is_local(self, i: int) -> bool:
        return (i + 1) % 6 != 0

    def window(self, i: int) -> int | None:
        return self.c["sliding_window"] if self.is_local(i) else None

    def rotated(self, i: int, x: np.ndarray) -> np.ndarray:
        if self.is_local(i):
            return rotate(x, self.c.get("rope_local_base_freq", 10000.0) ** (-np.arange(0, self.head, 2) / self.head))
        return super().rotated(i, x)


class Phi3(Llama):
    eps = 1e-5

    def qkv(self, at: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        heads = self.heads, self.kv_heads, self.kv_heads
        fused = self.w.linear(at + "qkv_proj", x, sum(heads) * self.head)
        parts = np.split(fused, np.cumsum([count * self.head for count in heads])[:2], axis=-1)
        q, k, v = (part.reshape(len(x), count, self.head) for part, count in zip(parts, heads))
        return q, k, v

    def mlp(self, i: int, at: str, x: np.ndarray) -> np.ndarray:
        gate, up = np.split(self.w.linear(at + "gate_up_proj", x, 2 * self.c["intermediate_size"]), 2, axis=-1)
        return self.w.linear(at + "down_proj", silu(gate) * up, self.hidden)

    def rotated(self, i: int, x: np.ndarray) -> np.ndarray:
        before = self.c.get("original_max_position_embeddings")
        scaling = self.c.get("rope_scaling")
        if scaling:
            scaling = {"original_max_position_embeddings": before} | scaling
        size = int(self.head * self.c.get("partial_rotary_factor", 1.0))
        theta = self.c.get("rope_theta", self.theta)
        return rotate(x, *frequencies(size, theta, scaling, self.c["max_position_embeddings"], len(x)))


class Gpt2:
    """Learned positions; linear layers that have a column for each output."""

    def __init__(self, config: dict, weights: Weights, prefix: str = "transformer.") -> None:
        self.c, self.w, self.prefix = config, weights, prefix

    def conv(self, name: str, x: np.ndarray, size: int) -> np.ndarray:
        weight = self.w.get(name + ".weight", (x.shape[-1], size), 1.2 / math.sqrt(x.shape[-1]))
        return x @ weight + self.w.vector(name + ".bias", size)

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        weight, bias = self.w.vector(name + ".weight", x.shape[-1], 1.0), self.w.vector(name + ".bias", x.shape[-1])
        return layer_norm(x, weight, bias, self.c.get("layer_norm_epsilon", 1e-5))

    def run(self, tokens: list[int]) -> np.ndarray:
        c, at = self.c, self.prefix
        table = self.w.table(at + "wte.weight", c["vocab_size"], c["n_embd"])
        x = table[tokens] + self.w.table(at + "wpe.weight", c["n_positions"], c["n_embd"])[: len(tokens)]
        for i in range(c["n_layer"]):
            x = self.layer(f"{at}h.{i}.", x)
        x = self.norm(at + "ln_f", x)
        return x @ table.T if c.get("tie_word_embeddings", True) else self.w.linear("lm_head", x, c["vocab_size"])

    def layer(self, at: str, x: np.ndarray) -> np.ndarray:
        c, size = self.c, self.c["n_embd"]
        fused = self.conv(at + "attn.c_attn", self.norm(at + "ln_1", x), 3 * size)
        q, k, v = (part.reshape(len(x), c["n_head"], -1) for part in np.split(fused, 3, axis=-1))
        seen = attend(q, k, v, 1 / math.sqrt(size / c["n_head"]))
        x = x + self.conv(at + "attn.c_proj", seen, size)
        inner = self.conv(at + "mlp.c_fc", self.norm(at + "ln_2", x), c.get("n_inner") or 4 * size)
        return x + self.conv(at + "mlp.c_proj", gelu_tanh(inner), size)


class Starcoder2(Llama):
    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        weight, bias = self.w.vector(name + ".weight", x.shape[-1], 1.0), self.w.vector(name + ".bias", x.shape[-1])
        return layer_norm(x, weight, bias, self.c.get("norm_epsilon", 1e-5))

    def has_qkv_bias(self) -> bool:
        return self.c.get("use_bias", True)

    has_o_bias = has_qkv_bias

    def mlp(self, i: int, at: str, x: np.ndarray) -> np.ndarray:
        bias = self.c.get("use_bias", True)
        inner = gelu_tanh(self.w.linear(at + "c_fc", x, self.c["intermediate_size"], bias))
        return self.w.linear(at + "c_proj", inner, self.hidden, bias)

    def logits(self, x: np.ndarray) -> np.ndarray:
        self.c.setdefault("tie_word_embeddings", True)
        return super().logits(x)


class Olmo2(Llama):
    """Norms after each part, and over all heads of q and k at once."""

    eps = 1e-5

    def headwise(self, at: str, x: np.ndarray) -> np.ndarray:
        return self.norm(at + "_norm", x.reshape(len(x), -1)).reshape(x.shape)

    def layer(self, i: int, at: str, x: np.ndarray) -> np.ndarray:
        x = x + self.norm(at + "post_attention_layernorm", self.attention(i, at + "self_attn.", x))
        return x + self.norm(at + "post_feedforward_layernorm", self.mlp(i, at + "mlp.", x))


class Granite(Llama):
    def __init__(self, config: dict, weights: Weights) -> None:
        super().__init__(config, weights)
        self.scale = config.get("attention_multiplier", 1.0)

    def embed(self, tokens: list[int]) -> np.ndarray:
        return super().embed(tokens) * self.c.get("embedding_multiplier", 1.0)

    def layer(self, i: int, at: str, x: np.ndarray) -> np.ndarray:
        by = self.c.get("residual_multiplier", 1.0)
        x = x + by * self.attention(i, at + "self_attn.", self.norm(at + "input_layernorm", x))
        return x + by * self.mlp(i, at + "mlp.", self.norm(at + "post_attention_layernorm", x))

    def logits(self, x: np.ndarray) -> np.ndarray:
        return super().logits(x) / self.c.get("logits_scaling", 1.0)


class Bert:
    """An encoder: each token sees all. Norms come after the sums."""

    embeds = True

    def __init__(self, config: dict, weights: Weights, prefix: str = "bert.") -> None:
        self.c, self.w, self.prefix, self.size = config, weights, prefix, config["hidden_size"]

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        weight, bias = self.w.vector(name + ".weight", self.size, 1.0), self.w.vector(name + ".bias", self.size)
        return layer_norm(x, weight, bias, self.c.get("layer_norm_eps", 1e-12))

    def run(self, tokens: list[int]) -> np.ndarray:
        at, c = self.prefix + "embeddings.", self.c
        x = self.w.table(at + "word_embeddings.weight", c["vocab_size"], self.size)[tokens]
        x = x + self.w.table(at + "position_embeddings.weight", c["max_position_embeddings"], self.size)[: len(tokens)]
        x = x + self.w.table(at + "token_type_embeddings.weight", c["type_vocab_size"], self.size)[0]
        x = self.norm(at + "LayerNorm", x)
        for i in range(c["num_hidden_layers"]):
            x = self.layer(f"{self.prefix}encoder.layer.{i}.", x)
        return x

    def layer(self, at: str, x: np.ndarray) -> np.ndarray:
        heads = self.c["num_attention_heads"]
        parts = (self.w.linear(f"{at}attention.self.{name}", x, self.size, True) for name in ("query", "key", "value"))
        q, k, v = (part.reshape(len(x), heads, -1) for part in parts)
        seen = attend(q, k, v, 1 / math.sqrt(self.size / heads), causal=False)
        seen = self.w.linear(at + "attention.output.dense", seen, self.size, True)
        x = self.norm(at + "attention.output.LayerNorm", x + seen)
        inner = gelu_erf(self.w.linear(at + "intermediate.dense", x, self.c["intermediate_size"], True))
        return self.norm(at + "output.LayerNorm", x + self.w.linear(at + "output.dense", inner, self.size, True))


class Centred(Llama):
    """Norms take the mean away and add a bias."""

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        weight, bias = self.w.vector(name + ".weight", x.shape[-1], 1.0), self.w.vector(name + ".bias", x.shape[-1])
        return layer_norm(x, weight, bias, self.c.get("layer_norm_eps", 1e-5))


class Phi(Centred):
    """Attention and feed-forward network see the same norm, and are added at once."""

    def run(self, tokens: list[int]) -> np.ndarray:
        x = self.embed(tokens)
        for i in range(self.c["num_hidden_layers"]):
            x = self.layer(i, f"model.layers.{i}.", x)
        return self.w.linear("lm_head", self.norm("model.final_layernorm", x), self.c["vocab_size"], True)

    def layer(self, i: int, at: str, x: np.ndarray) -> np.ndarray:
        y = self.norm(at + "input_layernorm", x)
        q, k, v = self.qkv(at + "self_attn.", y)
        seen = attend(self.rotated(i, q), self.rotated(i, k), v, self.scale)
        seen = self.w.linear(at + "self_attn.dense", seen, self.hidden, True)
        inner = gelu_tanh(self.w.linear(at + "mlp.fc1", y, self.c["intermediate_size"], True))
        return x + seen + self.w.linear(at + "mlp.fc2", inner, self.hidden, True)

    qkv_bias = True


class GptNeox(Centred):
    """q, k and v of each head lie together."""

    def run(self, tokens: list[int]) -> np.ndarray:
        x = self.w.table("gpt_neox.embed_in.weight", self.c["vocab_size"], self.hidden)[tokens]
        for i in range(self.c["num_hidden_layers"]):
            x = self.layer(i, f"gpt_neox.layers.{i}.", x)
        return self.w.linear("embed_out", self.norm("gpt_neox.final_layer_norm", x), self.c["vocab_size"])

    def layer(self, i: int, at: str, x: np.ndarray) -> np.ndarray:
        y = self.norm(at + "input_layernorm", x)
        fused = self.w.linear(at + "attention.query_key_value", y, 3 * self.hidden, True).reshape(len(x), self.heads, 3, self.head)
        q, k, v = (fused[:, :, part] for part in range(3))
        frequency, _ = frequencies(int(self.head * self.c["rotary_pct"]), self.c.get("rotary_emb_base", 10000.0), None, 0, 0)
        seen = attend(rotate(q, frequency), rotate(k, frequency), v, self.scale)
        seen = self.w.linear(at + "attention.dense", seen, self.hidden, True)
        if self.c.get("use_parallel_residual", True):
            return x + seen + self.fed(at, x)
        x = x + seen
        return x + self.fed(at, x)

    def fed(self, at: str, x: np.ndarray) -> np.ndarray:
        y = self.norm(at + "post_attention_layernorm", x)
        inner = gelu_erf(self.w.linear(at + "mlp.dense_h_to_4h", y, self.c["intermediate_size"], True))
        return self.w.linear(at + "mlp.dense_4h_to_h", inner, self.hidden, True)


class Falcon(Centred):
    """All heads share one of k and v."""

    def run(self, tokens: list[int]) -> np.ndarray:
        table = self.w.table("transformer.word_embeddings.weight", self.c["vocab_size"], self.hidden)
        x = table[tokens]
        for i in range(self.c["num_hidden_layers"]):
            x = self.layer(i, f"transformer.h.{i}.", x)
        x = self.norm("transformer.ln_f", x)
        return x @ table.T if self.c.get("tie_word_embeddings", True) else self.w.linear("lm_head", x, self.c["vocab_size"])

    def layer(self, i: int, at: str, x: np.ndarray) -> np.ndarray:
        y = self.norm(at + "input_layernorm", x)
        fused = self.w.linear(at + "self_attention.query_key_value", y, (self.heads + 2) * self.head)
        fused = fused.reshape(len(x), self.heads + 2, self.head)
        q, k, v = fused[:, :-2], fused[:, -2:-1], fused[:, -1:]
        seen = attend(self.rotated(i, q), self.rotated(i, k), v, self.scale)
        seen = self.w.linear(at + "self_attention.dense", seen, self.hidden)
        inner = gelu_erf(self.w.linear(at + "mlp.dense_h_to_4h", y, 4 * self.hidden))
        return x + seen + self.w.linear(at + "mlp.dense_4h_to_h", inner, self.hidden)


class Cohere(Llama):
    """Norms without biases, one for attention and feed-forward network; neighbours are rotated."""

    neighbours = True

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        return layer_norm(x, self.w.vector(name + ".weight", x.shape[-1], 1.0), 0.0, self.c.get("layer_norm_eps", 1e-5))

    def headwise(self, at: str, x: np.ndarray) -> np.ndarray:
        if not self.c.get("use_qk_norm"):
            return x
        weight = self.w.get(at + "_norm.weight", x.shape[1:], 0.3, 1.0)
        return layer_norm(x, weight, 0.0, self.c.get("layer_norm_eps", 1e-5))

    def layer(self, i: int, at: str, x: np.ndarray) -> np.ndarray:
        y = self.norm(at + "input_layernorm", x)
        return x + self.attention(i, at + "self_attn.", y) + self.mlp(i, at + "mlp.", y)

    def logits(self, x: np.ndarray) -> np.ndarray:
        return self.c["logit_scale"] * x @ self.w.table("model.embed_tokens.weight", self.c["vocab_size"], self.hidden).T


class StableLm(Centred):
    def has_qkv_bias(self) -> bool:
        return self.c.get("use_qkv_bias", False)

    def headwise(self, at: str, x: np.ndarray) -> np.ndarray:
        if not self.c.get("qk_layernorm"):
            return x
        norms = [self.w.vector(f"{at}_layernorm.norms.{head}.weight", self.head, 1.0) for head in range(x.shape[1])]
        return layer_norm(x, np.stack(norms), 0.0, self.c.get("layer_norm_eps", 1e-5))

    def layer(self, i: int, at: str, x: np.ndarray) -> np.ndarray:
        y = self.norm(at + "input_layernorm", x)
        seen = self.attention(i, at + "self_attn.", y)
        if self.c.get("use_parallel_residual"):
            return x + seen + self.mlp(i, at + "mlp.", y)
        x = x + seen
        return x + self.mlp(i, at + "mlp.", self.norm(at + "post_attention_layernorm", x))


class Glm4(Llama):
    """Norms before and after each part; neighbours are rotated."""

    neighbours = True

    def has_o_bias(self) -> bool:
        return False

    def layer(self, i: int, at: str, x: np.ndarray) -> np.ndarray:
        seen = self.attention(i, at + "self_attn.", self.norm(at + "input_layernorm", x))
        x = x + self.norm(at + "post_self_attn_layernorm", seen)
        fed = Phi3.mlp(self, i, at + "mlp.", self.norm(at + "post_attention_layernorm", x))
        return x + self.norm(at + "post_mlp_layernorm", fed)


class Olmo(Llama):
    """Norms have no weights."""

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        return layer_norm(x, 1.0, 0.0, 1e-5)

    def qkv(self, at: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        limit = self.c.get("clip_qkv") or math.inf
        q, k, v = (np.clip(part, -limit, limit) for part in super().qkv(at, x))
        return q, k, v


class NomicBert(Bert):
    """An encoder with rotated positions and gates."""

    def __init__(self, config: dict, weights: Weights, prefix: str = "") -> None:
        self.c, self.w, self.prefix, self.size = config, weights, prefix, config["n_embd"]

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        weight, bias = self.w.vector(name + ".weight", self.size, 1.0), self.w.vector(name + ".bias", self.size)
        return layer_norm(x, weight, bias, self.c.get("layer_norm_epsilon", 1e-12))

    def run(self, tokens: list[int]) -> np.ndarray:
        at, c = self.prefix, self.c
        x = self.w.table(at + "embeddings.word_embeddings.weight", c["vocab_size"], self.size)[tokens]
        x = x + self.w.table(at + "embeddings.token_type_embeddings.weight", c["type_vocab_size"], self.size)[0]
        x = self.norm(at + "emb_ln", x)
        for i in range(c["n_layer"]):
            x = self.layer(f"{at}encoder.layers.{i}.", x)
        return x

    def layer(self, at: str, x: np.ndarray) -> np.ndarray:
        c, head = self.c, self.size // self.c["n_head"]
        fused = self.w.linear(at + "attn.Wqkv", x, 3 * self.size).reshape(len(x), 3, c["n_head"], head)
        frequency, _ = frequencies(head, c["rotary_emb_base"], None, 0, 0)
        seen = attend(rotate(fused[:, 0], frequency), rotate(fused[:, 1], frequency), fused[:, 2], 1 / math.sqrt(head), causal=False)
        x = self.norm(at + "norm1", x + self.w.linear(at + "attn.out_proj", seen, self.size))
        inner = self.w.linear(at + "mlp.fc11", x, c["n_inner"]) * silu(self.w.linear(at + "mlp.fc12", x, c["n_inner"]))
        return self.norm(at + "norm2", x + self.w.linear(at + "mlp.fc2", inner, self.size))


class T5:
    """An encoder and a decoder that sees it; how far tokens are from each other counts instead of where they are."""

    def __init__(self, config: dict, weights: Weights) -> None:
        self.c, self.w = config, weights
        self.size, self.heads, self.head = config["d_model"], config["num_heads"], config["d_kv"]

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        return rms(x, self.w.vector(name + ".weight", self.size, 1.0), self.c.get("layer_norm_epsilon", 1e-6))

    def attention(self, at: str, x: np.ndarray, other: np.ndarray, causal: bool, bias: np.ndarray | float) -> np.ndarray:
        def of(name: str, x: np.ndarray, spread: float = 1.2) -> np.ndarray:
            return self.w.linear(at + name, x, self.heads * self.head, spread=spread).reshape(len(x), self.heads, self.head)

        # Scores are not divided by the root of the dimensions; instead the weights of q are smaller by that
        # factor.
        seen = attend(of("q", x, 1.2 / math.sqrt(self.head)), of("k", other), of("v", other), 1.0, causal=causal, bias=bias)
        return self.w.linear(at + "o", seen, self.size)

    def fed(self, at: str, x: np.ndarray) -> np.ndarray:
        y = self.norm(at + "layer_norm", x)
        at += "DenseReluDense."
        inner = gelu_tanh(self.w.linear(at + "wi_0", y, self.c["d_ff"])) * self.w.linear(at + "wi_1", y, self.c["d_ff"])
        return x + self.w.linear(at + "wo", inner, self.size)

    def distances(self, side: str, count: int) -> np.ndarray:
        """What is added to the scores [heads, tokens, tokens]: near distances have a bucket each, far ones share."""
        buckets = self.c["relative_attention_num_buckets"]
        name = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        table = self.w.table(name, buckets, self.heads)
        ahead = np.arange(count)[None, :] - np.arange(count)[:, None]
        if side == "encoder":
            buckets //= 2
            first, far = np.where(ahead > 0, buckets, 0), np.abs(ahead)
        else:
            first, far = np.zeros_like(ahead), np.maximum(-ahead, 0)
        exact = buckets // 2
        longest = self.c.get("relative_attention_max_distance", 128)
        shared = exact + (np.log(np.maximum(far, 1) / exact) / math.log(longest / exact) * (buckets - exact)).astype(int)
        return table[first + np.where(far < exact, far, np.minimum(shared, buckets - 1))].transpose(2, 0, 1)

    def embed(self, tokens: list[int]) -> np.ndarray:
        return self.w.table("shared.weight", self.c["vocab_size"], self.size)[tokens]

    def encoded(self, tokens: list[int]) -> np.ndarray:
        x, bias = self.embed(tokens), self.distances("encoder", len(tokens))
        for i in range(self.c["num_layers"]):
            at = f"encoder.block.{i}.layer."
            y = self.norm(at + "0.layer_norm", x)
            x = self.fed(at + "1.", x + self.attention(at + "0.SelfAttention.", y, y, False, bias))
        return self.norm("encoder.final_layer_norm", x)

    def run(self, tokens: list[int]) -> np.ndarray:
        """The logits of a text, of which the encoder has the reverse."""
        other = self.encoded(tokens[::-1])
        x, bias = self.embed(tokens), self.distances("decoder", len(tokens))
        for i in range(self.c.get("num_decoder_layers", self.c["num_layers"])):
            at = f"decoder.block.{i}.layer."
            y = self.norm(at + "0.layer_norm", x)
            x = x + self.attention(at + "0.SelfAttention.", y, y, True, bias)
            x = x + self.attention(at + "1.EncDecAttention.", self.norm(at + "1.layer_norm", x), other, False, 0.0)
            x = self.fed(at + "2.", x)
        return self.w.linear("lm_head", self.norm("decoder.final_layer_norm", x), self.c["vocab_size"])


class Arcee(Llama):
    """A feed-forward network without gates, whose activation is the square of what is above 0."""

    def mlp(self, i: int, at: str, x: np.ndarray) -> np.ndarray:
        inner = np.maximum(self.w.linear(at + "up_proj", x, self.c["intermediate_size"]), 0) ** 2
        return self.w.linear(at + "down_proj", inner, self.hidden)


class Ernie45(Llama):
    neighbours = True


class Olmoe(Llama):
    """Experts, and norms over all heads of q and k at once."""

    headwise = Olmo2.headwise

    def mlp(self, i: int, at: str, x: np.ndarray) -> np.ndarray:
        count, size = self.c["num_experts"], self.c["intermediate_size"]
        shares = chosen(softmax(self.w.linear(at + "gate", x, count)), self.c["num_experts_per_tok"], False)
        return sum(shares[:, [e]] * self.gated(f"{at}experts.{e}.", x, size) for e in range(count))


class Cohere2(Cohere):
    """The last of four layers sees all tokens and rotates nothing, the others see a window."""

    def window(self, i: int) -> int | None:
        return self.c["sliding_window"] if (i + 1) % 4 else None

    def rotated(self, i: int, x: np.ndarray) -> np.ndarray:
        return super().rotated(i, x) if (i + 1) % 4 else x


class GptBigCode(Gpt2):
    """All heads share one of k and v; linear layers have a row for each output."""

    def conv(self, name: str, x: np.ndarray, size: int) -> np.ndarray:
        return self.w.linear(name, x, size, True)

    def layer(self, at: str, x: np.ndarray) -> np.ndarray:
        c, size, head = self.c, self.c["n_embd"], self.c["n_embd"] // self.c["n_head"]
        fused = self.conv(at + "attn.c_attn", self.norm(at + "ln_1", x), size + 2 * head).reshape(len(x), -1, head)
        seen = attend(fused[:, :-2], fused[:, -2:-1], fused[:, -1:], 1 / math.sqrt(head))
        x = x + self.conv(at + "attn.c_proj", seen, size)
        inner = self.conv(at + "mlp.c_fc", self.norm(at + "ln_2", x), c.get("n_inner") or 4 * size)
        return x + self.conv(at + "mlp.c_proj", gelu_tanh(inner), size)


class Bloom(Centred):
    """Scores fall with the distance, in each head by another slope."""

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        weight, bias = self.w.vector(name + ".weight", x.shape[-1], 1.0), self.w.vector(name + ".bias", x.shape[-1])
        return layer_norm(x, weight, bias, self.c.get("layer_norm_epsilon", 1e-5))

    def run(self, tokens: list[int]) -> np.ndarray:
        table = self.w.table("transformer.word_embeddings.weight", self.c["vocab_size"], self.hidden)
        x = self.norm("transformer.word_embeddings_layernorm", table[tokens])
        for i in range(self.c["num_hidden_layers"]):
            x = self.layer(i, f"transformer.h.{i}.", x)
        return self.norm("transformer.ln_f", x) @ table.T

    def slopes(self) -> np.ndarray:
        """Powers of 2: for a power of 2 of heads, then every other one of those for twice as many."""
        whole = 2 ** int(math.log2(self.heads))
        of = [2.0 ** (-8 * (k + 1) / whole) for k in range(whole)]
        between = [2.0 ** (-4 * (2 * k + 1) / whole) for k in range(self.heads - whole)]
        return np.array(of + between)

    def layer(self, i: int, at: str, x: np.ndarray) -> np.ndarray:
        y = self.norm(at + "input_layernorm", x)
        fused = self.w.linear(at + "self_attention.query_key_value", y, 3 * self.hidden, True)
        fused = fused.reshape(len(x), self.heads, 3, self.head)
        behind = np.arange(len(x))[None, :] - np.arange(len(x))[:, None]
        bias = self.slopes()[:, None, None] * behind
        seen = attend(fused[:, :, 0], fused[:, :, 1], fused[:, :, 2], self.scale, bias=bias)
        x = x + self.w.linear(at + "self_attention.dense", seen, self.hidden, True)
        y = self.norm(at + "post_attention_layernorm", x)
        inner = gelu_tanh(self.w.linear(at + "mlp.dense_h_to_4h", y, 4 * self.hidden, True))
        return x + self.w.linear(at + "mlp.dense_4h_to_h", inner, self.hidden, True)
