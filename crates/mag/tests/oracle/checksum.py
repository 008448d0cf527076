"""Walks the records of a MAG file by the document, and prints both checksums and the end of the records."""
import struct
import sys
import zlib


def castagnoli_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


def crc32c(data, table=castagnoli_table()):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


with open(sys.argv[1], "rb") as file:
    data = file.read()
magic, version, stored, num_tensors, num_meta_kv, aux = struct.unpack_from("<4s5I", data)
assert (magic, version, aux) == (b"MAG!", 1, 0)
at = 24
for _ in range(num_meta_kv):
    at += 16 + struct.unpack_from("<I", data, at + 12)[0]
for _ in range(num_tensors):
    rank = data[at + 1]
    at += 24 + 8 * rank + struct.unpack_from("<I", data, at + 20 + 8 * rank)[0]
literal = zlib.crc32(data[:8] + bytes(4) + data[12:at])
print(stored, literal, crc32c(data[12:at]), at)
