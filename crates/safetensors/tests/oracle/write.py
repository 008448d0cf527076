"""Writes files with every type that numpy has, and the content of each as a JSON file."""

import json
import sys

import numpy as np
from safetensors.numpy import save_file

folder, count = sys.argv[1], int(sys.argv[2])
TYPES = ["bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8"]
NAMES = {"bool": "bool", "u1": "u8", "i1": "i8", "u2": "u16", "i2": "i16", "u4": "u32", "i4": "i32",
         "u8": "u64", "i8": "i64", "f2": "f16", "f4": "f32", "f8": "f64", "c8": "c64"}
SCRIPTS = ["layer.{}.weight", "重み{}", "вес\n{}", "\"{}\\", "😀{}", "a/b:{}"]

for number in range(count):
    random = np.random.default_rng(number)
    tensors, described = {}, {}
    for i in range(int(random.integers(0, 14))):
        name = SCRIPTS[int(random.integers(len(SCRIPTS)))].format(i)
        code = TYPES[int(random.integers(len(TYPES)))]
        shape = [int(d) for d in random.integers(0, 5, size=int(random.integers(0, 5)))]
        dtype = np.dtype(bool if code == "bool" else "<" + code)
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        raw = random.integers(0, 2 if code == "bool" else 256, size=size, dtype=np.uint8).tobytes()
        tensors[name] = np.frombuffer(raw, dtype).reshape(shape)
        described[name] = {"dtype": NAMES[code], "shape": shape, "values": raw.hex()}
    metadata = None
    # Version 0.8.0 writes `{},"__metadata__":{}}` for no tensors and empty metadata, which it cannot read itself.
    if number % 3 and (tensors or number % 7):
        metadata = {SCRIPTS[i % len(SCRIPTS)].format(i): str(i) * i for i in range(number % 7)}
    save_file(tensors, f"{folder}/{number}.safetensors", metadata=metadata)
    with open(f"{folder}/{number}.json", "w", encoding="utf-8") as file:
        json.dump({"metadata": metadata, "tensors": described}, file, ensure_ascii=False)
