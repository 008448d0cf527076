"""Adapters (LoRA) of small random models in llama.cpp: merged by the program, and loaded beside the base as the program writes them.

Arguments: this folder, the program, a folder to work in. Prints a line for each case, and ends with those that differ or fail as its
error. Both must give what the formulas of the model give for the weights W + alpha / rank · B · A.
"""

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])

import numpy as np
from cases import CASES, VOCABULARY, file_of
from llama_cpp import Model
from parts import Gelu, Weights
from safetensors.numpy import save_file

# The names of cases, and whether inputs are rows in the weights of the family.
TRIED = [("llama", False), ("llama, square", False), ("llama, tied, biases", False), ("qwen2", False), ("gemma2", False), ("phi3", False), ("gpt2", True)]
RANK, ALPHA = 3, 5.0
TOLERANCE = 1e-3


class Adapted:
    """A model, and an adapter for all its matrices but those of tokens."""

    def __init__(self, name: str, has_inputs_as_rows: bool) -> None:
        _name, kind, family, config, more = next(case for case in CASES if case[0] == name)
        self.config = file_of(family, config)
        seed = sum(map(ord, name))
        weights = Weights(seed)
        model = kind(dict(self.config), weights, **{key: more[key] for key in ["prefix"] if key in more})
        random = np.random.default_rng(seed)
        self.text = [int(token) for token in random.integers(0, VOCABULARY, 21)]
        Gelu.tables = False
        plain = model.run(self.text)
        self.base = {key: values.copy() for key, values in weights.made.items()}
        self.adapter: dict[str, np.ndarray] = {}
        targets = [key for key, values in self.base.items() if values.ndim == 2 and is_linear(key)]
        for key in targets:
            outputs, inputs = self.base[key].shape[:: -1 if has_inputs_as_rows else 1]
            a = (random.standard_normal((RANK, inputs)) * 0.2).astype(np.float32)
            b = (random.standard_normal((outputs, RANK)) * 0.2).astype(np.float32)
            module = "base_model.model." + key.removesuffix(".weight")
            self.adapter |= {f"{module}.lora_A.weight": a, f"{module}.lora_B.weight": b}
            delta = ALPHA / RANK * b.astype(np.float64) @ a.astype(np.float64)
            weights.made[key] = (self.base[key] + (delta.T if has_inputs_as_rows else delta)).astype(np.float32)
        self.expected = model.run(self.text)
        assert len(targets) >= 8 and np.max(np.abs(plain - self.expected)) > 0.1 * np.max(np.abs(plain))
        self.adapter_config = {
            "peft_type": "LORA",
            "r": RANK,
            "lora_alpha": ALPHA,
            "fan_in_fan_out": has_inputs_as_rows,
            "base_model_name_or_path": "somebody/else",
        }

    def differences(self, program: str, work: Path) -> tuple[float, float]:
        """By how much llama.cpp differs with the merged model, and with the adapter beside its base."""
        base, adapter = work / "base", work / "adapter"
        base.mkdir(parents=True)
        adapter.mkdir()
        save_file(self.base, base / "model.safetensors")
        (base / "config.json").write_text(json.dumps(self.config))
        save_file(self.adapter, adapter / "adapter_model.safetensors")
        (adapter / "adapter_config.json").write_text(json.dumps(self.adapter_config))
        merged, plain, beside = (work / f"{name}.gguf" for name in ("merged", "plain", "beside"))
        run(program, base, merged, "--lora", adapter)
        run(program, base, plain)
        run(program, adapter, beside, "--base", base)
        without = {"tokenizer.ggml.model": "no_vocab"}
        loaded = Model(plain, texts=without).logits(self.text, adapter=beside)
        # Merge the hub's adapter into the GGUF, and llama.cpp's adapter into the folder.
        crossed = [work / "into_gguf.gguf", work / "into_folder.gguf"]
        run(program, plain, crossed[0], "--lora", adapter, "--base", base)
        run(program, base, crossed[1], "--lora", beside)
        found = [Model(path, texts=without).logits(self.text) for path in [merged, *crossed]]
        return max(difference(logits, self.expected) for logits in found), difference(loaded, self.expected)


def is_linear(name: str) -> bool:
    return not any(part in name for part in ("embed", "wte", "wpe", "lm_head", "norm"))


def run(program: str, *arguments: object) -> None:
    done = subprocess.run([program, "convert", *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.strip())


def difference(found: np.ndarray, expected: np.ndarray) -> float:
    assert found.shape == expected.shape
    return float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))


bad = []
for number, (name, has_inputs_as_rows) in enumerate(TRIED):
    merged, beside = Adapted(name, has_inputs_as_rows).differences(sys.argv[2], Path(sys.argv[3]) / str(number))
    line = f"{name}: merged {merged:.1e}, beside its base {beside:.1e}"
    print(line, flush=True)
    bad += [] if max(merged, beside) < TOLERANCE else [line]
sys.exit("\n".join(bad) if bad else 0)
