"""Small random models, quantized by llama.cpp and by the program, with and without an importance matrix: all tensors must be the same.

Arguments: the program, a folder to work in. Prints a line for each case, and ends with those that differ as its error.
"""

import ctypes
import struct
import subprocess
import sys
from ctypes import POINTER, Structure, c_bool, c_char_p, c_float, c_int32, c_size_t, c_uint32, c_void_p
from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGUFWriter
from llama_cpp import library, messages

# From enum llama_ftype.
PRESETS = {
    "q2_k_s": 21, "mostly_q4_0": 2, "mostly_q4_1": 3, "mostly_q8_0": 7, "mostly_q5_0": 8, "mostly_q5_1": 9, "mostly_q2_k": 10, "q3_k_s": 11,
    "q3_k_m": 12, "q3_k_l": 13, "q4_k_s": 14, "q4_k_m": 15, "q5_k_s": 16, "q5_k_m": 17, "mostly_q6_k": 18,
    "mostly_iq4_nl": 25, "mostly_iq4_xs": 30,
}  # fmt: skip
LAYERS = 8


class QuantizeParams(Structure):
    """`llama_model_quantize_params` of llama.h."""

    _fields_ = [
        *[(name, c_int32) for name in ("nthread", "ftype", "output_tensor_type", "token_embedding_type")],
        *[(name, c_bool) for name in ("allow_requantize", "quantize_output_tensor", "only_copy", "pure", "keep_split", "dry_run")],
        *[(name, c_void_p) for name in ("imatrix", "kv_overrides", "tt_overrides", "prune_layers")],
        ("max_buf_size", c_size_t),
    ]


class ImatrixData(Structure):
    """`llama_model_imatrix_data` of llama.h."""

    _fields_ = [("name", c_char_p), ("data", POINTER(c_float)), ("size", c_size_t)]


class Case:
    """A model of an architecture, and the importance of the columns of most of its weights."""

    def __init__(self, name: str, architecture: str, hidden: int, heads: tuple[int, int], experts: int = 0, output: bool = True) -> None:
        self.name, self.architecture, self.hidden, self.heads, self.experts = name, architecture, hidden, heads, experts
        random = np.random.default_rng(sum(map(ord, name)))
        keys, inner = hidden // heads[0] * heads[1], 288 if hidden == 288 else 256
        shapes = {"token_embd": (32, hidden), "output": (32, hidden)} if output else {"token_embd": (32, hidden)}
        for layer in range(LAYERS):
            at = f"blk.{layer}."
            shapes |= {at + "attn_q": (hidden, hidden), at + "attn_k": (keys, hidden), at + "attn_v": (keys, hidden)}
            shapes |= {at + "attn_output": (hidden, hidden)}
            group, suffix = ((experts,), "_exps") if experts else ((), "")
            shapes |= {at + f"ffn_{part}{suffix}": (*group, 32, hidden) for part in ("gate", "up")}
            shapes |= {at + f"ffn_down{suffix}": (*group, 32, inner)}
            if experts:
                shapes |= {at + "ffn_gate_inp": (experts, hidden)}
        heavy = lambda shape: (random.standard_normal(shape) * np.exp(random.standard_normal(shape[-1:])) * 0.05).astype("<f4")
        self.tensors = {f"{name}.weight": heavy(shape) for name, shape in shapes.items()}
        self.tensors |= {f"blk.{layer}.{part}_norm.weight": np.ones(hidden, "<f4") for layer in range(LAYERS) for part in ("attn", "ffn")}
        self.tensors["output_norm.weight"] = np.ones(hidden, "<f4")
        # The importance matrix has no data about embeddings, and nothing went through one expert.
        self.calls, self.sums = {}, {}
        for key, shape in shapes.items():
            if key == "token_embd":
                continue
            groups = shape[0] if len(shape) == 3 else 1
            counts = random.integers(1, 900, groups).astype("<f4")
            counts[-1] = 0 if groups > 2 else counts[-1]
            self.calls[f"{key}.weight"] = counts
            self.sums[f"{key}.weight"] = np.exp(2 * random.standard_normal((groups, shape[-1]))).astype("<f4")

    def forget(self, name: str) -> None:
        """Takes a tensor out of what is known."""
        del self.sums[name], self.calls[name]

    def importance(self) -> dict[str, np.ndarray]:
        """As llama-quantize reads it."""
        of = lambda sums, calls: np.where(calls[:, None] > 0, sums / np.maximum(calls[:, None], np.float32(1)), np.float32(1))
        return {name: np.ascontiguousarray(of(sums, self.calls[name]), "<f4") for name, sums in self.sums.items()}

    def write(self, path: Path) -> None:
        """Writes the model."""
        writer = GGUFWriter(path, self.architecture)
        writer.add_block_count(LAYERS)
        writer.add_context_length(64)
        writer.add_embedding_length(self.hidden)
        writer.add_feed_forward_length(256)
        writer.add_head_count(self.heads[0])
        writer.add_head_count_kv(self.heads[1])
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_layer_norm_eps(1e-5)
        writer.add_vocab_size(32)
        if self.experts:
            writer.add_expert_count(self.experts)
            writer.add_expert_used_count(2)
        self.finish(writer, self.tensors)

    def write_importance(self, folder: Path) -> None:
        """Writes the importance in both forms."""
        self.write_imatrix(folder / "imatrix.gguf")
        self.write_old(folder / "imatrix.dat")

    def write_imatrix(self, path: Path) -> None:
        """Writes the importance as llama-imatrix does."""
        writer = GGUFWriter(path, "")
        writer.kv_data[0].clear()
        writer.add_string("general.type", "imatrix")
        tensors = {}
        for name, sums in self.sums.items():
            tensors |= {f"{name}.in_sum2": sums, f"{name}.counts": self.calls[name][:, None]}
        self.finish(writer, tensors)

    def write_old(self, path: Path) -> None:
        """Writes it as before, where there is one number of calls for all experts."""
        entries = [struct.pack("<i", len(self.sums))]
        for name, means in self.importance().items():
            entries += [struct.pack("<i", len(name)), name.encode(), struct.pack("<ii", 1, means.size), means.tobytes()]
        path.write_bytes(b"".join(entries) + struct.pack("<ii", 1, 3) + b"all")

    @staticmethod
    def finish(writer: GGUFWriter, tensors: dict[str, np.ndarray]) -> None:
        """Writes a file."""
        for name, values in tensors.items():
            writer.add_tensor(name, values)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def by_llama_cpp(source: Path, target: Path, preset: int, importance: dict[str, np.ndarray] | None) -> None:
    """Quantizes as llama-quantize does."""
    llama = library()
    llama.llama_model_quantize_default_params.restype = QuantizeParams
    llama.llama_model_quantize.argtypes = [c_char_p, c_char_p, POINTER(QuantizeParams)]
    llama.llama_model_quantize.restype = c_uint32
    params = llama.llama_model_quantize_default_params()
    params.nthread, params.ftype = 1, preset
    if importance is not None:
        data = (ImatrixData * (len(importance) + 1))()
        for entry, (name, values) in zip(data, importance.items()):
            entry.name, entry.size = name.encode(), values.size
            entry.data = values.ctypes.data_as(POINTER(c_float))
        params.imatrix = ctypes.cast(data, c_void_p)
    if llama.llama_model_quantize(str(source).encode(), str(target).encode(), params) != 0:
        raise SystemExit(f"llama.cpp does not quantize {source}: {''.join(messages[-8:])}")


def differences(ours: Path, theirs: Path) -> list[str]:
    """What is not the same in two files."""
    read = lambda path: {tensor.name: (tensor.tensor_type, tensor.data.tobytes()) for tensor in GGUFReader(path).tensors}
    ours, theirs = read(ours), read(theirs)
    if ours.keys() != theirs.keys():
        return [f"names: {sorted(ours.keys() ^ theirs.keys())[:4]}"]
    both = [(name, ours[name], theirs[name]) for name in theirs]
    return [f"{name}: {a[0].name}, not {b[0].name}" if a[0] != b[0] else name for name, a, b in both if a != b]


def main() -> None:
    program, work = sys.argv[1], Path(sys.argv[2])
    cases = [
        Case("llama", "llama", 256, (8, 2)),
        Case("qwen2", "qwen2", 256, (4, 2), output=False),
        Case("llama, 8 experts", "llama", 256, (4, 4), experts=8),
        Case("llama, 288 columns", "llama", 288, (6, 2)),
    ]
    failures = []
    for case in cases:
        source, ours, theirs = work / "source.gguf", work / "ours.gguf", work / "theirs.gguf"
        case.write(source)
        case.write_importance(work)
        for preset, number in PRESETS.items():
            if preset == "mostly_q4_0":  # The preset before it needs them all.
                case.forget("blk.3.attn_q.weight")
                case.write_importance(work)
            for matrix in (None, "imatrix.gguf", "imatrix.dat"):
                if (matrix is None and preset == "q2_k_s") or (matrix == "imatrix.dat" and preset not in ("q4_k_m", "q3_k_l")):
                    continue
                by_llama_cpp(source, theirs, number, case.importance() if matrix else None)
                more = ["--imatrix", work / matrix] if matrix else []
                done = subprocess.run(
                    [program, "convert", source, ours, "--force", "--quiet", "--quantize", preset, *more], capture_output=True, text=True
                )
                found = differences(ours, theirs) if done.returncode == 0 else [done.stderr]
                print(f"{case.name}, {preset}, {matrix}: {len(found)} differ")
                failures += [f"{case.name}, {preset}, {matrix}: {', '.join(found[:4])}"] if found else []
    if failures:
        raise SystemExit("\n".join(failures))


if __name__ == "__main__":
    main()
