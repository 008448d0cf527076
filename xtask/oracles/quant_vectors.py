#!/usr/bin/env python3
"""Writes testdata/quant/: blocks of ggml's quantized types, encoded by ggml's C, decoded by gguf-py.

Usage: target/oracles/bin/python xtask/oracles/quant_vectors.py [folder]      (after `cargo xtask oracles`)

Each file is for the type in its name, and holds n blocks. Everything is little-endian:

    values   f32, n blocks of them   what was encoded (only for the types that can be encoded)
    blocks   bytes                   their encoding; for the K-quants random bytes with sound scales
    decoded  f32                     the values of these blocks

gguf does not decode Q8_1 and Q8_K; their values are the product d * q, computed here. ggml's C decodes Q1_0 and
Q2_0, which gguf does not know yet. TYPE-encoded.bin holds values, and the K-quant blocks that ggml's C makes from
them.
"""

import ctypes
import pathlib
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Type, quants

# Type -> (largest magnitude, or span, in units of the scale; whether the block has a minimum)
ENCODED = {Type.Q4_0: (8, False), Type.Q4_1: (15, True), Type.Q5_0: (16, False), Type.Q5_1: (31, True), Type.Q8_0: (127, False)}
# Type -> the offsets of f16 (or, for Q8_K, f32) scales in a block
DECODED = {Type.Q2_K: (80, 82), Type.Q3_K: (108,), Type.Q4_K: (0, 2), Type.Q5_K: (0, 2), Type.Q6_K: (208,), Type.Q8_K: (0,)}
# Type -> (elements, bytes, offset of the scale). The blocks include infinite, NaN, subnormal and zero scales.
EDGED = {
    "q8_1": (32, 36, 0),
    "q1_0": (128, 18, 0),
    "q2_0": (64, 18, 0),
    **{
        kind.name.lower(): (*GGML_QUANT_SIZES[kind], offset)
        for kind, offset in {
            Type.TQ1_0: 52,
            Type.TQ2_0: 64,
            Type.MXFP4: None,
            Type.NVFP4: None,
            Type.IQ4_NL: 0,
            Type.IQ4_XS: 0,
            Type.IQ2_XXS: 0,
            Type.IQ2_XS: 0,
            Type.IQ2_S: 0,
            Type.IQ3_XXS: 0,
            Type.IQ3_S: 0,
            Type.IQ1_S: 0,
            Type.IQ1_M: None,
        }.items()
    },
}


def cases(rng, levels, has_minimum):
    """Makes blocks of 32 values: such as networks hold, and edge cases of the arithmetic."""
    for scale in (1e-5, 0.02, 1.0, 300.0):
        yield rng.standard_normal(32) * scale
    yield np.zeros(32)
    yield np.full(32, -0.0)
    yield np.where(np.arange(32) % 2, 0.0, -0.0)
    yield np.where(np.arange(32) % 2, -0.0, np.arange(32))
    yield np.full(32, 0.37)
    yield np.full(32, -0.37)
    yield rng.standard_normal(32) * 1e-41  # subnormal; the inverse of the scale is infinite
    yield rng.standard_normal(32) * 1e-36  # the scale rounds to 0 in f16
    yield rng.standard_normal(32) * 1e-5 * levels / 64  # the scale is subnormal in f16
    for outlier in (5.0, -5.0):
        yield np.where(np.arange(32) == 19, outlier, rng.standard_normal(32) * 1e-3)
    for first in (1.5, -1.5):  # the same magnitude twice: the first gives the scale its sign
        yield np.where(np.arange(32) == 6, first, np.where(np.arange(32) == 25, -first, rng.uniform(-1, 1, 32)))
    low, high = (0, levels) if has_minimum else (-levels, levels - 1)
    halves = rng.integers(2 * low, 2 * high, 32).astype(np.float32) / 2  # ties, because the scale is 1
    halves[[3, 17]] = low, high
    yield halves
    below = np.nextafter(halves, np.float32(0))
    below[[3, 17]] = low, high
    yield below
    ends = (-65504, -65504 + levels * 65519.0) if has_minimum else (-levels * 65519.0, levels * 65519.0 / 2)
    largest = rng.uniform(*ends, 32)  # just below the scale that f16 rounds to infinity
    largest[[30, 12]] = ends
    yield largest
    yield np.linspace(-1, 1, 32)


def random_blocks(rng, kind, offsets, count):
    blocks = rng.integers(0, 256, (count, GGML_QUANT_SIZES[kind][1]), dtype=np.uint8)
    scale = np.dtype("<f4" if kind == Type.Q8_K else "<f2")
    for offset in offsets:
        scales = (rng.standard_normal(count) * 0.01).astype(scale)
        blocks[:, offset : offset + scale.itemsize] = scales.view(np.uint8).reshape(count, -1)
    return blocks


def edged_blocks(rng, name):
    _, nbytes, offset = EDGED[name]
    blocks = rng.integers(0, 256, (6, nbytes), dtype=np.uint8)
    scales = np.array([0.0123, -1.5, np.inf, np.nan, 3e-6, -0.0], "<f2").view(np.uint8).reshape(6, 2)
    if offset is not None:
        blocks[:, offset : offset + 2] = scales
    elif name == "iq1_m":  # the scale is in the upper nibbles of four words
        for byte, nibble in ((49, scales[:, 0] & 15), (51, scales[:, 0] >> 4), (53, scales[:, 1] & 15), (55, scales[:, 1] >> 4)):
            blocks[:, byte] = (blocks[:, byte] & 15) | (nibble << 4)
    elif name == "mxfp4":
        blocks[:, 0] = 0, 1, 2, 120, 254, 255
    else:
        blocks[:, :4] = np.reshape([0, 1, 7, 8, 0x38, 0x7E, 0x7F, 0x80, 0x87, 0xB8, 0xFE, 0xFF, *range(0x20, 0x50, 4)], (6, 4))
    return blocks


def by_ggml(function, source, target, elements):
    library = ctypes.CDLL(pathlib.Path(sys.executable).parents[1] / "libggml-quants.so")
    pointer = lambda array: array.ctypes.data_as(ctypes.c_void_p)
    getattr(library, function)(pointer(source), pointer(target), ctypes.c_int64(elements))


def k_cases(rng):
    """Makes blocks of 256 values: such as networks hold, and edge cases of the search for scales."""
    for scale in (1e-5, 0.02, 300.0):
        yield rng.standard_normal(256) * scale
    yield rng.standard_normal(256) * 10.0 ** (np.arange(256) // 16 - 10)
    yield rng.standard_normal(256) ** 3
    yield rng.standard_normal(256) + 5
    yield rng.standard_normal(256) - 5
    yield np.where(np.arange(256) < 128, 0.0, rng.uniform(-1, 1, 256))
    yield np.where(np.arange(256) == 200, 70.0, rng.standard_normal(256) * 1e-3)
    yield np.zeros(256)
    yield np.full(256, -0.37)
    yield np.full(256, 0.37)
    yield rng.standard_normal(256) * 1e-41
    yield -1 - rng.integers(0, 8, 256) * 2.0**-23
    yield rng.integers(-16, 16, 256) / 4
    yield rng.uniform(-2e6, 2e6, 256)


def decode_edged(name, blocks):
    elements = EDGED[name][0]
    if name == "q8_1":
        d = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)
        return d * blocks[:, 4:].view(np.int8).astype(np.float32)
    if name in ("q1_0", "q2_0"):
        values = np.empty((len(blocks), elements), "<f4")
        by_ggml(f"dequantize_row_{name}", blocks, values, values.size)
        return values
    return quants.dequantize(blocks, Type[name.upper()])


def decode(kind, blocks):
    if kind != Type.Q8_K:
        return quants.dequantize(blocks, kind)
    d = np.ascontiguousarray(blocks[:, :4]).view("<f4")
    return d * blocks[:, 4:260].view(np.int8).astype(np.float32)


def main():
    here = pathlib.Path(__file__).resolve().parents[2]
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "testdata" / "quant"
    folder.mkdir(parents=True, exist_ok=True)
    for kind, (levels, has_minimum) in ENCODED.items():
        rng = np.random.default_rng(int(kind))
        values = np.stack([np.asarray(v, "<f4") for v in cases(rng, levels, has_minimum)])
        blocks = np.empty((len(values), GGML_QUANT_SIZES[kind][1]), np.uint8)
        by_ggml(f"quantize_row_{kind.name.lower()}_ref", values, blocks, values.size)
        with np.errstate(all="ignore"):
            by_gguf = quants.quantize(values, kind)
        # They may differ in blocks with a negative zero, and in no others.
        zeros = (values == 0).any(1) & np.signbit(np.where(values == 0, values, 1)).any(1)
        assert (blocks == by_gguf)[~zeros].all(), kind
        decoded = decode(kind, blocks)
        assert np.isfinite(decoded).all(), kind
        (folder / f"{kind.name.lower()}.bin").write_bytes(values.tobytes() + blocks.tobytes() + decoded.tobytes())
    for kind, offsets in DECODED.items():
        rng = np.random.default_rng(int(kind))
        blocks = random_blocks(rng, kind, offsets, 2)
        (folder / f"{kind.name.lower()}.bin").write_bytes(blocks.tobytes() + decode(kind, blocks).tobytes())
    for kind, reference in ((Type.Q4_K, "q4_K"), (Type.Q5_K, "q5_K"), (Type.Q6_K, "q6_K")):
        values = np.stack([np.asarray(v, "<f4") for v in k_cases(np.random.default_rng(100 + int(kind)))])
        blocks = np.empty((len(values), GGML_QUANT_SIZES[kind][1]), np.uint8)
        by_ggml(f"quantize_row_{reference}_ref", values, blocks, values.size)
        assert np.isfinite(quants.dequantize(blocks, kind)).all(), kind
        (folder / f"{kind.name.lower()}-encoded.bin").write_bytes(values.tobytes() + blocks.tobytes())
    for name in EDGED:
        blocks = edged_blocks(np.random.default_rng(sum(name.encode())), name)
        with np.errstate(all="ignore"):
            values = decode_edged(name, blocks)
        (folder / f"{name}.bin").write_bytes(blocks.tobytes() + values.tobytes())


if __name__ == "__main__":
    main()
