"""Reads a file with gguf-py."""

import hashlib
import importlib.metadata
import json
import math
import sys

import gguf

def plain(value: object) -> object:
    """A value as the manifests have it."""
    if isinstance(value, list):
        return [plain(member) for member in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value

if "--version" in sys.argv:
    print(importlib.metadata.version("gguf"))
    sys.exit()
reader = gguf.GGUFReader(sys.argv[1])
is_swapped = reader.byte_order == "S"
tensors = [
    {
        "name": tensor.name,
        "dtype": tensor.tensor_type.name.lower(),
        "shape": [int(dim) for dim in reversed(tensor.shape)],
        "sha256": None if is_swapped else hashlib.sha256(tensor.data.tobytes()).hexdigest(),
    }
    for tensor in reader.tensors
]
fields = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
nested = any(field.types[:2] == [gguf.GGUFValueType.ARRAY] * 2 for field in fields.values())
metadata = None if nested else {name: plain(field.contents()) for name, field in fields.items()}
print(json.dumps({"tensors": tensors, "metadata": metadata}))
