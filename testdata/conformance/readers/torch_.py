"""Reads a file with torch.load, by the unpickler that calls only functions on a list where this torch has one."""

import hashlib
import json
import sys

import torch

if "--version" in sys.argv:
    print(torch.__version__)
    sys.exit()
NAMES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
    torch.complex64: "c64",
}
found = torch.load(sys.argv[1], map_location="cpu", weights_only=True)
tensors = []
for name, tensor in found.items() if isinstance(found, dict) else []:
    if isinstance(tensor, torch.Tensor):
        values = bytes(tensor.contiguous().flatten().view(torch.uint8).tolist()) if tensor.numel() and tensor.dim() else None
        digest = None if values is None else hashlib.sha256(values).hexdigest()
        tensors.append({"name": name, "dtype": NAMES.get(tensor.dtype), "shape": list(tensor.shape), "sha256": digest})
flat = isinstance(found, dict) and all(isinstance(name, str) for name in found) and tensors
nested = flat and any(isinstance(value, (dict, list, tuple)) for value in found.values())
print(json.dumps({"tensors": tensors if flat and not nested else None}))
