"""Reads APR2 files by the specification, with only the standard library, and prints their content as JSON."""
import json
import struct
import sys
import zlib

NAMES = {0: "f32", 1: "f16", 2: "bf16", 3: "i8", 4: "i16", 5: "i32", 6: "i64", 7: "u8",
         16: "q8_0", 17: "q4_0", 18: "q4_1", 19: "q5_0", 20: "q5_1"}
BITS = {"COMPRESSED": 1, "ALIGNED_64": 2, "ALIGNED_32": 4, "SHARDED": 8, "QUANTIZED": 64, "STREAMING": 128}


def read(path):
    data = open(path, "rb").read()
    magic, major, minor, flags, *rest = struct.unpack_from("<4sHHIIIIII", data)
    metadata_offset, metadata_size, index_offset, index_size, data_offset = rest
    assert (magic, major, minor, metadata_offset) == (b"APR2", 2, 0, 32)
    assert index_offset == 32 + metadata_size and data_offset % 64 == 0
    crc, end, size = struct.unpack("<I4sQ", data[-16:])
    assert (crc, end, size) == (zlib.crc32(data[:-16]), b"2RPA", len(data))
    text = data[32:index_offset].decode()
    metadata = json.loads(text)
    assert text == json.dumps(metadata, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    count, reserved = struct.unpack_from("<II", data, index_offset)
    at, tensors, last = index_offset + 8, [], data_offset
    compressed = quantized = False
    for _ in range(count):
        (length,) = struct.unpack_from("<H", data, at)
        name = data[at + 2:at + 2 + length].decode()
        at += 2 + length
        dtype, rank = data[at], data[at + 1]
        shape = struct.unpack_from(f"<{rank}Q", data, at + 2)
        offset, size, raw_size, bits = struct.unpack_from("<QQQI", data, at + 2 + 8 * rank)
        at += 2 + 8 * rank + 28
        assert offset % (64 if flags & 2 else 32) == 0 and bits == (raw_size != 0)
        stored = data[data_offset + offset:data_offset + offset + size]
        assert data_offset + offset >= last and not any(data[last:data_offset + offset])
        last = data_offset + offset + size
        compressed |= raw_size != 0
        quantized |= dtype >= 16
        values = decompressed(stored, raw_size) if raw_size else stored
        tensors.append({"name": name, "dtype": NAMES[dtype], "shape": shape, "values": values.hex()})
    assert (at, reserved, last) == (index_offset + index_size, 0, len(data) - 16)
    names = [name for name, bit in BITS.items() if flags & bit]
    assert ("COMPRESSED" in names, "QUANTIZED" in names) == (compressed, quantized)
    return {"flags": names, "metadata": metadata, "tensors": tensors}


print(json.dumps([read(path) for path in sys.argv[1:]]))
