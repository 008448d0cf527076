"""Writes a file with magnetron and prints its content: lines of tab-separated fields."""
import struct
import sys

from magnetron import Tensor, boolean, float16, float32, int32
from magnetron._bootstrap import FFI
from magnetron.io import StorageArchive

NAMES = {float32: "f32", float16: "f16", boolean: "bool", int32: "i32"}
TENSORS = {
    "matrix": Tensor.of([[1.0, -2.5, 3.25], [0.0, 1e-30, 1e30]]),
    "cube": Tensor.arange(0, 105).reshape(3, 5, 7),
    "half": Tensor.full(3, 3, fill_value=-0.625, dtype=float16),
    "mask": Tensor.of([True, False, False, True, True]),
    "steps": Tensor.of([1, -2, 2147483647, -2147483648], dtype=int32),
    "one": Tensor.of([42.0]),
    "deep": Tensor.ones(1, 2, 1, 2, 1, 2),
    "重み": Tensor.of([7], dtype=int32),
}
METADATA = {
    "epoch": 7,
    "least": -(2**63),
    "most": 2**63 - 1,
    "rate": 0.1,
    "zero": -0.0,
    "inf": float("inf"),
    "nan": float("nan"),
    "matrix": 1,
}

with StorageArchive(sys.argv[1], "w") as archive:
    for key, tensor in TENSORS.items():
        archive[key] = tensor
    for key, number in METADATA.items():
        archive[key] = number

for key, tensor in TENSORS.items():
    values = bytes(FFI.buffer(FFI.cast("uint8_t*", tensor.data_ptr), tensor.data_size))
    shape = ",".join(str(dim) for dim in tensor.shape)
    print("tensor", key, NAMES[tensor.dtype], shape, values.hex(), sep="\t")
for key, number in METADATA.items():
    if isinstance(number, int):
        print("i64", key, number, sep="\t")
    else:
        print("f64", key, struct.pack(">d", number).hex(), sep="\t")
