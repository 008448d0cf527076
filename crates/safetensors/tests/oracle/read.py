"""Prints the content of a file, or of a set whose index JSON is given."""

import json
import os
import sys

import numpy as np
from safetensors import safe_open

path = sys.argv[1]
files = {path: None}
if path.endswith(".index.json"):
    with open(path, encoding="utf-8") as file:
        index = json.load(file)
    files = {}
    for name, where in index["weight_map"].items():
        files.setdefault(os.path.join(os.path.dirname(path), where), []).append(name)
out = {"metadata": None, "tensors": {}}
for where, names in files.items():
    with safe_open(where, framework="np") as file:
        out["metadata"] = file.metadata()
        assert names is None or sorted(names) == sorted(file.keys())
        for name in file.keys():
            array = file.get_tensor(name)
            out["tensors"][name] = {
                "dtype": array.dtype.name,
                "shape": list(array.shape),
                "values": np.ascontiguousarray(array).tobytes().hex(),
            }
print(json.dumps(out, ensure_ascii=False))
