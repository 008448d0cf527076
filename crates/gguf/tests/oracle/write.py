"""Writes GGUF files with every type of metadata and of tensor, and the content of each as a JSON file."""

import json
import sys

import numpy as np
from gguf import GGUFEndian, GGUFValueType, GGUFWriter, GGMLQuantizationType, GGML_QUANT_SIZES, quants

folder, count = sys.argv[1], int(sys.argv[2])
PLAIN = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}
RANGES = {"UINT8": (0, 2**8), "INT8": (-2**7, 2**7), "UINT16": (0, 2**16), "INT16": (-2**15, 2**15),
          "UINT32": (0, 2**32), "INT32": (-2**31, 2**31), "UINT64": (0, 2**64), "INT64": (-2**63, 2**63)}


def scalar(random, kind):
    if kind.name in RANGES:
        low, high = RANGES[kind.name]
        return [low, high - 1, low // 3, high // 3][int(random.integers(4))]
    if kind is GGUFValueType.FLOAT32:
        return float(np.float32(random.normal()))
    if kind is GGUFValueType.FLOAT64:
        return float(random.normal())
    if kind is GGUFValueType.BOOL:
        return bool(random.integers(2))
    return ["", "tiny", "重み {}", "a\nb\"\\", "😀" * 20][int(random.integers(5))]


def quantized(random, kind, shape):
    """Returns bytes for a tensor of this type and shape: encoded by gguf if it can encode the type, else any bytes."""
    try:
        return quants.quantize(random.normal(size=shape).astype(np.float32), kind).view(np.uint8)
    except NotImplementedError:
        block, nbytes = GGML_QUANT_SIZES[kind]
        return random.integers(0, 256, size=(*shape[:-1], shape[-1] // block * nbytes), dtype=np.uint8)


def write(number, path, endian=GGUFEndian.LITTLE, only=None):
    random = np.random.default_rng(number)
    writer = GGUFWriter(path, "llama", endianess=endian)
    metadata, tensors = {"general.architecture": "llama"}, []
    alignment = [None, 8, 64, 256][number % 4]
    if alignment:
        writer.add_custom_alignment(alignment)
        metadata["general.alignment"] = alignment
    for kind in GGUFValueType:
        key = f"test.{kind.name.lower()}"
        if kind is GGUFValueType.ARRAY:
            nested = [[1, 2], [3], [2**31 - 1]]
            writer.add_key_value("test.nested", nested, kind)
            metadata["test.nested"] = nested
            continue
        value = scalar(random, kind)
        writer.add_key_value(key, value, kind)
        values = [scalar(random, kind) for _ in range(int(random.integers(1, 300)))]
        writer.add_key_value(key + ".list", values, GGUFValueType.ARRAY, sub_type=kind)
        metadata[key], metadata[key + ".list"] = value, values
    # gguf-py counts 40 bytes for a block of Q8_1, but ggml's struct has 36.
    for kind in [kind for kind in GGMLQuantizationType if kind.name != "Q8_1"] * 2:
        if only and kind.name not in only:
            continue
        rank = int(random.integers(1, 5))
        block, _ = GGML_QUANT_SIZES[kind]
        shape = [int(d) for d in random.integers(1, 4, size=rank - 1)] + [block * int(random.integers(1, 3))]
        name = f"blk.{len(tensors)}.{kind.name}"
        if kind.name in PLAIN:
            array = random.integers(-100, 100, size=shape).astype(PLAIN[kind.name])
            writer.add_tensor(name, array)
        else:
            array = quantized(random, kind, shape)
            writer.add_tensor(name, array, raw_dtype=kind)
        tensors.append([name, kind.name.lower(), shape, array.tobytes().hex()])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return {"metadata": metadata, "tensors": tensors}


for number in range(count):
    held = write(number, f"{folder}/{number}.gguf")
    with open(f"{folder}/{number}.json", "w", encoding="utf-8") as file:
        json.dump(held, file, ensure_ascii=False)
for name, endian in [("little", GGUFEndian.LITTLE), ("big", GGUFEndian.BIG)]:
    write(0, f"{folder}/{name}-endian.gguf", endian, PLAIN)
