"""LZ4 blocks of APR2, written from the specification with only the standard library."""
import struct


def lz4_block(block):
    out, at = bytearray(), 0
    while True:
        token = block[at]
        at += 1
        literals = token >> 4
        if literals == 15:
            while block[at] == 255:
                literals, at = literals + 255, at + 1
            literals, at = literals + block[at], at + 1
        out += block[at:at + literals]
        at += literals
        if at == len(block):
            return bytes(out)
        (distance,) = struct.unpack_from("<H", block, at)
        at += 2
        length = token & 15
        if length == 15:
            while block[at] == 255:
                length, at = length + 255, at + 1
            length, at = length + block[at], at + 1
        assert 0 < distance <= len(out)
        for _ in range(length + 4):
            out.append(out[-distance])


def decompressed(stored, raw_size):
    out, at = bytearray(), 0
    while at < len(stored):
        (size,) = struct.unpack_from("<I", stored, at)
        block = lz4_block(stored[at + 4:at + 4 + size])
        assert len(block) == min(65536, raw_size - len(out))
        out += block
        at += 4 + size
    assert (at, len(out)) == (len(stored), raw_size)
    return bytes(out)
