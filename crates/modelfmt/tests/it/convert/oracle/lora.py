"""Adds adapters to weights as the documentation says, in numpy: products in f32, in the order of the rank, and the sum rounded once.

Argument: a folder. `base.safetensors`, `a0.npz`… hold what was merged into `merged.safetensors`; prints how many weights are equal.
"""

import json
import sys
from pathlib import Path

import numpy as np

folder = Path(sys.argv[1])


def tensors(path):
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    kinds = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[8 + length + begin : 8 + length + end], kinds[entry["dtype"]])
        found[name] = (entry["dtype"], values.reshape(entry["shape"]))
    return found


def wide(dtype, values):
    return (values.astype("<u4") << 16).view("<f4") if dtype == "BF16" else values.astype(np.float32)


def narrow(dtype, values):
    if dtype == "F32":
        return values
    if dtype == "F16":
        return values.astype(np.float16)
    bits = values.view("<u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")  # to the nearest, ties to even


base, merged = tensors(folder / "base.safetensors"), tensors(folder / "merged.safetensors")
sums = {name: wide(*own) for name, own in base.items()}
for entry in json.loads((folder / "adapters.json").read_text()):
    config = json.loads((folder / entry["path"] / "adapter_config.json").read_text())
    own = tensors(folder / entry["path"] / "adapter_model.safetensors")
    for name in sums:
        module = "base_model.model." + name.removesuffix(".weight")
        if f"{module}.lora_A.weight" not in own:
            continue
        a, b = (wide(*own[f"{module}.lora_{side}.weight"]) for side in "AB")
        rank = a.shape[0]
        number = np.float32(config["lora_alpha"] / (rank**0.5 if config.get("use_rslora") else rank) * np.float64(np.float32(entry["scale"])))
        delta = np.zeros((b.shape[0], a.shape[1]), np.float32)
        for k in range(rank):
            delta += b[:, k : k + 1] * a[k]
        sums[name] = sums[name] + delta * number
assert merged.keys() == base.keys()
for name, values in sums.items():
    dtype, found = merged[name]
    assert dtype == base[name][0]
    expected = narrow(dtype, values)
    assert np.array_equal(found.view(np.uint8), expected.view(np.uint8)), f"{name}: {(found != expected).sum()} of {found.size} differ"
    assert not np.array_equal(found, base[name][1]), name
print(len(sums))
