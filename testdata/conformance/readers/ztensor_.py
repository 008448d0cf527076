"""Reads a file with ztensor."""

import hashlib
import importlib.metadata
import json
import sys

import ztensor

# What both call the same. Other types are not compared: GGUF's blocks are "u8" there.
SAME = {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "bool"}

if "--version" in sys.argv:
    print(importlib.metadata.version("ztensor"))
    sys.exit()
tensors = []
with ztensor.open(sys.argv[1]) as source:
    for tensor in (source[name] for name in source):
        same = tensor.dtype in SAME and tensor.logical is None
        tensors.append({
            "name": tensor.name,
            "dtype": tensor.dtype if same else None,
            "shape": tensor.shape if same else None,
            "sha256": hashlib.sha256(tensor.tobytes()).hexdigest() if same else None,
        })
print(json.dumps({"tensors": tensors, "unordered": True}))
