"""Writes APR2 files by the specification, with only the standard library, and the content of each as a JSON file."""
import json
import random
import struct
import sys
import zlib

DTYPES = {"f32": (0, 1, 4), "f16": (1, 1, 2), "bf16": (2, 1, 2), "i8": (3, 1, 1), "i16": (4, 1, 2), "i32": (5, 1, 4),
          "i64": (6, 1, 8), "u8": (7, 1, 1), "q8_0": (16, 32, 34), "q4_0": (17, 32, 18), "q4_1": (18, 32, 20),
          "q5_0": (19, 32, 22), "q5_1": (20, 32, 24)}


def count(n):
    return bytes([255] * (n // 255) + [n % 255])


def sequence(literals, match=None):
    token = min(len(literals), 15) << 4
    out = count(len(literals) - 15) if len(literals) >= 15 else b""
    out += literals
    if match:
        distance, length = match
        token |= min(length - 4, 15)
        out += struct.pack("<H", distance)
        if length - 4 >= 15:
            out += count(length - 4 - 15)
    return bytes([token]) + out


def lz4_block(values, rng):
    """Compresses values into an LZ4 block. Finds matches with a table of earlier positions, and randomly skips some."""
    out, seen, start, at = b"", {}, 0, 0
    while at + 12 < len(values):
        key = values[at:at + 4]
        before, seen[key] = seen.get(key), at
        if before is None or rng.random() < 0.1:
            at += 1
            continue
        length = 4
        while at + length < len(values) - 5 and values[before + length] == values[at + length]:
            length += 1
        if at - before > 65535:
            at += 1
            continue
        out += sequence(values[start:at], (at - before, length))
        at += length
        start = at
    return out + sequence(values[start:])


def blocks(values, rng):
    out = b""
    for at in range(0, len(values), 65536):
        block = lz4_block(values[at:at + 65536], rng)
        out += struct.pack("<I", len(block)) + block
    return out


def write(path, rng):
    alignment = rng.choice([64, 32, 1])
    entries, data, tensors, flags = b"", b"", [], {64: 2, 32: 4, 1: 0}[alignment]
    for number in range(rng.randrange(6)):
        dtype = rng.choice(list(DTYPES))
        code, elements, nbytes = DTYPES[dtype]
        shape = [rng.randrange(4) for _ in range(rng.randrange(7))] + [elements * rng.choice([1, 2, 700])]
        size = nbytes // elements if elements == 1 else nbytes
        total = size
        for dim in shape:
            total *= dim
        total //= elements
        values = rng.randbytes(total) if rng.random() < 0.5 else bytes(rng.choice(b"ab") for _ in range(total))
        data += bytes(-len(data) % alignment)
        stored, raw_size = values, 0
        if values and rng.random() < 0.6:
            stored, raw_size = blocks(values, rng), len(values)
            flags |= 1
        if code >= 16:
            flags |= 64
        name = rng.choice(["w", "重み", "layer.weight "]) + str(number)
        encoded = name.encode()
        entries += struct.pack("<H", len(encoded)) + encoded + bytes([code, len(shape)])
        entries += struct.pack(f"<{len(shape)}Q", *shape)
        entries += struct.pack("<QQQI", len(data), len(stored), raw_size, int(raw_size != 0))
        data += stored
        tensors.append({"name": name, "dtype": dtype, "shape": shape, "values": values.hex()})
    metadata = {"model_type": "x", "architecture": {"n": rng.randrange(1 << 60)}, "apr_version": "2.0.0"}
    text = json.dumps(metadata, indent=rng.choice([None, 2])).encode()
    index = struct.pack("<II", len(tensors), 0) + entries
    gap = rng.choice([0, 0, 5])
    index_offset = 32 + len(text) + gap
    data_offset = -(-(index_offset + len(index)) // 64) * 64
    file = struct.pack("<4sHHIIIIII", b"APR2", 2, 0, flags, 32, len(text), index_offset, len(index), data_offset)
    file += text + bytes(gap) + index
    file += bytes(data_offset - len(file)) + data
    file += struct.pack("<I4sQ", zlib.crc32(file), b"2RPA", len(file) + 16)
    open(path + ".apr", "wb").write(file)
    json.dump({"metadata": metadata, "tensors": tensors}, open(path + ".json", "w"))


for number in range(int(sys.argv[2])):
    write(f"{sys.argv[1]}/{number}", random.Random(number))
