"""Runs small random models in llama.cpp, as the program converts them, and compares with what their formulas give.

Arguments: this folder, the program, a folder to work in, and part of the names of cases, all if it is empty. Prints a line for each case,
and ends with those that differ or fail as its error. A difference is the largest one, in units of the largest value.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

sys.path.insert(0, sys.argv[1])

import ml_dtypes  # noqa: F401 (bfloat16)
import numpy as np
from cases import CASES, VOCABULARY, file_of, newer, tokenizer
from llama_cpp import Model
from parts import Gelu, Weights
from safetensors.numpy import save_file

# llama.cpp computes in f32. It looks gelu up in a table of 16-bit floats, so a value between two of them may
# be rounded to either.
EXACTLY, BY_TABLE, BY_FORMULA = 1e-5, 5e-4, 1e-3
# How much llama.cpp differs if it rounds its operands to the dtype of the file.
ROUNDED = {"float16": 5e-3, "bfloat16": 2e-2}
LENGTHS = (1, 7, 33)


class Case:
    """A case: its model, some texts, and what the formulas give for them."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.name, self.kind, family, config, self.more = CASES[number]
        self.config = file_of(family, config)
        seed = sum(map(ord, self.name))
        weights = Weights(seed, np.dtype(self.more.get("dtype", "float32")))
        self.model = self.kind(dict(self.config), weights, **{key: self.more[key] for key in ["prefix"] if key in self.more})
        random = np.random.default_rng(seed)
        lengths = LENGTHS[-1:] if self.more.get("longest") else LENGTHS
        self.texts = [[int(token) for token in random.integers(0, VOCABULARY, length)] for length in lengths]
        self.expected = self.values(False)
        self.by_table = self.values(True)

    def values(self, tables: bool) -> list[np.ndarray]:
        Gelu.tables = tables
        return [self.model.run(text) for text in self.texts]

    def found(self, program: str, folder: Path, config: dict) -> list[np.ndarray]:
        """What llama.cpp gives for the folder, converted."""
        config = {self.more.get("renamed", {}).get(key, key): value for key, value in config.items()}
        folder.mkdir(parents=True, exist_ok=True)
        save(self.model.w.made, folder, self.more.get("shards", 1))
        (folder / "config.json").write_text(json.dumps(config))
        if self.more.get("tokenizer"):
            (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
        output = folder.with_suffix(".gguf")
        cast = [] if self.more.get("as_is") else ["--cast", "f32"]
        command = [program, "convert", "--force", *cast, folder, output]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr.strip())
        if self.more.get("tokenizer"):
            loaded = Model(output)
            text = "A folder of the hub, café, 123.\n"
            if loaded.tokenize(text, add_special=False) != list(text.encode()):
                raise SystemExit(f"its tokens are {loaded.tokenize(text, add_special=False)}")
        else:
            loaded = Model(output, texts={"tokenizer.ggml.model": "no_vocab"})
        if self.more.get("encoded"):
            return [loaded.logits(text, encoded=text[::-1]) for text in self.texts]
        run = loaded.embeddings if getattr(self.kind, "embeds", False) else loaded.logits
        return [run(text) for text in self.texts]

    def compared(self, program: str, work: Path, new: bool) -> tuple[str, bool]:
        """What is printed of the case, and whether it is as it should be."""
        label = f"{self.name}{', version 5' if new else ''}"
        folder = work / f"{self.number}{'new' if new else ''}"
        try:
            found = self.found(program, folder, newer(self.config) if new else self.config)
        except SystemExit as error:
            return f"{label}: {error}", False
        by_formula, by_table = difference(found, self.expected), difference(found, self.by_table)
        rounded = ROUNDED[self.more["dtype"]] if self.more.get("as_is") else 0
        has_tables = difference(self.by_table, self.expected) > 0
        is_good = by_formula < max(EXACTLY, rounded)
        if has_tables:
            is_good = by_formula < max(BY_FORMULA, rounded) and by_table < max(BY_TABLE, rounded)
        return f"{label}: {by_formula:.1e}{f', {by_table:.1e} by table' if has_tables else ''}", is_good


def save(weights: dict[str, np.ndarray], folder: Path, shards: int) -> None:
    """Writes the weights in one file, or in several with an index."""
    if shards == 1:
        return save_file(weights, folder / "model.safetensors")
    files = [f"model-{shard + 1:05}-of-{shards:05}.safetensors" for shard in range(shards)]
    places = {name: files[number % shards] for number, name in enumerate(weights)}
    for file in files:
        save_file({name: values for name, values in weights.items() if places[name] == file}, folder / file)
    index = {"metadata": {"total_size": sum(values.nbytes for values in weights.values())}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def difference(found: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """The largest difference; what is no number stays that."""
    assert [a.shape for a in found] == [b.shape for b in expected]
    return float(np.max([np.max(np.abs(a - b)) / np.max(np.abs(b)) for a, b in zip(found, expected)]))


def families() -> set[str]:
    """The families that have a map."""
    maps = Path(sys.argv[1]).resolve().parents[3] / "modelfmt-hub/maps"
    return {family for path in maps.glob("*.toml") for family in tomllib.loads(path.read_text())["families"]}


def main(program: str, work: Path, part: str) -> list[str]:
    missing = families() - {family for _name, _kind, family, *_ in CASES}
    bad = [f"no case is of these families: {missing}"] if missing else []
    for number, (name, *_) in enumerate(CASES):
        if part not in name:
            continue
        case = Case(number)
        for new in (False,) if "renamed" in case.more else (False, True):
            line, is_good = case.compared(program, work, new)
            print(line, flush=True)
            bad += [] if is_good else [line]
    return bad


bad = main(sys.argv[2], Path(sys.argv[3]), sys.argv[4])
sys.exit("\n".join(bad) if bad else 0)
