"""What models are made of, in float64: norms, activations, rotations, attention, experts."""

import math

import numpy as np


class Weights:
    """Random weights, each made when a model first asks for it. A model asks for all that it has, so it says what is in its file."""

    def __init__(self, seed: int, dtype: type = np.float32) -> None:
        self.random = np.random.default_rng(seed)
        self.dtype = dtype
        self.made: dict[str, np.ndarray] = {}

    def get(self, name: str, shape: tuple[int, ...], spread: float, centre: float = 0.0) -> np.ndarray:
        if name not in self.made:
            values = centre + spread * self.random.standard_normal(shape)
            self.made[name] = values.astype(self.dtype)
        assert self.made[name].shape == shape, name
        return self.made[name].astype(np.float64)

    def table(self, name: str, rows: int, columns: int) -> np.ndarray:
        return self.get(name, (rows, columns), 1.0)

    def vector(self, name: str, size: int, centre: float = 0.0) -> np.ndarray:
        return self.get(name, (size,), 0.3, centre)

    def linear(self, name: str, x: np.ndarray, size: int, bias: bool = False, spread: float = 1.2) -> np.ndarray:
        """What a linear layer makes of `x`; its weight has a row for each output."""
        columns = x.shape[-1]
        result = x @ self.get(name + ".weight", (size, columns), spread / math.sqrt(columns)).T
        return result + self.vector(name + ".bias", size) if bias else result


def rms(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | float, eps: float) -> np.ndarray:
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + eps) * weight + bias


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def silu(x: np.ndarray) -> np.ndarray:
    return x * sigmoid(x)


class Gelu:
    """Whether gelu is as llama.cpp has it: by tanh, looked up in a table of halves."""

    tables = False


def by_table(x: np.ndarray) -> np.ndarray:
    halves = by_tanh(x.astype(np.float32).astype(np.float16).astype(np.float32)).astype(np.float16).astype(np.float64)
    return np.where(x <= -10, 0, np.where(x >= 10, x, halves))


def by_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return by_table(x) if Gelu.tables else by_tanh(x)


def gelu_erf(x: np.ndarray) -> np.ndarray:
    return by_table(x) if Gelu.tables else 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softmax(x: np.ndarray) -> np.ndarray:
    exp = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return exp / np.sum(exp, axis=-1, keepdims=True)


def frequencies(size: int, theta: float, scaling: dict | None, longest: int, length: int) -> tuple[np.ndarray, float]:
    """The frequency of each pair of dimensions, and what rotated values are multiplied by.

    `longest` is the longest context of the model, `length` that of this sequence.
    """
    exponents = np.arange(0, size, 2) / size
    plain = theta**-exponents
    scaling = scaling or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return plain, 1.0
    if kind == "linear":
        return plain / scaling["factor"], 1.0
    before = scaling.get("original_max_position_embeddings", longest)
    if kind == "llama3":
        return llama3(plain, scaling, before), 1.0
    if kind == "yarn":
        return yarn(plain, scaling, before, theta, size)
    if kind == "longrope":
        factor = scaling.get("factor", longest / before)
        stronger = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(before))
        which = "long_factor" if length > before else "short_factor"
        return plain / np.array(scaling[which]), scaling.get("attention_factor", stronger)
    raise ValueError(kind)


def llama3(plain: np.ndarray, scaling: dict, before: int) -> np.ndarray:
    """Slow rotations become slower by a factor, fast ones stay, between them it is blended."""
    low, high, factor = scaling["low_freq_factor"], scaling["high_freq_factor"], scaling["factor"]
    turns = before * plain / (2 * math.pi)
    blend = np.clip((turns - low) / (high - low), 0, 1)
    return plain * ((1 - blend) / factor + blend)


def yarn(plain: np.ndarray, scaling: dict, before: int, theta: float, size: int) -> tuple[np.ndarray, float]:
    """By the number of turns within the original context: many turns stay, few are slowed by the factor, between them linear."""
    factor = scaling["factor"]

    def dimension(turns: float) -> float:
        return size * math.log(before / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(dimension(scaling.get("beta_fast", 32))), 0)
    high = min(math.ceil(dimension(scaling.get("beta_slow", 1))), size - 1)
    slowed = np.clip((np.arange(size // 2) - low) / max(high - low, 0.001), 0, 1)

    def strength(by: float) -> float:
        return 0.1 * by * math.log(factor) + 1 if factor > 1 else 1.0

    stronger = scaling.get("attention_factor")
    if stronger is None and scaling.get("mscale") and scaling.get("mscale_all_dim"):
        stronger = strength(scaling["mscale"]) / strength(scaling["mscale_all_dim"])
    return plain * (slowed / factor + 1 - slowed), strength(1) if stronger is None else stronger


def rotate(x: np.ndarray, frequency: np.ndarray, strength: float = 1.0, neighbours: bool = False) -> np.ndarray:
    """Rotates the first dimensions of each head, `x` being [tokens, heads, dimensions], by its position."""
    size = 2 * len(frequency)
    angles = np.arange(len(x))[:, None, None] * frequency
    cos, sin = np.cos(angles) * strength, np.sin(angles) * strength
    first, second = (x[..., 0:size:2], x[..., 1:size:2]) if neighbours else (x[..., : size // 2], x[..., size // 2 : size])
    turned = first * cos - second * sin, second * cos + first * sin
    whole = np.stack(turned, axis=-1).reshape(*x.shape[:-1], size) if neighbours else np.concatenate(turned, axis=-1)
    return np.concatenate([whole, x[..., size:]], axis=-1)


def attend(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    scale: float,
    causal: bool = True,
    window: int | None = None,
    cap: float | None = None,
    bias: np.ndarray | float = 0.0,
) -> np.ndarray:
    """Attention of [tokens, heads, dimensions]; several heads of q share one of k and v. Returns [tokens, heads * dimensions]."""
    share = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, share, axis=1), np.repeat(v, share, axis=1)
    scores = np.einsum("qhd,khd->hqk", q, k) * scale + bias
    if cap:
        scores = cap * np.tanh(scores / cap)
    behind = np.arange(len(q))[:, None] - np.arange(len(k))[None, :]
    hidden = np.zeros_like(behind, dtype=bool)
    if causal:
        hidden |= behind < 0
    if window:
        hidden |= behind >= window
    scores = np.where(hidden, -np.inf, scores)
    return np.einsum("hqk,khd->qhd", softmax(scores), v).reshape(len(q), -1)


def chosen(probabilities: np.ndarray, count: int, normalised: bool, ranking: np.ndarray | None = None) -> np.ndarray:
    """How much each expert counts: its probability if it is among the most probable (or those that rank highest), else 0."""
    ranking = probabilities if ranking is None else ranking
    best = np.argsort(-ranking, axis=-1, kind="stable")[:, :count]
    kept = np.zeros_like(probabilities)
    np.put_along_axis(kept, best, np.take_along_axis(probabilities, best, axis=-1), axis=-1)
    return kept / np.sum(kept, axis=-1, keepdims=True) if normalised else kept
