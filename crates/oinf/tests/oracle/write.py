"""Writes OINF files with openinfer-oinf: FOLDER/<n>.oinf, and its content as FOLDER/<n>.json."""

import dataclasses
import json
import math
import random
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
from dataclass_to_oinf import Bitset, ScalarValue, SizeVar, TensorSpec, UninitializedTensor, write_oinf

INTEGERS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": 8, "u16": 16, "u32": 32, "u64": 64}
FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
DTYPES = [*INTEGERS, *FLOATS, "bool"]
NUMPY = {"bool": np.bool_, **FLOATS, **{t: np.dtype(f"{t[0]}{int(t[1:]) // 8}") for t in INTEGERS}}
# The number of bits per element of the types 16 to 25. We call f8 f8_e5m2.
LATER = {"bf16": 16, "f8": 8, "i4": 4, "i2": 2, "i1": 1, "u4": 4, "u2": 2, "u1": 1, "t2": 2, "t1": 1}
CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"


@dataclasses.dataclass
class Model:
    """Three fields for names that are not Python identifiers."""

    sizevars: Any
    metadata: Any
    tensors: Any


def name(rng):
    return "".join(rng.choices(CHARACTERS, k=rng.choice([1, 2, 3, 4, 5, 11, 12, 13, 40])))


def names(rng, count):
    return list(dict.fromkeys(name(rng) for _ in range(count)))


def as_json(x):
    """Returns a number or boolean as `inspect --json` prints it."""
    if isinstance(x, float) and not math.isfinite(x):
        return "NaN" if math.isnan(x) else "Infinity" if x > 0 else "-Infinity"
    return x


def array(rng, dtype, shape):
    """Returns random bits, so floats are also subnormal, infinite, or NaN with payloads."""
    count = math.prod(shape)
    if dtype == "bool":
        return np.array([rng.random() < 0.5 for _ in range(count)], dtype=np.bool_).reshape(shape)
    size = np.dtype(NUMPY[dtype]).itemsize
    return np.frombuffer(rng.randbytes(count * size), dtype=NUMPY[dtype]).reshape(shape)


def later(rng, dtype):
    """Returns a code of a later type, and its number. The writer has a single NaN of f8, and no NaN of its own for bf16."""
    bits = LATER[dtype]
    code = rng.randrange(1 << bits)
    if dtype == "bf16":
        code = code if code & 0x7F80 != 0x7F80 else code & 0xFF80
        return code, struct.unpack("<f", struct.pack("<I", code << 16))[0]
    if dtype == "f8":
        code = 0x7D if code & 0x7C == 0x7C and code & 3 else code
        return code, float(np.frombuffer(bytes([0, code]), dtype="<f2")[0])
    if dtype == "t1":
        return code, 1 if code else -1
    if dtype == "t2" and code == 2:
        code = 3
    signed = dtype[0] in "it" and code >> (bits - 1)
    return code, code - (1 << bits) if signed else code


def later_array(rng, dtype, shape):
    """Returns numbers in an array, and the bytes that the writer packs them into."""
    pairs = [later(rng, dtype) for _ in range(math.prod(shape))]
    bits = LATER[dtype]
    stream = sum(code << (bits * number) for number, (code, _) in enumerate(pairs))
    packed = stream.to_bytes((bits * len(pairs) + 7) // 8, "little")
    kind = np.float32 if dtype in ("bf16", "f8") else np.int8
    return np.array([number for _, number in pairs], dtype=kind).reshape(shape), packed


def ours(dtype):
    return "f8_e5m2" if dtype == "f8" else dtype


def shape(rng):
    return tuple(rng.choice([0, 1, 1, 2, 3, 5]) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4])))


def scalar(rng, dtype):
    """Returns a value for the writer, and the number that a reader finds."""
    if dtype == "bool":
        value = rng.random() < 0.5
        return value, value
    if dtype in INTEGERS:
        bits = INTEGERS[dtype]
        low = -(1 << (bits - 1)) if dtype[0] == "i" else 0
        value = rng.choice([low, low + (1 << bits) - 1, 0, 1, rng.randrange(low, low + (1 << bits))])
        return value, value
    value = rng.choice([0.0, -0.0, 1.5, 0.1, -65504.0, 2.0**-24, math.inf, -math.inf, math.nan, rng.gauss(0, 1)])
    return value, float(FLOATS[dtype](value))


def value(rng):
    kind = rng.choice(["scalar", "scalar", "inferred", "str", "bitset", "ndarray", "ndarray", "later", "later array"])
    if kind.startswith("later"):
        dtype = rng.choice([*LATER])
        if kind == "later":
            _, number = later(rng, dtype)
            return ScalarValue(number, dtype=dtype), {"type": ours(dtype), "value": as_json(number)}
        given, _ = later_array(rng, dtype, shape(rng))
        flat = [as_json(x) for x in given.reshape(-1).tolist()]
        expected = {"type": "ndarray", "dtype": ours(dtype), "shape": list(given.shape), "value": flat}
        return ScalarValue(given, dtype=dtype), expected
    if kind == "scalar":
        dtype = rng.choice([t for t in DTYPES if t != "bool"])
        given, found = scalar(rng, dtype)
        return ScalarValue(given, dtype=dtype), {"type": dtype, "value": as_json(found)}
    if kind == "inferred":
        if rng.random() < 0.5:
            given, found = scalar(rng, "bool")
            return given, {"type": "bool", "value": found}
        given, found = scalar(rng, "f32")
        return given, {"type": "f32", "value": as_json(found)}
    if kind == "str":
        text = name(rng)
        return text, {"type": "str", "value": text}
    if kind == "bitset":
        bits = [rng.random() < 0.5 for _ in range(rng.choice([0, 1, 7, 8, 9, 31, 32, 33, 70]))]
        return Bitset(bits), {"type": "bitset", "value": bits}
    dtype = rng.choice(DTYPES)
    given = array(rng, dtype, shape(rng))
    flat = [as_json(x) for x in given.reshape(-1).tolist()]
    expected = {"type": "ndarray", "dtype": dtype, "shape": list(given.shape), "value": flat}
    return ScalarValue(given, dtype=dtype), expected


def tensor(rng, stored):
    dtype, dims = rng.choice([*DTYPES, *LATER]), shape(rng)
    expected = {"name": stored, "dtype": ours(dtype), "shape": list(dims)}
    if rng.random() < 0.2:
        return UninitializedTensor(dtype=dtype, shape=dims), {**expected, "values": None}
    if dtype in LATER:
        values, packed = later_array(rng, dtype, dims)
        return TensorSpec(values, dtype=dtype), {**expected, "values": packed.hex()}
    values = array(rng, dtype, dims)
    return TensorSpec(values), {**expected, "values": values.tobytes().hex()}


def model(seed):
    rng = random.Random(seed)
    # The first files have few entries. Each table is sometimes empty.
    many = [0, 1, 2] if seed < 20 else [3, 10, 30]
    sizevars = {key: rng.choice([0, 1, 2**64 - 1, rng.randrange(2**64)]) for key in names(rng, rng.choice(many))}
    metadata = {key: value(rng) for key in names(rng, rng.choice(many))}
    tensors = {key: tensor(rng, key) for key in names(rng, rng.choice(many))}
    instance = Model(
        sizevars={key: SizeVar(n) if rng.random() < 0.5 else n for key, n in sizevars.items()},
        metadata={key: given for key, (given, _) in metadata.items()},
        tensors={key: given for key, (given, _) in tensors.items()},
    )
    expected = {
        "sizevars": dict(sorted(sizevars.items())),
        "metadata": {key: found for key, (_, found) in sorted(metadata.items())},
        "tensors": [found for _, (_, found) in sorted(tensors.items())],
    }
    return instance, expected


@dataclasses.dataclass
class Fields:
    """Fields instead of dictionaries. The stored names sort like the fields."""

    B: int
    D: SizeVar
    W_0: TensorSpec
    a: Any
    eps: float
    kernel: UninitializedTensor
    mode: str
    on: bool


def fields():
    instance = Fields(
        B=1024,
        D=SizeVar(3),
        W_0=TensorSpec([1.0, 2.0, -3.5], dtype="f32", name="W.0"),
        a=np.array([[1, 2], [3, 4]], dtype=np.int16),
        eps=1e-5,
        kernel=UninitializedTensor(dtype="u8", shape=(3, 3)),
        mode="clamp_up",
        on=True,
    )
    eps = struct.unpack("<f", struct.pack("<f", 1e-5))[0]
    expected = {
        "sizevars": {"B": 1024, "D": 3},
        "metadata": {
            "eps": {"type": "f32", "value": eps},
            "mode": {"type": "str", "value": "clamp_up"},
            "on": {"type": "bool", "value": True},
        },
        "tensors": [
            {"name": "W.0", "dtype": "f32", "shape": [3], "values": struct.pack("<3f", 1, 2, -3.5).hex()},
            {"name": "a", "dtype": "i16", "shape": [2, 2], "values": struct.pack("<4h", 1, 2, 3, 4).hex()},
            {"name": "kernel", "dtype": "u8", "shape": [3, 3], "values": None},
        ],
    }
    return instance, expected


def main(folder, count):
    for number in range(int(count)):
        instance, expected = fields() if number == 0 else model(number)
        write_oinf(instance, str(Path(folder) / f"{number}.oinf"))
        text = json.dumps(expected, allow_nan=False)
        (Path(folder) / f"{number}.json").write_text(text, encoding="utf-8")


main(*sys.argv[1:])
