"""Reads a file of version 0.3 with magnetron 0.2."""

import ctypes
import hashlib
import importlib.metadata
import json
import sys

from magnetron.snapshot import deserialize

if "--version" in sys.argv:
    print(importlib.metadata.version("magnetron"))
    sys.exit()
found, _ = deserialize(sys.argv[1], mmap=False)
tensors = []
for name, tensor in found.items():
    address = tensor.data_ptr
    data = ctypes.string_at(address() if callable(address) else address, tensor.numbytes) if tensor.numbytes else b""
    tensors.append({"name": name, "shape": list(tensor.shape), "sha256": hashlib.sha256(data).hexdigest()})
print(json.dumps({"tensors": tensors}))
