"""Loads a file with magnetron 0.2.2. Prints its metadata, then one line per tensor: name, dtype, shape, values."""
import ctypes
import json
import sys

from magnetron.snapshot import deserialize

tensors, metadata = deserialize(sys.argv[1], mmap=len(sys.argv) < 3)
print(json.dumps(metadata))
for name, tensor in tensors.items():
    address = tensor.data_ptr
    data = ctypes.string_at(address() if callable(address) else address, tensor.numbytes) if tensor.numbytes else b""
    print(json.dumps(name), tensor.dtype.name, ",".join(map(str, tensor.shape)), data.hex(), sep="\t")
