"""Writes a random model with magnetron 0.1.6 or 0.1.9. Prints one line per tensor: name, dtype, shape, values."""
import ctypes
import json
import random
import sys

from magnetron import Snapshot, Tensor, dtype

path, seed = sys.argv[1], int(sys.argv[2])
rng = random.Random(seed)
NAMES = ["float32", "float16", "bfloat16", "float8_e4m3fn", "boolean", "uint8", "int8", "uint16", "int16"]
NAMES += ["uint32", "int32", "uint64", "int64"]
TYPES = [(name, getattr(dtype, name)) for name in NAMES if hasattr(dtype, name)]

tensors = {}
for number in range(rng.randrange(1, 24)):
    name, kind = TYPES[number % len(TYPES)]
    shape = [rng.randrange(1, 6) for _ in range(rng.randrange(1, 5))]
    tensor = Tensor.zeros(*shape, dtype=kind)
    data = bytes(rng.getrandbits(8) & (1 if name == "boolean" else 255) for _ in range(tensor.numbytes))
    address = getattr(tensor, "data_ptr_mut", None) or tensor.data_ptr
    ctypes.memmove(address() if callable(address) else address, data, len(data))
    tensors[rng.choice(["blk.%d.w", "größe.%d", "重み %d", "%d"]) % number] = (name, shape, data, tensor)

with Snapshot.write(path) as snapshot:
    for name, (*_, tensor) in tensors.items():
        snapshot.put_tensor(name, tensor)
for name, (kind, shape, data, _) in tensors.items():
    print(json.dumps(name), kind, ",".join(map(str, shape)), data.hex(), sep="\t")
