"""Reads a file with Hugging Face's safetensors."""

import hashlib
import json
import sys
from pathlib import Path

import safetensors


if "--version" in sys.argv:
    print(safetensors.__version__)
    sys.exit()
tensors = [
    {
        "name": name,
        "dtype": view["dtype"].lower(),
        "shape": view["shape"],
        "sha256": hashlib.sha256(view["data"]).hexdigest(),
    }
    for name, view in safetensors.deserialize(Path(sys.argv[1]).read_bytes())
]
print(json.dumps({"tensors": tensors, "unordered": True}))
