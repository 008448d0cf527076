"""Calls llama.cpp by ctypes: loads a model, and returns ids of a text, logits of ids, or their embeddings.

The libraries are those of the npm package that `cargo xtask oracles` installs. Everything is computed in the
plainest way: on the CPU, with the kernels that every processor of this kind has, a KV cache of f32, and no
flash attention.
"""

import ctypes
from ctypes import POINTER, Structure, c_bool, c_char, c_char_p, c_float, c_int8, c_int32, c_size_t, c_uint32, c_void_p
from pathlib import Path

import numpy as np

ENVIRONMENT = next((up for up in Path(np.__file__).parents if (up / "llama-cpp").is_dir()), None)
F32 = 0  # of enum ggml_type
TEXT = 3  # of enum llama_model_kv_override_type


class ModelParams(Structure):
    """`llama_model_params` of llama.h."""

    _fields_ = [
        ("devices", c_void_p),
        ("tensor_buft_overrides", c_void_p),
        ("n_gpu_layers", c_int32),
        ("split_mode", c_int32),
        ("load_mode", c_int32),
        ("lazy_mode", c_int32),
        ("main_gpu", c_int32),
        ("tensor_split", c_void_p),
        ("progress_callback", c_void_p),
        ("progress_callback_user_data", c_void_p),
        ("kv_overrides", c_void_p),
        ("vocab_only", c_bool),
        ("check_tensors", c_bool),
        ("use_extra_bufts", c_bool),
        ("no_host", c_bool),
        ("no_alloc", c_bool),
        ("load_mtp", c_bool),
    ]


class ContextParams(Structure):
    """`llama_context_params` of llama.h."""

    _fields_ = [
        *[(name, c_uint32) for name in ("n_ctx", "n_batch", "n_ubatch", "n_seq_max", "n_rs_seq")],
        *[(name, c_uint32) for name in ("n_outputs_max", "n_outputs_max_per_seq")],
        *[(name, c_int32) for name in ("n_threads", "n_threads_batch", "ctx_type", "rope_scaling_type")],
        *[(name, c_int32) for name in ("pooling_type", "attention_type", "flash_attn_type")],
        *[(name, c_float) for name in ("rope_freq_base", "rope_freq_scale", "yarn_ext_factor")],
        *[(name, c_float) for name in ("yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow")],
        ("yarn_orig_ctx", c_uint32),
        ("defrag_thold", c_float),
        ("cb_eval", c_void_p),
        ("cb_eval_user_data", c_void_p),
        ("type_k", c_int32),
        ("type_v", c_int32),
        ("abort_callback", c_void_p),
        ("abort_callback_data", c_void_p),
        *[(name, c_bool) for name in ("embeddings", "offload_kqv", "no_perf", "op_offload", "swa_full", "kv_unified")],
        ("samplers", c_void_p),
        ("n_samplers", c_size_t),
        ("ctx_other", c_void_p),
    ]


class Override(Structure):
    """`llama_model_kv_override` of llama.h, for strings."""

    _fields_ = [("tag", c_int32), ("key", c_char * 128), ("unused", c_int32), ("text", c_char * 128)]


class Batch(Structure):
    """`llama_batch` of llama.h."""

    _fields_ = [
        ("n_tokens", c_int32),
        ("token", POINTER(c_int32)),
        ("embd", POINTER(c_float)),
        ("pos", POINTER(c_int32)),
        ("n_seq_id", POINTER(c_int32)),
        ("seq_id", POINTER(POINTER(c_int32))),
        ("logits", POINTER(c_int8)),
    ]


LOG = ctypes.CFUNCTYPE(None, c_int32, c_char_p, c_void_p)
FUNCTIONS = {
    "llama_log_set": (None, [LOG, c_void_p]),
    "llama_backend_init": (None, []),
    "llama_model_default_params": (ModelParams, []),
    "llama_context_default_params": (ContextParams, []),
    "llama_model_load_from_file": (c_void_p, [c_char_p, ModelParams]),
    "llama_model_free": (None, [c_void_p]),
    "llama_model_get_vocab": (c_void_p, [c_void_p]),
    "llama_model_n_embd": (c_int32, [c_void_p]),
    "llama_vocab_n_tokens": (c_int32, [c_void_p]),
    "llama_vocab_is_eog": (c_bool, [c_void_p, c_int32]),
    "llama_tokenize": (c_int32, [c_void_p, c_char_p, c_int32, POINTER(c_int32), c_int32, c_bool, c_bool]),
    "llama_detokenize": (c_int32, [c_void_p, POINTER(c_int32), c_int32, c_char_p, c_int32, c_bool, c_bool]),
    "llama_init_from_model": (c_void_p, [c_void_p, ContextParams]),
    "llama_free": (None, [c_void_p]),
    "llama_batch_init": (Batch, [c_int32, c_int32, c_int32]),
    "llama_batch_free": (None, [Batch]),
    "llama_encode": (c_int32, [c_void_p, Batch]),
    "llama_decode": (c_int32, [c_void_p, Batch]),
    "llama_get_logits_ith": (POINTER(c_float), [c_void_p, c_int32]),
    "llama_adapter_lora_init": (c_void_p, [c_void_p, c_char_p]),
    "llama_set_adapters_lora": (c_int32, [c_void_p, POINTER(c_void_p), c_size_t, POINTER(c_float)]),
    "llama_get_embeddings_ith": (POINTER(c_float), [c_void_p, c_int32]),
}

messages: list[str] = []


@LOG
def keep(_level: int, text: bytes, _data: int) -> None:
    """Keeps the messages of llama.cpp, for the error if it refuses a model."""
    messages.append(text.decode(errors="replace"))


def load() -> ctypes.CDLL:
    """Loads the library, and sets the types of its functions."""
    if ENVIRONMENT is None:
        raise SystemExit("no llama.cpp: run `cargo xtask oracles`")
    folder = ENVIRONMENT / "llama-cpp/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"
    base, registry, llama = (
        ctypes.CDLL(str(next(folder.glob(name))), mode=ctypes.RTLD_GLOBAL)
        for name in ("libggml-base.so", "libggml.v*.so", "libllama.v*.so")
    )
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(llama, name)
        function.restype, function.argtypes = result, arguments
    llama.llama_log_set(keep, None)
    base.ggml_log_set.restype, base.ggml_log_set.argtypes = None, [LOG, c_void_p]
    base.ggml_log_set(keep, None)
    registry.ggml_backend_load.restype, registry.ggml_backend_load.argtypes = c_void_p, [c_char_p]
    if not registry.ggml_backend_load(str(folder / "libggml-cpu-x64.so").encode()):
        raise SystemExit("llama.cpp has no CPU backend here")
    llama.llama_backend_init()
    context = llama.llama_context_default_params()
    if (context.n_ctx, context.n_batch, context.type_k, context.type_v) != (512, 2048, 1, 1):
        raise SystemExit("this is another llama.cpp: its structs are not those of this module")
    return llama


class Model:
    """A model that llama.cpp has loaded."""

    def __init__(self, path: str | Path, *, vocab_only: bool = False, texts: dict[str, str] | None = None) -> None:
        """Loads a GGUF, or exits with the messages of llama.cpp. `texts` overrides keys of the file."""
        self.llama = library()
        params = self.llama.llama_model_default_params()
        params.vocab_only = vocab_only
        params.n_gpu_layers = 0
        params.check_tensors = not vocab_only
        params.use_extra_bufts = False
        # A key without a name ends the list.
        overrides = (Override * (len(texts or {}) + 1))()
        for override, (key, text) in zip(overrides, (texts or {}).items()):
            override.tag, override.key, override.text = TEXT, key.encode(), text.encode()
        params.kv_overrides = ctypes.cast(overrides, c_void_p)
        messages.clear()
        self.model = self.llama.llama_model_load_from_file(str(path).encode(), params)
        if not self.model:
            raise SystemExit(f"llama.cpp does not load {path}: {''.join(messages[-8:])}")
        self.messages = list(messages)
        self.vocab = self.llama.llama_model_get_vocab(self.model)

    def __del__(self) -> None:
        """Frees the memory."""
        if getattr(self, "model", None):
            self.llama.llama_model_free(self.model)

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """Returns the ids of a text."""
        data = text.encode()
        count = len(data) + 16
        while True:
            ids = (c_int32 * count)()
            written = self.llama.llama_tokenize(self.vocab, data, len(data), ids, count, add_special, parse_special)
            if written >= 0:
                return list(ids[:written])
            count = -written

    def detokenize(self, tokens: list[int], *, special: bool = True) -> bytes:
        """Returns the bytes of ids."""
        ids = (c_int32 * len(tokens))(*tokens)
        count = 64 * len(tokens) + 64
        while True:
            text = ctypes.create_string_buffer(count)
            written = self.llama.llama_detokenize(self.vocab, ids, len(tokens), text, count, False, special)
            if written >= 0:
                return text.raw[:written]
            count = -written

    def is_end(self, token: int) -> bool:
        """Checks whether a token ends a generation."""
        return self.llama.llama_vocab_is_eog(self.vocab, token)

    def logits(
        self, tokens: list[int], *, encoded: list[int] | None = None, adapter: str | Path | None = None
    ) -> np.ndarray:
        """Returns the logits after each token: f32 of [tokens, vocabulary].

        `encoded` are the tokens for the encoder, which runs first. `adapter` is the path of an adapter that is
        added to the weights.
        """
        width = self.llama.llama_vocab_n_tokens(self.vocab)
        row = self.llama.llama_get_logits_ith
        return self._compute(tokens, row, width, embeddings=False, encoded=encoded, adapter=adapter)

    def _adapt(self, context: c_void_p, adapter: str | Path) -> None:
        """Adds an adapter to the weights of a context. Freeing the model also frees the adapter."""
        loaded = self.llama.llama_adapter_lora_init(self.model, str(adapter).encode())
        if not loaded:
            raise SystemExit(f"llama.cpp does not load {adapter}: {''.join(messages[-8:])}")
        if self.llama.llama_set_adapters_lora(context, (c_void_p * 1)(loaded), 1, (c_float * 1)(1.0)) != 0:
            raise SystemExit(f"llama.cpp does not take {adapter}: {''.join(messages[-8:])}")

    def embeddings(self, tokens: list[int]) -> np.ndarray:
        """Returns the state of the last layer at each token, after its norm: f32 of [tokens, hidden]."""
        width = self.llama.llama_model_n_embd(self.model)
        return self._compute(tokens, self.llama.llama_get_embeddings_ith, width, embeddings=True)

    def _batch(self, tokens: list[int]) -> Batch:
        batch = self.llama.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for at, token in enumerate(tokens):
            batch.token[at], batch.pos[at] = token, at
            batch.n_seq_id[at], batch.seq_id[at][0] = 1, 0
            batch.logits[at] = 1
        return batch

    def _compute(
        self,
        tokens: list[int],
        row: object,
        width: int,
        *,
        embeddings: bool,
        encoded: list[int] | None = None,
        adapter: str | Path | None = None,
    ) -> np.ndarray:
        llama = self.llama
        params = llama.llama_context_default_params()
        params.n_ctx = max(len(tokens), 32)
        params.n_batch = params.n_ubatch = params.n_ctx
        params.n_threads = params.n_threads_batch = 1
        params.type_k = params.type_v = F32
        params.flash_attn_type = 0  # disabled
        params.pooling_type = 0  # none
        params.embeddings = embeddings
        context = llama.llama_init_from_model(self.model, params)
        if not context:
            raise SystemExit(f"llama.cpp makes no context: {''.join(messages[-8:])}")
        if adapter is not None:
            self._adapt(context, adapter)
        if encoded is not None:
            batch = self._batch(encoded)
            if llama.llama_encode(context, batch) != 0:
                raise SystemExit(f"llama_encode: {''.join(messages[-8:])}")
            llama.llama_batch_free(batch)
        batch = self._batch(tokens)
        status = llama.llama_decode(context, batch)
        if status != 0:
            raise SystemExit(f"llama_decode: {status}: {''.join(messages[-8:])}")
        rows = [np.ctypeslib.as_array(row(context, at), (width,)).copy() for at in range(len(tokens))]
        llama.llama_batch_free(batch)
        llama.llama_free(context)
        return np.stack(rows)


LIBRARY: list[ctypes.CDLL] = []


def library() -> ctypes.CDLL:
    """Returns the library, which is loaded once."""
    if not LIBRARY:
        LIBRARY.append(load())
    return LIBRARY[0]
